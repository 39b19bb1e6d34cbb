"""Harness for the transaction coordinator's state machine."""
