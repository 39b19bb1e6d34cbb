"""Decoding of record keys and values into Arrow columns: JSON, Avro and strings."""
