"""The command: what it lists, in which order it measures, and how it is stopped."""

from dataclasses import replace

import pytest
from click.testing import CliRunner

from evidence import __main__ as command
from evidence.parts import PARTS
from evidence.records import new_record

PART = "policies/linear.Rage"
ALONE = "workers/dask"


@pytest.fixture
def earlier(monkeypatch):
    """The last measurements: two parts whose processor time is known, and one from before."""
    times = {PART: 240.0, ALONE: 60.0, "growth/arms": None}
    records = {
        part: replace(new_record(part, 1.0, 1), processor_seconds=seconds)
        for part, seconds in times.items()
    }
    monkeypatch.setattr(command, "read_all", lambda: records)


@pytest.fixture
def measured(monkeypatch):
    """The parts in the order in which they begin; nothing is measured."""
    begun = []

    def measure(part, effort, seed, stop):
        begun.append(part)
        cases = [{"case": "a"}, {"case": "b", "missing": "no result"}]
        return replace(new_record(part, effort, seed), cases=cases)

    monkeypatch.setattr(command, "measure_part", measure)
    monkeypatch.setattr(command, "write_pages", lambda: iter(()))
    monkeypatch.setattr(command.signal, "signal", lambda *_: None)
    return begun


def run(*arguments):
    return CliRunner().invoke(command.main, arguments)


def test_the_list_says_what_each_part_took_and_all_will_take(earlier):
    shown = run("--list", "--processes", "2").output.splitlines()
    assert len(shown) == len(PARTS) + 1
    assert [line.split()[-2:] for line in shown if line.startswith(PART + " ")] == [["240", "s"]]
    assert [line.split()[-1] for line in shown if line.startswith("growth/arms ")] == ["-"]
    assert "5 minutes of processor time for 2 of" in shown[-1]
    assert "about 3 minutes with 2 processes" in shown[-1]


def test_long_parts_begin_first_and_parts_that_need_all_cores_come_last(earlier, measured):
    shown = run("--again", "--processes", "1", PART, "policies/linear.XYOracle", "workers")
    assert shown.exit_code == 0
    assert measured == ["policies/linear.XYOracle", PART, "workers/threads", ALONE]
    assert shown.output.splitlines()[0].startswith("[1/4, 0 s, about 300 s left]")
    assert "policies/linear.XYOracle: 1 of 2 cases" in shown.output


def test_a_stop_lets_no_other_part_begin(earlier, monkeypatch, measured):
    def interrupted(part, effort, seed, stop):
        measured.append(part)
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "measure_part", interrupted)
    assert run("--again", "--processes", "1", "policies/linear").exit_code == 1
    assert len(measured) == 1


def test_a_part_that_is_not_there_is_refused():
    assert run("--list", "nothing").exit_code == 2
