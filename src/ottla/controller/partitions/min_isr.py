"""Removes replicas that may no longer lead when `min.insync.replicas` changes.

A replica is eligible because nothing was committed since it fell out of the ISR: the ISR was too small. When
a lower minimum makes it large enough, that ends, and the replica must not be elected any more. All must
agree on the minimum, so while eligible leaders are on it is set for the cluster or a topic, not for one
broker.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.config.topic_config import ConfigLayers
from ottla.controller.context import Context
from ottla.controller.features import ELR_VERSION
from ottla.controller.image.cluster import RESOURCE_BROKER, RESOURCE_TOPIC
from ottla.controller.image.queries import all_partitions
from ottla.controller.partitions.rules import MIN_ISR, Configs
from ottla.controller.refusal import Refusal
from ottla.machines.outcome import Outcome
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.config_record import ConfigRecord
from ottla.protocol.messages.partition_change_record import PartitionChangeRecord


def elr_is_on(context: Context) -> bool:
    return context.image.features.get(ELR_VERSION, 0) >= 1


def check_min_isr_change(
    context: Context, resource_type: int, name: str, before: Mapping[str, str], after: Mapping[str, str]
) -> None:
    """Refuses a minimum for one broker, and the removal of the cluster's."""
    if resource_type != RESOURCE_BROKER or before.get(MIN_ISR) == after.get(MIN_ISR):
        return
    if not elr_is_on(context):
        return
    if name and MIN_ISR in after:
        text = "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
        raise Refusal(ErrorCode.INVALID_CONFIG, text)
    if not name and MIN_ISR not in after:
        text = "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
        raise Refusal(ErrorCode.INVALID_CONFIG, text)


def elr_after(context: Context, changed: Configs) -> list[Message]:
    """What the new configuration of these resources takes from eligible leaders."""
    image = context.image
    touched = any(
        values.get(MIN_ISR) != image.configs.get(resource, {}).get(MIN_ISR)
        for resource, values in changed.items()
    )
    if not touched or not elr_is_on(context):
        return []
    cluster = changed.get((RESOURCE_BROKER, ""), image.cluster_config())
    default = ConfigLayers(context.config, cluster_dynamic=cluster).topic_defaults()[MIN_ISR]
    records: list[Message] = []
    for topic, number, partition in all_partitions(image):
        if not partition.elr or not partition.isr:
            continue  # without an ISR there is no leader that could commit anything
        text = changed.get((RESOURCE_TOPIC, topic.name), image.topic_config(topic.name)).get(MIN_ISR)
        minimum = default if text is None else int(text)
        if len(partition.isr) >= min(minimum, len(partition.replicas)):
            records.append(
                PartitionChangeRecord(
                    partition_id=number,
                    topic_id=topic.topic_id,
                    eligible_leader_replicas=[],
                    last_known_elr=[] if partition.last_known_elr else None,
                )
            )
    return records


def min_isr_records(context: Context) -> list[Message]:
    """The minimum as a setting of the cluster, and no longer of single brokers."""
    records: list[Message] = []
    if MIN_ISR not in context.image.cluster_config():
        value = str(context.config.get_int(MIN_ISR))
        records.append(
            ConfigRecord(resource_type=RESOURCE_BROKER, resource_name="", name=MIN_ISR, value=value)
        )
    for (resource_type, name), values in context.image.configs.items():
        if resource_type == RESOURCE_BROKER and name and MIN_ISR in values:
            records.append(
                ConfigRecord(resource_type=resource_type, resource_name=name, name=MIN_ISR, value=None)
            )
    return records


def decide_settle_min_isr(context: Context) -> Outcome[int]:
    """Decided when a controller becomes active: brokers' files may differ in the minimum, and a leader
    that commits with a smaller ISR than the controller assumes would betray eligible leaders."""
    records = min_isr_records(context) if elr_is_on(context) else []
    return Outcome(len(records), records=records)
