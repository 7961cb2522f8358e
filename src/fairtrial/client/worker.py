"""A worker, which carries out pulls of a study that a service keeps, many at once."""

from __future__ import annotations

import queue
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from fairtrial.client.remote_study import RemoteStudy
from fairtrial.core import Pull
from fairtrial.core.keywords import named_arguments
from fairtrial.core.problem import Outcome
from fairtrial.core.validation import (
    check_instance,
    check_integer,
    check_number,
    check_optional_integer,
)
from fairtrial.errors import (
    AlreadyTold,
    FairtrialError,
    InvalidArgument,
    SourceError,
    StorageBusy,
    StorageError,
    StorageFull,
    StorageUnreachable,
    UnknownPull,
)
from fairtrial.study import Report, StudyPull
from fairtrial.study.arguments import LONGEST_LEASE, MOST_PER_REQUEST, check_lease
from fairtrial.study.pull_loop import NOT_NEEDED, Ending, PullLoop, Work
from fairtrial.study.reporting import Ended, carry_out

__all__ = ["work"]

_Answer = TypeVar("_Answer")

_LOOK_SECONDS = 0.1
"""Seconds between two checks whether the worker should end."""
_WAIT_SECONDS = 20.0
"""Seconds that the service is asked to wait for news."""
_BETWEEN_NEWS = 1.0
_BETWEEN_CALLS_BACK = 5.0
_BETWEEN_ASKS = 5.0
"""Seconds after which a worker with free places asks again: no event says that a lease is over."""
_HEARTBEATS_A_LEASE = 3
_PATIENCE_SECONDS = 3_600.0
_END_SECONDS = 3.0
"""Seconds that running functions and commands have to end once they are told to."""
_AT_ONCE = 1e-3
"""Duration of a lease that will have expired when the next worker asks."""


@named_arguments
def work(
    study: RemoteStudy,
    function: Callable[..., Outcome],
    *,
    parallel: int = 1,
    lease: float = 300.0,
    pulls: int | None = None,
    grace: float = 20.0,
    max_failures: int = 10,
    interrupted: Callable[[], bool] = lambda: False,
    watch: Callable[[str], None] | None = None,
) -> Ending:
    """Carry out pulls of a study that a service keeps, until the study has stopped.

    The function is called in threads of this process. The worker asks for pulls with a lease and
    renews it while the function runs, so pulls of a worker that dies are handed out again or count
    as lost, depending on the policy's `expiry`. Any number of workers can serve one study.

    Parameters
    ----------
    study : RemoteStudy
        The study; the token needs the scope ``run``.
    function : callable
        ``function(arm, report)`` returns the outcome. It gets the group and other labels of the
        pull as keyword arguments, as in `run_study`. ``report(value, stage=, elapsed=, std=)``
        records a reading, and raises `StopPull` when the pull is no longer needed. With several
        measures it can report and return only some of them, as in `run_study`.
    parallel : int
        Largest number of pulls in flight.
    lease : float
        Seconds after which a pull is taken away from a worker that has died.
    pulls : int, optional
        Largest number of pulls in this call.
    grace : float
        Seconds that pulls in flight can still take once the worker is told to end. Pulls that have
        not ended by then are handed back: their leases end at once, or they count as lost if they
        have readings.
    max_failures : int
        Largest number of failures in a row, without a result between them, before giving up.
    interrupted : callable
        Called regularly: whether to end.
    watch : callable, optional
        Called with a sentence about each pull that ends.

    Returns
    -------
    {"stopped", "limit", "interrupted"}
        Why the worker ended.

    Raises
    ------
    SourceError
        If more than `max_failures` pulls failed in a row, or the function raised it to say that no
        pull can succeed.
    StorageUnreachable
        If the service did not answer for an hour, or not before the worker had to end. The message
        names the outcome that was not recorded, and `watch` is told the others, so that they can
        be told later.
    AccessRefused
        If the token may not run the study.

    Notes
    -----
    A pull fails as ``"error"`` if the function raises or returns no valid outcome, as ``"timeout"``
    if it raises `TimeoutError`, and as ``"lost"`` if the worker ends first and there were readings.
    The log records this, and the policy's guarantee states how failures affect it.
    """
    check_instance("study", study, RemoteStudy)
    if not callable(function):
        raise InvalidArgument("function", "must be callable", function)
    worker = _Worker(
        study,
        function,
        min(check_integer("parallel", parallel, low=1), MOST_PER_REQUEST),
        check_lease(lease),
        check_optional_integer("pulls", pulls, low=1),
        check_number("grace", grace, low=0.0),
        check_integer("max_failures", max_failures, low=0),
        interrupted,
        watch or (lambda _: None),
    )
    return worker.run()


@dataclass(eq=False)
class _Work(Work):
    """The work on one pull, in a thread; `until` is when its lease ends."""

    until: float = 0.0


class _Channel:
    """Takes the reports of the function that carries out a pull."""

    def __init__(self, work: _Work, read: Callable[[_Work, Any, Mapping[str, Any]], None]) -> None:
        self._work = work
        self._read = read

    def ask(self, message: Mapping[str, Any]) -> bool:
        """Handle a report of the function; return whether the function should continue."""
        if self._work.is_open and message["kind"] == "reading":
            self._read(self._work, message["value"], message["details"])
        return self._work.is_open

    def close(self) -> None:
        """Do nothing: there is no connection to close."""


class _Worker(PullLoop):
    """Asks and tells in the thread that calls `run`; other threads report, renew leases, wait."""

    _work: dict[str, _Work]

    def __init__(
        self,
        study: RemoteStudy,
        function: Callable[..., Outcome],
        parallel: int,
        lease: float,
        limit: int | None,
        grace: float,
        max_failures: int,
        interrupted: Callable[[], bool],
        watch: Callable[[str], None],
    ) -> None:
        super().__init__(study, max_failures, interrupted)
        self._study = study
        self._function = function
        self._parallel = parallel
        self._lease = lease
        self._left = limit
        self._grace = grace
        self._watch = watch
        self._inbox: queue.SimpleQueue[tuple[_Work, Ended]] = queue.SimpleQueue()
        self._running = 0
        self._is_handing_back = False
        self._ended = threading.Event()
        self._has_news = threading.Event()
        self._has_stopped = False
        self._ends_by = float("inf")
        self._next_call_back = 0.0
        self._next_ask = 0.0

    def run(self) -> Ending:
        """Work until the study has stopped or the worker has to end."""
        self._thread(self._follow)
        self._thread(self._keep_leases)
        try:
            while self._goes_on():
                self._settle_next(_LOOK_SECONDS)
            self._hand_back()
        finally:
            self._ended.set()
            self._drop()
        return self._ending(has_stopped=self._has_stopped)

    def _thread(self, target: Callable[..., None], *arguments: object) -> None:
        # Daemon threads: a function that cannot stop must not prevent the process from ending.
        threading.Thread(target=target, args=arguments, daemon=True).start()

    # ------------------------------------------------------------------ begin and end

    def _goes_on(self) -> bool:
        """Start all pulls that can be started; return whether there is something to wait for."""
        now = time.monotonic()
        if self._is_ending():
            if self._interrupted() or self._has_stopped:
                self._ends_by = min(self._ends_by, now + self._grace)
            return bool(self._work) and now < self._ends_by
        if self._has_news.is_set() or now >= self._next_ask:
            self._has_news.clear()
            self._may_have_more = True
        self._call_back(now)
        self._fill()
        return True

    def _is_ending(self) -> bool:
        is_used_up = self._left == 0
        return self._interrupted() or self._has_stopped or is_used_up or self._error is not None

    def _places(self) -> int:
        places = self._parallel - len(self._work)
        return places if self._left is None else min(places, self._left)

    def _ask(self, wanted: int) -> Sequence[StudyPull]:
        key = secrets.token_hex(16)
        pulls, self._has_stopped = self._patiently(
            lambda: self._study.ask_up_to(wanted, lease=self._lease, request_id=key)
        )
        self._next_ask = time.monotonic() + _BETWEEN_ASKS
        return pulls

    def _begin(self, pulls: Sequence[StudyPull]) -> None:
        for pull in pulls:
            started = _Work(pull, until=time.monotonic() + self._lease)
            self._work[pull.id] = started
            self._running += 1
            self._thread(self._carry_out, started)
        if self._left is not None:
            self._left -= len(pulls)

    def _carry_out(self, begun: _Work) -> None:
        try:
            ended = carry_out(self._function, Report(begun.pull, _Channel(begun, self._read)))
        except BaseException as error:  # noqa: BLE001 - even SystemExit: the pull must not hang
            ended = Ended("error", about=repr(error))
        self._inbox.put((begun, ended))

    def _hand_back(self) -> None:
        """Stop all pulls that have not ended; other workers may get them again."""
        self._is_handing_back = True
        self._end_functions()
        for begun in list(self._work.values()):
            self._return(begun)

    def _end_functions(self) -> None:
        """Tell functions and commands to end, and take results that still arrive."""
        for begun in self._work.values():
            begun.is_open = False
        deadline = time.monotonic() + _END_SECONDS
        while self._running and time.monotonic() < deadline:
            self._settle_next(_LOOK_SECONDS)

    def _drop(self) -> None:
        """Stop running functions after an error, without the service; report untold outcomes."""
        for begun in self._work.values():
            begun.is_open = False
        deadline = time.monotonic() + _END_SECONDS
        while self._work and self._running and time.monotonic() < deadline:
            with suppress(queue.Empty):
                begun, ended = self._inbox.get(timeout=_LOOK_SECONDS)
                self._running -= 1
                if self._work.pop(begun.pull.id, None) is begun and ended.kind == "done":
                    self._watch(f"not told: {_said_of(begun.pull, ended.outcome)}")

    def _return(self, begun: Work) -> None:
        """Hand a pull back: end its lease, or report it lost if it has readings."""
        self._work.pop(begun.pull.id, None)
        with suppress(AlreadyTold):
            if self._has_stopped:
                self._study.cancel(begun.pull, NOT_NEEDED)
            elif begun.has_readings or not self._is_issued_again:
                self._study.fail(begun.pull, "lost")
            else:
                self._study.extend(begun.pull, _AT_ONCE)
        self._note(begun, "handed back")

    @cached_property
    def _is_issued_again(self) -> bool:
        """Whether pulls with expired leases are handed out again."""
        return bool(self._study.health(blinded=True)["expiry"] == "reissue")

    # ------------------------------------------------------------------ what comes in

    def _settle_next(self, seconds: float) -> None:
        """Wait for some pull's work to end, and tell the service."""
        with suppress(queue.Empty):
            begun, ended = self._inbox.get(timeout=seconds)
            self._running -= 1
            if self._work.get(begun.pull.id) is begun:
                self._settle(begun, ended)

    def _settle(self, work: Work, ended: Ended) -> None:
        if ended.kind == "fatal" or (self._is_handing_back and ended.kind != "done"):
            if ended.kind == "fatal":
                self._end_with(SourceError(ended.about))
            self._return(work)
        elif ended.kind == "stopped" and not work.is_open:
            del self._work[work.pull.id]
            self._give_up(work, self._study.cancel, NOT_NEEDED)
        elif ended.kind in ("stopped", "unreachable"):
            about = "the function ended without a result"
            super()._settle(work, Ended("error", about=ended.about or about))
        else:
            super()._settle(work, ended)

    def _tell(self, work: Work, outcome: Any) -> None:
        try:
            super()._tell(work, outcome)
        except StorageError as error:
            untold = _said_of(work.pull, outcome)
            raise type(error)(f"{error}. Not told: {untold}") from None

    def _leave_to_others(self, work: Work) -> None:
        # The pull must not be handed out again.
        with suppress(AlreadyTold):
            self._study.extend(work.pull, LONGEST_LEASE)

    def _note(self, work: Work, about: str) -> None:
        self._watch(f"{_named(work.pull)}: {about}")

    def _patiently(self, call: Callable[[], _Answer]) -> _Answer:
        """Return the result of a call to the service, repeated while the service is down."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return call()
            except (StorageUnreachable, StorageBusy, StorageFull) as error:
                if self._interrupted() or time.monotonic() > deadline:
                    raise
                self._watch(f"trying again: {error}")
                self._ended.wait(_BETWEEN_NEWS)

    # -------------------------------------------------------------- what others do

    def _follow(self) -> None:
        """Wait for events of others, which may bring new pulls or end some."""
        head = 0
        while not self._ended.is_set():
            with suppress(FairtrialError):
                latest = self._study.wait(head, _WAIT_SECONDS)
                if latest > head:
                    head = latest
                    self._has_news.set()
            self._ended.wait(_BETWEEN_NEWS)

    def _call_back(self, now: float) -> None:
        """Stop the pulls that are no longer needed, soon after the policy says so."""
        if not self._work or now < self._next_call_back:
            return
        self._next_call_back = now + _BETWEEN_CALLS_BACK
        for pull in self._patiently(self._study.to_cancel):
            begun = self._work.get(pull.id)
            if begun is not None:
                begun.is_open = False

    def _keep_leases(self) -> None:
        """Renew the leases of running pulls, several times per lease."""
        between = self._lease / _HEARTBEATS_A_LEASE
        while not self._ended.wait(min(between, _BETWEEN_NEWS)):
            now = time.monotonic()
            for begun in list(self._work.values()):
                if begun.until - now <= self._lease - between:
                    self._extend(begun)

    def _extend(self, begun: _Work) -> None:
        try:
            begun.is_open &= self._study.heartbeat(begun.pull, self._lease)
        except (AlreadyTold, UnknownPull):
            # It was told or given up by others; a result would still be accepted.
            begun.is_open = False
        except FairtrialError:
            return  # the next heartbeat may succeed
        begun.until = time.monotonic() + self._lease


def _named(pull: Pull) -> str:
    labels = ", ".join(f"{name} {label}" for name, label in pull.labels.items())
    return f"pull {pull.number} ({labels})"


def _said_of(pull: StudyPull, outcome: object) -> str:
    """Return an outcome with all the information needed to tell it by hand."""
    return f"{_named(pull)}, id {pull.id}, has the outcome {outcome!r}"
