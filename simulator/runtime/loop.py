"""An asyncio event loop without a clock, sockets or threads: time is a number that jumps to the next timer.

Every callback belongs to a process: a node, a client, or the harness. The process is in the callback's
context, so everything that a node starts belongs to the node. asyncio runs the callbacks of one loop in the
order of `call_soon`, and real processes have one loop each: the order within a process is kept, and the
process to run next is random. Timers that are due at the same time run in random order.

Each callback takes a microsecond, so that a busy loop consumes time and is detected. What blocks the thread
of a process for longer stalls this process alone: `charge` accounts for it, and the next callback runs when
the time is over. Jobs of `run_in_executor` wait in the pools of worker_pool.py; a stall does not stop them.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from simulator.runtime.worker_pool import Job, WorkerPool, threads_of

if TYPE_CHECKING:
    from simulator.runtime.trace import Trace

STEP_NS = 1000
JOB_NS = (20_000, 400_000)  # duration of an executor job without a disk
UNCHARGED = -1
STEPS_MAX = 20_000_000
CLOSES_MAX = 10

PROCESS: ContextVar[Process | None] = ContextVar("simulated_process", default=None)


class SimulationStuck(Exception):
    """No event is left, and the run is not complete."""


class SimulationTooLong(Exception):
    """The run exceeded its limit of virtual time or steps."""


class Process:
    """One run of a program on a host. A restart is a new process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        self.ready: deque[asyncio.Handle] = deque()
        self.tasks: dict[asyncio.Task[Any], None] = {}  # in order of creation
        self.job_delay_ns: Callable[[], int] | None = None
        self.pools: dict[Any, WorkerPool] = {}  # by executor
        self.callback_ns = 0  # what each callback costs on top of STEP_NS: a slow or busy CPU
        self.stalled_until_ns = 0
        self.stall_ns = 0  # charged by the callback that runs
        self.job_cost_ns = UNCHARGED  # charged by the job that runs
        self.out_of_descriptors = False
        self.context = copy_context()
        self.context.run(PROCESS.set, self)

    def __repr__(self) -> str:
        return f"Process({self.name})"

    def forget_task(self, task: asyncio.Task[Any]) -> None:
        self.tasks.pop(task, None)

    def is_running(self) -> bool:
        """Whether what runs now belongs to this process."""
        return PROCESS.get() is self

    def charge(self, cost_ns: int) -> None:
        """What runs now blocks its thread for that long: a worker thread, or the thread of the loop."""
        if self.job_cost_ns != UNCHARGED:
            self.job_cost_ns += cost_ns
        else:
            self.stall_ns += cost_ns


class _JobHandle(asyncio.Handle):
    """A step of a job. It needs no loop, so it runs while the process is stalled."""

    __slots__ = ()


class LoopNetwork(Protocol):
    """What the loop uses of the network."""

    def listen(self, process: Process, factory: Any, host: Any, port: Any, start_serving: bool) -> Any: ...

    async def connect(self, process: Process, host: Any, port: Any) -> Any: ...


class SimulatedLoop(asyncio.AbstractEventLoop):
    def __init__(self, rng: random.Random, trace: Trace) -> None:
        self.network: LoopNetwork | None = None
        self.processes: list[Process] = []
        self.errors: list[str] = []  # uncaught exceptions
        self.steps = 0
        self.steps_max = STEPS_MAX
        self._rng = rng
        self._trace = trace
        self._now_ns = 0
        self._sequence = 0
        self._timers: list[tuple[int, float, int, Process, asyncio.Handle]] = []
        self._kernel = self.new_process("kernel")
        self._closed = False
        self._running = False
        self._debug = False
        trace.now_ns = lambda: self._now_ns

    # -- processes

    def new_process(self, name: str) -> Process:
        process = Process(name)
        self.processes.append(process)
        return process

    def end_process(self, process: Process) -> None:
        """End a process between two callbacks. None of its callbacks runs afterwards.

        Its coroutines are closed here in a fixed order, so that the garbage collector does not close them at
        an arbitrary time; their `finally` blocks run without access to the network.
        """
        assert PROCESS.get() is not process, "a process cannot end itself"
        process.alive = False
        process.ready.clear()
        self.processes.remove(process)
        for task in list(process.tasks):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            _close(process, task.get_coro())
        process.tasks.clear()
        process.ready.clear()

    # -- time

    @property
    def now_ns(self) -> int:
        return self._now_ns

    def time(self) -> float:
        return self._now_ns / 1_000_000_000

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        if context is None:
            context = copy_context()
        handle = asyncio.Handle(callback, args, self, context)
        process = context.get(PROCESS) or self._kernel
        if process.alive:
            process.ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if context is None:
            context = copy_context()
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        process = context.get(PROCESS) or self._kernel
        if process.alive:
            self._push(round(when * 1_000_000_000), process, handle)
        return handle

    def stall(self, process: Process, duration_ns: int) -> None:
        """Block the thread of a process; its worker threads go on, and so does the rest of the world."""
        until_ns = self._now_ns + duration_ns
        if until_ns > process.stalled_until_ns:
            process.stalled_until_ns = until_ns
            self.kernel_at(until_ns, _nothing)  # so that time does not jump past it

    def kernel_at(self, when_ns: int, callback: Callable[..., Any], *args: Any) -> None:
        """Schedule an event outside of all processes: a segment arrives, a disk job completes."""
        handle = asyncio.Handle(callback, args, self, self._kernel.context.copy())
        self._push(when_ns, self._kernel, handle)

    def _push(self, when_ns: int, process: Process, handle: asyncio.Handle) -> None:
        self._sequence += 1
        heapq.heappush(self._timers, (when_ns, self._rng.random(), self._sequence, process, handle))

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Called by asyncio; a cancelled timer is skipped when it is due."""

    # -- running

    def run_in(
        self, process: Process, main: Coroutine[Any, Any, Any], *, limit_s: float = float("inf")
    ) -> Any:
        """Run `main` in `process` until it is done, for at most `limit_s` of virtual time."""
        task = self.create_task(main, context=process.context.copy())
        limit_ns = self._now_ns + limit_s * 1_000_000_000
        asyncio._set_running_loop(self)
        self._running = True
        try:
            while not task.done():
                if self._now_ns > limit_ns:
                    raise SimulationTooLong(f"not complete after {limit_s:g} s of virtual time")
                self._step()
        finally:
            self._running = False
            asyncio._set_running_loop(None)
        return task.result()

    def run_until_complete(self, future: Any) -> Any:
        return self.run_in(self._kernel, future)

    def _step(self) -> None:
        """Run one callback of one process."""
        self.steps += 1
        if self.steps > self.steps_max:
            raise SimulationTooLong(f"not complete after {self.steps_max} steps")
        timers = self._timers
        if timers and timers[0][0] <= self._now_ns:
            self._wake_due()
        runnable = self._runnable()
        while not runnable:
            self._jump()
            self._wake_due()
            runnable = self._runnable()
        chosen = runnable[0] if len(runnable) == 1 else self._rng.choice(runnable)
        handle = chosen.ready.popleft()
        if not handle._cancelled:
            self._now_ns += STEP_NS
            handle._run()
            cost_ns = chosen.stall_ns + chosen.callback_ns
            if cost_ns:
                chosen.stall_ns = 0
                self.stall(chosen, cost_ns)

    def _runnable(self) -> list[Process]:
        now_ns = self._now_ns
        return [
            process
            for process in self.processes
            if process.ready and not process.paused and process.stalled_until_ns <= now_ns
        ]

    def _wake_due(self) -> None:
        timers = self._timers
        while timers and timers[0][0] <= self._now_ns:
            _, _, _, process, handle = heapq.heappop(timers)
            if process.alive and not handle.cancelled():
                stalled = process.stalled_until_ns > self._now_ns
                if stalled and isinstance(handle, _JobHandle) and not process.paused:
                    handle._run()
                else:
                    process.ready.append(handle)

    def _jump(self) -> None:
        """Advance the clock to the next timer."""
        timers = self._timers
        while timers and (timers[0][4].cancelled() or not timers[0][3].alive):
            heapq.heappop(timers)
        if not timers:
            raise SimulationStuck("no event is left")
        self._now_ns = max(self._now_ns, timers[0][0])

    # -- futures, tasks, jobs

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Any, *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        if context is None:
            context = copy_context()
        process = context.get(PROCESS) or self._kernel
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        if process.alive:
            process.tasks[task] = None
            task.add_done_callback(process.forget_task)
        else:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            _close(process, coro)
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run the function atomically after its duration: a crash before that has no effect of it."""
        process = PROCESS.get() or self._kernel
        future = self.create_future()
        if process.alive:
            pool = process.pools.get(executor)
            if pool is None:
                pool = process.pools[executor] = WorkerPool(self, process, threads_of(executor))
            pool.submit(Job(future, func, args, copy_context()))
        return future

    def job_delay_ns(self, process: Process) -> int:
        return process.job_delay_ns() if process.job_delay_ns else self._rng.randint(*JOB_NS)

    def job_after(self, delay_ns: int, process: Process, job: Job, step: Callable[[Job], None]) -> None:
        """Schedule a step of a job."""
        self._push(self._now_ns + delay_ns, process, _JobHandle(step, (job,), self, job.context))

    def run_job(self, process: Process, job: Job) -> tuple[Any, Exception | None, int]:
        """Run the function; return its result, its exception, and for how long it blocked its thread."""
        self._trace("job", process.name, getattr(job.func, "__qualname__", "?"))
        process.job_cost_ns = 0
        result, error = None, None
        try:
            result = job.func(*job.args)
        except Exception as raised:
            error = raised
        finally:
            cost_ns, process.job_cost_ns = process.job_cost_ns, UNCHARGED
        return result, error, cost_ns

    # -- network

    async def create_server(
        self,
        protocol_factory: Any,
        host: Any = None,
        port: Any = None,
        *,
        start_serving: bool = True,
        **options: Any,
    ) -> Any:
        assert self.network is not None, "this loop has no network"
        assert options.get("ssl") is None, "TLS is not simulated"
        return self.network.listen(_current(), protocol_factory, host, port, start_serving)

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        assert self.network is not None, "this loop has no network"
        assert options.get("ssl") is None, "TLS is not simulated"
        transport = await self.network.connect(_current(), host, port)
        protocol = protocol_factory()
        transport.start(protocol)
        return transport, protocol

    # -- other methods of event loops

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.errors.append(f"{context.get('message')}: {error!r}")

    default_exception_handler = call_exception_handler

    def get_debug(self) -> bool:
        return self._debug

    def set_debug(self, enabled: bool) -> None:
        self._debug = enabled

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """End all processes."""
        if not self._closed:
            asyncio._set_running_loop(self)
            try:
                for process in list(self.processes):
                    self.end_process(process)
            finally:
                asyncio._set_running_loop(None)
            self._timers.clear()
            self._closed = True

    def run_forever(self) -> NoReturn:
        raise NotImplementedError("use run_in: a simulation runs until a task is done")


def _nothing() -> None:
    return None


def _current() -> Process:
    process = PROCESS.get()
    assert process is not None, "only processes can use the network"
    return process


def _close(process: Process, coroutine: Any) -> None:
    """Close a coroutine, even if it awaits in `finally` blocks."""
    for _ in range(CLOSES_MAX):
        with contextlib.suppress(Exception):
            process.context.copy().run(coroutine.close)
        if getattr(coroutine, "cr_frame", None) is None:
            return
