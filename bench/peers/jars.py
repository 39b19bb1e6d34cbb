"""Where Apache Kafka comes from: a release that KAFKA_HOME names, else Maven by its coordinates."""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import tempfile
from typing import NamedTuple

VERSION = "4.3.0"
SCALA = "2.13"
SPARK_SCALA = "2.13"
KAFKA = (f"org.apache.kafka:kafka_{SCALA}:{VERSION}", f"org.apache.kafka:kafka-tools:{VERSION}")
HOME = "KAFKA_HOME"
MAVEN_SECONDS_MAX = 600


class NoKafka(Exception):
    """In one sentence, why there is no peer to measure against."""


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


def class_path(coordinates: tuple[str, ...]) -> str:
    """The jars of these artifacts and all that they need, in the local repository of Maven."""
    maven = shutil.which("mvn")
    if maven is None:
        raise NoKafka(f"neither {HOME} nor mvn is there to get Apache Kafka from")
    with tempfile.TemporaryDirectory(prefix="ottla-bench-maven-") as directory:
        with open(os.path.join(directory, "pom.xml"), "w", encoding="utf-8") as pom:
            pom.write(_pom(coordinates))
        path = os.path.join(directory, "class-path")
        command = [maven, "-q", "-B", "dependency:build-classpath", f"-Dmdep.outputFile={path}"]
        try:
            done = subprocess.run(
                command, cwd=directory, check=False, capture_output=True, text=True, timeout=MAVEN_SECONDS_MAX
            )
        except subprocess.TimeoutExpired:
            raise NoKafka(f"mvn did not get {' '.join(coordinates)} in {MAVEN_SECONDS_MAX} s") from None
        if done.returncode != 0:
            raise NoKafka(f"mvn could not get {' '.join(coordinates)}: {done.stdout.strip()[-300:]}")
        with open(path, encoding="utf-8") as file:
            return file.read().strip()


def _pom(coordinates: tuple[str, ...]) -> str:
    entries = []
    for coordinate in coordinates:
        group, artifact, version = coordinate.split(":")
        entries.append(
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{version}</version></dependency>"
        )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>ottla</groupId><artifactId>bench</artifactId>"
        f"<version>1</version><dependencies>{''.join(entries)}</dependencies></project>"
    )
