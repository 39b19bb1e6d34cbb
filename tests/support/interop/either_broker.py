"""One data directory that Ottla and Apache Kafka serve in turns, each as a process of its own."""

from __future__ import annotations

import functools
import glob
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ottla.launch.local_cluster import Member, member_properties, new_cluster_id
from ottla.testing.ports import free_ports
from tests.support.interop.java import JVM_OPTIONS
from tests.support.interop.tools import JARS
from tests.support.waiting import wait_until

# What Kafka's broker needs, apart from what is found by the names below.
BROKER_JARS = {
    "HdrHistogram",
    "argparse4j",
    "caffeine",
    "commons-beanutils",
    "commons-collections",
    "commons-digester",
    "commons-logging",
    "commons-validator",
    "hash4j",
    "jackson-annotations",
    "jackson-core",
    "jackson-databind",
    "jackson-dataformat-csv",
    "jackson-dataformat-yaml",
    "jackson-datatype-jdk8",
    "jopt-simple",
    "jose4j",
    "log4j-api",
    "log4j-core",
    "lz4-java",
    "metrics-core",
    "pcollections",
    "re2j",
    "scala-library",
    "scala-logging_2.13",
    "scala-reflect",
    "slf4j-api",
    "snappy-java",
    "zstd-jni",
}
START_SECONDS_MAX = 60
HOST = "127.0.0.1"


@functools.cache
def broker_jars() -> list[str]:
    """The newest jar of each artifact: Kafka's own of one version, and what they need."""
    folder = os.environ.get(JARS) or os.path.expanduser("~/.m2/repository")
    newest: dict[str, str] = {}
    for path in sorted(glob.glob(os.path.join(folder, "**", "*.jar"), recursive=True), key=_version):
        artifact = re.split(r"-\d", os.path.basename(path))[0]
        if artifact in BROKER_JARS or artifact.startswith("kafka"):
            newest[artifact] = path
    return list(newest.values()) if {"kafka_2.13", "scala-library"} <= newest.keys() else []


def _version(path: str) -> list[int]:
    """1.10 is newer than 1.9."""
    return [int(number) for number in re.findall(r"\d+", re.split(r"-(?=\d)", os.path.basename(path))[-1])]


def why_no_broker() -> str | None:
    if shutil.which("java") is None:
        return "java is not installed"
    return None if broker_jars() else f"no jars of Kafka's broker: {JARS} names no directory with them"


class SharedDirectory:
    """A combined node with one data directory; `ottla` and `kafka` run it while their context is open."""

    def __init__(self, directory: Path) -> None:
        self.data_dir = directory / "data"
        client_port, controller_port = free_ports(2, HOST)
        member = Member(1, client_port, controller_port)
        self.address = f"{HOST}:{client_port}"
        self.cluster_id = new_cluster_id()
        self._directory = directory
        settings = {
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
        }
        properties = member_properties(
            member, [member], cluster_id=self.cluster_id, data_dir=str(self.data_dir), settings=settings
        )
        self._properties = directory / "server.properties"
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        self.data_dir.mkdir()

    def format_by_kafka(self, *arguments: str) -> None:
        """Create the directory as Kafka does; without it Ottla creates it."""
        self._kafka_tool("format", "-t", self.cluster_id, "-c", str(self._properties), *arguments)

    def _kafka_tool(self, *arguments: str) -> None:
        command = ["java", *JVM_OPTIONS, "-cp", os.pathsep.join(broker_jars()), "kafka.tools.StorageTool"]
        done = subprocess.run(
            [*command, *arguments], check=False, capture_output=True, text=True, timeout=START_SECONDS_MAX
        )
        assert done.returncode == 0, done.stdout + done.stderr

    @contextmanager
    def ottla(self) -> Iterator[str]:
        command = [sys.executable, "-m", "ottla", "serve", "--config", str(self._properties)]
        with self._running(command, "ottla.log"):
            yield self.address

    @contextmanager
    def kafka(self) -> Iterator[str]:
        # Without a binding for slf4j it logs nothing; log4j would need a configuration.
        command = ["java", *JVM_OPTIONS, "-cp", os.pathsep.join(broker_jars()), "kafka.Kafka"]
        with self._running([*command, str(self._properties)], "kafka.log"):
            yield self.address

    @contextmanager
    def _running(self, command: list[str], log_name: str) -> Iterator[None]:
        path = self._directory / log_name
        with open(path, "ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_until(
                lambda: self._serves(process, path), lambda: path.read_text()[-4000:], START_SECONDS_MAX
            )
            yield
            process.terminate()
            process.wait(START_SECONDS_MAX)
        finally:
            process.kill()
            process.wait()

    def _serves(self, process: subprocess.Popen[bytes], log: Path) -> bool:
        assert process.poll() is None, log.read_text()[-4000:]
        try:
            found = AdminClient({"bootstrap.servers": self.address, "log_level": 0}).list_topics(timeout=2)
        except KafkaException:
            return False
        return bool(found.brokers)
