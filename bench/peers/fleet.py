"""One or more brokers of either peer, started with the same properties."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import time
from collections.abc import Mapping
from typing import NamedTuple

from bench.broker import START_SECONDS_MAX, UNWANTED_ENVIRONMENT, BenchError, Broker, Launch
from bench.cluster import HOST, Cluster, wait_until
from bench.peers.jars import Kafka
from bench.wire import Wire
from ottla.client.errors import ClientError
from ottla.launch.local_cluster import Member, member_properties, new_cluster_id
from ottla.protocol.messages.metadata_request import MetadataRequest
from ottla.protocol.messages.metadata_response import MetadataResponse
from ottla.testing.ports import free_ports

LOOK_SECONDS = 0.005
METADATA_VERSION = 9
# The options of Kafka's start script.
JVM_OPTIONS = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)


class Peer(NamedTuple):
    """The peer that is measured: Ottla, unless `kafka` is set."""

    name: str
    data_root: str
    kafka: Kafka | None = None
    tools: Kafka | None = None  # Kafka's clients, for both peers
    profiles: str | None = None  # if set, brokers of Ottla run under a profiler that writes here

    @property
    def launch(self) -> Launch:
        return Launch(self.data_root, self.profiles, sampled=True)

    def fleet(self, brokers: int = 1, settings: Mapping[str, str] | None = None) -> Fleet:
        return Fleet(self, brokers, settings or {})


class Node(Broker):
    """A broker process of either peer; its directory contains properties, data and log."""

    def __init__(self, peer: Peer, label: str) -> None:
        super().__init__(peer.launch, label=label)
        self._peer = peer

    @property
    def properties_path(self) -> str:
        return os.path.join(self.directory, "server.properties")

    def write_properties(self, properties: Mapping[str, str]) -> None:
        with open(self.properties_path, "w", encoding="utf-8") as file:
            file.writelines([f"{name}={value}\n" for name, value in properties.items()])
        kafka = self._peer.kafka
        if kafka is not None:
            self._format(kafka, properties["cluster.id"])

    def _format(self, kafka: Kafka, cluster_id: str) -> None:
        """Format the storage; not part of a measured start."""
        arguments = ["format", "-t", cluster_id, "-c", self.properties_path]
        command = [kafka.java, "-cp", kafka.class_path, "kafka.tools.StorageTool", *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=START_SECONDS_MAX)
        if done.returncode != 0:
            raise BenchError(f"Kafka did not format: {shlex.join(arguments)}\n{done.stdout}{done.stderr}")

    def command(self) -> list[str]:
        kafka = self._peer.kafka
        if kafka is None:
            serve = self._launch.command(self.label)
            quiet = ["--log-level", "warning", "--stop-on-stdin-eof"]
            return [*serve, *quiet, "--config", self.properties_path]
        return [kafka.java, *JVM_OPTIONS, "-cp", kafka.class_path, "kafka.Kafka", self.properties_path]

    def begin_start(self) -> None:
        assert self._process is None, "running already"
        environment = {key: value for key, value in os.environ.items() if key not in UNWANTED_ENVIRONMENT}
        with open(os.path.join(self.directory, "log"), "ab") as log:
            self._began_s = time.perf_counter()
            self._process = subprocess.Popen(
                self.command(), stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment
            )

    def await_ready(self) -> None:
        """Wait until the metadata of the broker contains the broker; the same check for both peers."""
        deadline_s = time.monotonic() + START_SECONDS_MAX
        while not self._answers():
            assert self._process is not None
            if time.monotonic() > deadline_s or self._process.poll() is not None:
                self.kill()
                raise BenchError(f"{self._peer.name} did not start\n{self.log_text()}")
            time.sleep(LOOK_SECONDS)
        self.start_s = time.perf_counter() - self._began_s

    def _answers(self) -> bool:
        try:
            with socket.create_connection(self.host_and_port, timeout=1):
                pass
            with Wire(self) as wire:
                answer = wire.call(METADATA_VERSION, MetadataRequest(topics=[]), MetadataResponse)
        except (OSError, BenchError):
            return False
        return self.host_and_port[1] in [broker.port for broker in answer.brokers]

    def await_end(self) -> None:
        process = self._process
        if process is not None:
            process.wait(START_SECONDS_MAX)
            self._close()


class Fleet(Cluster):
    """Brokers 0, 1, 2, ... of either peer, as scenarios use them."""

    brokers: list[Node]  # type: ignore[assignment]

    def __init__(self, peer: Peer, brokers: int, settings: Mapping[str, str]) -> None:
        self._launch = peer.launch
        self.peer = peer
        self.start_s = 0.0
        ports = iter(free_ports(2 * brokers, HOST))
        members = [Member(node_id, next(ports), next(ports)) for node_id in range(brokers)]
        cluster_id = new_cluster_id()
        self.brokers = [Node(peer, f"broker {member.node_id}") for member in members]
        for node, member in zip(self.brokers, members, strict=True):
            node.address = f"{HOST}:{member.client_port}"
            node.write_properties(
                member_properties(
                    member, members, cluster_id=cluster_id, data_dir=node.data_dir, settings=settings
                )
            )

    @property
    def name(self) -> str:
        return self.peer.name

    @property
    def pids(self) -> list[int]:
        return [node.pid for node in self.brokers if node.is_running]

    def await_in_sync(self, topic: str, *, preferred: bool = False) -> None:
        """Wait for metadata and for the leaders: Kafka names the leader of a new partition before it serves.

        An idempotent producer that writes in between may have its first batch rejected and its second one
        accepted. Kafka then rejects the first as out of order until it expires in two minutes (KAFKA-15591).
        """
        super().await_in_sync(topic, preferred=preferred)

        def served() -> bool:
            try:
                self.ask(lambda admin: admin.offsets_of(topic))
            except ClientError:
                return False
            return True

        wait_until(served, f"{topic} served by its leaders")

    def delete_topic(self, topic: str) -> None:
        self.ask(lambda admin: admin.delete_topics([topic]))
