"""What the controller answers: records to append, and the reply to give once they are committed."""

from __future__ import annotations

from typing import Generic, TypeVar

from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message

Reply = TypeVar("Reply")


class Decision(Generic[Reply]):
    """Records and the reply that holds once they are committed; without records it holds at once."""

    __slots__ = ("records", "reply")

    def __init__(self, records: list[Message], reply: Reply) -> None:
        self.records = records
        self.reply = reply


class Refusal(Exception):
    """A command, or a part of one, that is not carried out."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
