"""Wire codec: primitives, messages, error codes, the API table."""
