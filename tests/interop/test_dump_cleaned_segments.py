"""Kafka's DumpLogSegments reads compacted segments: batches, empty ones, delete horizons and indexes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.records.build import build_batch
from ottla.records.control import end_txn_marker
from ottla.storage.cleaning.job import DONE, CleanJob, CleanSettings
from ottla.storage.cleaning.plan import plan_clean
from ottla.storage.files import OsFiles
from ottla.storage.log import PartitionLog, open_log
from ottla.storage.log_config import LogConfig
from ottla.storage.segments.swap import CleanedGroup
from tests.support.interop.tools import kafka_tools, why_no_tools

pytestmark = [pytest.mark.java, pytest.mark.skipif(bool(why_no_tools()), reason=str(why_no_tools()))]

DUMP = "org.apache.kafka.tools.DumpLogSegments"
NOW_MS = 1_700_000_000_000


def filled(directory: Path) -> PartitionLog:
    config = LogConfig({"cleanup.policy": "compact", "segment.bytes": 4000, "index.interval.bytes": 500})
    log = open_log(OsFiles(), str(directory), config, now_ms=NOW_MS)
    for turn in range(120):
        rows = [
            (NOW_MS + turn, b"key%d" % (n % 9), None if n % 7 == 0 else b"%d" % turn, ())
            for n in range(turn, turn + 3)
        ]
        log.append_internal(build_batch(rows, codec=turn % 5, leader_epoch=0), 0, NOW_MS)
        batch = build_batch(
            [(NOW_MS, b"txn", b"%d" % turn, ())],
            producer_id=7,
            producer_epoch=0,
            base_sequence=turn,
            transactional=True,
        )
        log.append_internal(batch, 0, NOW_MS)
        marker = end_txn_marker(7, 0, commit=turn % 3 == 0, coordinator_epoch=0, timestamp_ms=NOW_MS)
        log.append_internal(marker, 0, NOW_MS)
    log.roll(NOW_MS)
    log.flush(NOW_MS)
    return log


def test_dump_log_segments(tmp_path: Path) -> None:
    log = filled(tmp_path / "topic-0")
    job = log.cleaning = CleanJob(log, plan_clean(log, log.log_end_offset, NOW_MS), CleanSettings(), NOW_MS)
    while (step := job.step()) is not DONE:
        if isinstance(step, CleanedGroup):
            assert log.replace_segments(step, NOW_MS)
    log.close(NOW_MS)
    segments = sorted((tmp_path / "topic-0").glob("*.log"))[:-1]
    assert segments
    with kafka_tools() as tools:
        for path in segments:
            output = tools.ask(DUMP, "--deep-iteration", "--print-data-log", "--files", str(path))
            assert "isvalid: false" not in output and "isvalid: true" in output, output
            assert "Found" not in output and "isn't exactly" not in output, output
            for suffix in (".index", ".timeindex"):
                index = path.with_suffix(suffix)
                said_of_index = tools.ask(DUMP, "--index-sanity-check", "--files", str(index))
                assert "passed sanity check" in said_of_index, said_of_index
            # The tool reports time indexes of segments with emptied batches, also for Kafka's own: the header
            # keeps a timestamp that no record has.
            checked = tools.ask(DUMP, "--verify-index-only", "--files", str(path.with_suffix(".index")))
            assert "mismatch" not in checked.lower() and "Found" not in checked, checked
        everything = "".join(tools.ask(DUMP, "--files", str(path)) for path in segments)
    assert re.search(r"deleteHorizonMs: OptionalLong\[\d+\]", everything)
    assert re.search(r"count: 0 ", everything), "the emptied batches of the producer"
    assert set(re.findall(r"compresscodec: (\w+)", everything)) == {"none", "gzip", "snappy", "lz4", "zstd"}
