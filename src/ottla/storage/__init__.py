"""Partition logs on disk: files, segments, indexes, producer state, recovery, retention, compaction."""
