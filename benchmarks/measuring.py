"""Measure wall time and processor time of repeated work."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

WIDTH = 46


@dataclass(frozen=True)
class Timing:
    """Seconds of wall time and processor time per unit of work, by repetition."""

    wall: Sequence[float]
    cpu: Sequence[float]

    def per(self, units: float) -> Timing:
        """Return the timing of one of `units` equal units."""
        return Timing([t / units for t in self.wall], [t / units for t in self.cpu])


def measure(work: Callable[[], object], repetitions: int) -> Timing:
    """Return the timing of `work`; processor time is that of all threads of this process."""
    wall, cpu = [], []
    for _ in range(repetitions):
        start, start_cpu = time.perf_counter(), time.process_time()
        work()
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - start_cpu)
    return Timing(wall, cpu)


def measure_process(
    arguments: Sequence[str], repetitions: int, environment: Mapping[str, str] | None = None
) -> Timing:
    """Return the timing of a new Python process with these arguments, from start to end."""
    wall, cpu = [], []
    for _ in range(repetitions):
        start = time.perf_counter()
        child = subprocess.Popen(
            [sys.executable, *arguments],
            stdout=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
        )
        _, status, usage = os.wait4(child.pid, 0)
        wall.append(time.perf_counter() - start)
        cpu.append(usage.ru_utime + usage.ru_stime)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise SystemExit(f"{' '.join(arguments)} ended with code {child.returncode}")
    return Timing(wall, cpu)


def heading(title: str, unit: str) -> None:
    columns = "".join(f"{name:>14}" for name in ("cpu min", "cpu median", "wall min", "target"))
    print(f"\n{title + ', ' + unit:<{WIDTH}}{columns}", flush=True)


def show(what: str, timing: Timing, scale: float, target: str = "") -> None:
    """Print a line; `scale` converts seconds to the heading's unit."""
    figures = (min(timing.cpu), statistics.median(timing.cpu), min(timing.wall))
    columns = "".join(f"{figure * scale:14,.2f}" for figure in figures)
    print(f"{what:<{WIDTH}}{columns}{target:>14}", flush=True)
