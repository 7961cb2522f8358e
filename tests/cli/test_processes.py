"""The command as a separate process: signals, sudden death, other processes, terminals, imports."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys

import pytest

from fairtrial.cli import ExitCode
from fairtrial.study import Study, list_studies
from tests.cli.configurations import replayed, write
from tests.cli.test_run import log, uninterrupted
from tests.study.tools import PATIENCE, wait_until

STORAGE = "sqlite:///small.db"
# Every pull takes a moment, so that there is time to interfere.
MEASURE = "echo {pull} >> seen; sleep 0.01; test {arm} = a && echo 0.8 || echo 0.1"
# Here there is enough time: late pulls take long until a file says that they need not.
HELD = MEASURE.replace("sleep 0.01", "test {pull} -lt 40 || test -e go || sleep 30")


def slowly(script=MEASURE):
    policy = {"name": "BlockBetting", "delta": 0.1, "initial_pulls": 5, "randomize": False}
    return replayed(policy=policy, source={"kind": "command", "run": script})


def start(*arguments, program=("-m", "fairtrial"), **options):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, *program, *map(str, arguments)]
    return subprocess.Popen(command, **{**pipes, **options})


def finish(process):
    stdout, stderr = process.communicate(timeout=PATIENCE)
    return process.returncode, stdout, stderr


def seen(folder):
    path = folder / "seen"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def events(folder):
    studies = list_studies(STORAGE) if (folder / "small.db").exists() else []
    return studies[0].events if studies else 0


# ---------------------------------------------------------------------- interruptions


def test_ctrl_c_is_safe_and_the_run_goes_on_from_there(folder, invoke):
    path = write(folder, slowly(HELD))
    process = start("run", path)
    wait_until(lambda: len(seen(folder)) > 20)
    process.send_signal(signal.SIGINT)
    code, stdout, stderr = finish(process)
    assert code == ExitCode.INTERRUPTED
    assert stdout.startswith("No answer yet: running")
    assert f"To continue: fairtrial run {path}" in stderr
    assert list_studies(STORAGE)[0].status == "running"
    (folder / "go").touch()
    code, stdout, _ = finish(start("run", path))
    assert code == ExitCode.OK
    assert stdout.startswith("Answer: a")
    assert log() == uninterrupted(folder, invoke, **slowly(HELD))


def test_an_interrupted_run_of_replayed_rows_ends_like_one_without_a_break(folder, invoke):
    problem = {**replayed()["problem"], "floors": [0.05, -0.1]}
    changes = {"problem": problem, "policy": {"name": "BlockBetting", "delta": 0.001}}
    path = write(folder, replayed(**changes))
    program = (
        "import os, signal\n"
        "from fairtrial.cli import main\n"
        "from fairtrial.cli.sources import EnvironmentRewards\n"
        "reward = EnvironmentRewards.reward\n"
        "def asked_to_end(self, pull):\n"
        "    if pull.number == 20: os.kill(os.getpid(), signal.SIGTERM)\n"
        "    return reward(self, pull)\n"
        "EnvironmentRewards.reward = asked_to_end\n"
        "main()\n"
    )
    code, _, _ = finish(start("run", path, program=["-c", program]))
    assert code == ExitCode.INTERRUPTED
    assert events(folder) == 42
    assert invoke("run", path).exit_code == ExitCode.OK
    assert log() == uninterrupted(folder, invoke, **changes)


def test_a_command_that_runs_when_interrupted_is_ended_and_repeated(folder, invoke):
    script = (
        "echo {pull} >> seen; if test {pull} = 3 && test ! -e fixed; then sleep 600; fi; "
        "test {arm} = a && echo 0.8 || echo 0.1"
    )
    path = write(folder, slowly(script))
    process = start("run", path, "--json")
    wait_until(lambda: 3 in seen(folder))
    process.send_signal(signal.SIGINT)
    code, stdout, _ = finish(process)
    assert code == ExitCode.INTERRUPTED
    assert json.loads(stdout)["ending"] == "interrupted"
    assert json.loads(stdout)["progress"]["outstanding"] == 1
    (folder / "fixed").touch()
    assert invoke("run", path).exit_code == ExitCode.OK
    assert seen(folder)[:6] == [0, 1, 2, 3, 3, 4]
    assert log() == uninterrupted(folder, invoke, **slowly(script))


def test_a_run_that_is_killed_loses_nothing_and_goes_on(folder, invoke):
    path = write(folder, slowly(HELD))
    for enough in (10, 30):
        process = start("run", path)
        wait_until(lambda enough=enough: len(seen(folder)) > enough)
        process.kill()
        assert finish(process)[0] == -signal.SIGKILL
    (folder / "go").touch()
    assert invoke("run", path).exit_code == ExitCode.OK
    assert log() == uninterrupted(folder, invoke, **slowly(HELD))
    assert not list(folder.glob("*.running"))


# ---------------------------------------------------------------------------- company


def test_two_processes_share_one_study_and_measure_every_pull_once(folder):
    path = write(folder, slowly())
    both = [start("run", path), start("run", path)]
    ends = [finish(process) for process in both]
    assert [code for code, _, _ in ends] == [ExitCode.OK, ExitCode.OK], ends
    assert all(stdout.startswith("Answer: a") for _, stdout, _ in ends)
    with Study.open(STORAGE, "small") as study:
        assert study.verify().ok
        assert study.outstanding() == []
    measured = seen(folder)
    assert sorted(measured) == list(range(len(measured)))
    assert not list(folder.glob("*.running"))


def test_a_newcomer_leaves_the_pulls_of_a_living_runner_alone(folder):
    script = (
        "echo {pull} >> seen; if test {pull} = 0; then while test ! -e go; do sleep 0.05; done; fi;"
        "test {arm} = a && echo 0.8 || echo 0.1"
    )
    path = write(folder, slowly(script))
    first = start("run", path)
    wait_until(lambda: 0 in seen(folder))
    code, _, stderr = finish(start("run", path, "--pulls", 3))
    assert code == ExitCode.NO_ANSWER, stderr
    (folder / "go").touch()
    assert finish(first)[0] == ExitCode.OK
    assert sorted(seen(folder)) == list(range(len(seen(folder))))


# -------------------------------------------------------------------------- terminals


def on_a_terminal(arguments, **variables):
    """Run a command on its own terminal and return what it shows there."""
    leader, follower = pty.openpty()
    usual = {"TERM": "xterm-256color", "COLUMNS": "100", "FORCE_COLOR": None, "NO_COLOR": None}
    environment = {**os.environ, **usual, **variables}
    environment = {name: value for name, value in environment.items() if value is not None}
    ends = {"stdin": follower, "stdout": follower, "stderr": follower, "text": False}
    process = start(*arguments, env=environment, **ends)
    os.close(follower)
    shown = b""
    while select.select([leader], [], [], PATIENCE)[0]:
        try:
            part = os.read(leader, 65536)
        except OSError:  # the last user of the terminal is gone
            break
        if not part:
            break
        shown += part
    os.close(leader)
    assert process.wait(PATIENCE) == ExitCode.OK
    return shown.decode()


COLOUR = re.compile(r"\x1b\[[0-9;]*(3[0-7]|38;|9[0-7])[0-9;]*m")


def test_a_terminal_shows_the_leader_the_evidence_and_the_results(folder):
    shown = on_a_terminal(["run", write(folder, slowly())])
    for part in ("leader", "evidence", "of 10 that decide", "results", "needed", "Answer: a"):
        assert part in shown
    assert COLOUR.search(shown)


def test_no_colour_is_shown_where_none_is_wanted(folder):
    shown = on_a_terminal(["run", write(folder, slowly())], NO_COLOR="1")
    assert "that decide" in shown
    assert not COLOUR.search(shown)


def test_a_dumb_terminal_gets_plain_lines(folder):
    shown = on_a_terminal(["run", write(folder, slowly())], TERM="dumb")
    # A compiler's library may reset the colours again when the process ends.
    assert "\x1b" not in shown.removesuffix("\x1b[0m")
    assert "Answer: a" in shown


# ---------------------------------------------------------------------------- imports


LIGHT = {"numpy", "pydantic", "rich", "sqlite3"}
HEAVY = {"numba", "scipy.special", "pandas", "matplotlib", "fastapi", "httpx"}


@pytest.mark.parametrize(
    ("commands", "heavy"),
    [
        (["", "study"], LIGHT | HEAVY),
        (["run", "study show", "demo", "serve", "worker"], HEAVY),
    ],
)
def test_help_imports_nothing_heavy(commands, heavy):
    program = (
        "import sys; from fairtrial.cli.app import app\n"
        f"for command in {commands!r}:\n"
        "    try: app([*command.split(), '--help'])\n"
        "    except SystemExit: pass\n"
        f"    print('imported by', command, sorted({heavy} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.count("Exit codes:") == len(commands)
    found = [line for line in done.stdout.splitlines() if line.startswith("imported by")]
    assert found == [f"imported by {command} []" for command in commands]
