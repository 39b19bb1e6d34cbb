"""Producer state: sequence numbers, epochs and open transactions of the producers of one log."""
