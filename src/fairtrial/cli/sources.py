"""Where a study's rewards come from: a simulated or replayed environment, or a shell command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

import numpy as np

from fairtrial.cli.command_runner import (
    CommandRunner,
    NotStarted,
    TookTooLong,
    last_lines,
    temporary,
)
from fairtrial.cli.shell import filled
from fairtrial.cli.streams import Lines, MeasureLines, Readings, Trouble, quoted, record_in
from fairtrial.core import Environment, Problem, Pull
from fairtrial.core.cells import NotANumber, number_of
from fairtrial.core.problem import Outcome
from fairtrial.errors import FairtrialError, InvalidOutcome, SourceError
from fairtrial.study.reporting import StopPull

if TYPE_CHECKING:
    from fairtrial.study.reporting import Report

__all__ = [
    "CommandFailed",
    "CommandRewards",
    "CommandTimedOut",
    "EnvironmentRewards",
    "RewardSource",
]

_REWARD_STREAM, _UNIT_STREAM = 1, 2


class RewardSource(Protocol):
    """Answers pulls, one at a time."""

    def reward(self, pull: Pull) -> Outcome:
        """Return the pull's reward, or a row of named fields if the problem requires one.

        Raises
        ------
        SourceError
            If there is no reward.
        """
        ...


class EnvironmentRewards:
    """Rewards of an environment, each determined by the study's seed and the pull's number.

    A pull that is repeated after an interruption gives the same reward again, so a resumed study
    equals one without interruption.

    Parameters
    ----------
    environment : Environment
        The environment.
    seed : int
        The study's seed. The policy's own randomness uses another stream of it.
    """

    def __init__(self, environment: Environment, seed: int) -> None:
        self.environment = environment
        self.seed = seed
        self._number: int | None = None
        self._environment = environment

    @property
    def units(self) -> Callable[[int], Mapping[str, Any]] | None:
        """What tells of a unit before its pull is requested; None if nothing is known of units."""
        is_silent = not self.environment.context(np.random.default_rng(0))
        return None if is_silent else self._unit

    def _unit(self, number: int) -> Mapping[str, Any]:
        """Return what is known of the unit of a pull: the same whenever it is asked for."""
        self._environment = self.environment.begin(self._stream(_UNIT_STREAM, number))
        self._number = number
        return self._environment.context(self._stream(_UNIT_STREAM, number))

    def reward(self, pull: Pull) -> Outcome:
        """Return the pull's reward."""
        if self._number != pull.number:
            self._unit(pull.number)
        return self._environment.sample(pull, self._stream(_REWARD_STREAM, pull.number))

    def _stream(self, stream: int, number: int) -> np.random.Generator:
        seeds = np.random.SeedSequence(self.seed, spawn_key=(stream, number))
        return np.random.default_rng(seeds)


class CommandFailed(FairtrialError):
    """A command failed, and its pull with it: nothing of it counts as a result.

    The caller names the pull.
    """

    has_reported = False
    """Whether measures of the pull were reported before."""


class CommandTimedOut(CommandFailed, TimeoutError):
    """A command took too long, perhaps because of its result."""


class CommandRewards:
    """Rewards that a shell command prints: one command per pull; its last line is the reward.

    The line is a number, or a JSON object if the problem requires a row of named fields. If the
    problem has readings, the lines before are readings: each is a number, or a JSON object with
    ``value`` and any of ``stage``, ``elapsed``, ``std``.

    If a pull has several measures, every line that is a JSON object has some of them; they are
    reported at once, and ``null`` is a value that will never be known. Other lines are ignored. A
    measure that was not printed can be told later, by hand.

    Parameters
    ----------
    command : str
        Run by ``/bin/sh``. ``{arm}``, ``{group}``, ``{pull}`` and, in a paired race, ``{block}``
        are replaced by the pull's labels, number and block; each is one word, whatever it contains.
        The environment variables ``FAIRTRIAL_ARM``, ``FAIRTRIAL_GROUP``, ``FAIRTRIAL_PULL`` and
        ``FAIRTRIAL_BLOCK`` have the same values.
    problem : Problem
        Decides which rewards are accepted, and whether there are readings.
    timeout : float
        Seconds after which the command counts as hanging; it is then ended, with all its children.
    retries : int
        How often a failed command is started again. If results come late, the failure of a pull
        may depend on its result, so the pull fails permanently, and that many failures in a row
        are tolerated. The same holds for a pull with measures that were already reported.
    folder : Path
        Where the command runs.
    interrupted : callable
        Called from time to time; when it returns True, the command is ended and `reward` raises
        `KeyboardInterrupt`.
    """

    def __init__(
        self,
        command: str,
        problem: Problem,
        timeout: float = 600.0,
        retries: int = 0,
        folder: Path | None = None,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        self.command = command
        self.problem = problem
        self.retries = retries
        self._runner = CommandRunner(command, timeout, folder, interrupted)

    def reward(self, pull: Pull, report: Report | None = None) -> Outcome:
        """Return the pull's reward, measured now.

        Parameters
        ----------
        pull : Pull
            The pull.
        report : Report, optional
            Takes the readings. If it reports that the pull is no longer needed, the command is
            ended and `StopPull` is raised.

        Raises
        ------
        SourceError
            If the command fails and its pull can be measured again.
        CommandFailed
            If the command fails, and its pull with it.
        """
        left = self.retries
        while True:
            try:
                return self.measure(pull, report)
            except CommandFailed as error:
                if self.problem.comes_late or error.has_reported:
                    raise
                if not left:
                    raise SourceError(f"{_named(pull)}: {error}") from None
                left -= 1

    def measure(self, pull: Pull, report: Report | None) -> Outcome:
        """Run the command of a pull once, and return its reward.

        Raises
        ------
        SourceError
            If it cannot be started.
        CommandFailed
            If it fails; `CommandTimedOut` if it takes too long.
        StopPull
            If the pull is no longer needed.
        """
        command = filled(self.command, _values(pull))
        # Files, not pipes: a child process left in the background must not make us wait.
        with temporary() as output, temporary() as errors:
            lines = self._followed(output, report)

            def look() -> None:
                if lines is not None:
                    lines.follow()
                if report is not None and report.should_stop():
                    raise StopPull(f"{pull!r} no longer matters")

            end = None if lines is None else lines.end
            try:
                self._runner.run(_values(pull), (output, errors), look, end)
                return self._outcome(lines, output)
            except Trouble as trouble:
                about = _report(command, str(trouble), last_lines(errors))
                if isinstance(trouble, NotStarted):
                    raise SourceError(f"{_named(pull)}: {about}") from None
                failed = CommandTimedOut if isinstance(trouble, TookTooLong) else CommandFailed
                error = failed(about)
                error.has_reported = lines is not None and lines.has_reported
                raise error from None

    def _followed(self, output: IO[bytes], report: Report | None) -> Lines | None:
        """Return an object that reads the lines while they are printed, if every line counts."""
        if self.problem.measured is not None:
            return MeasureLines(output, self.problem.measured, report)
        if report is not None and self.problem.has_readings:
            return Readings(output, report)
        return None

    def _outcome(self, lines: Lines | None, output: IO[bytes]) -> Outcome:
        if isinstance(lines, MeasureLines):
            return lines.outcome()
        if isinstance(lines, Readings):
            return self._checked(*lines.outcome())
        return self._parse(last_lines(output))

    def _parse(self, lines: list[str]) -> Outcome:
        if not lines:
            raise Trouble("printed nothing; its last line must be the reward")
        printed = quoted(lines[-1])
        value: Outcome | None = record_in(lines[-1])
        if value is None:
            try:
                value = number_of(lines[-1])
            except NotANumber as error:
                raise Trouble(f"printed {printed} as its last line: a reward {error}") from None
        return self._checked(value, printed)

    def _checked(self, value: Outcome, printed: str) -> Outcome:
        try:
            outcome: Outcome = self.problem.check_outcome(value)
        except InvalidOutcome as error:
            text = f"printed {printed} as its last line: a reward {error.accepted}"
            raise Trouble(text) from None
        return outcome


def _values(pull: Pull) -> dict[str, str]:
    block = getattr(pull, "block", None)
    return {
        **({} if block is None else {"block": str(block)}),
        **{name: str(label) for name, label in pull.labels.items()},
        "pull": str(pull.number),
    }


def _named(pull: Pull) -> str:
    labels = ", ".join(f"{name} {label}" for name, label in pull.labels.items())
    return f"pull {pull.number} ({labels})"


def _report(command: str, trouble: str, errors: list[str]) -> str:
    lines = [f"the command {trouble}", f"  command: {command}"]
    if errors:
        lines += ["  the end of what it wrote to standard error:", *(f"    {e}" for e in errors)]
    return "\n".join(lines)
