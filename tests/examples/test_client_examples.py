"""Runs every script in examples/client against a real broker and checks its output."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.client import read_arrow
from ottla.testing import Cluster

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "client"
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A broker whose topic `payments` was filled by the produce example."""
    with Cluster() as cluster:
        output = run_example("produce.py", cluster.bootstrap_servers)
        assert output[-1] == "produced 100 records"
        assert sum(int(line.split()[1]) for line in output[:-1]) == 100
        yield cluster.bootstrap_servers


def run_example(name: str, bootstrap: str, *arguments: str) -> list[str]:
    """Run a script as a user would and return the lines that it prints."""
    command = [sys.executable, str(EXAMPLES / name), bootstrap, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_every_example_is_run_here():
    tested = {"produce.py", "consume_group.py", "transactions.py", "arrow_polars.py", "arrow_duckdb.py"}
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested


def test_consume_group(bootstrap):
    first = run_example("consume_group.py", bootstrap, "--idle", "1")
    assert first == [
        "alice: 37.00",
        "bob: 37.25",
        "carol: 37.50",
        "dave: 37.75",
        "consumed 100 records in group billing",
    ]
    again = run_example("consume_group.py", bootstrap, "--idle", "1")
    assert again == ["consumed 0 records in group billing"]


def test_transactions(bootstrap):
    output = run_example("transactions.py", bootstrap, "--idle", "1")
    assert output == ["wrote 100 invoices from payments to invoices"]
    again = run_example("transactions.py", bootstrap, "--idle", "1")
    assert again == ["wrote 0 invoices from payments to invoices"]
    invoices = read_arrow("invoices", bootstrap_servers=bootstrap).read_all()["value"].to_pylist()
    assert len(invoices) == 100
    assert b'{"invoice": "INV-000099", "total": 1.99}' in invoices


def test_arrow_polars(bootstrap):
    pytest.importorskip("polars")
    output = run_example("arrow_polars.py", bootstrap)
    assert output == [
        "alice: 25 payments, 37.00",
        "bob: 25 payments, 37.25",
        "carol: 25 payments, 37.50",
        "dave: 25 payments, 37.75",
        "wrote 4 records to totals",
    ]
    written = read_arrow("totals", bootstrap_servers=bootstrap).read_all()
    rows = dict(zip(written["key"].to_pylist(), written["value"].to_pylist(), strict=True))
    assert rows[b"alice"] == b'{"account":"alice","payments":25,"cents":3700}'


def test_arrow_duckdb(bootstrap):
    pytest.importorskip("duckdb")
    assert run_example("arrow_duckdb.py", bootstrap) == [
        "alice: 25 payments, largest 1.96",
        "bob: 25 payments, largest 1.97",
        "carol: 25 payments, largest 1.98",
        "dave: 25 payments, largest 1.99",
        "4 accounts",
    ]
