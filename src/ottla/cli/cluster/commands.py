"""`ottla cluster`: arguments and checks before the start; delegates to `ottla cluster status`.

Keep the imports light: like `serve`, it uses argparse.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys
from collections.abc import Mapping, Sequence

from ottla.cli.broker.arguments import UsageError, add_broker_options, parse_settings
from ottla.cli.cluster.directory import ClusterDir
from ottla.cli.cluster.events import Events
from ottla.cli.cluster.supervisor import EXIT_FAILED, EXIT_USAGE, Supervisor, serve_command
from ottla.launch.local_cluster import (
    BROKERS_MAX,
    CONTROLLER_PORT_GAP,
    HOST,
    PLANNED,
    Member,
    member_properties,
    planned_members,
)

DEFAULT_BROKERS = 3
DEFAULT_DATA = "ottla-cluster-data"
DEFAULT_BASE_PORT = 9092
# The exactly-once sinks of Spark need it: without it a transaction may time out before its batch is decided.
DEFAULTS = {"transaction.two.phase.commit.enable": "true"}

DESCRIPTION = """\
Run a replicated cluster on this machine: N `ottla serve` processes that are started together, restarted when
one dies, and stopped together. `ottla cluster status` shows the state of a cluster.
"""

EPILOG = f"""\
brokers:
  Broker i (0 to N-1) serves clients on port P+i; its controller listener is on P+{CONTROLLER_PORT_GAP}+i.
  The first 1, 3 or 5 brokers (5 from N=5 on) are voters of the metadata quorum: an even number would not
  tolerate more failures. The others have process.roles=broker.
replication:
  By default topics, including internal ones, have 3 replicas and min.insync.replicas=2 (with 2 brokers: 2 and
  1). With N >= 3 the cluster tolerates the loss of one broker: writes with acks=all continue, and no data is
  lost. Change the defaults with e.g. --set default.replication.factor=1.
transactions:
  Two-phase commit is enabled (transaction.two.phase.commit.enable=true): exactly-once sinks of Spark need
  it.
files:
  DIR/cluster.json, DIR/broker-i/data, DIR/broker-i/broker.log, DIR/broker-i/server.properties.
  The same DIR restarts the same cluster, on any base port. The number of brokers may increase as long as the
  voters do not change.

examples:
  ottla cluster
      3 brokers on ports 9092, 9093 and 9094, data in ./{DEFAULT_DATA}
  ottla cluster --brokers 5 --data /var/lib/ottla --base-port 19092
  ottla cluster --brokers 3 --no-restart --set broker.session.timeout.ms=3000
      kill brokers and watch the failover
  ottla cluster status
      brokers, controllers, lag and unhealthy partitions of a running cluster

SIGTERM or Ctrl-C stops all brokers cleanly, a second one kills them. Exit codes: 0 stopped on request, 1
failure, 2 invalid arguments.
"""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ottla cluster",
        usage="ottla cluster [options]\n       ottla cluster status [options]",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--brokers",
        metavar="N",
        type=int,
        default=DEFAULT_BROKERS,
        help=f"number of brokers (default: {DEFAULT_BROKERS})",
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        default=DEFAULT_DATA,
        help=f"data directory of the cluster, created if missing (default: {DEFAULT_DATA})",
    )
    parser.add_argument(
        "--base-port",
        metavar="P",
        type=int,
        default=DEFAULT_BASE_PORT,
        help=f"port of broker 0 (default: {DEFAULT_BASE_PORT})",
    )
    parser.add_argument("--no-restart", action="store_true", help="do not restart brokers that die")
    add_broker_options(
        parser,
        settings_help="set a Kafka property of every broker; may be repeated",
        log_level_help="log level of the brokers",
    )
    parser.add_argument("--json", action="store_true", help="print events as JSON, one object per line")
    return parser


def checked_settings(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the defaults and the settings of --set. Raises UsageError for invalid arguments."""
    if not 1 <= arguments.brokers <= BROKERS_MAX:
        raise UsageError(f"--brokers {arguments.brokers}: expected 1 to {BROKERS_MAX}")
    port_max = 65535 - CONTROLLER_PORT_GAP - arguments.brokers + 1
    if not 1 <= arguments.base_port <= port_max:
        raise UsageError(
            f"--base-port {arguments.base_port}: expected 1 to {port_max}, because the controller "
            f"ports are {CONTROLLER_PORT_GAP} higher"
        )
    settings = {**DEFAULTS, **parse_settings(arguments.settings)}
    for key in settings:
        if key in PLANNED:
            raise UsageError(
                f"--set {key}=...: differs between brokers: it is derived from --brokers, --base-port and "
                "--data; for other layouts run each broker with `ottla serve --config`"
            )
    return settings


def check_ports(members: Sequence[Member]) -> None:
    """Check that the ports are free. Raises OSError."""
    for member in members:
        for port in (member.client_port, member.controller_port):
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((HOST, port))
                except OSError as error:
                    raise OSError(
                        f"port {port} for broker {member.node_id}: {(error.strerror or str(error)).lower()}; "
                        "stop the process that uses it, or choose another --base-port"
                    ) from error


def write_properties(path: str, properties: Mapping[str, str]) -> None:
    """Write a server.properties for running this broker with `ottla serve --config`."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    lines = ["# Written by `ottla cluster` at each start."]
    for key, value in sorted(properties.items()):
        escaped = value.replace("\\", "\\\\").replace("\n", "\\n")
        lines.append(f"{key}={escaped}")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def fail(code: int, message: object) -> int:
    print(f"ottla cluster: {message}", file=sys.stderr, flush=True)
    return code


def main(argv: Sequence[str]) -> int:
    if argv and argv[0] == "status":
        from ottla.cli.cluster.status import run

        return run(argv[1:])
    parser = build_parser()
    if argv and not argv[0].startswith("-"):
        parser.error(f"unknown command {argv[0]!r}: use `ottla cluster [options]` or `ottla cluster status`")
    arguments = parser.parse_args(argv)
    try:
        settings = checked_settings(arguments)
    except UsageError as error:
        return fail(EXIT_USAGE, error)
    members = planned_members(arguments.brokers, arguments.base_port)
    try:
        check_ports(members)
        directory = ClusterDir(arguments.data, arguments.brokers)
    except ValueError as error:
        return fail(EXIT_USAGE, error)
    except OSError as error:
        return fail(EXIT_FAILED, error)
    try:
        return run_members(members, directory, settings, arguments)
    finally:
        directory.close()


def run_members(
    members: Sequence[Member],
    directory: ClusterDir,
    settings: Mapping[str, str],
    arguments: argparse.Namespace,
) -> int:
    from ottla.config.load import load_broker_config

    paths = {}
    for member in members:
        properties = member_properties(
            member,
            members,
            cluster_id=directory.cluster_id,
            data_dir=os.path.abspath(directory.data_dir(member.node_id)),
            settings=settings,
        )
        path = os.path.join(directory.path, f"broker-{member.node_id}", "server.properties")
        try:
            config = load_broker_config(None, properties)
            write_properties(path, properties)
        except ValueError as error:
            return fail(EXIT_USAGE, error)
        except OSError as error:
            return fail(EXIT_FAILED, error)
        if member.node_id == 0:
            for warning in config.warnings:
                print(f"ottla cluster: warning: {warning}", file=sys.stderr, flush=True)
        paths[member.node_id] = path

    async def supervise() -> int:
        supervisor = Supervisor(
            members,
            directory,
            Events(as_json=arguments.json),
            lambda member: serve_command(paths[member.node_id], arguments.log_level),
            restart=not arguments.no_restart,
        )
        return await supervisor.run()

    return asyncio.run(supervise())
