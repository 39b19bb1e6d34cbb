"""Which node this is: the ids that other nodes and clients know it by.

Lowest layer of `ottla.broker`: every other layer may import it.
"""

from __future__ import annotations


class NodeIdentity:
    """Ids of this node.

    `cluster_id` is empty until the log directories are opened, and `broker_epoch` is -1 until the controller
    has accepted the registration of this broker. Only `Node` and `Registration` set them.
    """

    __slots__ = ("broker_epoch", "cluster_id", "node_id")

    def __init__(self, node_id: int, cluster_id: str = "", broker_epoch: int = -1) -> None:
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.broker_epoch = broker_epoch
