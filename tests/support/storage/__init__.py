"""Logs to be cleaned."""
