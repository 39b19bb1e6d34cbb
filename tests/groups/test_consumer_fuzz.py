"""Consumer groups in random weather: members of both protocols come, crash, restart and go, answers get lost,
coordinators move with or without their last records, topics change. At any time every partition has one owner
at most among those that believe to have it; when the weather is fine again, each has exactly one.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ottla.groups.assignors import MemberSpec, TopicSpec, assign_uniform
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.embedded_protocol import by_topic_id, read_subscription
from ottla.groups.shard import GroupShard
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.sync_group_response import SyncGroupResponse
from tests.support.groups.classic_clients import ClassicClient
from tests.support.groups.consumer_harness import GROUP, ConsumerHarness

REBALANCE_TIMEOUT_MS = 3_600_000
SILENCE_MS_MAX = 15_000


class Newcomer:
    """A client of the consumer protocol. It revokes before it adds, and says what it owns when it is done."""

    def __init__(self, world: World, name: str, instance_id: str | None) -> None:
        self.world = world
        self.name = name
        self.instance_id = instance_id
        self.topics = ["t", "u"]
        self.epoch = 0
        self.owned: set[tuple[bytes, int]] = set()
        self.target: set[tuple[bytes, int]] | None = None
        self.reported: set[tuple[bytes, int]] | None = None
        self.beat_ms = world.harness.now_ms
        # An answer did not come: the next request says everything, and nothing is added before its answer.
        self.unheard = False

    def beat(self, lose: str = "") -> None:
        self.beat_ms = self.world.harness.now_ms
        fields: dict[str, Any] = {"member_epoch": self.epoch}
        joins = self.epoch == 0
        if joins or self.unheard:
            fields |= {"rebalance_timeout_ms": REBALANCE_TIMEOUT_MS, "subscribed_topic_names": self.topics}
            fields |= {"instance_id": self.instance_id}
        if joins or self.unheard or self.reported != self.owned:
            fields["owned"] = self.world.by_topic(self.owned)
        if not self.world.is_calm and self.world.rng.random() < 0.02:
            self.topics = self.world.rng.choice([["t"], ["u"], ["t", "u"], ["t", "u", "v"]])
            fields["subscribed_topic_names"] = self.topics
        self.unheard = True
        reply = self.world.send(lambda: self.world.harness.beat(self.name, **fields), lose)
        if reply is None:
            return
        self.unheard = False
        if reply.error_code == ErrorCode.UNRELEASED_INSTANCE_ID:
            return
        if reply.error_code:
            assert reply.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
            self.owned, self.target, self.reported, self.epoch = set(), None, None, 0
            return
        self.epoch = reply.member_epoch
        if "owned" in fields:
            self.reported = set(self.owned)
        if reply.assignment is not None:
            self.target = {
                (each.topic_id, partition)
                for each in reply.assignment.topic_partitions
                for partition in each.partitions
            }

    def work(self) -> None:
        if self.target is None or self.unheard:
            return
        if self.owned - self.target:
            self.owned &= self.target
        else:
            # It confirms also where nothing has changed for it: it was to revoke partitions that it never
            # took.
            self.owned, self.target, self.reported = set(self.target), None, None

    def stop(self, how: str) -> None:
        self.owned = set()
        if how != "crash":
            epoch = -2 if how == "restart" and self.instance_id else -1
            self.world.harness.leave(self.name, member_epoch=epoch, instance_id=self.instance_id)


class Veteran:
    """A client of the classic protocol, of the cooperative kind; in a classic group it may have to assign."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.client = ClassicClient(world.harness, name, "t", "u")
        self.next = "join"
        self.given: dict[str, dict[str, list[int]]] = {}
        self.beat_ms = world.harness.now_ms

    @property
    def owned(self) -> set[tuple[bytes, int]]:
        ids = self.world.harness.topics
        named = ((ids.topic_id(name), each) for name, each in self.client.owned.items())
        return {(topic_id, partition) for topic_id, each in named if topic_id for partition in each}

    def beat(self, lose: str = "") -> None:
        self.beat_ms = self.world.harness.now_ms
        client = self.client
        before = self.owned
        if client.awaits:
            code = client.hear()
        else:
            state = client.member_id, client.generation, client.owned
            ask = (lambda: client.sync(self.given)) if self.next == "sync" else getattr(client, self.next)
            code = self.world.send(ask, lose, client)
            if lose and not client.awaits:
                client.member_id, client.generation, client.owned = state
        if code is not None:
            self._heard(code, before)

    def _heard(self, code: ErrorCode, before: set[tuple[bytes, int]]) -> None:
        client = self.client
        if code in (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.NOT_COORDINATOR):
            return
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.next = "join"
        elif code:
            assert code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION), code
            client.member_id, client.generation, client.owned = "", -1, {}
            self.next = "join"
        elif self.next == "join":
            self.given = self.assign(client.response.members)
            self.next = "sync"
        else:
            # A member that had to revoke partitions rejoins to confirm it.
            self.next = "join" if before - self.owned else "heartbeat"

    def assign(self, members: list[Any]) -> dict[str, dict[str, list[int]]]:
        """As the leader. Partitions that another member still has are assigned in the next round."""
        topics = self.world.harness.topics
        specs: dict[str, MemberSpec] = {}
        holders: dict[tuple[bytes, int], str] = {}
        for member in members:
            subscription = read_subscription(bytes(member.metadata))
            ids = (topics.topic_id(name) for name in subscription.topics)
            held = by_topic_id(
                ((each.topic, each.partitions) for each in subscription.owned_partitions), topics
            )
            specs[member.member_id] = MemberSpec(tuple(each for each in ids if each), held)
            for topic_id, partitions in held.items():
                holders |= dict.fromkeys([(topic_id, each) for each in partitions], member.member_id)
        ids = {each for spec in specs.values() for each in spec.subscribed}
        wanted = assign_uniform(specs, {each: TopicSpec(topics.partition_count(each)) for each in ids})
        return {
            member_id: self.world.by_topic(
                {
                    (topic_id, partition)
                    for topic_id, partitions in share.items()
                    for partition in partitions
                    if holders.get((topic_id, partition), member_id) == member_id
                }
            )
            for member_id, share in wanted.items()
        }

    def work(self) -> None:
        pass

    def stop(self, how: str) -> None:
        client = self.client
        client.owned = {}
        self.world.harness.answers.pop(client.name, None)
        if how != "crash" and client.member_id and not client.awaits:
            client.leave()


class World:
    """`anchored`: the first member stays, so that the group remains a consumer group."""

    def __init__(self, seed: int, anchored: bool = True) -> None:
        self.anchored = anchored
        self.rng = Random(seed)
        self.is_calm = False
        self.harness = ConsumerHarness({"t": 5, "u": 3})
        self.names = (f"m{number}" for number in range(10_000))
        self.people: list[Newcomer | Veteran] = [Newcomer(self, next(self.names), None)]
        self.people[0].beat()

    def by_topic(self, partitions: set[tuple[bytes, int]]) -> dict[str, list[int]]:
        named: dict[str, list[int]] = {}
        for topic_id, partition in sorted(partitions):
            named.setdefault(self.harness.topics.topic_name(topic_id) or "", []).append(partition)
        named.pop("", None)  # of a topic that is gone
        return named

    def send(self, ask: Any, lose: str, veteran: ClassicClient | None = None) -> Any:
        """`lose` the answer, or all that the coordinator made of the request ("write")."""
        harness = self.harness
        before = len(harness.log)
        epochs = dict(harness.epochs)
        answered = dict(harness.answers)
        reply = ask()
        if lose == "write":
            del harness.log[before:]
            harness.reload()
            # It sent no reply; all waiting clients go to the next coordinator.
            for token in [token for token in harness.answers if token not in answered]:
                harness.answers[token] = SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR)
            if veteran is not None:
                harness.answers.pop(veteran.name, None)
                veteran.awaits = ""
        if lose:
            harness.epochs = epochs
            return None
        return reply

    def step(self) -> None:
        rng = self.rng
        client = rng.choice(self.people)
        kind = rng.random()
        if kind < 0.45:
            client.beat(lose=rng.choice(["", "", "", "", "", "", "answer", "write"]))
        elif kind < 0.75:
            client.work()
        elif kind < 0.85:
            self.harness.wait(rng.choice([10, 300, 1000, 3000]))
        elif kind < 0.90 and len(self.people) < 6:
            name = next(self.names)
            if rng.random() < (0.4 if self.anchored else 0.7):
                self.people.append(Veteran(self, name))
            else:
                instance_id = rng.choice([None, "i1", "i2"])
                taken = [each.instance_id for each in self.people if isinstance(each, Newcomer)]
                self.people.append(Newcomer(self, name, None if instance_id in taken else instance_id))
        elif kind < 0.94 and (client is not self.people[0] or (not self.anchored and len(self.people) > 1)):
            client.stop(rng.choice(["crash", "leave", "restart"]))
            self.people.remove(client)
        elif kind < 0.96:
            self.harness.reload()
        elif kind < 0.98:
            self.harness.topics.set(rng.choice(["u", "v"]), rng.randrange(1, 6))
        for each in self.people:
            if self.harness.now_ms - each.beat_ms > SILENCE_MS_MAX:
                each.beat()
        self.check()

    def check(self) -> None:
        owners: dict[tuple[bytes, int], str] = {}
        for client in self.people:
            for partition in client.owned:
                assert partition not in owners, f"{partition} is owned twice"
                owners[partition] = "a member"

    def calm(self) -> None:
        """Crashed members are removed, all others get their assignment."""
        self.is_calm = True
        for _ in range(40 if self.anchored else 100):
            self.harness.wait(2_000)
            for client in self.people:
                for _ in range(2):
                    client.beat()
                    client.work()
                    client.work()
                    self.check()

    def partitions(self) -> set[tuple[bytes, int]]:
        """All partitions that must have an owner."""
        topics = self.harness.topics
        group = self.harness.shard.group(GROUP)
        names = group.subscribed_topics if isinstance(group, ConsumerGroup) else {"t": None, "u": None}
        ids = [topics.topic_id(name) for name in names]
        return {
            (topic_id, partition)
            for topic_id in ids
            if topic_id is not None
            for partition in range(topics.partition_count(topic_id))
        }


def dump(shard: GroupShard) -> Any:
    group = shard.group(GROUP)
    assert isinstance(group, ConsumerGroup)
    members = {
        member.member_id: (
            member.epoch,
            member.previous_epoch,
            member.state,
            member.assigned,
            member.revoking,
        )
        for member in group.members.values()
    }
    plain = (group.epoch, group.metadata_hash, group.assignment_epoch, group.assigned_at_ms, group.targets)
    kept = (group.owners, group.static_ids, group.regexes, dict(group.subscribed_topics))
    return shard.describe_consumer_group(GROUP), members, plain, kept


@pytest.mark.parametrize("seed", range(25))
def test_one_owner_at_any_time(seed: int) -> None:
    world = World(seed)
    for number in range(400):
        world.step()
        if number % 50 == 0:
            fresh = world.harness.new_shard()
            for _ in range(2):  # a second time changes nothing
                for key, value in world.harness.log:
                    fresh.apply_bytes(key, value, 0)
                assert dump(fresh) == dump(world.harness.shard)
    world.calm()
    assert world.harness.group.state_name == "Stable", world.harness.group.state_name
    assert {partition for client in world.people for partition in client.owned} == world.partitions()
    assert not world.harness.waiting
    assert world.harness.group.history.current is None


@pytest.mark.parametrize("seed", range(25))
def test_one_owner_while_the_protocol_changes(seed: int) -> None:
    world = World(seed, anchored=False)
    for _ in range(400):
        world.step()
    world.calm()
    group = world.harness.shard.group(GROUP)
    assert group is not None and group.state_name == "Stable"
    assert {partition for client in world.people for partition in client.owned} == world.partitions()
    assert not world.harness.waiting


@pytest.mark.parametrize("seed", range(5))
def test_compacted_logs_make_the_same_group(seed: int) -> None:
    """The last record of each key, wherever it stands, is enough; deletions need not be there any more."""
    world = World(1000 + seed)
    for _ in range(300):
        world.step()
    last = dict(world.harness.log)
    newest_first = dict.fromkeys(key for key, _ in reversed(world.harness.log))
    for with_tombstones in (True, False):
        fresh = world.harness.new_shard()
        for key in reversed(newest_first):
            if last[key] is not None or with_tombstones:
                fresh.apply_bytes(key, last[key], 0)
        mine, theirs = dump(fresh), dump(world.harness.shard)
        assert mine[1:] == theirs[1:]
