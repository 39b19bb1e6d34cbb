"""Members that use the consumer protocol (KIP-848): the coordinator assigns, heartbeats carry everything.

A member commits and revokes partitions, and reports it with the next heartbeat; only then the coordinator
assigns them to another member.
"""

from __future__ import annotations

import asyncio
import uuid

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from ottla.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from simulator.clients.base import RetryLater
from simulator.groups.members import GroupMember

JOINING = 0
LEAVING = -1
LEAVING_FOR_RESTART = -2
STEP_S = 0.02
ASSIGNORS = (None, None, "uniform", "range")
PATTERN_CHANCE = 0.2


class ReconcilingMember(GroupMember):
    """`_reported` are the partitions last reported as owned, None if the coordinator may not know them."""

    epoch = JOINING
    _target: tuple[int, ...] | None = None
    _reported: tuple[int, ...] | None = None
    _acknowledged = True  # whether the last assignment was acknowledged, also if it changed nothing
    _due_s = 0.0
    _asks_by_pattern = False
    _assignor: str | None = None

    @property
    def is_settled(self) -> bool:
        is_idle = self._reported == self._owned == self._target and self._acknowledged
        return self.epoch > 0 and not self.lost and is_idle

    @property
    def _owned(self) -> tuple[int, ...]:
        return tuple(sorted(self.holds))

    # -- heartbeats

    async def heartbeat_loop(self) -> None:
        self.epoch = JOINING
        self.member_id = str(uuid.UUID(int=self.rng.getrandbits(128)))
        # A static member with a changed subscription causes a rebalance.
        preferences = self.rng if self.instance_id is None else self.world.rng(f"taste of {self.instance_id}")
        self._asks_by_pattern = preferences.random() < PATTERN_CHANCE
        self._assignor = preferences.choice(ASSIGNORS)
        loop = self.world.loop
        while True:
            news = (self._reported != self._owned or not self._acknowledged) and not self._must_act
            if not self.lost and (loop.time() >= self._due_s or news):
                try:
                    await self._heartbeat()
                except RetryLater:
                    self._reported = None
                    await self.back_off()
            await asyncio.sleep(STEP_S)

    @property
    def _must_act(self) -> bool:
        """Return whether partitions have to be revoked or assigned."""
        return self._target is not None and self._owned != self._target

    async def _heartbeat(self) -> None:
        sent_ns, owned, joins = self.group.now_ns, self._owned, self.epoch == JOINING
        in_full = joins or self._reported is None
        acknowledges = not self._acknowledged and not self._must_act
        waits = self._acknowledged or acknowledges
        by_pattern = self._asks_by_pattern
        if joins:
            self.rebalances += 1
            self.supersede()
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=self.timing.rebalance_ms if in_full else -1,
            subscribed_topic_names=([] if by_pattern else [self.topic]) if in_full else None,
            subscribed_topic_regex=(f"{self.topic[:-1]}." if by_pattern else "") if in_full else None,
            server_assignor=self._assignor if in_full else None,
            topic_partitions=self._rows(owned)
            if in_full or acknowledges or self._reported != owned
            else None,
        )
        answer, node_id = await self.request_coordinator(request, ConsumerGroupHeartbeatResponse)
        if answer.error_code:
            self._handle_member_error(answer.error_code)
            return
        if self.epoch > 0 and answer.member_epoch != self.epoch:
            self.rebalances += 1
        self.epoch = answer.member_epoch
        self._reported = owned
        self._due_s = self.world.loop.time() + answer.heartbeat_interval_ms / 1000
        if acknowledges:
            self._acknowledged = True
        if answer.assignment is not None:
            rows = answer.assignment.topic_partitions
            target = tuple(sorted(index for row in rows for index in row.partitions))
            if target != self._target:
                self._target, self._acknowledged = target, False
        self.record_contact(sent_ns, node_id, clean=waits and self._acknowledged)

    def _rows(self, owned: tuple[int, ...]) -> list[TopicPartitions]:
        return [TopicPartitions(topic_id=self.topic_id, partitions=list(owned))] if owned else []

    def _handle_member_error(self, code: int) -> None:
        if code == ErrorCode.FENCED_INSTANCE_ID:
            self.ended = True
        elif code == ErrorCode.UNRELEASED_INSTANCE_ID:
            raise RetryLater("the previous instance has not left yet")
        elif code not in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            self.world.history.surprise(self.name, f"{self.group.group_id}: {ErrorCode(code).name}")
        self.lost = ErrorCode(code).name

    # -- reconciliation

    async def follow_group(self) -> None:
        if not any(self.topic_id):
            try:
                await self.refresh()
            except RetryLater:
                await self.back_off()
                return
        if self.lost:
            self.release(list(self.holds), f"lost: {self.lost}")
            self.lost = ""
            self.epoch, self._target, self._reported, self._due_s = JOINING, None, None, 0.0
            self._acknowledged = True
        if self._must_act:
            revoked = [index for index in self.holds if index not in (self._target or ())]
            if revoked:
                await self.process_slowly()
                await self.commit(revoked)
            if not self.lost and self._target is not None:
                self.release([index for index in self.holds if index not in self._target], "revoked")
                self.take(self._target)

    def identity_for_offsets(self) -> tuple[str | None, int]:
        return self.member_id, self.epoch

    async def leave(self) -> None:
        epoch = LEAVING_FOR_RESTART if self.leave_for_restart and self.instance_id else LEAVING
        if self.epoch <= 0:
            return
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.instance_id,
        )
        try:
            await self.request_coordinator(request, ConsumerGroupHeartbeatResponse)
        except RetryLater:
            return
