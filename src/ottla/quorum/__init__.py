"""The metadata quorum: today one voter, its log, its snapshots and its state file."""
