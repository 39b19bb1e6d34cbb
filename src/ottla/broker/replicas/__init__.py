"""Partitions as replicas: which role each has here, followers' fetches on both sides, the ISR's changes.

`manager.py` gives roles as the metadata say. A leader serves its followers in `fetch_service.py` and asks the
controller for changes of the ISR in `isr_changes.py`; a follower copies in `fetcher.py`, over `link.py`. The
rules are in `ottla.replication`: here are only sockets, logs and timers.
"""
