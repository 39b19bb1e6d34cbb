"""The exception that refuses a request of a consumer group."""

from __future__ import annotations

from ottla.protocol.errors import ErrorCode


class Refused(Exception):
    """The request gets an error and changes nothing."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
