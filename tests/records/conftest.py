"""Run tests with the compiled and with the pure kernel."""

from __future__ import annotations

import warnings
from types import ModuleType

import pytest

from ottla.records import _pure, kernel

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of the library's own imports
    import kafka.record.default_records  # noqa: F401

FUNCTIONS = ("decode", "encode", "measure", "pack", "split", "walk")


@pytest.fixture(params=["compiled", "pure"])
def each_kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The kernel module, which also replaces the selected one."""
    if request.param == "compiled":
        chosen = pytest.importorskip("ottla.records._kernel", exc_type=ImportError)
    else:
        chosen = _pure
    for name in FUNCTIONS:
        monkeypatch.setattr(kernel, name, getattr(chosen, name))
    monkeypatch.setattr(kernel, "COMPILED", request.param == "compiled")
    return chosen
