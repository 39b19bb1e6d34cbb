"""Brokers with two log directories: the controller knows which replicas are lost with one."""

from __future__ import annotations

import asyncio

from ottla.controller.partitions.directories import directory_of
from ottla.storage.errors import StorageOffline
from ottla.storage.manager.managed_dir import ManagedDir
from tests.support.broker.replicated import LEADER, TOPIC, Trio, play


def directory_id(trio: Trio, node_id: int, index: int) -> bytes:
    place = trio.partition(node_id, index).log.log_dir
    assert isinstance(place, ManagedDir) and place.meta is not None
    return place.meta.directory_id


def told(trio: Trio, node_id: int, index: int) -> bytes:
    image = trio.broker(LEADER).metadata.image
    return directory_of(image.topics_by_name[TOPIC].partitions[index], node_id)


def test_a_lost_directory_affects_only_its_leaders() -> None:
    async def scenario(trio: Trio) -> None:
        await trio.create(partitions=4)
        await trio.until(
            lambda: all(
                told(trio, node_id, index) == directory_id(trio, node_id, index)
                for node_id in trio.nodes
                for index in range(4)
            )
        )
        lost = trio.broker(LEADER).logs.dirs[1]  # without the metadata log
        here = [index for index in range(4) if trio.partition(LEADER, index).log.log_dir is lost]
        assert 0 < len(here) < 4, "both directories are used"
        lost.fail(StorageOffline(lost.path, "it is gone"))

        def states() -> dict[int, int]:
            partitions = trio.broker(2).metadata.image.topics_by_name[TOPIC].partitions
            return {index: partition.leader for index, partition in partitions.items()}

        await trio.until(lambda: all(states()[index] != LEADER for index in here), 30)
        assert all(leader == LEADER for index, leader in states().items() if index not in here)
        # Followers in the lost directory fetch nothing, so they do not come back into the ISR.
        await asyncio.sleep(5)
        partitions = trio.broker(2).metadata.image.topics_by_name[TOPIC].partitions
        assert all((LEADER in partitions[index].isr) == (index not in here) for index in range(4))

    play(scenario, {"log.dirs": "/data/one,/data/two", "metadata.log.dir": "/data/one"})
