"""`ottla lake`."""
