"""Decides BrokerHeartbeat: sessions, unfencing, controlled shutdown, lost directories."""

from __future__ import annotations

from ottla.controller.brokers.fencing import FENCE, UNFENCE, fence, registration_change
from ottla.controller.context import Context
from ottla.controller.image.parts import BrokerImage
from ottla.controller.image.queries import all_partitions
from ottla.controller.partitions.broker_changes import (
    broker_arrives,
    broker_leaves,
    directories_leave,
    must_hand_over,
)
from ottla.controller.partitions.change import Changes
from ottla.controller.partitions.directories import directory_of
from ottla.machines.outcome import Outcome
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ottla.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse


def decide_broker_heartbeat(
    context: Context, request: BrokerHeartbeatRequest, now_ms: int, next_offset: int | None = None
) -> Outcome[BrokerHeartbeatResponse]:
    """Renew the session, and make the change of state that the broker requests, if it can be made. With
    `next_offset`, the end of the metadata log, a broker that shuts down waits until the others know the new
    leaders."""
    broker = context.image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        code = ErrorCode.BROKER_ID_NOT_REGISTERED if broker is None else ErrorCode.STALE_BROKER_EPOCH
        return Outcome(BrokerHeartbeatResponse(error_code=code))
    broker_id = broker.broker_id
    context.soft.last_contact_ms[broker_id] = now_ms
    context.soft.metadata_offset[broker_id] = request.current_metadata_offset
    caught_up = request.current_metadata_offset >= broker.epoch
    reply = BrokerHeartbeatResponse(is_caught_up=caught_up, is_fenced=broker.fenced)
    changes: Changes = ([], [])
    if request.want_shut_down:
        changes = _shut_down(context, broker, reply, next_offset)
    elif request.want_fence and not broker.fenced:
        changes = fence(context, broker)
        reply.is_fenced = True
    elif broker.in_controlled_shutdown:
        pass  # it ends with a new registration only
    elif not request.want_fence and broker.fenced and caught_up:
        records, unclean_elections = broker_arrives(context, broker_id)
        changes = [registration_change(broker, fenced=UNFENCE), *records], unclean_elections
        reply.is_fenced = False
    if not changes[0]:
        # What the directories need waits for the next heartbeat if the broker itself changed now.
        changes = _directories(context, broker, request)
        reply.is_fenced = reply.is_fenced or _all_offline(broker, request)
    return Outcome(reply, records=changes[0], effects=changes[1])


def _shut_down(
    context: Context, broker: BrokerImage, reply: BrokerHeartbeatResponse, next_offset: int | None
) -> Changes:
    broker_id = broker.broker_id
    if broker.fenced:
        reply.should_shut_down = True
        return [], []
    if not broker.in_controlled_shutdown:
        records, unclean_elections = broker_leaves(context, broker_id, keep_single=True)
        if context.image.active_brokers() == [broker_id]:
            # The last broker has no successor to wait for.
            reply.should_shut_down = reply.is_fenced = True
            return [
                registration_change(broker, fenced=FENCE, in_controlled_shutdown=1),
                *records,
            ], unclean_elections
        records.insert(0, registration_change(broker, in_controlled_shutdown=1))
        if next_offset is not None:
            context.soft.drained_offset[broker_id] = next_offset + len(records) - 1
        return records, unclean_elections
    if must_hand_over(context.image, broker_id):
        return broker_leaves(context, broker_id, keep_single=True)
    drained = context.soft.drained_offset.get(broker_id, -1)
    known = context.soft.metadata_offset
    if any(known.get(each, -1) < drained for each in context.image.active_brokers()):
        return [], []
    reply.should_shut_down = True
    reply.is_fenced = True
    records, unclean_elections = broker_leaves(context, broker_id, keep_single=True)
    return [registration_change(broker, fenced=FENCE), *records], unclean_elections


def _directories(context: Context, broker: BrokerImage, request: BrokerHeartbeatRequest) -> Changes:
    """Directories that the broker lost since it registered, and those that shall take no new partitions."""
    lost = frozenset(request.offline_log_dirs) & frozenset(broker.log_dirs)
    if _all_offline(broker, request):
        return fence(context, broker) if not broker.fenced else ([], [])
    cordoned = request.cordoned_log_dirs
    new_cordon = cordoned is not None and tuple(cordoned) != (broker.cordoned_log_dirs or ())
    if not lost and not new_cordon:
        return [], []
    change = registration_change(broker)
    if new_cordon:
        change.cordoned_log_dirs = cordoned
    if not lost:
        return [change], []
    change.log_dirs = [each for each in broker.log_dirs if each not in lost]
    on_lost = [
        (topic, number)
        for topic, number, partition in all_partitions(context.image)
        if broker.broker_id in partition.replicas and directory_of(partition, broker.broker_id) in lost
    ]
    records, unclean_elections = directories_leave(context, broker.broker_id, on_lost)
    return [change, *records], unclean_elections


def _all_offline(broker: BrokerImage, request: BrokerHeartbeatRequest) -> bool:
    return bool(broker.log_dirs) and set(broker.log_dirs) <= set(request.offline_log_dirs)
