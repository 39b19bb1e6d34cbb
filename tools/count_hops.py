"""Count the functions and hops of a request on its way through a cluster of three brokers.

    python tools/count_hops.py [--list]

The brokers run in this process, and librdkafka sends the requests, so that no client code in Python runs. A
function counts if it runs in most repetitions between the request and its response, on any of the three
brokers. A hop is such a function that calls another class or module: a place where a reader has to open
another file or scroll to another class. Codecs (`protocol`, `records`) do not count, nor does work that
happens once (imports, compiled messages) or without a request (timers).
"""

from __future__ import annotations

import argparse
import collections
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla.testing import Cluster

WARM_UP = 5
ROUNDS = 15
SHARE = 0.7  # of the rounds in which a call must be seen
PAUSE_S = 0.15  # before each round, for the work of the previous one to end
TIMEOUT_S = 10
LEFT_OUT = ("/ottla/protocol/", "/ottla/records/", "/ottla/testing/")

Call = tuple[CodeType | None, CodeType]


class Recorder:
    """Collects the calls of all threads while it is on."""

    def __init__(self) -> None:
        self.on = False
        self.calls: set[Call] = set()

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if self.on and event == "call":
            caller = frame.f_back
            self.calls.add((caller.f_code if caller is not None else None, frame.f_code))

    def usual_calls(
        self, work: Callable[[int], None], prepare: Callable[[int], None] | None = None
    ) -> set[Call]:
        """The calls of ottla's functions that are seen in most repetitions of `work`."""
        seen: collections.Counter[Call] = collections.Counter()
        for number in range(-WARM_UP, ROUNDS):
            if prepare is not None:
                prepare(number)
            time.sleep(PAUSE_S)
            self.calls.clear()
            self.on = True
            work(number)
            self.on = False
            if number >= 0:
                seen.update(call for call in self.calls if counts(call[1]))
        return {call for call, times in seen.items() if times >= SHARE * ROUNDS}


def counts(code: CodeType) -> bool:
    name = code.co_filename
    return (
        "/ottla/" in name and not any(part in name for part in LEFT_OUT) and not code.co_name.startswith("<")
    )


def unit(code: CodeType) -> str:
    """The class, or the module of a function outside of classes."""
    return f"{code.co_filename.rpartition('/ottla/')[2]}:{code.co_qualname.rpartition('.')[0]}"


def hops(calls: set[Call]) -> set[CodeType]:
    return {caller for caller, called in calls if caller and counts(caller) and unit(caller) != unit(called)}


def listed(code: CodeType) -> str:
    return f"    {code.co_filename.rpartition('/ottla/')[2]}:{code.co_firstlineno} {code.co_qualname}"


def measure(recorder: Recorder, cluster: Cluster) -> dict[str, set[Call]]:
    cluster.create_topic("hops", 1)
    servers = {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0}
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    producer = confluent_kafka.Producer(servers | {"acks": "all"})
    writer = confluent_kafka.Producer(servers | {"transactional.id": "hops"})
    writer.init_transactions()

    def produce(number: int) -> None:
        producer.produce("hops", b"value")
        assert producer.flush(TIMEOUT_S) == 0

    def create(number: int) -> None:
        for created in admin.create_topics([NewTopic(f"hops-{number}", 1, 3)]).values():
            created.result(TIMEOUT_S)

    def write(number: int) -> None:
        writer.begin_transaction()
        writer.produce("hops", b"value")
        assert writer.flush(TIMEOUT_S) == 0

    return {
        "Produce, acks=all": recorder.usual_calls(produce),
        "CreateTopics": recorder.usual_calls(create),
        "EndTxn": recorder.usual_calls(lambda number: writer.commit_transaction(TIMEOUT_S), prepare=write),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="name the hops")
    show = parser.parse_args().list
    recorder = Recorder()
    threading.setprofile(recorder.profile)
    with Cluster(brokers=3, in_process=True, proxied="none") as cluster:
        paths = measure(recorder, cluster)
        background = recorder.usual_calls(lambda number: time.sleep(0.02))
    for name, calls in paths.items():
        own = calls - background
        print(f"{name}: {len({called for _, called in own})} functions, {len(hops(own))} hops")
        if show:
            print("\n".join(sorted(map(listed, hops(own)))))


if __name__ == "__main__":
    main()
