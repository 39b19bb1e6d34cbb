"""`Cluster`: real brokers for a test, as a context manager."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ottla.launch.local_cluster import Member, member_properties, new_cluster_id, voter_count
from ottla.testing.network import CLIENT, ProxyNetwork, address_of, links_available
from ottla.testing.ports import free_port, free_ports
from ottla.testing.process_node import BrokerError, BrokerProcess
from ottla.testing.thread_node import BrokerThread

if TYPE_CHECKING:
    from ottla.client import GroupInfo

HOST = "127.0.0.1"
PORT_TRIES_MAX = 3
BROKERS_MAX = 100
# Kafka delays the first rebalance of a classic group by 3 s; tests do not wait.
FOR_TESTS = {"group.initial.rebalance.delay.ms": "0"}
PROXIED = ("members", "all", "none")

Node = BrokerProcess | BrokerThread


def _as_text(value: object) -> str:
    """Format a property value as in a properties file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(map(_as_text, value))
    return str(value)


class Cluster:
    """Real brokers on free ports, each with its own data directory.

        with Cluster(brokers=3, config={"num.partitions": 3}) as cluster:
            producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
            cluster.kill(0)

    A single broker has node.id 1, as with `ottla serve`. Several have the ids 0, 1, 2, ..., which `kill`,
    `pause` and the others take as an argument (default: all brokers). The first 1, 3 or 5 are the voters of
    the metadata quorum, and topics have 3 replicas with min.insync.replicas=2, as with `ottla cluster`.

    Every broker is a process, so `kill` is a real SIGKILL and `pause` a SIGSTOP. With `in_process=True` each
    runs on a thread instead, where breakpoints work: `kill` then abandons it without a clean shutdown or a
    flush, and `pause` blocks its event loop. Addresses and data survive `stop`, `kill` and `restart`. A given
    `data_dir` is kept; a temporary one is removed at the end.

    `isolate` and `cut` need proxies between the members: `proxied="members"`. With "all", clients connect
    through proxies as well; with "none", there are no proxies (for measurements).
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        config: Mapping[str, object] | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        in_process: bool = False,
        proxied: str = "members",
        start_timeout_s: float = 30.0,
        stop_timeout_s: float = 30.0,
    ) -> None:
        if not 1 <= brokers <= BROKERS_MAX:
            raise ValueError(f"brokers={brokers}: expected 1 to {BROKERS_MAX}")
        if proxied not in PROXIED:
            raise ValueError(f"proxied={proxied!r}: expected one of {', '.join(PROXIED)}")
        self.brokers = brokers
        self.in_process = in_process
        self.config = {**FOR_TESTS, **{key: _as_text(value) for key, value in (config or {}).items()}}
        self.start_timeout_s = start_timeout_s
        self.stop_timeout_s = stop_timeout_s
        self._proxied = proxied if brokers > 1 and links_available() else "none"
        self._given_data_dir = os.fspath(data_dir) if data_dir is not None else None
        self._work_dir: str | None = None
        self._nodes: list[Node] = []
        self._links: ProxyNetwork | None = None
        self._cluster_id = new_cluster_id()

    # State.

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of all brokers, up or down, e.g. `127.0.0.1:29123`."""
        return ",".join(node.address for node in self._started_nodes())

    def address(self, broker: int = 0) -> str:
        """The client address of one broker."""
        return self._node(broker).address

    @property
    def data_dir(self) -> str:
        """Data directory of the single broker, or the directory with one `broker-<id>` for each broker."""
        nodes = self._started_nodes()
        return nodes[0].data_dir if len(nodes) == 1 else os.path.dirname(nodes[0].data_dir)

    @property
    def running(self) -> bool:
        """Whether all brokers run."""
        return bool(self._nodes) and all(node.running for node in self._nodes)

    def is_running(self, broker: int = 0) -> bool:
        return self._node(broker).running

    @property
    def pid(self) -> int | None:
        """The process id of the first broker; None if it runs in process or is down."""
        return self._nodes[0].pid if self._nodes else None

    @property
    def pids(self) -> list[int | None]:
        return [node.pid for node in self._nodes]

    def log(self, broker: int = 0) -> str:
        """The end of a broker's log."""
        return self._node(broker).log_tail()

    # Start, stop and faults.

    def start(self, broker: int | None = None) -> Self:
        """Start brokers that do not run, on the same address and data; return when they serve."""
        if self._nodes:
            down = [node for node in self._chosen(broker) if not node.running]
            self._all(down, lambda node: node.start(self.start_timeout_s))
            return self
        if broker is not None:
            raise RuntimeError(f"broker {broker}: start the cluster before one of its brokers")
        for tries_left in reversed(range(PORT_TRIES_MAX)):
            nodes = self._new_nodes()
            try:
                self._all(nodes, lambda node: node.start(self.start_timeout_s))
            except BaseException as error:
                for node in nodes:
                    node.kill()
                self._close_links()
                # A port was taken between our check and the broker's bind: choose others.
                if tries_left and isinstance(error, BrokerError) and "in use" in str(error):
                    continue
                self._remove_work_dir()
                raise
            self._nodes = nodes
            return self
        raise AssertionError("unreachable: the last attempt returns or raises")

    def stop(self, broker: int | None = None) -> None:
        """Stop cleanly; the data stays until the context ends."""
        self._all(self._chosen(broker), lambda node: node.stop(self.stop_timeout_s))

    def kill(self, broker: int | None = None) -> None:
        """Send SIGKILL: no flush, no clean shutdown. Without a number, to all brokers at once."""
        self._started_nodes()
        self._all(self._chosen(broker), lambda node: node.kill())

    def restart(self, broker: int | None = None) -> None:
        """Stop cleanly, then start on the same address with the same data."""
        self._started_nodes()
        self.stop(broker)
        self.start(broker)

    def pause(self, broker: int | None = None) -> None:
        """Send SIGSTOP: nothing runs, connections stay open, as in a long pause of the machine."""
        self._started_nodes()
        for node in self._chosen(broker):
            node.pause()

    def resume(self, broker: int | None = None) -> None:
        """Resume a paused broker."""
        self._started_nodes()
        for node in self._chosen(broker):
            node.resume()

    # The network between the brokers.

    def isolate(self, broker: int, *, clients: bool = False) -> None:
        """Cut a broker off from all others, in both directions, until `heal`.

        Connections stay open but carry no data. With `clients`, clients cannot reach it either, which needs
        proxied="all".
        """
        self._node(broker)
        others = [other for other in range(self.brokers) if other != broker]
        pairs = [(broker, other) for other in others] + [(other, broker) for other in others]
        if clients:
            if self._proxied != "all":
                raise ValueError('clients=True needs clients that go through proxies: Cluster(proxied="all")')
            pairs.append((CLIENT, broker))
        self._need_links().cut(pairs)

    def cut(self, source: int, target: int) -> None:
        """Cut the connections from `source` to `target`, in both directions of data, until `heal`."""
        self._node(source)
        self._node(target)
        self._need_links().cut([(source, target)])

    def heal(self) -> None:
        """Heal all links; delayed data is delivered."""
        if self._links is not None:
            self._links.heal()

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, object] | None = None,
        *,
        replication_factor: int = -1,
    ) -> None:
        """Create a topic and wait until every running broker knows it. Callable inside an event loop."""
        from ottla.testing.topics import create_topic

        settings = {key: _as_text(value) for key, value in (config or {}).items()}
        addresses = [node.address for node in self._started_nodes() if node.running and not node.paused]
        create_topic(addresses, name, partitions, settings, replication_factor)

    # Consumer groups.

    def wait_for_group(
        self, group_id: str, members: int | None = None, *, timeout_s: float = 30.0
    ) -> GroupInfo:
        """Wait until a group is stable: no rebalance, and every member has its assignment.

            consumers = [start_consumer(group="billing") for _ in range(3)]
            group = cluster.wait_for_group("billing", members=3)
            assert len(group.owners) == 12

        `members`: the expected number of members (None: at least one; 0: the group must be empty). The result
        has the owner of each partition (`owners`) and the causes of the last rebalances (`rebalances`).
        Raises TimeoutError with the last state of the group. Callable inside an event loop.
        """
        from ottla.testing.groups import wait_for_group

        return wait_for_group(self.bootstrap_servers, group_id, members, timeout_s)

    def wait_for_lag(self, group_id: str, at_most: int = 0, *, timeout_s: float = 30.0) -> None:
        """Wait until a group has a lag of at most `at_most` records.

        The lag counts partitions that are assigned or have committed offsets; there must be at least one.
        Raises TimeoutError. Callable inside an event loop.
        """
        from ottla.testing.groups import wait_for_lag

        wait_for_lag(self.bootstrap_servers, group_id, at_most, timeout_s)

    def close(self) -> None:
        """Stop, and remove a temporary data directory."""
        try:
            self.heal()
            self.stop()
        finally:
            for node in self._nodes:
                if node.running:
                    node.kill()
            self._nodes = []
            self._close_links()
            self._remove_work_dir()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Implementation.

    def _started_nodes(self) -> list[Node]:
        if not self._nodes:
            raise RuntimeError("the cluster is not started: use `with Cluster() as cluster:` or call start()")
        return self._nodes

    def _node(self, broker: int) -> Node:
        nodes = self._started_nodes()
        if not 0 <= broker < len(nodes):
            raise ValueError(f"broker {broker}: the cluster has brokers 0 to {len(nodes) - 1}")
        return nodes[broker]

    def _chosen(self, broker: int | None) -> list[Node]:
        return self._nodes if broker is None else [self._node(broker)]

    def _all(self, nodes: Sequence[Node], work: Callable[[Node], None]) -> None:
        """Call a method of several nodes concurrently: starting and stopping members need each other."""
        if len(nodes) == 1:
            work(nodes[0])
            return
        if not nodes:
            return
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(len(nodes), thread_name_prefix="ottla-nodes") as pool:
            futures = [pool.submit(work, node) for node in nodes]
        errors = [error for future in futures if (error := future.exception()) is not None]
        if errors:
            # Raise any of them, but prefer a port conflict, which the caller handles.
            raise next((error for error in errors if "in use" in str(error)), errors[0])

    def _new_nodes(self) -> list[Node]:
        if self._work_dir is None:
            self._work_dir = tempfile.mkdtemp(prefix="ottla-")
        if self.brokers == 1:
            data_dir = self._given_data_dir or os.path.join(self._work_dir, "data")
            return [self._new_node("broker", data_dir, f"{HOST}:{free_port(HOST)}", self.config)]
        base = self._given_data_dir or self._work_dir
        os.makedirs(base, exist_ok=True)
        members = self._new_members()
        cluster_id = self._kept_cluster_id(base)
        nodes = []
        for member in members:
            name = f"broker-{member.node_id}"
            data_dir = os.path.join(base, name)
            properties = member_properties(
                member, members, cluster_id=cluster_id, data_dir=data_dir, settings=self.config
            )
            listen = f"{HOST}:{member.advertised_client_port or member.client_port}"
            source = address_of(member.node_id) if self._links is not None else None
            nodes.append(self._new_node(name, data_dir, listen, properties, source))
        return nodes

    def _new_members(self) -> list[Member]:
        ports = iter(free_ports(3 * self.brokers, HOST))
        links = self._links = ProxyNetwork() if self._proxied != "none" else None
        members = []
        for node_id in range(self.brokers):
            member = Member(node_id, next(ports), next(ports))
            if links is not None:
                peer_port = next(ports)
                member = member._replace(
                    peer_port=peer_port, advertised_peer_port=links.add(node_id, peer_port)
                )
                if node_id < voter_count(self.brokers):
                    advertised = links.add(node_id, member.controller_port)
                    member = member._replace(advertised_controller_port=advertised)
                if self._proxied == "all":
                    advertised = links.add(node_id, member.client_port)
                    member = member._replace(advertised_client_port=advertised)
            members.append(member)
        return members

    def _new_node(
        self,
        name: str,
        data_dir: str,
        listen: str,
        settings: Mapping[str, str],
        connect_from: str | None = None,
    ) -> Node:
        assert self._work_dir is not None
        if self.in_process:
            return BrokerThread(
                data_dir=data_dir, listen=listen, settings=settings, connect_from=connect_from
            )
        log_path = os.path.join(self._work_dir, f"{name}.log")
        return BrokerProcess(
            data_dir=data_dir, listen=listen, settings=settings, log_path=log_path, connect_from=connect_from
        )

    def _kept_cluster_id(self, base: str) -> str:
        """Cluster id of existing data, or a new one."""
        path = os.path.join(base, "cluster.id")
        try:
            with open(path, encoding="ascii") as file:
                return file.read().strip()
        except FileNotFoundError:
            with open(path, "w", encoding="ascii") as file:
                file.write(self._cluster_id)
            return self._cluster_id

    def _need_links(self) -> ProxyNetwork:
        if self._links is None:
            why = "links need Linux loopback addresses" if not links_available() else "it has no proxies"
            if self.brokers == 1:
                why = "it has one broker"
            raise ValueError(
                f'links of this cluster cannot be cut: {why}; use Cluster(brokers=3, proxied="members")'
            )
        return self._links

    def _close_links(self) -> None:
        links, self._links = self._links, None
        if links is not None:
            links.close()

    def _remove_work_dir(self) -> None:
        if self._work_dir is not None:
            shutil.rmtree(self._work_dir, ignore_errors=True)
            self._work_dir = None
