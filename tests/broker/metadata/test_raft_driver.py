"""RaftDriver over real sockets and files: elections, replication, crashes, snapshots."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ottla.broker.background import BackgroundTasks
from ottla.broker.metadata.raft_driver import NotLeader, RaftDriver, RaftListener
from ottla.broker.net.listener import Limits, Listener
from ottla.broker.net.request import Request
from ottla.config.load import broker_config
from ottla.protocol.api import API_BY_KEY
from ottla.protocol.message import Message
from ottla.protocol.messages.topic_record import TopicRecord
from ottla.quorum.errors import QuorumError
from ottla.quorum.quorum_state import QuorumState
from ottla.quorum.raft.config import RaftConfig
from ottla.quorum.raft.voters import Endpoint, Voter, VoterSet
from ottla.quorum.raft_log import RaftLog
from ottla.quorum.settings import MetadataLogSettings
from ottla.storage.errors import DiskFull, StorageError
from ottla.storage.files import OsFiles
from tests.support.waiting import wait_until_async


class NoFastPath:
    def accept(self, frame: memoryview) -> None:
        return None


class RaftDispatcher:
    """Passes every request to the driver."""

    fast_path = NoFastPath()

    def __init__(self) -> None:
        self.driver: RaftDriver | None = None

    def dispatch(self, request: Request, frame: memoryview, pos: int) -> Any:
        message, _ = API_BY_KEY[request.api_key].request_class().read(request.version, frame, pos)
        assert self.driver is not None
        return self.driver.request(message)


class Node(RaftListener):
    """One voter; applies committed records to a list of names."""

    def __init__(self, node_id: int, directory: str) -> None:
        self.node_id = node_id
        self.directory = directory
        self.dispatcher = RaftDispatcher()
        limits = Limits(
            frame_bytes_max=1 << 26, connections_max=100, connections_per_ip_max=100, idle_ms_max=600_000
        )
        self.listener = Listener("CONTROLLER", "127.0.0.1", 0, self.dispatcher, limits)  # type: ignore[arg-type]
        self.executor = ThreadPoolExecutor(2)
        self.names: list[str] = []
        self.applied = 0
        self.leading: int | None = None
        self.fatal: list[BaseException] = []
        self.driver: RaftDriver

    def start(self, voters: VoterSet) -> None:
        settings = MetadataLogSettings(broker_config({}))
        now_ms = int(time.time() * 1000)
        files = OsFiles()
        files.mkdir(self.directory)
        raft_log = RaftLog.open(files, self.directory, settings, node_id=self.node_id, now_ms=now_ms)
        config = RaftConfig(
            node_id=self.node_id,
            cluster_id="c",
            static_voters=voters,
            election_timeout_ms=200,
            fetch_timeout_ms=400,
            disconnect_grace_ms=50,
        )
        self.names, self.applied, self.leading = [], 0, None
        self.driver = RaftDriver(
            raft_log,
            config,
            self,
            executor=self.executor,
            clock=lambda: int(time.time() * 1000),
            monotonic_ms=lambda: int(time.monotonic() * 1000),
            draw=random.Random(self.node_id).randrange,
            tasks=BackgroundTasks(self.fatal.append),
        )
        self.dispatcher.driver = self.driver
        self.driver.start()

    def became_leader(self, epoch: int, start_offset: int) -> None:
        self.leading = epoch

    def lost_leadership(self, epoch: int) -> None:
        self.leading = None

    def committed(self, offset: int) -> None:
        for end, messages in self.driver.log.committed(self.applied, offset):
            self.names += [message.name for message in messages if isinstance(message, TopicRecord)]
            self.applied = end

    async def crash(self) -> None:
        """Kill the node: connections break, nothing more is written."""
        await self.driver.stop()
        for connection in list(self.listener.connections):
            connection.close()
        self.driver.log.log.abandon()


def topic(name: str) -> Message:
    return TopicRecord(name=name, topic_id=name.encode().ljust(16, b"."))


def run(tmp_path: Any, scenario: Callable[[list[Node], VoterSet], Awaitable[None]]) -> None:
    async def main() -> None:
        nodes = [Node(n, f"{tmp_path}/{n}") for n in (1, 2, 3)]
        for node in nodes:
            await node.listener.bind()
            await node.listener.serve()
        voters = VoterSet(
            Voter(n.node_id, endpoints=(Endpoint("CONTROLLER", "127.0.0.1", n.listener.port),)) for n in nodes
        )
        for node in nodes:
            node.start(voters)
        try:
            await asyncio.wait_for(scenario(nodes, voters), 40)
        finally:
            for node in nodes:
                await node.driver.stop()
                await node.listener.stop()
                node.executor.shutdown()

    asyncio.run(main())


async def leader_of(nodes: list[Node]) -> Node:
    await wait_until_async(lambda: any(node.leading is not None for node in nodes))
    return next(node for node in nodes if node.leading is not None)


async def settled(node: Node, offset: int) -> bool:
    """Whether the record at `offset` was applied before the node lost its leadership."""
    await wait_until_async(lambda: node.applied > offset or node.leading is None)
    return node.applied > offset


async def append(nodes: list[Node], name: str) -> None:
    """Append at the current leader, with retries, until a majority has the record."""
    for _ in range(100):
        node = await leader_of(nodes)
        assert node.leading is not None
        try:
            offset = node.driver.append([topic(name)], node.leading)
        except NotLeader:
            await asyncio.sleep(0.01)
            continue
        if await settled(node, offset) and name in node.names:
            return
    raise AssertionError("no node could append")


def test_one_node_leads_and_all_apply_the_same(tmp_path: Any) -> None:
    async def scenario(nodes: list[Node], voters: VoterSet) -> None:
        names = [f"t{n}" for n in range(50)]
        for name in names:
            await append(nodes, name)
        await wait_until_async(lambda: all(node.names == names for node in nodes))
        assert sum(node.leading is not None for node in nodes) == 1

    run(tmp_path, scenario)


def test_a_dead_leader_is_replaced_and_comes_back_as_a_follower(tmp_path: Any) -> None:
    async def scenario(nodes: list[Node], voters: VoterSet) -> None:
        for name in ("a", "b"):
            await append(nodes, name)
        first = await leader_of(nodes)
        # Appended by the leader alone and never committed: it must not survive.
        others = [node for node in nodes if node is not first]
        await first.crash()
        for name in ("c", "d"):
            await append(others, name)
        first.start(voters)
        await append(nodes, "e")
        await wait_until_async(lambda: all(node.names == ["a", "b", "c", "d", "e"] for node in nodes))

    run(tmp_path, scenario)


def test_rolling_crashes_lose_nothing_that_was_committed(tmp_path: Any) -> None:
    async def scenario(nodes: list[Node], voters: VoterSet) -> None:
        done: list[str] = []
        for turn in range(4):
            victim = nodes[turn % 3]
            await victim.crash()
            alive = [node for node in nodes if node is not victim]
            for n in range(3):
                name = f"{turn}-{n}"
                await append(alive, name)
                done.append(name)
            victim.start(voters)
        await append(nodes, "end")
        await wait_until_async(lambda: all("end" in node.names for node in nodes))
        for node in nodes:
            # A name may occur twice if the first attempt was committed after its leader was killed.
            assert list(dict.fromkeys(node.names)) == [*done, "end"]

    run(tmp_path, scenario)


def test_a_minority_commits_nothing(tmp_path: Any) -> None:
    async def scenario(nodes: list[Node], voters: VoterSet) -> None:
        await append(nodes, "a")
        leader = await leader_of(nodes)
        for node in nodes:
            if node is not leader:
                await node.crash()
        epoch = leader.leading
        assert epoch is not None
        leader.driver.append([topic("lost")], epoch)
        await wait_until_async(lambda: leader.leading is None)  # check-quorum: it resigns
        assert "lost" not in leader.names

    run(tmp_path, scenario)


def test_a_follower_whose_disk_is_full_waits_for_space(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(nodes: list[Node], voters: VoterSet) -> None:
        await append(nodes, "a")
        leader = await leader_of(nodes)
        follower = next(node for node in nodes if node is not leader)
        really = RaftLog.append_fetched
        tries = []

        def append_fetched(raft_log: RaftLog, *arguments: Any) -> None:
            if raft_log is follower.driver.log:
                tries.append(arguments)
                raise DiskFull(raft_log.directory, "no space left on device")
            really(raft_log, *arguments)

        with monkeypatch.context() as full:
            full.setattr(RaftLog, "append_fetched", append_fetched)
            await append(nodes, "b")  # the others are a majority
            await wait_until_async(lambda: len(tries) > 2)
        await append(nodes, "c")
        await wait_until_async(lambda: all(node.names[-1:] == ["c"] for node in nodes))
        assert not follower.fatal
        assert follower.names == ["a", "b", "c"]

    run(tmp_path, scenario)


def test_a_vote_is_not_granted_on_a_full_disk(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(nodes: list[Node], voters: VoterSet) -> None:
        await append(nodes, "a")
        leader = await leader_of(nodes)
        others = [node for node in nodes if node is not leader]
        really = RaftLog.persist
        full_disks = [node.driver.log for node in others]

        def persist(raft_log: RaftLog, state: QuorumState) -> None:
            if any(raft_log is each for each in full_disks):
                raise DiskFull(raft_log.directory, "no space left on device")
            really(raft_log, state)

        with monkeypatch.context() as full:
            full.setattr(RaftLog, "persist", persist)
            await leader.crash()
            await asyncio.sleep(1.5)
            assert [node.leading for node in others] == [None, None]
        await append(others, "b")
        assert not any(node.fatal for node in others)

    run(tmp_path, scenario)


def test_a_leader_that_waits_for_space_accepts_no_records(tmp_path: Any) -> None:
    async def scenario(nodes: list[Node], voters: VoterSet) -> None:
        await append(nodes, "a")
        leader = await leader_of(nodes)
        end_offset = leader.driver.log.end_offset
        leader.driver._full_disk = DiskFull("/data", "no space left on device")
        with pytest.raises(DiskFull):
            leader.driver.append([topic("b")], leader.leading or 0)
        assert leader.driver.log.end_offset == end_offset
        leader.driver._full_disk = None

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    "error", [AssertionError("a bug"), QuorumError("damaged"), StorageError("/d", "lost")]
)
def test_a_failed_quorum_ends_the_node(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def scenario(nodes: list[Node], voters: VoterSet) -> None:
        await append(nodes, "a")
        leader = await leader_of(nodes)

        def committed(offset: int) -> None:
            raise error

        monkeypatch.setattr(leader, "committed", committed)
        assert leader.leading is not None
        leader.driver.append([topic("b")], leader.leading)
        await wait_until_async(lambda: leader.fatal == [error])

    run(tmp_path, scenario)


def test_stop_waits_for_running_writes(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(nodes: list[Node], voters: VoterSet) -> None:
        await append(nodes, "a")
        leader = await leader_of(nodes)
        began, ended = threading.Event(), threading.Event()

        def slow(state: QuorumState) -> None:
            began.set()
            time.sleep(0.2)
            ended.set()

        job = asyncio.ensure_future(leader.driver._in_thread(slow, None))
        await wait_until_async(began.is_set)
        job.cancel()
        await leader.driver.stop()
        assert ended.is_set()

    run(tmp_path, scenario)
