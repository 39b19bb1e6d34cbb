"""What follows from a decision of the controller, besides its records and its reply."""

from __future__ import annotations

from typing import NamedTuple


class UncleanElection(NamedTuple):
    """The new leader may lack acknowledged records: the host logs and counts it."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
