"""Run a study until it stops or is interrupted: one pull at a time, or many at once."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

from fairtrial.errors import ExperimentFinished, NothingToAsk
from fairtrial.study.driver import Driver
from fairtrial.study.pull_loop import Ending
from fairtrial.study.runners import Runner, joined

if TYPE_CHECKING:
    from fairtrial.cli.display import Reporter
    from fairtrial.cli.sources import CommandRewards, RewardSource
    from fairtrial.core.problem import Outcome
    from fairtrial.study import Report, Study, StudyPull

__all__ = ["Interrupting", "Interruption", "drive", "drive_commands"]

_WAIT_SECONDS = 0.1


def drive(
    study: Study,
    source: RewardSource,
    display: Reporter,
    interrupted: Callable[[], bool],
    limit: int | None = None,
    actor: str | None = None,
    units: Callable[[int], Mapping[str, Any]] | None = None,
) -> Ending:
    """Run a study until it stops, `limit` pulls are told, or an interruption is requested.

    `actor` is the source of the rewards; the log records it at the first result of the session.
    `units` returns what is known of the unit of a pull, by its number, before it is requested.

    A pull that a dead process left open is measured first. If a source fails or is interrupted, its
    pull stays open, so that the next session measures that pull.

    Raises
    ------
    SourceError
        If the source fails; everything that was told before is kept.
    """
    with joined(study) as runner:
        session = _Session(study, runner, interrupted, actor, units)
        try:
            for told, pull in enumerate(session.pulls(), start=1):
                session.tell(pull, source.reward(pull), last=told == limit)
                if display.due():
                    display.show(study.progress())
        except KeyboardInterrupt:
            return "interrupted"
    if study.policy.stopped:
        return "stopped"
    return "interrupted" if interrupted() else "limit"


def drive_commands(
    study: Study,
    source: CommandRewards,
    display: Reporter,
    interrupted: Callable[[], bool],
    limit: int | None = None,
    parallel: int = 1,
) -> Ending:
    """Run a study with that many commands at once, until it stops or as in `drive`.

    Raises
    ------
    SourceError
        If a command fails; the others are completed, and everything that was told is kept.
    """

    def measure(_: object, report: Report, **__: object) -> Outcome:
        return source.reward(report.pull, report)

    def show(study: Study) -> None:
        if display.due():
            display.show(study.progress())

    with ThreadPoolExecutor(parallel, thread_name_prefix="fairtrial") as threads:
        driver = Driver(
            study,
            measure,
            lambda: threads,
            parallel,
            limit=math.inf if limit is None else limit,
            max_failures=source.retries,
            watch=show,
            interrupted=interrupted,
        )
        try:
            return driver.run()
        except KeyboardInterrupt:
            return "interrupted"


class _Session:
    """Issues pulls one after the other; each is told before the next."""

    def __init__(
        self,
        study: Study,
        runner: Runner,
        interrupted: Callable[[], bool],
        actor: str | None,
        units: Callable[[int], Mapping[str, Any]] | None,
    ) -> None:
        self._study = study
        self._units = units
        self._actor = actor
        self._runner = runner
        self._left_open = deque(runner.left_open())
        self._interrupted = interrupted
        self._next: StudyPull | None = None
        self._ended = False

    def pulls(self) -> Iterator[StudyPull]:
        """Yield the next pull while there is one and no end is requested."""
        while not self._ended and not self._interrupted():
            pull = self._take()
            if pull is not None:
                yield pull

    def tell(self, pull: StudyPull, reward: Outcome, *, last: bool) -> None:
        """Tell a reward, and ask for the next pull in the same write, unless it is the last.

        The session's first tell records the actor.
        """
        self._ended = last
        actor, self._actor = self._actor, None
        if last or actor or self._left_open or self._interrupted():
            self._study.tell(pull, reward, actor=actor)
        else:
            unit = self._next_unit()
            self._next = next(iter(self._study.tell_and_ask(pull, reward, 1, **unit)), None)

    def _take(self) -> StudyPull | None:
        if self._left_open:
            return self._left_open.popleft()
        pull, self._next = self._next, None
        return pull or self._ask()

    def _next_unit(self) -> Mapping[str, Any]:
        return {} if self._units is None else self._units(self._study.policy.asked)

    def _ask(self) -> StudyPull | None:
        try:
            issued: StudyPull = self._study.ask(**self._next_unit())
        except ExperimentFinished:
            self._ended = True
        except NothingToAsk:
            # First another runner must tell a result, perhaps of a pull that it left open.
            time.sleep(_WAIT_SECONDS)
            self._left_open.extend(self._runner.left_open())
        else:
            return issued
        return None


class Interruption:
    """Ctrl-C (or another request to end, or a lost terminal) as a flag, checked between two pulls.

    So no write is interrupted. The second Ctrl-C raises `KeyboardInterrupt` at once: the
    transactions of the storage keep the study consistent even then.
    """

    _signals = ("SIGINT", "SIGTERM", "SIGHUP")

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[signal.Signals, Any] = {}

    def __call__(self) -> bool:
        """Return whether the end was requested."""
        return self.requested

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for name in self._signals:
                number = getattr(signal, name, None)
                # A signal that is ignored stays ignored, as `nohup` intends.
                if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True


class Interrupting(Interruption):
    """The same requests, each of which raises `KeyboardInterrupt` at once.

    For what checks no flag: a lost terminal or a request to end then leaves no commands behind.
    """

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        raise KeyboardInterrupt
