"""`ottla serve`: parse the arguments and run a broker until it gets a signal.

Keep the imports light: they delay the start of the broker.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.cli.broker.arguments import UsageError, add_broker_options, parse_settings

if TYPE_CHECKING:
    from ottla.broker.node import Node

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2

DEFAULT_DATA = "ottla-data"
DEFAULT_LISTEN = "127.0.0.1:9092"
ORPHAN_STOP_S = 30.0

EPILOG = """\
examples:
  ottla serve
      one broker on 127.0.0.1:9092, data in ./ottla-data
  ottla serve --data /var/lib/ottla --listen 0.0.0.0:9092 \\
              --set advertised.listeners=PLAINTEXT://kafka.example.org:9092
      accepts connections from other machines
  ottla serve --config server.properties --set num.partitions=6
      with a Kafka server.properties (KRaft); --set takes precedence over the file

A node of a cluster needs node.id, process.roles, cluster.id, controller.quorum.voters and, if it is a
controller, a listener in controller.listener.names. `ottla cluster` runs several nodes on one machine and
writes such files.

Kafka clients connect to the address in the ready line. SIGTERM or Ctrl-C stops the broker cleanly.
"""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ottla serve",
        description="Run a Kafka-compatible broker.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        help=f"data directory, created if missing (default: log.dirs of --config, else {DEFAULT_DATA})",
    )
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help=f"address to listen on, port 0 for any (default: listeners of --config, else {DEFAULT_LISTEN})",
    )
    parser.add_argument("--config", metavar="FILE", help="a Kafka properties file")
    add_broker_options(
        parser,
        settings_help="set a Kafka property; may be repeated, takes precedence over --config",
        log_level_help="log level",
    )
    # For supervisors and tests: the broker stops when its parent dies.
    parser.add_argument("--stop-on-stdin-eof", action="store_true", help=argparse.SUPPRESS)
    # For tests: distinguishes the nodes of a cluster by the source address of their connections.
    parser.add_argument("--connect-from", metavar="ADDRESS", help=argparse.SUPPRESS)
    return parser


def split_address(address: str) -> tuple[str, int]:
    """`HOST:PORT`, `[::1]:PORT` or `:PORT` (all interfaces)."""
    host, separator, port_text = address.rpartition(":")
    port = int(port_text) if port_text.isascii() and port_text.isdigit() else -1
    if not separator or not 0 <= port <= 65535:
        raise UsageError(
            f"--listen {address!r}: expected HOST:PORT with a port from 0 to 65535, e.g. {DEFAULT_LISTEN}"
        )
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise UsageError(f"--listen {address!r}: write an IPv6 address in brackets, e.g. [::1]:9092")
    return host, port


def property_names_in(path: str) -> set[str]:
    """Return the keys in a properties file, to decide whether the defaults of the command apply."""
    from ottla.config.properties import parse_properties

    try:
        with open(path, encoding="utf-8") as file:
            return set(parse_properties(file.read()))
    except OSError as error:
        raise UsageError(f"--config {path}: cannot read the file: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"--config {path}: {error}") from error


def overrides_of(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the command line as properties, with defaults for what neither it nor the file sets."""
    overrides = parse_settings(arguments.settings)
    said = set(overrides)
    if arguments.config is not None:
        said |= property_names_in(arguments.config)
    if arguments.data is not None or not said & {"log.dirs", "log.dir"}:
        overrides["log.dirs"] = arguments.data or DEFAULT_DATA
    if arguments.listen is not None or "listeners" not in said:
        host, port = split_address(arguments.listen or DEFAULT_LISTEN)
        overrides["listeners"] = f"PLAINTEXT://{f'[{host}]' if ':' in host else host}:{port}"
    return overrides


def milliseconds_since_process_start() -> int:
    """Time since the process started (Linux, in steps of 10 ms); elsewhere the CPU time used so far."""
    try:
        with open("/proc/self/stat", "rb") as stat:
            start_ticks = int(stat.read().rpartition(b")")[2].split()[19])
        return int((time.clock_gettime(time.CLOCK_BOOTTIME) - start_ticks / os.sysconf("SC_CLK_TCK")) * 1000)
    except (OSError, ValueError, IndexError, AttributeError):
        return int(time.process_time() * 1000)


def ready_line(broker: Node, node_id: object, data: str) -> str:
    from ottla import __version__

    took_ms = milliseconds_since_process_start()
    where = f"{broker.bootstrap_servers} (node {node_id}, data in {data}, {took_ms} ms)"
    return f"ottla {__version__} ready on {where}"


def stop_on_stdin_eof(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    """Stop when the parent is gone, and exit even if the clean stop hangs."""
    descriptor = sys.stdin.fileno()

    def readable() -> None:
        if not os.read(descriptor, 4096):
            loop.remove_reader(descriptor)
            loop.call_later(ORPHAN_STOP_S, os._exit, EXIT_FAILED)
            stop()

    loop.add_reader(descriptor, readable)


class StartError(Exception):
    """The broker could not start for a reason that the user can fix."""

    def __init__(self, code: int, reason: object) -> None:
        super().__init__(reason)
        self.code = code


async def start(broker: Node) -> None:
    """Start the broker. Raises StartError for expected failures; other exceptions keep their traceback."""
    from ottla.storage.errors import StorageError

    try:
        await broker.start()
    except OSError as error:
        # Omit the number of a system error.
        reason = str(error) if error.filename or not error.strerror else error.strerror
        raise StartError(EXIT_FAILED, reason) from error
    except StorageError as error:
        raise StartError(EXIT_FAILED, error) from error
    except ValueError as error:
        raise StartError(EXIT_USAGE, error) from error


async def start_unless(broker: Node, asked_to_stop: asyncio.Event) -> bool:
    """Start the broker; abort a start that waits for other nodes when `stop` is set."""
    starting = asyncio.create_task(start(broker))
    stopping = asyncio.create_task(asked_to_stop.wait())
    try:
        await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            return True
        starting.cancel()
        await asyncio.wait((starting,))
        if starting.cancelled():
            return False
        starting.result()
        return True
    finally:
        stopping.cancel()


async def serve_until_signal(broker: Node, announce: Callable[[], None], *, watch_stdin: bool) -> None:
    """Start, print the ready line, wait for SIGTERM or SIGINT, and stop. A second signal exits at once."""
    loop = asyncio.get_running_loop()
    asked_to_stop = asyncio.Event()

    def on_signal() -> None:
        if asked_to_stop.is_set():
            os._exit(EXIT_FAILED)
        asked_to_stop.set()

    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, on_signal)
    if watch_stdin:
        stop_on_stdin_eof(loop, asked_to_stop.set)
    if not await start_unless(broker, asked_to_stop):
        return
    try:
        announce()
        # Objects created at start live as long as the process: exclude them from garbage collections.
        gc.freeze()
        await asked_to_stop.wait()
    finally:
        await broker.stop()


def fail(code: int, message: object) -> int:
    print(f"ottla serve: {message}", file=sys.stderr, flush=True)
    return code


def main(argv: Sequence[str]) -> int:
    arguments = build_parser().parse_args(argv)
    from ottla.config.load import load_broker_config

    try:
        overrides = overrides_of(arguments)
        config = load_broker_config(arguments.config, overrides)
    except (ValueError, OSError) as error:
        return fail(EXIT_USAGE, error)

    from ottla.broker.node import Node
    from ottla.cli.broker.log_setup import configure_logging
    from ottla.launch.event_loop import new_event_loop

    configure_logging(arguments.log_level.upper())
    broker = Node(config)

    def announce() -> None:
        print(ready_line(broker, config.node_id, ", ".join(config.log_dirs)), flush=True)

    try:
        with asyncio.Runner(loop_factory=lambda: new_event_loop(arguments.connect_from)) as runner:
            runner.run(serve_until_signal(broker, announce, watch_stdin=arguments.stop_on_stdin_eof))
    except StartError as error:
        return fail(error.code, error)
    return EXIT_OK
