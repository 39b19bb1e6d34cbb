"""Fences brokers: those that are silent for the session timeout, and those known to be gone."""

from __future__ import annotations

from ottla.controller.context import Context
from ottla.controller.image.parts import BrokerImage
from ottla.controller.partitions.broker_changes import broker_leaves
from ottla.controller.partitions.change import Changes
from ottla.machines.outcome import Outcome
from ottla.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord

FENCE, UNFENCE = 1, -1


def decide_fence_silent_brokers(context: Context, now_ms: int) -> Outcome[list[int]]:
    """Fence a broker whose session has ended; the reply names it. Call it until the reply is empty: one at
    a time, because the next must see what this one changed in the partitions."""
    session_ms = context.config.get_int("broker.session.timeout.ms")
    for broker in context.image.brokers.values():
        if broker.fenced:
            continue
        # A new controller has had no heartbeats yet: sessions start at its first check.
        last_ms = context.soft.last_contact_ms.setdefault(broker.broker_id, now_ms)
        if now_ms - last_ms >= session_ms:
            records, unclean_elections = fence(context, broker)
            return Outcome([broker.broker_id], records=records, effects=unclean_elections)
    return Outcome([])


def decide_fence_broker(context: Context, broker_id: int, broker_epoch: int) -> Outcome[bool]:
    """Fence a broker that is known to be gone, without waiting for the end of its session. The reply says
    whether it was fenced: a broker that registered again, or is fenced, is left alone."""
    broker = context.image.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch or broker.fenced:
        return Outcome(False)
    records, unclean_elections = fence(context, broker)
    return Outcome(True, records=records, effects=unclean_elections)


def fence(context: Context, broker: BrokerImage) -> Changes:
    records, unclean_elections = broker_leaves(context, broker.broker_id)
    return [registration_change(broker, fenced=FENCE), *records], unclean_elections


def registration_change(
    broker: BrokerImage, *, fenced: int = 0, in_controlled_shutdown: int = 0
) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
    )
