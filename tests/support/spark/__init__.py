"""Drivers and examples for tests of the Spark source and sink."""
