"""What every decision of the controller may use: image, configuration, soft state, injected randomness."""

from __future__ import annotations

from collections.abc import Callable

from ottla.config.load import BrokerConfig
from ottla.config.topic_config import ConfigLayers
from ottla.controller.image.cluster import ClusterImage
from ottla.controller.soft_state import SoftState

# Per request: bounds the memory that a single request can take.
PARTITIONS_PER_REQUEST_MAX = 10_000


class Context:
    """Shared by all decisions. Decisions change nothing in it but `soft`."""

    __slots__ = ("cluster_id", "config", "draw", "image", "new_uuid", "soft")

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
        self.soft = SoftState()

    def layers(self) -> ConfigLayers:
        """The configuration below topics, with the dynamic values of the cluster."""
        return ConfigLayers(self.config, cluster_dynamic=self.image.cluster_config())
