"""Format the directories of a new member of a dynamic quorum (kraft.version 1), before its first start.

A fixed quorum needs no formatting: its voters are in controller.quorum.voters. A dynamic quorum starts with a
checkpoint at offset 0 that names the initial voters by node id and metadata directory id. Each initial voter
has this checkpoint; a later node has none and is an observer until it is added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.config.listeners import parse_address
from ottla.protocol.messages.kraft_version_record import KRaftVersionRecord
from ottla.protocol.uuids import ZERO_UUID, uuid_from_text
from ottla.quorum.metadata_log import DIRECTORY_NAME
from ottla.quorum.raft.voters import Endpoint, Voter, VoterSet
from ottla.quorum.snapshot import SnapshotId, snapshot_batches
from ottla.storage.checkpoints import MetaProperties, read_meta_properties, write_meta_properties
from ottla.storage.files import Files

FIRST_SNAPSHOT = SnapshotId(0, 0)
DYNAMIC_VERSION = 1
LOCK_NAME = ".lock"


class AlreadyFormatted(ValueError):
    """A directory already belongs to a node."""


def parse_initial_controllers(text: str, listener_name: str) -> VoterSet:
    """Parse `id@host:port:directory-id,...`, the same text on each of them. Raises ValueError."""
    voters: list[Voter] = []
    for item in text.split(","):
        node_id, at, rest = item.strip().partition("@")
        address, _, directory = rest.rpartition(":")
        if not at or not node_id.isdecimal() or not address:
            raise ValueError(f"initial controller {item.strip()!r}: expected ID@HOST:PORT:DIRECTORY-ID")
        try:
            directory_id = uuid_from_text(directory)
        except ValueError as error:
            raise ValueError(f"initial controller {item.strip()!r}: {error}") from None
        host, port = parse_address("initial controller", address)
        voters.append(Voter(int(node_id), directory_id, (Endpoint(listener_name, host, port),)))
    for what, values in (
        ("node id", [voter.node_id for voter in voters]),
        ("directory id", [voter.directory_id for voter in voters]),
    ):
        if len(set(values)) < len(values):
            raise ValueError(f"initial controllers: a {what} is listed twice")
    return VoterSet(voters)


class Formatter:
    """Writes the identity of a node to its directories, and the initial voters to its metadata log."""

    def __init__(
        self,
        files: Files,
        log_dirs: Sequence[str],
        metadata_log_dir: str,
        *,
        node_id: int,
        cluster_id: str,
        new_uuid: Callable[[], bytes],
    ) -> None:
        uuid_from_text(cluster_id)  # Kafka requires a UUID
        self._files = files
        self._log_dirs = tuple(dict.fromkeys((*log_dirs, metadata_log_dir)))
        self._metadata_log_dir = metadata_log_dir
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._new_uuid = new_uuid

    def standalone(self, endpoints: Sequence[Endpoint], now_ms: int) -> VoterSet:
        """Format the node as the only initial voter; others may be added later."""
        directory_id = self._new_uuid()
        voters = VoterSet([Voter(self._node_id, directory_id, tuple(endpoints))])
        self.with_voters(voters, now_ms)
        return voters

    def with_voters(self, voters: VoterSet, now_ms: int) -> None:
        """Format the node as one of these initial voters."""
        own = voters.by_id.get(self._node_id)
        if own is None:
            raise ValueError(f"node.id={self._node_id} is not one of the initial controllers")
        if own.directory_id == ZERO_UUID:
            raise ValueError("an initial controller needs the id of its directory")
        batches = snapshot_batches(
            (),
            FIRST_SNAPSHOT,
            now_ms,
            now_ms,
            kraft_version=KRaftVersionRecord(kraft_version=DYNAMIC_VERSION),
            voters=voters.to_record(),
        )
        self._format(own.directory_id, b"".join(batches))

    def without_voters(self) -> None:
        """Format a node that finds its quorum by controller.quorum.bootstrap.servers, and may be added."""
        self._format(self._new_uuid(), None)

    def _format(self, directory_id: bytes, checkpoint: bytes | None) -> None:
        """Write meta.properties last: a directory that has it is complete."""
        files = self._files
        locks = []
        try:
            for path in self._log_dirs:
                files.mkdir(path)
                locks.append(files.lock(f"{path}/{LOCK_NAME}"))
            for path in self._log_dirs:
                if read_meta_properties(files, path) is not None:
                    raise AlreadyFormatted(f"{path} is already formatted")
            if checkpoint is not None:
                self._write_checkpoint(checkpoint)
            for path in self._log_dirs:
                own_id = directory_id if path == self._metadata_log_dir else self._new_uuid()
                meta = MetaProperties(self._cluster_id, self._node_id, own_id)
                write_meta_properties(files, path, meta)
        finally:
            for lock in locks:
                lock.release()

    def _write_checkpoint(self, checkpoint: bytes) -> None:
        directory = f"{self._metadata_log_dir}/{DIRECTORY_NAME}"
        found = self._files.listdir(directory) if self._files.exists(directory) else []
        if any(not name.startswith(FIRST_SNAPSHOT.file_name) for name in found):
            raise AlreadyFormatted(f"{directory} contains metadata")  # otherwise formatting was interrupted
        self._files.mkdir(directory)
        self._files.sync_dir(self._metadata_log_dir)
        self._files.write_atomic(f"{directory}/{FIRST_SNAPSHOT.file_name}", checkpoint)
