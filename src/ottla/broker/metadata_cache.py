"""The committed cluster metadata as this node has applied it.

Lowest layer of `ottla.broker`: every other layer may import it.
"""

from __future__ import annotations

from ottla.controller.image.cluster import ClusterImage
from ottla.controller.image.records import image_records


class MetadataCache:
    """The current image, and the offset of the last record that was applied to it.

    A snapshot replaces `image` as a whole: read it again after every await. Only `MetadataPublisher` writes.
    """

    __slots__ = ("image", "offset")

    def __init__(self) -> None:
        self.image = ClusterImage()
        self.offset = -1

    def copy_image(self) -> ClusterImage:
        """Return the committed metadata as an independent image."""
        copy = ClusterImage()
        for record in image_records(self.image):
            copy.apply(record)
        return copy
