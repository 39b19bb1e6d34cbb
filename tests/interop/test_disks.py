"""Several log directories, failing directories, and full disks that get free space again."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from ottla.testing import Cluster
from ottla.testing.files import FaultyFiles
from tests.support.interop.memory_broker import memory_broker
from tests.support.interop.wire import Wire, batch_of, fetch_request
from tests.support.waiting import wait_until

MEGABYTE = 1_048_576


def where(wire: Wire, topic: str) -> dict[int, str]:
    """Return the directory of each partition."""
    answer = wire.ask(DescribeLogDirsRequest(topics=None))
    return {
        partition.partition_index: result.log_dir
        for result in answer.results
        for found in result.topics
        if found.name == topic
        for partition in found.partitions
    }


def dir_errors(wire: Wire) -> dict[str, int]:
    return {
        result.log_dir: result.error_code for result in wire.ask(DescribeLogDirsRequest(topics=None)).results
    }


def codes(wire: Wire, topic: str, partition: int) -> set[int]:
    """Return the error codes of produce, fetch and list offsets for a partition."""
    by_id = wire.ask(fetch_request(wire.topic_id(topic), partition=partition))
    return {
        wire.produce(topic, batch_of(b"x"), partition=partition).error_code,
        wire.fetch(topic, partition=partition).error_code,
        by_id.responses[0].partitions[0].error_code,
        wire.list_offsets(topic, 0, partition=partition).error_code,
    }


# -- several directories


def test_partitions_are_spread_over_the_directories_and_found_again(tmp_path):
    paths = [str(tmp_path / name) for name in ("one", "two", "three")]
    with Cluster(config={"log.dirs": ",".join(paths)}) as cluster:
        with Wire(cluster.bootstrap_servers) as wire:
            wire.create_topic("t", 9)
            places = where(wire, "t")
            counts = sorted(list(places.values()).count(path) for path in paths)
            assert sum(counts) == 9
            assert counts[-1] - counts[0] <= 1
            for partition in range(9):
                wire.produce("t", batch_of(b"%d" % partition), partition=partition)
        for partition, path in places.items():
            assert os.path.isdir(os.path.join(path, f"t-{partition}"))
        for again in (cluster.restart, lambda: (cluster.kill(), cluster.start())):
            again()
            with Wire(cluster.bootstrap_servers) as wire:
                assert where(wire, "t") == places
                for partition in range(9):
                    (record,) = wire.records("t", partition=partition)
                    assert record.value == b"%d" % partition


# -- a directory that fails


def test_a_failing_directory_affects_only_its_partitions():
    files = FaultyFiles()
    with memory_broker(files, **{"log.dirs": "/a,/b"}) as node, Wire(node.servers) as wire:
        wire.create_topic("t", 6)
        places = where(wire, "t")
        assert set(places.values()) == {"/a", "/b"}
        for partition in range(6):
            assert codes(wire, "t", partition) == {0}
        files.fail_under("/b")
        for partition, path in places.items():
            # The first write notices; from then on everything there is refused.
            wire.produce("t", batch_of(b"x"), partition=partition)
            expected = {0} if path == "/a" else {ErrorCode.KAFKA_STORAGE_ERROR}
            assert codes(wire, "t", partition) == expected
        assert dir_errors(wire) == {"/a": 0, "/b": ErrorCode.KAFKA_STORAGE_ERROR}
        # New partitions are created in a working directory; old ones are not recreated empty.
        wire.create_topic("new", 2)
        assert set(where(wire, "new").values()) == {"/a"}
        assert codes(wire, "new", 1) == {0}
        files.heal()
        for partition, path in places.items():
            expected = {0} if path == "/a" else {ErrorCode.KAFKA_STORAGE_ERROR}
            assert codes(wire, "t", partition) == expected
    with memory_broker(files, **{"log.dirs": "/a,/b"}) as node, Wire(node.servers) as wire:
        assert where(wire, "t") == places
        for partition in range(6):
            assert wire.records("t", partition=partition)[0].value == b"x"
            assert codes(wire, "t", partition) == {0}


def test_a_failing_sync_is_not_acknowledged():
    files = FaultyFiles()
    with memory_broker(files, **{"log.dirs": "/a,/b"}) as node, Wire(node.servers) as wire:
        wire.create_topic("t", 2, **{"flush.messages": 1})
        places = where(wire, "t")
        (bad,) = [partition for partition, path in places.items() if path == "/b"]
        (good,) = [partition for partition, path in places.items() if path == "/a"]
        files.fail_under("/b", only_syncs=True)
        answer = wire.produce("t", batch_of(b"x"), partition=bad)
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert codes(wire, "t", bad) == {ErrorCode.KAFKA_STORAGE_ERROR}
        assert codes(wire, "t", good) == {0}


def test_a_directory_that_is_gone_at_the_start(tmp_path):
    paths = [str(tmp_path / name) for name in ("one", "two")]
    with Cluster(config={"log.dirs": ",".join(paths)}) as cluster:
        with Wire(cluster.bootstrap_servers) as wire:
            wire.create_topic("t", 4)
            places = where(wire, "t")
            for partition in range(4):
                wire.produce("t", batch_of(b"x"), partition=partition)
        cluster.stop()
        shutil.move(paths[1], paths[1] + "-away")
        (tmp_path / "two").write_text("a file where the directory was")
        cluster.start()
        with Wire(cluster.bootstrap_servers) as wire:
            for partition, path in places.items():
                expected = {0} if path == paths[0] else {ErrorCode.KAFKA_STORAGE_ERROR}
                assert codes(wire, "t", partition) == expected
            wire.create_topic("new")
            assert codes(wire, "new", 0) == {0}
        cluster.stop()
        os.unlink(paths[1])
        shutil.move(paths[1] + "-away", paths[1])
        cluster.start()
        with Wire(cluster.bootstrap_servers) as wire:
            assert where(wire, "t") == places
            for partition in range(4):
                assert codes(wire, "t", partition) == {0}


# -- a disk that is full


def test_the_only_disk_is_full_and_then_has_space():
    files = FaultyFiles()
    with memory_broker(files) as node, Wire(node.servers) as wire:
        wire.create_topic("t")
        producer_id, epoch = wire.init_producer()

        def numbered(sequence: int) -> bytes:
            return batch_of(b"x", producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)

        assert wire.produce("t", numbered(0)).base_offset == 0
        files.room_bytes = 10
        for sequence in (1, 1, 0):  # the rejected batch again, and a retry that needs no space
            code = wire.produce("t", numbered(sequence)).error_code
            assert code == (0 if sequence == 0 else ErrorCode.KAFKA_STORAGE_ERROR)
        wanted = CreatableTopic(name="new", num_partitions=2, replication_factor=1)
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=1000)
        for _ in range(2):
            assert wire.ask(request).topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert len(wire.records("t")) == 1
        files.room_bytes = None
        assert wire.produce("t", numbered(1)).base_offset == 1
        assert wire.ask(request).topics[0].error_code == 0
        assert codes(wire, "new", 1) == {0}
    with memory_broker(files) as node, Wire(node.servers) as wire:
        assert len(wire.records("t")) == 2
        assert codes(wire, "new", 0) == {0}


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Callable[[int], str]]:
    """Mounts a file system of that many megabytes; another call resizes it."""
    path = str(tmp_path / "small")

    def sized(megabytes: int) -> str:
        remount = os.path.ismount(path)
        os.makedirs(path, exist_ok=True)
        options = f"{'remount,' if remount else ''}size={megabytes}m"
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", path],
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
        return path

    if shutil.which("mount") is None:
        pytest.skip("mount is not installed")
    try:
        yield sized
    finally:
        if os.path.ismount(path):
            subprocess.run(["umount", "-l", path], check=False, capture_output=True)


def fill(wire: Wire, topic: str, partition: int) -> int:
    """Write until a record is rejected; return the number of accepted ones."""
    for count in range(200):
        code = wire.produce(topic, batch_of(b"%d " % count + b"x" * 200_000), partition=partition).error_code
        if code:
            assert code == ErrorCode.KAFKA_STORAGE_ERROR
            return count
    raise AssertionError("the disk does not fill up")


@pytest.mark.parametrize("flush_messages", [None, 1])
def test_a_full_disk_rejects_writes_until_there_is_space(tmp_path, small_disk, flush_messages):
    full = small_disk(4)
    roomy = str(tmp_path / "roomy")
    with Cluster(config={"log.dirs": f"{roomy},{full}"}) as cluster:
        with Wire(cluster.bootstrap_servers) as wire:
            wire.create_topic("t", 2, **({"flush.messages": flush_messages} if flush_messages else {}))
            places = where(wire, "t")
            (here,) = [partition for partition, path in places.items() if path == full]
            (there,) = [partition for partition, path in places.items() if path == roomy]
            count = fill(wire, "t", here)
            assert count >= 3
            # Still rejected, but reads work, and so does the other disk.
            big = batch_of(b"x" * 200_000)
            assert wire.produce("t", big, partition=here).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert [record.offset for record in wire.records("t", partition=here)] == list(range(count))
            assert codes(wire, "t", there) == {0}
            small_disk(16)
            answer = wire.produce("t", big, partition=here)
            assert (answer.error_code, answer.base_offset) == (0, count)
            assert len(wire.records("t", partition=here)) == count + 1
            assert set(dir_errors(wire).values()) == {0}
        cluster.kill()
        cluster.start()
        with Wire(cluster.bootstrap_servers) as wire:
            found = wire.records("t", partition=here)
            assert [record.offset for record in found] == list(range(count + 1))
            assert [record.value.split(b" ")[0] for record in found[:-1]] == [b"%d" % n for n in range(count)]


def test_a_full_disk_can_be_emptied_by_deleting_records_and_topics(tmp_path, small_disk):
    full = small_disk(6)
    roomy = str(tmp_path / "roomy")
    settings = {"log.dirs": f"{roomy},{full}", "log.retention.check.interval.ms": 50}
    with Cluster(config=settings) as cluster, Wire(cluster.bootstrap_servers) as wire:
        wire.create_topic("t", 2, **{"segment.bytes": MEGABYTE, "file.delete.delay.ms": 0})
        (here,) = [partition for partition, path in where(wire, "t").items() if path == full]
        count = fill(wire, "t", here)
        wire.alter("t", **{"retention.bytes": 2 * MEGABYTE})
        wait_until(
            lambda: not wire.produce("t", batch_of(b"x" * 200_000), partition=here).error_code,
            "retention frees space",
            20,
        )
        assert wire.list_offsets("t", -1, partition=here).offset == count + 1


def create_until_refused(servers: str) -> list[str]:
    """Create topics until one is rejected; return the names of those that were acknowledged."""
    created: list[str] = []
    with Wire(servers) as wire:
        for number in range(300):
            wanted = CreatableTopic(name=f"n-{number}", num_partitions=1, replication_factor=1)
            try:
                (result,) = wire.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=1000)).topics
            except ConnectionError:
                return created  # no response is acceptable, a wrong one is not
            if result.error_code:
                return created
            created.append(wanted.name)
    raise AssertionError("the disk does not fill up")


def test_a_node_survives_a_full_disk(small_disk):
    path = small_disk(5)
    with Cluster(data_dir=path) as cluster, Wire(cluster.bootstrap_servers) as wire:
        wire.create_topic("t")
        count = fill(wire, "t", 0)
        # Fill the disk to the last byte, so that not even a small metadata record fits.
        with open(os.path.join(path, "ballast"), "wb") as ballast, pytest.raises(OSError, match="No space"):
            while True:
                os.write(ballast.fileno(), b"x" * 4096)
        created = create_until_refused(cluster.bootstrap_servers)
        assert cluster.running, cluster.log()
        assert [record.offset for record in wire.records("t")] == list(range(count))
        assert wire.produce("t", batch_of(b"x" * 8192)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        small_disk(16)
        assert wire.produce("t", batch_of(b"room again")).base_offset == count
        wire.create_topic("room")
        for name in [*created, "room"]:
            wait_until(
                lambda name=name: codes(wire, name, 0) == {0}, f"{name} of {created} is served again", 10
            )
        cluster.restart()
        with Wire(cluster.bootstrap_servers) as again:
            assert len(again.records("t")) == count + 1
            for name in [*created, "room"]:
                assert codes(again, name, 0) == {0}
