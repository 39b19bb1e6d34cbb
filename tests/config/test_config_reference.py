"""The configuration reference is complete, and its marks of supported properties are correct."""

from __future__ import annotations

import re
from pathlib import Path

from ottla.config.broker import broker_properties
from ottla.config.group_config import GROUP_PROPERTIES
from ottla.config.reference import ReferenceRow, reference_rows
from ottla.config.topic import SYNONYMS, TOPIC_PROPERTIES

SOURCE = Path(__file__).parents[2] / "src" / "ottla"
DEFINITIONS = {"broker.py", "coordinators.py", "security.py", "topic.py"}
# The packages that a broker runs; clients and tools only pass properties on.
BROKER_PACKAGES = (
    "broker",
    "config",
    "controller",
    "groups",
    "quorum",
    "replication",
    "storage",
    "transactions",
)
# Names that the code assembles: f"{prefix}.num.partitions", f"compression.{codec}.level".
ASSEMBLED = {
    *(f"compression.{codec}.level" for codec in ("gzip", "lz4", "zstd")),
    *(f"{topic}.num.partitions" for topic in ("offsets.topic", "transaction.state.log")),
    *(f"{topic}.replication.factor" for topic in ("offsets.topic", "transaction.state.log")),
    "transaction.state.log.min.isr",
}


def source_text() -> str:
    files = [path for package in BROKER_PACKAGES for path in (SOURCE / package).rglob("*.py")]
    assert files
    wanted = [path for path in files if path.parent.name != "config" or path.name not in DEFINITIONS]
    return "\n".join(path.read_text() for path in wanted)


def is_used(name: str, source: str) -> bool:
    attribute = rf"\bconfig\.{re.escape(name.replace('.', '_'))}\b"
    return f'"{name}"' in source or name in ASSEMBLED or re.search(attribute, source) is not None


def test_every_property_has_a_row() -> None:
    rows = list(reference_rows())
    names = {
        level: {row.name for row in rows if row.level == level} for level in ("broker", "topic", "group")
    }
    assert names == {
        "broker": set(broker_properties()),
        "topic": set(TOPIC_PROPERTIES),
        "group": set(GROUP_PROPERTIES),
    }
    assert len(rows) == sum(map(len, names.values()))


def test_descriptions_are_sentences() -> None:
    for row in reference_rows():
        first = row.description.split()[0]
        assert first[0].isupper() or "." in first, row
        assert row.description.endswith("."), row


def test_update_modes_and_defaults_are_as_defined() -> None:
    rows = {(row.level, row.name): row for row in reference_rows()}
    listeners = rows["broker", "listeners"]
    assert (listeners.type, listeners.update, listeners.dynamic) == ("list", "per-broker", True)
    segment = rows["broker", "log.segment.bytes"]
    assert (segment.default, segment.valid, segment.update) == (
        "1073741824",
        "at least 1048576",
        "cluster-wide",
    )
    assert not rows["broker", "node.id"].dynamic
    retention = rows["topic", "retention.ms"]
    assert retention.update == "topic"
    assert retention.default_from == ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
    assert rows["topic", "flush.ms"].default == "maximum"
    assert rows["broker", "log.dirs"].default == "not set"


def test_supported_properties_are_used_and_ignored_ones_are_not() -> None:
    source = source_text()
    used_topics = {name for name in TOPIC_PROPERTIES if is_used(name, source)}
    defaults_of: dict[str, set[str]] = {}
    for topic_name, synonyms in SYNONYMS.items():
        for name, _ in synonyms:
            defaults_of.setdefault(name, set()).add(topic_name)

    def expected(row: ReferenceRow) -> bool:
        if row.level == "topic":
            return row.name in used_topics
        return is_used(row.name, source) or bool(defaults_of.get(row.name, set()) & used_topics)

    wrong = [(row.level, row.name) for row in reference_rows() if row.supported != expected(row)]
    assert not wrong, f"marked as supported but unused, or as ignored but used: {wrong}"
