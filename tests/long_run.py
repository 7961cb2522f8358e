"""Results of a long test run as a file: when, where, how many, and figures that tests recorded."""

from __future__ import annotations

import json
import platform
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

PLACE = Path(__file__).parents[1] / "build" / "long-run.json"


class LongRun:
    """Collects the outcomes of a run, and figures that tests record with `record_property`.

    Parameters
    ----------
    place : Path
        The file to write when the run ends.
    """

    def __init__(self, place: Path = PLACE) -> None:
        self._place = place
        self._began = time.monotonic()
        self._outcomes: Counter[str] = Counter()
        self._figures: dict[str, dict[str, object]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the outcome of a test: a failure in any phase, or the result of its call."""
        if report.when == "call" or report.outcome != "passed":
            self._outcomes[report.outcome] += 1
        if report.when == "call" and report.user_properties:
            self._figures[report.nodeid] = dict(report.user_properties)

    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        content = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": machine(),
            "seconds": round(time.monotonic() - self._began),
            "outcomes": dict(self._outcomes),
            "figures": self._figures,
        }
        self._place.parent.mkdir(exist_ok=True)
        self._place.write_text(json.dumps(content, indent=1) + "\n")


def machine() -> dict[str, object]:
    """Return the facts that a figure depends on: processor, system, Python."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": len(names) or None,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }
