"""Decides on the life of brokers: registration, heartbeats, silence, leaving.

    registered, fenced --heartbeat, caught up with its registration--> active
    active --silent for the session timeout, or on request--> fenced
    active --requests shutdown--> in controlled shutdown --leads nothing--> may stop

A broker that stopped cleanly says so when it registers (`previous_broker_epoch`). One that did not may
have lost the end of its logs, so it does not count as in sync any more.

A broker's epoch is the offset of the record of its registration, so it grows with every start of the
broker and distinguishes old commands from current ones.
"""

from __future__ import annotations

from ottla.controller.context import Context
from ottla.controller.directories import DIRECTORY_IDS_RESERVED, directory_of
from ottla.controller.elections import (
    Changes,
    all_partitions,
    broker_arrives,
    broker_leaves,
    broker_restarts_uncleanly,
    directories_leave,
    must_hand_over,
)
from ottla.controller.image_parts import BrokerImage
from ottla.controller.refusal import Refusal
from ottla.machines.outcome import Outcome
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ottla.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from ottla.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from ottla.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from ottla.protocol.messages.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from ottla.protocol.messages.unregister_broker_record import UnregisterBrokerRecord
from ottla.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from ottla.protocol.messages.unregister_broker_response import UnregisterBrokerResponse

FENCE, UNFENCE = 1, -1


def decide_register_broker(
    context: Context,
    request: BrokerRegistrationRequest,
    now_ms: int,
    next_offset: int,
    *,
    lost_contact: bool = False,
) -> Outcome[BrokerRegistrationResponse]:
    """`next_offset` is the offset of the first record of this decision in the metadata log.
    `lost_contact`: the connection of the broker that is registered under this id is closed, so one that was
    killed and comes back with its directories need not wait for the end of its old session."""
    try:
        _check_registration(context, request)
        _check_duplicate(context, request, now_ms, lost_contact)
    except Refusal as refusal:
        return Outcome(BrokerRegistrationResponse(error_code=refusal.code))
    broker_id = request.broker_id
    existing = context.image.brokers.get(broker_id)
    record = _registration_record(request)
    if existing is not None and existing.incarnation_id == request.incarnation_id:
        record.broker_epoch = existing.epoch
        record.fenced = existing.fenced
        record.in_controlled_shutdown = existing.in_controlled_shutdown
        changes: Changes = ([], [])
    elif existing is not None and request.previous_broker_epoch == existing.epoch:
        changes = broker_leaves(context, broker_id, keep_single=True)
    else:
        changes = broker_restarts_uncleanly(context, broker_id)
    records, unclean_elections = changes
    if record.broker_epoch < 0:
        record.broker_epoch = next_offset + len(records)
    records.append(record)
    context.soft.broker_registered(broker_id, now_ms)
    return Outcome(
        BrokerRegistrationResponse(broker_epoch=record.broker_epoch),
        records=records,
        effects=unclean_elections,
    )


def _check_duplicate(
    context: Context, request: BrokerRegistrationRequest, now_ms: int, lost_contact: bool
) -> None:
    """Two live brokers must not share an id: the one that is alive keeps it."""
    existing = context.image.brokers.get(request.broker_id)
    if existing is None or existing.incarnation_id == request.incarnation_id:
        return
    if existing.fenced or existing.in_controlled_shutdown:
        return
    if lost_contact and not set(existing.log_dirs).isdisjoint(request.log_dirs):
        return  # a directory is locked by its broker: there is only one
    last_ms = context.soft.last_contact_ms.get(request.broker_id)
    session_ms = context.config.get_int("broker.session.timeout.ms")
    if last_ms is not None and now_ms - last_ms < session_ms:
        text = f"Another broker {request.broker_id} is alive."
        raise Refusal(ErrorCode.DUPLICATE_BROKER_REGISTRATION, text)


def _check_registration(context: Context, request: BrokerRegistrationRequest) -> None:
    image = context.image
    broker_id = request.broker_id
    if request.cluster_id != context.cluster_id:
        text = f"This is the cluster {context.cluster_id}, not {request.cluster_id}."
        raise Refusal(ErrorCode.INCONSISTENT_CLUSTER_ID, text)
    if request.is_migrating_zk_broker:
        raise Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, "Brokers of ZooKeeper clusters cannot register.")
    directories = request.log_dirs
    reserved = any(int.from_bytes(each) < DIRECTORY_IDS_RESERVED for each in directories)
    if not directories or reserved or len(set(directories)) != len(directories):
        raise Refusal(
            ErrorCode.INVALID_REGISTRATION, "The ids of the log directories must be real and distinct."
        )
    for other in image.brokers.values():
        if other.broker_id != broker_id and set(other.log_dirs) & set(directories):
            text = f"Broker {other.broker_id} is registered with the same log directory."
            raise Refusal(ErrorCode.INVALID_REGISTRATION, text)
    offered = {
        each.name: (each.min_supported_version, each.max_supported_version) for each in request.features
    }
    for name, level in image.features.items():
        low, high = offered.get(name, (0, 0))
        if not low <= level <= high:
            text = f"The broker supports {name} from {low} to {high}; the cluster has {level}."
            raise Refusal(ErrorCode.UNSUPPORTED_VERSION, text)


def _registration_record(request: BrokerRegistrationRequest) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=-1,
        end_points=[
            BrokerEndpoint(
                name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol
            )
            for each in request.listeners
        ],
        features=[
            BrokerFeature(
                name=each.name,
                min_supported_version=each.min_supported_version,
                max_supported_version=each.max_supported_version,
            )
            for each in request.features
        ],
        rack=request.rack,
        fenced=True,
        log_dirs=list(request.log_dirs),
    )


def decide_broker_heartbeat(
    context: Context, request: BrokerHeartbeatRequest, now_ms: int, next_offset: int | None = None
) -> Outcome[BrokerHeartbeatResponse]:
    """Renews the session, and moves the broker on in its life as it wishes and can. With `next_offset`,
    the end of the metadata log, a broker that shuts down waits until the others know the new leaders."""
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
        changes = _fence(context, broker)
        reply.is_fenced = True
    elif broker.in_controlled_shutdown:
        pass  # there is no way back from it but a new registration
    elif not request.want_fence and broker.fenced and caught_up:
        records, unclean_elections = broker_arrives(context, broker_id)
        changes = [_change(broker, fenced=UNFENCE), *records], unclean_elections
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
            return [_change(broker, fenced=FENCE, in_controlled_shutdown=1), *records], unclean_elections
        records.insert(0, _change(broker, in_controlled_shutdown=1))
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
    return [_change(broker, fenced=FENCE), *records], unclean_elections


def _directories(context: Context, broker: BrokerImage, request: BrokerHeartbeatRequest) -> Changes:
    """Directories that the broker lost since it registered, and those that shall take no new partitions."""
    lost = frozenset(request.offline_log_dirs) & frozenset(broker.log_dirs)
    if _all_offline(broker, request):
        return _fence(context, broker) if not broker.fenced else ([], [])
    cordoned = request.cordoned_log_dirs
    new_cordon = cordoned is not None and tuple(cordoned) != (broker.cordoned_log_dirs or ())
    if not lost and not new_cordon:
        return [], []
    change = _change(broker)
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
            records, unclean_elections = _fence(context, broker)
            return Outcome([broker.broker_id], records=records, effects=unclean_elections)
    return Outcome([])


def decide_fence_broker(context: Context, broker_id: int, broker_epoch: int) -> Outcome[bool]:
    """Fences a broker that is known to be gone, without waiting for the end of its session. The reply says
    whether it was fenced: a broker that registered again, or is fenced, is left alone."""
    broker = context.image.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch or broker.fenced:
        return Outcome(False)
    records, unclean_elections = _fence(context, broker)
    return Outcome(True, records=records, effects=unclean_elections)


def decide_unregister_broker(
    context: Context, request: UnregisterBrokerRequest
) -> Outcome[UnregisterBrokerResponse]:
    broker = context.image.brokers.get(request.broker_id)
    if broker is None:
        text = f"Broker ID {request.broker_id} is not currently registered."
        code = ErrorCode.BROKER_ID_NOT_REGISTERED
        return Outcome(UnregisterBrokerResponse(error_code=code, error_message=text))
    records, unclean_elections = broker_leaves(context, broker.broker_id)
    records.append(UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch))
    context.soft.forget_broker(broker.broker_id)
    return Outcome(UnregisterBrokerResponse(error_message=None), records=records, effects=unclean_elections)


def _fence(context: Context, broker: BrokerImage) -> Changes:
    records, unclean_elections = broker_leaves(context, broker.broker_id)
    return [_change(broker, fenced=FENCE), *records], unclean_elections


def _change(
    broker: BrokerImage, *, fenced: int = 0, in_controlled_shutdown: int = 0
) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
    )
