"""Slots of transactional ids: each runs one producer instance after another, and sometimes two at a time.

An instance may crash during a transaction, continue as a zombie after it was replaced, or be paused until its
successor runs. Sometimes two instances compete for an id, each restarting as soon as the other has fenced it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from simulator.history.transactions import TxnLedger
from simulator.transactions.writers import TxnWriter
from simulator.world import World

ALIVE_S = (0.3, 4.0)
DOWN_S = (0.0, 1.5)
LONG_DOWN_S = (1.0, 6.0)  # until the abandoned transaction times out
COMPETE_ROUNDS = 4
STEP_S = 0.05
STOPS_WITHIN_S = 40.0


class ProducerSlot:
    """Runs the instances of one transactional id; `make` creates the next one."""

    def __init__(
        self, world: World, ledger: TxnLedger, transactional_id: str, make: Callable[[], TxnWriter]
    ) -> None:
        self.world = world
        self.ledger = ledger
        self.transactional_id = transactional_id
        self.rng = world.rng(f"seat {transactional_id}")
        self.stopping = False
        self.member: TxnWriter | None = None
        self._make = make
        self._actions: dict[str, Callable[[TxnWriter], Awaitable[None]]] = {
            "crash": self.crash,
            "crash long": self.crash_long,
            "zombie": self.zombie,
            "twin": self.twin,
            "duel": self.compete,
            "stop": self.stop,
        }

    async def run(self) -> None:
        """Start and end instances until `stopping`; the last one continues."""
        await self._sleep_or_stop(DOWN_S)
        while not self.stopping:
            member = self._current_member()
            await self._sleep_or_stop(ALIVE_S)
            if not self.stopping:
                await self._actions[self.rng.choice(list(self._actions))](member)

    def _current_member(self) -> TxnWriter:
        if self.member is None or self.member.ended:
            self.member = self._new_member()
        return self.member

    def _new_member(self) -> TxnWriter:
        member = self._make()
        self.world.network.host_up(member.name)
        self.ledger.trace(member.instance, f"begins, V{member.version}")
        running = self.world.spawn(member.process, member.run())
        running.add_done_callback(lambda task: self._on_done(member, task))
        return member

    def _on_done(self, member: TxnWriter, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.world.history.surprise(member.instance, f"failed: {task.exception()!r}")
        is_current = self.member is member
        self._end(member)
        if is_current:
            self.member = member  # keeps the outcome visible

    def _end(self, member: TxnWriter) -> None:
        """End the process of an instance."""
        if member.process.alive:
            self.ledger.trace(member.instance, "is gone")
            self.world.network.process_ended(member.process, silent=self.rng.random() < 0.3)
            self.world.loop.end_process(member.process)
        member.ended = True
        if self.member is member:
            self.member = None

    async def _sleep_or_stop(self, span_s: tuple[float, float]) -> None:
        until_s = self.world.loop.time() + self.rng.uniform(*span_s)
        while self.world.loop.time() < until_s and not self.stopping:  # noqa: ASYNC110
            await asyncio.sleep(STEP_S)

    # -- actions

    async def crash(self, member: TxnWriter) -> None:
        self._end(member)
        await self._sleep_or_stop(DOWN_S)

    async def crash_long(self, member: TxnWriter) -> None:
        self._end(member)
        await self._sleep_or_stop(LONG_DOWN_S)

    async def zombie(self, member: TxnWriter) -> None:
        """Start another instance while this one continues."""
        self.member = self._new_member()
        await self._sleep_or_stop(ALIVE_S)
        self._end(member)

    async def twin(self, member: TxnWriter) -> None:
        """Pause the instance until another one is ready."""
        member.process.paused = True
        await self._sleep_or_stop(DOWN_S)
        self.member = self._new_member()
        await self._sleep_or_stop(DOWN_S)
        member.process.paused = False
        await self._sleep_or_stop(DOWN_S)
        self._end(member)

    async def compete(self, member: TxnWriter) -> None:
        """Let two instances compete: restart each when it is fenced."""
        rivals = [member, self._new_member()]
        for _ in range(COMPETE_ROUNDS):
            await self._sleep_or_stop((0.1, 1.0))
            for place, rival in enumerate(rivals):
                if rival.ended and not self.stopping:
                    rivals[place] = self._new_member()
        self.member = rivals[1]
        self._end(rivals[0])

    async def stop(self, member: TxnWriter) -> None:
        """Stop after the current transaction."""
        member.stopping = True
        until_s = self.world.loop.time() + STOPS_WITHIN_S
        while not member.ended and self.world.loop.time() < until_s:
            if self.stopping:
                return
            await asyncio.sleep(STEP_S)
        self._end(member)
        await self._sleep_or_stop(DOWN_S)

    # -- end of the scenario

    def close(self) -> None:
        """Kill the instance at once."""
        if self.member is not None:
            self._end(self.member)

    async def finish_work(self, is_ready: Callable[[TxnWriter], bool]) -> bool:
        """After healing: run an instance until `is_ready`, then stop it cleanly."""
        until_s = self.world.loop.time() + STOPS_WITHIN_S
        while self.world.loop.time() < until_s:
            member = self._current_member()
            if is_ready(member):
                member.stopping = True
                while not member.ended and self.world.loop.time() < until_s:  # noqa: ASYNC110
                    await asyncio.sleep(STEP_S)
                if member.ended and not member.is_fenced:
                    return True
            await asyncio.sleep(STEP_S)
        return False
