"""`ottla format`: what it takes, what it says, and what it leaves behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.cli.app import run
from ottla.protocol.uuids import uuid_to_text
from ottla.storage.checkpoints import read_meta_properties
from ottla.storage.files import OsFiles

CLUSTER = uuid_to_text(b"cluster of tests")
CONTROLLER = [
    "--set",
    "listeners=CONTROLLER://127.0.0.1:9093",
    "--set",
    "controller.listener.names=CONTROLLER",
]
ALONE = [*CONTROLLER, "--set", "process.roles=controller", "--set", "node.id=1"]


def test_a_standalone_controller(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["format", "--standalone", "--json", "--set", f"log.dirs={tmp_path}", *ALONE]
    assert run(arguments) == 0
    told = json.loads(capsys.readouterr().out)
    meta = read_meta_properties(OsFiles(), str(tmp_path))
    assert meta is not None
    assert (told["formatted"], told["cluster_id"], told["node_id"]) == (True, meta.cluster_id, 1)
    assert run(arguments) == 1
    assert "already formatted" in capsys.readouterr().err
    assert run([*arguments, "--ignore-formatted"]) == 0
    assert read_meta_properties(OsFiles(), str(tmp_path)) == meta


def test_initial_and_later_controllers(tmp_path: Path) -> None:
    directory = uuid_to_text(b"first directory.")
    listed = ["--initial-controllers", f"1@127.0.0.1:9093:{directory}", "--cluster-id", CLUSTER]
    assert run(["format", *listed, "--set", f"log.dirs={tmp_path}/1", *ALONE]) == 0
    later = ["--no-initial-controllers", "--cluster-id", CLUSTER, "--set", f"log.dirs={tmp_path}/2"]
    servers = ["--set", "controller.quorum.bootstrap.servers=127.0.0.1:9093", "--set", "node.id=2"]
    assert run(["format", *later, *servers, *CONTROLLER, "--set", "process.roles=controller"]) == 0
    first, second = (read_meta_properties(OsFiles(), f"{tmp_path}/{n}") for n in (1, 2))
    assert first is not None
    assert second is not None
    assert (first.directory_id, first.cluster_id) == (b"first directory.", CLUSTER)
    assert (second.node_id, second.cluster_id) == (2, CLUSTER)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--standalone", "--no-initial-controllers"],
        ["--no-initial-controllers"],
        ["--standalone", "--cluster-id", CLUSTER, "--set", "cluster.id=AAAAAAAAAAAAAAAAAAAAAQ"],
        ["--standalone", "--set", "controller.quorum.voters=1@127.0.0.1:9093"],
    ],
)
def test_wrong_arguments_write_nothing(tmp_path: Path, arguments: list[str]) -> None:
    assert run(["format", *ALONE, "--set", f"log.dirs={tmp_path}", *arguments]) == 2
    assert list(tmp_path.iterdir()) == []
