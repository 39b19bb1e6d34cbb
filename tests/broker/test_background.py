"""Background work: no task ends unnoticed, whatever ends it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from ottla.broker import background
from ottla.broker.background import BackgroundTasks, EndedUnexpectedly, cancel, result_of
from ottla.broker.periodic_tasks import PeriodicTasks


class Defect(Exception):
    pass


class Node:
    """The tasks of a node, and work that fails as often as a test wants."""

    def __init__(self) -> None:
        self.fatal: list[BaseException] = []
        self.tasks = BackgroundTasks(self.fatal.append)
        self.runs = 0
        self.forever = asyncio.Event()

    def work(self, *failures: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """Work whose first runs end as given, and whose next does not end."""

        async def run() -> None:
            self.runs += 1
            if self.runs <= len(failures):
                await failures[self.runs - 1]()
            else:
                self.forever.set()
                await asyncio.Event().wait()

        return run


async def raises() -> None:
    raise Defect("a defect")


async def returns() -> None:
    pass


async def waits_for_a_cancelled_future() -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "RESTART_AFTER_MS", 1)


@pytest.mark.parametrize("end", [raises, returns, waits_for_a_cancelled_future])
def test_work_without_an_end_is_restarted(
    end: Callable[[], Awaitable[None]], caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        node = Node()
        task = node.tasks.keep_running("work", node.work(end, end))
        await asyncio.wait_for(node.forever.wait(), 10)
        assert (node.runs, node.tasks.failures["work"], node.fatal) == (3, 2, [])
        await cancel(task)
        assert task.cancelled() and node.tasks.failures["work"] == 2

    asyncio.run(main())
    assert [record.levelno for record in caplog.records if "work=work" in record.message] == [
        logging.ERROR
    ] * 2


def test_the_pause_grows_with_each_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "RESTART_AFTER_MS_MAX", 4)
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def note(delay: float) -> None:
        pauses.append(delay * 1000)
        await sleep(0)

    async def main() -> None:
        node = Node()
        monkeypatch.setattr(asyncio, "sleep", note)
        task = node.tasks.keep_running("work", node.work(*[raises] * 5))
        await asyncio.wait_for(node.forever.wait(), 10)
        await cancel(task)

    asyncio.run(main())
    assert pauses == [1, 2, 4, 4, 4]


@pytest.mark.parametrize(("end", "error"), [(raises, Defect), (returns, EndedUnexpectedly)])
def test_the_end_of_vital_work_ends_the_node(
    end: Callable[[], Awaitable[None]], error: type[Exception]
) -> None:
    async def main() -> None:
        node = Node()
        await node.tasks.keep_running("work", node.work(end), fatal=True)
        assert node.runs == 1
        assert [type(each) for each in node.fatal] == [error]
        assert node.tasks.failures["work"] == 1

    asyncio.run(main())


def test_work_with_an_end_is_repeated_until_it_succeeds() -> None:
    async def main() -> None:
        node = Node()
        await asyncio.wait_for(node.tasks.run_to_end("work", node.work(raises, returns)), 10)
        assert (node.runs, node.tasks.failures["work"]) == (2, 1)

    asyncio.run(main())


def test_one_attempt_that_fails_is_counted_and_the_loop_does_not_complain() -> None:
    async def main() -> None:
        complaints: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
        node = Node()
        task = node.tasks.run_once("work", raises())
        await asyncio.wait([task])
        assert node.tasks.failures["work"] == 1
        del task
        await asyncio.sleep(0)
        assert not complaints

    asyncio.run(main())


def test_the_caller_of_result_of_gets_the_exception() -> None:
    async def main() -> None:
        with pytest.raises(Defect):
            await result_of(raises())

    asyncio.run(main())


def test_a_callback_that_fails_is_brought_back() -> None:
    async def main() -> None:
        node = Node()
        again = asyncio.Event()

        def fails() -> None:
            raise Defect("a defect")

        node.tasks.guard("work", fails, again.set)
        await asyncio.wait_for(again.wait(), 10)
        assert node.tasks.failures["work"] == 1

    asyncio.run(main())


def test_a_periodic_job_that_fails_runs_again_and_is_counted() -> None:
    async def main() -> None:
        node = Node()
        seen = asyncio.Event()
        calls: list[int] = []

        async def job() -> None:
            calls.append(1)
            if len(calls) == 1:
                raise Defect("a defect")
            seen.set()

        jobs = PeriodicTasks([(job, 1)], node.tasks)
        jobs.start()
        await asyncio.wait_for(seen.wait(), 10)
        await jobs.stop()
        assert sum(node.tasks.failures.values()) == 1

    asyncio.run(main())
