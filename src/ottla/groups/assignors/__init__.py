"""Server-side assignors: partition owners as pure functions of members and topics.

An assignor depends on its arguments alone, so every broker computes the same assignment for the same group.
`uniform` balances the group and moves as few partitions as possible; `range` assigns every topic in
contiguous ranges, so that topics with the same number of partitions are co-partitioned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.groups.assignors.range_assignor import assign_range
from ottla.groups.assignors.spec import MemberSpec, TopicSpec
from ottla.groups.assignors.uniform import assign_uniform

__all__ = ["ASSIGNORS", "Assignor", "MemberSpec", "TopicSpec", "assign_range", "assign_uniform"]

Assignor = Callable[
    [Mapping[str, MemberSpec], Mapping[bytes, TopicSpec]], dict[str, dict[bytes, tuple[int, ...]]]
]

# By the names that members request. The first assignor is the default.
ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
