"""Measure parts in processes of their own: a case that takes too long is given up, and named."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evidence.parts import PARTS
from evidence.records import RESULTS, ROOT, Record, file_of, new_record

__all__ = ["Stopped", "is_done", "measure_part"]

_PROGRAM = (sys.executable, "-m", "evidence.one_part")

_STARTING = 600.0
"""Seconds that a process may take longer for its first case: it may have to compile kernels."""

_LOOKING = 0.2
"""Seconds between two looks at whether to stop."""


class Stopped(Exception):
    """The measurement was asked to stop; nothing of its part was written."""


def is_done(
    part: str, effort: float, seed: int, sources: str | None, folder: Path = RESULTS
) -> bool:
    """Return whether a part was measured with these sources and settings, or with more effort.

    If `sources` is None, any measurement of all its cases counts.
    """
    file = file_of(part, folder)
    if not file.is_file():
        return False
    record = Record.read(file)
    complete = {case["case"] for case in record.cases} >= set(PARTS[part].cases)
    if sources is None:
        return complete
    same = record.sources == sources != "" and record.seed == seed
    return complete and same and record.effort >= effort


def measure_part(
    name: str,
    effort: float,
    seed: int,
    folder: Path = RESULTS,
    say: Callable[[str], object] = print,
    program: Sequence[str] = _PROGRAM,
    stop: threading.Event | None = None,
) -> Record:
    """Measure a part and write its record; return it.

    Parameters
    ----------
    name : str
        Name of the part.
    effort : float
        Seconds of processor time for each case.
    seed : int
        Source of all randomness.
    folder : Path
        Folder of the records.
    say : callable
        Is called with a line for each case that is given up.
    program : sequence of str
        What measures a part: it gets the name, the effort, the seed, and the cases to leave out.
    stop : threading.Event, optional
        If it is set, the process of the part is ended.

    Raises
    ------
    Stopped
        If `stop` was set before all cases were measured.
    """
    part, found, spent = PARTS[name], dict[str, dict[str, Any]](), 0.0
    record, stop = new_record(name, effort, seed), stop or threading.Event()
    while missing := [case for case in part.cases if case not in found]:
        command = [*program, name, str(effort), str(seed), *found]
        reason, seconds = _measure_in_process(command, part.seconds + 3.0 * effort, found, stop)
        spent += seconds
        # The process stopped before this case: continue with the next one in a new process.
        still = [case for case in part.cases if case not in found]
        if still and (still == missing or reason):
            found[still[0]] = {"case": still[0], "missing": reason or "no figures"}
            say(f"{name}, {still[0]}: {reason}")
    earlier = _earlier(name, folder)
    cases = [_kept(earlier.get(case), found[case]) for case in part.cases]
    record = replace(record, cases=cases, processor_seconds=round(spent, 1))
    record.write(folder)
    return record


def _earlier(name: str, folder: Path) -> dict[str, dict[str, Any]]:
    """Return the stored figures of each case that has some, with where they come from."""
    file = file_of(name, folder)
    if not file.is_file():
        return {}
    record = Record.read(file)
    origin = {"commit": record.commit, "date": record.date, "command": record.command}
    return {
        case["case"]: {"measured": origin, **case} for case in record.cases if "missing" not in case
    }


def _kept(earlier: dict[str, Any] | None, found: dict[str, Any]) -> dict[str, Any]:
    """Return the earlier figures of a case that was not tried now, otherwise the new ones.

    A case is not tried if it needs more effort, or a package that is not installed.
    """
    return earlier if earlier is not None and found.get("is_untried") else found


def _measure_in_process(
    command: Sequence[str], seconds: float, found: dict[str, dict[str, Any]], stop: threading.Event
) -> tuple[str, float]:
    """Add to `found` what a new process measures, each case in at most that many seconds.

    Return why it stopped early, or an empty text; and its processor time.
    """
    # In a session of its own: Ctrl-C must not end it before this process knows that it stops.
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        errors: list[str] = []
        readers = [
            threading.Thread(target=_pass_on, args=(process.stdout, lines.put), daemon=True),
            threading.Thread(target=_pass_on, args=(process.stderr, errors.append), daemon=True),
        ]
        for reader in readers:
            reader.start()
        patience = seconds + _STARTING
        while True:
            try:
                line = _next_line(lines, patience, stop)
            except TimeoutError:
                return f"no result within {patience:.0f} s", _kill(process)
            except Stopped:
                _kill(process)
                raise
            if line is None:
                break
            figures = json.loads(line)
            found[figures["case"]] = figures
            patience = seconds
        spent = _wait(process)
        readers[1].join()
    if process.returncode == 0:
        return "", spent
    last = [text for text in errors if text and text.strip()]
    return f"ended with code {process.returncode}: {last[-1].strip() if last else ''}", spent


def _next_line(
    lines: queue.SimpleQueue[str | None], patience: float, stop: threading.Event
) -> str | None:
    """Return the next line, or None at the end."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if stop.is_set():
            raise Stopped
        try:
            return lines.get(timeout=_LOOKING)
        except queue.Empty:
            continue
    raise TimeoutError


def _kill(process: subprocess.Popen[str]) -> float:
    """End a process and those that it started; return its processor time."""
    os.killpg(process.pid, signal.SIGKILL)
    return _wait(process)


def _wait(process: subprocess.Popen[str]) -> float:
    """Wait for a process; return its processor time, and that of the processes it waited for."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def _pass_on(stream: Any, receive: Callable[[Any], object]) -> None:
    for line in stream:
        receive(line)
    receive(None)
