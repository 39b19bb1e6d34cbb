"""The result of a decision, and the request it decides on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from ottla.protocol.message import Message

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Reply = TypeVar("Reply", default=Any)
else:
    from typing import TypeVar

    Reply = TypeVar("Reply")  # a default needs Python 3.13

# A record of a coordinator log: key and value, a tombstone without a value. (Records of the metadata log are
# single messages.)
Record: TypeAlias = tuple[Message, Message | None]
# Identifies a waiting request. The host chooses it; the machine only returns it in `Outcome.replies`.
Token: TypeAlias = object

_WAITS: Any = None


class RequestContext:
    """The client, its version of the API, and the token under which a later reply finds the request."""

    __slots__ = ("api_version", "client_host", "client_id", "token")

    def __init__(
        self, *, token: Token = None, api_version: int = 0, client_id: str = "", client_host: str = ""
    ) -> None:
        self.token = token
        self.api_version = api_version
        self.client_id = client_id
        self.client_host = client_host


class Outcome(Generic[Reply]):
    """Records to append, and what follows from them.

    `reply` answers the request that was decided. None means that the request waits: a later outcome has its
    reply in `replies`, under its token. All replies are sent when everything that the machine has appended so
    far is committed, even if this outcome has no records: the decision may have seen uncommitted state.
    A request may be answered by its own outcome through `replies`: the host must know its token by then.
    A machine whose requests never wait states the type of the reply: `Outcome[CreateTopicsResponse]`.

    `effects` are what else the host must do: send transaction markers, report unclean elections.
    With a `producer` (id and epoch) the records are part of that producer's transaction.
    """

    __slots__ = ("effects", "producer", "records", "replies", "reply")

    def __init__(
        self, reply: Reply = _WAITS, *, records: list[Any] | None = None, effects: Sequence[Any] = ()
    ) -> None:
        self.reply = reply
        self.records: list[Any] = [] if records is None else records
        self.replies: list[tuple[Token, Message]] = []
        self.effects: list[Any] = [*effects]
        self.producer: tuple[int, int] | None = None

    def answer(self, token: Token, response: Message) -> None:
        """Answer a request that waited."""
        self.replies.append((token, response))

    def __repr__(self) -> str:
        return (
            f"Outcome(reply={self.reply!r}, replies={self.replies!r}, records={self.records!r}, "
            f"effects={self.effects!r})"
        )
