"""The reading side of the data source: batch and streaming queries."""
