"""Run commands in this process, against the broker of the test file."""

from __future__ import annotations

import pytest

from ottla.cli.main import main


@pytest.fixture
def cli_broker(ottla_cluster):
    """The default broker of the commands; test files may override it."""
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
