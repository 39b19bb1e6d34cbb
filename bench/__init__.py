"""Measures speed and size of the broker on this machine: `python -m bench`, or `make bench`."""
