"""Leaders and followers of three brokers: copying, acknowledgements, the ISR, elections and truncation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.broker.replicas.follower_fetch import FollowedPartition, FollowerFetch
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch_request import FetchRequest
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.list_offsets_response import ListOffsetsResponse
from ottla.records.build import build_batch
from ottla.storage.errors import DiskFull
from ottla.storage.log import PartitionLog
from tests.support.broker.replicated import FOLLOWER, LEADER, OTHER, Trio, play

SAFE = {"min.insync.replicas": "2"}
LAG = {"replica.lag.time.max.ms": "2000", "replica.fetch.wait.max.ms": "500"}


def test_acks_all_means_every_in_sync_replica_has_the_records() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create(SAFE)
        for number in range(20):
            answer = await trio.produce(f"v{number}")
            assert (answer.error_code, answer.base_offset) == (0, number)
            assert [trio.partition(node).log.log_end_offset for node in trio.nodes] == [number + 1] * 3
        await trio.until(lambda: all(trio.partition(node).high_watermark == 20 for node in trio.nodes))
        assert trio.values(FOLLOWER) == trio.values(OTHER) == [f"v{number}" for number in range(20)]
        assert not trio.broker(LEADER).replicas.under_replicated
        assert [trio.broker(node).replicas.leader_count for node in trio.nodes] == [1, 0, 0]

    play(scenario)


def test_acks_1_does_not_wait_for_followers() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create(SAFE)
        await trio.produce("first")
        for node in (FOLLOWER, OTHER):
            trio.world.network.block(f"node{node}", "node1")
        answer = await trio.produce("second", acks=1)
        assert not answer.error_code and trio.partition(LEADER).high_watermark == 1
        assert not (await trio.fetch(LEADER, 1)).records, "consumers see only committed records"
        answer = await trio.produce("third", timeout_ms=300)
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
        trio.world.network.heal()
        await trio.until(lambda: trio.partition(LEADER).high_watermark == 3)

    play(scenario)


def test_a_lagging_follower_leaves_the_isr_and_rejoins() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create(SAFE)
        await trio.produce("first")
        trio.world.network.block("node2", "node1")
        began = trio.world.loop.time()
        answer = await trio.produce("second", timeout_ms=30_000)
        assert not answer.error_code
        assert 2.0 <= trio.world.loop.time() - began <= 4.0
        assert trio.isr() == {LEADER, OTHER}
        assert trio.broker(LEADER).replicas.isr_shrinks == 1
        assert len(trio.broker(LEADER).replicas.under_replicated) == 1
        trio.world.network.heal()
        await trio.until(lambda: trio.isr() == {LEADER, FOLLOWER, OTHER})
        assert trio.values(FOLLOWER) == ["first", "second"]
        assert trio.broker(LEADER).replicas.isr_expands == 1

    play(scenario, LAG)


def test_writes_are_refused_below_min_isr_and_resume() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create(SAFE, replicas=(LEADER, FOLLOWER))
        await trio.produce("first")
        trio.nodes[FOLLOWER].kill()
        await trio.until(lambda: trio.isr() == {LEADER})
        for _ in range(3):  # the first by the handler, the others by the fast path
            answer = await trio.produce("refused")
            assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert trio.values(LEADER) == ["first"]
        assert not (await trio.produce("leader alone", acks=1)).error_code
        await trio.nodes[FOLLOWER].start()
        await trio.until(lambda: trio.isr() == {LEADER, FOLLOWER})
        assert not (await trio.produce("second")).error_code
        assert trio.values(FOLLOWER) == ["first", "leader alone", "second"]

    play(scenario)


def test_a_partitioned_leader_truncates_uncommitted_records() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create(SAFE)
        for number in range(3):
            await trio.produce(f"kept{number}")
        for node in ("node2", "node3"):
            trio.world.network.block("node1", node)
            trio.world.network.block(node, "node1")
        for number in range(3):
            assert not (await trio.produce(f"lost{number}", acks=1)).error_code
        waiting = asyncio.ensure_future(trio.produce("waits", timeout_ms=60_000))
        await trio.until(lambda: trio.partition(FOLLOWER).is_leader)
        assert not (await trio.produce("new", FOLLOWER)).error_code
        assert trio.partition(LEADER).log.log_end_offset == 7
        trio.world.network.heal()
        answer = await waiting
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert answer.current_leader.leader_id == FOLLOWER
        await trio.until(lambda: trio.values(LEADER) == ["kept0", "kept1", "kept2", "new"])
        await trio.until(lambda: trio.isr(FOLLOWER) == {LEADER, FOLLOWER, OTHER})
        assert trio.broker(LEADER).replicas.truncations == 1
        answer = await trio.produce("to the wrong one", LEADER)
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert answer.current_leader.leader_id == FOLLOWER

    play(scenario)


def test_a_full_disk_only_delays_a_truncation(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create(SAFE)
        await trio.produce("kept")
        for node in ("node2", "node3"):
            trio.world.network.block("node1", node)
            trio.world.network.block(node, "node1")
        assert not (await trio.produce("lost", acks=1)).error_code
        await trio.until(lambda: trio.partition(FOLLOWER).is_leader)
        assert not (await trio.produce("new", FOLLOWER)).error_code
        refused: list[int] = []
        truncate_to = PartitionLog.truncate_to

        def truncate_when_there_is_room(self: PartitionLog, offset: int) -> bool:
            if self is trio.partition(LEADER).log and len(refused) < 3:
                refused.append(offset)
                raise DiskFull("/data", "no space left on device")
            return truncate_to(self, offset)

        monkeypatch.setattr(PartitionLog, "truncate_to", truncate_when_there_is_room)
        trio.world.network.heal()
        await trio.until(lambda: trio.values(LEADER) == ["kept", "new"])
        await trio.until(lambda: trio.isr(FOLLOWER) == {LEADER, FOLLOWER, OTHER})
        assert refused == [1, 1, 1]

    play(scenario)


def test_a_killed_leader_is_replaced_soon() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create(SAFE)
        await trio.produce("first")
        await asyncio.sleep(3)
        trio.nodes[LEADER].kill()
        took_s = await trio.until(lambda: trio.partition(FOLLOWER).is_leader)
        assert took_s < 3, "the quorum may have to elect first"
        began = trio.world.loop.time()
        assert not (await trio.produce("second", FOLLOWER)).error_code
        assert trio.world.loop.time() - began < 0.2, "a parked fetch does not delay the new leader"
        await trio.nodes[LEADER].start()
        await trio.until(lambda: trio.isr(FOLLOWER) == {LEADER, FOLLOWER, OTHER})
        assert trio.values(LEADER) == ["first", "second"]

    play(scenario)


def test_a_new_leader_answers_no_offsets_before_its_high_watermark_is_settled() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create(SAFE)
        await trio.produce("first")
        partition = trio.partition(LEADER)
        leader = partition.leader
        assert leader is not None
        latest = ListOffsetsPartition(partition_index=0, timestamp=-1)
        earliest = ListOffsetsPartition(partition_index=0, timestamp=-2)

        async def list_offsets(wanted: ListOffsetsPartition, node: int = LEADER) -> tuple[int, int]:
            topic = ListOffsetsTopic(name="events", partitions=[wanted])
            request = ListOffsetsRequest(replica_id=-1, topics=[topic])
            answer = await trio.ask(node, request, ListOffsetsResponse)
            found = answer.topics[0].partitions[0]
            return found.error_code, found.offset

        assert await list_offsets(latest) == (0, 1)
        leader.epoch_start_offset = 5
        assert await list_offsets(latest) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
        assert await list_offsets(earliest) == (0, 0)
        assert await list_offsets(latest, FOLLOWER) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)

    play(scenario)


def test_a_new_leader_reports_no_stable_offset_before_a_readers_position() -> None:
    """A marker that the new leader does not know to be committed leaves its transaction open there, and a
    reader that has read past it must not see the stable offset go back."""

    async def scenario(trio: Trio) -> None:
        await trio.create(SAFE)
        partition = trio.partition(LEADER)
        leader = partition.leader
        assert leader is not None
        batch = build_batch(
            [(trio.world.now_ms, None, b"open", ())],
            producer_id=7,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        partition.append_internal(batch, trio.world.now_ms)
        await trio.until(lambda: partition.high_watermark == 1)
        settled = await trio.fetch(LEADER, 1, read_committed=True)
        assert (settled.error_code, settled.last_stable_offset) == (0, 0)
        leader.epoch_start_offset = 5
        data = await trio.fetch(LEADER, 1, read_committed=True)
        assert data.error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        assert not (await trio.fetch(LEADER, 1)).error_code
        assert not (await trio.fetch(LEADER, 0, read_committed=True)).error_code

    play(scenario)


def test_followers_sync_before_they_acknowledge_with_flush_messages() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create({**SAFE, "flush.messages": "1"})
        for number in range(10):
            assert not (await trio.produce(f"v{number}")).error_code
            recovery_points = [trio.partition(node).log.recovery_point for node in trio.nodes]
            assert recovery_points == [number + 1] * 3
        for node in trio.nodes.values():
            node.power_cut()
        await trio.world.start_all(trio.nodes.values())
        await trio.until(lambda: trio.leader_id() >= 0)
        assert trio.values(trio.leader_id()) == [f"v{number}" for number in range(10)]

    play(scenario)


def test_idle_partitions_are_not_in_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []
    look_at = FollowerFetch._examine

    def noted(fetch: FollowerFetch, followed: FollowedPartition, *rest: Any) -> Any:
        looked_at.append(str(followed.key))
        return look_at(fetch, followed, *rest)

    monkeypatch.setattr(FollowerFetch, "_examine", noted)

    async def scenario(trio: Trio) -> None:
        await trio.create(partitions=50)
        await asyncio.sleep(5)
        assert looked_at
        looked_at.clear()
        service = trio.broker(LEADER).replicas.follower_fetches
        fetches: list[FetchRequest] = []
        serve = service.serve

        def counted(request: Any, message: FetchRequest) -> Any:
            fetches.append(message)
            return serve(request, message)

        service.serve = counted  # type: ignore[method-assign]
        await asyncio.sleep(10)
        assert 36 <= len(fetches) <= 44, "two followers, each fetches twice a second"
        assert not any(each.topics or each.forgotten_topics_data for each in fetches)
        assert not looked_at
        assert trio.isr() == {LEADER, FOLLOWER, OTHER}

    play(scenario, {"replica.lag.time.max.ms": "1000"})
