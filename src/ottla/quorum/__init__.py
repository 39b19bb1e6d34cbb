"""The metadata quorum: Raft, and the metadata log with its snapshots and its state file."""
