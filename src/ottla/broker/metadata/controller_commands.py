"""The requests that the active controller answers, and the decision that each of them is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.metadata.controller_loop import Decide

# The decision of the Controller by API key.
_DECISIONS = {
    19: "decide_create_topics",
    20: "decide_delete_topics",
    33: "decide_alter_configs",
    37: "decide_create_partitions",
    43: "decide_elect_leaders",
    44: "decide_incremental_alter_configs",
    45: "decide_alter_partition_reassignments",
    46: "decide_list_partition_reassignments",
    56: "decide_alter_partition",
    57: "decide_update_features",
    62: "decide_register_broker",
    63: "decide_broker_heartbeat",
    64: "decide_unregister_broker",
    67: "decide_allocate_producer_ids",
    70: "decide_register_controller",
    73: "decide_assign_replicas_to_dirs",
}
_REGISTRATION, _HEARTBEAT = 62, 63

# Answered by the leader of the quorum itself: DescribeQuorum, AddRaftVoter, RemoveRaftVoter.
QUORUM_KEYS = frozenset((55, 80, 81))
COMMAND_KEYS = frozenset(_DECISIONS)


def decision_of(message: Message, lost_contact: Callable[[int], bool]) -> Decide:
    """How the controller decides on this request. `lost_contact` tells whether the connection of a broker is
    known to be closed."""
    name = _DECISIONS[message.API_KEY]
    if message.API_KEY == _REGISTRATION:
        broker_id: int = message.broker_id  # type: ignore[attr-defined]
        return lambda controller, now_ms, next_offset: controller.decide_register_broker(
            message,  # type: ignore[arg-type]
            now_ms,
            next_offset,
            lost_contact=lost_contact(broker_id),
        )
    if message.API_KEY == _HEARTBEAT:
        return lambda controller, now_ms, next_offset: getattr(controller, name)(message, now_ms, next_offset)
    return lambda controller, now_ms, _: getattr(controller, name)(message, now_ms)
