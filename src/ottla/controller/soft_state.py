"""The controller's soft state: what it knows of brokers without a record in the metadata log.

It is not replicated: a new controller starts with an empty one, which gives every broker a fresh session. The
image never depends on it; decisions read it and write it.
"""

from __future__ import annotations


class SoftState:
    __slots__ = ("drained_offset", "last_contact_ms", "metadata_offset")

    def __init__(self) -> None:
        # When the last heartbeat or registration of each broker arrived.
        self.last_contact_ms: dict[int, int] = {}
        # How far each broker has applied the metadata log, from its heartbeats.
        self.metadata_offset: dict[int, int] = {}
        # For brokers in controlled shutdown: the offset that the others must have applied, so that they know
        # the new leaders.
        self.drained_offset: dict[int, int] = {}

    def broker_registered(self, broker_id: int, now_ms: int) -> None:
        self.last_contact_ms[broker_id] = now_ms
        self.metadata_offset.pop(broker_id, None)
        self.drained_offset.pop(broker_id, None)

    def forget_broker(self, broker_id: int) -> None:
        self.last_contact_ms.pop(broker_id, None)
        self.metadata_offset.pop(broker_id, None)
        self.drained_offset.pop(broker_id, None)
