"""What an election needs besides the partition: eligible leaders, and what the topic allows."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.config.topic_config import ConfigLayers
from ottla.controller.context import Context
from ottla.controller.effects import UncleanElection
from ottla.controller.features import ELR_VERSION
from ottla.controller.image.cluster import RESOURCE_BROKER, RESOURCE_TOPIC
from ottla.controller.image.parts import PartitionImage
from ottla.controller.partitions.directories import directory_of, is_online

Configs = Mapping[tuple[int, str], Mapping[str, str]]  # by resource type and name

MIN_ISR = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"


class PartitionRules:
    """For one decision. A decision runs ahead of its own records, so it says which broker they change:
    `leaving` is never chosen, `arriving` counts as active, `returning` are directories that are online again,
    and the log of a broker in `unclean_restart` may have lost its end. `changed` are resources whose
    configuration it gives other values."""

    __slots__ = (
        "_defaults",
        "arriving",
        "changed",
        "context",
        "elr_on",
        "image",
        "leaving",
        "returning",
        "unclean_elections",
        "unclean_restart",
    )

    def __init__(
        self,
        context: Context,
        *,
        leaving: int | None = None,
        arriving: int | None = None,
        returning: frozenset[bytes] = frozenset(),
        unclean_restart: int | None = None,
        changed: Configs | None = None,
    ) -> None:
        self.context = context
        self.image = context.image
        self.leaving = leaving
        self.arriving = arriving
        self.returning = returning
        self.unclean_restart = unclean_restart
        self.changed = changed or {}
        self.elr_on = context.image.features.get(ELR_VERSION, 0) >= 1
        self.unclean_elections: list[UncleanElection] = []
        self._defaults: tuple[int, bool] | None = None

    def _topic_defaults(self) -> tuple[int, bool]:
        if self._defaults is None:
            layers = self.context.layers()
            if (cluster := self.changed.get((RESOURCE_BROKER, ""))) is not None:
                layers = ConfigLayers(self.context.config, cluster_dynamic=cluster)
            values = layers.topic_defaults()
            self._defaults = (values[MIN_ISR], values[UNCLEAN])
        return self._defaults

    def _topic_config(self, topic: str) -> Mapping[str, str]:
        changed = self.changed.get((RESOURCE_TOPIC, topic)) if self.changed else None
        return self.image.topic_config(topic) if changed is None else changed

    def min_isr(self, topic: str, replicas: int) -> int:
        """How many replicas must be in sync to accept writes; never more than the partition has."""
        text = self._topic_config(topic).get(MIN_ISR)
        wanted = self._topic_defaults()[0] if text is None else int(text)
        return min(wanted, max(1, replicas))

    def unclean_allowed(self, topic: str) -> bool:
        text = self._topic_config(topic).get(UNCLEAN)
        return self._topic_defaults()[1] if text is None else text.lower() == "true"

    def may_lead(self, partition: PartitionImage, broker_id: int, directory: bytes | None = None) -> bool:
        """Whether the broker is there and its copy can be read; not whether that copy is in sync."""
        if broker_id in (self.leaving, self.unclean_restart):
            return False
        broker = self.image.brokers.get(broker_id)
        if broker is None or not (broker.active or broker_id == self.arriving):
            return False
        if directory is None:
            directory = directory_of(partition, broker_id)
        return directory in self.returning or is_online(broker, directory)
