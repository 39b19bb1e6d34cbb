"""Threads for work that may block, separate for each purpose: a slow disk delays only what lives on it.

    raft                       flushes and votes of the metadata log
    node                       opens all logs at start, closes them at the end
    of(log_dir).flush          fsyncs of partition logs, and changes that end with one (truncation, deletion)
    of(log_dir).read           reads of data that is not in the page cache
    of(log_dir).background     compaction, checkpoints, metadata snapshots, removal of files

An executor starts its threads when it gets work, and keeps them. Its queue has no bound: whoever submits
limits what is in flight, as `Flusher` does.

Lowest layer of `ottla.broker`: every other layer may import it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import NamedTuple

RAFT_THREADS = 2  # a vote does not wait for a flush
FLUSH_THREADS = 4  # per log directory; `FlushQueue` uses three, so a truncation finds one
READ_THREADS = 2  # per log directory
BACKGROUND_THREADS = 1  # per log directory

# From a name and a number of threads. The simulator passes its own.
ExecutorFactory = Callable[[str, int], Executor]


def thread_pool(name: str, threads: int) -> Executor:
    return ThreadPoolExecutor(threads, thread_name_prefix=f"ottla-{name}")


class DirectoryThreads(NamedTuple):
    """The executors of one log directory."""

    flush: Executor
    read: Executor
    background: Executor


class IoThreads:
    def __init__(self, log_dirs: Iterable[str], make_executor: ExecutorFactory = thread_pool) -> None:
        """`log_dirs`: the paths of the log directories."""
        self.raft = make_executor("raft", RAFT_THREADS)
        self.node = make_executor("node", 1)
        self._of_directory = {
            path: DirectoryThreads(
                make_executor(f"flush-{number}", FLUSH_THREADS),
                make_executor(f"read-{number}", READ_THREADS),
                make_executor(f"background-{number}", BACKGROUND_THREADS),
            )
            for number, path in enumerate(log_dirs)
        }

    def of(self, log_dir: str) -> DirectoryThreads:
        """The executors of the log directory with this path."""
        return self._of_directory[log_dir]

    def shutdown(self, *, wait: bool = True) -> None:
        for executor in (self.raft, self.node, *(each for of in self._of_directory.values() for each in of)):
            executor.shutdown(wait=wait)
