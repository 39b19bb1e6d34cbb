"""Files of a simulated process: modification times from the node's clock, operations that take time, and a
process that can run out of descriptors.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from ottla.storage.files import Bytes, File, SyncHandle
from ottla.storage.files.os_files import storage_error
from ottla.testing.files import FaultyFile, FaultyFiles, FaultySyncHandle
from simulator.runtime.loop import Process

SYNC = "sync"  # fsync of a file or directory
READ = "read"
WRITE = "write"
NAMES = "names"  # create, rename, remove, list
ALL = (SYNC, READ, WRITE, NAMES)


class Slowness(NamedTuple):
    """Of a directory: the time that an operation of each kind takes, or until when it hangs."""

    range_ms: Mapping[str, tuple[float, float]] = MappingProxyType({})
    hangs_until_ns: int = 0
    hanging: tuple[str, ...] = ALL


class SimulatedSyncHandle(FaultySyncHandle):
    __slots__ = ()

    def sync(self) -> None:
        files = self._files
        assert isinstance(files, SimulatedFiles)
        files.costs(self._path, SYNC)
        super().sync()


class SimulatedFile(FaultyFile):
    """Opened by its first operation, which needs a descriptor."""

    __slots__ = ("_is_open", "_simulated")

    def __init__(self, files: SimulatedFiles, path: str) -> None:
        super().__init__(files, path)
        self._simulated = files
        self._is_open = False

    def _use(self, kind: str) -> None:
        if not self._is_open:
            self._simulated.need_descriptor(self.path)
            self._is_open = True
        self._simulated.costs(self.path, kind)

    def append(self, data: Bytes) -> None:
        self._use(WRITE)
        super().append(data)

    def read(self, position: int, nbytes: int) -> bytes:
        self._use(READ)
        return super().read(position, nbytes)

    def truncate(self, nbytes: int) -> None:
        self._use(WRITE)
        super().truncate(nbytes)

    def sync(self) -> None:
        self._use(SYNC)
        self._existing()
        FaultySyncHandle(self._files, self.path, self._existing()).sync()

    def sync_handle(self) -> SyncHandle:
        self._simulated.need_descriptor(self.path)  # a duplicate
        handle = SimulatedSyncHandle(self._files, self.path, self._existing())
        self._files.handles.append(handle)
        return handle

    def close(self) -> None:
        self._is_open = False


class SimulatedFiles(FaultyFiles):
    """`process`: whose operations cost time; those of the harness are free."""

    __slots__ = ("_clock", "_cost_ns", "process")

    def __init__(self, clock: Callable[[], int], cost_ns: Callable[[str, str], int]) -> None:
        self._clock = clock
        self._cost_ns = cost_ns
        self.process: Process | None = None
        super().__init__()

    @property
    def now_ms(self) -> int:
        return self._clock()

    @now_ms.setter
    def now_ms(self, value: int) -> None:
        """Set by the base class only."""

    # -- faults

    def costs(self, path: str, kind: str) -> None:
        """The operation blocks the thread of the process that runs it."""
        process = self.process
        if process is not None and process.alive and process.is_running():
            cost_ns = self._cost_ns(path, kind)
            if cost_ns:
                process.charge(cost_ns)

    def need_descriptor(self, path: str) -> None:
        process = self.process
        if process is not None and process.out_of_descriptors and process.is_running():
            raise storage_error(path, OSError(errno.EMFILE, "Too many open files"))

    def open_handles(self) -> int:
        """Number of sync handles that are neither used nor closed: each holds a descriptor."""
        self.handles = [handle for handle in self.handles if not handle.closed]
        return len(self.handles)

    # -- Files

    def open(self, path: str) -> File:
        return SimulatedFile(self, path)

    def create(self, path: str) -> File:
        self.need_descriptor(path)
        self.costs(path, NAMES)
        super().create(path)
        return SimulatedFile(self, path)

    def listdir(self, path: str) -> list[str]:
        self.need_descriptor(path)
        self.costs(path, NAMES)
        return super().listdir(path)

    def rename(self, path: str, new_path: str) -> None:
        self.costs(path, NAMES)
        super().rename(path, new_path)

    def remove(self, path: str) -> None:
        self.costs(path, NAMES)
        super().remove(path)

    def read_bytes(self, path: str) -> bytes | None:
        self.need_descriptor(path)
        self.costs(path, READ)
        return super().read_bytes(path)

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self.need_descriptor(path)
        self.costs(path, SYNC if durable else NAMES)
        super().write_atomic(path, data, durable=durable)

    def sync_dir(self, path: str) -> None:
        self.need_descriptor(path)
        self.costs(path, SYNC)
        super().sync_dir(path)

    def sync_filesystem(self, path: str) -> None:
        self.costs(path, SYNC)
        super().sync_filesystem(path)
