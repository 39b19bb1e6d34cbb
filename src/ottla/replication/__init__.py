"""Replication of partitions as pure machines: leader, follower, and the fetches between them.

`leader.py` and `follower.py` hold one partition each, `fetch_plan.py` the conversation of a follower broker
with one leader broker about many of them, `throttle.py` the quota that limits the bandwidth of reassignments.
Offsets in, decisions out: the broker reads, writes and sends.
"""
