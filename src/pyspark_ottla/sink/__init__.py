"""The writing side of the data source, with at-least-once or exactly-once delivery."""
