"""Harness for the group coordinator's state machine."""
