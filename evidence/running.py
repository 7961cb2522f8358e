"""Measure parts in processes of their own: a case that takes too long is given up, and named."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evidence.parts import PARTS, Part
from evidence.records import RESULTS, ROOT, Record, file_of, new_record

__all__ = ["is_done", "measure_part"]

_PROGRAM = (sys.executable, "-m", "evidence.one_part")

_STARTING = 600.0
"""Seconds that a process may take longer for its first case: it may have to compile kernels."""


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
    same = record.sources == sources and record.seed == seed
    return complete and same and record.effort >= effort


def measure_part(
    name: str,
    effort: float,
    seed: int,
    folder: Path = RESULTS,
    say: Callable[[str], object] = print,
    program: Sequence[str] = _PROGRAM,
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
    """
    part, found = PARTS[name], dict[str, dict[str, Any]]()
    record = new_record(name, effort, seed)
    while missing := [case for case in part.cases if case not in found]:
        reason = _measure_in_process([*program, name], part, found, effort, seed)
        # The process stopped before this case: continue with the next one in a new process.
        still = [case for case in part.cases if case not in found]
        if still and (still == missing or reason):
            found[still[0]] = {"case": still[0], "missing": reason or "no figures"}
            say(f"{name}, {still[0]}: {reason}")
    earlier = _earlier(name, folder)
    cases = [_kept(earlier.get(case, {}), found[case]) for case in part.cases]
    record = replace(record, cases=cases)
    record.write(folder)
    return record


def _earlier(name: str, folder: Path) -> dict[str, dict[str, Any]]:
    file = file_of(name, folder)
    return {case["case"]: case for case in Record.read(file).cases} if file.is_file() else {}


def _kept(earlier: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Return the earlier figures of a peer that is not installed now, otherwise the new ones."""
    is_absent = found.get("missing", "").endswith("is not installed")
    return earlier if is_absent and earlier and "missing" not in earlier else found


def _measure_in_process(
    program: Sequence[str], part: Part, found: dict[str, dict[str, Any]], effort: float, seed: int
) -> str:
    """Add to `found` what a new process measures; return why it stopped early, or an empty text."""
    command = [*program, str(effort), str(seed), *found]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        errors: list[str] = []
        readers = [
            threading.Thread(target=_pass_on, args=(process.stdout, lines.put), daemon=True),
            threading.Thread(target=_pass_on, args=(process.stderr, errors.append), daemon=True),
        ]
        for reader in readers:
            reader.start()
        seconds = part.seconds + 3.0 * effort
        patience = seconds + _STARTING
        while True:
            try:
                line = lines.get(timeout=patience)
            except queue.Empty:
                process.kill()
                return f"no result within {patience:.0f} s"
            if line is None:
                break
            figures = json.loads(line)
            found[figures["case"]] = figures
            patience = seconds
        process.wait()
        readers[1].join()
    if process.returncode == 0:
        return ""
    last = [text for text in errors if text and text.strip()]
    return f"ended with code {process.returncode}: {last[-1].strip() if last else ''}"


def _pass_on(stream: Any, receive: Callable[[Any], object]) -> None:
    for line in stream:
        receive(line)
    receive(None)
