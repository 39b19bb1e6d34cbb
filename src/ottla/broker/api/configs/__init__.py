"""APIs about the configuration of topics, brokers and groups."""
