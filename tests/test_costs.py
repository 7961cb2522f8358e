"""The processor time of tests is measured and shown."""

import json
import subprocess
import sys
from unittest.mock import Mock

import pytest

from tests.costs import Costs

WORK = "import time\nwhile time.process_time() < 0.3: pass"


def measured(costs: Costs, name: str, *commands: list[str]) -> pytest.TestReport:
    """Return the report of a test that starts these processes, as pytest-xdist passes it on."""
    costs.pytest_runtest_logstart()
    for command in commands:
        subprocess.run(command, check=True)
    report = pytest.TestReport(name, ("t.py", 1, name), {}, "passed", None, "call")
    wrapper = costs.pytest_runtest_makereport()
    next(wrapper)
    with pytest.raises(StopIteration) as ended:
        wrapper.send(report)
    assert ended.value.value is report
    return pytest.TestReport._from_json(report._to_json())


def test_the_costliest_tests_come_first_and_processes_that_they_start_count(tmp_path):
    place = tmp_path / "costs.json"
    worker, shown = Costs(place), Costs(place)
    shown.pytest_runtest_logreport(measured(worker, "t.py::test_cheap"))
    shown.pytest_runtest_logreport(
        measured(worker, "t.py::test_costly", [sys.executable, "-c", WORK])
    )
    total, in_file, _, costly, cheap = shown.lines()
    assert in_file.split()[2:] == ["t.py"]
    assert float(in_file.split()[0]) >= float(costly.split()[0])
    assert costly.split()[2:] == ["t.py::test_costly"]
    assert float(costly.split()[0]) >= 0.3
    assert cheap.split()[2:] == ["t.py::test_cheap"]
    assert total.endswith("s for 2 tests, of which")
    shown.pytest_terminal_summary(Mock())
    assert list(json.loads(place.read_text())) == ["t.py::test_costly", "t.py::test_cheap"]
