"""Decides on the life of brokers: registration, heartbeats, silence, leaving.

    registered, fenced --heartbeat, caught up with its registration--> active
    active --silence, or its wish--> fenced
    active --wants to stop--> in controlled shutdown --leads nothing--> may stop

A broker's epoch is the offset of the record of its registration, so it grows with every start of the
broker and tells commands of the past from those of the present.
"""

from __future__ import annotations

from ottla.controller.context import Context
from ottla.controller.decision import Decision, Refusal
from ottla.controller.elections import broker_arrives, broker_leaves, leads_any
from ottla.controller.image_parts import BrokerImage
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ottla.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from ottla.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from ottla.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from ottla.protocol.messages.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from ottla.protocol.messages.unregister_broker_record import UnregisterBrokerRecord
from ottla.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from ottla.protocol.messages.unregister_broker_response import UnregisterBrokerResponse

_DIRECTORY_IDS_RESERVED = 100  # the smallest ids stand for states of a directory, not for one
FENCE, UNFENCE = 1, -1


def decide_register_broker(
    context: Context, request: BrokerRegistrationRequest, now_ms: int, next_offset: int
) -> Decision[BrokerRegistrationResponse]:
    """`next_offset` is where the first record of this decision will stand in the metadata log."""
    try:
        _check_registration(context, request, now_ms)
    except Refusal as refusal:
        return Decision([], BrokerRegistrationResponse(error_code=refusal.code))
    existing = context.image.brokers.get(request.broker_id)
    same = existing is not None and existing.incarnation_id == request.incarnation_id
    records: list[Message] = []
    if existing is not None and not same:
        records += broker_leaves(context.image, request.broker_id)
    record = _registration_record(request)
    if existing is not None and same:
        record.broker_epoch = existing.epoch
        record.fenced = existing.fenced
        record.in_controlled_shutdown = existing.in_controlled_shutdown
    else:
        record.broker_epoch = next_offset + len(records)
    records.append(record)
    context.last_contact_ms[request.broker_id] = now_ms
    return Decision(records, BrokerRegistrationResponse(broker_epoch=record.broker_epoch))


def _check_registration(context: Context, request: BrokerRegistrationRequest, now_ms: int) -> None:
    image = context.image
    broker_id = request.broker_id
    if request.cluster_id != context.cluster_id:
        text = f"This is the cluster {context.cluster_id}, not {request.cluster_id}."
        raise Refusal(ErrorCode.INCONSISTENT_CLUSTER_ID, text)
    if request.is_migrating_zk_broker:
        raise Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, "Brokers of ZooKeeper clusters cannot register.")
    existing = image.brokers.get(broker_id)
    if existing is not None and existing.incarnation_id != request.incarnation_id:
        last = context.last_contact_ms.get(broker_id)
        session_ms = context.config.get_int("broker.session.timeout.ms")
        alive = last is not None and now_ms - last < session_ms and not existing.fenced
        if alive and not existing.in_controlled_shutdown:
            raise Refusal(ErrorCode.DUPLICATE_BROKER_REGISTRATION, f"Another broker {broker_id} is alive.")
    directories = request.log_dirs
    reserved = any(int.from_bytes(each) < _DIRECTORY_IDS_RESERVED for each in directories)
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
    context: Context, request: BrokerHeartbeatRequest, now_ms: int
) -> Decision[BrokerHeartbeatResponse]:
    """Renews the session, and moves the broker on in its life as it wishes and can."""
    image = context.image
    broker = image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        code = ErrorCode.BROKER_ID_NOT_REGISTERED if broker is None else ErrorCode.STALE_BROKER_EPOCH
        return Decision([], BrokerHeartbeatResponse(error_code=code))
    context.last_contact_ms[request.broker_id] = now_ms
    caught_up = request.current_metadata_offset >= broker.epoch
    records: list[Message] = []
    reply = BrokerHeartbeatResponse(is_caught_up=caught_up, is_fenced=broker.fenced)
    if request.want_shut_down:
        if not broker.in_controlled_shutdown and not broker.fenced:
            records = [_change(broker, in_controlled_shutdown=1), *broker_leaves(image, broker.broker_id)]
        else:
            reply.should_shut_down = not leads_any(image, broker.broker_id)
    elif request.want_fence and not broker.fenced:
        records = _fence(context, broker)
        reply.is_fenced = True
    elif not request.want_fence and broker.fenced and caught_up:
        records = [_change(broker, fenced=UNFENCE), *broker_arrives(image, broker.broker_id)]
        reply.is_fenced = False
    return Decision(records, reply)


def decide_fence_silent(context: Context, now_ms: int) -> Decision[list[int]]:
    """Fences the brokers whose session is over; the reply names them. To be called from time to time."""
    session_ms = context.config.get_int("broker.session.timeout.ms")
    silent: list[int] = []
    records: list[Message] = []
    for broker in context.image.brokers.values():
        if broker.fenced:
            continue
        # A controller that has just begun has heard of nobody: sessions begin when it first looks.
        last_ms = context.last_contact_ms.setdefault(broker.broker_id, now_ms)
        if now_ms - last_ms >= session_ms:
            silent.append(broker.broker_id)
            records += _fence(context, broker)
            break  # one at a time: the next must see what this one changed in the partitions
    return Decision(records, silent)


def decide_unregister_broker(
    context: Context, request: UnregisterBrokerRequest
) -> Decision[UnregisterBrokerResponse]:
    broker = context.image.brokers.get(request.broker_id)
    if broker is None:
        text = f"Broker ID {request.broker_id} is not currently registered."
        code = ErrorCode.BROKER_ID_NOT_REGISTERED
        return Decision([], UnregisterBrokerResponse(error_code=code, error_message=text))
    records = broker_leaves(context.image, broker.broker_id)
    records.append(UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch))
    context.last_contact_ms.pop(broker.broker_id, None)
    return Decision(records, UnregisterBrokerResponse(error_message=None))


def _fence(context: Context, broker: BrokerImage) -> list[Message]:
    return [_change(broker, fenced=FENCE), *broker_leaves(context.image, broker.broker_id)]


def _change(broker: BrokerImage, *, fenced: int = 0, in_controlled_shutdown: int = 0) -> Message:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
    )
