"""Tests. Helpers that they share are in `tests.support`."""
