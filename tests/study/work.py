"""Functions that drivers in tests carry out; every process can import them."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

from fairtrial.study import StopPull
from tests.study.tools import PATIENCE, wait_until

MEANS = {"a": 0.0, "b": 0.2, "c": 3.0, "0": 0.0, "1": 0.5, "2": 1.0}


def measure(arm, report):
    """Report two readings; return the outcome: the arm's mean, varied slightly by pull number."""
    outcome = MEANS[arm] + 0.01 * (report.pull.number % 7)
    report(outcome + 0.1, stage=1)
    report(outcome, stage=2)
    return outcome


def plain(arm, report):
    return MEANS[arm]


def by_group(arm, report, group):
    return 1.0 if (arm, group) in (("0", "x"), ("0", "y")) else 0.0


class DieAt:
    """Kill this process in the middle of the pulls with these numbers, once each.

    If there is a file to wait `until`, later pulls begin when it exists.
    """

    def __init__(self, folder, numbers, until=None):
        self.folder = str(folder)
        self.numbers = frozenset(numbers)
        self.until = until

    def __call__(self, arm, report):
        if self.until is not None and report.pull.number > max(self.numbers):
            wait_until(self.until.exists)
        report(MEANS[arm], stage=1)
        mark = Path(self.folder) / str(report.pull.number)
        if report.pull.number in self.numbers and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return MEANS[arm]


class Hanging:
    """Never return from the pulls with these numbers; each leaves a mark."""

    def __init__(self, folder, numbers):
        self.folder = str(folder)
        self.numbers = frozenset(numbers)

    def __call__(self, arm, report):
        number = report.pull.number
        if number in self.numbers:
            (Path(self.folder) / f"{number}.hangs").touch()
        while number in self.numbers:
            time.sleep(1)
        return MEANS[arm]


class Slowly:
    """Report every few milliseconds until told to stop; record in a folder how it ended."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __call__(self, arm, report):
        note = Path(self.folder) / f"{report.pull.number}"
        try:
            deadline = time.monotonic() + PATIENCE
            while time.monotonic() < deadline:
                if report.should_stop():
                    note.with_suffix(".stopped").touch()
                    raise StopPull("by the look of it")
                time.sleep(0.005)
        finally:
            note.with_suffix(".ended").touch()
        return MEANS[arm]


class Bad:
    """Return something that is not an outcome, or raise."""

    def __init__(self, what):
        self.what = what

    def __call__(self, arm, report):
        if isinstance(self.what, BaseException):
            raise self.what
        return self.what


class Awkward(Exception):
    """An exception that cannot be sent between processes."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")
        self.lock = threading.Lock()


def awkward(arm, report):
    raise Awkward("this", "that")


def refused_reading(arm, report):
    report(float("nan"))


def unpackable_result(arm, report):
    return threading.Lock()
