"""Log directories whose disk does not answer for a while: what lives elsewhere goes on, and leaders move."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.broker.metadata_cache import MetadataCache
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from tests.support.broker.hanging_directory import HangingDirectory
from tests.support.broker.replicated import LEADER, OTHER, TOPIC, Trio, play

ONE, TWO = "/data/one", "/data/two"
TWO_DIRECTORIES = {
    "log.dirs": f"{ONE},{TWO}",
    "metadata.log.dir": ONE,
    "log.dir.stall.timeout.ms": "5000",
    "auto.leader.rebalance.enable": "true",
    "leader.imbalance.check.interval.seconds": "1",
    "leader.imbalance.per.broker.percentage": "1",
}
PARTITIONS = 6


def metadata(trio: Trio, node_id: int = OTHER) -> MetadataCache:
    return trio.broker(node_id).metadata


def leaders(trio: Trio) -> dict[int, int]:
    partitions = metadata(trio).image.topics_by_name[TOPIC].partitions
    return {index: partition.leader for index, partition in partitions.items()}


def in_directory(trio: Trio, path: str) -> set[int]:
    hosted = trio.broker(LEADER).partitions.of_topic(TOPIC)
    return {index for index, partition in hosted.items() if partition.log.log_dir.path == path}


def quorum_epoch(trio: Trio) -> int:
    return trio.broker(OTHER).quorum_node.raft.machine.epoch


async def create(trio: Trio, name: str) -> float:
    """Create a topic; return how long it took."""
    began_s = trio.world.loop.time()
    topic = CreatableTopic(name=name, num_partitions=2, replication_factor=3)
    answer = await trio.ask_controller(CreateTopicsRequest(topics=[topic], timeout_ms=5000))
    assert not answer.topics[0].error_code, answer.topics[0].error_message
    return trio.world.loop.time() - began_s


async def reported(trio: Trio) -> None:
    """Wait until the controller knows the directories of all replicas."""
    wanted = trio.broker(LEADER).directory_reports._wanted
    await trio.until(lambda: not wanted)


async def start_hanging(trio: Trio, path: str) -> HangingDirectory:
    """Let the directory hang while a flush is on its way."""
    disk = HangingDirectory(trio.nodes[LEADER], path)
    partition = trio.broker(LEADER).partitions.of_topic(TOPIC)[min(in_directory(trio, path))]

    async def flush(broker: Any) -> None:
        broker.flusher.flush(partition)

    await trio.inside(trio.nodes[LEADER], flush)
    return disk


def test_leaders_leave_a_directory_that_hangs_and_come_back() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create(partitions=PARTITIONS)
        await reported(trio)
        there, elsewhere = in_directory(trio, TWO), in_directory(trio, ONE)
        assert there and elsewhere, "both directories are used"
        fenced: list[bool] = []
        epoch = quorum_epoch(trio)
        disk = await start_hanging(trio, TWO)
        began_s = trio.world.loop.time()
        await trio.until(lambda: all(leaders(trio)[index] != LEADER for index in there), 10)
        # For 30 s: registration, the quorum, and the other directory go on.
        while trio.world.loop.time() - began_s < 30:
            fenced.append(metadata(trio).image.brokers[LEADER].fenced)
            assert all(leaders(trio)[index] == LEADER for index in elsewhere)
            assert await create(trio, f"during-{len(fenced)}") < 0.5
            await asyncio.sleep(1)
        assert not any(fenced) and quorum_epoch(trio) == epoch
        assert trio.broker(LEADER).logs.dirs[1].is_stalled
        disk.answer()
        await trio.until(lambda: set(leaders(trio).values()) == {LEADER}, 30)
        assert trio.broker(LEADER).logs.dirs[1].error is None
        isrs = [state.isr for state in metadata(trio).image.topics_by_name[TOPIC].partitions.values()]
        assert all(len(isr) == 3 for isr in isrs)
        assert quorum_epoch(trio) == epoch

    play(scenario, TWO_DIRECTORIES)


def test_acknowledged_records_survive_the_move_and_the_return() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create({"min.insync.replicas": "2"})
        await reported(trio)
        path = trio.partition(LEADER).log.log_dir.path
        for number in range(5):
            assert not (await trio.produce(f"v{number}")).error_code
        disk = await start_hanging(trio, path)
        await trio.until(lambda: leaders(trio)[0] not in (-1, LEADER), 10)
        answer = await trio.produce("refused")
        assert answer.error_code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR)
        for number in range(5, 10):
            await trio.until(lambda: trio.partition(leaders(trio)[0]).is_leader)
            assert not (await trio.produce(f"v{number}", leaders(trio)[0])).error_code
        disk.answer()
        await trio.until(lambda: leaders(trio)[0] == LEADER and trio.partition(LEADER).is_leader, 30)
        assert not (await trio.produce("v10")).error_code
        await trio.until(lambda: all(trio.partition(node).high_watermark == 11 for node in trio.nodes))
        for node in trio.nodes:
            assert trio.values(node) == [f"v{number}" for number in range(11)]

    play(scenario, TWO_DIRECTORIES)


def test_an_only_replica_is_offline_while_its_directory_hangs_and_leads_again() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create({"flush.messages": "1"}, (LEADER,), PARTITIONS)
        await reported(trio)
        there = in_directory(trio, TWO)
        disk = await start_hanging(trio, TWO)
        await trio.until(lambda: all(leaders(trio)[index] == -1 for index in there), 10)
        assert all(leader == LEADER for index, leader in leaders(trio).items() if index not in there)
        disk.answer()
        await trio.until(lambda: set(leaders(trio).values()) == {LEADER}, 10)
        partition = trio.broker(LEADER).partitions.of_topic(TOPIC)[min(there)]
        await trio.until(lambda: partition.is_leader)

    play(scenario, TWO_DIRECTORIES)


def test_a_node_with_one_directory_is_fenced_while_it_hangs_and_stays_a_voter() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create({"min.insync.replicas": "2"})
        assert not (await trio.produce("first")).error_code
        path = trio.partition(LEADER).log.log_dir.path
        disk = await start_hanging(trio, path)
        await trio.until(lambda: leaders(trio)[0] not in (-1, LEADER), 10)
        await trio.until(lambda: metadata(trio).image.brokers[LEADER].fenced)
        assert await create(trio, "during") < 0.5
        await trio.until(lambda: "during" in metadata(trio, LEADER).image.topics_by_name)
        disk.answer()
        await trio.until(lambda: leaders(trio)[0] == LEADER, 30)
        await trio.until(lambda: trio.broker(LEADER).partitions.by_name("during", 0) is not None)

    settings = {name: value for name, value in TWO_DIRECTORIES.items() if not name.endswith(("dirs", "dir"))}
    play(scenario, settings)


def test_a_topic_that_is_deleted_meanwhile_leaves_the_directory_when_it_answers() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create(partitions=PARTITIONS)
        await reported(trio)
        files, there = trio.nodes[LEADER].disk.files, in_directory(trio, TWO)
        disk = await start_hanging(trio, TWO)
        await trio.until(lambda: trio.broker(LEADER).logs.dirs[1].is_stalled, 10)
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)], timeout_ms=5000)
        assert not (await trio.ask_controller(request)).responses[0].error_code
        await trio.until(lambda: not trio.broker(LEADER).partitions.of_topic(TOPIC))
        await trio.create(partitions=1)
        assert trio.partition(LEADER).log.log_dir.path == ONE, "not where the disk hangs"
        disk.answer()
        names = {f"{TOPIC}-{index}" for index in there}
        await trio.until(lambda: names.isdisjoint(files.listdir(TWO)), 30)

    play(scenario, TWO_DIRECTORIES)


def test_a_slow_directory_that_makes_progress_stays_in_service() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create(partitions=PARTITIONS)
        await reported(trio)
        disk = await start_hanging(trio, TWO)
        for _ in range(6):
            await asyncio.sleep(4)
            disk.answer()
            disk = await start_hanging(trio, TWO)
        assert set(leaders(trio).values()) == {LEADER}
        disk.answer()

    play(scenario, TWO_DIRECTORIES)
