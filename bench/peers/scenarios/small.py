"""Requests of one record: the fixed cost of a request. The generator is compiled, see blast.c."""

from __future__ import annotations

import os
import time

from bench.batches import VALUE_BYTES
from bench.broker import BenchError
from bench.peers.blast import blast
from bench.peers.contest import Effort, Figures, Scenario, Stopwatch
from bench.peers.costs import answered
from bench.peers.fleet import Fleet
from bench.wire import Wire, produce_exchanges
from ottla.client import NewTopic
from ottla.records.build import build_batch

GOAL = 0.7
CASES = {"alone": (1, 1), "16 connections": (16, 1), "pipelined": (1, 64)}  # connections, each in flight


def small(fleet: Fleet, effort: Effort) -> Figures:
    topic = f"small-{os.urandom(4).hex()}"
    fleet.create_topic(NewTopic(topic, 1, 1))
    fleet.await_in_sync(topic)
    node = fleet.brokers[0]
    found: Figures = {}
    with Wire(node) as wire:
        (exchange,) = produce_exchanges(wire, topic, [one_record()])
        for name, (connections, in_flight) in CASES.items():
            before = wire.log_end_offset(topic)
            requests = effort.requests // connections * connections
            watch = Stopwatch(fleet)
            took_s = blast(
                node.host_and_port[1],
                exchange.request,
                exchange.answer_bytes,
                connections=connections,
                in_flight=in_flight,
                requests=requests,
            )
            _, used = watch.stop()
            appended = wire.log_end_offset(topic) - before
            if appended != requests:
                raise BenchError(f"{appended} records were appended, not {requests}")
            found |= answered(name, requests, "request", took_s, used, GOAL)
    fleet.delete_topic(topic)
    return found


def one_record() -> bytes:
    return bytes(build_batch([(int(time.time() * 1000), None, bytes(VALUE_BYTES), ())]))


SCENARIOS = (Scenario("small", "Produce requests of one 1 KB record, acks=1", small, warm_ups=5),)
