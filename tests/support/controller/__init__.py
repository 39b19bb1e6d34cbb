"""Harness for the decisions of the controller."""
