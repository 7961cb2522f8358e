"""Run a shell command to its end, and end it with all its children if it takes too long."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from fairtrial.cli.shell import referring, variable
from fairtrial.cli.streams import Trouble
from fairtrial.errors import SourceError

__all__ = ["CommandRunner", "NotStarted", "TookTooLong", "last_lines", "temporary"]

_POLL_SECONDS = 0.2
_GRACE_SECONDS = 1.0
_LOOK_SECONDS = 0.01
_TAIL_BYTES = 65_536
_MOST_BYTES = 2**30
_LINES_SHOWN = 10


class TookTooLong(Trouble):
    """The command took too long."""


class NotStarted(Trouble):
    """The command was not started: it can be run another time."""


class CommandRunner:
    """Runs a shell command, with values for its placeholders, any number of times.

    Parameters
    ----------
    command : str
        Run by ``/bin/sh``; ``{name}`` stands for the value of this name.
    timeout : float
        Seconds after which the command counts as hanging.
    folder : Path or None
        Where the command runs.
    interrupted : callable
        Called from time to time; when it returns True, commands are ended.
    """

    def __init__(
        self,
        command: str,
        timeout: float,
        folder: Path | None,
        interrupted: Callable[[], bool],
    ) -> None:
        self._command = command
        self._timeout = timeout
        self._folder = folder
        self._interrupted = interrupted

    def run(
        self,
        values: Mapping[str, str],
        streams: tuple[IO[bytes], IO[bytes]],
        look: Callable[[], None] | None = None,
        end: Callable[[], None] | None = None,
    ) -> None:
        """Run the command once; whatever is raised, the command and its children have ended.

        Parameters
        ----------
        values : mapping of str to str
            What placeholders stand for. The values are passed as variables of the environment.
        streams : (file, file)
            Where the command writes its output and its errors.
        look : callable, optional
            Called from time to time while the command runs; it may raise to end the command.
        end : callable, optional
            Called when the command has ended by itself.

        Raises
        ------
        Trouble
            If the command fails; `NotStarted` if it does not start, `TookTooLong` if it hangs.
        KeyboardInterrupt
            If it was interrupted.
        """
        variables = {variable(name): text for name, text in values.items()}
        try:
            # Its own process group: we can end all its processes, and only we get Ctrl-C.
            process = subprocess.Popen(  # noqa: S602 - the experimenter's own; labels come as variables
                referring(self._command, values),
                shell=True,
                stdin=subprocess.DEVNULL,
                stdout=streams[0],
                stderr=streams[1],
                cwd=self._folder,
                env={**os.environ, **variables},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            # A label may contain what a variable cannot: a NUL, or half of a surrogate pair.
            raise NotStarted(f"could not be started: {error}") from error
        try:
            code = self._wait(process, streams, look)
        except BaseException:
            _end_group(process)
            raise
        if end is not None:
            end()
        if code < 0:
            raise Trouble(f"was ended by signal {-code} ({signal.strsignal(-code)})")
        if code > 0:
            raise Trouble(f"exited with code {code}")

    def _wait(
        self,
        process: subprocess.Popen[Any],
        streams: tuple[IO[bytes], IO[bytes]],
        look: Callable[[], None] | None,
    ) -> int:
        deadline = time.monotonic() + self._timeout
        while not self._interrupted():
            left = deadline - time.monotonic()
            if left <= 0:
                raise TookTooLong(f"did not end within {self._timeout:g} s and was stopped")
            with suppress(subprocess.TimeoutExpired):
                return process.wait(min(left, _POLL_SECONDS))
            if any(os.fstat(stream.fileno()).st_size > _MOST_BYTES for stream in streams):
                raise Trouble(f"printed more than {_MOST_BYTES >> 20} MiB and was stopped")
            if look is not None:
                look()
        raise KeyboardInterrupt


def _end_group(process: subprocess.Popen[Any]) -> None:
    """Ask the command and all processes that it started to end, then force them."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        for _ in range(round(_GRACE_SECONDS / _LOOK_SECONDS)):
            process.poll()  # the shell counts as part of the group until it is waited for
            os.killpg(process.pid, 0)
            time.sleep(_LOOK_SECONDS)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def temporary() -> IO[bytes]:
    """Return a file for what a command writes.

    A file, not a pipe: a child process left in the background must not make us wait.
    """
    try:
        return tempfile.TemporaryFile()
    except OSError as error:
        raise SourceError(f"no temporary file can be made for a command: {error}") from error


def last_lines(stream: IO[bytes]) -> list[str]:
    """Return the last lines that a command wrote, without empty ones."""
    end = stream.seek(0, os.SEEK_END)
    start = stream.seek(max(0, end - _TAIL_BYTES))
    # The dots show that the first line is incomplete.
    text = "..." * (start > 0) + stream.read().decode(errors="replace")
    lines = text.splitlines()
    return [line.strip() for line in lines if line.strip()][-_LINES_SHOWN:]
