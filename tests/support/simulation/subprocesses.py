"""Run a program in another Python process, with other string hashes and object addresses."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support.processes import ROOT


def output_in_another_process(program: str, *arguments: object) -> str:
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        timeout=110,
        check=True,
    ).stdout.strip()
