"""The fuzzer: recorded requests, mutations of them, and a broker process that is checked after each round.

Used by `python -m fuzzing` and by the tests of bad input.
"""
