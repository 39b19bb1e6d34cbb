"""What every decision of the controller may look at: image, configuration, and chance from outside."""

from __future__ import annotations

from collections.abc import Callable

from ottla.config.load import BrokerConfig
from ottla.config.topic_config import ConfigLayers
from ottla.controller.image import ClusterImage

# In one request: what a controller takes on at once, so that a single request cannot fill the memory.
PARTITIONS_PER_REQUEST_MAX = 10_000


class Context:
    """Shared by the decisions; only the sessions of brokers change in it without a record."""

    __slots__ = (
        "cluster_id",
        "config",
        "drained_offset",
        "draw",
        "image",
        "last_contact_ms",
        "metadata_offset",
        "new_uuid",
    )

    def __init__(
        self,
        image: ClusterImage,
        config: BrokerConfig,
        *,
        cluster_id: str,
        draw: Callable[[int], int],
        new_uuid: Callable[[], bytes],
    ) -> None:
        self.image = image
        self.config = config
        self.cluster_id = cluster_id
        self.draw = draw
        self.new_uuid = new_uuid
        # When each broker was last heard of. Not in the log: a new controller gives everyone a fresh session.
        self.last_contact_ms: dict[int, int] = {}
        # How far each broker has read the metadata, by its heartbeats; and for brokers in controlled
        # shutdown, how far the others must have read to know that it leads nothing any more.
        self.metadata_offset: dict[int, int] = {}
        self.drained_offset: dict[int, int] = {}

    def layers(self) -> ConfigLayers:
        """The configuration below topics, as it is set for the cluster."""
        return ConfigLayers(self.config, cluster_dynamic=self.image.cluster_config())
