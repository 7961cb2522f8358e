"""The worker as a command: what it runs, with which token, and how signals end it."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import fairtrial as ft
from fairtrial.study import Study
from fairtrial.study.memory import MemoryStore
from tests.client.served import served

PROBLEM = ft.subpopulations.Problem(["a", "b"], ["x", "it's $HOME"], reward_range=(0, 1))
MEASURE = "if [ {arm} = a ]; then echo 0.9; else echo 0.1; fi"


@pytest.fixture(scope="module")
def store():
    return MemoryStore()


@pytest.fixture(scope="module")
def service(store):
    with served(store) as service:
        service.worker = service.token("worker", "run")
        yield service


@pytest.fixture
def study(store, request, monkeypatch, service):
    monkeypatch.setenv("FAIRTRIAL_TOKEN", service.worker)
    policy = ft.subpopulations.BlockBetting(PROBLEM)
    return Study.create(PROBLEM, policy, storage=store, name=request.node.name, seed=1)


@pytest.fixture
def at(service, study):
    """The options for a study of a service."""
    return ["--url", service.url, "--study", study.name]


def reasons(study):
    return [event.body["reason"] for event in study.events() if event.kind == "fail"]


def test_a_command_carries_a_study_to_its_end(invoke, at, study):
    result = invoke("worker", *at, "--run", MEASURE, "--parallel", "2")
    assert result.exit_code == 0
    assert "has stopped" in result.stdout
    assert study.recommend().arm == "a"
    assert study.verify().ok


def test_labels_come_to_a_command_unharmed(invoke, at, study, tmp_path):
    seen = tmp_path / "seen"
    invoke("worker", *at, "--run", f"echo {{group}} >> {seen}; echo 0.5", "--pulls", "6")
    assert set(seen.read_text().splitlines()) <= {"x", "it's $HOME"}
    assert len(seen.read_text().splitlines()) == 6


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("echo '{arm}'", "within single quotes"),
        ("echo {grup}", "did you mean 'group'"),
        ("ssh host measure {arm}", "reads them again"),
    ],
)
def test_a_placeholder_that_the_shell_would_not_take_is_refused(
    invoke, at, study, command, message
):
    result = invoke("worker", *at, "--run", command)
    assert result.exit_code == 2
    assert "--run" in result.stderr
    assert message in result.stderr
    assert study.n_events == 0


def test_a_function_of_a_module_in_this_folder(invoke, at, study, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "def measure(arm, report, group):\n    return 0.9 if arm == 'a' else 0.1\n"
    (tmp_path / "assay_of_this_test.py").write_text(code)
    document = json.loads(
        invoke("worker", *at, "--function", "assay_of_this_test:measure", "--json").stdout
    )
    assert (document["ending"], document["stopped"]) == ("stopped", True)
    assert study.recommend().arm == "a"
    sys.path.remove(str(tmp_path))


@pytest.mark.parametrize(
    "name", ["missing_module:f", "json", "json:missing", ":", "math:pi", "a b:c"]
)
def test_a_function_that_is_none_is_refused(invoke, at, study, name):
    result = invoke("worker", *at, "--function", name)
    assert result.exit_code == 2
    assert "--function must" in result.stderr
    assert study.n_events == 0


def test_a_command_or_a_function_not_both(invoke, at, study):
    for options in ([], ["--run", "echo 1", "--function", "math:sin"]):
        result = invoke("worker", *at, *options)
        assert result.exit_code == 2
        assert "either --run" in result.stderr


def test_commands_that_fail_or_hang_are_told_with_the_reason(invoke, at, study):
    result = invoke("worker", *at, "--run", "echo oops >&2; exit 3", "--pulls", "1")
    assert result.exit_code == 0
    assert "exited with code 3" in result.stderr
    assert "oops" in result.stderr
    invoke("worker", *at, "--run", "sleep 60", "--pulls", "1", "--timeout", "0.2s")
    invoke("worker", *at, "--run", "echo nothing", "--pulls", "1")
    assert reasons(study) == ["error", "timeout", "error"]


def test_the_token_may_be_in_a_file_and_never_on_the_command_line(
    invoke, at, study, service, tmp_path, monkeypatch
):
    monkeypatch.delenv("FAIRTRIAL_TOKEN")
    result = invoke("worker", *at, "--run", MEASURE)
    assert result.exit_code == 2
    assert "FAIRTRIAL_TOKEN" in result.stderr
    file = tmp_path / "token"
    file.write_text(service.worker)
    result = invoke("worker", *at, "--run", MEASURE, "--pulls", "1", "--token-file", file)
    assert "chmod 600" in result.stderr
    file.chmod(0o600)
    result = invoke("worker", *at, "--run", MEASURE, "--pulls", "1", "--token-file", file)
    assert result.exit_code == 0
    assert "--token" not in invoke("worker", "--help").stdout.replace("--token-file", "")


def test_a_token_that_is_unknown_is_a_plain_error(invoke, at, study, monkeypatch):
    monkeypatch.setenv("FAIRTRIAL_TOKEN", "ft_" + 43 * "x")
    result = invoke("worker", *at, "--run", MEASURE)
    assert result.exit_code == 1
    assert "a valid token is needed" in result.stderr
    assert "ft_" not in result.stderr


def test_a_study_that_is_not_there_is_a_plain_error(invoke, service, study):
    result = invoke("worker", "--url", service.url, "--study", "missing", "--run", MEASURE)
    assert result.exit_code == 2
    assert "there is no study 'missing'" in result.stderr


def test_another_machine_is_not_reached_unencrypted(invoke, study):
    result = invoke("worker", "--url", "http://192.0.2.7", "--study", "x", "--run", MEASURE)
    assert result.exit_code == 2
    assert "https://" in result.stderr


@pytest.fixture
def begun(at, study, tmp_path):
    """A worker as a process, with a command that runs for a minute and records its shell."""
    pid = tmp_path / "pid"
    command = [sys.executable, "-m", "fairtrial", "worker", *at, "--grace", "0.2s"]
    run = f"echo $$ > {pid}.part; mv {pid}.part {pid}; sleep 60; echo 0.5"
    process = subprocess.Popen(
        [*command, "--run", run, "--lease", "1h"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ.copy(),
    )
    deadline = time.monotonic() + 60
    while not pid.exists():
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.shell = int(pid.read_text())
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_and_hands_its_pull_back(begun, study, number):
    assert len(study.outstanding()) == 1
    begun.send_signal(number)
    assert begun.wait(30) == 130
    assert not is_alive(begun.shell)
    assert "handed back" in begun.stdout.read()
    health = study.health()
    assert health["open"] == health["overdue"]


def test_a_worker_that_is_killed_leaves_a_pull_with_a_lease(begun, study):
    begun.kill()
    begun.wait()
    os.killpg(begun.shell, signal.SIGKILL)
    (pull,) = study.outstanding()
    ask = next(event for event in study.events() if event.kind == "ask")
    assert ask.lease_until is not None
    assert study.tell(pull, 0.5).kind == "tell"
