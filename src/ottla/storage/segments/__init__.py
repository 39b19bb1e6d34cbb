"""Log segments: a file of batches with its indexes, and the ordered list of segments of a log."""
