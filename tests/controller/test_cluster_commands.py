"""Any order of commands and failures, with a model of the replicas' logs: nothing committed is lost unsaid.

The model holds what each replica has of each partition. Leaders append, followers copy, the high watermark
rises by the rules of replication, and crashes cut logs. Whenever a leader is elected that lacks something
committed, the decision must have said that the election was unclean.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ottla.controller.brokers import registration
from ottla.controller.cluster import configs
from ottla.controller.cluster.configs import decide_incremental_alter_configs
from ottla.controller.cluster.update_features import decide_update_features
from ottla.controller.context import Context
from ottla.controller.image.cluster import ClusterImage
from ottla.controller.image.records import image_records
from ottla.controller.partitions import broker_changes
from ottla.controller.partitions.elect_leaders import decide_balance_leaders, decide_elect_leaders
from ottla.controller.partitions.reassignments import decide_alter_partition_reassignments
from ottla.controller.partitions.rules import PartitionRules
from ottla.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.elect_leaders_request import ElectLeadersRequest
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest

BROKERS = (1, 2, 3, 4)
TOPICS = ("a", "b", "alone")
brokers = st.sampled_from(BROKERS)
topics = st.sampled_from(TOPICS)
some_brokers = st.lists(brokers, min_size=1, max_size=3, unique=True)


def common(one: list[int], other: list[int]) -> int:
    """How much two logs have in common from their beginning."""
    same = [a == b for a, b in zip(one, other, strict=False)]
    return same.index(False) if False in same else len(same)


class Failures(RuleBasedStateMachine):
    """Three partitions on four brokers."""

    harness_class: Any = None
    elr = True

    def __init__(self) -> None:
        super().__init__()
        self.harness = self.harness_class({"leader.imbalance.check.interval.seconds": "1"})
        for broker_id in BROKERS:
            self.harness.start_broker(broker_id, dirs=2)
        if not self.elr:
            update = FeatureUpdateKey(
                feature="eligible.leader.replicas.version", max_version_level=0, upgrade_type=2
            )
            request = UpdateFeaturesRequest(feature_updates=[update])
            assert self.harness.take(decide_update_features(self.context, request)).error_code == 0
        self.harness.create("a", [1, 2, 3], min_insync_replicas="2")
        self.harness.create("b", [2, 3])
        self.harness.create("alone", [4])
        self.logs: dict[tuple[str, int], list[int]] = {
            (name, broker_id): [] for name in TOPICS for broker_id in BROKERS
        }
        self.committed: dict[str, list[int]] = {name: [] for name in TOPICS}
        self.epochs = dict.fromkeys(TOPICS, (0, 0))
        self.lost_seen = 0
        self.written = 0

    @property
    def context(self) -> Context:
        return self.harness.context  # type: ignore[no-any-return]

    def led(self, name: str) -> Any:
        """The partition, if its leader is there to lead it."""
        partition = self.harness.partition(name)
        broker = self.harness.image.brokers.get(partition.leader)
        return partition if broker is not None and not broker.fenced else None

    # --- what replicas do

    @rule(name=topics)
    def produce(self, name: str) -> None:
        partition = self.led(name)
        if partition is not None:
            self.written += 1
            self.logs[name, partition.leader].append(self.written)

    @rule(name=topics, followers=some_brokers)
    def replicate(self, name: str, followers: list[int]) -> None:
        partition = self.led(name)
        if partition is None:
            return
        for broker_id in followers:
            if broker_id in partition.replicas and not self.harness.image.brokers[broker_id].fenced:
                self.logs[name, broker_id] = list(self.logs[name, partition.leader])
        self.commit(name)

    def commit(self, name: str) -> None:
        partition = self.led(name)
        if partition is None:
            return
        text = self.harness.image.topic_config(name).get("min.insync.replicas", "1")
        if len(partition.isr) < min(int(text), len(partition.replicas)):
            return
        leader_log = self.logs[name, partition.leader]
        end = min(common(self.logs[name, each], leader_log) for each in partition.isr)
        if end > len(self.committed[name]):
            self.committed[name] = leader_log[:end]

    @rule(name=topics, wanted=some_brokers)
    def change_isr(self, name: str, wanted: list[int]) -> None:
        """As a leader does: any follower may fall out, one that has everything may come in."""
        partition = self.led(name)
        if partition is None:
            return
        leader_log = self.logs[name, partition.leader]
        isr = [
            each
            for each in partition.replicas
            if each == partition.leader
            or (each in wanted and (each in partition.isr or self.logs[name, each] == leader_log))
        ]
        answer = self.harness.alter(name, isr)
        if not answer.error_code:
            after = self.harness.partition(name)
            assert tuple(answer.isr) == after.isr
            assert (answer.leader_epoch, answer.partition_epoch) == (
                after.leader_epoch,
                after.partition_epoch,
            )
        self.commit(name)

    # --- what brokers do

    @rule(broker_id=brokers)
    def fence(self, broker_id: int) -> None:
        if not self.harness.image.brokers[broker_id].fenced:
            self.harness.fence(broker_id)

    @rule(broker_id=brokers, admit=st.booleans())
    def restart_in_order(self, broker_id: int, admit: bool) -> None:
        self.harness.now_ms += 10_000
        self.harness.back(broker_id, clean=True, admit=admit)

    @rule(broker_id=brokers, kept=st.integers(0, 3), admit=st.booleans())
    def crash(self, broker_id: int, kept: int, admit: bool) -> None:
        for name in TOPICS:
            if self.harness.partition(name).replicas == (broker_id,):
                # A single replica is all there is: its log is the log of the partition.
                self.committed[name] = self.committed[name][:kept]
            self.logs[name, broker_id] = self.logs[name, broker_id][:kept]
        self.harness.now_ms += 10_000
        self.harness.back(broker_id, clean=False, admit=admit)

    @rule(broker_id=brokers, stop=st.booleans())
    def heartbeat(self, broker_id: int, stop: bool) -> None:
        epoch = self.harness.image.brokers[broker_id].epoch
        self.harness.heartbeat(broker_id, epoch, want_shut_down=stop)

    # --- requests of operators

    @rule(name=topics, replicas=some_brokers)
    def reassign(self, name: str, replicas: list[int]) -> None:
        self.ask_reassignment(name, replicas)
        partition = self.harness.partition(name)
        assert [each for each in partition.replicas if each not in partition.removing_replicas] == replicas

    @rule(name=topics)
    def take_reassignment_back(self, name: str) -> None:
        before = self.harness.partition(name)
        moving = bool(before.adding_replicas or before.removing_replicas)
        code = self.ask_reassignment(name, None)
        assert (code == 85) == (not moving)
        if code == 0:
            partition = self.harness.partition(name)
            assert not partition.adding_replicas and not partition.removing_replicas

    def ask_reassignment(self, name: str, target: list[int] | None) -> int:
        asked = ReassignableTopic(
            name=name, partitions=[ReassignablePartition(partition_index=0, replicas=target)]
        )
        request = AlterPartitionReassignmentsRequest(topics=[asked])
        reply = self.harness.take(decide_alter_partition_reassignments(self.context, request))
        code: int = reply.responses[0].partitions[0].error_code
        assert code in (0, 85, 39), code
        assert target is None or code == 0
        return code

    @rule(unclean=st.booleans())
    def elect(self, unclean: bool) -> None:
        request = ElectLeadersRequest(election_type=int(unclean), topic_partitions=None)
        self.harness.take(decide_elect_leaders(self.context, request))

    @rule()
    def balance(self) -> None:
        self.harness.take(decide_balance_leaders(self.context))

    @precondition(lambda self: self.elr)
    @rule(name=topics, minimum=st.integers(1, 3))
    def change_minimum(self, name: str, minimum: int) -> None:
        self.configure(name, "min.insync.replicas", str(minimum))

    @rule(name=topics, allowed=st.booleans())
    def allow_unclean(self, name: str, allowed: bool) -> None:
        self.configure(name, "unclean.leader.election.enable", str(allowed).lower())

    def configure(self, name: str, key: str, value: str) -> None:
        config = AlterableConfig(name=key, config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=2, resource_name=name, configs=[config])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        reply = self.harness.take(decide_incremental_alter_configs(self.context, request))
        assert reply.responses[0].error_code == 0

    # --- what must hold

    @invariant()
    def nothing_committed_is_lost_unsaid(self) -> None:
        said = {each.topic for each in self.harness.lost[self.lost_seen :]}
        self.lost_seen = len(self.harness.lost)
        for name in TOPICS:
            partition = self.harness.partition(name)
            for broker_id in BROKERS:
                if broker_id not in partition.replicas:
                    self.logs[name, broker_id] = []
            if partition.leader == -1:
                continue
            log = self.logs[name, partition.leader]
            committed = self.committed[name]
            if name in said:
                self.committed[name] = committed[: common(committed, log)]
            elif self.elr:
                assert log[: len(committed)] == committed, f"{name} lost records without a word"

    @invariant()
    def partitions_make_sense(self) -> None:
        image = self.harness.image
        for name in TOPICS:
            partition = self.harness.partition(name)
            replicas = set(partition.replicas)
            assert len(replicas) == len(partition.replicas) == len(partition.directories)
            assert set(partition.isr) <= replicas
            assert set(partition.elr) <= replicas - set(partition.isr)
            assert set(partition.adding_replicas) <= replicas
            assert set(partition.removing_replicas) < replicas
            assert self.elr or partition.isr
            assert self.elr or not partition.elr
            epochs = (partition.leader_epoch, partition.partition_epoch)
            assert all(now >= then for now, then in zip(epochs, self.epochs[name], strict=True))
            self.epochs[name] = epochs
            if partition.leader != -1:
                assert partition.leader in partition.isr
                alone = partition.replicas == (partition.leader,)
                assert alone or image.brokers[partition.leader].active
            else:
                assert not any(image.brokers[each].active for each in partition.isr or partition.elr)

    @invariant()
    def the_log_gives_the_same_image(self) -> None:
        for records in (self.harness.log, list(image_records(self.harness.image))):
            replayed = ClusterImage()
            for record in records:
                replayed.apply(record)
            assert replayed == self.harness.image

    def teardown(self) -> None:
        """When all are back and replicate, every reassignment ends in its target."""
        targets = {}
        for name in TOPICS:
            partition = self.harness.partition(name)
            targets[name] = {each for each in partition.replicas if each not in partition.removing_replicas}
        for broker_id in BROKERS:
            broker = self.harness.image.brokers[broker_id]
            if not broker.active:
                self.harness.now_ms += 10_000
                self.harness.back(broker_id, clean=True)
        for name in TOPICS:
            partition = self.harness.partition(name)
            if partition.leader == -1:
                # Every replica that could have led was crashed by the test, or lost to it.
                assert not partition.isr and not partition.elr
                continue
            answer = self.harness.alter(name, list(partition.replicas))
            assert answer.error_code in (0, 108)
            partition = self.harness.partition(name)
            assert set(partition.replicas) == set(partition.isr) == targets[name]
            assert not partition.adding_replicas and not partition.removing_replicas and not partition.elr
        self.partitions_make_sense()


@pytest.mark.parametrize("elr", [True, False])
def test_any_failures(new_harness: Any, elr: bool) -> None:
    machine = type("Machine", (Failures,), {"harness_class": new_harness, "elr": elr})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=60, stateful_step_count=30, deadline=None)
    )


def _keep_eligible(rules: PartitionRules, topic: str, replicas: int) -> int:
    """Counts replicas that leave the ISR as eligible, although the others continue to commit."""
    return replicas


def _trust_after_crash(context: Any, broker_id: int) -> Any:
    return broker_changes.broker_leaves(context, broker_id, keep_single=True)


def _ignore_minimum(context: Any, changed: Any) -> list[Any]:
    return []


def drive(machine: Failures, seed: int, steps: int) -> None:
    """A long run with much traffic between failures, and no election that is allowed to lose anything."""
    rng = random.Random(seed)
    for step in range(steps):
        name = rng.choice(("a", "a", "a", "b"))
        broker_id = rng.choice(BROKERS)
        dice = rng.random()
        if dice < 0.45:
            machine.produce(name=name)
            machine.replicate(name=name, followers=[each for each in BROKERS if rng.random() < 0.8])
        elif dice < 0.6:
            wanted = [each for each in BROKERS if rng.random() < 0.6]
            machine.change_isr(name=name, wanted=wanted)
        elif dice < 0.68:
            machine.fence(broker_id=broker_id)
        elif dice < 0.76:
            kept = rng.choice((0, 5, step))
            machine.crash(broker_id=broker_id, kept=kept, admit=rng.random() < 0.8)
        elif dice < 0.84:
            machine.restart_in_order(broker_id=broker_id, admit=rng.random() < 0.8)
        elif dice < 0.92:
            machine.heartbeat(broker_id=broker_id, stop=rng.random() < 0.2)
        elif dice < 0.95:
            machine.change_minimum(name=name, minimum=rng.randint(1, 3))
        elif dice < 0.97:
            machine.reassign(name=name, replicas=rng.sample(BROKERS, rng.randint(2, 3)))
        else:
            machine.elect(unclean=False)
        machine.nothing_committed_is_lost_unsaid()
        machine.partitions_make_sense()
    machine.the_log_gives_the_same_image()
    machine.teardown()


def failing(new_harness: Any) -> Failures:
    machine = type("Machine", (Failures,), {"harness_class": new_harness})()
    assert isinstance(machine, Failures)
    return machine


@pytest.mark.parametrize("seed", range(20))
def test_long_runs_lose_nothing_unsaid(new_harness: Any, seed: int) -> None:
    machine = failing(new_harness)
    drive(machine, seed, steps=400)
    assert machine.written > 20


@pytest.mark.parametrize(
    ("owner", "name", "planted"),
    [
        (PartitionRules, "min_isr", _keep_eligible),
        (registration, "broker_restarts_uncleanly", _trust_after_crash),
        (configs, "elr_after", _ignore_minimum),
    ],
)
def test_planted_mistakes_are_found(
    new_harness: Any, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, planted: Any
) -> None:
    monkeypatch.setattr(owner, name, planted)
    for seed in range(100):
        try:
            drive(failing(new_harness), seed, steps=400)
        except AssertionError as error:
            assert "without a word" in str(error)
            return
    raise AssertionError(f"{name} was not missed")
