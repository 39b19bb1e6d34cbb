"""The partitions of this broker and their replication.

`partition.py` is one partition, `partition_table.py` all of them, `partition_lifecycle.py` creates and drops
them. `manager.py` assigns roles as the metadata say. A leader serves its followers in `follower_fetch.py` and
requests ISR changes in `isr_changes.py`; a follower copies in `fetcher.py`. The rules are in
`ottla.replication`. `flusher.py`, `log_maintenance.py` and `cleaner.py` work on the logs.
"""
