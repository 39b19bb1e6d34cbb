"""Comparing the files of a partition's replicas."""

from __future__ import annotations

import glob
import os

from ottla.testing import Cluster
from tests.support.waiting import wait_until


def replica_folder(cluster: Cluster, broker: int, topic: str, partition: int = 0) -> str:
    return os.path.join(cluster.data_dir, f"broker-{broker}", f"{topic}-{partition}")


def replica_bytes(cluster: Cluster, broker: int, topic: str, partition: int = 0) -> bytes:
    """Concatenated segments of a partition on one broker."""
    content = b""
    for path in sorted(glob.glob(os.path.join(replica_folder(cluster, broker, topic, partition), "*.log"))):
        with open(path, "rb") as file:
            content += file.read()
    return content


def await_equal_replicas(
    cluster: Cluster, brokers: list[int], topic: str, partition: int = 0, timeout_s: float = 20.0
) -> bytes:
    """Wait until all replicas are identical and not empty; return their bytes."""

    def equal() -> bool:
        contents = {replica_bytes(cluster, broker, topic, partition) for broker in brokers}
        return len(contents) == 1 and b"" not in contents

    wait_until(equal, f"equal files of {topic}-{partition} on {brokers}", timeout_s)
    return replica_bytes(cluster, brokers[0], topic, partition)
