"""Many tasks in one thread: the seed draws which continues next, and time is a number."""

from __future__ import annotations

import asyncio
import heapq
import random
import traceback
from bisect import insort
from collections.abc import Callable
from pathlib import Path

from greenlet import getcurrent, greenlet

_LONGEST_STEP = 0.002
"""The longest step in seconds, so that near events can come in any order."""


_MOST_SHOWN = 20
"""The most tasks that are named when none can continue."""


class Killed(BaseException):
    """The process of a task is killed: none of our code may catch this."""


class Stuck(AssertionError):
    """No task can continue, or they continue without an end."""


class Process:
    """A unit that is killed as a whole: some tasks, and what they hold in memory."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False

    def __repr__(self) -> str:
        return self.name


class Task:
    """Work that is done step by step."""

    def __init__(self, number: int, process: Process, name: str, run: greenlet) -> None:
        self.number = number
        self.process = process
        self.name = name
        self.run = run
        self.is_unwinding = False
        self.was_woken = False
        self.is_waiting = False
        self.waits = 0
        self.loop: asyncio.AbstractEventLoop | None = None

    def __lt__(self, other: Task) -> bool:
        return self.number < other.number

    def __repr__(self) -> str:
        return f"{self.process}:{self.name}"


class Scheduler:
    """Runs tasks, one step of one of them at a time.

    Parameters
    ----------
    seed : int
        Seed of all random choices: the same seed gives the same steps.
    most_steps : int
        Number of steps after which the tasks count as stuck.
    """

    def __init__(self, seed: int, most_steps: int = 10_000) -> None:
        self.chance = random.Random(seed)
        self.seconds = 0.0
        self.steps = 0
        self.trace: list[str] = []
        self.folder = ""
        self._most_steps = most_steps
        self._main = getcurrent()
        self._made = 0
        self._alive: dict[greenlet, Task] = {}
        self._ready: list[Task] = []
        self._timers: list[tuple[float, int, int, Task]] = []
        self._error: BaseException | None = None

    @property
    def current(self) -> Task | None:
        """The task that is running; None outside of all."""
        return self._alive.get(getcurrent())

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        task = self.current
        if self.folder:
            # Its name differs in every run.
            text = text.replace(self.folder, "")
        self.trace.append(f"{self.steps:6} {self.seconds:9.3f}  {task or 'simulation'}  {text}")

    # ------------------------------------------------------------------ from outside

    def spawn(self, process: Process, name: str, action: Callable[[], object]) -> Task:
        """Start a task; it begins when its turn comes."""
        run = greenlet(lambda: self._carry_out(task, action), parent=self._main)
        self._made += 1
        task = Task(self._made, process, name, run)
        self._alive[run] = task
        self._make_ready(task)
        return task

    def _carry_out(self, task: Task, action: Callable[[], object]) -> None:
        try:
            if not task.process.is_dead:
                action()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - it ends the simulation
            self._error = self._error or error
        finally:
            del self._alive[task.run]

    def run(self, is_over: Callable[[], bool]) -> None:
        """Run steps until the condition is true.

        Raises
        ------
        Stuck
            If it never becomes true.
        """
        while not is_over():
            self.steps += 1
            if self.steps > self._most_steps:
                raise Stuck(f"no end after {self.steps} steps: {self._places()}")
            self._step(self._next())
            if self._error is not None:
                raise self._error

    def alive(self, process: Process | None = None) -> list[Task]:
        """Return the tasks that have not ended: all, or those of a process."""
        return [task for task in self._alive.values() if process in (None, task.process)]

    def _places(self) -> str:
        """Return where the unfinished tasks are."""
        return "".join(map(_place, self.alive()[:_MOST_SHOWN]))

    def kill(self, process: Process) -> None:
        """Kill a process: its tasks only unwind."""
        process.is_dead = True
        for task in self.alive(process):
            if task.is_waiting:
                self._wake(task, was_woken=False)

    def end(self) -> None:
        """Kill everything that still runs."""
        for task in self.alive():
            task.process.is_dead = True
            self.kill(task.process)
        while self._ready or self._alive:
            if not self._ready:
                raise Stuck(f"does not end after it was killed: {self._places()}")
            self._step(self._ready.pop(0))
        self._error = None

    def _next(self) -> Task:
        self.seconds += self.chance.random() * _LONGEST_STEP
        self._wake_due()
        if not self._ready:
            if not self._timers:
                raise Stuck(f"all wait for each other: {self._places()}")
            self.seconds = max(self.seconds, self._timers[0][0])
            self._wake_due()
        if not self._ready:
            return self._next()
        # A killed task is gone at once.
        for place, task in enumerate(self._ready):
            if task.process.is_dead:
                return self._ready.pop(place)
        return self._ready.pop(self.chance.randrange(len(self._ready)))

    def _step(self, task: Task) -> None:
        asyncio._set_running_loop(task.loop)
        task.run.switch()
        asyncio._set_running_loop(None)

    def _wake_due(self) -> None:
        while self._timers and self._timers[0][0] <= self.seconds:
            _, _, waits, task = heapq.heappop(self._timers)
            if task.is_waiting and task.waits == waits:
                self._wake(task, was_woken=False)

    def _wake(self, task: Task, *, was_woken: bool) -> None:
        task.is_waiting, task.was_woken = False, was_woken
        self._make_ready(task)

    def _make_ready(self, task: Task) -> None:
        insort(self._ready, task)

    # ------------------------------------------------------------------ from a task

    def pause(self) -> None:
        """Let other tasks continue, if there are any."""
        task = self.current
        if task is not None:
            self._make_ready(task)
            self._leave(task)

    def sleep(self, seconds: float) -> None:
        """Do nothing for some time."""
        if self.current is None:
            self.seconds += seconds
        else:
            self.block(seconds)

    def block(self, seconds: float | None = None) -> bool:
        """Wait to be woken; return whether that came before the timeout."""
        task = self.current
        assert task is not None, "there is nobody to wait for outside of all tasks"
        task.is_waiting, task.waits = True, task.waits + 1
        if seconds is not None:
            when = self.seconds + max(seconds, 0.0)
            heapq.heappush(self._timers, (when, task.number, task.waits, task))
        self._leave(task)
        return task.was_woken

    def wake(self, task: Task) -> None:
        """Let a waiting task continue."""
        if task.is_waiting:
            self._wake(task, was_woken=True)

    def _leave(self, task: Task) -> None:
        task.loop = asyncio._get_running_loop()
        self._main.switch()
        if task.process.is_dead and not task.is_unwinding:
            task.is_unwinding = True
            raise Killed(f"{task.process} was killed")


def _place(task: Task) -> str:
    """Return the place in the package where a task is."""
    frames = traceback.extract_stack(task.run.gr_frame) if task.run.gr_frame else []
    ours = [
        f"{Path(each.filename).name}:{each.lineno}" for each in frames if "src" in each.filename
    ]
    return f"\n    {task} at {' '.join(ours[-5:])}"
