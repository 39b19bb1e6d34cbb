"""The partition log on disk: segments, indexes, producer state, recovery, retention."""
