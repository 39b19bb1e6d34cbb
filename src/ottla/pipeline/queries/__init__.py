"""The streaming queries of a pipeline: building, running, progress and state."""
