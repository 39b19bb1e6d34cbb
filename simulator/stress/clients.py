"""Clients that delete records and change the voters, and consumers of pruned logs."""

from __future__ import annotations

import asyncio

from ottla.client.errors import ClientError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from ottla.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from ottla.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.delete_records_response import DeleteRecordsResponse
from ottla.protocol.messages.fetch_response import PartitionData
from ottla.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from ottla.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse
from simulator.clients.admins import Admin
from simulator.clients.base import REQUEST_TIMEOUT_MS, RetryLater
from simulator.clients.consumers import Consumer
from simulator.history.operations import PartitionName
from simulator.inspection import leader_of, raft_of
from simulator.stress.checkers import DELETE_RECORDS
from simulator.world import CONTROLLER_PORT, World

DELETE_TIMEOUT_MS = (50, 1_500)
DELETE_PAUSE_S = (0.02, 0.3)
VOTER_PAUSE_S = (0.3, 1.5)
VOTER_TIMEOUT_MS = 2_000
VOTERS_MIN = 3


class RecordDeleter(Admin):
    """Deletes records up to an offset below the high watermark, often with too little time for it."""

    def __init__(self, world: World, name: str, topic: str, partitions: int) -> None:
        super().__init__(world, name, topic)
        self.stopping = False
        self._partitions = partitions

    async def run(self) -> None:
        while not self.stopping:
            await asyncio.sleep(self.rng.uniform(*DELETE_PAUSE_S))
            index = self.rng.randrange(self._partitions)
            offset = self._committed_offset(index)
            if offset > 0:
                await self._delete(index, offset)

    def _committed_offset(self, index: int) -> int:
        """A random offset between the log start and the high watermark of the leader."""
        node = leader_of(self.world, self.topic, index)
        broker = None if node is None else node.broker
        partition = None if broker is None else broker.partitions.by_name(self.topic, index)
        if partition is None or partition.high_watermark <= partition.log.log_start_offset:
            return 0
        start, high = partition.log.log_start_offset, partition.high_watermark
        return self.rng.randint(start, min(high, start + 20))

    async def _delete(self, index: int, offset: int) -> None:
        name = PartitionName(self.topic, index)
        operation = self.world.history.invoke(self.name, DELETE_RECORDS, name, (str(offset),))
        partition = DeleteRecordsPartition(partition_index=index, offset=offset)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=self.topic, partitions=[partition])],
            timeout_ms=self.rng.randint(*DELETE_TIMEOUT_MS),
        )
        try:
            connection = await self.leader_of(index)
            answer = await connection.request(request, DeleteRecordsResponse, timeout_ms=REQUEST_TIMEOUT_MS)
        except (RetryLater, ClientError):
            self.forget_leader(index)
            operation.info()
            return
        code = answer.topics[0].partitions[0].error_code
        if code == ErrorCode.NONE:
            operation.ok()
        else:
            self.forget_leader(index)
            operation.info(code)


class PrunedConsumer(Consumer):
    """Continues at the log start if the records of its position are deleted."""

    def _out_of_range(self, name: PartitionName, position: int, data: PartitionData) -> None:
        if data.log_start_offset > position:
            self.positions[name.partition] = data.log_start_offset
        else:
            super()._out_of_range(name, position, data)

    async def fetch_with_retries(self, index: int, position: int) -> PartitionData:
        while True:
            try:
                data = await self._fetch(index, position)
            except RetryLater:
                data = None
            if data is not None and not data.error_code:
                self.world.history.health.log_starts[PartitionName(self.topic, index)] = data.log_start_offset
                return data
            if data is not None and data.log_start_offset > position:
                position = data.log_start_offset
                continue
            self.forget_leader(index)
            await self.back_off()


class VoterChanger(Admin):
    """Adds and removes voters of a dynamic quorum, never below VOTERS_MIN."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.stopping = False

    async def run(self) -> None:
        while not self.stopping:
            await asyncio.sleep(self.rng.uniform(*VOTER_PAUSE_S))
            node = self.rng.choice([each for each in self.world.nodes_up if each.is_controller] or [None])
            driver = None if node is None else raft_of(node)
            if node is None or driver is None:
                continue
            machine = driver.machine
            if not machine.is_voter:
                await self._add(node.id, machine.config.directory_id)
            elif len(machine.voters.by_id) > VOTERS_MIN:
                await self._remove(node.id, machine.config.directory_id)

    async def _add(self, node_id: int, directory_id: bytes) -> None:
        operation = self.world.history.invoke(self.name, "add-voter", str(node_id))
        listener = Listener(name="CONTROLLER", host=f"node{node_id}", port=CONTROLLER_PORT)
        request = AddRaftVoterRequest(
            cluster_id=self.world.cluster_id,
            timeout_ms=VOTER_TIMEOUT_MS,
            voter_id=node_id,
            voter_directory_id=directory_id,
            listeners=[listener],
        )
        try:
            operation.info((await self.request_any(request, AddRaftVoterResponse)).error_code)
        except RetryLater:
            operation.info()

    async def _remove(self, node_id: int, directory_id: bytes) -> None:
        operation = self.world.history.invoke(self.name, "remove-voter", str(node_id))
        request = RemoveRaftVoterRequest(
            cluster_id=self.world.cluster_id, voter_id=node_id, voter_directory_id=directory_id
        )
        try:
            operation.info((await self.request_any(request, RemoveRaftVoterResponse)).error_code)
        except RetryLater:
            operation.info()
