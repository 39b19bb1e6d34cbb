"""Raft as KRaft does it: followers fetch, and `machine.RaftMachine` decides without disk, net or clock."""
