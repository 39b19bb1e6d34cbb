"""Groups with members of all clients and both protocols: they grow, lose a member, shrink and restart."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, ClassVar

import pytest

from ottla.client import GroupInfo
from ottla.testing import Cluster
from ottla.testing.topics import topic_name_for
from tests.support.interop import group_members
from tests.support.interop.group_members import (
    QUICK,
    Load,
    Member,
    assert_all_read,
    assert_one_owner,
    until_shared,
)
from tests.support.processes import ROOT
from tests.support.waiting import wait_until

PARTITIONS = 12
SHORT_SESSION_MS = 2000
CLASSIC = ["confluent", "kafka-python", "aiokafka", "java"]
BOTH = ["java", "confluent-848", "kafka-python", "java-848", "aiokafka", "confluent"]
KINDS: dict[str, Any] = {
    "confluent": group_members.ConfluentMember,
    "confluent-848": group_members.ConsumerProtocolMember,
    "kafka-python": group_members.KafkaPythonMember,
    "aiokafka": group_members.AiokafkaMember,
    "java": group_members.JavaMember,
    "java-848": group_members.JavaConsumerProtocolMember,
}
# A member prints every event before it can commit, so the reads of a killed member are known.
MEMBER_PROGRAM = """
import json, sys
from tests.support.interop import group_members

class PrintedList(list):
    def __init__(self, what):
        self.what = what
    def append(self, row):
        print(json.dumps([self.what, *row]), flush=True)
    def __iadd__(self, rows):
        for row in rows:
            self.append(row)
        return self

name, session_ms, *where = sys.argv[1:]
group_members.SESSION_MS = int(session_ms)
member = getattr(group_members, name)(*where)
member.events, member.records = PrintedList("event"), PrintedList("record")
member.run()
"""


class KillableMember(Member):
    """A member in a separate process, to be killed."""

    def __init__(self, kind: str, *where: str) -> None:
        super().__init__(*where)
        name = KINDS[kind].__name__
        script = [sys.executable, "-c", MEMBER_PROGRAM, name, str(SHORT_SESSION_MS)]
        self._process = subprocess.Popen([*script, *where], cwd=ROOT, stdout=subprocess.PIPE, text=True)

    def run(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            what, *row = json.loads(line)
            if what == "event":
                self.events.append((row[0], row[1], row[2]))
            else:
                self.records.append((row[0], row[1]))

    def kill(self) -> None:
        self._process.kill()
        self._thread.join(group_members.WAIT_S)
        self.events += [(time.time(), "-", partition) for partition in sorted(self.owned())]

    def stop(self) -> None:
        if self._process.poll() is None:
            self.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


class KillableJavaMember(group_members.JavaMember):
    """A member in a separate JVM. Its last reads are not reported: it is killed when all records are read."""

    SETTINGS: ClassVar[dict[str, Any]] = {
        **group_members.JavaMember.SETTINGS,
        "session.timeout.ms": str(SHORT_SESSION_MS),
    }

    def __init__(self, *where: str) -> None:
        self._stack = ExitStack()
        super().__init__(self._stack.enter_context(group_members.java_members()), *where)
        self._is_alive = True

    def refresh(self) -> None:
        if self._is_alive:
            super().refresh()

    def kill(self) -> None:
        self.refresh()
        self._is_alive = False
        self._stack.close()
        self.events += [(time.time(), "-", partition) for partition in sorted(self.owned())]

    def stop(self) -> None:
        if self._is_alive:
            self.kill()


class KillableJavaMember848(KillableJavaMember):
    SETTINGS: ClassVar[dict[str, Any]] = group_members.JavaConsumerProtocolMember.SETTINGS


class Group:
    """One group with its own topic. `read` waits until everything written so far has been read."""

    def __init__(self, cluster: Cluster, jvm: group_members.Jvm, name: str) -> None:
        self.cluster = cluster
        self.jvm = jvm
        self.name = topic_name_for(name)
        self.members: list[Member] = []  # including former members
        self.present: list[Member] = []
        self.written: set[group_members.Place] = set()
        self._load: Load | None = None
        cluster.create_topic(self.name, PARTITIONS)

    def join(self, kind: str, instance: str | None = None) -> Member:
        where = (self.cluster.bootstrap_servers, self.name, self.name)
        leading = (self.jvm,) if kind.startswith("java") else ()
        return self._add(KINDS[kind](*leading, *where, instance=instance))

    def join_process(self, kind: str) -> Any:
        where = (self.cluster.bootstrap_servers, self.name, self.name)
        if kind.startswith("java"):
            return self._add({"java": KillableJavaMember, "java-848": KillableJavaMember848}[kind](*where))
        return self._add(KillableMember(kind, *where))

    def _add(self, member: Member) -> Member:
        self.members.append(member.start())
        self.present.append(member)
        return member

    def leave(self, member: Member) -> None:
        self.present.remove(member)
        member.stop()

    def settle(self) -> None:
        until_shared(self.present, PARTITIONS)

    def write(self) -> None:
        """Start or continue to write."""
        if self._load is None:
            self._load = Load(self.cluster.bootstrap_servers, self.name, PARTITIONS)
            self._load.start()

    def read(self) -> None:
        if self._load is not None:
            self.written |= self._load.stop()
            self._load = None

        def all_read() -> bool:
            for member in self.present:
                member.refresh()
            return self.written <= {place for member in self.members for place in member.records}

        wait_until(all_read, self.members)

    def info(self) -> GroupInfo:
        return self.cluster.wait_for_group(self.name, len(self.present), timeout_s=20)

    def close(self) -> None:
        if self._load is not None:
            self._load.stop()
        stopping = [threading.Thread(target=member.stop) for member in self.members]
        for thread in stopping:
            thread.start()
        for thread in stopping:
            thread.join()


@pytest.fixture(scope="module")
def mixed_cluster() -> Iterator[Cluster]:
    with Cluster(config=QUICK) as cluster:
        yield cluster


@pytest.fixture
def group(
    mixed_cluster: Cluster, group_jvm: group_members.Jvm, request: pytest.FixtureRequest
) -> Iterator[Group]:
    made = Group(mixed_cluster, group_jvm, request.node.name)
    yield made
    made.close()


@pytest.mark.parametrize(("kinds", "victim"), [(CLASSIC, "kafka-python"), (BOTH, "aiokafka")])
def test_all_clients_grow_to_eight_lose_one_and_shrink(group: Group, kinds: list[str], victim: str) -> None:
    """With KIP-848 members the group converts to that protocol, and back when the last of them leaves."""
    group.write()
    group.join(kinds[0])
    group.settle()
    for count in (3, 7):
        while len(group.present) < count:
            group.join(kinds[len(group.present) % len(kinds)])
        group.settle()
    dying = group.join_process(victim)
    group.settle()
    assert group.info().type == ("consumer" if kinds is BOTH else "classic")
    dying.kill()
    group.present.remove(dying)
    group.settle()
    while len(group.present) > 1:
        for member in group.present[1:4]:
            group.leave(member)
        group.settle()
    group.read()
    assert_one_owner(group.members)
    assert_all_read(group.members, group.written, again_max=len(group.written))
    assert all(member.failure is None for member in group.members), group.members
    assert group.info().type == "classic"


@pytest.mark.parametrize("kind", ["kafka-python", "aiokafka", "java", "java-848"])
def test_a_member_is_killed_in_a_mixed_group(group: Group, kind: str) -> None:
    staying = group.join("confluent-848" if kind.endswith("848") else "confluent")
    group.write()
    dying = group.join_process(kind)
    group.settle()
    if kind.startswith("java"):
        group.read()
    dying.kill()
    group.present.remove(dying)
    until_shared([staying], PARTITIONS, limit_s=15)
    group.write()
    time.sleep(0.3)
    group.read()
    assert_one_owner(group.members)
    assert_all_read(group.members, group.written, again_max=len(group.written))


@pytest.mark.parametrize("kind", ["confluent-848", "java-848"])
def test_topics_that_match_a_pattern_later(group: Group, kind: str) -> None:
    """The coordinator resolves the pattern. One topic exists before, one is created later."""
    where = (group.cluster.bootstrap_servers, group.name, f"^{group.name}(-later)?$")
    leading = (group.jvm,) if kind.startswith("java") else ()
    group._add(KINDS[kind](*leading, *where))
    group.settle()
    group.cluster.create_topic(f"{group.name}-later", PARTITIONS + 1)
    group.cluster.create_topic(f"{group.name}-other", PARTITIONS + 2)
    wait_until(lambda: PARTITIONS in group.present[0].owned(), group.present)
    (member,) = group.info().members
    topics = sorted({topic for topic, _ in member.assignment})
    assert topics == [group.name, f"{group.name}-later"]


@pytest.mark.parametrize("kinds", [CLASSIC, ["confluent-848", "java-848"]])
def test_static_members_of_all_clients_restart_without_a_rebalance(group: Group, kinds: list[str]) -> None:
    group.write()
    for kind in kinds:
        group.join(kind, kind)
    group.settle()
    before = group.info()
    for kind in kinds:
        member = group.present[0]
        had = member.owned()
        noticed = [len(other.events) for other in group.present[1:]]
        group.leave(member)
        back = group.join(kind, kind)
        wait_until(lambda back=back, had=had: back.owned() == had, (had, back))
        assert [len(other.events) for other in group.present[:-1]] == noticed, kind
    after = group.info()
    assert (after.epoch, len(after.rebalances)) == (before.epoch, len(before.rebalances)), after.rebalances
    group.read()
    assert_one_owner(group.members)
    assert_all_read(group.members, group.written, again_max=len(group.written) // 2)
