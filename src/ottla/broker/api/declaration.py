"""The declaration of an API: everything about it that is not in Kafka's message definition.

The module of an API holds one ApiDeclaration, called `API`, and the handler. The dispatcher, forwarding to
the controller, refusals and the support table are derived from it; versions and listeners come from the
message definition (`ottla.protocol.api`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.protocol.api import API_BY_KEY
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.message import Message

if TYPE_CHECKING:
    from ottla.broker.api.parts import ApiParts
    from ottla.broker.net.request import Request
    from ottla.controller.context import Context
    from ottla.machines.outcome import Outcome

# Which node decides a request.
THIS_NODE, CONTROLLER, QUORUM_LEADER = "this node", "active controller", "quorum leader"

# Returns a message, a Future or Promise (the connection's next requests continue), a coroutine (they wait), a
# DeferredResponse, or None for no response.
Handler = Callable[["Request", Any], Any]
# Builds the response in which every item of a request failed with the same error.
Refuse = Callable[[Any, int, str], Message]


class DecisionPoint(NamedTuple):
    """The time and log position at which the active controller decides a request."""

    now_ms: int  # monotonic
    next_offset: int  # of the first record that the decision appends
    lost_contact: Callable[[int], bool]  # whether the heartbeat connection of a broker is closed


Decide = Callable[["Context", Any, DecisionPoint], "Outcome"]


class ApiDeclaration:
    """A served API."""

    __slots__ = ("adapt", "create", "create_for_controller", "decide", "decided_by", "key", "refuse")

    def __init__(
        self,
        key: ApiKey,
        create: Callable[[ApiParts], Handler],
        *,
        create_for_controller: Callable[[ApiParts], Handler] | None = None,
        decided_by: str = THIS_NODE,
        decide: Decide | None = None,
        refuse: Refuse | None = None,
        adapt: Callable[[Any, int], None] | None = None,
    ) -> None:
        """`create` makes the handler; `create_for_controller` that of controller listeners, where it differs.

        `adapt` removes from a response what its version cannot express.
        """
        self.key = key
        self.create = create
        self.create_for_controller = create_for_controller or create
        self.decided_by = decided_by
        self.decide = decide
        self.refuse = refuse
        self.adapt = adapt

    def __repr__(self) -> str:
        return f"ApiDeclaration({self.key.name})"

    @property
    def listeners(self) -> tuple[str, ...]:
        """The kinds of listener that serve it: "broker", "controller"."""
        return API_BY_KEY[self.key].listeners
