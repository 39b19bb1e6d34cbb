"""Several nodes on loopback sockets: shared metadata while nodes are killed, restarted or lag."""

from __future__ import annotations

import asyncio
import random
import shutil
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.broker.net.peer import Peer, PeerLost
from ottla.broker.node import Node
from ottla.config.load import broker_config
from ottla.protocol.api import API_BY_KEY
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from ottla.protocol.messages.add_raft_voter_request import Listener as VoterListener
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.describe_quorum_request import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from ottla.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from ottla.protocol.uuids import uuid_to_text
from ottla.quorum.format import Formatter, parse_initial_controllers
from ottla.quorum.raft.voters import Endpoint
from ottla.storage.files import OsFiles
from tests.support.waiting import wait_until_async

CLUSTER = "bWV0YWRhdGEtY2x1c3Rlcg"
CREATED = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # killed nodes close nothing


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Nodes:
    """Nodes by id: 0, 1, ... are controllers, and brokers too unless `roles` says otherwise."""

    def __init__(self, directory: Any, roles: list[str], **settings: str) -> None:
        self.directory = directory
        self.roles = roles
        self.settings = {name.replace("_", "."): value for name, value in settings.items()}
        self.ports = free_ports(len(roles))
        self.up: dict[int, Node] = {}
        self.fatal: list[BaseException] = []

    def config(self, node_id: int) -> dict[str, str]:
        """A static set of voters; see DynamicNodes."""
        roles = self.roles[node_id]
        listeners = ["PLAINTEXT://127.0.0.1:0"] if "broker" in roles else []
        if "controller" in roles:
            listeners.append(f"CONTROLLER://127.0.0.1:{self.ports[node_id]}")
        voters = [n for n, each in enumerate(self.roles) if "controller" in each]
        return {
            "node.id": str(node_id),
            "process.roles": roles,
            "cluster.id": CLUSTER,
            "log.dirs": f"{self.directory}/{node_id}",
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(f"{n}@127.0.0.1:{self.ports[n]}" for n in voters),
            **self.settings,
        }

    async def start(self, *node_ids: int) -> None:
        for node_id in node_ids:
            self.up[node_id] = Node(broker_config(self.config(node_id)), on_fatal=self.fatal.append)
        await asyncio.gather(*(self.up[node_id].start() for node_id in node_ids))

    async def kill(self, node_id: int) -> None:
        """Kill a node: nothing is handed over, flushed or sent."""
        broker = self.up.pop(node_id)
        tasks = [broker.registration._task, *broker.periodic_tasks._tasks]
        for task in tasks:
            if task is not None:
                task.cancel()
        await broker._abandon()

    async def stop(self) -> None:
        """Stop plain brokers first: their controlled shutdown needs a controller."""
        for are_voters in (False, True):
            going = [n for n in self.up if ("controller" in self.roles[n]) is are_voters]
            await asyncio.gather(*(self.up[node_id].stop() for node_id in going))
            for node_id in going:
                del self.up[node_id]

    async def leader(self) -> int:
        await wait_until_async(
            lambda: any(broker.controllers.active is not None for broker in self.up.values())
        )
        return next(n for n, broker in self.up.items() if broker.controllers.active is not None)

    async def same_metadata(self) -> None:
        """Wait until all nodes have applied what the leader has."""
        leader = self.up[await self.leader()]
        end_offset = leader.applier.applied_offset
        await wait_until_async(
            lambda: all(each.applier.applied_offset >= end_offset for each in self.up.values())
        )

    def topics(self, node_id: int) -> set[str]:
        return set(self.up[node_id].metadata.image.topics_by_name)


def run(nodes: Nodes, scenario: Callable[[], Awaitable[None]], first: list[int] | None = None) -> None:
    async def main() -> None:
        try:
            await asyncio.wait_for(nodes.start(*(range(len(nodes.roles)) if first is None else first)), 20)
            await asyncio.wait_for(scenario(), 60)
            assert nodes.fatal == []
            await asyncio.wait_for(nodes.stop(), 20)
        finally:
            for node_id in list(nodes.up):
                await nodes.kill(node_id)

    asyncio.run(main())


async def ask(port: int, message: Message, timeout_ms: int = 5000, version: int | None = None) -> Any:
    peer = Peer("127.0.0.1", port, "test")
    try:
        response_class = API_BY_KEY[message.API_KEY].response_class()
        return await peer.call(message, response_class, timeout_ms=timeout_ms, version=version)
    finally:
        peer.close()


def create(*names: str, timeout_ms: int = 3000) -> CreateTopicsRequest:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    return CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms)


async def created(port: int, *names: str) -> bool:
    """Whether the cluster confirms the topic; after False it may or may not exist."""
    try:
        answer = await ask(port, create(*names))
    except PeerLost:
        return False
    return all(topic.error_code in CREATED for topic in answer.topics)


def describe() -> DescribeQuorumRequest:
    topic = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
    return DescribeQuorumRequest(topics=[topic])


COMBINED = ["broker,controller"] * 3


def test_every_node_accepts_requests_and_describes_the_quorum(tmp_path: Any) -> None:
    nodes = Nodes(tmp_path, COMBINED)

    async def scenario() -> None:
        for node_id, broker in nodes.up.items():
            assert await created(broker.port, f"t{node_id}")
        await nodes.same_metadata()
        assert [nodes.topics(node_id) for node_id in nodes.up] == [{"t0", "t1", "t2"}] * 3
        leader = await nodes.leader()
        for broker in nodes.up.values():
            for version in (0, 1, 2):
                answer = await ask(broker.port, describe(), version=version)
                partition = answer.topics[0].partitions[0]
                assert (answer.error_code, partition.error_code, partition.leader_id) == (0, 0, leader)
                assert [voter.replica_id for voter in partition.current_voters] == [0, 1, 2]
                end_offsets = [voter.log_end_offset for voter in partition.current_voters]
                assert min(end_offsets) >= partition.high_watermark - 5
        # Requests on a controller listener are not forwarded: only the leader answers there.
        codes = [(await ask(port, describe())).error_code for port in nodes.ports]
        assert codes.count(ErrorCode.NONE) == 1

    run(nodes, scenario)


def test_an_inactive_controller_refuses_requests(tmp_path: Any) -> None:
    nodes = Nodes(tmp_path, COMBINED)

    async def scenario() -> None:
        leader = await nodes.leader()
        for node_id in nodes.up:
            answer = await ask(nodes.ports[node_id], create(f"t{node_id}"))
            expected = ErrorCode.NONE if node_id == leader else ErrorCode.NOT_CONTROLLER
            assert answer.topics[0].error_code == expected

    run(nodes, scenario)


def test_no_accepted_change_is_lost_when_controllers_die(tmp_path: Any) -> None:
    nodes = Nodes(tmp_path, COMBINED)
    accepted: set[str] = set()

    async def write(stop: asyncio.Event) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            broker = list(nodes.up.values())[number % len(nodes.up)]
            if broker.applier._is_live and await created(broker.port, f"t{number}"):
                accepted.add(f"t{number}")
            await asyncio.sleep(0.002)

    async def scenario() -> None:
        stop = asyncio.Event()
        writers = [asyncio.ensure_future(write(stop))]
        for _ in range(4):
            before = len(accepted)
            await wait_until_async(lambda before=before: len(accepted) > before + 5)  # type: ignore[misc]
            leader = await nodes.leader()
            await nodes.kill(leader)
            after = len(accepted)
            await wait_until_async(lambda after=after: len(accepted) > after + 5)  # type: ignore[misc]
            await nodes.start(leader)
        stop.set()
        await asyncio.gather(*writers)
        await nodes.same_metadata()
        for node_id in nodes.up:
            assert accepted <= nodes.topics(node_id)
        # The same when all nodes are killed at once.
        for node_id in list(nodes.up):
            await nodes.kill(node_id)
        await nodes.start(0, 1, 2)
        await nodes.same_metadata()
        images = [sorted(nodes.topics(node_id)) for node_id in nodes.up]
        assert images[0] == images[1] == images[2]
        assert accepted <= set(images[0])

    run(nodes, scenario)


@pytest.mark.parametrize("role", ["voter", "observer"])
def test_a_node_far_behind_gets_a_snapshot(tmp_path: Any, role: str) -> None:
    nodes = Nodes(
        tmp_path,
        [*COMBINED, "broker"],
        metadata_log_max_record_bytes_between_snapshots="2000",
        metadata_max_retention_bytes="1",
    )

    async def scenario() -> None:
        assert await created(nodes.up[0].port, "first")
        await nodes.same_metadata()
        leader = await nodes.leader()
        behind = 3 if role == "observer" else next(n for n in (0, 1, 2) if n != leader)
        end_offset = nodes.up[behind].quorum_node.raft.log.end_offset
        await nodes.kill(behind)
        quorum_log = nodes.up[leader].quorum_node.raft.log
        for number in range(40):
            assert await created(nodes.up[leader].port, f"t{number}")
        await wait_until_async(lambda: quorum_log.start_offset > end_offset)
        await nodes.start(behind)
        await nodes.same_metadata()
        assert nodes.topics(behind) == nodes.topics(leader)
        assert len(nodes.topics(behind)) == 41
        assert nodes.up[behind].quorum_node.raft.log.start_offset > end_offset, (
            "its log starts after a snapshot"
        )
        assert await created(nodes.up[behind].port, "last")
        await nodes.same_metadata()
        assert "last" in nodes.topics(behind)
        # The snapshot is enough to start from.
        await nodes.kill(behind)
        await nodes.start(behind)
        await nodes.same_metadata()
        assert nodes.topics(behind) == nodes.topics(leader)

    run(nodes, scenario)


def test_controllers_without_brokers_and_brokers_without_controllers(tmp_path: Any) -> None:
    nodes = Nodes(tmp_path, ["controller"] * 3 + ["broker"] * 2)

    async def scenario() -> None:
        leader = await nodes.leader()
        assert leader < 3
        assert sorted(nodes.up[leader].metadata.image.brokers) == [3, 4]
        for node_id in (3, 4):
            assert await created(nodes.up[node_id].port, f"t{node_id}")
        await nodes.same_metadata()
        assert [nodes.topics(node_id) for node_id in nodes.up] == [{"t3", "t4"}] * 5
        answer = await ask(nodes.up[4].port, describe())
        partition = answer.topics[0].partitions[0]
        assert sorted(each.replica_id for each in partition.observers) == [3, 4]
        await nodes.kill(leader)
        await nodes.leader()
        assert await created(nodes.up[3].port, "after")
        await nodes.same_metadata()
        assert all("after" in nodes.topics(node_id) for node_id in nodes.up)
        await nodes.start(leader)

    run(nodes, scenario)


def test_a_minority_decides_nothing(tmp_path: Any) -> None:
    nodes = Nodes(tmp_path, COMBINED, controller_quorum_fetch_timeout_ms="600")

    async def scenario() -> None:
        assert await created(nodes.up[0].port, "before")
        await nodes.same_metadata()
        leader = await nodes.leader()
        others = [node_id for node_id in nodes.up if node_id != leader]
        for node_id in others:
            await nodes.kill(node_id)
        alone = nodes.up[leader]
        answer = await ask(alone.port, create("lost", timeout_ms=1500), timeout_ms=10_000)
        assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
        await wait_until_async(lambda: alone.controllers.active is None)
        assert alone.quorum_node.raft.machine.role != "leader"
        assert nodes.topics(leader) == {"before"}
        await nodes.start(others[0])
        assert await created(alone.port, "after")
        await nodes.same_metadata()
        assert {"before", "after"} <= nodes.topics(leader)
        await nodes.start(others[1])

    run(nodes, scenario)


def test_a_cluster_starts_quickly(tmp_path: Any) -> None:
    """The voters do not wait for an election timeout, neither at the first start nor at a restart."""
    nodes = Nodes(tmp_path, COMBINED, controller_quorum_election_timeout_ms="4000")

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        await nodes.stop()
        began = loop.time()
        await nodes.start(0, 1, 2)
        assert loop.time() - began < 3

    run(nodes, scenario)


# -- dynamic voters


class DynamicNodes(Nodes):
    """Node 0 starts the quorum alone; the others find it by its address."""

    def config(self, node_id: int) -> dict[str, str]:
        servers = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        return {
            **super().config(node_id),
            "controller.quorum.voters": "",
            "controller.quorum.bootstrap.servers": servers,
        }

    def format(self, node_id: int) -> None:
        path = f"{self.directory}/{node_id}"
        uuids = random.Random(node_id)
        formatter = Formatter(
            OsFiles(),
            [path],
            path,
            node_id=node_id,
            cluster_id=CLUSTER,
            new_uuid=lambda: uuids.randbytes(16),
        )
        if node_id == 0:
            endpoint = Endpoint("CONTROLLER", "127.0.0.1", self.ports[0])
            formatter.standalone([endpoint], 0)
        else:
            formatter.without_voters()

    def voter(self, node_id: int) -> dict[str, Any]:
        config = self.up[node_id].quorum_node.raft.machine.config
        return {"cluster_id": CLUSTER, "voter_id": node_id, "voter_directory_id": config.directory_id}

    def add(self, node_id: int) -> AddRaftVoterRequest:
        listener = VoterListener(name="CONTROLLER", host="127.0.0.1", port=self.ports[node_id])
        return AddRaftVoterRequest(**self.voter(node_id), timeout_ms=5000, listeners=[listener])

    async def voters_are(self, *node_ids: int) -> None:
        expected = set(node_ids)
        await wait_until_async(
            lambda: all(set(n.quorum_node.raft.machine.voters.by_id) == expected for n in self.up.values())
        )


async def change_voters(port: int, message: Message) -> Any:
    """The first response that is not retriable."""
    while True:
        answer = await ask(port, message, timeout_ms=20_000)
        if answer.error_code != ErrorCode.REQUEST_TIMED_OUT:
            return answer
        await asyncio.sleep(0.05)


def test_voters_are_added_and_removed(tmp_path: Any) -> None:
    nodes = DynamicNodes(tmp_path, COMBINED)
    for node_id in range(3):
        nodes.format(node_id)

    async def scenario() -> None:
        port = nodes.up[2].port
        assert await created(port, "alone")
        for node_id in (1, 2):
            answer = await change_voters(port, nodes.add(node_id))
            assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)
        await nodes.voters_are(0, 1, 2)
        again = await change_voters(port, nodes.add(1))
        assert again.error_code == ErrorCode.DUPLICATE_VOTER
        described = await ask(port, describe())
        voters = described.topics[0].partitions[0].current_voters
        assert [each.replica_directory_id for each in voters] == [
            nodes.up[node_id].quorum_node.raft.machine.config.directory_id for node_id in (0, 1, 2)
        ]
        # Three voters can lose one, even the first.
        await nodes.kill(0)
        await nodes.leader()
        assert await created(port, "without-the-first")
        await nodes.start(0)
        await nodes.same_metadata()
        # The leader itself may be removed: another takes over, and it continues as an observer.
        leader = await nodes.leader()
        other = next(node_id for node_id in nodes.up if node_id != leader)
        remove = RemoveRaftVoterRequest(**nodes.voter(leader))
        assert (await change_voters(nodes.up[other].port, remove)).error_code == ErrorCode.NONE
        await nodes.voters_are(*(node_id for node_id in (0, 1, 2) if node_id != leader))
        await wait_until_async(lambda: nodes.up[leader].controllers.active is None)
        assert await created(nodes.up[leader].port, "from-an-observer")
        await nodes.same_metadata()
        assert {"alone", "without-the-first", "from-an-observer"} == nodes.topics(leader)

    run(nodes, scenario)


def test_voters_survive_snapshots_and_restarts(tmp_path: Any) -> None:
    nodes = DynamicNodes(
        tmp_path,
        COMBINED,
        metadata_log_max_record_bytes_between_snapshots="2000",
        metadata_max_retention_bytes="1",
    )
    nodes.format(0)  # the others only need their cluster.id

    async def scenario() -> None:
        for node_id in (1, 2):
            assert (await change_voters(nodes.up[0].port, nodes.add(node_id))).error_code == ErrorCode.NONE
        await nodes.voters_are(0, 1, 2)
        for number in range(30):
            assert await created(nodes.up[0].port, f"t{number}")
        logs = [broker.quorum_node.raft.log for broker in nodes.up.values()]
        await wait_until_async(lambda: all(each.start_offset > 20 for each in logs))
        for node_id in (0, 1, 2):
            await nodes.kill(node_id)
        await nodes.start(0, 1, 2)
        await nodes.voters_are(0, 1, 2)
        await nodes.same_metadata()
        assert [len(nodes.topics(node_id)) for node_id in nodes.up] == [30] * 3

    run(nodes, scenario)


def test_voters_that_start_together(tmp_path: Any) -> None:
    nodes = DynamicNodes(tmp_path, ["controller"] * 3 + ["broker"])
    listed = ",".join(f"{n}@127.0.0.1:{nodes.ports[n]}:{uuid_to_text(bytes([n + 1]) * 16)}" for n in range(3))
    for node_id in range(3):
        path = f"{tmp_path}/{node_id}"
        formatter = Formatter(
            OsFiles(), [path], path, node_id=node_id, cluster_id=CLUSTER, new_uuid=lambda: b"not needed here!"
        )
        formatter.with_voters(parse_initial_controllers(listed, "CONTROLLER"), 0)

    async def scenario() -> None:
        await nodes.voters_are(0, 1, 2)
        assert {broker.quorum_node.raft.machine.kraft_version for broker in nodes.up.values()} == {1}
        assert await created(nodes.up[3].port, "t")

    run(nodes, scenario)


def test_controllers_join_the_voters_automatically(tmp_path: Any) -> None:
    nodes = DynamicNodes(tmp_path, COMBINED, controller_quorum_auto_join_enable="true")
    nodes.format(0)

    async def scenario() -> None:
        await nodes.voters_are(0, 1, 2)
        # A voter that lost its disk comes back with a new directory, which replaces the old one.
        leader = await nodes.leader()
        lost = next(node_id for node_id in nodes.up if node_id != leader)
        old = nodes.voter(lost)["voter_directory_id"]
        await nodes.kill(lost)
        shutil.rmtree(f"{tmp_path}/{lost}")
        await nodes.start(lost)
        new = nodes.voter(lost)["voter_directory_id"]
        assert new != old
        machines = [broker.quorum_node.raft.machine for broker in nodes.up.values()]
        await wait_until_async(
            lambda: all(each.voters.has(lost, new) and len(each.voters) == 3 for each in machines)
        )

    run(nodes, scenario)


def test_a_voter_that_moves_updates_its_address(tmp_path: Any) -> None:
    nodes = DynamicNodes(tmp_path, COMBINED)
    nodes.format(0)

    async def scenario() -> None:
        for node_id in (1, 2):
            assert (await change_voters(nodes.up[0].port, nodes.add(node_id))).error_code == ErrorCode.NONE
        leader = await nodes.leader()
        moving = next(node_id for node_id in nodes.up if node_id != leader)
        await nodes.kill(moving)
        (nodes.ports[moving],) = free_ports(1)
        await nodes.start(moving)
        machines = [broker.quorum_node.raft.machine for broker in nodes.up.values()]
        await wait_until_async(
            lambda: all(
                each.voters.by_id[moving].endpoints[0].port == nodes.ports[moving] for each in machines
            )
        )

    run(nodes, scenario)
