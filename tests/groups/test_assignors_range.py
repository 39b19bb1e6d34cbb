"""The range assignor: contiguous ranges, and equal topics side by side."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.assignors import ASSIGNORS, MemberSpec, TopicSpec, assign_range

A, B, C = (bytes([letter]) * 16 for letter in b"abc")


def test_ranges_and_remainders() -> None:
    members = {name: MemberSpec((A, B)) for name in ("z", "x", "y")}
    assert assign_range(members, {A: TopicSpec(7), B: TopicSpec(2)}) == {
        "x": {A: (0, 1, 2), B: (0,)},
        "y": {A: (3, 4), B: (1,)},
        "z": {A: (5, 6)},
    }


def test_only_subscribers_get_ranges() -> None:
    members = {"x": MemberSpec((A, C)), "y": MemberSpec((A,)), "z": MemberSpec(())}
    assert assign_range(members, {A: TopicSpec(2), B: TopicSpec(2)}) == {
        "x": {A: (0,)},
        "y": {A: (1,)},
        "z": {},
    }
    assert assign_range({}, {A: TopicSpec(2)}) == {}


def test_a_static_member_has_its_place_by_its_instance_id() -> None:
    first = {"b": MemberSpec((A,), instance_id="i1"), "a": MemberSpec((A,), instance_id="i2")}
    restarted = {"c": MemberSpec((A,), instance_id="i1"), "a": MemberSpec((A,), instance_id="i2")}
    assert assign_range(first, {A: TopicSpec(2)}) == {"b": {A: (0,)}, "a": {A: (1,)}}
    assert assign_range(restarted, {A: TopicSpec(2)}) == {"c": {A: (0,)}, "a": {A: (1,)}}


@given(
    st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=6),
    st.integers(0, 20),
    st.integers(0, 20),
)
def test_every_partition_has_one_owner_in_ranges(
    subscriptions: list[tuple[bool, bool]], count_a: int, count_b: int
) -> None:
    members = {f"m{number}": MemberSpec((A,) * a + (B,) * b) for number, (a, b) in enumerate(subscriptions)}
    assignment = assign_range(members, {A: TopicSpec(count_a), B: TopicSpec(count_b)})
    for topic_id, count in ((A, count_a), (B, count_b)):
        shares = {m: assignment[m].get(topic_id, ()) for m in members if topic_id in members[m].subscribed}
        assert not [m for m in members if topic_id in assignment[m] and m not in shares]
        if shares:
            assert sorted(p for share in shares.values() for p in share) == list(range(count))
            sizes = [len(share) for share in shares.values()]
            assert max(sizes) - min(sizes) <= 1
        for share in shares.values():
            assert not share or share == tuple(range(share[0], share[-1] + 1))
    if count_a == count_b and all(a == b for a, b in subscriptions):
        assert all(by_topic.get(A) == by_topic.get(B) for by_topic in assignment.values())


def test_names() -> None:
    assert list(ASSIGNORS) == ["uniform", "range"]
