"""How much processor time each test takes, and which tests take most: `--costs`.

Processor time, unlike the time on a clock, hardly depends on what else the machine does. It
includes the processes that a test starts and waits for. `build/test-costs.json` has the seconds of
every test.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

PLACE = Path(__file__).parents[1] / "build" / "test-costs.json"

_SHOWN = 15


class Costs:
    """Measures tests in each test process, and shows the result in the process that reports.

    Parameters
    ----------
    place : Path
        The file to write when the results are shown.
    """

    def __init__(self, place: Path = PLACE) -> None:
        self._place = place
        self._before = 0.0
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logstart(self) -> None:
        """Begin to measure a test."""
        self._before = spent()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self,
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note how much a phase of a test has taken; pytest-xdist passes it on."""
        report = yield
        now = spent()
        report.cpu_seconds, self._before = now - self._before, now  # type: ignore[attr-defined]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up the phases of a test."""
        self._seconds[report.nodeid] += getattr(report, "cpu_seconds", 0.0)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Show the sum, and the files and tests that take most; write all to the file."""
        terminalreporter.section("processor time")
        for line in self.lines():
            terminalreporter.write_line(line)
        self._place.parent.mkdir(exist_ok=True)
        self._place.write_text(json.dumps(dict(self._seconds.most_common()), indent=0) + "\n")

    def lines(self) -> list[str]:
        """Return the sum, and the files and tests that take most, as lines."""
        files: Counter[str] = Counter()
        for name, seconds in self._seconds.items():
            files[name.partition("::")[0]] += seconds
        return [
            f"{self._seconds.total():.0f} s for {len(self._seconds)} tests, of which",
            *(f"{seconds:8.1f} s  {name}" for name, seconds in files.most_common(_SHOWN)),
            "and by test",
            *(f"{seconds:8.1f} s  {name}" for name, seconds in self._seconds.most_common(_SHOWN)),
        ]


def spent() -> float:
    """Return the processor time of this process and of its ended children, in seconds."""
    return sum(os.times()[:4])
