"""A controller that asks to become a voter by itself: controller.quorum.auto.join.enable."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.broker.metadata.controller_channel import ControllerUnreachable
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from ottla.broker.node import Node

RETRY_MS = 500
TIMEOUT_MS = 5000

log = logging.getLogger("ottla.quorum")


async def join_quorum(broker: Node) -> None:
    """Returns when this node votes. Whoever removes it later has the last word until the next start."""
    machine = broker.quorum.machine
    while not machine.is_voter:
        if machine.kraft_version and machine.leader_id >= 0:
            await _ask(broker, _next_step(broker))
        await asyncio.sleep(RETRY_MS / 1000)


def _next_step(broker: Node) -> Message:
    """Under the same node id an old directory may still be a voter: that one goes first."""
    from ottla.protocol.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
    from ottla.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest

    machine = broker.quorum.machine
    old = machine.voters.by_id.get(broker.node_id)
    if old is not None:
        return RemoveRaftVoterRequest(
            cluster_id=broker.cluster_id, voter_id=broker.node_id, voter_directory_id=old.directory_id
        )
    return AddRaftVoterRequest(
        cluster_id=broker.cluster_id,
        timeout_ms=TIMEOUT_MS,
        voter_id=broker.node_id,
        voter_directory_id=machine.config.directory_id,
        listeners=[
            Listener(name=each.name, host=each.host, port=each.port) for each in machine.config.listeners
        ],
    )


async def _ask(broker: Node, message: Message) -> None:
    try:
        answer = await broker.controller.ask(message, timeout_ms=2 * TIMEOUT_MS)
    except (ControllerUnreachable, StorageError) as error:
        log.info("not a voter yet: %s", error)
        return
    # DUPLICATE_VOTER: an earlier request was carried out, and its answer lost.
    if answer.error_code not in (ErrorCode.NONE, ErrorCode.DUPLICATE_VOTER):
        log.info("not a voter yet: %s %s", ErrorCode(answer.error_code).name, answer.error_message)
