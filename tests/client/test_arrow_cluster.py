"""Arrow tables to and from a cluster while brokers are killed."""

from __future__ import annotations

import threading
import time

import pyarrow as pa

from ottla.client import read_arrow, write_arrow
from ottla.testing import Cluster

PARTS = 12
ROWS_PER_PART = 4_000


def test_every_row_is_written_once_while_brokers_die():
    with Cluster(brokers=3, proxied="none") as cluster:
        servers = cluster.bootstrap_servers
        cluster.create_topic("rows", 6)
        failures: list[BaseException] = []

        def write() -> None:
            try:
                for part in range(PARTS):
                    keys = [b"%d" % n for n in range(part * ROWS_PER_PART, (part + 1) * ROWS_PER_PART)]
                    table = pa.table({"key": keys, "value": [key * 10 for key in keys]})
                    write_arrow(table, "rows", bootstrap_servers=servers)
                    time.sleep(0.1)
            except BaseException as error:
                failures.append(error)

        writer = threading.Thread(target=write)
        writer.start()
        victim = 0
        while writer.is_alive():
            cluster.kill(victim)
            partial = read_arrow("rows", bootstrap_servers=servers, columns=["key"]).read_all()
            assert len(set(partial["key"].to_pylist())) == partial.num_rows
            cluster.restart(victim)
            victim = (victim + 1) % 3
            writer.join(1.0)
        assert failures == []
        keys = read_arrow("rows", bootstrap_servers=servers, columns=["key"]).read_all()["key"].to_pylist()
        assert sorted(map(int, keys)) == list(range(PARTS * ROWS_PER_PART))
