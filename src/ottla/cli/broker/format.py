"""`ottla format`: give the directories of a new member of a dynamic quorum their identity."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.options import Json, pairs
from ottla.cli.output import fail, print_json

if TYPE_CHECKING:
    from ottla.config.load import BrokerConfig

HELP = """Prepare the directories of a node whose quorum can change its controllers.

A cluster with `controller.quorum.voters` needs no formatting: its directories are prepared by the first
start. Without it the first controllers are named once, here: `--standalone` for one, or the same
`--initial-controllers` on each of several. Brokers, and controllers that are added later, take
`--no-initial-controllers`.
"""


def format_node(
    config: Annotated[
        str | None, typer.Option("--config", metavar="FILE", help="The properties file of the node.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set one property; wins over --config."),
    ] = None,
    cluster_id: Annotated[
        str | None,
        typer.Option(
            "--cluster-id", metavar="ID", help="The same for all nodes; made up for --standalone if left out."
        ),
    ] = None,
    standalone: Annotated[
        bool, typer.Option("--standalone", help="This node is the first and only controller.")
    ] = False,
    initial_controllers: Annotated[
        str | None,
        typer.Option(
            "--initial-controllers",
            metavar="LIST",
            help="The first controllers: ID@HOST:PORT:DIRECTORY-ID,...",
        ),
    ] = None,
    no_initial_controllers: Annotated[
        bool,
        typer.Option("--no-initial-controllers", help="The quorum exists, or others begin it."),
    ] = False,
    ignore_formatted: Annotated[
        bool, typer.Option("--ignore-formatted", help="Leave directories that are formatted as they are.")
    ] = False,
    json_output: Json = False,
) -> None:
    if (standalone, initial_controllers is not None, no_initial_controllers).count(True) != 1:
        raise typer.BadParameter(
            "give one of --standalone, --initial-controllers LIST and --no-initial-controllers"
        )
    from ottla.config.load import load_broker_config
    from ottla.quorum.format import AlreadyFormatted
    from ottla.storage.errors import StorageError

    overrides = pairs(settings or (), "--set", "node.id=1")
    try:
        node = load_broker_config(config, overrides)
        cluster = _cluster_id(node, cluster_id, standalone)
        _check(node, no_initial_controllers)
        _format(node, cluster, standalone, initial_controllers)
    except AlreadyFormatted as error:
        if not ignore_formatted:
            fail(f"{error}; --ignore-formatted leaves it as it is", as_json=json_output)
        _tell(json_output, {"formatted": False}, f"left as it was: {error}")
        return
    except (ValueError, StorageError) as error:
        fail(str(error), as_json=json_output)
    _tell(
        json_output,
        {"formatted": True, "cluster_id": cluster, "node_id": node.node_id, "log_dirs": list(node.log_dirs)},
        f"formatted: cluster.id={cluster} node.id={node.node_id} log.dirs={','.join(node.log_dirs)}",
    )


def _cluster_id(node: BrokerConfig, asked: str | None, may_be_new: bool) -> str:
    from ottla.protocol.uuids import uuid_to_text

    configured: str | None = node.get("cluster.id")
    if asked is not None and configured is not None and asked != configured:
        raise typer.BadParameter(f"--cluster-id {asked} is not cluster.id={configured}")
    if asked is None and configured is None and not may_be_new:
        raise typer.BadParameter("--cluster-id is missing: all nodes of a cluster have the same")
    return asked or configured or uuid_to_text(_random_uuid())


def _check(node: BrokerConfig, no_initial_controllers: bool) -> None:
    if node.voters:
        raise typer.BadParameter("controller.quorum.voters is set: that quorum is fixed, not formatted")
    if no_initial_controllers:
        return
    if not node.is_controller:
        raise typer.BadParameter("process.roles has no controller: give --no-initial-controllers")
    if not node.controller_endpoints or not all(each.port for each in node.controller_endpoints):
        raise typer.BadParameter("a controller needs a listener in controller.listener.names, with its port")


def _format(node: BrokerConfig, cluster_id: str, standalone: bool, initial_controllers: str | None) -> None:
    from ottla.quorum.format import Formatter, parse_initial_controllers
    from ottla.quorum.raft.voters import Endpoint
    from ottla.storage.files import OsFiles

    formatter = Formatter(
        OsFiles(),
        node.log_dirs,
        node.metadata_log_dir,
        node_id=node.node_id,
        cluster_id=cluster_id,
        new_uuid=_random_uuid,
    )
    now_ms = time.time_ns() // 1_000_000
    listeners = [
        Endpoint(each.name, each.host or "localhost", each.port) for each in node.controller_endpoints
    ]
    if standalone:
        formatter.standalone(listeners, now_ms)
    elif initial_controllers is not None:
        formatter.with_voters(parse_initial_controllers(initial_controllers, listeners[0].name), now_ms)
    else:
        formatter.without_voters()


def _tell(as_json: bool, data: dict[str, object], text: str) -> None:
    if as_json:
        print_json(data)
    else:
        print(text)


def _random_uuid() -> bytes:
    """Its text does not begin with a dash: it would look like an option."""
    while True:
        value = os.urandom(16)
        if value[0] >> 2 != 62:
            return value
