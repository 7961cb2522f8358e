"""Where a study's rewards come from: a simulated or replayed world, or a shell command."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from fairtrial.core import Environment, Problem, Pull
from fairtrial.core.problem import Outcome
from fairtrial.errors import InvalidOutcome, SourceError

__all__ = ["CommandRewards", "RewardSource", "WorldRewards", "fill_placeholders", "placeholders"]

_REWARD_STREAM = 1
_POLL_SECONDS = 0.2
_GRACE_SECONDS = 1.0
_TAIL_BYTES = 65_536
_LINES_SHOWN = 10
# ${HOME} is the shell's, {arm} is ours.
_PLACEHOLDER = re.compile(r"(?<!\$)\{(\w+)\}")


class RewardSource(Protocol):
    """Answers pulls, one at a time."""

    def reward(self, pull: Pull) -> Outcome:
        """Return the pull's reward, or the row of named fields that its problem wants.

        Raises
        ------
        SourceError
            If there is none to be had.
        """
        ...


class WorldRewards:
    """Rewards of a simulated or replayed world, each a function of study seed and pull number.

    A pull that is repeated after an interruption gives the same reward again, so a resumed
    study is the study that was never interrupted.

    Parameters
    ----------
    environment : Environment
        The world.
    seed : int
        The study's seed. The policy's own randomness uses another stream of it.
    """

    def __init__(self, environment: Environment, seed: int) -> None:
        self.environment = environment
        self.seed = seed

    def reward(self, pull: Pull) -> Outcome:
        """Return the pull's reward."""
        stream = np.random.SeedSequence(self.seed, spawn_key=(_REWARD_STREAM, pull.number))
        return self.environment.sample(pull, np.random.default_rng(stream))


class CommandRewards:
    """Rewards that a shell command prints: one command per pull, its last line the reward.

    The line is a number, or a JSON object where the problem wants a row of named fields.

    Parameters
    ----------
    command : str
        Run by ``/bin/sh``. ``{arm}``, ``{group}`` and ``{pull}`` are replaced by the pull's
        labels and number, quoted; the same are in the environment as ``FAIRTRIAL_ARM``,
        ``FAIRTRIAL_GROUP``, ``FAIRTRIAL_PULL``.
    problem : Problem
        It says which rewards are accepted.
    timeout : float
        Seconds after which the command counts as hanging; it is ended with all that it started.
    retries : int
        How often a command that failed is started again.
    folder : Path
        Where the command runs.
    interrupted : callable
        Asked now and then; once it says True the command is ended and `reward` raises
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
        self.timeout = timeout
        self.retries = retries
        self.folder = folder
        self.interrupted = interrupted

    def reward(self, pull: Pull) -> Outcome:
        """Return the pull's reward, measured now."""
        for _ in range(self.retries):
            try:
                return self._measure(pull)
            except SourceError:
                continue
        return self._measure(pull)

    def _measure(self, pull: Pull) -> Outcome:
        command = fill_placeholders(self.command, _values(pull))
        # Files, not pipes: a child left in the background must not keep us waiting.
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            try:
                self._run(command, pull, output, errors)
                return self._parse(_last_lines(output))
            except _Trouble as trouble:
                report = _report(pull, command, str(trouble), _last_lines(errors))
                raise SourceError(report) from None

    def _run(self, command: str, pull: Pull, output: IO[bytes], errors: IO[bytes]) -> None:
        """Run the command to its end, which must be a good one."""
        variables = {f"FAIRTRIAL_{name.upper()}": text for name, text in _values(pull).items()}
        try:
            # Its own process group: all it starts can be ended, and Ctrl-C comes to us only.
            process = subprocess.Popen(  # noqa: S602 - the experimenter's own; values are quoted
                command,
                shell=True,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                cwd=self.folder,
                env={**os.environ, **variables},
                start_new_session=True,
            )
        except OSError as error:
            raise _Trouble(f"could not be started: {error}") from error
        try:
            code = self._wait(process)
        except BaseException:
            _end_group(process)
            raise
        if code < 0:
            raise _Trouble(f"was ended by signal {-code} ({signal.strsignal(-code)})")
        if code > 0:
            raise _Trouble(f"exited with code {code}")

    def _wait(self, process: subprocess.Popen[Any]) -> int:
        deadline = time.monotonic() + self.timeout
        while not self.interrupted():
            left = deadline - time.monotonic()
            if left <= 0:
                raise _Trouble(f"did not end within {self.timeout:g} s and was stopped")
            with suppress(subprocess.TimeoutExpired):
                return process.wait(min(left, _POLL_SECONDS))
        raise KeyboardInterrupt

    def _parse(self, lines: list[str]) -> Outcome:
        if not lines:
            raise _Trouble("printed nothing; its last line must be the reward")
        value = _number_or_record(lines[-1])
        if value is None:
            text = f"printed {lines[-1][:200]!r} as its last line, which is not a number"
            raise _Trouble(text)
        try:
            outcome: Outcome = self.problem.check_outcome(value)
        except InvalidOutcome as error:
            text = f"printed {lines[-1]!r} as its last line: a reward {error.accepted}"
            raise _Trouble(text) from None
        return outcome


def _number_or_record(line: str) -> Outcome | None:
    with suppress(ValueError):
        return float(line)
    with suppress(ValueError, RecursionError):
        record = json.loads(line)
        return record if isinstance(record, dict) else None
    return None


class _Trouble(Exception):
    """What went wrong with a command, to be read after "the command"."""


def fill_placeholders(command: str, values: Mapping[str, str]) -> str:
    """Return the command with each known ``{name}`` replaced by its value, quoted for the shell.

    Examples
    --------
    >>> fill_placeholders("measure {arm} | awk '{print}'", {"arm": "a b"})
    "measure 'a b' | awk '{print}'"
    """
    return _PLACEHOLDER.sub(
        lambda match: shlex.quote(values[match[1]]) if match[1] in values else match[0], command
    )


def placeholders(command: str) -> list[str]:
    """Return the names in braces that a command has, whether they are known or not.

    Examples
    --------
    >>> placeholders("measure {arm} in ${HOME}")
    ['arm']
    """
    return _PLACEHOLDER.findall(command)


def _values(pull: Pull) -> dict[str, str]:
    return {**{name: str(label) for name, label in pull.labels.items()}, "pull": str(pull.number)}


def _end_group(process: subprocess.Popen[Any]) -> None:
    """Ask the command and all that it started to end, then make them."""
    for request in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, request)
        except ProcessLookupError:
            break
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_SECONDS)
    process.wait()


def _last_lines(stream: IO[bytes]) -> list[str]:
    end = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, end - _TAIL_BYTES))
    lines = stream.read().decode(errors="replace").splitlines()
    return [line.strip() for line in lines if line.strip()][-_LINES_SHOWN:]


def _report(pull: Pull, command: str, trouble: str, errors: list[str]) -> str:
    labels = ", ".join(f"{name} {label}" for name, label in pull.labels.items())
    lines = [f"pull {pull.number} ({labels}): the command {trouble}", f"  command: {command}"]
    if errors:
        lines += ["  the end of what it wrote to standard error:", *(f"    {e}" for e in errors)]
    return "\n".join(lines)
