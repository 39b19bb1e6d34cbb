"""Registration of a controller, and joining the voters: controller.quorum.auto.join.enable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ottla.broker.background import cancel
from ottla.broker.metadata.controller_channel import ControllerUnreachable
from ottla.broker.metadata.quorum_setup import controller_addresses
from ottla.config.listeners import SECURITY_PROTOCOLS
from ottla.controller.features import SUPPORTED_FEATURES
from ottla.protocol.errors import ErrorCode
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from ottla.broker.background import BackgroundTasks
    from ottla.broker.identity import NodeIdentity
    from ottla.broker.metadata.controller_channel import ControllerChannel
    from ottla.broker.metadata.quorum_node import QuorumNode
    from ottla.broker.randomness import Randomness
    from ottla.config.load import BrokerConfig
    from ottla.protocol.message import Message

REGISTRATION_RETRY_SECONDS = 1.0
JOIN_RETRY_MS = 500
JOIN_TIMEOUT_MS = 5000

log = logging.getLogger("ottla.quorum")


class QuorumJoin:
    """Registers this controller with the active one, so that tools can find all of them; then joins the
    voters if that is configured."""

    def __init__(
        self,
        config: BrokerConfig,
        identity: NodeIdentity,
        randomness: Randomness,
        controller: ControllerChannel,
        quorum: QuorumNode,
        bound_ports: Callable[[], Mapping[str, int]],
        tasks: BackgroundTasks,
    ) -> None:
        """`bound_ports`: the port of each controller listener, by listener name."""
        self._config = config
        self._identity = identity
        self._randomness = randomness
        self._controller = controller
        self._quorum = quorum
        self._bound_ports = bound_ports
        self._tasks = tasks
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = self._tasks.run_to_end("quorum-join", self._run)

    async def stop(self) -> None:
        await cancel(self._task)

    async def _run(self) -> None:
        await self._register()
        if self._config.get_bool("controller.quorum.auto.join.enable"):
            await self._join()

    # -- registration

    async def _register(self) -> None:
        message = self._registration()
        while True:
            try:
                response = await self._controller.ask(message)
                if response.error_code == ErrorCode.NONE:
                    return
                log.warning("controller not registered: %s", ErrorCode(response.error_code).name)
            except (ControllerUnreachable, StorageError) as error:
                log.info("controller not registered yet: %s", error)
            await asyncio.sleep(REGISTRATION_RETRY_SECONDS)

    def _registration(self) -> Message:
        from ottla.protocol.messages.controller_registration_request import (
            ControllerRegistrationRequest,
            Feature,
            Listener,
        )

        protocol = SECURITY_PROTOCOLS["PLAINTEXT"]
        return ControllerRegistrationRequest(
            controller_id=self._identity.node_id,
            incarnation_id=self._randomness.uuid(),
            listeners=[
                Listener(name=each.name, host=each.host, port=each.port, security_protocol=protocol)
                for each in controller_addresses(self._config, self._bound_ports())
            ],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
            ],
        )

    # -- joining

    async def _join(self) -> None:
        """Return when this node is a voter. A later removal by an operator is respected until the next
        start."""
        machine = self._quorum.raft.machine
        while not machine.is_voter:
            if machine.kraft_version and machine.leader_id >= 0:
                await self._request(self._next_step())
            await asyncio.sleep(JOIN_RETRY_MS / 1000)

    def _next_step(self) -> Message:
        """Remove an old directory of this node id from the voters first, then add this one."""
        from ottla.protocol.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
        from ottla.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest

        identity, machine = self._identity, self._quorum.raft.machine
        old = machine.voters.by_id.get(identity.node_id)
        if old is not None:
            return RemoveRaftVoterRequest(
                cluster_id=identity.cluster_id, voter_id=identity.node_id, voter_directory_id=old.directory_id
            )
        return AddRaftVoterRequest(
            cluster_id=identity.cluster_id,
            timeout_ms=JOIN_TIMEOUT_MS,
            voter_id=identity.node_id,
            voter_directory_id=machine.config.directory_id,
            listeners=[
                Listener(name=each.name, host=each.host, port=each.port) for each in machine.config.listeners
            ],
        )

    async def _request(self, message: Message) -> None:
        try:
            response = await self._controller.ask(message, timeout_ms=2 * JOIN_TIMEOUT_MS)
        except (ControllerUnreachable, StorageError) as error:
            log.info("not a voter yet: %s", error)
            return
        # DUPLICATE_VOTER: an earlier request was carried out, and its response lost.
        if response.error_code not in (ErrorCode.NONE, ErrorCode.DUPLICATE_VOTER):
            log.info("not a voter yet: %s %s", ErrorCode(response.error_code).name, response.error_message)
