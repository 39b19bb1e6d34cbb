"""Find Apache Kafka and Spark's Kafka connector: in a configured directory, otherwise with Maven."""

from __future__ import annotations

import functools
import glob
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import NamedTuple

VERSION = "4.3.0"
SCALA = "2.13"
KAFKA = (f"org.apache.kafka:kafka_{SCALA}:{VERSION}", f"org.apache.kafka:kafka-tools:{VERSION}")
HOME = "KAFKA_HOME"
MAVEN_SECONDS_MAX = 600

CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}"
# A directory with the connector and its dependencies.
CONNECTOR_HOME = "OTTLA_BENCH_KAFKA_JARS"
# Mirrors of Maven Central may lag behind Spark's releases: an older connector that works with newer Spark.
OLDER_CONNECTOR = "4.2.0"
OLDER_CONNECTOR_PARTS = (
    f"{CONNECTOR}:{OLDER_CONNECTOR}",
    f"org.apache.spark:spark-token-provider-kafka-0-10_{SCALA}:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)


class NoKafka(Exception):
    """Apache Kafka is not available; the message says why in one sentence."""


class Connector(NamedTuple):
    """Spark's own Kafka connector: the jars that are not part of Spark."""

    jars: Sequence[str]
    version: str
    origin: str


class Kafka(NamedTuple):
    java: str
    class_path: str
    version: str
    origin: str


def find_kafka() -> Kafka:
    java = shutil.which("java")
    if java is None:
        raise NoKafka("java is not installed")
    home = os.environ.get(HOME)
    if home:
        jars = sorted(glob.glob(os.path.join(home, "libs", "*.jar")))
        found = [match for jar in jars if (match := re.search(r"/kafka_[\d.]+-(\d[^/]*)\.jar$", jar))]
        if not found:
            raise NoKafka(f"{HOME}={home} has no libs/kafka_*.jar")
        return Kafka(java, ":".join(jars), found[0].group(1), HOME)
    return Kafka(java, class_path(KAFKA), VERSION, "Maven")


@functools.cache
def find_connector() -> Connector:
    """Return the connector of the installed Spark's version or, if it is not available, an older one."""
    home = os.environ.get(CONNECTOR_HOME)
    if home:
        jars = sorted(glob.glob(os.path.join(home, "*.jar")))
        found = [
            match for jar in jars if (match := re.search(r"/spark-sql-kafka-[\d.-]+_[\d.]+-(.+)\.jar$", jar))
        ]
        if not found:
            raise NoKafka(f"{CONNECTOR_HOME}={home} has no spark-sql-kafka-*.jar")
        return Connector(jars, found[0].group(1), CONNECTOR_HOME)
    try:
        spark = version("pyspark")
    except PackageNotFoundError:
        raise NoKafka("pyspark is not installed") from None
    try:
        return Connector(_new_to_spark(class_path((f"{CONNECTOR}:{spark}",))), spark, "Maven")
    except NoKafka:
        path = class_path(OLDER_CONNECTOR_PARTS, alone=True)
    return Connector(_new_to_spark(path), OLDER_CONNECTOR, "Maven")


def _new_to_spark(path: str) -> list[str]:
    """Return the jars that are not part of Spark, to avoid conflicting versions."""
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None, "pyspark is installed"
    there = {_artifact(jar) for jar in os.listdir(os.path.join(os.path.dirname(spec.origin), "jars"))}
    return [jar for jar in path.split(":") if _artifact(jar) not in there]


def _artifact(jar: str) -> str:
    return re.sub(r"-\d[^/]*\.jar$", "", os.path.basename(jar))


def class_path(coordinates: tuple[str, ...], *, alone: bool = False) -> str:
    """Return the jars of these artifacts and, unless `alone`, of their dependencies."""
    maven = shutil.which("mvn")
    if maven is None:
        raise NoKafka(f"mvn, needed for {coordinates[0]}, is not installed")
    with tempfile.TemporaryDirectory(prefix="ottla-bench-maven-") as directory:
        with open(os.path.join(directory, "pom.xml"), "w", encoding="utf-8") as pom:
            pom.write(_pom(coordinates, alone=alone))
        path = os.path.join(directory, "class-path")
        command = [maven, "-q", "-B", "dependency:build-classpath", f"-Dmdep.outputFile={path}"]
        try:
            done = subprocess.run(
                command, cwd=directory, check=False, capture_output=True, text=True, timeout=MAVEN_SECONDS_MAX
            )
        except subprocess.TimeoutExpired:
            raise NoKafka(f"mvn did not download {' '.join(coordinates)} in {MAVEN_SECONDS_MAX} s") from None
        if done.returncode != 0:
            raise NoKafka(f"mvn could not download {' '.join(coordinates)}: {done.stdout.strip()[:300]}")
        with open(path, encoding="utf-8") as file:
            return file.read().strip()


def _pom(coordinates: tuple[str, ...], *, alone: bool) -> str:
    nothing_else = "<groupId>*</groupId><artifactId>*</artifactId>"
    exclusions = f"<exclusions><exclusion>{nothing_else}</exclusion></exclusions>" if alone else ""
    entries = []
    for coordinate in coordinates:
        group, artifact, number = coordinate.split(":")
        entries.append(
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{number}</version>{exclusions}</dependency>"
        )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>ottla</groupId><artifactId>bench</artifactId>"
        f"<version>1</version><dependencies>{''.join(entries)}</dependencies></project>"
    )
