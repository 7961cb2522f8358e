"""Parts are measured in processes: what is stored, and what happens if a case hangs or fails."""

import sys
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from evidence import running
from evidence.parts import Part
from evidence.records import ROOT, Record, file_of, new_record, read_all

CASES = ("a", "b", "c")


@pytest.fixture
def part(monkeypatch):
    monkeypatch.setattr(running, "PARTS", {"toy": Part(CASES, lambda *_: iter(()), 0.3)})
    monkeypatch.setattr(running, "_STARTING", 2.0)


@pytest.fixture
def measure(part, tmp_path):
    """Return a function that measures the toy part by a program whose loop has the given body."""

    def measured(body, stop=None):
        text = "import json, os, subprocess, sys, time\n"
        text += "for case in 'abc':\n    if case in sys.argv[4:]: continue\n"
        text += textwrap.indent(textwrap.dedent(body), "    ")
        text += "    print(json.dumps({'case': case, 'n': 1}), flush=True)\n"
        program = [sys.executable, "-c", text]
        return running.measure_part(
            "toy", 0.01, 5, tmp_path, say=lambda line: None, program=program, stop=stop
        )

    return measured


def test_the_figures_of_all_cases_are_stored_with_their_origin(measure, tmp_path):
    record = measure("pass\n")
    assert record.cases == [{"case": case, "n": 1} for case in CASES]
    assert read_all(tmp_path) == {"toy": record}
    digits = 40 if (ROOT / ".git").exists() else 0
    assert (record.seed, record.effort, len(record.commit)) == (5, 0.01, digits)
    assert record.command == "./dev evidence toy --effort 0.01 --seed 5"
    assert record.machine["cores"] >= 1


def test_a_case_that_hangs_is_given_up_and_the_others_are_measured(measure):
    record = measure("if case == 'b': time.sleep(60)\n")
    assert [case["case"] for case in record.cases] == list(CASES)
    assert [case.get("n") for case in record.cases] == [1, None, 1]
    assert record.cases[1]["missing"].startswith("no result within")


def test_a_case_that_fails_is_named_with_its_error(measure):
    record = measure("if case == 'a': sys.exit('out of paper')\n")
    assert [case.get("n") for case in record.cases] == [None, 1, 1]
    assert record.cases[0]["missing"] == "ended with code 1: out of paper"


def test_the_processor_time_of_all_processes_of_a_part_is_stored(measure, monkeypatch):
    monkeypatch.setattr(running, "_STARTING", 60.0)
    spin = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    record = measure(f"if case == 'a': subprocess.run([sys.executable, '-c', {spin!r}])\n")
    assert record.processor_seconds >= 0.3


def test_a_part_that_is_stopped_ends_with_all_its_processes_and_leaves_no_record(
    measure, tmp_path, monkeypatch
):
    monkeypatch.setattr(running, "_STARTING", 60.0)
    stop, started = threading.Event(), tmp_path / "started"
    sleep = "import time; time.sleep(60)"
    body = f"""
        child = subprocess.Popen([sys.executable, '-c', {sleep!r}])
        with open({str(started)!r}, 'w') as file: file.write(f'{{child.pid}} ')
        time.sleep(60)
    """

    def stop_when_started():
        while not (started.exists() and started.read_text().endswith(" ")):
            time.sleep(0.01)
        stop.set()

    threading.Thread(target=stop_when_started, daemon=True).start()
    with pytest.raises(running.Stopped):
        measure(body, stop)
    assert read_all(tmp_path) == {}
    deadline = time.monotonic() + 30
    while is_running(int(started.read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_running(process):
    """Whether a process is there, and not only waited for by nobody."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def test_a_program_that_measures_nothing_ends(measure):
    record = measure("continue\n")
    assert [case["missing"] for case in record.cases] == ["no figures"] * 3


UNTRIED = """
    untried = {'case': case, 'missing': 'too large', 'is_untried': True}
    print(json.dumps(untried), flush=True)
    continue
"""


def test_a_case_that_is_not_tried_keeps_its_figures_and_their_origin(measure, tmp_path):
    first = measure("pass\n")
    origin = {"commit": first.commit, "date": first.date, "command": first.command}
    kept = [{"measured": origin, "case": case, "n": 1} for case in CASES]
    assert measure(UNTRIED).cases == kept
    assert measure(UNTRIED).cases == kept, "the origin is that of the measurement"
    assert measure("pass\n").cases == first.cases
    file_of("toy", tmp_path).unlink()
    assert [case.get("n") for case in measure(UNTRIED).cases] == [None] * 3


def test_a_case_that_fails_does_not_keep_its_figures(measure):
    measure("pass\n")
    assert "n" not in measure("if case == 'a': sys.exit('out of paper')\n").cases[0]


@pytest.mark.parametrize(
    ("changes", "sources", "effort", "seed", "done"),
    [
        ({}, "s", 1.0, 1, True),
        ({}, "s", 0.5, 1, True),
        ({}, "s", 2.0, 1, False),
        ({}, "s", 1.0, 2, False),
        ({}, "other", 1.0, 1, False),
        ({}, None, 9.0, 9, True),
        ({"cases": [{"case": "a"}]}, None, 1.0, 1, False),
    ],
)
def test_a_part_is_left_out_if_it_was_measured_in_the_same_way(
    part, tmp_path, changes, sources, effort, seed, done
):
    cases = [{"case": case} for case in CASES]
    record = replace(new_record("toy", 1.0, 1), sources="s", cases=cases)
    replace(record, **changes).write(tmp_path)
    assert running.is_done("toy", effort, seed, sources, tmp_path) is done


def test_a_part_without_a_file_is_not_done(part, tmp_path):
    assert not running.is_done("toy", 1.0, 1, None, tmp_path)


def test_no_half_of_a_file_remains(tmp_path):
    record = new_record("a/b", 1.0, 1)
    with pytest.raises(ValueError, match="JSON"):
        replace(record, cases=[{"case": "a", "n": float("nan")}]).write(tmp_path)
    record.write(tmp_path)
    assert [file.name for file in (tmp_path / "a").iterdir()] == ["b.json"]
    assert Record.read(tmp_path / "a/b.json") == record
