"""Measure the speed and the memory use of the broker on this machine: `python -m bench`, or `make bench`."""
