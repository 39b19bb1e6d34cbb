"""The seats of transactional ids: one instance after the other sits there, and sometimes two at a time.

An instance may crash in the middle, be replaced and go on as a zombie, or be paused until another has come.
Now and then two share an id for a while, each coming back as soon as the other has fenced it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from simulator.transactions.ledger import TxnLedger
from simulator.transactions.writers import TxnWriter
from simulator.world import World

SITS_S = (0.3, 4.0)
AWAY_S = (0.0, 1.5)
LONG_AWAY_S = (1.0, 6.0)  # until the transaction that was left behind has run out of time
DUEL_ROUNDS = 4
STEP_S = 0.05
STOPS_WITHIN_S = 40.0


class TxnSeat:
    """`make` gives the next instance."""

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
        self._deeds: dict[str, Callable[[TxnWriter], Awaitable[None]]] = {
            "crash": self.crash,
            "crash long": self.crash_long,
            "zombie": self.zombie,
            "twin": self.twin,
            "duel": self.duel,
            "stop": self.stop,
        }

    async def run(self) -> None:
        """Until `stopping`; whoever sits there then goes on."""
        await self._rest(AWAY_S)
        while not self.stopping:
            member = self._sit_down()
            await self._rest(SITS_S)
            if not self.stopping:
                await self._deeds[self.rng.choice(list(self._deeds))](member)

    def _sit_down(self) -> TxnWriter:
        if self.member is None or self.member.ended:
            self.member = self._newcomer()
        return self.member

    def _newcomer(self) -> TxnWriter:
        member = self._make()
        self.world.network.host_up(member.name)
        self.ledger.trace(member.instance, f"begins, V{member.version}")
        running = self.world.spawn(member.process, member.run())
        running.add_done_callback(lambda task: self._over(member, task))
        return member

    def _over(self, member: TxnWriter, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.world.history.surprise(member.instance, f"failed: {task.exception()!r}")
        is_seated = self.member is member
        self._end(member)
        if is_seated:
            self.member = member  # whoever looks sees how it ended

    def _end(self, member: TxnWriter) -> None:
        """The process is gone."""
        if member.process.alive:
            self.ledger.trace(member.instance, "is gone")
            self.world.network.process_ended(member.process, silent=self.rng.random() < 0.3)
            self.world.loop.end_process(member.process)
        member.ended = True
        if self.member is member:
            self.member = None

    async def _rest(self, span_s: tuple[float, float]) -> None:
        until_s = self.world.loop.time() + self.rng.uniform(*span_s)
        while self.world.loop.time() < until_s and not self.stopping:  # noqa: ASYNC110
            await asyncio.sleep(STEP_S)

    # -- what becomes of an instance

    async def crash(self, member: TxnWriter) -> None:
        self._end(member)
        await self._rest(AWAY_S)

    async def crash_long(self, member: TxnWriter) -> None:
        self._end(member)
        await self._rest(LONG_AWAY_S)

    async def zombie(self, member: TxnWriter) -> None:
        """Another comes, and the first does not know of it."""
        self.member = self._newcomer()
        await self._rest(SITS_S)
        self._end(member)

    async def twin(self, member: TxnWriter) -> None:
        """The same, but the first stands still until the other is at work."""
        member.process.paused = True
        await self._rest(AWAY_S)
        self.member = self._newcomer()
        await self._rest(AWAY_S)
        member.process.paused = False
        await self._rest(AWAY_S)
        self._end(member)

    async def duel(self, member: TxnWriter) -> None:
        """Two that do not give way."""
        rivals = [member, self._newcomer()]
        for _ in range(DUEL_ROUNDS):
            await self._rest((0.1, 1.0))
            for place, rival in enumerate(rivals):
                if rival.ended and not self.stopping:
                    rivals[place] = self._newcomer()
        self.member = rivals[1]
        self._end(rivals[0])

    async def stop(self, member: TxnWriter) -> None:
        """When its transaction is over."""
        member.stopping = True
        until_s = self.world.loop.time() + STOPS_WITHIN_S
        while not member.ended and self.world.loop.time() < until_s:
            if self.stopping:
                return
            await asyncio.sleep(STEP_S)
        self._end(member)
        await self._rest(AWAY_S)

    # -- the end of the story

    def close(self) -> None:
        """Whoever is there dies, in the middle of whatever it does."""
        if self.member is not None:
            self._end(self.member)

    async def last_word(self, is_ready: Callable[[TxnWriter], bool]) -> bool:
        """All is healed: somebody sits down and works until all is done, then stops in good order."""
        until_s = self.world.loop.time() + STOPS_WITHIN_S
        while self.world.loop.time() < until_s:
            member = self._sit_down()
            if is_ready(member):
                member.stopping = True
                while not member.ended and self.world.loop.time() < until_s:  # noqa: ASYNC110
                    await asyncio.sleep(STEP_S)
                if member.ended and not member.is_fenced:
                    return True
            await asyncio.sleep(STEP_S)
        return False
