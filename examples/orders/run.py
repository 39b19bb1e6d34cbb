"""Run the whole example on one machine: three brokers, an order generator and the pipeline in this directory.

    python examples/orders/run.py            # or: make run

All data is kept in ./data. Ctrl-C stops everything in order; the next start resumes from there.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
OTTLA = [sys.executable, "-P", "-m", "ottla"]
BROKERS = 3
# Controller ports are broker ports plus this (see `ottla cluster --help`).
CONTROLLER_PORT_GAP = 100
BASE_PORTS: tuple[int, ...] = (9092, *range(12092, 32000, 2000))


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def choose_base_port(wanted: int | None) -> int:
    """Return 9092 if it and the ports after it are free, else another base port."""
    for base in BASE_PORTS if wanted is None else (wanted,):
        ports = [base + gap + number for gap in (0, CONTROLLER_PORT_GAP) for number in range(BROKERS)]
        if all(is_free(port) for port in ports):
            return base
    sys.exit("no free ports for three brokers: choose the first one with --port")


def start_cluster(data: str, base_port: int) -> tuple[subprocess.Popen[str], str]:
    """Start the brokers. Returns the supervisor process and their addresses when all of them are ready."""
    command = [*OTTLA, "cluster", "--json", "--brokers", str(BROKERS)]
    command += ["--data", os.path.join(data, "cluster"), "--base-port", str(base_port)]
    # A process session of its own: Ctrl-C must reach this script only, which stops everything in order.
    cluster = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert cluster.stdout is not None
    for line in cluster.stdout:
        event = json.loads(line)
        if event["event"] == "ready":
            return cluster, event["bootstrap_servers"]
        if event["event"] == "died":
            print(f"broker {event['broker']} died; its log: {event['log']}", file=sys.stderr)
    sys.exit("the cluster did not start")


def stop(process: subprocess.Popen[str], name: str) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            # Drain its output: a full pipe would keep it from exiting.
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            print(f"{name} does not stop: killing it", file=sys.stderr)
            process.kill()
            process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--data", default="data", help="data directory (default: ./data)")
    parser.add_argument("--port", type=int, help="port of the first broker (default: 9092 if it is free)")
    parser.add_argument("--rate", type=float, default=20, help="orders per second (default: %(default)s)")
    parser.add_argument("--master", default="local[*]", help="Spark master (default: %(default)s)")
    arguments = parser.parse_args()
    data = os.path.abspath(arguments.data)
    base_port = choose_base_port(arguments.port)

    children: list[tuple[subprocess.Popen[str], str]] = []

    def on_signal(number: int, frame: object) -> None:
        """Stop the pipeline first: everything else stops after it has finished its batches."""
        pipelines = [process for process, name in children if name == "pipeline"]
        for process in pipelines:
            process.terminate()
        if not pipelines:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, on_signal)
    signal.signal(signal.SIGTERM, on_signal)
    try:
        print(f"starting {BROKERS} brokers, data in {os.path.relpath(data)}", flush=True)
        cluster, bootstrap = start_cluster(data, base_port)
        children.append((cluster, "cluster"))
        print(f"brokers ready: {bootstrap}", flush=True)
        generator = [sys.executable, os.path.join(HERE, "generate.py"), "--bootstrap", bootstrap]
        subprocess.run([*generator, "--topics-only"], check=True)
        generator += ["--rate", str(arguments.rate)]
        children.append((subprocess.Popen(generator, text=True, start_new_session=True), "generator"))
        command = [*OTTLA, "pipeline", "run", os.path.join(HERE, "pipeline.yaml")]
        command += ["--set", f"bootstrap={bootstrap}", "--set", f"data={data}", "--master", arguments.master]
        pipeline = subprocess.Popen(command, text=True, start_new_session=True)
        children.append((pipeline, "pipeline"))
        code = pipeline.wait()
    except KeyboardInterrupt:
        code = 0
    finally:
        for process, name in reversed(children):
            stop(process, name)
    print(f"all stopped; the next start resumes from the data in {os.path.relpath(data)}")
    return code


if __name__ == "__main__":
    sys.exit(main())
