"""Real brokers for tests: a cluster as a context manager and pytest fixtures."""
