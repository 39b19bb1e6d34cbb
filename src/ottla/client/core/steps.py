"""Steps: the client's procedures as generators that perform no I/O.

A procedure yields what it needs and receives the result, or has a ClientError thrown into it:

    def topic_count(cluster: ClusterCore) -> Steps[int]:
        response = yield from cluster.ask_any(MetadataRequest(topics=None), MetadataResponse)
        return len(response.topics)

Each shell has one function that runs steps: `ClusterClient.run` on an event loop, `SyncCluster.run` on
blocking sockets. The procedures, and with them every rule about retries and errors, exist once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, TypeVar

from ottla.client.core.negotiation import Negotiated
from ottla.client.options import Address
from ottla.protocol.message import Message

# A request that depends on the versions or features of the broker that receives it.
Build = Callable[[Negotiated], Message]


class Connect(NamedTuple):
    """Have a connection to this address; the result is the broker's side of the negotiation."""

    address: Address
    lane: str = ""


class Call(NamedTuple):
    """Send a request; the result is its response, or None without a response class (Produce with acks=0)."""

    address: Address
    message: Message | Build
    response: type[Message] | None
    at_most: int | None = None
    timeout_ms: float | None = None
    lane: str = ""


class CallMany(NamedTuple):
    """Send requests to one broker without waiting in between; the result is the list of responses."""

    address: Address
    messages: Sequence[tuple[Message, int | None]]
    response: type[Message]


class Pause(NamedTuple):
    """Wait."""

    ms: float


class Together(NamedTuple):
    """Run steps, at the same time where the shell can; the result is the list of their results."""

    steps: Sequence[Generator[Any, Any, Any]]


Effect = Connect | Call | CallMany | Pause | Together
Result = TypeVar("Result")
Response = TypeVar("Response", bound=Message)
Steps = Generator[Effect, Any, Result]


def request_for(message: Message | Build, peer: Negotiated) -> Message:
    """The message to send to this peer."""
    return message if isinstance(message, Message) else message(peer)


def connect(address: Address, lane: str = "") -> Steps[Negotiated]:
    peer: Negotiated = yield Connect(address, lane)
    return peer


def call(
    address: Address,
    message: Message | Build,
    response: type[Response],
    *,
    at_most: int | None = None,
    timeout_ms: float | None = None,
    lane: str = "",
) -> Steps[Response]:
    answer: Response = yield Call(address, message, response, at_most, timeout_ms, lane)
    return answer


def together(steps: Sequence[Steps[Result]]) -> Steps[list[Result]]:
    if len(steps) == 1:
        return [(yield from steps[0])]
    results: list[Result] = yield Together(steps)
    return results
