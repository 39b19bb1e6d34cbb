"""The compiled generator of small requests, built on first use if there is a C compiler."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile

from bench.broker import BenchError

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "blast.c")
SECONDS_MAX = 300


@functools.cache
def _binary() -> str:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise BenchError("small requests need a C compiler (cc) for their generator")
    path = os.path.join(tempfile.mkdtemp(prefix="ottla-bench-blast-"), "blast")
    subprocess.run([compiler, "-O2", "-o", path, SOURCE], check=True)
    return path


def blast(
    port: int, frame: bytes, answer_bytes: int, *, connections: int, in_flight: int, requests: int
) -> float:
    """Send the frame `requests` times with `in_flight` per connection; return the seconds it took."""
    numbers = [port, connections, in_flight, requests, answer_bytes]
    done = subprocess.run(
        [_binary(), *map(str, numbers)], input=frame, check=False, capture_output=True, timeout=SECONDS_MAX
    )
    if done.returncode != 0:
        raise BenchError(f"blast: {done.stderr.decode()}")
    return int(done.stdout) / 1e9
