"""Controllers and brokers in separate processes (`process.roles`)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from ottla.launch.local_cluster import new_cluster_id, replication_defaults
from ottla.testing.ports import free_ports
from ottla.testing.process_node import BrokerProcess
from tests.support.cluster.load import Load
from tests.support.cluster.view import ClusterView

CONTROLLERS = (100, 101, 102)
BROKERS = (0, 1, 2)
START_S = 30.0


@contextmanager
def apart() -> Iterator[dict[int, BrokerProcess]]:
    """Three of each, by node id."""
    ports = dict(zip((*CONTROLLERS, *BROKERS), free_ports(6, "127.0.0.1"), strict=True))
    shared = replication_defaults(3) | {
        "cluster.id": new_cluster_id(),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": ",".join(f"{each}@127.0.0.1:{ports[each]}" for each in CONTROLLERS),
    }
    nodes: dict[int, BrokerProcess] = {}
    with tempfile.TemporaryDirectory(prefix="ottla-") as folder:
        for node_id, port in ports.items():
            role, listener = (
                ("controller", "CONTROLLER") if node_id in CONTROLLERS else ("broker", "PLAINTEXT")
            )
            data_dir = f"{folder}/{role}-{node_id}"
            own = {
                "node.id": str(node_id),
                "process.roles": role,
                "listeners": f"{listener}://127.0.0.1:{port}",
                "log.dirs": data_dir,
            }
            nodes[node_id] = BrokerProcess(
                data_dir=data_dir,
                listen=f"127.0.0.1:{port}",
                settings=shared | own,
                log_path=f"{folder}/{node_id}.log",
            )
        with ThreadPoolExecutor(len(nodes)) as pool:
            try:
                list(pool.map(lambda node: node.start(START_S), nodes.values()))
                yield nodes
                list(pool.map(lambda node: node.stop(START_S), [nodes[each] for each in BROKERS]))
                list(pool.map(lambda node: node.stop(START_S), [nodes[each] for each in CONTROLLERS]))
            finally:
                for node in nodes.values():
                    node.kill()


def test_controllers_without_brokers_and_brokers_without_controllers() -> None:
    with apart() as nodes:
        servers = ",".join(nodes[each].address for each in BROKERS)
        view = ClusterView(servers)
        quorum = view.quorum()
        assert quorum.leader_id in CONTROLLERS
        assert sorted(each.node_id for each in quorum.voters) == list(CONTROLLERS)
        assert sorted(each.node_id for each in quorum.observers) == list(BROKERS)
        described = view.ask(lambda admin: admin.describe_cluster())
        assert sorted(each.id for each in described.nodes) == list(BROKERS), "controllers serve no clients"
        view.create("t", [0, 1, 2], [1, 2, 0], [2, 0, 1])
        with Load(servers, "t", 3) as load:
            load.await_all_partitions()
            nodes[quorum.leader_id].kill()
            load.await_all_partitions()
            view.create("u", [0, 1, 2])  # another controller decides
            assert view.quorum().leader_id != quorum.leader_id
            nodes[1].kill()
            load.await_all_partitions()
            nodes[1].start(START_S)
            nodes[quorum.leader_id].start(START_S)
            view.await_isr("t", 3)
            load.await_all_partitions()
        assert not load.errors
        load.check()
