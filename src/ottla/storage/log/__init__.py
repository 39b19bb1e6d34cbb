"""The log of one partition.

open_log.py       opens or creates a log: loads what is on disk, composes a PartitionLog of it
partition_log.py  PartitionLog: offsets, append path, and coordination of the parts
append.py         preparation of appends: stamping, checks of replicated batches, group appends
reader.py         LogReader: reading batches by offset
lookup.py         lookups by timestamp, aborted transactions of a range
durability.py     Durability: recovery point, and what has to be synced to move it
flush_job.py      FlushJob: the part of a flush that runs off the event loop
leader_epochs.py  LeaderEpochs: leader epoch -> start offset, `leader-epoch-checkpoint`
retention.py      which segments retention may delete
removals.py       DelayedRemovals: files that wait for file.delete.delay.ms
recovery.py       loading a directory after a clean or an unclean shutdown
region.py         FileRegion: a range of a segment file that is sent to a client
"""

from ottla.storage.log.append import AppendResult
from ottla.storage.log.open_log import open_log
from ottla.storage.log.partition_log import PartitionLog

__all__ = ["AppendResult", "PartitionLog", "open_log"]
