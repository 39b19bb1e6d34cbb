"""Decides BrokerRegistration and UnregisterBroker."""

from __future__ import annotations

from ottla.controller.context import Context
from ottla.controller.partitions.broker_changes import (
    broker_leaves,
    broker_restarts_uncleanly,
    directories_return,
)
from ottla.controller.partitions.change import Changes
from ottla.controller.partitions.directories import DIRECTORY_IDS_RESERVED
from ottla.controller.refusal import Refusal
from ottla.machines.outcome import Outcome
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from ottla.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from ottla.protocol.messages.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from ottla.protocol.messages.unregister_broker_record import UnregisterBrokerRecord
from ottla.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from ottla.protocol.messages.unregister_broker_response import UnregisterBrokerResponse


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
        returned = frozenset(request.log_dirs) - frozenset(existing.log_dirs)
        changes: Changes = directories_return(context, broker_id, returned) if returned else ([], [])
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
