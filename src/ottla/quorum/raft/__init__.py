"""KRaft's variant of Raft: followers fetch. `machine.RaftMachine` uses no disk, network or clock."""
