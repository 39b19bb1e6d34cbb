"""What a decision of a shard comes to: records to append, and replies to give once they are committed."""

from __future__ import annotations

from typing import TypeAlias

from ottla.protocol.message import Message

# A key and its value; without a value it is a tombstone.
Record: TypeAlias = tuple[Message, Message | None]
# Names a request that waits. The shell chooses it; the shard only hands it back.
Token: TypeAlias = object


class RequestContext:
    """Who asks, in which version of the API, and under which token an answer given later finds its way."""

    __slots__ = ("api_version", "client_host", "client_id", "token")

    def __init__(
        self, *, token: Token = None, api_version: int = 0, client_id: str = "", client_host: str = ""
    ) -> None:
        self.token = token
        self.api_version = api_version
        self.client_id = client_id
        self.client_host = client_host


class Outcome:
    """The records and the replies. Records go into one batch, or several in order if one would be too large.

    `reply` answers the request that was decided; None means that it waits, and that a later outcome has the
    answer under its token in `replies`. All of them are given when everything that the shard has appended so
    far is committed, also when this outcome has no records: it may have seen state which is not yet so.
    A request that waited may be answered by its own outcome: its token must be known before `replies` are.
    With a `producer` (id and epoch) the batch is a part of that producer's transaction.
    """

    __slots__ = ("producer", "records", "replies", "reply")
    markers: tuple[()] = ()  # groups end nobody's transaction

    def __init__(self, reply: Message | None = None) -> None:
        self.records: list[Record] = []
        self.replies: list[tuple[Token, Message]] = []
        self.reply = reply
        self.producer: tuple[int, int] | None = None

    def answer(self, token: Token, response: Message) -> None:
        self.replies.append((token, response))

    def __repr__(self) -> str:
        return f"Outcome(reply={self.reply!r}, replies={self.replies!r}, records={self.records!r})"
