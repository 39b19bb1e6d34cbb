"""Write src/ottla/protocol/messages/ from Kafka's message definitions (JSON with // comments).

The output is small on purpose: one module per message with its typed, slotted classes and a schema of one
line per field. The functions that read and write the wire are compiled from that schema at run time
(ottla.protocol.compile_read and compile_write), so there are no generated codecs to review. Run:

    python tools/generate_protocol.py --definitions DIR [--output DIR]
    python tools/generate_protocol.py --constants

The first form rewrites the messages and the constants; the second only the constants (`api_keys.py` and
`versions.py` in ottla.protocol), from the messages that are there. `protocol_additions.json` holds the few
tagged fields that Ottla adds to Kafka's messages, `protocol_versions.json` the versions that have a name.
"""

from __future__ import annotations

import argparse
import json
import keyword
import re
import sys
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).resolve().parent.parent / "src" / "ottla" / "protocol" / "messages"
ADDITIONS = Path(__file__).resolve().parent / "protocol_additions.json"
VERSIONS = Path(__file__).resolve().parent / "protocol_versions.json"
VERSION_MAX = 32767
LINE_MAX = 110
PYTHON_TYPES = {
    "bool": "bool",
    "string": "str",
    "bytes": "bytes",
    "records": "Records",
    "uuid": "bytes",
    "float64": "float",
    **dict.fromkeys(("int8", "int16", "int32", "int64", "uint16", "uint32"), "int"),
}
ZERO_DEFAULTS = {
    "bool": "False",
    "string": '""',
    "bytes": 'b""',
    "records": "None",
    "uuid": "ZERO_UUID",
    "float64": "0.0",
    **dict.fromkeys(("int8", "int16", "int32", "int64", "uint16", "uint32"), "0"),
}
# Tables of record types, by the directory the definitions are in.
COORDINATORS = {
    "group-coordinator": "GROUP",
    "transaction-coordinator": "TRANSACTION",
    "share-coordinator": "SHARE",
}

Definition = dict[str, Any]


def load(path: Path) -> Definition:
    """One definition; comments are whole or partial lines that start outside of a string."""
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        match = re.match(r'((?:[^"/]|"(?:[^"\\]|\\.)*"|/(?!/))*)//', line)
        kept.append(match.group(1) if match else line)
    definition: Definition = json.loads("\n".join(kept))
    return definition


def add_fields(definition: Definition, additions: Definition) -> None:
    """Append our own fields to those of Kafka, in the structs that they belong to."""
    wanted: Definition = dict(additions.get(definition["name"], {}))

    def visit(name: str, specs: list[Definition]) -> None:
        for spec in specs:
            if "fields" in spec:
                visit(spec["type"].removeprefix("[]"), spec["fields"])
        specs += wanted.pop(name, [])

    visit(definition["name"], definition["fields"])
    if wanted:
        raise ValueError(f"{definition['name']} has no struct {', '.join(wanted)} to add to")


def snake(name: str) -> str:
    """Kafka's CamelCase as snake_case: KRaftVersionRecord is kraft_version_record."""
    name = name.replace("KRaft", "Kraft")
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    return name + "_" if keyword.iskeyword(name) else name


def version_range(text: str) -> tuple[int, int]:
    if text == "none":
        return VERSION_MAX, -1
    low, plus, high = re.fullmatch(r"(\d+)(?:(\+)|-(\d+))?", text).groups()  # type: ignore[union-attr]
    return int(low), VERSION_MAX if plus else int(high or low)


class Field:
    """One field of a struct, with everything that the class and the schema line need."""

    def __init__(self, spec: Definition) -> None:
        self.name = snake(spec["name"])
        self.type: str = spec["type"]
        self.is_array = self.type.startswith("[]")
        self.element = self.type.removeprefix("[]")
        self.is_struct = self.element not in PYTHON_TYPES
        self.versions: str = spec.get("versions") or spec["taggedVersions"]
        self.nullable: str = spec.get("nullableVersions", "none")
        self.tagged: str = spec.get("taggedVersions", "none")
        self.tag: int | None = spec.get("tag")
        self.ignorable: bool = spec.get("ignorable", False)
        self.inflexible: bool = spec.get("flexibleVersions") == "none"
        # A JSON null is no default at all (only the text "null" is one), as in Kafka's own generator.
        given = spec.get("default")
        self.default = "" if given is None else str(given).lower()
        if self.default.startswith("0x"):
            self.default = str(int(self.default, 16))

    @property
    def needs_fresh_default(self) -> bool:
        return (self.is_array or self.is_struct) and self.default != "null"

    def python_type(self) -> str:
        element = PYTHON_TYPES.get(self.element, self.element)
        plain = f"list[{element}]" if self.is_array else element
        return f"{plain} | None" if self.nullable != "none" and element != "Records" else plain

    def python_default(self) -> str:
        if self.default == "null":
            return "None"
        if self.is_array or self.is_struct:
            return "UNSET"
        if self.element == "bool":
            return {"": "False", "true": "True", "false": "False"}[self.default]
        return self.default or ZERO_DEFAULTS[self.element]

    def schema_line(self) -> str:
        words = [self.name, self.type, self.versions]
        if self.nullable != "none":
            words.append(f"null:{self.nullable}")
        if self.tag is not None:
            words.append(f"tag:{self.tag}:{self.tagged}")
        if self.default not in ("", "false", "0"):
            words.append(f"default:{self.default}")
        if self.ignorable:
            words.append("ignorable")
        if self.inflexible:
            words.append("inflexible")
        return " ".join(words)

    def assignment(self) -> str:
        if not self.needs_fresh_default:
            return f"self.{self.name} = {self.name}"
        fresh = "[]" if self.is_array else f"{self.element}()"
        return f"self.{self.name}: {self.python_type()} = {fresh} if {self.name} is UNSET else {self.name}"


def struct_fields(definition: Definition) -> dict[str, list[Field]]:
    """Every struct of a message in order of first mention, the message itself first."""
    found: dict[str, list[Field]] = {}
    common = {struct["name"]: struct["fields"] for struct in definition.get("commonStructs", [])}

    def visit(name: str, specs: list[Definition]) -> None:
        if name in found:
            raise ValueError(f"{definition['name']}: struct {name} is defined twice")
        found[name] = [Field(spec) for spec in specs]
        for spec, field in zip(specs, found[name], strict=True):
            if field.is_struct and "fields" in spec:
                visit(field.element, spec["fields"])
            elif field.is_struct and field.element not in found:
                visit(field.element, common[field.element])

    visit(definition["name"], definition["fields"])
    return found


def wrapped(head: str, items: list[str], tail: str, indent: str) -> list[str]:
    """`head item, item, ... tail` on one line if it fits, else filled lines."""
    line = head + ", ".join(items) + tail
    if len(line) <= LINE_MAX:
        return [line]
    lines, current = [head.rstrip()], indent
    for item in items:
        if len(current) + len(item) + 1 > LINE_MAX:
            lines.append(current.rstrip())
            current = indent
        current += item + ", "
    return [*lines, current.rstrip(), f"{indent[:-4]}{tail}"]


def class_lines(name: str, fields: list[Field], constants: list[str] | None) -> list[str]:
    lines = ["", "", f"class {name}({'Struct' if constants is None else 'Message'}):"]
    lines += [f"    {constant}" for constant in constants or []]
    slots = [f'"{field.name}"' for field in fields]
    lines += wrapped("    __slots__ = (", slots, ",)" if len(slots) == 1 else ")", " " * 8)
    if not fields:
        return [*lines, '    SCHEMA = ""']
    lines += ['    SCHEMA = """', *[f"        {field.schema_line()}" for field in fields], '    """', ""]
    arguments = [f"{field.name}: {field.python_type()} = {field.python_default()}" for field in fields]
    lines += wrapped("    def __init__(self, *, ", arguments, ") -> None:", " " * 8)
    return lines + [f"        {field.assignment()}" for field in fields]


def message_module(definition: Definition, structs: dict[str, list[Field]]) -> str:
    low, high = version_range(definition["validVersions"])
    flexible_from, _ = version_range(definition["flexibleVersions"])
    stable = high - 1 if definition.get("latestVersionUnstable") else high
    constants = [
        f"API_KEY = {definition.get('apiKey', -1)}",
        f"MIN_VERSION = {low}",
        f"MAX_VERSION = {high}",
        f"MAX_STABLE_VERSION = {stable}",
        f"FLEXIBLE_FROM = {flexible_from}",
        "READERS = {}",
        "WRITERS = {}",
    ]
    body: list[str] = []
    for name, fields in structs.items():
        body += class_lines(name, fields, constants if name == definition["name"] else None)
    text = "\n".join(body)
    used = [word for word in ("Records", "UNSET", "ZERO_UUID", "Struct") if re.search(rf"\b{word}\b", text)]
    imports = ", ".join(sorted([*used, "Message"], key=str.lower))
    head = [
        f'"""{definition["name"]}, written by tools/generate_protocol.py: do not edit."""',
        "",
        "from __future__ import annotations",
        "",
        f"from ottla.protocol.message import {imports}",
    ]
    return "\n".join([*head, *body]) + "\n"


def table_module(loaded: list[tuple[str, Definition]]) -> str:
    """What can be looked up by number: RPC keys and record types, without importing any message."""
    requests = {d["apiKey"]: d for _, d in loaded if d["type"] == "request"}
    lines = [
        '"""Lookup tables of the messages, written by tools/generate_protocol.py: do not edit."""',
        "",
        "from __future__ import annotations",
        "",
        "# key, name, lowest version, highest stable, highest, first flexible version, listeners",
        "APIS: tuple[tuple[int, str, int, int, int, int, str], ...] = (",
    ]
    for key, definition in sorted(requests.items()):
        low, high = version_range(definition["validVersions"])
        stable = high - 1 if definition.get("latestVersionUnstable") else high
        flexible_from, _ = version_range(definition["flexibleVersions"])
        name = definition["name"].removesuffix("Request")
        listeners = ",".join(definition.get("listeners", []))
        lines.append(f'    ({key}, "{name}", {low}, {stable}, {high}, {flexible_from}, "{listeners}"),')
    lines.append(")")
    metadata = [d for folder, d in loaded if folder == "metadata"]
    lines += record_table("METADATA_RECORDS", metadata)
    remote = [d for folder, d in loaded if folder == "storage" and "apiKey" in d]
    lines += record_table("REMOTE_LOG_RECORDS", remote)
    for folder, prefix in COORDINATORS.items():
        for kind in ("key", "value"):
            chosen = [d for where, d in loaded if where == folder and d["type"] == f"coordinator-{kind}"]
            lines += record_table(f"{prefix}_{kind.upper()}S", chosen)
    return "\n".join(lines) + "\n"


def record_table(name: str, definitions: list[Definition]) -> list[str]:
    rows = sorted((d["apiKey"], d["name"]) for d in definitions)
    return [f"{name}: dict[int, str] = {{", *[f'    {key}: "{row}",' for key, row in rows], "}"]


def api_keys_module(table: str) -> str:
    """The ApiKey enum, from the text of table.py."""
    rows = re.findall(r'^    \((\d+), "(\w+)", \d', table, re.MULTILINE)
    return "\n".join(
        [
            '"""Keys of the APIs, written by tools/generate_protocol.py: do not edit."""',
            "",
            "from __future__ import annotations",
            "",
            "from enum import IntEnum",
            "",
            "",
            "class ApiKey(IntEnum):",
            *[f"    {snake(name).upper()} = {key}" for key, name in rows],
            "",
        ]
    )


def first_version(files: dict[str, str], path: str) -> int:
    """The first version of a field (or, with null:, in which it may be null), from the modules' schemas."""
    nullable, path = path.startswith("null:"), path.removeprefix("null:")
    message, *struct, field = path.split(".")
    text = files[snake(message) + ".py"]
    body = re.search(
        rf"^class {struct[0] if struct else message}\(.*?^    \"\"\"$", text, re.MULTILINE | re.DOTALL
    )
    words = body and re.search(rf"^        {field} (.*)$", body.group(), re.MULTILINE)
    if not words:
        raise ValueError(f"protocol_versions.json: there is no field {path}")
    _, versions, *options = words.group(1).split()
    given = dict(option.split(":", 1) for option in options if ":" in option)
    if nullable:
        versions = given["null"]
    elif "tag" in given:
        versions = given["tag"].split(":")[1]
    return max(version_range(versions)[0], int(re.findall(r"MIN_VERSION = (\d+)", text)[0]))


def versions_module(files: dict[str, str], named: Definition) -> str:
    """Constants for the versions in protocol_versions.json."""
    lines = [
        '"""First versions of fields and behaviours, written by tools/generate_protocol.py: do not edit."""',
        "",
        "from __future__ import annotations",
        "",
    ]
    for name, source in named.items():
        if name != "comment":
            is_field = isinstance(source, str)
            version, reason = (first_version(files, source), source) if is_field else source
            if reason.startswith("null:"):
                reason = f"{reason.removeprefix('null:')} may be null"
            line = f"{name}_SINCE = {version}"
            lines += [f"{line}  # {reason}"] if len(line + reason) + 4 <= LINE_MAX else [f"# {reason}", line]
    return "\n".join([*lines, ""])


def generate_constants(files: dict[str, str]) -> dict[str, str]:
    """File name -> text of the constants, from the texts of the messages directory."""
    return {
        "api_keys.py": api_keys_module(files["table.py"]),
        "versions.py": versions_module(files, load(VERSIONS)),
    }


def generate(definitions: Path) -> dict[str, str]:
    """File name -> text of everything in the messages directory."""
    files = {
        "__init__.py": '"""One module per message, written by tools/generate_protocol.py: do not edit."""\n'
    }
    loaded = []
    additions = load(ADDITIONS)
    for path in sorted(definitions.glob("*/*.json")):
        definition = load(path)
        if definition["validVersions"] == "none":
            continue
        add_fields(definition, additions)
        loaded.append((path.parent.name, definition))
        module = snake(definition["name"]) + ".py"
        if module in files:
            raise ValueError(f"two messages are called {definition['name']}")
        files[module] = message_module(definition, struct_fields(definition))
    files["table.py"] = table_module(loaded)
    return files


def write_files(output: Path, files: dict[str, str]) -> None:
    output.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (output / name).write_text(text, encoding="utf-8")
    print(f"{len(files)} files in {output}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--definitions", type=Path, help="directory of directories of *.json")
    parser.add_argument("--constants", action="store_true", help="write only the constants")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    if options.constants:
        committed = {path.name: path.read_text(encoding="utf-8") for path in options.output.glob("*.py")}
        write_files(options.output.parent, generate_constants(committed))
        return 0
    if options.definitions is None:
        parser.error("--definitions or --constants is required")
    files = generate(options.definitions)
    if len(files) < 3:
        print(f"no message definitions under {options.definitions}", file=sys.stderr)
        return 1
    for stale in {path.name for path in options.output.glob("*.py")} - set(files):
        (options.output / stale).unlink()
    write_files(options.output, files)
    if options.output == OUTPUT:
        write_files(options.output.parent, generate_constants(files))
    return 0


if __name__ == "__main__":
    sys.exit(main())
