"""New partitions: checks of replicas given by hand, and the record of a partition that begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.controller.image.parts import BrokerImage
from ottla.controller.partitions.directories import first_directory
from ottla.controller.refusal import Refusal
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.partition_record import PartitionRecord


def check_replicas(
    brokers: Mapping[int, BrokerImage],
    number: int,
    replicas: Sequence[int],
    factor: int | None,
    *,
    needs_active: bool = True,
) -> None:
    """Refuses a list of replicas that cannot be; `factor` is the length that the other partitions have.
    A new partition needs one that can lead at once; one that moves (`needs_active=False`) does not."""
    problem = None
    unknown = [broker_id for broker_id in replicas if broker_id not in brokers]
    if not replicas:
        problem = "has no replicas"
    elif unknown:
        problem = f"names broker {unknown[0]}, which is not registered"
    elif len(set(replicas)) != len(replicas):
        problem = "names a broker more than once"
    elif factor is not None and len(replicas) != factor:
        problem = f"has {len(replicas)} replica(s), but other partitions have {factor}"
    elif needs_active and not any(brokers[broker_id].active for broker_id in replicas):
        problem = "names only brokers that are fenced or in controlled shutdown"
    if problem is not None:
        text = f"The manual assignment of partition {number} {problem}."
        raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)


def new_partition_record(
    brokers: Mapping[int, BrokerImage], topic_id: bytes, number: int, replicas: Sequence[int]
) -> PartitionRecord:
    """A partition in its first epoch, led by the first of its replicas that is there."""
    isr = [broker_id for broker_id in replicas if brokers[broker_id].active]
    assert isr, "placement and checks leave at least one active replica"
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=isr,
        leader=isr[0],
        leader_recovery_state=0,
        leader_epoch=0,
        partition_epoch=0,
        directories=[first_directory(brokers[broker_id]) for broker_id in replicas],
    )
