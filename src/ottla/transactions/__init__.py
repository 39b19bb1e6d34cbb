"""Transactions without sockets, clock or randomness: records and requests in, outcomes out.

`shard.TransactionShard` is one partition of __transaction_state. `marker_queue.MarkerQueue` brings the
markers that its outcomes ask for to the leaders. `partition` is the part of those leaders: which writes need
the coordinator's word first, and which markers are too late.
"""
