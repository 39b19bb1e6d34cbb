"""Mutants of the broker and runs of the simulator in other processes."""
