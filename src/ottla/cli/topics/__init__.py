"""`ottla topic` and `ottla partition`."""
