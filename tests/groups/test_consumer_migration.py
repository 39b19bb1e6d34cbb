"""Groups that change their protocol, and members of both protocols side by side."""

from __future__ import annotations

from ottla.groups.classic.group import ClassicGroup
from ottla.groups.history import MEMBER_LEFT, PROTOCOL_CHANGED
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.join_group_request import JoinGroupRequestProtocol
from tests.support.groups.classic_clients import PROTOCOL, ClassicClient, read_assignment
from tests.support.groups.consumer_harness import GROUP, ConsumerHarness


def classic_group(harness: ConsumerHarness, *clients: ClassicClient) -> None:
    """A stable classic group of two with two partitions each, or of one with all."""
    for client in clients:
        if client.instance_id is None:
            assert client.join() == ErrorCode.MEMBER_ID_REQUIRED
        assert client.join() is None
    harness.wait(10_000)
    share = 4 // len(clients)
    given = {}
    for index, client in enumerate(clients):
        assert client.hear() == ErrorCode.NONE
        given[client.member_id] = {"t": [*range(index * share, index * share + share)]}
    for client in clients[1:]:
        assert client.sync() is None
    assert clients[0].sync(given) == ErrorCode.NONE
    for client in clients[1:]:
        assert client.hear() == ErrorCode.NONE
    group = harness.shard.group(GROUP)
    assert isinstance(group, ClassicGroup) and group.state_name == "Stable" and not harness.waiting
    harness.transcript()


def test_a_classic_group_is_upgraded_by_the_first_member_of_the_new_protocol() -> None:
    harness = ConsumerHarness()
    old = [ClassicClient(harness, "x", "t"), ClassicClient(harness, "y", "t")]
    classic_group(harness, *old)
    x, y = (client.member_id for client in old)
    harness.join("a", "t")
    assert harness.transcript() == [
        "(no classic group)",
        f"({x} reads t)",
        f"({y} reads t)",
        "(group epoch 1)",
        f"({x} should have t:0,1)",
        f"({y} should have t:2,3)",
        "(assigned for 1)",
        f"({x} stable in 1: t:0,1)",
        f"({y} stable in 1: t:2,3)",
        "(a reads t)",
        "(group epoch 2)",
        "(a should have t:3)",
        f"({y} should have t:2)",
        "(assigned for 2)",
        "(a unreleased in 2: nothing)",
        "a: epoch 2, nothing",
    ]
    # All continue: one revokes and gets the new epoch, the other only follows.
    moved = [client for client in old for _ in range(3) if client.follow()]
    assert moved
    harness.settle("a")
    assert sorted([len(client.owned["t"]) for client in old] + [len(harness.owned["a"]["t"])]) == [1, 1, 2]
    assert [client.heartbeat() for client in old] == [ErrorCode.NONE] * 2
    types = {
        each.member_id: each.member_type for each in harness.shard.describe_consumer_group(GROUP).members
    }
    assert types == {x: 0, y: 0, "a": 1}
    assert PROTOCOL_CHANGED in [
        each.what for rebalance in harness.group.history for each in rebalance.triggers
    ]
    # A new coordinator finds the same.
    described = harness.shard.describe_consumer_group(GROUP)
    harness.reload()
    assert harness.shard.describe_consumer_group(GROUP) == described


def test_waiting_classic_members_must_rejoin_after_the_upgrade() -> None:
    harness = ConsumerHarness()
    old = [ClassicClient(harness, "x", "t"), ClassicClient(harness, "y", "t")]
    classic_group(harness, *old)
    old[0].topics = ["t", "u"]
    assert old[0].join() is None
    harness.join("a", "t")
    assert old[0].hear() == ErrorCode.REBALANCE_IN_PROGRESS and not harness.waiting
    old[0].arrive()
    assert harness.group.is_subscribed_to("u")


def test_back_again_when_the_last_of_the_new_protocol_leaves() -> None:
    harness = ConsumerHarness()
    old = [ClassicClient(harness, "x", "t"), ClassicClient(harness, "y", "t")]
    classic_group(harness, *old)
    harness.join("a", "t")
    for client in old * 2:
        client.follow()
    harness.settle("a")
    for client in old:
        client.follow()
    harness.transcript()
    harness.leave("a")
    lines = harness.transcript()
    assert "(classic generation 2)" in lines and lines[-1] == "a: epoch -1"
    group = harness.shard.group(GROUP)
    assert isinstance(group, ClassicGroup) and group.state_name == "PreparingRebalance"
    assert [client.heartbeat() for client in old] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    held = {each.client_id: read_assignment(each.assignment) for each in group.members.values()}
    assert held == {client.name: client.owned for client in old}
    for client in old:
        client.join()
    assert not harness.waiting and group.state_name == "CompletingRebalance"
    assert [each.what for each in [*group.history][-1].triggers] == [PROTOCOL_CHANGED, MEMBER_LEFT]
    # The log has a classic group, whose rebalance the next coordinator does not know.
    harness.reload()
    again = harness.shard.group(GROUP)
    assert isinstance(again, ClassicGroup) and again.state_name == "Stable" and again.generation == 2


def test_back_again_when_it_falls_silent() -> None:
    harness = ConsumerHarness()
    client = ClassicClient(harness, "x", "t")
    classic_group(harness, client)
    harness.join("a", "t")
    for _ in range(4):
        harness.wait(10_000)
        client.follow()
    harness.wait(5_000)
    assert isinstance(harness.shard.group(GROUP), ClassicGroup)


def test_a_policy_may_forbid_either_way() -> None:
    for policy, up, down in (
        ("disabled", False, False),
        ("upgrade", True, False),
        ("downgrade", False, True),
    ):
        harness = ConsumerHarness(group_consumer_migration_policy=policy)
        client = ClassicClient(harness, "x", "t")
        classic_group(harness, client)
        log = len(harness.log)
        assert (harness.join("a", "t").error_code == 0) is up
        if not up:
            assert len(harness.log) == log and isinstance(harness.shard.group(GROUP), ClassicGroup)
        harness = ConsumerHarness(group_consumer_migration_policy=policy)
        harness.join("a", "t")
        ClassicClient(harness, "x", "t").arrive()
        harness.leave("a")
        assert isinstance(harness.shard.group(GROUP), ClassicGroup) is down


def test_classic_groups_that_cannot_be_upgraded() -> None:
    harness = ConsumerHarness()
    client = ClassicClient(harness, "x", "t")
    client.join(protocol_type="connect", protocols=[JoinGroupRequestProtocol(name="p", metadata=b"")])
    client.join(protocol_type="connect", protocols=[JoinGroupRequestProtocol(name="p", metadata=b"")])
    log = len(harness.log)
    assert harness.join("a", "t").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert len(harness.log) == log and [*harness.waiting] == ["x"]

    harness = ConsumerHarness()
    client = ClassicClient(harness, "x", "t")
    for _ in range(2):
        client.join(protocols=[JoinGroupRequestProtocol(name="p", metadata=b"\0\1nonsense")])
    assert harness.join("a", "t").error_code == ErrorCode.GROUP_ID_NOT_FOUND

    harness = ConsumerHarness(group_consumer_max_size="1")
    classic_group(harness, ClassicClient(harness, "x", "t"))
    assert harness.join("a", "t").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_an_empty_classic_group_makes_way() -> None:
    harness = ConsumerHarness()
    client = ClassicClient(harness, "x", "t")
    classic_group(harness, client)
    client.leave()
    harness.transcript()
    harness.join("a", "t")
    assert harness.transcript()[:3] == ["(no classic group)", "(a reads t)", "(group epoch 1)"]


def test_an_empty_consumer_group_makes_way() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t")
    harness.leave("a")
    harness.transcript()
    client = ClassicClient(harness, "x", "t")
    assert client.join() == ErrorCode.MEMBER_ID_REQUIRED
    assert harness.transcript() == [
        "(no TargetAssignmentMetadata)",
        "(no Metadata)",
        "(classic generation 0)",
    ]
    assert client.join() is None
    harness.wait(10_000)
    assert isinstance(harness.shard.group(GROUP), ClassicGroup)


def test_a_classic_member_joins_a_consumer_group() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t")
    harness.ack("a")
    harness.wait(1000)
    client = ClassicClient(harness, "x", "t")
    assert client.join() == ErrorCode.MEMBER_ID_REQUIRED
    assert client.join() == ErrorCode.NONE
    assert (client.response.protocol_name, client.response.leader, client.response.members) == (
        PROTOCOL,
        "",
        [],
    )
    assert client.generation == 2
    assert client.sync() == ErrorCode.NONE and client.owned == {}
    # What it should have is not free yet; when it is, a rebalance is called for.
    assert client.heartbeat() == ErrorCode.NONE
    harness.beat("a")
    assert client.heartbeat() == ErrorCode.NONE
    harness.ack("a")
    assert client.follow() and client.owned == {"t": [2, 3]}
    assert not client.follow() and harness.group.state_name == "Stable"
    # Another leaves: the next heartbeat says so.
    harness.wait(1000)
    harness.join("b", "t")
    assert client.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_classic_member_revokes_and_joins_again() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t")
    harness.leave("a")
    harness.join("a", "u")
    client = ClassicClient(harness, "x", "t")
    client.arrive()
    harness.wait(1000)
    client.follow()
    assert client.owned == {"t": [0, 1, 2, 3]}
    harness.wait(1000)
    harness.beat("a", subscribed_topic_names=["t"])
    assert client.follow() and client.owned == {"t": [0, 1]}
    # It has to confirm the revocation by rejoining.
    harness.beat("a")
    assert harness.owned["a"] == {}
    assert client.follow() and client.owned == {"t": [0, 1]}
    assert not client.follow()
    harness.beat("a")
    assert harness.owned["a"] == {"t": [2, 3]}


def test_classic_members_that_do_not_follow_are_gone() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t")
    harness.wait(1000)
    client = ClassicClient(harness, "x", "t")
    client.join()
    client.join()

    def pass_time(duration_ms: int) -> None:
        for _ in range(duration_ms // 10_000):
            harness.wait(10_000)
            harness.ack("a")
            client.heartbeat()

    # It does not sync.
    pass_time(50_000)
    assert client.member_id in harness.group.members
    pass_time(10_000)
    assert client.member_id not in harness.group.members
    # It does not rejoin when required to.
    client = ClassicClient(harness, "x", "t")
    client.arrive()
    harness.wait(1000)
    assert client.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    pass_time(50_000)
    assert client.member_id in harness.group.members
    pass_time(10_000)
    assert client.member_id not in harness.group.members
    # It says nothing any more.
    client = ClassicClient(harness, "x", "t")
    client.arrive()
    for _ in range(3):
        harness.wait(10_000)
        harness.beat("a")
    assert client.member_id not in harness.group.members


def test_refusals_of_classic_members() -> None:
    harness = ConsumerHarness(group_consumer_max_size="3")
    harness.join("a", "t", instance_id="i")
    client = ClassicClient(harness, "x", "t")
    client.arrive()
    subscription = client.harness.group.members[client.member_id].classic
    assert subscription is not None
    metadata = subscription.supported_protocols[0].metadata
    for changes in (
        {"protocol_type": "connect"},
        {"protocols": [JoinGroupRequestProtocol(name=PROTOCOL, metadata=b"")]},
        {"protocols": []},
    ):
        assert client.join(**changes) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    other = ClassicClient(harness, "y", "t")
    stranger = [JoinGroupRequestProtocol(name="other", metadata=metadata)]
    assert other.join(protocols=stranger) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert client.heartbeat(generation_id=77) == ErrorCode.ILLEGAL_GENERATION
    assert client.heartbeat(member_id="who") == ErrorCode.UNKNOWN_MEMBER_ID
    assert client.heartbeat(member_id="a", generation_id=1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert client.heartbeat(group_instance_id="i") == ErrorCode.FENCED_INSTANCE_ID
    assert client.sync(generation_id=77) == ErrorCode.ILLEGAL_GENERATION
    assert client.sync(member_id="who") == ErrorCode.UNKNOWN_MEMBER_ID
    assert client.sync(protocol_name="range") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert client.sync(protocol_type="connect") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert client.leave(member_id="who") == ErrorCode.UNKNOWN_MEMBER_ID
    assert client.leave(member_id="a") == ErrorCode.UNKNOWN_MEMBER_ID
    assert client.leave(group_instance_id="i") == ErrorCode.FENCED_INSTANCE_ID
    assert client.leave(group_instance_id="j") == ErrorCode.UNKNOWN_MEMBER_ID
    assert client.join(group_instance_id="j") == ErrorCode.UNKNOWN_MEMBER_ID
    assert client.join(group_instance_id="i") == ErrorCode.FENCED_INSTANCE_ID
    harness.join("c", "t")
    assert other.join() == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert client.leave() == ErrorCode.NONE
    # An admin removes static members of either protocol.
    assert client.leave(member_id="", group_instance_id="i") == ErrorCode.NONE
    assert [*harness.group.members] == ["c"]


def test_commits_of_classic_members() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t")
    client = ClassicClient(harness, "x", "t")
    client.arrive()
    check = harness.group.check_offset_commit
    assert check(client.member_id, None, client.generation, 8, False) == ErrorCode.NONE
    assert check(client.member_id, None, client.generation - 1, 8, False) == ErrorCode.ILLEGAL_GENERATION


def test_a_static_member_changes_its_protocol() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t", instance_id="i")
    harness.join("b", "t")
    harness.settle("a", "b")
    had = harness.owned["a"]
    # Down: the new process speaks the old protocol. It has what the instance had.
    client = ClassicClient(harness, "x", "t", instance_id="i")
    assert client.join() == ErrorCode.NONE and client.sync() == ErrorCode.NONE
    assert client.owned == had and harness.group.epoch == 2 and "a" not in harness.group.members
    # And up again, without a word of the old process.
    harness.join("a2", "t", instance_id="i")
    assert harness.owned["a2"] == had and harness.group.epoch == 2
    assert client.heartbeat() == ErrorCode.FENCED_INSTANCE_ID


def test_the_last_static_member_of_the_new_protocol_becomes_a_classic_group() -> None:
    harness = ConsumerHarness()
    harness.join("a", "t", instance_id="i")
    client = ClassicClient(harness, "x", "t", instance_id="i")
    assert client.join() == ErrorCode.NONE
    group = harness.shard.group(GROUP)
    assert isinstance(group, ClassicGroup) and group.state_name == "Stable"
    assert client.sync() == ErrorCode.NONE and client.owned == {"t": [0, 1, 2, 3]}
    assert client.heartbeat() == ErrorCode.NONE


def test_partitions_in_transit_find_an_owner_when_the_group_is_downgraded() -> None:
    """The classic group knows of no targets: partitions that were to go from the one to the other would have
    no owner until a member triggers a rebalance."""
    harness = ConsumerHarness()
    harness.join("a", "t", instance_id="i")
    harness.ack("a")
    harness.wait(1000)
    waiting = ClassicClient(harness, "x", "t")
    assert waiting.join() == ErrorCode.MEMBER_ID_REQUIRED
    assert waiting.join() == ErrorCode.NONE
    assert waiting.sync() == ErrorCode.NONE and waiting.owned == {}
    back = ClassicClient(harness, "y", "t", instance_id="i")
    assert back.join() == ErrorCode.NONE
    group = harness.shard.group(GROUP)
    assert isinstance(group, ClassicGroup) and group.state_name == "PreparingRebalance"
    assert back.sync() == ErrorCode.REBALANCE_IN_PROGRESS
    assert waiting.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS


def test_an_upgrade_of_a_static_member() -> None:
    harness = ConsumerHarness()
    client = ClassicClient(harness, "x", "t", instance_id="i")
    classic_group(harness, client)
    harness.join("a", "t", instance_id="i")
    assert harness.owned["a"] == {"t": [0, 1, 2, 3]} and [*harness.group.members] == ["a"]
    assert client.heartbeat() == ErrorCode.FENCED_INSTANCE_ID


def test_eager_members_own_nothing_when_they_join() -> None:
    harness = ConsumerHarness()
    harness.join("a", "u")
    eager = ClassicClient(harness, "x", "t")
    eager.arrive()
    harness.wait(1000)
    eager.follow()
    assert eager.owned == {"t": [0, 1, 2, 3]}
    harness.wait(1000)
    harness.beat("a", subscribed_topic_names=["t"])
    assert eager.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    eager.owned = {}
    assert eager.join() == ErrorCode.NONE and eager.sync() == ErrorCode.NONE
    assert eager.owned == {"t": [0, 1]} and not eager.follow()
    harness.beat("a")
    assert harness.owned["a"] == {"t": [2, 3]}


def test_a_rebalance_that_was_broken_off_forgets_no_owner() -> None:
    """Cooperative members keep what they have while they join, when the group has no assignment."""
    harness = ConsumerHarness()
    old = [ClassicClient(harness, "x", "t"), ClassicClient(harness, "y", "t")]
    classic_group(harness, *old)
    # A new generation begins, and before its leader has assigned, a member leaves.
    assert old[0].join() is None
    assert old[1].join() == ErrorCode.NONE and old[0].hear() == ErrorCode.NONE
    old[1].leave()
    group = harness.shard.group(GROUP)
    assert isinstance(group, ClassicGroup) and group.state_name == "PreparingRebalance"
    assert [member.assignment for member in group.members.values()] == [b""]
    harness.join("a", "t")
    assert harness.group.members[old[0].member_id].assigned == {harness.id("t"): {0: 2, 1: 2}}
    assert not {0, 1} & set(harness.owned["a"].get("t", []))
