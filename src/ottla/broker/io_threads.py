"""Threads for work that may block, separate for each purpose: a slow disk delays only what lives on it.

    raft                       flushes and votes of the metadata log
    node                       opens all logs at start, closes them at the end
    of(log_dir).flush          fsyncs of partition logs, and changes that end with one (truncation, deletion)
    of(log_dir).read           reads of data that is not in the page cache
    of(log_dir).background     compaction, checkpoints, metadata snapshots, removal of files
    of(log_dir).probe          whether the disk answers

An executor starts its threads when it gets work, and keeps them. Its queue has no bound: whoever submits
limits what is in flight, as `Flusher` does. `DirectoryThreads.run` remembers what is in flight: a disk that
does not answer is noticed by what waits for it.

Lowest layer of `ottla.broker`: every other layer may import it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")

RAFT_THREADS = 2  # a vote does not wait for a flush
FLUSH_THREADS = 4  # per log directory; `FlushQueue` uses three, so a truncation finds one
READ_THREADS = 2  # per log directory
BACKGROUND_THREADS = 1  # per log directory

# From a name and a number of threads. The simulator passes its own.
ExecutorFactory = Callable[[str, int], Executor]


def thread_pool(name: str, threads: int) -> Executor:
    return ThreadPoolExecutor(threads, thread_name_prefix=f"ottla-{name}")


class DirectoryThreads:
    """The executors of one log directory."""

    def __init__(self, name: str, make_executor: ExecutorFactory) -> None:
        self.flush = make_executor(f"flush-{name}", FLUSH_THREADS)
        self.read = make_executor(f"read-{name}", READ_THREADS)
        self.background = make_executor(f"background-{name}", BACKGROUND_THREADS)
        self.probe = make_executor(f"probe-{name}", 1)
        self._began_s: dict[asyncio.Future[Any], float] = {}  # what is in flight, oldest first

    def executors(self) -> tuple[Executor, ...]:
        return self.flush, self.read, self.background, self.probe

    def run(self, executor: Executor, work: Callable[[], Result]) -> asyncio.Future[Result]:
        """Run `work` in one of these executors."""
        loop = asyncio.get_running_loop()
        job = loop.run_in_executor(executor, work)
        self._began_s[job] = loop.time()
        job.add_done_callback(self._done)
        return job

    def _done(self, job: asyncio.Future[Any]) -> None:
        del self._began_s[job]

    def longest_wait_s(self) -> float:
        """For how long the oldest job has been in flight; 0 if there is none."""
        for began_s in self._began_s.values():
            return asyncio.get_running_loop().time() - began_s
        return 0.0


class IoThreads:
    def __init__(self, log_dirs: Iterable[str], make_executor: ExecutorFactory = thread_pool) -> None:
        """`log_dirs`: the paths of the log directories."""
        self.raft = make_executor("raft", RAFT_THREADS)
        self.node = make_executor("node", 1)
        self._of_directory = {
            path: DirectoryThreads(str(number), make_executor) for number, path in enumerate(log_dirs)
        }

    def of(self, log_dir: str) -> DirectoryThreads:
        """The executors of the log directory with this path."""
        return self._of_directory[log_dir]

    def shutdown(self, *, wait: bool = True) -> None:
        directories = self._of_directory.values()
        for executor in (self.raft, self.node, *(each for of in directories for each in of.executors())):
            executor.shutdown(wait=wait)
