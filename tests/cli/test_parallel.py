"""`fairtrial run --parallel`: several commands at once, which may report while they run."""

import json
import signal
import time
from pathlib import Path

import pytest

from fairtrial.cli import ExitCode
from fairtrial.study import Study
from tests.cli.configurations import replayed, write
from tests.cli.test_processes import finish, seen, start, wait_until
from tests.cli.test_sources import ended

STORAGE = "sqlite:///small.db"
# Two readings and the outcome; the number of the process group stays in a file.
STREAM = (
    "echo $$ >> groups; echo {pull} >> seen; test {arm} = c && mean=4 || mean=0; "
    """echo $mean.25; sleep 0.02; echo '{"value": '$mean.125', "stage": 2}'; echo $mean"""
)


def race(script=STREAM, problem=(), policy=(), **source):
    return replayed(
        problem={
            "family": "delayed",
            "arms": ["a", "b", "c"],
            "noise_std": 1.0,
            "feedback": "refining",
            "reading_std": 0.5,
            **dict(problem),
        },
        policy={"name": "InformationRacing", "delta": 0.05, **dict(policy)},
        source={"kind": "command", "run": script, **source},
    )


def events():
    with Study.open(STORAGE, "small") as study:
        assert study.verify().ok
        return list(study.events())


def most_in_flight():
    flying = most = 0
    for event in events():
        flying += {"ask": 1, "tell": -1, "fail": -1, "cancel": -1}.get(event.kind, 0)
        most = max(most, flying)
    return most


def test_commands_run_at_once_and_their_lines_are_readings(folder, document):
    found, result = document("run", write(folder, race()), "--parallel", 3)
    assert result.exit_code == ExitCode.OK, result.stderr
    assert found["progress"]["recommendation"]["arm"] == ["c"]
    assert most_in_flight() == 3
    told = {event.pull_id for event in events() if event.kind == "tell"}
    for pull in told:
        mine = [(e.kind, e.stage) for e in events() if e.pull_id == pull]
        assert mine == [("ask", None), ("report", None), ("report", 2), ("tell", None)]
    with Study.open(STORAGE, "small") as study:
        assert study.outstanding() == []


def test_one_command_at_a_time_reports_as_well(folder, document):
    found, _ = document("run", write(folder, race()), "--pulls", 2)
    assert (found["ending"], found["progress"]["told"]) == ("limit", 2)
    kinds = [event.kind for event in events()]
    assert kinds == ["ask", "report", "report", "tell"] * 2


def test_families_without_readings_take_the_last_line_of_commands_at_once(folder, document):
    script = "echo {pull} >> seen; echo warming up; test {arm} = a && echo 0.8 || echo 0.1"
    path = write(folder, replayed(source={"kind": "command", "run": script}))
    _, result = document("run", path, "--parallel", 4, "--pulls", 12)
    assert result.exit_code == ExitCode.NO_ANSWER, result.stderr
    assert sorted(seen(folder)) == list(range(12))
    assert most_in_flight() == 4
    assert {event.kind for event in events()} == {"ask", "tell"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--parallel", 2], "--parallel is for sources of kind 'command'"),
        (["--parallel", 0], "--parallel"),
        (["--parallel", "many"], "--parallel"),
    ],
    ids=["replay", "zero", "text"],
)
def test_what_cannot_run_in_parallel_is_a_mistake_of_usage(folder, document, options, message):
    found, result = document("run", write(folder, replayed()), *options)
    assert result.exit_code == ExitCode.USAGE
    assert message in found["error"]["message"]
    assert not (folder / "small.db").exists()


# ---------------------------------------------------------------------------- failures


# It takes long enough for every failure to come first.
HARD = {"failure": "independent", "noise_std": 50.0}


def broken_at_one(breakage):
    return f"if test {{pull}} = 1; then echo 0.5; echo 0.5; {breakage}; fi; {STREAM}"


@pytest.mark.parametrize(
    ("breakage", "reason", "trouble"),
    [
        ("exit 7", "error", "exited with code 7"),
        ("kill -9 $$", "error", "was ended by signal 9"),
        ("echo warming up; exit 0", "error", "must be a number, or a JSON object"),
        ("echo nan; exit 0", "error", "must be a number, or a JSON object"),
        ("sleep 60", "timeout", "did not end within 8 s"),
    ],
    ids=["code", "signal", "garbage", "nan", "hang"],
)
def test_a_command_that_fails_is_a_failed_pull_and_the_others_are_waited_for(
    folder, document, breakage, reason, trouble
):
    timeout = 8.0 if reason == "timeout" else 600.0
    path = write(folder, race(broken_at_one(breakage), HARD, timeout=timeout))
    found, result = document("run", path, "--parallel", 2)
    assert result.exit_code == ExitCode.FAILURE
    assert trouble in found["error"]["message"]
    said = "the command" if reason == "error" else f"{reason}: the command"
    assert f" failed: {said}" in found["error"]["message"]
    assert f"To continue: fairtrial run {path}" in found["error"]["message"]
    failed = [event for event in events() if event.kind == "fail"]
    assert [(event.number, event.body["reason"]) for event in failed] == [(1, reason)]
    with Study.open(STORAGE, "small") as study:
        waiting = {pull.number for pull in study.outstanding()}
    assert len(waiting) <= 1
    assert waiting.isdisjoint(seen(folder)), "only what no thread had begun stays open"


def test_so_many_failures_in_a_row_as_retries_say_are_put_up_with(folder, document):
    waits = "if test {pull} -gt 1; then while test ! -e failed; do sleep 0.01; done; fi; "
    script = waits + broken_at_one("touch failed; exit 7")
    path = write(folder, race(script, retries=1))
    _found, result = document("run", path, "--parallel", 2)
    assert result.exit_code == ExitCode.OK, result.stderr
    assert [e.body["reason"] for e in events() if e.kind == "fail"] == ["error"]


def test_a_command_whose_pull_is_called_back_is_ended(folder, document):
    endless = (
        """echo $$ >> groups; echo '{"value": 0, "more": true}'; """
        """echo '{"value": 0, "more": true}'; sleep 60; echo 0"""
    )
    path = write(folder, race(endless, policy={"truncate": 2}))
    _, result = document("run", path, "--parallel", 2, "--pulls", 4)
    assert result.exit_code == ExitCode.NO_ANSWER, result.stderr
    assert [e.body["reason"] for e in events() if e.kind == "cancel"] == ["no longer needed"] * 4
    assert all(ended(group) for group in groups(folder))


def groups(folder):
    return [int(line) for line in (folder / "groups").read_text().split()]


# ------------------------------------------------------------------- as a process


# That many pulls come quickly; further ones only if a file allows it.
SLOW = STREAM.replace(
    "test {arm}", "test {pull} -lt 14 || test -e go || sleep 30; test {arm}"
).replace("sleep 0.02", "sleep 0.1")


@pytest.mark.slow
def test_a_parallel_run_that_is_killed_loses_nothing_and_goes_on(folder):
    path = write(folder, race(SLOW, {"noise_std": 2.0}))
    for enough in (3, 9):
        process = start("run", path, "--parallel", 4)
        wait_until(lambda enough=enough: len(seen(folder)) > enough)
        time.sleep(0.1)
        process.kill()
        assert finish(process)[0] == -signal.SIGKILL
        told = [event for event in events() if event.kind == "tell"]
    (folder / "go").touch()
    code, stdout, stderr = finish(start("run", path, "--parallel", 4, "--json"))
    assert code == ExitCode.OK, stderr
    assert json.loads(stdout)["progress"]["recommendation"]["arm"] == ["c"]
    after = events()
    assert {event.hash for event in told} <= {event.hash for event in after}
    failed = [event for event in after if event.kind == "fail"]
    read = {event.pull_id for event in after if event.kind == "report"}
    assert {event.body["reason"] for event in failed} <= {"lost"}
    assert {event.pull_id for event in failed} <= read
    with Study.open(STORAGE, "small") as study:
        assert study.outstanding() == []
    assert not list(Path(folder).glob("*.running"))


def test_ctrl_c_ends_all_commands_and_their_pulls_stay_open(folder):
    waits = "echo $$ >> groups; echo {pull} >> seen; sleep 60; echo 0"
    path = write(folder, race(waits))
    process = start("run", path, "--parallel", 3)
    wait_until(lambda: len(seen(folder)) == 3)
    process.send_signal(signal.SIGINT)
    code, _stdout, stderr = finish(process)
    assert code == ExitCode.INTERRUPTED, stderr
    assert "To continue" in stderr
    assert all(ended(group) for group in groups(folder))
    with Study.open(STORAGE, "small") as study:
        assert [pull.number for pull in study.outstanding()] == [0, 1, 2]
