"""Requests that the active controller or the leader of the quorum decides.

A broker sends them to the controller, in this process or on another node, and returns its response. On a
controller listener they are decided here, or refused with NOT_CONTROLLER. The decisions are functions of
`ottla.controller`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.api.declaration import CONTROLLER, QUORUM_LEADER, ApiDeclaration, Handler, Refuse
from ottla.broker.api.refusal import refuse_whole
from ottla.broker.metadata.controller_channel import ControllerUnreachable
from ottla.broker.metadata.controller_loop import NotController
from ottla.protocol.errors import ErrorCode
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.api.parts import ApiParts
    from ottla.broker.metadata.controller_channel import ControllerChannel
    from ottla.broker.metadata.quorum_node import QuorumNode
    from ottla.broker.net.request import Request
    from ottla.controller.context import Context
    from ottla.machines.outcome import Outcome
    from ottla.protocol.api_keys import ApiKey
    from ottla.protocol.message import Message


def controller_api(
    key: ApiKey,
    *,
    decide: Callable[[Context, Any], Outcome],
    refuse: Refuse = refuse_whole,
    adapt: Callable[[Any, int], None] | None = None,
) -> ApiDeclaration:
    """The declaration of an API that the active controller decides: `decide` is a function of
    `ottla.controller`. (One that also needs the time or the end of the log declares its API itself.)"""
    api = ApiDeclaration(
        key,
        lambda parts: ForwardToController(api, parts.controller).handle,
        decided_by=CONTROLLER,
        decide=lambda context, message, _: decide(context, message),
        refuse=refuse,
        adapt=adapt,
    )
    return api


def raft_api(key: ApiKey) -> ApiDeclaration:
    """The declaration of an API between the nodes of the quorum: the Raft machine responds in any role."""
    return ApiDeclaration(key, raft_handler)


def raft_handler(parts: ApiParts) -> Handler:
    """A fetch may wait for new records: its future lets the connection's next requests continue."""
    quorum = parts.quorum
    return lambda _, message: quorum.raft.request(message)


def quorum_leader_api(key: ApiKey, *, adapt: Callable[[Any, int], None] | None = None) -> ApiDeclaration:
    """The declaration of an admin API that the leader of the quorum answers."""
    api = ApiDeclaration(
        key,
        lambda parts: ForwardToController(api, parts.controller).handle,
        create_for_controller=lambda parts: AskQuorum(api, parts.quorum).handle,
        decided_by=QUORUM_LEADER,
        refuse=refuse_whole,
        adapt=adapt,
    )
    return api


class ForwardToController:
    """Returns the controller's response; every item is rejected if there is no controller."""

    __slots__ = ("_adapt", "_controller", "_refuse")

    def __init__(self, api: ApiDeclaration, controller: ControllerChannel) -> None:
        assert api.refuse is not None
        self._adapt = api.adapt
        self._refuse = api.refuse
        self._controller = controller

    async def handle(self, request: Request, message: Message) -> Any:
        try:
            if request.on_controller_listener:
                response = await self._controller.decide_here(message)
            else:
                client = (request.version, request.client_id)
                response = await self._controller.ask(
                    message, timeout_ms=_timeout_ms_of(message), client=client
                )
        except NotController as error:
            response = self._refuse(message, ErrorCode.NOT_CONTROLLER, str(error))
        except ControllerUnreachable as error:
            response = self._refuse(message, ErrorCode.REQUEST_TIMED_OUT, str(error))
        except StorageError as error:
            response = self._refuse(message, error.code, error.reason)
        if self._adapt is not None:
            self._adapt(response, request.version)
        return response


class AskQuorum:
    """Passes a request to the Raft machine of this node, which rejects it unless it leads.

    A client of a controller listener has chosen this node, so nothing is forwarded.
    """

    __slots__ = ("_adapt", "_quorum")

    def __init__(self, api: ApiDeclaration, quorum: QuorumNode) -> None:
        self._adapt = api.adapt
        self._quorum = quorum

    async def handle(self, request: Request, message: Message) -> Any:
        response = await self._quorum.raft.request(message)
        if self._adapt is not None:
            self._adapt(response, request.version)
        return response


def _timeout_ms_of(message: Message) -> int | None:
    """The timeout that the client has set, if the request has one."""
    timeout_ms = getattr(message, "timeout_ms", None)
    return timeout_ms if timeout_ms and timeout_ms > 0 else None
