"""Exactly-once for minutes while workers and brokers are killed and paused."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing import Cluster
from ottla.testing.topics import topic_name_for
from tests.support.interop import transactions
from tests.support.interop.bank import create_bank, run_bank
from tests.support.interop.java import why_no_java
from tests.support.interop.transactions import read_committed
from tests.support.processes import ROOT, python_module

SECONDS = float(os.environ.get("OTTLA_SOAK_SECONDS", "180"))
SEED = int(os.environ.get("OTTLA_SOAK_SEED", "0")) or random.randrange(1, 10**6)
SETTLED_WITHIN_S = 120
PARTITIONS = 6
WORKERS = 3
WORKER = "tests.support.txn_soak.worker"
KINDS = ["confluent", "ottla"]

pytestmark = pytest.mark.timeout(SECONDS * 2 + 600)


@pytest.fixture(scope="module")
def soak_cluster() -> Iterator[Cluster]:
    quick = {"group.initial.rebalance.delay.ms": 200, "group.min.session.timeout.ms": 1000}
    with Cluster(brokers=3, config=quick) as cluster:
        yield cluster


class Disturbance:
    """Kills or pauses a broker and brings it back; sometimes two in quick succession."""

    def __init__(self, cluster: Cluster, rng: random.Random) -> None:
        self._cluster = cluster
        self._random = rng
        self.done: list[str] = []

    def __call__(self) -> None:
        rng = self._random
        victim = rng.randrange(3)
        what = rng.choice(["kill", "kill", "kill", "pause", "stop", "rest"])
        self.done.append(f"{what} {victim}")
        if what == "rest":
            time.sleep(3)
            return
        if what == "pause":
            self._cluster.pause(victim)
            time.sleep(rng.uniform(0.5, 4))
            self._cluster.resume(victim)
        else:
            (self._cluster.kill if what == "kill" else self._cluster.stop)(victim)
            time.sleep(rng.uniform(0, 3))
            self._cluster.start(victim)
        time.sleep(rng.choice([0.2, 1, 3]))


class Worker:
    """A process that is killed at times and restarted with the same number."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self._arguments = arguments
        self._log = log
        self.kills = 0
        self._start()

    def _start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(python_module(WORKER, *self._arguments), cwd=ROOT, stderr=log)

    def check(self) -> None:
        assert self._process.poll() is None, self._log.read_text()[-3000:]

    def kill(self) -> None:
        self.check()
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self.kills += 1

    def restart(self) -> None:
        self.kill()
        self._start()


class Feeder(threading.Thread):
    """Writes distinct inputs until it is stopped."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._servers = servers
        self._topic = topic
        self._stopped = threading.Event()
        self.written = 0
        self.failures: list[str] = []

    def run(self) -> None:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self._servers,
                "enable.idempotence": True,
                "error_cb": lambda _: None,
                "log_level": 0,
            }
        )
        while not self._stopped.is_set():
            for _ in range(20):
                value = f"input-{self.written}".encode()
                producer.produce(
                    self._topic, value, partition=self.written % PARTITIONS, on_delivery=self._delivered
                )
                self.written += 1
            producer.poll(0)
            time.sleep(0.1)
        if producer.flush(60):
            self.failures.append("not all inputs were delivered")

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self.failures.append(str(error))

    def stop(self) -> list[str]:
        self._stopped.set()
        self.join(90)
        assert not self.is_alive() and not self.failures, self.failures[:3]
        return [f"input-{number}" for number in range(self.written)]


def look(servers: str, target: str, before: set[str]) -> set[str]:
    found = read_committed(servers, target, PARTITIONS)
    seen = set(found)
    assert len(found) == len(seen), (
        f"duplicates: {sorted(value for value in seen if found.count(value) > 1)[:5]}"
    )
    assert before <= seen, f"records disappeared: {sorted(before - seen)[:5]}"
    return seen


@pytest.mark.parametrize("kind", KINDS)
def test_every_input_is_in_the_output_once(soak_cluster: Cluster, tmp_path: Path, kind: str) -> None:
    print(f"OTTLA_SOAK_SEED={SEED}")
    rng = random.Random(SEED)
    servers = soak_cluster.bootstrap_servers
    source, target = (topic_name_for(f"soak-{kind}-{what}") for what in ("in", "out"))
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in (source, target)]).values():
        future.result()
    feeder = Feeder(servers, source)
    feeder.start()
    workers = [
        Worker(tmp_path / f"worker-{number}", kind, servers, source, target, str(number))
        for number in range(WORKERS)
    ]
    disturb = Disturbance(soak_cluster, rng)
    seen: set[str] = set()
    try:
        limit = time.monotonic() + SECONDS
        while time.monotonic() < limit:
            disturb()
            for worker in workers:
                worker.check()
            rng.choice(workers).restart()
            seen = look(servers, target, seen)
        values = feeder.stop()
        limit = time.monotonic() + SETTLED_WITHIN_S
        while len(seen) < len(values):
            assert time.monotonic() < limit, (
                len(seen),
                len(values),
                [worker._log.read_text()[-500:] for worker in workers],
            )
            time.sleep(0.5)
            seen = look(servers, target, seen)
    finally:
        for worker in workers:
            worker.kill()
    assert seen == set(values)
    assert sorted(read_committed(servers, target, PARTITIONS)) == sorted(values)
    killed = sum(worker.kills for worker in workers) - WORKERS
    print(f"{kind}: {len(values)} inputs, {killed} workers killed, {len(disturb.done)} disturbances")


@pytest.fixture(scope="module")
def soak_java() -> Iterator[None]:
    reason = why_no_java()
    if reason is not None:
        pytest.skip(reason)
    with transactions.txn_jvm() as transactions.Java.jvm:
        yield


@pytest.mark.parametrize("kind", [*KINDS, "java"])
def test_the_sum_of_all_accounts_stays(
    soak_cluster: Cluster, request: pytest.FixtureRequest, kind: str
) -> None:
    print(f"OTTLA_SOAK_SEED={SEED}")
    tellers_count = 4
    if kind == "java":
        # Producers of the JVM run one at a time, so more of them would not add load.
        request.getfixturevalue("soak_java")
        tellers_count = 1
    topic = topic_name_for(f"soak-bank-{kind}")
    create_bank(soak_cluster.bootstrap_servers, topic, 3)
    disturb = Disturbance(soak_cluster, random.Random(SEED))
    tellers, inspector = run_bank(
        kind, soak_cluster.bootstrap_servers, topic, SECONDS, disturb, tellers=tellers_count, leaves=11
    )
    committed = sum(len(teller.committed) for teller in tellers)
    unsure = sum(len(teller.unsure) for teller in tellers)
    print(f"{kind}: {committed} committed, {unsure} unsure, {inspector.looks} looks, {disturb.done}")
    for teller in tellers:
        print(*teller.failures, sep="\n")
    assert committed >= 20 and inspector.looks >= 3
