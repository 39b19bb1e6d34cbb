"""One module per Kafka API, and what carries a request to its handler."""
