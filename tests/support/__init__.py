"""Helpers that tests share; import them as `tests.support`."""
