"""The uniform assignor: every partition has one owner, loads are even, and little moves."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.groups.assignors import MemberSpec, TopicSpec, assign_uniform

Assignment = dict[str, dict[bytes, tuple[int, ...]]]

A, B, C, D = (bytes([letter]) * 16 for letter in b"abcd")


def owners_of(assignment: Assignment) -> dict[tuple[bytes, int], str]:
    owners: dict[tuple[bytes, int], str] = {}
    for member_id, by_topic in assignment.items():
        for topic_id, partitions in by_topic.items():
            assert list(partitions) == sorted(set(partitions)) and partitions
            for partition in partitions:
                assert (topic_id, partition) not in owners, "two owners"
                owners[topic_id, partition] = member_id
    return owners


def loads_of(assignment: Assignment) -> dict[str, int]:
    return {
        member_id: sum(len(partitions) for partitions in by_topic.values())
        for member_id, by_topic in assignment.items()
    }


def check_one_owner(
    assignment: Assignment, members: Mapping[str, MemberSpec], topics: Mapping[bytes, TopicSpec]
) -> None:
    assert assignment.keys() == members.keys()
    owners = owners_of(assignment)
    subscribed = {topic_id for spec in members.values() for topic_id in spec.subscribed} & topics.keys()
    assert owners.keys() == {
        (topic_id, partition)
        for topic_id in subscribed
        for partition in range(topics[topic_id].partition_count)
    }
    for (topic_id, _), member_id in owners.items():
        assert topic_id in members[member_id].subscribed


def kept(before: Mapping[str, MemberSpec], after: Assignment) -> int:
    return sum(
        len(set(partitions) & set(after[member_id].get(topic_id, ())))
        for member_id, spec in before.items()
        for topic_id, partitions in spec.current.items()
    )


def fewest_moves_possible(members: Mapping[str, MemberSpec], topics: Mapping[bytes, TopicSpec]) -> int:
    """How many of the present partitions a balanced assignment can keep when all subscribe to everything."""
    total = sum(topic.partition_count for topic in topics.values())
    quota, larger = divmod(total, len(members))
    valid = [
        sum(
            partition < topics[topic_id].partition_count
            for topic_id, partitions in spec.current.items()
            if topic_id in topics
            for partition in partitions
        )
        for spec in members.values()
    ]
    return sum(min(each, quota) for each in valid) + min(larger, sum(each > quota for each in valid))


topic_maps = st.dictionaries(st.sampled_from([A, B, C, D]), st.integers(0, 9).map(TopicSpec), max_size=4)
member_ids = st.lists(
    st.sampled_from([f"m{number}" for number in range(9)]), min_size=1, max_size=8, unique=True
)


@st.composite
def groups(draw: st.DrawFn, *, mixed: bool) -> tuple[dict[str, MemberSpec], dict[bytes, TopicSpec]]:
    """Members whose present partitions are anything that was once valid: no partition is held twice."""
    topics = draw(topic_maps)
    ids = draw(member_ids)
    choice = st.lists(st.sampled_from([A, B, C, D]), max_size=4, unique=True).map(tuple)
    same = draw(choice)
    held: dict[str, dict[bytes, list[int]]] = {member_id: {} for member_id in ids}
    for topic_id in (A, B, C, D):
        for partition in range(draw(st.integers(0, 9))):
            owner = draw(st.sampled_from([*ids, None]))
            if owner is not None:
                held[owner].setdefault(topic_id, []).append(partition)
    members = {member_id: MemberSpec(draw(choice) if mixed else same, held[member_id]) for member_id in ids}
    return members, topics


@given(groups(mixed=False))
def test_equal_subscriptions_are_even_and_move_no_more_than_they_must(
    group: tuple[dict[str, MemberSpec], dict[bytes, TopicSpec]],
) -> None:
    members, topics = group
    assignment = assign_uniform(members, topics)
    check_one_owner(assignment, members, topics)
    loads = loads_of(assignment).values()
    assert max(loads) - min(loads) <= 1
    wanted = next(iter(members.values())).subscribed
    of_interest = {topic_id: topic for topic_id, topic in topics.items() if topic_id in wanted}
    assert kept(members, assignment) == fewest_moves_possible(members, of_interest)


def reaches(assignment: Assignment, members: Mapping[str, MemberSpec], start: str) -> set[str]:
    """Members that could pass a partition on to `start`, over any number of members."""
    seen, todo = {start}, [start]
    while todo:
        taker = todo.pop()
        for member_id, by_topic in assignment.items():
            if member_id not in seen and set(by_topic) & set(members[taker].subscribed):
                seen.add(member_id)
                todo.append(member_id)
    return seen


@given(groups(mixed=True))
@settings(max_examples=200)
def test_mixed_subscriptions_are_as_even_as_they_can_be(
    group: tuple[dict[str, MemberSpec], dict[bytes, TopicSpec]],
) -> None:
    members, topics = group
    assignment = assign_uniform(members, topics)
    check_one_owner(assignment, members, topics)
    loads = loads_of(assignment)
    for member_id in members:
        for giver in reaches(assignment, members, member_id):
            assert loads[giver] <= loads[member_id] + 1, (giver, member_id)


@given(st.booleans().flatmap(lambda mixed: groups(mixed=mixed)))
def test_a_settled_group_stays_as_it_is(group: tuple[dict[str, MemberSpec], dict[bytes, TopicSpec]]) -> None:
    members, topics = group
    settled = assign_uniform(members, topics)
    again = {
        member_id: MemberSpec(spec.subscribed, settled[member_id]) for member_id, spec in members.items()
    }
    assert assign_uniform(again, topics) == settled


@given(groups(mixed=True))
def test_the_order_of_members_and_topics_says_nothing(
    group: tuple[dict[str, MemberSpec], dict[bytes, TopicSpec]],
) -> None:
    members, topics = group
    turned = dict(reversed(members.items())), dict(reversed(topics.items()))
    assert assign_uniform(*turned) == assign_uniform(members, topics)


def test_members_that_list_the_same_topics_in_different_orders() -> None:
    topics = {A: TopicSpec(1), B: TopicSpec(1)}
    members = {"m1": MemberSpec((A, B)), "m2": MemberSpec((B, A))}
    turned = dict(reversed(members.items()))
    assert assign_uniform(turned, topics) == assign_uniform(members, topics)


def test_members_come_and_go() -> None:
    topics = {A: TopicSpec(12)}
    members: dict[str, MemberSpec] = {}
    moved = []
    for number in range(8):
        members[f"m{number}"] = MemberSpec((A,))
        after = assign_uniform(members, topics)
        had = sum(len(partitions) for spec in members.values() for partitions in spec.current.values())
        moved.append(had - kept(members, after))
        members = {member_id: MemberSpec((A,), after[member_id]) for member_id in members}
    # A newcomer takes its share from the others, and nothing else moves.
    assert moved == [0, 6, 4, 3, 2, 2, 1, 1]
    for number in range(7):
        del members[f"m{number}"]
        after = assign_uniform(members, topics)
        assert kept(members, after) == sum(len(spec.current[A]) for spec in members.values())
        members = {member_id: MemberSpec((A,), after[member_id]) for member_id in members}
    assert members["m7"].current == {A: tuple(range(12))}


def test_more_members_than_partitions_leave_some_idle() -> None:
    assignment = assign_uniform({f"m{number}": MemberSpec((A,)) for number in range(5)}, {A: TopicSpec(3)})
    assert sorted(loads_of(assignment).values()) == [0, 0, 1, 1, 1]


def test_a_fresh_group_spreads_every_topic() -> None:
    members = {f"m{number}": MemberSpec((A, B)) for number in range(3)}
    assignment = assign_uniform(members, {A: TopicSpec(3), B: TopicSpec(3)})
    assert all(len(partitions) == 1 for by_topic in assignment.values() for partitions in by_topic.values())


def test_no_members_and_unknown_topics() -> None:
    assert assign_uniform({}, {A: TopicSpec(3)}) == {}
    assert assign_uniform({"m": MemberSpec((B,))}, {A: TopicSpec(3)}) == {"m": {}}


def test_partitions_pass_along_a_chain_of_members() -> None:
    """The first shares no topic with the last; the middle gives of one topic what it takes of another."""
    members = {
        "first": MemberSpec((A,), {A: (0, 1)}),
        "middle": MemberSpec((A, B), {B: (0,)}),
        "last": MemberSpec((B,)),
    }
    assignment = assign_uniform(members, {A: TopicSpec(2), B: TopicSpec(1)})
    assert assignment == {"first": {A: (0,)}, "middle": {A: (1,)}, "last": {B: (0,)}}


def test_moved_partitions_go_to_a_rack_with_a_replica() -> None:
    racks = [("r1", "r2"), ("r2", "r3"), ("r3", "r1"), ("r1",), ("r2",), ("r3",)]
    members = {
        "x": MemberSpec((A,), rack_id="r3"),
        "y": MemberSpec((A,), rack_id="r1"),
        "z": MemberSpec((A,), rack_id="r2"),
    }
    topics = {A: TopicSpec(6, racks)}
    assignment = assign_uniform(members, topics)
    for (_, partition), member_id in owners_of(assignment).items():
        assert members[member_id].rack_id in racks[partition]
    # A second topic makes the group a mixed one.
    members["w"] = MemberSpec((A, B))
    check_one_owner(assign_uniform(members, topics | {B: TopicSpec(2)}), members, topics | {B: TopicSpec(2)})


def test_racks_move_no_settled_partitions() -> None:
    topics = {A: TopicSpec(2, [("r1",), ("r2",)])}
    members = {
        "x": MemberSpec((A,), {A: (1,)}, rack_id="r1"),
        "y": MemberSpec((A,), {A: (0,)}, rack_id="r2"),
    }
    assert assign_uniform(members, topics) == {"x": {A: (1,)}, "y": {A: (0,)}}


def test_racks_choose_the_partitions_to_revoke() -> None:
    topics = {A: TopicSpec(4, [("r1",), ("r2",), ("r1",), ("r2",)])}
    members = {
        "x": MemberSpec((A,), {A: (0, 1, 2, 3)}, rack_id="r2"),
        "y": MemberSpec((A,), rack_id="r1"),
    }
    assert assign_uniform(members, topics) == {"x": {A: (1, 3)}, "y": {A: (0, 2)}}


def test_a_hundred_members_and_a_thousand_partitions_take_no_time() -> None:
    topics = {bytes([number]) * 16: TopicSpec(100) for number in range(10)}
    everything = tuple(topics)
    members = {f"m{number}": MemberSpec(everything) for number in range(100)}
    mixed = {f"m{number}": MemberSpec(everything[number % 7 :]) for number in range(100)}
    for group in (members, mixed):
        start = perf_counter()
        assignment = assign_uniform(group, topics)
        # A few milliseconds on an idle machine; the bound is for a busy one and for a wrong order of growth.
        assert perf_counter() - start < 0.5
        check_one_owner(assignment, group, topics)
