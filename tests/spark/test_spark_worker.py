"""The garbage collector in Python workers, tested in a child process without Spark."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip(
    "pyspark", reason="the tests of the Spark data source need pyspark: pip install ottla[spark]"
)

SCRIPT = """
import gc
from pyspark import TaskContext
from pyspark_ottla.task_context import freeze_imports

freeze_imports()
assert gc.get_freeze_count() == 0, "this is no task"
TaskContext._getOrCreate()
freeze_imports()
frozen = gc.get_freeze_count()
assert frozen > 10_000, frozen
kept = [[number] for number in range(1000)]
freeze_imports()
assert gc.get_freeze_count() <= frozen, "what comes later is collected as ever"
"""


def test_imports_are_frozen_once_in_a_task() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
