"""`fairtrial race`: candidates and items from a file, scores from a command or a table."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

import fairtrial as ft
from fairtrial.cli.app import app
from fairtrial.study.memory import MemoryStore
from tests.cli.test_sources import ended
from tests.client.served import served

FILE = """
[race]
name = "prompts"
candidates = ["weak", "strong"]
items = "questions.csv"
reward_range = [0, 1]
cost = 0.5

[score]
run = {run}
"""
PROGRAM = """
import sys
candidate, number, log = sys.argv[1:]
print("asking", candidate)
open(log, "a").write(f"{candidate} {number}\\n")
print(1 if candidate == "strong" or int(number) % 4 == 0 else 0)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "ask.py").write_text(PROGRAM)
    rows = "\n".join(f"{at},topic {at % 2}" for at in range(80))
    (tmp_path / "questions.csv").write_text(f"number,subject\n{rows}\n")
    run = f"{shlex.quote(sys.executable)} ask.py {{candidate}} {{number}} calls.txt"
    (tmp_path / "race.toml").write_text(FILE.replace("{run}", json.dumps(run)))
    return tmp_path


def call(*arguments):
    return CliRunner().invoke(app, ["race", *map(str, arguments)])


def test_a_race_of_commands_stops_at_a_limit_and_goes_on(folder):
    part = call(folder / "race.toml", "--max-evaluations", 6, "--json")
    assert part.exit_code == 3, part.output
    told = json.loads(part.stdout)
    assert (told["best"], told["evaluations"], told["cost"]) == (None, 6, 3.0)
    whole = call(folder / "race.toml", "--parallel", 2, "--report", folder / "race.html")
    assert whole.exit_code == 0, whole.output
    assert "strong" in whole.stdout
    assert "'strong' is the best after" in whole.stdout
    assert (folder / "race.html").exists()
    calls = (folder / "calls.txt").read_text().splitlines()
    assert len(calls) == len(set(calls))
    with ft.Study.open(folder / "fairtrial.db", "prompts") as study:
        assert study.verify().ok


def test_a_race_runs_on_the_address_of_a_service(folder, monkeypatch):
    file = folder / "race.toml"
    store = MemoryStore()
    with served(store) as service:
        monkeypatch.setenv("FAIRTRIAL_TOKEN", service.token("me", "read", "run", "admin"))
        lines = f'[race]\nstorage = "{service.url}"'
        file.write_text(file.read_text().replace("[race]", lines))
        done = call(file, "--parallel", 2, "--json")
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["best"] == "strong"
        again = call(file, "--max-evaluations", 90, "--json")
        assert again.exit_code == 0, again.output
        assert json.loads(again.stdout) == json.loads(done.stdout)
    with ft.Study.open(store, "prompts") as study:
        assert study.status == "decided"
    assert not (folder / "fairtrial.db").exists()


def test_a_judge_is_a_table_and_an_earlier_race_can_be_extended(folder):
    file = folder / "race.toml"
    first = json.loads(call(file, "--json").stdout)
    assert (first["reused"], first["explained_by_judge"]) == (0, None)
    weak, strong, new = ([str(int(at % every == 0)) for at in range(80)] for every in (4, 1, 4))
    rows = "\n".join(",".join(row) for row in zip(weak, strong, new, strict=True))
    (folder / "judge.csv").write_text(f"weak,strong,new\n{rows}\n")
    text = file.read_text().replace('name = "prompts"', 'name = "more"\nextends = "prompts"')
    file.write_text(
        text.replace(
            'candidates = ["weak", "strong"]',
            'candidates = ["new", "weak", "strong"]\njudge = "judge.csv"',
        )
    )
    more = json.loads(call(file, "--json").stdout)
    assert (more["best"], more["explained_by_judge"] > 0.9) == ("strong", True)
    calls = (folder / "calls.txt").read_text().splitlines()
    assert len(calls) == len(set(calls)) == first["evaluations"] + more["evaluations"]


def test_scores_can_be_a_table(folder):
    file = folder / "race.toml"
    text = file.read_text()
    file.write_text(text[: text.index("run =")] + 'table = "scores.csv"\n')
    rows = "\n".join(f"{int(at % 4 == 0)},1" for at in range(80))
    (folder / "scores.csv").write_text(f"weak,strong\n{rows}\n")
    done = call(file, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["best"] == "strong"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('items = "questions.csv"', "", "race.items: is missing"),
        ("[score]", "[scores]", "scores: is not a section"),
        ("{candidate}", "x", "must contain {candidate}"),
        ("{candidate}", "'{candidate}'", "{candidate} must not stand"),
        ("cost =", "costs =", "did you mean 'cost'"),
        ("run =", "runs =", "'run'"),
        ("cost = 0.5", "cost = 0.5\nmargin = 0.1", "control"),
    ],
)
def test_a_mistake_in_the_file_is_named_before_anything_runs(folder, old, new, told):
    file = folder / "race.toml"
    file.write_text(file.read_text().replace(old, new))
    done = call(file)
    assert done.exit_code == 2, done.output
    assert told in " ".join(done.stderr.split())
    assert not (folder / "calls.txt").exists()


def test_a_command_that_fails_is_shown_and_the_race_can_go_on(folder):
    (folder / "ask.py").write_text("import sys; sys.exit('no key')")
    file = folder / "race.toml"
    file.write_text(file.read_text().replace("cost = 0.5", "attempts = 1"))
    done = call(file)
    assert done.exit_code == 1
    assert "no key" in done.stderr
    (folder / "ask.py").write_text(PROGRAM)
    assert call(file).exit_code == 0


CHILD = """
import pathlib, subprocess, sys
child = subprocess.Popen(["sleep", "600"])
pathlib.Path("child.part").write_text(str(child.pid))
pathlib.Path("child.part").rename("child")
child.wait()
"""


def child_of(folder):
    """Return the process that the command has started."""
    for _ in range(600):
        if (folder / "child").exists():
            return int((folder / "child").read_text())
        time.sleep(0.05)
    raise AssertionError("the command has not started")


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(folder):
    (folder / "ask.py").write_text(CHILD)
    file = folder / "race.toml"
    text = file.read_text().replace("cost = 0.5", "attempts = 1")
    file.write_text(text + "timeout = 1\n")
    done = call(file)
    assert done.exit_code == 1
    assert "did not end within 1 s" in done.stderr
    assert ended(child_of(folder))


@pytest.mark.parametrize("request_to_end", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_race_that_is_interrupted_leaves_no_commands_behind(folder, request_to_end):
    (folder / "ask.py").write_text(CHILD)
    command = [sys.executable, "-m", "fairtrial", "race", str(folder / "race.toml")]
    environment = {**os.environ, "FAIRTRIAL_KERNELS": "interpret"}
    # Tests that run under nohup must not pass on that they ignore SIGHUP.
    before = signal.signal(request_to_end, signal.SIG_DFL)
    try:
        race = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(request_to_end, before)
    child = child_of(folder)
    race.send_signal(request_to_end)
    _, told = race.communicate(timeout=60)
    assert race.returncode == 130, told
    assert ended(child)


def test_a_command_that_cannot_be_started_is_no_failure_of_a_candidate(folder):
    file = folder / "race.toml"
    file.write_text(file.read_text().replace("cost = 0.5", 'on_error = "worst"'))
    # More than a variable of the environment can hold.
    rows = "\n".join(3 * [f"1,{131_060 * 'x'}"])
    (folder / "questions.csv").write_text(f"number,subject\n{rows}\n")
    done = call(file)
    assert done.exit_code == 1
    assert "could not be started" in done.stderr
