"""The only voter of a quorum: a Raft machine and its log, driven step by step without a loop.

Effects are carried out at once, except for flushes: the test does those (`begin_sync`, `sync`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ottla.broker.metadata.quorum_setup import check_metadata
from ottla.protocol.message import Message
from ottla.protocol.messages.kraft_version_record import KRaftVersionRecord
from ottla.quorum.raft import effects as do
from ottla.quorum.raft import events
from ottla.quorum.raft.config import RaftConfig, RaftState
from ottla.quorum.raft.machine import RaftMachine
from ottla.quorum.raft.voters import Voter, VoterSet
from ottla.quorum.raft_log import RaftLog
from ottla.quorum.snapshot import SnapshotJob
from ottla.storage.log.flush_job import FlushJob


class Alone:
    """Begins an epoch when it is created; `raft_log` is its log."""

    def __init__(
        self, raft_log: RaftLog, node_id: int, now_ms: int, *, directory_id: bytes = bytes(16)
    ) -> None:
        self.raft_log = raft_log
        self.log = raft_log.log
        self.effects: list[do.Effect] = []
        self.applied_offset = 0 if raft_log.latest_snapshot is None else raft_log.latest_snapshot.end_offset
        config = RaftConfig(
            node_id=node_id,
            cluster_id="alone",
            directory_id=directory_id,
            static_voters=VoterSet([Voter(node_id)]),
        )
        check_metadata(raft_log, config)
        voters = raft_log.voter_history(config.static_voters)
        state = RaftState(raft_log.quorum_state(alone=set(voters.voters.by_id) == {node_id}), voters)
        self.machine = RaftMachine(config, raft_log, state, now_ms, lambda n: 0)
        self._step(events.Tick(), now_ms)

    def _step(self, event: events.Event, now_ms: int) -> None:
        for effect in self.machine.step(event, now_ms):
            self.effects.append(effect)
            if isinstance(effect, do.Persist):
                self.raft_log.persist(effect.state)
            elif isinstance(effect, do.AppendControl):
                self.raft_log.append_control(effect.batch, effect.epoch, now_ms)
            elif isinstance(effect, do.HighWatermark):
                for end_offset, _ in self.raft_log.committed(self.applied_offset, effect.offset):
                    self.applied_offset = end_offset
            else:
                harmless = (do.BecameLeader, do.LeaderChanged, do.VotersChanged, do.Send)
                assert isinstance(effect, harmless), effect

    # -- state of the machine

    @property
    def epoch(self) -> int:
        return self.machine.epoch

    @property
    def role(self) -> str:
        return self.machine.role

    @property
    def kraft_version(self) -> int:
        return self.machine.kraft_version

    @property
    def high_watermark(self) -> int:
        return self.machine.high_watermark

    # -- the log

    @property
    def next_offset(self) -> int:
        return self.raft_log.end_offset

    @property
    def latest_snapshot(self) -> Any:
        return self.raft_log.latest_snapshot

    def replay(self) -> Any:
        return self.raft_log.replay()

    def append(self, messages: Iterable[Message], now_ms: int) -> tuple[int, int]:
        assert self.role == "leader"
        self.raft_log.epoch = self.epoch
        offsets = self.raft_log.append(messages, now_ms)
        self._step(events.LocalAppended(), now_ms)
        return offsets

    def begin_sync(self) -> FlushJob | None:
        return None if self.raft_log.flushed_offset == self.next_offset else self.log.begin_flush()

    def finish_sync(self, job: FlushJob, now_ms: int) -> int:
        self.log.finish_flush(job, now_ms)
        self._step(events.Flushed(), now_ms)
        return self.high_watermark

    def sync(self, now_ms: int) -> int:
        job = self.begin_sync()
        if job is not None:
            job.run()
            self.finish_sync(job, now_ms)
        return self.high_watermark

    def wants_snapshot(self, now_ms: int) -> bool:
        return self.raft_log.wants_snapshot(now_ms)

    def maybe_snapshot(
        self, image_records: Callable[[], Iterable[Message]], now_ms: int, *, force: bool = False
    ) -> SnapshotJob | None:
        """Take a snapshot of all committed records."""
        version, voters = self.machine.history.at(self.high_watermark)
        return self.raft_log.maybe_snapshot(
            image_records,
            self.high_watermark,
            now_ms,
            kraft_version=KRaftVersionRecord(kraft_version=version) if version else None,
            voters=None if voters is None else voters.to_record(),
            force=force,
        )

    def finish_snapshot(self, job: SnapshotJob, now_ms: int) -> None:
        self.raft_log.finish_snapshot(job, now_ms)

    def close(self, now_ms: int) -> None:
        self.raft_log.close(now_ms)
