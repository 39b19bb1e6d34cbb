"""Pipelines on Spark: one YAML file names sources, steps and sinks; this room checks it, builds it and runs it."""
