"""Large answers to Metadata, encoded, as long as they are true.

An answer that names ten thousand partitions takes tens of milliseconds to build, and when something happens
to a cluster all of its clients ask for the same. Of each question that was answered the bytes are kept until
what they tell of has changed; small answers are not worth it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from ottla.protocol.message import Message, Part

WORTH_BYTES = 16_384
KEPT_MAX = 8
KEPT_BYTES_MAX = 8_388_608


class EncodedAnswer(Message):
    """An answer in one version, in place of the message."""

    __slots__ = ("_body",)

    def __init__(self, body: bytes) -> None:
        self._body = body

    def encode_parts(self, version: int, head: bytes = b"") -> list[Part]:
        return [head, self._body]


class MetadataAnswers:
    __slots__ = ("_kept", "_kept_bytes", "_state")

    def __init__(self) -> None:
        self._state: Any = None
        self._kept: dict[Hashable, bytes] = {}
        self._kept_bytes = 0

    def find(self, state: Any, question: Hashable) -> EncodedAnswer | None:
        """`state` is all that answers are made from: those of another one are forgotten."""
        if state != self._state:
            self._state = state
            self._kept.clear()
            self._kept_bytes = 0
        body = self._kept.get(question)
        return None if body is None else EncodedAnswer(body)

    def keep(self, question: Hashable, answer: Message, version: int) -> EncodedAnswer:
        """The answer to send; it belongs to the state that was looked for last."""
        body = answer.encode(version)
        if len(body) >= WORTH_BYTES:
            if len(self._kept) >= KEPT_MAX or self._kept_bytes + len(body) > KEPT_BYTES_MAX:
                self._kept.clear()
                self._kept_bytes = 0
            self._kept[question] = body
            self._kept_bytes += len(body)
        return EncodedAnswer(body)
