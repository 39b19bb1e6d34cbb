"""The command in this process, against the broker that a test file names."""

from __future__ import annotations

import pytest

from ottla.cli.main import main


@pytest.fixture
def cli_broker(ottla_cluster):
    """The broker that commands talk to; a test file may have another."""
    return ottla_cluster


@pytest.fixture
def ottla(cli_broker, monkeypatch, capsys):
    """Run a command in this process: (exit code, stdout, stderr)."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP", cli_broker.bootstrap_servers)
    monkeypatch.setenv("COLUMNS", "250")

    def run(*arguments):
        code = main(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
