"""The driver: it carries out a study's pulls in an executor, many at once, until the study ends."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

from fairtrial.core.problem import Outcome
from fairtrial.errors import (
    InvalidArgument,
    NothingToAsk,
    SourceError,
    StudyError,
)
from fairtrial.study.arguments import MOST_AT_ONCE
from fairtrial.study.changes import told_of_changes
from fairtrial.study.clock import seconds_until_due
from fairtrial.study.pull import StudyPull
from fairtrial.study.pull_loop import NOT_NEEDED, Ending, PullLoop, Work
from fairtrial.study.reporting import Ended, Report, carry_out
from fairtrial.study.runners import Runner, driver_name, joined
from fairtrial.study.study import Study
from fairtrial.study.worker_server import Request, WorkerServer

__all__ = ["Driver", "is_executor", "maker_of"]

_LOOK_SECONDS = 5.0
"""Longest time between two checks: the store notifies of others' writes, but not of crashes."""
_SHORTEST_LOOK_SECONDS = 0.2
"""Shortest time between two checks, however much others write."""
_INTERRUPT_SECONDS = 0.2
"""Time between two checks for an interrupt; these read nothing from the store."""

_CHANGED = object()
"""Queued when any process has written to the store."""


@dataclass(eq=False)
class _Work(Work):
    """The work on one pull, in the executor."""

    future: Future[Ended] | None = None
    attempt: str | None = None
    began: float = math.inf

    @property
    def waits(self) -> bool:
        """Whether no worker has begun it yet."""
        return self.is_open and self.attempt is None


class Driver(PullLoop):
    """Runs a study. Only the thread that calls `run` changes the study.

    Parameters
    ----------
    study, function, deadline, max_failures, watch, host
        As for `run_study`.
    make_executor : callable
        Returns the executor in which the function is called.
    parallel : int
        Largest number of pulls in flight.
    limit : float
        Largest number of pulls in this run.
    may_renew : bool
        Whether the driver owns the executors that `make_executor` returns and can replace them.
    interrupted : callable
        Called regularly: whether to end. Pulls in flight then stay open.
    may_begin : callable
        Called with each pull before its work begins. If it returns False, this run begins no more
        pulls, and leaves this one open.
    """

    _work: dict[str, _Work]

    def __init__(
        self,
        study: Study,
        function: Callable[..., Outcome],
        make_executor: Callable[[], Executor],
        parallel: int,
        *,
        deadline: float = math.inf,
        limit: float = math.inf,
        max_failures: int = 0,
        watch: Callable[[Study], None] | None = None,
        host: str = "127.0.0.1",
        may_renew: bool = False,
        interrupted: Callable[[], bool] = lambda: False,
        may_begin: Callable[[StudyPull], bool] = lambda _: True,
    ) -> None:
        super().__init__(study, max_failures, interrupted, driver_name())
        self._study = study
        self._function = function
        self._make_executor = make_executor
        self._parallel = parallel
        self._deadline = deadline
        self._limit = limit
        self._watch = watch
        self._may_renew = may_renew
        self._may_begin = may_begin
        self._server = WorkerServer(host)
        self._runner: Runner
        self._executor: Executor | None = None
        self._waiting: deque[StudyPull] = deque()
        self._started = 0
        self._last_look = self._next_look = -math.inf
        self._has_news = False
        self._last_sign = math.inf

    def run(self) -> Ending:
        """Run the study until it ends or this run does.

        Raises
        ------
        SourceError, NothingToAsk, StudyError
            As for `run_study`.
        """
        try:
            self._executor = self._make_executor()
            with joined(self._study) as self._runner, self._told_of_changes():
                while self._goes_on():
                    self._take(self._awaited())
        finally:
            self._leave()
        return self._ending(has_stopped=self._study.stopped)

    # ------------------------------------------------------------------ begin and end

    def _told_of_changes(self) -> AbstractContextManager[None]:
        return told_of_changes(self._study._store, self._changed)  # noqa: SLF001

    def _changed(self) -> None:
        if not self._has_news:
            self._has_news = True
            self._server.put(_CHANGED)

    def _awaited(self) -> Any:
        """Return the next item; None if it is time for a check, or to end."""
        while not self._interrupted():
            left = self._next_look - time.monotonic()
            if left <= 0:
                return None
            item = self._server.take(min(left, _INTERRUPT_SECONDS))
            if item is not None:
                return item
        return None

    def _check_study_within(self, seconds: float) -> None:
        """Schedule a check after at most that many seconds, but not too soon."""
        soonest = self._last_look + _SHORTEST_LOOK_SECONDS
        self._next_look = min(self._next_look, max(time.monotonic() + seconds, soonest))

    def _take_up(self) -> None:
        """Restart the pulls that a dead driver left open; one with readings counts as lost.

        If its readings are measures, it stays open: another process may tell the others.
        """
        own = {*self._work, *(pull.id for pull in self._waiting)}
        pulls = [pull for pull in self._runner.left_open() if pull.id not in own]
        events = self._study.events() if pulls else ()
        read = {event.pull_id for event in events if event.kind == "report"}
        for pull in pulls:
            if pull.id not in read:
                self._waiting.append(pull)
            elif not self._study.problem.measures:
                self._study.fail(pull, "lost", **self._who)
                self._may_have_more = True

    def _goes_on(self) -> bool:
        """Bring everything up to date; return whether there is something to wait for."""
        if self._interrupted():
            return False
        if time.monotonic() >= self._next_look:
            self._check_study()
        has_stopped = self._study.stopped
        self._call_back(has_stopped=has_stopped)
        if has_stopped:
            return False
        self._fill()
        return bool(self._open()) or self._is_starved()

    def _is_starved(self) -> bool:
        """Return whether pulls are needed and may come from results that others still owe."""
        if self._places() < 1:
            return False
        if self._work or self._study.outstanding():
            return True
        # The last of the others may have told its result after this driver asked.
        self._may_have_more = True
        self._fill()
        if self._open() or self._study.stopped or self._study.outstanding():
            return True
        self._end_with(
            NothingToAsk(f"study {self._study.name!r} gives no pull, and none is in flight")
        )
        return False

    def _leave(self) -> None:
        self._server.close()
        self._withdraw(list(self._work.values()))
        self._drop_executor()

    def _end_with(self, error: Exception) -> None:
        super()._end_with(error)
        self._withdraw(list(self._work.values()))

    def _withdraw(self, works: Iterable[_Work]) -> None:
        """Take back from the executor the work that it has not begun."""
        for work in works:
            if work.attempt is None and work.future is not None and work.future.cancel():
                del self._work[work.pull.id]

    # ---------------------------------------------------------------------- new pulls

    def _open(self) -> list[_Work]:
        return [work for work in self._work.values() if work.is_open]

    def _places(self) -> int:
        """Return how many pulls can be started now."""
        if self._error is not None:
            return 0
        free = min(self._parallel - len(self._open()), self._limit - self._started)
        return int(min(free, MOST_AT_ONCE))

    def _fill(self) -> None:
        # Those that were left open or put back come first.
        self._start_waiting()
        super()._fill()

    def _ask(self, wanted: int) -> Sequence[StudyPull]:
        return self._study.ask(wanted, worker=self._who["actor"])

    def _begin(self, pulls: Sequence[StudyPull]) -> None:
        self._waiting.extend(pulls)
        self._start_waiting()

    def _start_waiting(self) -> None:
        while self._waiting and self._places() > 0:
            if not self._may_begin(self._waiting[0]):
                self._limit = self._started
                return
            self._start(self._waiting.popleft())

    def _start(self, pull: StudyPull) -> None:
        work = self._work[pull.id] = _Work(pull)
        self._started += 1
        try:
            report = Report(pull, self._server.channel())
            work.future = self._ready_executor().submit(carry_out, self._function, report)
        except BrokenExecutor as error:
            self._executor_broke(error)
        except Exception as error:  # noqa: BLE001 - an executor may be anybody's
            self._put_back(work)
            self._end_with(SourceError(f"the executor accepts no work: {error}"))
        else:
            work.future.add_done_callback(partial(self._hand_in, work))

    def _hand_in(self, work: _Work, future: Future[Ended]) -> None:
        self._server.put((work, future))

    def _ready_executor(self) -> Executor:
        if self._executor is None:
            self._executor = self._make_executor()
        return self._executor

    def _drop_executor(self) -> None:
        if self._may_renew and self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
        self._executor = None

    def _put_back(self, work: _Work) -> None:
        """Queue a pull whose work has not begun, to be started again."""
        del self._work[work.pull.id]
        self._waiting.append(work.pull)
        self._started -= 1

    # ------------------------------------------------------------------ what comes in

    def _take(self, item: Any) -> None:
        """Handle an item: a worker's request, the end of some work, or news of others' writes."""
        if item is _CHANGED:
            self._has_news = False
            self._check_study_within(0.0)
        elif isinstance(item, Request):
            self._answer(item)
            if item.message["kind"] == "reading":
                self._show()
        elif item is not None and self._work.get(item[0].pull.id) is item[0]:
            self._finished(*item)
            self._show()

    def _answer(self, request: Request) -> None:
        try:
            request.answer(self._heard(request.message))
        except StudyError:
            raise
        except Exception as error:  # noqa: BLE001 - it is raised where the reading was given
            request.answer(go_on=False, error=error)
        finally:
            request.answer(go_on=False)

    def _heard(self, message: Mapping[str, Any]) -> bool:
        """Return whether the work that sent a message should continue."""
        work = self._work.get(message["pull"])
        if work is None:
            return False
        if message["kind"] == "begin":
            return self._begun(work, message["attempt"])
        if message["attempt"] != work.attempt:
            return False
        if message["kind"] == "reading":
            self._read(work, message["value"], message["details"])
        return work.is_open and work.is_needed

    def _begun(self, work: _Work, attempt: str) -> bool:
        if work.is_open and work.has_readings:
            # The executor lost a worker and repeats its work, whose result would be another one.
            self._fail(work, "lost", "its worker has died")
        work.attempt, work.began = attempt, time.monotonic()
        self._last_sign = work.began
        self._check_study_within(self._deadline)
        return work.is_open and work.is_needed

    def _read(self, work: Work, value: Any, details: Mapping[str, Any]) -> None:
        super()._read(work, value, details)
        if work.is_open:
            self._call_back()

    def _finished(self, work: _Work, future: Future[Ended]) -> None:
        """Handle the end of some work, however it ended."""
        self._last_sign = time.monotonic()
        error = None if future.cancelled() else future.exception()
        if isinstance(error, BrokenExecutor):
            self._executor_broke(error)
        elif isinstance(error, KeyboardInterrupt):
            raise error
        elif error is not None or future.cancelled():
            self._lost(work, repr(error) if error else "the executor cancelled it")
        else:
            self._settle(work, future.result())

    def _show(self) -> None:
        if self._watch is not None:
            self._watch(self._study)

    # ------------------------------------------------------------------ what goes wrong

    def _lost(self, work: _Work, about: str) -> None:
        """Note that a worker has died; restart the work if it had not begun it."""
        if work.waits:
            self._put_back(work)
            self._count_failure(work, about)
        else:
            del self._work[work.pull.id]
            self._fail(work, "lost", about)

    def _fail(self, work: Work, reason: str, about: str, trace: str = "") -> None:
        # A pull that was given up can still end.
        if work.is_open and work.is_needed:
            super()._fail(work, reason, about, trace)
        elif work.is_open:
            self._give_up(work, self._study.cancel, NOT_NEEDED)

    def _executor_broke(self, error: BrokenExecutor) -> None:
        """Note that all work in the executor is lost, and replace the executor if allowed."""
        broken = list(self._work.values())
        for work in broken:
            if work.waits:
                self._put_back(work)
                continue
            del self._work[work.pull.id]
            if work.is_open:
                self._give_up(work, self._study.fail, "lost")
        self._drop_executor()
        if self._may_renew:
            self._count_failure(broken[0], f"lost: {error}")
        else:
            self._end_with(
                SourceError(
                    f"the executor broke: {error} Pass a callable that makes one, so that it "
                    "can be replaced"
                )
            )

    def _is_held_up(self) -> bool:
        """Return whether pulls wait while all workers are busy with pulls that were given up."""
        begun = [work for work in self._work.values() if work.attempt is not None]
        return 0 < len(begun) < len(self._work) and not any(work.is_open for work in begun)

    def _free_workers(self) -> None:
        """Replace the workers: the present ones do not return from pulls past their deadline."""
        held = "no worker is free: all are busy with pulls past their deadline"
        if not self._may_renew:
            self._end_with(SourceError(f"{held}. Pass a callable that makes the executor"))
            return
        waiting = [work for work in self._work.values() if work.waits]
        if self._executor is not None and _end_workers(self._executor):
            self._work.clear()
        for work in waiting:
            self._work[work.pull.id] = work
            self._put_back(work)
        self._drop_executor()
        self._count_failure(waiting[0], held)

    # ---------------------------------------------------------------- what others did

    def _call_back(self, *, has_stopped: bool = False) -> None:
        """Cancel the pulls of this driver that the policy no longer needs.

        On shared blocks, the policy may need the same arm and block later, and then asks again for
        a cancelled pull. So one whose work has begun stays open until the work ends; otherwise it
        could be carried out twice.
        """
        waiting = {pull.id: pull for pull in self._waiting}
        for pull in self._study.to_cancel():
            work = self._work.get(pull.id)
            if work is not None and work.is_open:
                self._withdraw([work])
                has_begun = pull.id in self._work
                if has_begun and pull.block is not None and not has_stopped:
                    work.is_needed = False
                else:
                    self._give_up(work, self._study.cancel, NOT_NEEDED)
            elif pull.id in waiting:
                self._waiting.remove(waiting[pull.id])
                self._give_up(_Work(pull), self._study.cancel, NOT_NEEDED)

    def _check_study(self) -> None:
        """Check what is overdue by the clock, and which pulls others have told or given up."""
        now = self._last_look = time.monotonic()
        self._next_look = now + _LOOK_SECONDS
        # Messages that arrived while the driver was busy are not late.
        for _ in range(self._server.waiting()):
            self._take(self._server.take(0.0))
        self._study.pass_time()
        in_flight = {pull.id for pull in self._study.outstanding()}
        for work in self._open():
            if work.pull.id not in in_flight:
                work.is_open, self._may_have_more = False, True
            elif now - work.began >= self._deadline:
                self._fail(work, "timeout", f"it took longer than {self._deadline:g} s")
                self._last_sign = now
        if now - self._last_sign >= self._deadline and self._is_held_up():
            self._free_workers()
        if self._places() > 0:
            self._take_up()
        if not self._open():
            self._may_have_more = True
        self._check_study_within(self._until_due(now))

    def _until_due(self, now: float) -> float:
        """Return the seconds until the clock alone changes something."""
        ends = [work.began + self._deadline - now for work in self._open()]
        if self._is_held_up():
            ends.append(self._last_sign + self._deadline - now)
        store = self._study._store  # noqa: SLF001
        session = self._study._session  # noqa: SLF001
        due = seconds_until_due(store, session.id, self._study.policy, store.now())
        return min([math.inf if due is None else due, *ends])


# ------------------------------------------------------------------------ executors


def is_executor(executor: Any) -> bool:
    """Return whether `executor` is an executor, and not a class."""
    return not isinstance(executor, type) and callable(getattr(executor, "submit", None))


def maker_of(executor: Any) -> Callable[[], Executor]:
    """Return a function that provides the executor: always the same one, if the caller owns it."""
    if is_executor(executor):
        return lambda: executor
    if not callable(executor):
        raise _no_executor(executor)

    def make() -> Executor:
        made: Executor = executor()
        if not is_executor(made):
            raise _no_executor(made)
        return made

    return make


def _end_workers(executor: Executor) -> bool:
    """Kill the processes of an executor; return whether it has any."""
    # Python 3.14 has a method for this.
    processes = getattr(executor, "_processes", None)
    if not isinstance(processes, dict):
        return False
    for process in list(processes.values()):
        process.kill()
    return True


def _no_executor(given: object) -> InvalidArgument:
    accepted = "must be a concurrent.futures.Executor, or a callable that makes one"
    return InvalidArgument("executor", accepted, given)
