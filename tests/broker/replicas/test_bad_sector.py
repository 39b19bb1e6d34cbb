"""A bad sector in the leader's log while a follower fetches it: only what is on that disk suffers."""

from __future__ import annotations

from tests.support.broker.replicated import FOLLOWER, LEADER, OTHER, Trio, play

TWO_DIRECTORIES = {
    "log.dirs": "/data/one,/data/two",
    "metadata.log.dir": "/data/one",
    "replica.lag.time.max.ms": "2000",
}


async def produce(trio: Trio, index: int, value: str) -> None:
    assert not (await trio.produce(value * 5000, acks=1, index=index)).error_code


def end_offset(trio: Trio, node_id: int, index: int) -> int:
    return trio.partition(node_id, index).log.log_end_offset


def by_directory(trio: Trio) -> tuple[int, int]:
    """A partition in each directory of the leader: first one of /data/one."""
    places = {trio.partition(LEADER, index).log.log_dir.path: index for index in range(4)}
    return places["/data/one"], places["/data/two"]


def test_a_bad_sector_costs_its_directory_and_no_other_partition() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create(partitions=4)
        healthy, damaged = by_directory(trio)
        trio.nodes[FOLLOWER].kill()
        for number in range(5):
            for index in (damaged, healthy):
                await produce(trio, index, f"value {number}")
        await trio.until(lambda: end_offset(trio, OTHER, damaged) == end_offset(trio, OTHER, healthy) == 5)
        path = trio.partition(LEADER, damaged).log.segments.active.log.path
        trio.nodes[LEADER].disk.files.bad_sectors[path] = 30_000  # inside a batch
        await trio.nodes[FOLLOWER].start()
        # Within a few attempts: the first ends in the middle of a response.
        await trio.until(lambda: end_offset(trio, FOLLOWER, healthy) == 5, 10)
        await trio.until(lambda: trio.partition(LEADER, damaged).log.log_dir.error is not None, 10)
        await trio.until(lambda: trio.partition(OTHER, damaged).is_leader, 30)
        await trio.until(lambda: end_offset(trio, FOLLOWER, damaged) == 5, 30)
        assert trio.partition(LEADER, healthy).is_leader
        assert trio.partition(LEADER, healthy).log.log_dir.error is None

    play(scenario, TWO_DIRECTORIES)


def test_a_shortened_file_costs_its_partition_alone() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create(partitions=4)
        healthy, damaged = by_directory(trio)
        trio.nodes[FOLLOWER].kill()
        for number in range(5):
            for index in (damaged, healthy):
                await produce(trio, index, f"value {number}")
        path = trio.partition(LEADER, damaged).log.segments.active.log.path
        trio.nodes[LEADER].disk.files.cut(path, 100_000)
        await trio.nodes[FOLLOWER].start()
        await trio.until(lambda: end_offset(trio, FOLLOWER, healthy) == 5, 10)
        # What is left of the file is served; the rest is refused with KAFKA_STORAGE_ERROR.
        await trio.until(lambda: 0 < end_offset(trio, FOLLOWER, damaged) < 5, 10)
        await produce(trio, healthy, "one more")
        await trio.until(lambda: end_offset(trio, FOLLOWER, healthy) == 6, 10)
        assert trio.partition(LEADER, damaged).log.log_dir.error is None

    play(scenario, TWO_DIRECTORIES)
