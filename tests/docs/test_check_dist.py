"""The check of the built wheel: it finds what is missing and what does not belong."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
KERNEL = "ottla/records/_kernel.cpython-313-x86_64-linux-gnu.so"


@pytest.fixture(scope="module")
def check_dist() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_dist", ROOT / "tools/check_dist.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_good_wheel_has_no_problems(check_dist: ModuleType) -> None:
    names = [*check_dist.REQUIRED, KERNEL, "ottla/__init__.py", "ottla-0.2.0.dist-info/RECORD"]
    assert check_dist.wheel_problems(names) == []


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ("simulator/world.py", "does not belong"),
        ("ottla/testing/simulation/world.py", "does not belong"),
        ("fuzzing/fuzzer.py", "does not belong"),
        ("ottla/records/_kernel.pyx", "does not belong"),
        ("bench/wire.py", "unexpected top-level package bench"),
    ],
)
def test_developer_tools_are_found(check_dist: ModuleType, extra: str, said: str) -> None:
    problems = check_dist.wheel_problems([*check_dist.REQUIRED, KERNEL, extra])
    assert any(said in problem for problem in problems)


def test_missing_files_are_found(check_dist: ModuleType) -> None:
    problems = check_dist.wheel_problems(["ottla/__init__.py"])
    assert "ottla/py.typed is missing" in problems
    assert any("kernel is missing" in problem for problem in problems)
