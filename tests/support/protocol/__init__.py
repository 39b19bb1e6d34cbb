"""Samples of messages and an independent decoder."""
