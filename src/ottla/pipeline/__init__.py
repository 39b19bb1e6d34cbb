"""Pipelines on Spark: a YAML file of sources, steps and sinks, validated and run as streaming queries."""
