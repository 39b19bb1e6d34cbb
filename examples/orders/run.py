"""The whole thing on one machine: three brokers, a generator of orders, and the pipeline beside this file.

    python examples/orders/run.py            # or: make run

Everything is kept in ./data. Ctrl-C stops it all in order; the next start goes on where this one was.
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
# The controllers listen so far above the brokers (see `ottla cluster --help`).
CONTROLLER_PORT_GAP = 100
BASE_PORTS = (9092, *range(12092, 32000, 2000))


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def choose_base_port(wanted: int | None) -> int:
    """9092 if it and its neighbours are free, else some others: the data does not mind."""
    for base in BASE_PORTS if wanted is None else (wanted,):
        ports = [base + gap + number for gap in (0, CONTROLLER_PORT_GAP) for number in range(BROKERS)]
        if all(is_free(port) for port in ports):
            return base
    sys.exit("no free ports for three brokers: stop who has them, or choose others with --port")


def start_cluster(data: str, base_port: int) -> tuple[subprocess.Popen[str], str]:
    """The supervisor and the addresses of its brokers, when all of them serve."""
    command = [*OTTLA, "cluster", "--json", "--brokers", str(BROKERS)]
    command += ["--data", os.path.join(data, "cluster"), "--base-port", str(base_port)]
    # A session of its own: Ctrl-C is for us, who stop everything in order.
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
            # What it still has to say must not fill the pipe.
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            print(f"{name} does not stop: killing it", file=sys.stderr)
            process.kill()
            process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--data", default="data", help="where everything is kept (default: ./data)")
    parser.add_argument("--port", type=int, help="of the first broker (default: 9092 if it is free)")
    parser.add_argument("--rate", type=float, default=20, help="orders per second (default: %(default)s)")
    parser.add_argument("--master", default="local[*]", help="where Spark runs (default: %(default)s)")
    arguments = parser.parse_args()
    data = os.path.abspath(arguments.data)
    base_port = choose_base_port(arguments.port)

    children: list[tuple[subprocess.Popen[str], str]] = []
    stopping = False

    def asked_to_stop(number: int, frame: object) -> None:
        nonlocal stopping
        stopping = True
        pipelines = [process for process, name in children if name == "pipeline"]
        for process in pipelines:
            process.terminate()
        if not pipelines:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, asked_to_stop)
    signal.signal(signal.SIGTERM, asked_to_stop)
    try:
        print(f"starting {BROKERS} brokers, data in {os.path.relpath(data)}", flush=True)
        cluster, bootstrap = start_cluster(data, base_port)
        children.append((cluster, "cluster"))
        print(f"brokers ready: {bootstrap}", flush=True)
        generator = [sys.executable, os.path.join(HERE, "generate.py"), "--bootstrap", bootstrap]
        generator += ["--rate", str(arguments.rate)]
        children.append((subprocess.Popen(generator, text=True, start_new_session=True), "generator"))
        wait_for_topics(bootstrap)
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
    print(f"all stopped; the data is in {os.path.relpath(data)}, and the next start goes on from there")
    return code


def wait_for_topics(bootstrap: str) -> None:
    import asyncio

    sys.path.insert(0, HERE)
    from generate import create_topics

    asyncio.run(create_topics(bootstrap))


if __name__ == "__main__":
    sys.exit(main())
