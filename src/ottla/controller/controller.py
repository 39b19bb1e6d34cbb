"""The controller's state: the image that decisions build on, ahead of the committed one.

Decisions are functions of this package, `decide_*(context, ...)`, without I/O, clock or randomness of their
own. The host appends the records of a decision to the metadata log, applies them to the image at once, so
that the next decision builds on them, and sends the reply when they are committed.

    outcome = decide_create_topics(controller.context, request)
    quorum.append(outcome.records); controller.apply(outcome.records); ... committed: outcome.reply
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.config.load import BrokerConfig
from ottla.controller.context import Context
from ottla.controller.image.cluster import ClusterImage
from ottla.controller.image.parts import ImageDelta
from ottla.protocol.message import Message


class Controller:
    """Owns the image and the soft state. `draw(n)` returns a random number below n, `new_uuid()` 16 random
    bytes."""

    __slots__ = ("context",)

    def __init__(
        self,
        image: ClusterImage,
        config: BrokerConfig,
        *,
        cluster_id: str,
        draw: Callable[[int], int],
        new_uuid: Callable[[], bytes],
    ) -> None:
        self.context = Context(image, config, cluster_id=cluster_id, draw=draw, new_uuid=new_uuid)

    def apply(self, records: Iterable[Message]) -> ImageDelta:
        """Apply the records of a decision; the delta says what changed."""
        image, delta = self.context.image, ImageDelta()
        for record in records:
            image.apply(record, delta)
        return delta

    def roll_back_to(self, image: ClusterImage) -> None:
        """Forget what was applied but could not be appended: `image` is the committed one."""
        self.context.image = image
