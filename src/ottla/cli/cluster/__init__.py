"""`ottla cluster`: several brokers on this machine, and the status of a cluster."""
