"""Records of logs and files, in every version, against Kafka's own classes."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

import tests.support.protocol as support
from ottla.protocol.api import message_class
from tests.support.interop.either_broker import broker_jars, why_no_broker
from tests.support.interop.java import JVM_OPTIONS
from tests.support.protocol.samples import MESSAGE_NAMES, Sampler, versions_of

pytestmark = [pytest.mark.java, pytest.mark.skipif(bool(why_no_broker()), reason=str(why_no_broker()))]

SAMPLES = 12
SUFFIXES = ("Key", "Value", "Record", "Snapshot", "Data")
RECORDS = [name for name in MESSAGE_NAMES if name.endswith(SUFFIXES)]


def kafka_reads_and_writes(lines: list[str]) -> list[str]:
    source = Path(support.__path__[0]) / "RecordOracle.java"
    classpath = os.pathsep.join(broker_jars())
    with tempfile.TemporaryDirectory(prefix="ottla-java-") as classes:
        compile_it = ["javac", "-nowarn", "-proc:none", "-cp", classpath, "-d", classes, str(source)]
        done = subprocess.run(compile_it, check=False, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        command = ["java", *JVM_OPTIONS, "-cp", os.pathsep.join((classes, classpath)), "RecordOracle"]
        asked = subprocess.run(
            command, input="\n".join(lines) + "\n", check=False, capture_output=True, text=True, timeout=100
        )
    assert asked.returncode == 0, asked.stderr
    return asked.stdout.splitlines()


def test_kafka_reads_and_writes_the_same_bytes() -> None:
    lines = []
    for name in RECORDS:
        cls = message_class(name)
        for version in versions_of(cls):
            sampler = Sampler(f"{name} {version}")
            samples = [sampler.instance(cls, version) for _ in range(SAMPLES)]
            lines += [f"{name} {version} {sample.encode(version).hex()}" for sample in samples]
    answers = kafka_reads_and_writes(lines)
    assert len(answers) == len(lines) > 1000
    wrong = [
        f"{line}\n  {answer}"
        for line, answer in zip(lines, answers, strict=True)
        if answer != f"ok {line.split(' ')[2]}"
    ]
    assert not wrong, f"{len(wrong)} of {len(lines)}:\n" + "\n".join(wrong[:20])
