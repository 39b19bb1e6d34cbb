"""Schemas given as text, Spark DDL or Avro JSON, as Spark and Arrow types."""
