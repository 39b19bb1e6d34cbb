"""Snapshots of the metadata log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING

from ottla.controller.image.records import image_records
from ottla.protocol.messages.kraft_version_record import KRaftVersionRecord

if TYPE_CHECKING:
    from ottla.broker.metadata.raft_driver import RaftDriver
    from ottla.broker.metadata_cache import MetadataCache

INTERVAL_MS = 1000


class MetadataSnapshots:
    def __init__(
        self,
        raft: Callable[[], RaftDriver],
        metadata: MetadataCache,
        clock: Callable[[], int],
        executor: Executor,
    ) -> None:
        self._raft = raft
        self._metadata = metadata
        self._clock = clock
        self._executor = executor

    async def maybe_write(self) -> None:
        """Write a snapshot if one is due: the applied metadata, with the voters at that offset."""
        raft = self._raft()
        # The image may be ahead of the applied offset while partitions follow a change.
        end_offset = self._metadata.offset + 1
        version, voters = raft.machine.history.at(end_offset)
        job = raft.log.maybe_snapshot(
            partial(image_records, self._metadata.image),
            end_offset,
            self._clock(),
            kraft_version=KRaftVersionRecord(kraft_version=version) if version else None,
            voters=None if voters is None else voters.to_record(),
        )
        if job is not None:
            await asyncio.get_running_loop().run_in_executor(self._executor, job.run)
            raft.log.finish_snapshot(job, self._clock())
