"""APIs about topics and partitions."""
