"""One module per Kafka API, and the dispatch of requests to them."""
