"""The pipeline file: YAML parsing, the model and static validation. Nothing here needs Spark."""
