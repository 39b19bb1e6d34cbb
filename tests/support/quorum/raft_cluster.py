"""Raft machines in memory: logs that lose unflushed records, and a network that loses messages."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

from ottla.protocol.message import Message
from ottla.protocol.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.api_versions_response import ApiVersionsResponse, SupportedFeatureKey
from ottla.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from ottla.quorum.quorum_state import QuorumState
from ottla.quorum.raft import effects as fx
from ottla.quorum.raft import events as ev
from ottla.quorum.raft.config import RaftConfig, RaftState
from ottla.quorum.raft.fetched import voter_changes
from ottla.quorum.raft.machine import RaftMachine
from ottla.quorum.raft.voters import Endpoint, Voter, VoterHistory, VoterSet
from ottla.quorum.snapshot import SnapshotId
from ottla.records.batch import read_header, stamp
from ottla.records.build import build_batch

CLUSTER = "cluster"


def directory_of(node_id: int) -> bytes:
    return bytes([node_id]) * 16


def voter(node_id: int, *, directory: bool = False) -> Voter:
    directory_id = directory_of(node_id) if directory else bytes(16)
    return Voter(node_id, directory_id, (Endpoint("CONTROLLER", f"node{node_id}", 9000 + node_id),))


def voter_set(ids: Iterable[int], *, directory: bool = False) -> VoterSet:
    return VoterSet(voter(node_id, directory=directory) for node_id in ids)


def data_batch(value: bytes, epoch: int) -> bytearray:
    return build_batch([(0, None, value, ())], leader_epoch=epoch)


def add_request(node_id: int, **fields: Any) -> AddRaftVoterRequest:
    endpoint = voter(node_id).endpoints[0]
    listener = Listener(name=endpoint.name, host=endpoint.host, port=endpoint.port)
    defaults: dict[str, Any] = {
        "cluster_id": CLUSTER,
        "timeout_ms": 1000,
        "voter_id": node_id,
        "voter_directory_id": directory_of(node_id),
        "listeners": [listener],
    }
    return AddRaftVoterRequest(**(defaults | fields))


def remove_request(node_id: int, **fields: Any) -> RemoveRaftVoterRequest:
    defaults: dict[str, Any] = {
        "cluster_id": CLUSTER,
        "voter_id": node_id,
        "voter_directory_id": directory_of(node_id),
    }
    return RemoveRaftVoterRequest(**(defaults | fields))


class MemoryLog:
    """Batches as (base offset, next offset, epoch, bytes); `durable` is what a crash leaves."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, int, int, bytes]] = []
        self.start = 0
        # (id, voters and version at its end, digest of what it stands for)
        self.snapshots: dict[SnapshotId, tuple[int, VoterSet | None, tuple[bytes, ...]]] = {}
        self.durable: list[tuple[int, int, int, bytes]] = []
        self._flushed = 0

    @property
    def start_offset(self) -> int:
        return self.start

    @property
    def end_offset(self) -> int:
        return self.batches[-1][1] if self.batches else self.start

    @property
    def flushed_offset(self) -> int:
        return min(self._flushed, self.end_offset)

    @property
    def last_epoch(self) -> int:
        if self.batches:
            return self.batches[-1][2]
        latest = self.latest_snapshot
        return latest.epoch if latest is not None else 0

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        found = None
        for _, next_offset, batch_epoch, _ in self.batches:
            if batch_epoch <= epoch:
                found = (batch_epoch, next_offset)
        earliest = self.earliest_snapshot
        if found is None and self.start and earliest is not None and earliest.epoch <= epoch:
            return earliest.epoch, self.start
        return found or (epoch, self.start)

    @property
    def earliest_snapshot(self) -> SnapshotId | None:
        at_start = [snapshot for snapshot in self.snapshots if snapshot.end_offset == self.start]
        return max(at_start, default=None)

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return max(self.snapshots, default=None)

    def snapshot_bytes(self, snapshot_id: SnapshotId) -> int | None:
        return 10 if snapshot_id in self.snapshots else None

    # -- what the shell does ---------------------------------------------------------------------------------

    def append(self, batch: bytes | bytearray | memoryview) -> None:
        header = read_header(batch)
        assert header.base_offset == self.end_offset, (header.base_offset, self.end_offset)
        self.batches.append((header.base_offset, header.next_offset, header.leader_epoch, bytes(batch)))

    def append_own(self, batch: bytearray, epoch: int) -> None:
        stamp(batch, 0, self.end_offset, epoch)
        self.append(batch)

    def append_fetched(self, records: memoryview) -> None:
        position = 0
        while position < len(records):
            size = read_header(records, position).size_bytes
            self.append(records[position : position + size])
            position += size

    def truncate(self, offset: int) -> None:
        while self.batches and self.batches[-1][0] >= offset:
            self.batches.pop()
        assert self.end_offset == offset, "logs are truncated between batches"
        self._flushed = min(self._flushed, offset)

    def flush(self) -> None:
        self.durable = list(self.batches)
        self._flushed = self.end_offset

    def read(self, offset: int, max_bytes: int) -> bytes:
        found = b""
        for base, _, _, data in self.batches:
            if base >= offset and (not found or len(found) + len(data) <= max_bytes):
                found += data
        return found

    def crash(self, keep: int) -> None:
        """Keep everything flushed, and `keep` batches written since."""
        tail = self.batches[len(self.durable) :] if self.batches[: len(self.durable)] == self.durable else []
        self.batches = self.durable + tail[:keep]
        latest = self.latest_snapshot
        if latest is not None and self.start < latest.end_offset and self.end_offset < latest.end_offset:
            self.batches = []
            self.start = latest.end_offset
        self.batches = [batch for batch in self.batches if batch[0] >= self.start]
        self.flush()

    def prefix(self, end_offset: int) -> tuple[bytes, ...]:
        """Return all batches below an offset, including those in a snapshot."""
        latest = [snapshot for snapshot in self.snapshots if snapshot.end_offset <= max(self.start, 0)]
        known = self.snapshots[max(latest)][2] if latest and self.start else ()
        return known + tuple(data for _, next_offset, _, data in self.batches if next_offset <= end_offset)

    def history(self, static: VoterSet) -> VoterHistory:
        history = VoterHistory(static)
        if self.start and self.earliest_snapshot is not None:
            version, voters, _ = self.snapshots[self.earliest_snapshot]
            history.restart(self.start, version, voters)
        for _, _, _, data in self.batches:
            header = read_header(data)
            if header.is_control:
                for offset, change in voter_changes(memoryview(data), 0, header):
                    history.add(offset, change)
        return history


class Node:
    """One machine with its log and its quorum-state, and the effects it has had."""

    def __init__(self, node_id: int, config: RaftConfig, draw: Callable[[int], int], now_ms: int = 0) -> None:
        self.node_id = node_id
        self.config = config
        self.draw = draw
        self.log = MemoryLog()
        self.saved: QuorumState | None = None
        self.is_up = True
        self.formatted: VoterHistory | None = None
        self.incarnation = 0
        self.temporary: SnapshotId | None = None
        self.machine_class: type[RaftMachine] = RaftMachine
        self.start(now_ms)

    def start(self, now_ms: int) -> None:
        history = self.log.history(self.config.static_voters)
        if self.formatted is not None and history.voters_offset < 0:
            history = VoterHistory(self.config.static_voters)
            history.add(-1, 1)
            history.add(-1, self.formatted.voters)
        self.incarnation += 1
        self.is_up = True
        self.machine = self.machine_class(
            self.config, self.log, RaftState(self.saved, history), now_ms, self.draw
        )

    def format(self, voters: VoterSet) -> None:
        """As `kafka-storage format` does it for a dynamic quorum."""
        self.formatted = VoterHistory()
        self.formatted.add(-1, voters)
        self.start(0)

    def take_snapshot(self, end_offset: int | None = None) -> SnapshotId:
        """Take a snapshot of the committed log; drop the log before it."""
        end_offset = self.machine.high_watermark if end_offset is None else end_offset
        epoch = max(batch[2] for batch in self.log.batches if batch[1] <= end_offset)
        snapshot_id = SnapshotId(end_offset, epoch)
        version, voters = self.machine.history.at(end_offset)
        self.log.snapshots[snapshot_id] = (version, voters, self.log.prefix(end_offset))
        self.log.start = end_offset
        self.log.batches = [batch for batch in self.log.batches if batch[0] >= end_offset]
        self.log.durable = [batch for batch in self.log.durable if batch[0] >= end_offset]
        return snapshot_id


class Cluster:
    """Nodes and messages in flight. Time moves on request only, messages in the order of `choose`."""

    def __init__(
        self,
        voters: Iterable[int] = (1, 2, 3),
        *,
        observers: Iterable[int] = (),
        seed: int = 0,
        dynamic: bool = False,
        **settings: Any,
    ) -> None:
        self.rng = random.Random(seed)
        self.draws_below = 1 << 30
        self.now_ms = 1000
        self.voters = voter_set(voters, directory=dynamic)
        self.dynamic = dynamic
        self.settings = settings
        self.nodes: dict[int, Node] = {}
        # (due, serial, from, to, incarnation of the sender, what to do at the receiver)
        self.wire: list[tuple[int, int, int, int, Callable[[], None]]] = []
        self.timers: list[tuple[int, Callable[[], None]]] = []
        self.serial = 0
        self.cut: set[tuple[int, int]] = set()
        self.delay: Callable[[], int] = lambda: 1
        self.loses: Callable[[], bool] = lambda: False
        self.doubles: Callable[[], bool] = lambda: False
        self.auto_flush = True
        self.seen: list[tuple[int, fx.Effect]] = []
        self.on_effect: Callable[[Node, fx.Effect], None] = lambda node, effect: None
        self.waiting: dict[object, Callable[[Message], None]] = {}
        # (from, incarnation, to, request id): these fail when the receiver dies.
        self.pending: set[tuple[int, int, int, int]] = set()
        self.replies: dict[object, Message] = {}
        for node_id in [*voters, *observers]:
            self.add_node(node_id, can_vote=node_id in self.voters.by_id)

    def add_node(self, node_id: int, *, can_vote: bool = True) -> Node:
        static = VoterSet() if self.dynamic else self.voters
        own = voter(node_id)
        config = RaftConfig(
            node_id=node_id,
            cluster_id=CLUSTER,
            directory_id=directory_of(node_id),
            can_vote=can_vote,
            static_voters=static,
            bootstrap=[each.endpoints[0] for each in self.voters] if self.dynamic else (),
            listeners=own.endpoints,
            **self.settings,
        )
        node = Node(node_id, config, self.draw, self.now_ms)
        if self.dynamic and node_id in self.voters.by_id:
            node.format(self.voters)
        self.nodes[node_id] = node
        return node

    def draw(self, n: int) -> int:
        return self.rng.randrange(min(n, self.draws_below))

    # -- doing effects ---------------------------------------------------------------------------------------

    def step(self, node: Node, event: ev.Event) -> None:
        if not node.is_up:
            return
        for effect in node.machine.step(event, self.now_ms):
            self.seen.append((node.node_id, effect))
            self._do(node, effect)
            self.on_effect(node, effect)
        wake_ms = node.machine.next_wake_ms
        is_later = wake_ms is None or wake_ms > self.now_ms
        assert is_later or node.machine.node.log_is_stale, f"would spin: {self.describe()}"

    def _do(self, node: Node, effect: fx.Effect) -> None:
        if isinstance(effect, fx.Persist):
            node.saved = self.save(effect.state)
        elif isinstance(effect, fx.Send):
            self._send(node, effect)
        elif isinstance(effect, fx.Reply):
            self._reply(node, effect.token, effect.response)
        elif isinstance(effect, fx.ReplyWithRecords):
            records = node.log.read(effect.offset, effect.max_bytes)
            effect.response.responses[0].partitions[0].records = records
            self._reply(node, effect.token, effect.response)
        elif isinstance(effect, fx.ReplyWithSnapshot):
            assert effect.snapshot_id in node.log.snapshots
            data = bytes(range(10))[effect.position : effect.position + min(4, effect.max_bytes)]
            effect.response.topics[0].partitions[0].unaligned_records = data
            self._reply(node, effect.token, effect.response)
        elif isinstance(effect, fx.AppendControl):
            node.log.append_own(effect.batch, effect.epoch)
            self._after_append(node)
        elif isinstance(effect, fx.AppendFetched):
            node.log.append_fetched(effect.records)
            self._after_append(node)
        elif isinstance(effect, fx.Truncate):
            node.log.truncate(effect.offset)
        elif isinstance(effect, fx.BeginSnapshot):
            node.temporary = effect.snapshot_id
        elif isinstance(effect, fx.WriteSnapshot):
            assert node.temporary == effect.snapshot_id
        elif isinstance(effect, fx.InstallSnapshot):
            self._install(node, effect.snapshot_id)

    def save(self, state: QuorumState) -> QuorumState:
        return state

    def _after_append(self, node: Node) -> None:
        if self.auto_flush:
            self.later(node.node_id, node.node_id, 0, lambda: self.flush(node))

    def flush(self, node: Node) -> None:
        if node.is_up and node.log.flushed_offset < node.log.end_offset:
            node.log.flush()
            self.step(node, ev.Flushed())

    def _install(self, node: Node, snapshot_id: SnapshotId) -> None:
        owners = [each.log for each in self.nodes.values() if snapshot_id in each.log.snapshots]
        content = owners[0].snapshots[snapshot_id]
        node.log.snapshots[snapshot_id] = content
        node.log.batches, node.log.start = [], snapshot_id.end_offset
        node.log.flush()
        event = ev.SnapshotInstalled(snapshot_id, kraft_version=content[0], voters=content[1])
        self.later(node.node_id, node.node_id, 0, lambda: self.step(node, event))

    # -- the network -----------------------------------------------------------------------------------------

    def later(self, source: int, target: int, delay_ms: int, action: Callable[[], None]) -> None:
        """Schedule a delivery; it is dropped if the target restarts before, but not if the sender dies."""
        self.serial += 1
        node = self.nodes[target]
        incarnation = node.incarnation

        def guarded() -> None:
            if node.is_up and node.incarnation == incarnation:
                action()

        self.wire.append((self.now_ms + delay_ms, self.serial, source, target, guarded))

    def _id_of(self, endpoint: Endpoint) -> int:
        return endpoint.port - 9000

    def _send(self, node: Node, effect: fx.Send) -> None:
        source, target = node.node_id, self._id_of(effect.endpoint)
        peer = self.nodes.get(target)
        if peer is None or not peer.is_up:
            self._refuse(node, effect.request_id)
            return

        pending = (source, node.incarnation, target, effect.request_id)
        self.pending.add(pending)

        def answer(response: Message) -> None:
            self.pending.discard(pending)
            if node.incarnation != pending[1]:
                return
            received = ev.ResponseReceived(effect.request_id, response)
            self._transmit(target, source, lambda: self.step(node, received))

        def deliver() -> None:
            if isinstance(effect.request, ApiVersionsRequest):
                feature = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
                answer(ApiVersionsResponse(supported_features=[feature]))
                return
            self.serial += 1
            token = (source, target, self.serial)
            self.waiting[token] = answer
            self.step(self.nodes[target], ev.RequestReceived(token, effect.request))

        self._transmit(source, target, deliver)

    def _transmit(self, source: int, target: int, action: Callable[[], None]) -> None:
        for _ in range(2 if self.doubles() else 1):
            if not self.loses():
                self.later(source, target, self.delay(), action)

    def _reply(self, node: Node, token: object, response: Message) -> None:
        answer = self.waiting.pop(token, None)
        if answer is None:
            self.replies[token] = response
        else:
            answer(response)

    def ask(self, node_id: int, request: Message) -> object:
        """Send a request of a client; its response will be in `replies`."""
        self.serial += 1
        token = ("outside", self.serial)
        self.step(self.nodes[node_id], ev.RequestReceived(token, request))
        return token

    # -- running ---------------------------------------------------------------------------------------------

    def run(self, duration_ms: int) -> None:
        """Advance the time and run everything that is due."""
        end_ms = self.now_ms + duration_ms
        while self.run_next(end_ms):
            pass
        self.now_ms = end_ms

    def run_next(self, end_ms: int) -> bool:
        due: list[tuple[int, int, int]] = []
        if self.wire:
            first = min(range(len(self.wire)), key=lambda index: self.wire[index][:2])
            due.append((self.wire[first][0], 0, first))
        for node in self.nodes.values():
            wake_ms = node.machine.next_wake_ms
            if node.is_up and wake_ms is not None:
                due.append((max(wake_ms, self.now_ms), 1, node.node_id))
        if self.timers:
            due.append(min((due_ms, 2, index) for index, (due_ms, _) in enumerate(self.timers)))
        if not due or min(due)[0] > end_ms:
            return False
        due_ms, kind, index = min(due)
        self.now_ms = max(self.now_ms, due_ms)
        if kind == 2:
            self.timers.pop(index)[1]()
        elif kind == 1:
            self.step(self.nodes[index], ev.Tick())
        else:
            self.deliver(index)
        return True

    def deliver(self, index: int) -> None:
        _, _, source, target, action = self.wire.pop(index)
        if (source, target) not in self.cut:
            action()

    def run_until(self, condition: Callable[[], bool], limit_ms: int = 30_000) -> None:
        end_ms = self.now_ms + limit_ms
        while not condition():
            assert self.run_next(end_ms), f"not within {limit_ms} ms: {self.describe()}"

    def describe(self) -> str:
        return "; ".join(
            f"{n.node_id}{'' if n.is_up else ' down'} {n.machine.role} e{n.machine.epoch} "
            f"leader {n.machine.leader_id} end {n.log.end_offset} hw {n.machine.high_watermark}"
            for n in self.nodes.values()
        )

    # -- acting ----------------------------------------------------------------------------------------------

    @property
    def leaders(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.is_up and node.machine.role == "leader"]

    @property
    def leader(self) -> Node:
        return max(self.leaders, key=lambda node: node.machine.epoch)

    def elect(self) -> Node:
        """Run until there is a leader and all running nodes follow it."""
        self.run_until(self.is_settled)
        return self.leader

    def is_settled(self) -> bool:
        up = [node for node in self.nodes.values() if node.is_up]
        if not self.leaders:
            return False
        leader = self.leader
        return all(node.machine.leader_id == leader.node_id for node in up)

    def append(self, node: Node, value: bytes) -> int:
        offset = node.log.end_offset
        node.log.append_own(data_batch(value, node.machine.epoch), node.machine.epoch)
        self.step(node, ev.LocalAppended())
        self._after_append(node)
        return offset

    def is_caught_up(self) -> bool:
        up = [node for node in self.nodes.values() if node.is_up]
        end = self.leader.log.end_offset if self.leaders else -1
        return all(node.log.end_offset == node.machine.high_watermark == end for node in up)

    def crash(self, node: Node, keep: int = 0) -> None:
        node.is_up = False
        node.log.crash(keep)
        for pending in sorted(self.pending):
            source, incarnation, target, request_id = pending
            if node.node_id in (source, target):
                self.pending.discard(pending)
            peer = self.nodes[source]
            if target == node.node_id and peer.is_up and peer.incarnation == incarnation:
                self._refuse(peer, request_id)

    def _refuse(self, node: Node, request_id: int) -> None:
        failed = ev.RequestFailed(request_id, disconnected=True)
        self.later(node.node_id, node.node_id, self.delay(), lambda: self.step(node, failed))

    def restart(self, node: Node) -> None:
        node.start(self.now_ms)

    def isolate(self, node_id: int) -> None:
        for other in self.nodes:
            self.cut |= {(node_id, other), (other, node_id)} if other != node_id else set()
