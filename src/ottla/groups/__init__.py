"""Consumer groups as a pure machine: classic and KIP-848 membership, offsets, and rebalance history.

One GroupShard is one partition of __consumer_offsets. Requests and timers are decided into records, applied
at once, and answered when the records are committed; a load is a replay of the records.
"""
