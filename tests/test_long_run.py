"""The file that a long run writes."""

import json
from types import SimpleNamespace

from tests.long_run import LongRun


def report(when, outcome, **figures):
    return SimpleNamespace(
        when=when, outcome=outcome, nodeid="t.py::test_x", user_properties=list(figures.items())
    )


def test_a_long_run_says_when_where_how_many_and_what_was_measured(tmp_path):
    run = LongRun(tmp_path / "build" / "long-run.json")
    for phase in ("setup", "call", "teardown"):
        run.pytest_runtest_logreport(report(phase, "passed", kills=200))
    run.pytest_runtest_logreport(report("call", "failed"))
    run.pytest_runtest_logreport(report("setup", "skipped"))
    run.pytest_sessionfinish()
    found = json.loads((tmp_path / "build" / "long-run.json").read_text())
    assert found["outcomes"] == {"passed": 1, "failed": 1, "skipped": 1}
    assert found["figures"] == {"t.py::test_x": {"kills": 200}}
    assert found["date"].endswith("+00:00")
    assert found["machine"]["python"].startswith("3.")
