"""Look-up of API modules and of what their declarations define.

An API is served by the module with its name in one of the folders here: CreateTopics by
`topics/create_topics.py`. Modules are found by name and imported when their first request arrives, so that
start-up does not pay for some sixty handlers and twice as many messages.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.broker.api.declaration import QUORUM_LEADER, ApiDeclaration, DecisionPoint
from ottla.protocol.api import API_BY_KEY, snake_case
from ottla.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from ottla.broker.metadata.controller_loop import Decide
    from ottla.protocol.message import Message

FOLDERS = ("cluster", "configs", "groups", "internal", "quorum", "records", "topics", "transactions")
BROKER_LISTENER, CONTROLLER_LISTENER = "broker", "controller"


class ServedVersions(NamedTuple):
    """The versions of an API that a listener serves."""

    key: int
    min_version: int
    max_version: int


@cache
def served_modules() -> dict[int, str]:
    """The full name of the module that serves each API, by API key."""
    keys = {snake_case(api.name): key for key, api in API_BY_KEY.items()}
    here = os.path.dirname(__file__)
    found = {
        keys[name]: f"{__package__}.{folder}.{name}"
        for folder in FOLDERS
        for name in (file.partition(".")[0] for file in os.listdir(os.path.join(here, folder)))
        if name in keys
    }
    return dict(sorted(found.items()))


@cache
def declaration(key: int) -> ApiDeclaration:
    """The declaration of an API. Raises KeyError if it is not served."""
    found: ApiDeclaration = import_module(served_modules()[key]).API
    assert found.key == key, f"{served_modules()[key]} declares {found.key}"
    return found


def declarations() -> Iterator[ApiDeclaration]:
    """All declarations, by API key. Imports every handler."""
    return map(declaration, served_modules())


def served_versions(listener: str, *, two_phase_commit: bool = False) -> dict[int, ServedVersions]:
    """The versions that a kind of listener serves, by API key."""
    served = {}
    for key in served_modules():
        api = API_BY_KEY[key]
        if listener in api.listeners:
            # The newest version of InitProducerId is unstable, and needed only for two-phase commit.
            unstable = two_phase_commit and key == ApiKey.INIT_PRODUCER_ID
            served[key] = ServedVersions(
                key, api.min_version, api.newest_version if unstable else api.max_version
            )
    return served


def refuse(message: Message, code: int, reason: str = "") -> Any:
    """The response to `message` in which every item failed with the same error."""
    builder = declaration(message.API_KEY).refuse
    assert builder is not None, f"{type(message).__name__} declares no refusal"
    return builder(message, code, reason)


def decision_of(message: Message, lost_contact: Callable[[int], bool]) -> Decide | None:
    """How the active controller decides this request; None if the leader of the quorum answers it."""
    found = declaration(message.API_KEY)
    decide = found.decide
    if decide is None:
        assert found.decided_by == QUORUM_LEADER, f"{found} is not decided by the controller"
        return None
    return lambda context, now_ms, next_offset: decide(
        context, message, DecisionPoint(now_ms, next_offset, lost_contact)
    )
