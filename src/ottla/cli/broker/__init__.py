"""`ottla serve` and `ottla format`."""
