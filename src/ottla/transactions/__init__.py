"""Transactions without sockets, clock or randomness: records and requests in, outcomes out.

`shard.TransactionShard` is one partition of __transaction_state. `marker_queue.MarkerQueue` sends the markers
of its outcomes to the partition leaders. `partition` is the leaders' side: which writes the coordinator must
verify first, and which markers are late.
"""
