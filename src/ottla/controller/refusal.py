"""The exception with which a decision refuses a command, or one item of it."""

from __future__ import annotations

from ottla.protocol.errors import ErrorCode


class Refusal(Exception):
    """A command, or an item of one, that is not carried out."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
