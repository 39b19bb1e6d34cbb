"""`ottla serve`: what the arguments become, before any broker runs."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ottla import __version__
from ottla.cli.broker.arguments import UsageError, parse_settings
from ottla.cli.broker.serve import build_parser, overrides_of, split_address
from ottla.cli.main import main

ROOT = Path(__file__).parents[2]


def overrides(*arguments):
    return overrides_of(build_parser().parse_args(arguments))


def test_defaults_without_arguments():
    assert overrides() == {"log.dirs": "ottla-data", "listeners": "PLAINTEXT://127.0.0.1:9092"}


def test_options_become_properties():
    assert overrides("--data", "/d", "--listen", "[::1]:7", "--set", "a.b = c=d ", "--set", "e=") == {
        "a.b": "c=d",
        "e": "",
        "log.dirs": "/d",
        "listeners": "PLAINTEXT://[::1]:7",
    }


def test_defaults_do_not_override_the_file(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("# comment\nlisteners = PLAINTEXT://:9999\nlog.dirs:/data\nnum.partitions=4\n")
    assert overrides("--config", str(file)) == {}
    assert overrides("--config", str(file), "--data", "/x") == {"log.dirs": "/x"}
    file.write_text("log.dir=/data\n")
    assert overrides("--config", str(file)) == {"listeners": "PLAINTEXT://127.0.0.1:9092"}


def test_set_may_replace_options():
    assert overrides("--set", "log.dirs=/a", "--set", "listeners=PLAINTEXT://:1") == {
        "log.dirs": "/a",
        "listeners": "PLAINTEXT://:1",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:9092", ("localhost", 9092)),
        (":0", ("", 0)),
        ("[::1]:1", ("::1", 1)),
        ("0.0.0.0:65535", ("0.0.0.0", 65535)),
    ],
)
def test_addresses(text, expected):
    assert split_address(text) == expected


@pytest.mark.parametrize(
    "text", ["", "localhost", "localhost:", "localhost:x", "h:65536", "h:-1", "::1:9092", "h:٣"]
)
def test_invalid_addresses_are_reported(text):
    with pytest.raises(UsageError, match="--listen"):
        split_address(text)


@pytest.mark.parametrize("text", ["novalue", "=x", " =x"])
def test_invalid_settings_are_reported(text):
    with pytest.raises(UsageError, match="expected KEY=VALUE"):
        parse_settings([text])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--set", "num.partitions=many"], "num.partitions=many"),
        (["--set", "oops"], "'oops'"),
        (["--listen", "nowhere"], "'nowhere'"),
        (["--config", "missing.properties"], "missing.properties"),
    ],
)
def test_invalid_configuration_is_one_line_and_exit_code_2(capsys, arguments, said):
    assert main(["serve", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    assert captured.err.startswith("ottla serve: ")
    assert captured.err.count("\n") == 1


def test_help_shows_examples(capsys):
    with pytest.raises(SystemExit) as end:
        main(["serve", "--help"])
    assert end.value.code == 0
    assert "ottla serve --config server.properties" in capsys.readouterr().out


def test_the_version_is_the_packages():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["version"] == __version__


def test_serve_imports_no_slow_modules():
    """typer and rich would take more than half of the start-up time; the others are not needed by `serve`."""
    code = (
        "import sys; from ottla.cli.main import main\n"
        "assert main(['serve', '--set', 'oops']) == 2\n"
        "import ottla.broker.node\n"
        "slow = {'typer', 'rich', 'click', 'pyarrow', 'importlib.metadata', 'pytest'} & set(sys.modules)\n"
        "assert not slow, slow"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stderr=subprocess.PIPE, cwd=ROOT)
