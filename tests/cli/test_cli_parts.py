"""Parts of the commands that need no broker."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.main import main
from ottla.cli.output import human_bytes, plural
from ottla.cli.records.consume import Line, time_text
from ottla.cli.records.produce import InputFormat, parse_line
from ottla.cli.records.record_json import record_from_json, record_to_json
from ottla.cli.records.start_point import LastN, parse_start
from ottla.client import ConsumedRecord

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
contents = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)


@given(
    key=contents,
    value=contents,
    headers=st.lists(st.tuples(st.text(max_size=5), contents), max_size=3),
    timestamp_ms=st.integers(0, 2**45),
)
def test_json_lines_survive_the_round_trip(key, value, headers, timestamp_ms):
    record = ConsumedRecord("t", 3, 9, timestamp_ms, key, value, tuple(headers))
    line = record_from_json(record_to_json(record).encode())
    assert line == (key, value, tuple(headers), 3, timestamp_ms)


def test_handwritten_json_lines():
    assert record_from_json(b'{"value": "v"}') == (None, b"v", (), None, None)
    assert record_from_json(b'{"value": {"a": [1]}, "key": 7}') == (b"7", b'{"a": [1]}', (), None, None)
    assert record_from_json(b'{"value": null, "headers": {"h": "x"}}').headers == (("h", b"x"),)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"{}",
        b'"v"',
        b"\xff",
        b'{"value": "v", "partition": -1}',
        b'{"value": "v", "timestamp_ms": "now"}',
        b'{"value": "v", "headers": [1]}',
        b'{"value_base64": "!"}',
    ],
)
def test_bad_json_lines_are_value_errors(line):
    with pytest.raises(ValueError, match=r"."):
        record_from_json(line)


def test_lines_with_keys():
    assert parse_line(b"a:b:c", b":", InputFormat.LINES)[:2] == (b"a", b"b:c")
    assert parse_line(b"a:b", None, InputFormat.LINES)[:2] == (None, b"a:b")
    with pytest.raises(ValueError, match="not contain the key separator ':'"):
        parse_line(b"abc", b":", InputFormat.LINES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("beginning", "beginning"),
        ("end", "end"),
        ("0", 0),
        ("42", 42),
        ("@1767225600000", datetime(2026, 1, 1, tzinfo=UTC)),
        ("90s", NOW - timedelta(seconds=90)),
        ("7d", NOW - timedelta(days=7)),
        ("2026-01-31T12:00:00+00:00", NOW),
    ],
)
def test_starting_points(text, expected):
    assert parse_start(text, NOW) == expected


def test_the_last_records_are_not_an_offset():
    start = parse_start("-10", NOW)
    assert isinstance(start, LastN)
    assert start == 10


@pytest.mark.parametrize("text", ["", "start", "1.5", "5w", "@", "2026-13-01"])
def test_invalid_starting_points_list_valid_forms(text):
    with pytest.raises(ValueError, match="expected beginning, end"):
        parse_start(text, NOW)


def line(**options):
    defaults = {"keys": False, "headers": False, "timestamps": False, "offsets": False, "separator": "\t"}
    return Line(**{**defaults, "template": None, **options})


RECORD = ConsumedRecord("t", 1, 22, 1767225600123, b"k", b"v\xff", (("a", b"1"), ("b", None)))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, b"v\xff"),
        ({"keys": True, "separator": "|"}, b"k|v\xff"),
        ({"offsets": True, "timestamps": True}, b"2026-01-01T00:00:00.123Z\t1:22\tv\xff"),
        ({"headers": True}, b"a=1,b=null\tv\xff"),
        ({"template": "{topic}/{partition}/{offset} {{{key}}} {value}!"}, b"t/1/22 {k} v\xff!"),
    ],
)
def test_lines_of_records(options, expected):
    assert line(**options).of(RECORD) == expected


@pytest.mark.parametrize("template", ["{nothing}", "{}", "{value!r}", "{value:5}", "{value"])
def test_bad_templates_are_refused(template):
    with pytest.raises(ValueError, match=r"."):
        line(template=template)


def test_nulls_and_missing_times_are_shown():
    record = RECORD._replace(key=None, value=None, timestamp_ms=-1)
    assert line(keys=True, timestamps=True).of(record) == b"-\tnull\tnull"
    assert time_text(0) == "1970-01-01T00:00:00.000Z"


@pytest.mark.parametrize(
    ("count", "text"), [(-1, "?"), (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 2**40, "5.0 TiB")]
)
def test_human_readable_sizes(count, text):
    assert human_bytes(count) == text


def test_plurals():
    assert (plural(1, "record"), plural(0, "record")) == ("1 record", "0 records")


@pytest.mark.parametrize(
    "arguments",
    [
        ["topic", "alter", "t"],
        ["topic", "create"],
        ["topic", "create", "t", "--partitions", "0"],
        ["topic", "create", "t", "--config", "x"],
        ["topic", "list", "--bootstrap", "a:b"],
        ["produce", "t", "--key-separator", ""],
        ["produce", "t", "--acks", "2"],
        ["produce", "t", "--compression", "rar"],
        ["produce", "t", "--format", "json", "--key-separator", ":"],
        ["consume", "t", "--from", "tomorrow"],
        ["consume", "t", "--template", "{x}"],
        ["consume", "t", "--max", "0"],
        ["nonsense"],
        ["--nonsense"],
    ],
)
def test_invalid_arguments_exit_with_code_2(arguments, capsys):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["topic", "--help"], ["produce", "-h"], ["consume", "-h"], ["topic", "describe", "-h"]],
)
def test_help_has_examples(arguments, capsys):
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "serve" in shown if arguments == ["--help"] else "xample" in shown or "describe" in shown


def test_unreachable_clusters_are_named(capsys):
    assert main(["topic", "list", "--bootstrap", "127.0.0.1:1"]) == 1
    assert capsys.readouterr().err == (
        "ottla: 127.0.0.1:1: cannot connect: connection refused; is a broker running there?\n"
    )
    assert main(["topic", "list", "--bootstrap", "127.0.0.1:1", "--json"]) == 1
    captured = capsys.readouterr()
    assert "127.0.0.1:1" in json.loads(captured.err)["error"]


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("ottla ")
