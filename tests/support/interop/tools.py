"""Kafka's command line tools in one JVM, if their jars are available.

OTTLA_KAFKA_JARS names a directory with them (the libs of a Kafka release). Otherwise the local Maven
repository is searched, where `mvn dependency:get -Dartifact=org.apache.kafka:kafka-tools:4.3.0` puts them.
"""

from __future__ import annotations

import functools
import glob
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.interop.java import JVM_OPTIONS

JARS = "OTTLA_KAFKA_JARS"
WANTED = (
    "kafka-tools",
    "kafka-tools-api",
    "kafka-clients",
    "kafka-server",
    "kafka-server-common",
    "kafka-metadata",
    "kafka-raft",
    "kafka-storage",
    "kafka-storage-api",
    "kafka-group-coordinator",
    "kafka-group-coordinator-api",
    "kafka-coordinator-common",
    "jackson-core",
    "jackson-databind",
    "jackson-annotations",
    "jackson-datatype-jdk8",
    "jackson-dataformat-csv",
    "jopt-simple",
    "argparse4j",
    "slf4j-api",
    "re2j",
    "lz4-java",
    "snappy-java",
    "zstd-jni",
)

TOPICS = "org.apache.kafka.tools.TopicCommand"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECT = "org.apache.kafka.tools.LeaderElectionCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
GROUPS = "org.apache.kafka.tools.GroupsCommand"
CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"


@functools.cache
def tool_jars() -> list[str]:
    """Return the newest jar of each artifact."""
    folder = os.environ.get(JARS) or os.path.expanduser("~/.m2/repository")
    newest: dict[str, str] = {}
    for path in sorted(glob.glob(os.path.join(folder, "**", "*.jar"), recursive=True)):
        artifact = re.split(r"-\d", os.path.basename(path))[0]
        if artifact in WANTED:
            newest[artifact] = path
    return list(newest.values()) if {"kafka-tools", "kafka-clients"} <= newest.keys() else []


def why_no_tools() -> str | None:
    if shutil.which("java") is None or shutil.which("javac") is None:
        return "java is not installed"
    return None if tool_jars() else f"no jars of Kafka's tools: {JARS} names no directory with them"


class ToolOutput(NamedTuple):
    code: int
    text: str


class KafkaTools:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, tool: str, *arguments: str) -> ToolOutput:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([tool, *arguments]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the JVM has ended"
        answer = json.loads(line)
        return ToolOutput(answer["code"], answer["said"])

    def ask(self, tool: str, *arguments: str) -> str:
        """Run a tool that must succeed; return its output."""
        code, text = self.run(tool, *arguments)
        assert code == 0, text
        return text


@contextmanager
def kafka_tools() -> Iterator[KafkaTools]:
    source = Path(__file__).with_name("KafkaTools.java")
    classpath = os.pathsep.join(tool_jars())
    with tempfile.TemporaryDirectory(prefix="ottla-java-") as classes:
        compiled = subprocess.run(
            ["javac", "-nowarn", "-proc:none", "-cp", classpath, "-d", classes, str(source)],
            check=False,
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert compiled.returncode == 0, compiled.stderr
        command = ["java", *JVM_OPTIONS, "-cp", os.pathsep.join((classes, classpath)), "KafkaTools"]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        with process:
            try:
                yield KafkaTools(process)
                assert process.stdin is not None
                process.stdin.close()
                process.wait(20)
            finally:
                process.kill()
