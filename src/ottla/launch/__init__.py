"""Starting brokers: the event loop, and the plan of a cluster on one machine. Used by `cli` and `testing`."""
