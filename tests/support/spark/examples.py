"""Helpers to load the examples and read their topics."""

from __future__ import annotations

import importlib.util
from types import ModuleType
from typing import Any

from ottla.client import read_arrow
from tests.support.processes import ROOT

EXAMPLES = ROOT / "examples"
# For short-lived JVMs: the second compiler does not pay off.
FAST_JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def load_example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name.replace("/", "_"), EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows_of(topic: str, servers: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_arrow(topic, bootstrap_servers=servers).read_all().to_pylist()
    return found
