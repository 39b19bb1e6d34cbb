"""The generator: its rules on small definitions, and that the committed files equal its output."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ottla.protocol.api import snake_case
from tests.support.protocol.samples import MESSAGE_NAMES

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tools" / "generate_protocol.py"
COMMITTED = ROOT / "src" / "ottla" / "protocol" / "messages"
DEFINITIONS = os.environ.get("OTTLA_KAFKA_MESSAGES", "")

EXAMPLE = """
// A comment.
{
  "apiKey": 7, "type": "request", "name": "TryOutRequest", // and another
  "listeners": ["broker"], "validVersions": "1-3", "flexibleVersions": "2+", "latestVersionUnstable": true,
  "fields": [
    { "name": "Address", "type": "string", "versions": "0+", "nullableVersions": "2+", "default": "null",
      "about": "Not http://like.this" },
    { "name": "Limit", "type": "int32", "versions": "1-2", "default": "0x10", "ignorable": true },
    { "name": "From", "type": "bool", "versions": "0+", "default": "true" },
    { "name": "Things", "type": "[]Thing", "versions": "0+", "fields": [
      { "name": "Id", "type": "uuid", "taggedVersions": "3+", "tag": 4 }
    ]}
  ]
}
"""
EXPECTED = '''"""TryOutRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET, ZERO_UUID


class TryOutRequest(Message):
    API_KEY = 7
    MIN_VERSION = 1
    MAX_VERSION = 3
    MAX_STABLE_VERSION = 2
    FLEXIBLE_FROM = 2
    READERS = {}
    WRITERS = {}
    __slots__ = ("address", "limit", "from_", "things")
    SCHEMA = """
        address string 0+ null:2+ default:null
        limit int32 1-2 default:16 ignorable
        from_ bool 0+ default:true
        things []Thing 0+
    """

    def __init__(self, *,
        address: str | None = None, limit: int = 16, from_: bool = True, things: list[Thing] = UNSET,
    ) -> None:
        self.address = address
        self.limit = limit
        self.from_ = from_
        self.things: list[Thing] = [] if things is UNSET else things


class Thing(Struct):
    __slots__ = ("id",)
    SCHEMA = """
        id uuid 3+ tag:4:3+
    """

    def __init__(self, *, id: bytes = ZERO_UUID) -> None:
        self.id = id
'''


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_protocol", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_small_definition(generator: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "clients").mkdir()
    (tmp_path / "clients" / "TryOutRequest.json").write_text(EXAMPLE)
    gone = '{"type": "request", "name": "GoneRequest", "apiKey": 8, "validVersions": "none"}'
    (tmp_path / "clients" / "GoneRequest.json").write_text(gone)
    files = generator.generate(tmp_path)
    assert set(files) == {"__init__.py", "table.py", "try_out_request.py"}
    assert files["try_out_request.py"] == EXPECTED
    assert '    (7, "TryOut", 1, 2, 3, 2, "broker"),\n' in files["table.py"]


def test_command_line(tmp_path: Path) -> None:
    (tmp_path / "in" / "clients").mkdir(parents=True)
    (tmp_path / "in" / "clients" / "TryOutRequest.json").write_text(EXAMPLE)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "stale.py").write_text("")
    command = [
        sys.executable,
        str(SCRIPT),
        "--definitions",
        str(tmp_path / "in"),
        "--output",
        str(tmp_path / "out"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    assert (tmp_path / "out" / "try_out_request.py").read_text() == EXPECTED
    assert not (tmp_path / "out" / "stale.py").exists()
    command[3] = str(tmp_path / "nothing")
    assert subprocess.run(command, check=False, capture_output=True).returncode == 1


def test_module_names_follow_one_rule(generator: ModuleType) -> None:
    assert [generator.snake(name) for name in MESSAGE_NAMES] == [snake_case(name) for name in MESSAGE_NAMES]
    assert snake_case("KRaftVersionRecord") == "kraft_version_record"


def test_constants(generator: ModuleType) -> None:
    table = '    (7, "TryOut", 1, 2, 3, 2, "broker"),\n'
    assert generator.api_keys_module(table).endswith("class ApiKey(IntEnum):\n    TRY_OUT = 7\n")
    files = {"try_out_request.py": EXPECTED}
    named = {
        "TRY_OUT_LIMIT": "TryOutRequest.limit",
        "TRY_OUT_NO_ADDRESS": "null:TryOutRequest.address",
        "TRY_OUT_ID": "TryOutRequest.Thing.id",
        "TRY_OUT_SPEED": [2, "it is fast"],
    }
    assert generator.versions_module(files, named).splitlines()[4:] == [
        "TRY_OUT_LIMIT_SINCE = 1  # TryOutRequest.limit",
        "TRY_OUT_NO_ADDRESS_SINCE = 2  # TryOutRequest.address may be null",
        "TRY_OUT_ID_SINCE = 3  # TryOutRequest.Thing.id",
        "TRY_OUT_SPEED_SINCE = 2  # it is fast",
    ]
    with pytest.raises(ValueError, match=r"there is no field TryOutRequest\.gone"):
        generator.first_version(files, "TryOutRequest.gone")


def test_committed_constants_are_what_the_generator_writes(generator: ModuleType) -> None:
    messages = {path.name: path.read_text(encoding="utf-8") for path in COMMITTED.glob("*.py")}
    for name, text in generator.generate_constants(messages).items():
        assert (COMMITTED.parent / name).read_text(encoding="utf-8") == text


@pytest.mark.skipif(not DEFINITIONS, reason="OTTLA_KAFKA_MESSAGES does not name the message definitions")
def test_committed_messages_are_what_the_generator_writes(generator: ModuleType) -> None:
    files = generator.generate(Path(DEFINITIONS))
    committed = {path.name: path.read_text(encoding="utf-8") for path in COMMITTED.glob("*.py")}
    assert committed == files
