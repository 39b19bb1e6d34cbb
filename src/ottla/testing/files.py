"""An in-memory file system with faults: lost unsynced data, torn writes, flipped bits, a full disk.

    files = FaultyFiles()
    ...                                  use it as `Files`
    files.crash(rng)                     a power cut; reopen all files afterwards
    files.flip_bit(path, position)       bit rot
    files.fail_under("/data")            every access below fails with an I/O error
    files.bad_sectors[path] = position   reads of this byte fail with an I/O error
    files.room_bytes = 0                 the disk is full

The model is pessimistic: data is durable only after a sync, names only after a sync of their directory. A
sync handle covers the data at the time the handle was taken, not later writes. With a random generator a
crash keeps an arbitrary part of unsynced data; without one it loses all of it. The same calls with the same
generator always leave the same state.
"""

from __future__ import annotations

import random
import threading

from ottla.storage.errors import DirectoryInUse, DiskFull, StorageError
from ottla.storage.files import Bytes, File, Files, Lock, SyncHandle

SECTOR_BYTES = 512
HANG_SECONDS_MAX = 60


class _Node:
    """One file: its visible content, and what a crash leaves."""

    __slots__ = ("cuts", "data", "durable", "modified_ms")

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = b""
        self.modified_ms = 0
        self.cuts = 0  # number of truncations

    def copy(self) -> _Node:
        copy = _Node()
        copy.data += self.data
        copy.durable = self.durable
        copy.modified_ms = self.modified_ms
        return copy


class FaultySyncHandle(SyncHandle):
    __slots__ = ("_cuts", "_files", "_nbytes", "_node", "_path", "closed")

    def __init__(self, files: FaultyFiles, path: str, node: _Node) -> None:
        self._files = files
        self._path = path
        self._node = node
        self._nbytes = len(node.data)
        self._cuts = node.cuts
        self.closed = False

    def sync(self) -> None:
        self.closed = True
        self._files.check(self._path, syncing=True)
        node = self._node
        if node.cuts != self._cuts:
            node.durable = bytes(node.data)  # its length at that time is void
        elif self._nbytes > len(node.durable) or not node.data.startswith(node.durable):
            node.durable = bytes(node.data[: self._nbytes])

    def close(self) -> None:
        self.closed = True


class FaultyFile(File):
    __slots__ = ("_files",)

    def __init__(self, files: FaultyFiles, path: str) -> None:
        self.path = path
        self._files = files

    @property
    def size(self) -> int:
        node = self._files.nodes.get(self.path)
        return len(node.data) if node else 0

    def _existing(self) -> _Node:
        self._files.check(self.path)
        node = self._files.nodes.get(self.path)
        if node is None:
            raise StorageError(self.path, "No such file or directory")
        return node

    def append(self, data: Bytes) -> None:
        self._files.check(self.path)
        node = self._files.make(self.path)
        self._files.take_room(self.path, len(data))
        node.data += data
        node.modified_ms = self._files.now_ms

    def read(self, position: int, nbytes: int) -> bytes:
        node = self._existing()
        self._files.reads += 1
        if position <= self._files.bad_sectors.get(self.path, -1) < position + nbytes:
            raise StorageError(self.path, "Input/output error")
        return bytes(node.data[position : position + nbytes])

    def truncate(self, nbytes: int) -> None:
        self._files.wait_for_disk(self.path)
        self._files.check(self.path)
        node = self._files.make(self.path)
        self._files.give_room(len(node.data) - nbytes)
        node.cuts += 1
        del node.data[nbytes:]
        node.data.extend(bytes(nbytes - len(node.data)))

    def sync(self) -> None:
        self._existing()
        self.sync_handle().sync()

    def sync_handle(self) -> SyncHandle:
        handle = FaultySyncHandle(self._files, self.path, self._existing())
        self._files.handles.append(handle)
        return handle

    def rename(self, new_path: str) -> None:
        self._files.rename(self.path, new_path)
        self.path = new_path

    def moved(self, new_path: str) -> None:
        self.path = new_path

    def close(self) -> None:
        return None

    def sendfile(self, to_fileno: int, position: int, nbytes: int) -> int:
        raise OSError("an in-memory file has no descriptor: read the region instead")


class FaultyLock(Lock):
    __slots__ = ("_files", "_path")

    def __init__(self, files: FaultyFiles, path: str) -> None:
        self._files = files
        self._path = path

    def release(self) -> None:
        self._files.locks.discard(self._path)


class FaultyFiles(Files):
    """See the module. `room_bytes`: free space, None for no limit. `reads`: number of File.read calls."""

    __slots__ = (
        "_durable_dirs",
        "_durable_names",
        "_failing",
        "_failing_syncs",
        "_hanging",
        "bad_sectors",
        "dirs",
        "handles",
        "locks",
        "nodes",
        "now_ms",
        "reads",
        "room_bytes",
    )

    def __init__(self) -> None:
        self.nodes: dict[str, _Node] = {}
        self.dirs: set[str] = {"", "/"}
        self.locks: set[str] = set()
        self.handles: list[FaultySyncHandle] = []
        self.room_bytes: int | None = None
        self.bad_sectors: dict[str, int] = {}
        self.now_ms = 0
        self.reads = 0
        self._durable_names: dict[str, _Node] = {}
        self._durable_dirs: set[str] = {"", "/"}
        self._failing: list[str] = []
        self._failing_syncs: list[str] = []
        self._hanging: dict[str, threading.Event] = {}

    # -- faults ----------------------------------------------------------------------------------------------

    def crash(self, rng: random.Random | None = None) -> None:
        """Simulate a power cut: only synced data is certain to remain."""
        nodes = dict(self._durable_names)
        if rng is not None:
            # The file system may have written names on its own.
            for path, node in self.nodes.items():
                if path not in nodes and rng.random() < 0.5:
                    nodes[path] = node
                    self._make_durable_dirs(path)
        for node in dict.fromkeys(nodes.values()):  # a set would have a different order in each run
            node.data = bytearray(_left_after_crash(node, rng))
            node.durable = bytes(node.data)
        self._durable_dirs = {name for name in self._durable_dirs if self._is_reachable(name)}
        self.dirs = set(self._durable_dirs)
        self.nodes = {path: node for path, node in nodes.items() if path.rpartition("/")[0] in self.dirs}
        self._durable_names = dict(self.nodes)
        self.locks.clear()
        self.handles.clear()

    def synced_bytes(self) -> dict[_Node, int]:
        """Number of bytes of each file that a crash cannot affect."""
        return {node: len(node.durable) for node in (*self.nodes.values(), *self._durable_names.values())}

    def hand_over_to(self, successor: FaultyFiles) -> None:
        """Move all data to `successor`; later writes to these files do not affect it."""
        copies: dict[_Node, _Node] = {}
        for names, to in ((self.nodes, successor.nodes), (self._durable_names, successor._durable_names)):
            to.clear()
            for path, node in names.items():
                copy = copies.get(node)
                if copy is None:
                    copy = copies[node] = node.copy()
                to[path] = copy
        successor.dirs = set(self.dirs)
        successor._durable_dirs = set(self._durable_dirs)
        successor.room_bytes = self.room_bytes

    def _make_durable_dirs(self, path: str) -> None:
        while path:
            path = path.rpartition("/")[0]
            self._durable_dirs.add(path)

    def _is_reachable(self, path: str) -> bool:
        """Return whether the names of all parent directories are durable."""
        while path:
            path = path.rpartition("/")[0]
            if path not in self._durable_dirs:
                return False
        return True

    def flip_bit(self, path: str, position: int, bit: int = 0) -> None:
        """Flip a stored bit, as a failing disk would."""
        node = self.nodes[path]
        node.data[position] ^= 1 << bit
        if position < len(node.durable):
            durable = bytearray(node.durable)
            durable[position] ^= 1 << bit
            node.durable = bytes(durable)

    def cut(self, path: str, nbytes: int) -> None:
        """Truncate stored data, as a torn write would."""
        node = self.nodes[path]
        del node.data[nbytes:]
        node.durable = node.durable[:nbytes]

    def fail_under(self, path: str, *, only_syncs: bool = False) -> None:
        (self._failing_syncs if only_syncs else self._failing).append(path)

    def hang_under(self, path: str) -> None:
        """Let everything that waits for the disk hang, until `answer`: syncs, and changes of names and sizes.
        Appends and reads use the page cache."""
        self._hanging[path] = threading.Event()

    def answer(self) -> None:
        """Complete what hangs."""
        hanging, self._hanging = self._hanging, {}
        for event in hanging.values():
            event.set()

    def wait_for_disk(self, path: str) -> None:
        for prefix, event in list(self._hanging.items()):
            if path.startswith(prefix):
                event.wait(HANG_SECONDS_MAX)

    def heal(self) -> None:
        self.answer()
        self._failing.clear()
        self._failing_syncs.clear()
        self.bad_sectors.clear()
        self.room_bytes = None

    def check(self, path: str, *, syncing: bool = False) -> None:
        if syncing and self._hanging:
            self.wait_for_disk(path)
        failing = self._failing + self._failing_syncs if syncing else self._failing
        if any(path.startswith(prefix) for prefix in failing):
            raise StorageError(path, "Input/output error")

    def take_room(self, path: str, nbytes: int) -> None:
        if self.room_bytes is not None:
            if nbytes > self.room_bytes:
                raise DiskFull(path, "No space left on device")
            self.room_bytes -= nbytes

    def give_room(self, nbytes: int) -> None:
        if self.room_bytes is not None:
            self.room_bytes += nbytes

    def make(self, path: str) -> _Node:
        node = self.nodes.get(path)
        if node is None:
            if path.rpartition("/")[0] not in self.dirs:
                raise StorageError(path, "No such file or directory")
            node = self.nodes[path] = _Node()
            node.modified_ms = self.now_ms
        return node

    # -- Files -----------------------------------------------------------------------------------------------

    def open(self, path: str) -> File:
        return FaultyFile(self, path)

    def create(self, path: str) -> File:
        self.check(path)
        self.take_room(path, 0)
        self.nodes.pop(path, None)
        self.make(path)
        return FaultyFile(self, path)

    def exists(self, path: str) -> bool:
        self.check(path)
        return path in self.nodes or path in self.dirs

    def size(self, path: str) -> int:
        self.check(path)
        node = self.nodes.get(path)
        return -1 if node is None else len(node.data)

    def modified_ms(self, path: str) -> int:
        self.check(path)
        return self.nodes[path].modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self.check(path)
        self.nodes[path].modified_ms = modified_ms

    def listdir(self, path: str) -> list[str]:
        self.wait_for_disk(path)
        self.check(path)
        if path not in self.dirs:
            raise StorageError(path, "No such file or directory")
        prefix = path + "/"
        inside = [name for name in (*self.nodes, *self.dirs) if name.startswith(prefix)]
        return sorted({name[len(prefix) :].partition("/")[0] for name in inside})

    def is_dir(self, path: str) -> bool:
        return path in self.dirs

    def mkdir(self, path: str) -> None:
        self.check(path)
        while path not in self.dirs:
            self.dirs.add(path)
            path = path.rpartition("/")[0]

    def rename(self, path: str, new_path: str) -> None:
        self.wait_for_disk(path)
        self.check(path)
        if path in self.dirs:
            self._rename_dir(path, new_path)
            return
        if path not in self.nodes:
            raise StorageError(path, "No such file or directory")
        self.nodes[new_path] = self.nodes.pop(path)

    def _rename_dir(self, path: str, new_path: str) -> None:
        """Move all files below; durable names stay durable."""
        for names in (self.nodes, self._durable_names):
            for name in [name for name in names if name.startswith(path + "/")]:
                names[new_path + name[len(path) :]] = names.pop(name)
        for dirs in (self.dirs, self._durable_dirs):
            for name in [name for name in dirs if name == path or name.startswith(path + "/")]:
                dirs.discard(name)
                dirs.add(new_path + name[len(path) :])

    def remove(self, path: str) -> None:
        if path in self.nodes:
            self.wait_for_disk(path)
        self.check(path)
        node = self.nodes.pop(path, None)
        if node is not None:
            self.give_room(len(node.data))

    def rmtree(self, path: str) -> None:
        self.wait_for_disk(path)
        self.check(path)
        for name in [name for name in self.nodes if name.startswith(path + "/")]:
            self.remove(name)
        self.dirs = {name for name in self.dirs if name != path and not name.startswith(path + "/")}

    def read_bytes(self, path: str) -> bytes | None:
        self.check(path)
        node = self.nodes.get(path)
        return None if node is None else bytes(node.data)

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self.check(path, syncing=durable)
        self.take_room(path, len(data))
        if path.rpartition("/")[0] not in self.dirs:
            raise StorageError(path, "No such file or directory")
        old = self.nodes.get(path)
        if old is not None:
            self.give_room(len(old.data))
        node = self.nodes[path] = _Node()
        node.data += data
        node.modified_ms = self.now_ms
        if durable:
            node.durable = bytes(data)
            self.sync_dir(path.rpartition("/")[0])

    def sync_dir(self, path: str) -> None:
        self.check(path, syncing=True)
        path = "" if path in ("/", ".") else path
        if path not in self.dirs:
            raise StorageError(path, "No such file or directory")

        def inside(name: str) -> bool:
            return name.rpartition("/")[0] == path

        for name in [name for name in self._durable_names if inside(name) and name not in self.nodes]:
            del self._durable_names[name]
        self._durable_names.update((name, node) for name, node in self.nodes.items() if inside(name))
        self._durable_dirs = {
            name for name in self._durable_dirs if not inside(name) or name in self.dirs
        } | {name for name in self.dirs if inside(name)}

    def sync_filesystem(self, path: str) -> None:
        self.check(path, syncing=True)
        for name, node in self.nodes.items():
            if name.startswith(path + "/"):
                node.durable = bytes(node.data)
        for name in sorted(self.dirs):
            if name == path or name.startswith(path + "/"):
                self.sync_dir(name)

    def free_bytes(self, path: str) -> int:
        self.check(path)
        return 1 << 40 if self.room_bytes is None else self.room_bytes

    def total_bytes(self, path: str) -> int:
        self.check(path)
        return 1 << 40

    def lock(self, path: str) -> Lock:
        self.check(path)
        if path in self.locks:
            raise DirectoryInUse(path.rpartition("/")[0], "another process uses this log directory")
        self.make(path)
        self.locks.add(path)
        return FaultyLock(self, path)


def _left_after_crash(node: _Node, rng: random.Random | None) -> bytes:
    """Return the synced content plus a random prefix of later appends, perhaps with lost sectors."""
    synced, current = node.durable, bytes(node.data)
    if rng is None or not current.startswith(synced):
        return synced
    tail = bytearray(current[len(synced) : rng.randint(len(synced), len(current))])
    if tail and rng.random() < 0.5:
        # The length was extended before all content was written.
        start = rng.randrange(len(tail)) // SECTOR_BYTES * SECTOR_BYTES
        tail[start : start + SECTOR_BYTES] = bytes(len(tail[start : start + SECTOR_BYTES]))
    return synced + bytes(tail)
