"""Pipelines on Spark: one YAML file names sources, steps and sinks; this room checks, builds and runs it."""
