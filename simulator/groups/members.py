"""What members of both group protocols share: they find the coordinator, fetch their start offsets, read, and
commit what they have processed.

A member is a process with two tasks: the main loop reads, processes and follows rebalances; the other one
sends heartbeats. A slow program delays everything but its heartbeats.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TypeVar

from ottla.client.errors import ClientError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message import Message
from ottla.protocol.messages.fetch_response import PartitionData
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from ottla.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_commit_response import OffsetCommitResponse
from ottla.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.offset_fetch_response import OffsetFetchResponse
from ottla.protocol.versions import OFFSET_FETCH_TOPIC_IDS_SINCE
from ottla.records.batch import iter_headers
from simulator.clients.base import Address, RetryLater
from simulator.clients.consumers import Consumer
from simulator.history.groups import NOTHING_COMMITTED, Claim, Commit, GroupHistory
from simulator.history.operations import FAIL, INFO, OK, PartitionName
from simulator.world import World

GROUP_KEY = 0
COORDINATOR_TIMEOUT_MS = 1_500
IDLE_S = 0.05
COMMIT_EVERY_S = (0.1, 0.8)
WATCH_LAG_NS = 50_000_000  # a new coordinator may be observed this much later
# The coordinator moved or is loading; the request may have taken effect nevertheless.
ELSEWHERE = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
REJECTED = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID)
REQUEST_TIMED_OUT = (*ELSEWHERE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR)

Response = TypeVar("Response", bound=Message)


class Timing:
    """Timeouts of a group."""

    def __init__(self, session_ms: int, rebalance_ms: int, heartbeat_ms: int) -> None:
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.heartbeat_ms = heartbeat_ms


class OwnedPartition:
    """A partition that the member owns; `position` is -1 until its start offset is known."""

    __slots__ = ("claim", "committed", "fetched_ns", "leader_epoch", "position")

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.position = -1
        self.committed = -1
        self.fetched_ns = -1
        self.leader_epoch = -1  # of the last record


class GroupClient(Consumer):
    """Finds the coordinator of a group and fetches offsets from it."""

    def __init__(self, world: World, name: str, group: GroupHistory) -> None:
        super().__init__(world, name, group.topic, group.partitions)
        self.group = group
        self._coordinator: Address | None = None

    async def coordinator(self) -> Address:
        if self._coordinator is None:
            request = FindCoordinatorRequest(key_type=GROUP_KEY, coordinator_keys=[self.group.group_id])
            answer = await self.request_any(
                request, FindCoordinatorResponse, timeout_ms=COORDINATOR_TIMEOUT_MS
            )
            found = answer.coordinators[0]
            if found.error_code:
                raise RetryLater(f"coordinator: {found.error_code}")
            self._coordinator = (found.host, found.port)
        return self._coordinator

    async def request_coordinator(
        self, message: Message, response: type[Response], *, timeout_ms: float = COORDINATOR_TIMEOUT_MS
    ) -> tuple[Response, int]:
        """Return the response and the id of the responding node."""
        address = await self.coordinator()
        try:
            answer = await self.request_from(address, message, response, timeout_ms=timeout_ms)
        except RetryLater:
            self.forget_coordinator()
            raise
        self.handle_coordinator_error(getattr(answer, "error_code", 0))
        return answer, node_id_of(address)

    def handle_coordinator_error(self, code: int) -> None:
        """Raise RetryLater and forget the coordinator if the code says that it moved."""
        if code in ELSEWHERE:
            self.forget_coordinator()
            raise RetryLater(f"coordinator: {code}")

    def forget_coordinator(self) -> None:
        self._coordinator = None

    async def committed_offsets(
        self, indexes: Collection[int], member_id: str | None = None, member_epoch: int = -1
    ) -> dict[int, int]:
        """Fetch committed offsets and record them in the history. Raises RetryLater."""
        if not any(self.topic_id):
            await self.refresh()
        address = await self.coordinator()
        try:
            connection = await self.connection(address)
            by_id = connection.version_for(OffsetFetchRequest.API_KEY) >= OFFSET_FETCH_TOPIC_IDS_SINCE
        except ClientError as error:
            self.forget_coordinator()
            raise RetryLater(str(error)) from error
        topic = OffsetFetchRequestTopics(partition_indexes=sorted(indexes))
        if by_id:
            topic.topic_id = self.topic_id
        else:
            topic.name = self.topic
        asked = OffsetFetchRequestGroup(
            group_id=self.group.group_id, member_id=member_id, member_epoch=member_epoch, topics=[topic]
        )
        invoked_ns = self.group.now_ns
        answer, node_id = await self.request_coordinator(
            OffsetFetchRequest(groups=[asked], require_stable=True), OffsetFetchResponse
        )
        reported = answer.groups[0]
        self.handle_coordinator_error(reported.error_code)
        if reported.error_code:
            raise RetryLater(f"offsets: {reported.error_code}")
        found: dict[int, int] = {}
        for row in reported.topics[0].partitions:
            if row.error_code:
                raise RetryLater(f"offset of {row.partition_index}: {row.error_code}")
            found[row.partition_index] = row.committed_offset
            self._note_leader_epoch(row.partition_index, row.committed_leader_epoch)
        for index, offset in found.items():
            self.group.fetch(self.name, index, offset, node_id, invoked_ns)
        return found

    def _note_leader_epoch(self, index: int, epoch: int) -> None:
        """Remember the newest leader epoch: a leader of an older epoch is deposed."""
        if epoch > self.epochs.get(index, -1):
            self.epochs[index] = epoch
            self.forget_leader(index)


class GroupMember(GroupClient):
    """`ended` is set when the member has left or was fenced by another instance."""

    def __init__(
        self,
        world: World,
        name: str,
        group: GroupHistory,
        timing: Timing,
        instance_id: str | None,
        number: int,
    ) -> None:
        super().__init__(world, name, group)
        self.rng = world.rng(f"{name}.{number}")
        self.timing = timing
        self.instance_id = instance_id
        self.member_id = ""
        self.epoch = -1  # member epoch, or generation
        self.rebalances = 0  # noticed by this member
        self.holds: dict[int, OwnedPartition] = {}
        self.leaving = False
        self.leave_for_restart = False
        self.ended = False
        self.siblings: list[GroupMember] = []  # members of the same slot, this one included
        self.is_superseded = False
        self.lost = ""  # why it lost its partitions
        self.slowness_s = (0.0, 0.0)  # delay of the program after each read and revocation
        self._good_ns = self._clean_ns = -1
        self._commit_at_s = 0.0

    @property
    def is_settled(self) -> bool:
        """Return whether it owns its assignment and no rebalance is in progress."""
        raise NotImplementedError

    async def run(self) -> None:
        beating = asyncio.create_task(self.heartbeat_loop())
        try:
            while not (self.leaving or self.ended):
                await self.follow_group()
                if not self.ended:
                    await self.poll()
            if not self.ended:
                await self.commit()
                self.release(list(self.holds), "leaves")
        finally:
            beating.cancel()
        if not self.ended:
            await self.leave()
        self.release(list(self.holds), "has ended")
        self.ended = True

    async def heartbeat_loop(self) -> None:
        """Send heartbeats."""
        raise NotImplementedError

    async def follow_group(self) -> None:
        """Take part in rebalances."""
        raise NotImplementedError

    async def leave(self) -> None:
        raise NotImplementedError

    # -- ownership

    def record_contact(self, sent_ns: int, node_id: int, *, clean: bool, joined: bool = False) -> None:
        """A request sent at `sent_ns` succeeded; `clean`: and the response requests no rebalance.

        A success with the member's epoch proves that it has been a member all the time. A member that has
        just joined may have been removed before: its expired claims stay invalid until assigned again.
        """
        if self.is_superseded or not self.group.is_coordinator(node_id, self.group.now_ns):
            return
        self._good_ns = max(self._good_ns, sent_ns)
        if clean:
            self._clean_ns = max(self._clean_ns, sent_ns)
        for hold in self.holds.values():
            if not joined or hold.claim.valid_ns >= sent_ns:
                hold.claim.valid_ns = max(hold.claim.valid_ns, self._valid_ns)

    def supersede(self) -> None:
        """Before joining as a static member: other members with its instance id may be fenced from now on."""
        if self.instance_id is None:
            return
        for member in self.siblings:
            member.is_superseded = member is not self
            if member is not self:
                for hold in member.holds.values():
                    hold.claim.valid_ns = min(hold.claim.valid_ns, self.group.now_ns)

    @property
    def _valid_ns(self) -> int:
        if self.is_superseded:
            return -1
        session_ns = self._good_ns + self.timing.session_ms * 1_000_000
        rebalance_ns = self._clean_ns + self.timing.rebalance_ms * 1_000_000
        return min(session_ns, rebalance_ns) - WATCH_LAG_NS

    def take(self, indexes: Collection[int]) -> None:
        for index in sorted(indexes):
            hold = self.holds.get(index)
            if hold is None:
                self.holds[index] = OwnedPartition(self.group.claim(self.name, index, self._valid_ns))
            elif hold.claim.valid_ns < self.group.now_ns:
                self.group.release(hold.claim, "reassigned")
                hold.claim = self.group.claim(self.name, index, self._valid_ns)

    def release(self, indexes: Collection[int], why: str) -> None:
        for index in sorted(indexes):
            self.group.release(self.holds.pop(index).claim, why)

    # -- main loop

    async def process_slowly(self) -> None:
        """Sleep for the processing time of the program."""
        if self.slowness_s[1]:
            await asyncio.sleep(self.rng.uniform(*self.slowness_s))

    async def poll(self) -> None:
        """Read from every owned partition, process the records, and commit periodically."""
        await self._find_positions()
        ready = {index: hold for index, hold in self.holds.items() if hold.position >= 0}
        if not ready:
            await asyncio.sleep(IDLE_S)
            return
        found = await asyncio.gather(*(self._read(index, hold) for index, hold in ready.items()))
        if any(data is not None and data.records for data in found):
            await self.process_slowly()
        for (index, hold), data in zip(ready.items(), found, strict=True):
            if data is None:
                continue
            for offset, value in self._records(self.group.name_of(index), data, hold.position):
                self.group.process(self.name, index, offset, value)
                hold.position = offset + 1
            for _, header in iter_headers(bytes(data.records or b"")):
                hold.leader_epoch = header.leader_epoch
        if self.world.loop.time() >= self._commit_at_s:
            self._commit_at_s = self.world.loop.time() + self.rng.uniform(*COMMIT_EVERY_S)
            await self.commit()

    async def _read(self, index: int, hold: OwnedPartition) -> PartitionData | None:
        try:
            data = await self._fetch(index, hold.position)
        except RetryLater:
            self.forget_leader(index)
            await self.back_off()
            return None
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.world.history.lost_position(self.name, PartitionName(self.topic, index), hold.position)
            self.forget_leader(index)
            await self.back_off()
            return None
        return data

    async def _find_positions(self) -> None:
        wanted = {index: hold for index, hold in self.holds.items() if hold.position < 0}
        if not wanted:
            return
        try:
            found = await self.committed_offsets(wanted, *self.identity_for_offsets())
        except RetryLater:
            await self.back_off()
            return
        for index, hold in wanted.items():
            hold.fetched_ns = self.group.now_ns
            hold.committed = found[index]
            hold.position = 0 if found[index] == NOTHING_COMMITTED else found[index]

    def identity_for_offsets(self) -> tuple[str | None, int]:
        """Member id and epoch for OffsetFetch; the classic protocol sends none."""
        return None, -1

    async def commit(self, indexes: Collection[int] | None = None) -> None:
        """Commit, without retries: the next owner rereads what is not committed."""
        rows = {
            index: hold
            for index, hold in self.holds.items()
            if hold.position > max(hold.committed, 0) and (indexes is None or index in indexes)
        }
        if not rows or self.lost:
            return
        group = self.group
        partitions = [
            OffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=hold.position,
                committed_leader_epoch=hold.leader_epoch,
            )
            for index, hold in rows.items()
        ]
        request = OffsetCommitRequest(
            group_id=group.group_id,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            topics=[OffsetCommitRequestTopic(name=self.topic, topic_id=self.topic_id, partitions=partitions)],
        )
        entries = {
            index: group.commit(self.name, index, hold.position, hold.fetched_ns)
            for index, hold in rows.items()
        }
        try:
            answer, _ = await self.request_coordinator(request, OffsetCommitResponse)
        except RetryLater as error:
            for entry in entries.values():
                group.committed(entry, INFO, error)
            return
        for row in answer.topics[0].partitions:
            self._committed(entries[row.partition_index], rows[row.partition_index], row.error_code)

    def _committed(self, entry: Commit, hold: OwnedPartition, code: int) -> None:
        if not code:
            self.group.committed(entry, OK)
            hold.committed = entry.offset
            return
        self.group.committed(entry, INFO if code in REQUEST_TIMED_OUT else FAIL, code)
        if code in ELSEWHERE:
            self.forget_coordinator()
        elif code in REJECTED:
            self.on_rejected(code)

    def on_rejected(self, code: int) -> None:
        """A commit was rejected: unknown member, or wrong generation."""


def node_id_of(address: Address) -> int:
    return int(address[0].removeprefix("node"))
