"""Helpers of the client's tests: brokers that fail on demand, and one interface to both shells."""
