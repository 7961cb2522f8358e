"""The two live examples: real work in processes, one of them killed; a solver's bounds."""

import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

import fairtrial as ft
from tests.messages import raises

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_a_model_is_tuned_although_a_worker_is_killed(load, tmp_path, capsys, monkeypatch):
    module = load("tune_a_model")
    killed = []

    def kill(pid, number, kill=os.kill):
        if number == signal.SIGKILL:
            killed.append(pid)
        kill(pid, number)

    monkeypatch.setattr(os, "kill", kill)
    some = {name: module.SETTINGS[name] for name in list(module.SETTINGS)[1::5]}
    answer = module.main(tmp_path, some, kill_after=5)
    assert (answer.status, answer.arm) == ("decided", "C=1 gamma=0.001")
    assert "ok=True" in capsys.readouterr().out
    assert len(killed) == 1

    with ft.Study.open(tmp_path / "tuning.db", "digits") as study:
        assert study.verify().ok
        told = [event for event in study.events() if event.kind in ("tell", "late_tell")]
        assert len(told) > 5
        pulls = [(event.action, event.tag) for event in told]
        assert len(set(pulls)) == len(pulls), "a split of an arm counts once"
        first = next(event for event in told if event.tag == 0)
        again = module.accuracy(list(some)[first.action], SimpleNamespace(pull=first))
        assert again == first.value


@pytest.mark.slow
def test_settings_of_a_solver_are_raced_live(load, capsys):
    pytest.importorskip("highspy")
    module = load("solver_settings")
    assert len(module.SETTINGS) == 32
    answers = module.main(
        list(module.SETTINGS)[::8], ("egout", "gt2"), limit=0.05, tolerance=0.5, seconds=120.0
    )
    assert set(answers) == {"readings", "full", "paired"}
    assert all(answer.status == "decided" for answer in answers.values())
    assert capsys.readouterr().out.startswith("4 settings, 2 models")


def test_a_solver_run_reports_values_between_which_its_outcome_lies(load):
    pytest.importorskip("highspy")
    module = load("solver_settings")
    readings = []
    gap = module.solve(
        module.DEFAULT, "dcmulti", 0, 3.0, lambda value, std: readings.append((value, std))
    )
    assert readings
    for value, std in readings:
        assert value - std - 1e-9 <= gap <= value + std + 1e-9
    widths = [std for _, std in readings]
    assert widths == sorted(widths, reverse=True)


def test_a_solver_run_that_is_called_back_stops(load):
    pytest.importorskip("highspy")
    module = load("solver_settings")

    def stop(value, std):
        raise ft.study.StopPull("enough")

    with raises(ft.study.StopPull):
        module.solve(module.DEFAULT, "dcmulti", 0, 2.0, stop)


def test_the_gap_is_relative_and_at_most_one(load):
    module = load("solver_settings")
    assert module.relative_gap(100.0, 90.0) == pytest.approx(0.1)
    assert module.relative_gap(float("inf"), 5.0) == 1.0
    assert module.relative_gap(1.0, -1.0) == 1.0
