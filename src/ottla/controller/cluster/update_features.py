"""Decides on UpdateFeatures: all of a request or nothing of it."""

from __future__ import annotations

from typing import Any

from ottla.controller.context import Context
from ottla.controller.features import (
    ELR_METADATA_VERSION_MIN,
    ELR_VERSION,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
)
from ottla.controller.image.queries import all_partitions
from ottla.controller.partitions.min_isr import min_isr_records
from ottla.controller.refusal import Refusal
from ottla.machines.outcome import Outcome
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.feature_level_record import FeatureLevelRecord
from ottla.protocol.messages.partition_change_record import PartitionChangeRecord
from ottla.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.messages.update_features_response import UpdatableFeatureResult, UpdateFeaturesResponse

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def decide_update_features(
    context: Context, request: UpdateFeaturesRequest
) -> Outcome[UpdateFeaturesResponse]:
    """Levels that stay as they are are no error and no record. Version 0 of the request says
    `allow_downgrade` where later ones have a type of upgrade."""
    levels = dict(context.image.features)
    records: list[Message] = []
    try:
        names = [each.feature for each in request.feature_updates]
        if not names or len(set(names)) != len(names):
            raise Refusal(ErrorCode.INVALID_REQUEST, "Each feature must appear once, and there must be one.")
        for update in request.feature_updates:
            _check(context, update, levels.get(update.feature, 0))
            levels[update.feature] = update.max_version_level
        if levels.get(ELR_VERSION, 0) and levels.get(METADATA_VERSION, 0) < ELR_METADATA_VERSION_MIN:
            text = f"{ELR_VERSION} needs {METADATA_VERSION} of {ELR_METADATA_VERSION_MIN}."
            raise Refusal(ErrorCode.INVALID_UPDATE_VERSION, text)
    except Refusal as refusal:
        text = f"The update failed for all features, because of this one: {refusal.message}"
        return Outcome(UpdateFeaturesResponse(error_code=refusal.code, error_message=text))
    for name in names:
        if levels[name] != context.image.features.get(name, 0):
            if name == ELR_VERSION:
                records += min_isr_records(context) if levels[name] else _without_elr(context)
            records.append(FeatureLevelRecord(name=name, feature_level=levels[name]))
    results = [UpdatableFeatureResult(feature=name, error_message=None) for name in names]
    reply = UpdateFeaturesResponse(error_message=None, results=results)
    return Outcome(reply, records=[] if request.validate_only else records)


def _check(context: Context, update: FeatureUpdateKey, current: int) -> None:
    name, level = update.feature, update.max_version_level
    kind = update.upgrade_type
    if update.allow_downgrade and kind == UPGRADE:
        kind = SAFE_DOWNGRADE

    def refused(problem: str) -> Refusal:
        return Refusal(
            ErrorCode.INVALID_UPDATE_VERSION, f"Invalid update version {level} for feature {name}. {problem}"
        )

    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise Refusal(ErrorCode.INVALID_REQUEST, f"There is no upgrade type {kind}.")
    if level < 0:
        raise refused("A feature version cannot be less than 0.")
    low, high = SUPPORTED_FEATURES.get(name, (0, -1))
    if not low <= level <= high:
        raise refused("The controller does not support it.")
    for broker in context.image.brokers.values():
        low, high = broker.features.get(name, (0, 0))
        if not low <= level <= high:
            raise refused(f"Broker {broker.broker_id} supports {low} to {high}.")
    for controller_id, registered in context.image.controllers.items():
        low, high = _controller_range(registered, name)
        if not low <= level <= high:
            raise refused(f"Controller {controller_id} supports {low} to {high}.")
    if level > current and kind != UPGRADE:
        raise refused("Can't downgrade to a newer version.")
    if level < current and kind == UPGRADE:
        raise refused("Can't downgrade without setting the upgrade type to safe or unsafe downgrade.")
    if level < current and name == METADATA_VERSION:
        raise refused("The metadata of this cluster cannot be written in an older version.")


def _controller_range(registered: Any, name: str) -> tuple[int, int]:
    for each in registered.features:
        if each.name == name:
            return each.min_supported_version, each.max_supported_version
    return 0, 0


def _without_elr(context: Context) -> list[Message]:
    """Where the ISR is empty, the eligible leaders become the ISR: one of them will be elected."""
    records: list[Message] = []
    for topic, number, partition in all_partitions(context.image):
        waited_for = partition.elr or partition.last_known_elr
        if waited_for:
            records.append(
                PartitionChangeRecord(
                    partition_id=number,
                    topic_id=topic.topic_id,
                    isr=None if partition.isr else list(waited_for),
                    eligible_leader_replicas=[],
                    last_known_elr=[],
                )
            )
    return records
