"""Committed offsets: the cost of a commit, and the time to load a million of them."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator, Sequence

from bench.background import Background
from bench.broker import BenchError, Broker, Launch
from bench.figures import Figure, figure_of
from bench.members import ClassicMember, MemberWire, find_coordinator, open_wires
from bench.meter import CpuMeter, rss_bytes
from bench.sizes import Sizes
from bench.wire import CLIENT_ID, Exchange, Wire, joined
from ottla.protocol.errors import ErrorCode
from ottla.protocol.frames import encode_request, read_response_header
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from ottla.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_commit_response import OffsetCommitResponse
from ottla.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.offset_fetch_response import OffsetFetchResponse

TOPIC = "bench"
COMMIT_VERSION = 8  # the last with topic names; librdkafka sends it
OFFSET_FETCH_VERSION = 8
GROUP = 16  # commits per send
IN_FLIGHT = 64
DISTINCT = 256
LOAD_GROUPS_MAX = 100  # about two for each partition of __consumer_offsets
OFFSETS_PER_COMMIT = 100
LOAD_GOAL_S = 5
RESPONSE_GOAL_MS = 50
LOOK_SECONDS = 0.005
PROBE_SECONDS = 0.002
WAIT_SECONDS_MAX = 120


def commit_frame(
    group_id: str, partitions: Sequence[int], offset: int, member: ClassicMember | None
) -> bytes:
    committed = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
        for index in partitions
    ]
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=-1 if member is None else member.generation,
        member_id="" if member is None else member.member_id,
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=committed)],
    )
    return encode_request(COMMIT_VERSION, 1, CLIENT_ID, request)


def check_commit(answer: bytes) -> int:
    """Return the size of a successful response."""
    _, position = read_response_header(OffsetCommitRequest.API_KEY, COMMIT_VERSION, answer)
    decoded = OffsetCommitResponse.decode(COMMIT_VERSION, answer, position)
    codes = {partition.error_code for topic in decoded.topics for partition in topic.partitions}
    if codes != {0}:
        raise BenchError(f"OffsetCommit: error codes {sorted(codes)}")
    return 4 + len(answer)


def prepare(wire: Wire, group_id: str) -> None:
    """Create the topic and wait for the coordinator of the group."""
    wire.create_topic(TOPIC, 1)
    await_coordinator(wire, group_id)


def await_coordinator(wire: Wire, group_id: str) -> None:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id])
    deadline_s = time.monotonic() + WAIT_SECONDS_MAX
    while wire.call(4, request, FindCoordinatorResponse).coordinators[0].error_code:
        if time.monotonic() > deadline_s:
            raise BenchError("no coordinator")
        time.sleep(LOOK_SECONDS)


# -- commits


def commits(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    with Broker(launch) as broker, Wire(broker) as wire:
        prepare(wire, "single")
        for partitions in (1, 10):
            yield _pipelined(broker, wire, sizes, partitions)
    with Broker(launch, {"group.initial.rebalance.delay.ms": "0"}) as broker:
        with Wire(broker) as wire:
            prepare(wire, "single")
        yield asyncio.run(_from_many(broker, sizes))


def _pipelined(broker: Broker, wire: Wire, sizes: Sizes, partitions: int) -> Figure:
    frames = [commit_frame("single", range(partitions), offset, None) for offset in range(DISTINCT)]
    answer_bytes = check_commit(wire.exchange(frames[0]))
    exchanges = joined([Exchange(frame, answer_bytes) for frame in frames], GROUP)
    times = max(1, sizes.commits // partitions // DISTINCT)
    wire.run(exchanges, IN_FLIGHT // GROUP)
    meter = CpuMeter(broker)
    per_second = []
    for _ in range(sizes.rounds):
        meter.begin()
        began_s = time.perf_counter()
        wire.run(exchanges * times, IN_FLIGHT // GROUP)
        per_second.append(len(frames) * times / (time.perf_counter() - began_s))
        meter.end()
    check_commit(wire.exchange(frames[0]))
    what = "1 partition" if partitions == 1 else f"{partitions} partitions"
    note = f"one client, {IN_FLIGHT} in flight: {statistics.median(per_second):,.0f} commits/s"
    return figure_of(
        f"offset commit of {what}, pipelined",
        [used_s / (len(frames) * times) * 1e6 for used_s in meter.total_s],
        "CPU us per commit",
        None,
        f"{note}, {meter.system_note}",
    )


async def _from_many(broker: Broker, sizes: Sizes) -> Figure:
    """Commit for many groups, each on its own connection with one commit in flight."""
    count = sizes.committing_groups
    wires = await open_wires(broker, count)
    await find_coordinator(wires[0], "group-0")
    members = [ClassicMember(wire, f"group-{number}", TOPIC, 1) for number, wire in enumerate(wires)]
    await asyncio.gather(*[member.join() for member in members])
    frames = [
        [commit_frame(member.group_id, (0,), offset, member) for offset in range(16)] for member in members
    ]
    meter = CpuMeter(broker)
    per_second = []
    each = max(1, sizes.commits // count)
    for _ in range(sizes.rounds):
        meter.begin()
        began_s = time.perf_counter()
        await asyncio.gather(*[_commit_all(m.wire, f, each) for m, f in zip(members, frames, strict=True)])
        per_second.append(count * each / (time.perf_counter() - began_s))
        meter.end()
    for wire in wires:
        wire.close()
    return figure_of(
        f"offset commit of 1 partition, {count} groups",
        [used_s / (count * each) * 1e6 for used_s in meter.total_s],
        "CPU us per commit",
        None,
        f"a client each, one commit in flight each: {statistics.median(per_second):,.0f} commits/s, "
        f"{meter.system_note}",
    )


async def _commit_all(wire: MemberWire, frames: Sequence[bytes], count: int) -> None:
    """Uses callbacks: waking a task for each response would cost more than the commit."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    sent = 0
    first = b""

    def go_on(answer: bytes) -> None:
        nonlocal sent, first
        if sent == 1:
            first = answer
        if answer != first:
            done.set_exception(
                BenchError(f"the response to a commit differs from the first one: {answer.hex()}")
            )
        elif sent == count:
            done.set_result(None)
        else:
            sent += 1
            wire.send(frames[sent % len(frames)], go_on)

    sent = 1
    wire.send(frames[0], go_on)
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        await done
    check_commit(first)


# -- loading


def load(launch: Launch, sizes: Sizes) -> Iterator[Figure]:
    count = min(LOAD_GROUPS_MAX, sizes.offset_records // OFFSETS_PER_COMMIT)
    groups = [f"load-{number}" for number in range(count)]
    name = f"{sizes.offset_records:,} offsets"
    with Broker(launch) as broker:
        with Wire(broker) as wire:
            prepare(wire, groups[0])
            meter = CpuMeter(broker)
            written = _write_offsets(wire, groups, sizes.offset_records)
            note = f"{OFFSETS_PER_COMMIT} in a commit, {IN_FLIGHT} commits in flight"
            yield Figure(f"{name}: commit", meter.end() / written * 1e6, "CPU us per offset", None, note)
        broker.stop()
        broker.start()
        empty_mb = rss_bytes(broker) / 1e6
        meter = CpuMeter(broker)
        began_s = time.perf_counter()
        with Prober(broker) as prober:
            refused = _await_loaded(broker, groups)
            took_s = time.perf_counter() - began_s
        used_s = meter.end()
        memory_mb = rss_bytes(broker) / 1e6 - empty_mb
        with Wire(broker) as wire:
            found = sum([_offsets_of(wire, group) or 0 for group in groups])
        if found != written:
            raise BenchError(f"{found} offsets were loaded, not {written}")
        time.sleep(min(1.0, sizes.idle_seconds))
        with Prober(broker) as calm:
            time.sleep(min(2.0, sizes.idle_seconds))
    note = f"all partitions on one broker, from its being ready; {used_s:.2f} s CPU including the queries"
    note += f", {refused} of them refused meanwhile"
    yield Figure(f"{name}: load", took_s, "s", LOAD_GOAL_S * sizes.offset_records / 1e6, note)
    note = f"another client's ListOffsets; median {prober.median_ms:.1f}, of {len(prober.took_ms)}"
    note += f"; idle median {calm.median_ms:.1f}, longest {calm.longest_ms:.0f}"
    yield Figure(
        f"{name}: longest response time while loading", prober.longest_ms, "ms", RESPONSE_GOAL_MS, note
    )
    yield Figure(f"{name}: memory", memory_mb, "MB RSS", None, f"{memory_mb * 1e6 / written:.0f} bytes each")


def _write_offsets(wire: Wire, groups: Sequence[str], records: int) -> int:
    """Commit distinct offsets; return their number."""
    per_group = max(1, records // len(groups) // OFFSETS_PER_COMMIT)
    # Partition numbers have a fixed size, so all responses have the same size.
    answer_bytes = check_commit(wire.exchange(commit_frame(groups[0], range(OFFSETS_PER_COMMIT), 0, None)))

    def exchanges() -> Iterator[Exchange]:
        for number in range(per_group):
            partitions = range(number * OFFSETS_PER_COMMIT, (number + 1) * OFFSETS_PER_COMMIT)
            for group_id in groups:
                frame = commit_frame(group_id, partitions, 1_000_000 + number, None)
                yield Exchange(frame, answer_bytes)

    wire.run(exchanges(), IN_FLIGHT)
    return per_group * len(groups) * OFFSETS_PER_COMMIT


def _await_loaded(broker: Broker, groups: Sequence[str]) -> int:
    """Query each group until it is loaded; return the number of rejected queries."""
    refused = 0
    deadline_s = time.monotonic() + WAIT_SECONDS_MAX
    with Wire(broker) as wire:
        for group_id in groups:
            while _offsets_of(wire, group_id, few=True) is None:
                refused += 1
                if time.monotonic() > deadline_s:
                    raise BenchError(f"not loaded: {group_id}")
                time.sleep(LOOK_SECONDS)
    return refused


def _offsets_of(wire: Wire, group_id: str, *, few: bool = False) -> int | None:
    """Return the number of offsets of the group, or None while it is loading."""
    topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])] if few else None
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)])
    group = wire.call(OFFSET_FETCH_VERSION, request, OffsetFetchResponse).groups[0]
    if group.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return None
    if group.error_code:
        raise BenchError(f"OffsetFetch of {group_id}: error code {group.error_code}")
    return sum([len(topic.partitions) for topic in group.topics])


class Prober(Background):
    """Sends small requests continuously and records the response times."""

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self._broker = broker
        self.took_ms: list[float] = []

    def _run(self) -> None:
        with Wire(self._broker) as wire:
            while True:
                began_s = time.perf_counter()
                wire.log_end_offset(TOPIC)
                self.took_ms.append((time.perf_counter() - began_s) * 1000)
                if self._ended.wait(PROBE_SECONDS):
                    return

    @property
    def median_ms(self) -> float:
        return statistics.median(self.took_ms)

    @property
    def longest_ms(self) -> float:
        return max(self.took_ms)
