"""A cluster with different settings for each member."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.testing import Cluster


class UnlikeCluster(Cluster):
    """`each`: additional properties by node id."""

    def __init__(self, brokers: int, each: Mapping[int, Mapping[str, str]], **how: Any) -> None:
        super().__init__(brokers, **how)
        self._each = each

    def _new_node(
        self, name: str, data_dir: str, listen: str, settings: Mapping[str, str], *more: Any
    ) -> Any:
        own = self._each.get(int(name.removeprefix("broker-")), {})
        return super()._new_node(name, data_dir, listen, {**settings, **own}, *more)
