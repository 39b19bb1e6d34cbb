"""What the controller answers: records to append, and the reply to give once they are committed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message

Reply = TypeVar("Reply")


class UncleanElection(NamedTuple):
    """A replica was made leader that may lack records which were acknowledged: to be logged and counted."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int


class Decision(Generic[Reply]):
    """Records and the reply that holds once they are committed; without records it holds at once."""

    __slots__ = ("records", "reply", "unclean_elections")

    def __init__(
        self, records: list[Message], reply: Reply, unclean_elections: Sequence[UncleanElection] = ()
    ) -> None:
        self.records = records
        self.reply = reply
        self.unclean_elections = unclean_elections


class Refusal(Exception):
    """A command, or a part of one, that is not carried out."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
