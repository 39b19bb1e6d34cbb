"""Each checker reports a violation in a small history made for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from simulator import checkers
from simulator.history.history import History
from simulator.history.operations import PartitionName
from simulator.runtime.trace import Trace

PARTITION = PartitionName("t", 0)


def good() -> History:
    """Two batches of one producer, read by a consumer and by the final reader."""
    history = History(Trace())
    history.invoke("admin", "create-topic", "t").ok(b"id")
    for offset, value in enumerate(("a", "b", "c")):
        history.invoke("p", "produce", PARTITION, (value,)).ok(offset)
        history.read("c", PARTITION, offset, value)
        history.saw_watermark("c", PARTITION, offset + 1, offset)
    history.final[PARTITION] = [(0, "a"), (1, "b"), (2, "c")]
    history.replicas[PARTITION] = {1: [(0, "a"), (1, "b")]}
    history.final_topics = {"t": b"id"}
    history.saw_leader(PARTITION, 1, 1)
    history.raft_leaders[1, 1] = None
    history.raft_leaders[2, 3] = None
    history.committed_metadata[10, 1] = None
    history.committed_metadata[12, 2] = None
    history.final_metadata = {1: {9: (1, 77), 11: (2, 78)}, 2: {9: (1, 77)}}
    history.producer_ids = [(1, "p"), (2, "q")]
    history.invoke("m", "admin", "config t", ("7",)).ok()
    history.final_facts = {"config t": "7"}
    # Deleted again: by an answer, and perhaps by a request that got none.
    for number, name in enumerate((b"u", b"v")):
        history.invoke("m", "create-topic", name.decode()).ok(name)
        if number:
            history.loose[f"topic {name.hex()}"] = [checkers.GONE]
        else:
            history.invoke("m", "admin", f"topic {name.hex()}", (checkers.GONE,)).ok()
    # The leader's word only: nobody promised to keep it.
    history.invoke("l", "produce-unreliable", PARTITION, ("x",)).ok(3)
    return history


def a_record_is_gone(history: History) -> None:
    history.final[PARTITION].pop()


def a_record_has_moved(history: History) -> None:
    history.final[PARTITION] = [(0, "a"), (1, "c"), (2, "b")]


def a_record_is_duplicated(history: History) -> None:
    history.final[PARTITION].append((3, "c"))


def a_record_was_never_written(history: History) -> None:
    history.final[PARTITION].append((3, "z"))


def a_reader_saw_another_value(history: History) -> None:
    history.read("d", PARTITION, 1, "c")


def a_gap(history: History) -> None:
    history.final[PARTITION][2] = (3, "c")


def the_watermark_goes_back(history: History) -> None:
    history.saw_watermark("c", PARTITION, 2, 3)


def another_leader_in_the_epoch(history: History) -> None:
    history.saw_leader(PARTITION, 1, 2)


def a_replica_differs(history: History) -> None:
    history.replicas[PARTITION][2] = [(0, "a"), (1, "c")]


def the_topic_is_gone(history: History) -> None:
    history.final_topics.clear()


def the_topic_has_another_id(history: History) -> None:
    history.final_topics["t"] = b"other"


def something_never_ends(history: History) -> None:
    history.invoke("p", "produce", PARTITION, ("d",))


def a_replica_stays_out_of_sync(history: History) -> None:
    history.invoke("admin", "in-sync", "t").fail()


def the_quorum_has_two_leaders(history: History) -> None:
    history.raft_leaders[2, 2] = None


def committed_metadata_is_replaced(history: History) -> None:
    history.committed_metadata[10, 2] = None


def metadata_differs(history: History) -> None:
    history.final_metadata[2][9] = (1, 78)


def a_config_change_is_lost(history: History) -> None:
    history.final_facts["config t"] = "6"


def a_deleted_topic_is_back(history: History) -> None:
    history.final_facts[f"topic {b'u'.hex()}"] = "there"


def an_unclean_leader(history: History) -> None:
    history.unclean_elections.append("3 leads t-0")


def a_producer_id_is_issued_twice(history: History) -> None:
    history.producer_ids.append((2, "r"))


def a_position_is_beyond_the_end(history: History) -> None:
    history.lost_position("c", PartitionName("t", 0), 9)


def a_surprise(history: History) -> None:
    history.surprise("c", "a checksum fails")


@pytest.mark.parametrize(
    ("spoil", "checker"),
    [
        (a_record_is_gone, checkers.lost_write),
        (a_record_is_gone, checkers.lost_read),
        (a_position_is_beyond_the_end, checkers.lost_position),
        (a_record_has_moved, checkers.lost_write),
        (a_record_has_moved, checkers.two_values),
        (a_record_has_moved, checkers.order),
        (a_record_is_duplicated, checkers.duplicate),
        (a_record_was_never_written, checkers.unwritten_read),
        (a_reader_saw_another_value, checkers.two_values),
        (a_gap, checkers.order),
        (the_watermark_goes_back, checkers.watermark_back),
        (another_leader_in_the_epoch, checkers.two_leaders),
        (a_replica_differs, checkers.replicas_differ),
        (the_topic_is_gone, checkers.lost_metadata),
        (the_topic_has_another_id, checkers.lost_metadata),
        (something_never_ends, checkers.unavailable),
        (a_replica_stays_out_of_sync, checkers.not_whole),
        (the_quorum_has_two_leaders, checkers.two_leaders),
        (committed_metadata_is_replaced, checkers.lost_commit),
        (metadata_differs, checkers.lost_commit),
        (a_config_change_is_lost, checkers.lost_metadata),
        (a_deleted_topic_is_back, checkers.lost_metadata),
        (an_unclean_leader, checkers.unclean_election),
        (a_producer_id_is_issued_twice, checkers.id_twice),
        (a_surprise, checkers.surprises),
    ],
)
def test_a_violation_is_reported(spoil: Callable[[History], None], checker: checkers.Checker) -> None:
    history = good()
    assert checker(history) == []
    spoil(history)
    assert checker(history)


def test_an_operation_without_a_response_may_take_effect_later() -> None:
    history = good()
    history.final_facts["config t"] = "6"
    history.loose["config t"] = ["6"]
    assert checkers.lost_metadata(history) == []


def test_a_good_history_has_no_complaints() -> None:
    assert checkers.check(good()) == []
