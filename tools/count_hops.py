"""Count the functions and hops of a request on its way through a cluster.

    python tools/count_hops.py [--list]

The brokers run in this process, and librdkafka sends the requests, so that no client code in Python runs. A
function counts if it runs in most repetitions between the request and its response. A hop is such a function
that calls another class or module: a place where a reader has to open another file or scroll to another
class. Codecs (`protocol`, `records`) do not count, nor does work that happens once (imports, compiled
messages) or without a request (timers).

Each request is counted twice:

- on all brokers of a cluster of three, with all replicas: everything that runs;
- on the node that decides it: the path that a reader of one request follows, from the socket to the response.
  A function is on the path if it leads to the next step of the request: the decision, a write to a file, a
  callback, task or future that continues the request, the response. Functions that only return something to
  a function of the path do not count. Replicas, requests and responses of other nodes are left out.
"""

from __future__ import annotations

import argparse
import collections
import re
import sys
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

sys.modules["uvloop"] = None  # type: ignore[assignment]  # the profiler does not see its functions

from ottla.testing import Cluster  # noqa: E402

WARM_UP = 5
ROUNDS = 15
SHARE = 0.7  # of the rounds in which a call must be seen
PAUSE_S = 0.15  # before each round, for the work of the previous one to end
TIMEOUT_S = 10
CONTROLLER = 0  # the only voter of a cluster of two
LEFT_OUT = ("/ottla/protocol/", "/ottla/records/", "/ottla/testing/")
SENDS = ("send", "sendmsg", "sendfile")
WRITES = ("write", "pwrite", "writev", "pwritev")
CONTINUES = ("call_soon", "create_task", "run_in_executor")
DECIDES = re.compile(r"decide_create_topics$|End\.end$|Partition\.append_group$")
UNREPLICATED = {
    "default.replication.factor": 1,
    "min.insync.replicas": 1,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
}

Call = tuple[CodeType | None, CodeType]


class Recorder:
    """Collects the calls of all threads while it is on.

    With `path_only` the calls that lead from a request of librdkafka to its response. Every broker has a
    thread of its own.
    """

    def __init__(self) -> None:
        self.path_only = False
        self._on = False
        self._calls: dict[int, set[Call]] = {}  # by thread
        self._responding: int | None = None

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if not self._on or self._responding is not None:
            return
        thread = threading.get_ident()
        calls = self._calls.setdefault(thread, set())
        if self.path_only:
            if is_step(frame, event, argument) and not serves_another_node(frame):
                calls |= calls_of_stack(frame)
                if event == "c_call" and argument.__name__ in SENDS and client_of(frame):
                    self._responding = thread
        elif event == "call":
            calls.add((frame.f_back.f_code if frame.f_back is not None else None, frame.f_code))

    def usual_calls(
        self, work: Callable[[int], None], prepare: Callable[[int], None] | None = None
    ) -> set[Call]:
        """The calls of ottla's functions that are seen in most repetitions of `work`."""
        seen: collections.Counter[Call] = collections.Counter()
        for number in range(-WARM_UP, ROUNDS):
            if prepare is not None:
                prepare(number)
            time.sleep(PAUSE_S)
            self._calls = {}
            self._responding = None
            self._on = True
            work(number)
            self._on = False
            if number >= 0:
                seen.update(call for call in self._round() if counts(call[1]))
        return {call for call, times in seen.items() if times >= SHARE * ROUNDS}

    def _round(self) -> set[Call]:
        if self._responding is not None:
            return self._calls.get(self._responding, set())
        return set().union(*self._calls.values())


def is_step(frame: FrameType, event: str, argument: Any) -> bool:
    """Whether this call decides the request, writes a file, continues the request elsewhere, or responds."""
    if event == "c_call":
        return argument.__name__ in (*SENDS, *WRITES, "set_result")
    code = frame.f_code
    if event == "call" and counts(code):
        return DECIDES.search(code.co_qualname) is not None
    return event == "call" and code.co_name in CONTINUES and "/asyncio/" in code.co_filename


def calls_of_stack(frame: FrameType | None) -> set[Call]:
    calls: set[Call] = set()
    called: CodeType | None = None
    while frame is not None:
        if counts(frame.f_code):
            if called is not None:
                calls.add((frame.f_code, called))
            called = frame.f_code
        frame = frame.f_back
    if called is not None:
        calls.add((None, called))
    return calls


def serves_another_node(frame: FrameType) -> bool:
    """Whether this call belongs to a request of another broker, or to its response to this one."""
    root = frame
    step: FrameType | None = frame
    while step is not None:
        if counts(step.f_code):
            root = step
        step = step.f_back
    owner = root.f_locals.get("self")
    software = getattr(owner, "client_software", None)  # of a connection; brokers do not name theirs
    return software == "" or hasattr(owner, "is_waiting")


def client_of(frame: FrameType | None) -> str:
    """The software of the client whose connection sends."""
    while frame is not None:
        software: str = getattr(frame.f_locals.get("self"), "client_software", "")
        if software:
            return software
        frame = frame.f_back
    return ""


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


def measure(recorder: Recorder, cluster: Cluster, topic: Callable[[str], NewTopic]) -> dict[str, set[Call]]:
    servers = {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0}
    admin = AdminClient({"bootstrap.servers": cluster.address(CONTROLLER)})
    producer = confluent_kafka.Producer(servers | {"acks": "all"})
    writer = confluent_kafka.Producer(servers | {"transactional.id": "hops"})

    def create(name: object) -> None:
        for created in admin.create_topics([topic(f"hops-{name}")]).values():
            created.result(TIMEOUT_S)

    def produce(number: int) -> None:
        producer.produce("hops-", b"value")
        assert producer.flush(TIMEOUT_S) == 0

    def write(number: int) -> None:
        writer.begin_transaction()
        writer.produce("hops-", b"value")
        assert writer.flush(TIMEOUT_S) == 0

    create("")
    writer.init_transactions()
    # Brokers name themselves as the controller, and forward what others decide.
    while admin.list_topics(timeout=TIMEOUT_S).controller_id != CONTROLLER:
        time.sleep(PAUSE_S)
    return {
        "Produce, acks=all": recorder.usual_calls(produce),
        "CreateTopics": recorder.usual_calls(create),
        "EndTxn": recorder.usual_calls(lambda number: writer.commit_transaction(TIMEOUT_S), prepare=write),
    }


def report(cluster: Cluster, recorder: Recorder, topic: Callable[[str], NewTopic], *, show: bool) -> None:
    with cluster:
        paths = measure(recorder, cluster, topic)
        background = recorder.usual_calls(lambda number: time.sleep(0.02))
    for name, calls in paths.items():
        # Calls that lead to a response do not happen without a request.
        own = calls if recorder.path_only else calls - background
        print(f"  {name}: {len({called for _, called in own})} functions, {len(hops(own))} hops")
        if show:
            for code in sorted(
                {called for _, called in own} if recorder.path_only else hops(own), key=listed
            ):
                called = {called.co_qualname for caller, called in own if caller is code}
                print(f"{listed(code)} -> {', '.join(sorted(called))}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="name the hops, and what each of them calls")
    show = parser.parse_args().list
    recorder = Recorder()
    threading.setprofile(recorder.profile)
    print("On all brokers of a cluster of three, with all replicas:")
    three = Cluster(brokers=3, in_process=True, proxied="none")
    report(three, recorder, lambda name: NewTopic(name, 1, 3), show=show)
    print("From the socket to the response on the deciding node:")
    recorder.path_only = True
    # The partition is not on the controller: deciding on it is not hosting it.
    two = Cluster(brokers=2, in_process=True, proxied="none", config=UNREPLICATED)
    report(two, recorder, lambda name: NewTopic(name, 1, replica_assignment=[[1]]), show=show)


if __name__ == "__main__":
    main()
