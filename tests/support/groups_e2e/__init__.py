"""Consumer groups of real processes."""
