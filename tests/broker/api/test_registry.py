"""The declarations of the APIs, and what is derived from them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ottla.broker.api.declaration import CONTROLLER, THIS_NODE
from ottla.broker.api.registry import declarations, served_modules, served_versions
from ottla.protocol.api_keys import ApiKey

ROOT = Path(__file__).resolve().parents[3]


def test_every_module_declares_the_api_that_it_is_named_after() -> None:
    assert [api.key for api in declarations()] == list(served_modules())


@pytest.mark.parametrize("listener", ["broker", "controller"])
def test_listeners_serve_what_is_declared_for_them(listener: str) -> None:
    declared = [api.key for api in declarations() if listener in api.listeners]
    assert list(served_versions(listener)) == declared


def test_controller_apis_declare_a_decision_and_a_refusal() -> None:
    for api in declarations():
        assert (api.decide is not None) == (api.decided_by == CONTROLLER), api
        assert api.refuse is not None or api.decided_by == THIS_NODE, api


def test_only_two_phase_commit_serves_an_unstable_version() -> None:
    key = ApiKey.INIT_PRODUCER_ID
    assert served_versions("broker")[key].max_version == 5
    assert served_versions("broker", two_phase_commit=True)[key].max_version == 6


def test_start_up_imports_no_handler() -> None:
    """Some sixty handlers and their messages would take longer to import than the rest of the broker."""
    program = (
        "import sys, ottla.broker.node\n"
        "from ottla.broker.api.registry import served_modules, served_versions\n"
        "served_versions('broker')\n"
        "print([name for name in served_modules().values() if name in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert output.stdout == "[]\n"


def support_table() -> ModuleType:
    spec = importlib.util.spec_from_file_location("api_table", ROOT / "tools" / "api_table.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_support_table() -> None:
    lines = support_table().table().splitlines()
    assert "| 0 | Produce | 3-13 | broker | this node | `records/produce.py` |" in lines
    create = (
        "| 19 | CreateTopics | 2-7 | broker, controller | active controller | `topics/create_topics.py` |"
    )
    assert create in lines
    assert len(lines) == len(served_modules()) + 4
