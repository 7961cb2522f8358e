"""The service as a process: how it starts, who can reach it, and how it ends."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

import fairtrial as ft
from fairtrial.study import Study, Tokens
from tests.client.scripted import Answer, scripted

PROBLEM = ft.subpopulations.Problem(["a", "b"], ["x", "y"], reward_range=(0, 1))


@pytest.fixture
def storage(tmp_path):
    return f"sqlite:///{tmp_path}/trial.db"


def make_study(storage, name="trial"):
    policy = ft.subpopulations.BlockBetting(PROBLEM)
    return Study.create(PROBLEM, policy, storage=storage, name=name, seed=1)


def make_token(storage, name="admin", scope="admin"):
    with Tokens(storage) as tokens:
        return tokens.create(name, [scope])[1]


@contextmanager
def serving(storage, *options, **environment):
    """Run the command until the end of the context; yield its address and its process."""
    command = [sys.executable, "-m", "fairtrial", "serve", "--storage", storage, "--port", "0"]
    process = subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    log = []
    reader = threading.Thread(target=lambda: log.extend(process.stderr))
    reader.start()
    try:
        line = process.stdout.readline()
        if line == "{\n":
            line = process.stdout.readline()
        match = re.search(r"http://\S+?:\d+", line)
        assert match, "".join(log)
        process.log = log
        yield match[0], process
    finally:
        process.terminate()
        process.wait(30)
        reader.join()
        process.stdout.close()
        process.stderr.close()


class Running:
    """A service with everything, shared by several tests because starting one takes a second."""

    def __init__(self, folder):
        self.storage = f"sqlite:///{folder}/trial.db"
        self.secret_file = folder / "secret"
        self.secret_file.write_text("k" * 40)
        self.secret_file.chmod(0o600)
        self.token = make_token(self.storage)
        make_study(self.storage).close()


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    running = Running(tmp_path_factory.mktemp("serve"))
    with scripted(Answer(204, "")) as running.script:
        options = ["--webhook", running.script.url, "--webhook-secret-file"]
        options += [str(running.secret_file), "--allowed-host", "trials.example.org"]
        with (
            serving(running.storage, *options) as (running.url, running.process),
            ft.connect(running.url, running.token) as running.connection,
        ):
            yield running


def test_the_loopback_interface_is_the_default(running):
    assert running.url.startswith("http://127.0.0.1:")


def test_only_names_that_were_allowed_are_served(running):
    def status(host):
        request = urllib.request.Request(f"{running.url}/health/live", headers={"Host": host})
        with contextlib.closing(opened(request)) as answer:
            return answer.status

    assert status("trials.example.org") == 200
    assert status("evil.example.org") == 421


def opened(request):
    """Return an answer, whatever its status."""
    try:
        return urllib.request.urlopen(request)
    except urllib.error.HTTPError as error:
        return error


def test_the_log_is_json_and_names_neither_studies_nor_tokens(running):
    running.connection.study("trial").ask()
    opened(f"{running.url}/v1/studies/trial?token={running.token}").close()
    until(lambda: any('"refused"' in line for line in running.process.log))
    lines = [json.loads(line) for line in running.process.log]
    assert {"request", "refused"} <= {line["event"] for line in lines}
    assert running.token not in "".join(running.process.log)
    assert "trial" not in "".join(line for line in running.process.log if '"request"' in line)


def test_metrics_are_served_to_those_alone_who_have_a_token_for_them(running):
    with contextlib.closing(opened(f"{running.url}/metrics")) as answer:
        assert answer.status == 401
    running.connection.study("trial").ask(3)
    headers = {"Authorization": f"Bearer {running.token}"}
    request = urllib.request.Request(f"{running.url}/metrics", headers=headers)
    with contextlib.closing(opened(request)) as answer:
        text = answer.read().decode()
    assert 'fairtrial_studies{status="running"} 1.0' in text
    assert 'route="/v1/studies/{study}/asks",status="200"' in text
    assert "fairtrial_commit_operations_count" in text
    assert "trial" not in text.replace("fairtrial", "")


def test_a_webhook_is_told_that_a_study_has_stopped(running):
    with make_study(running.storage, "recalled") as study:
        study.ask()
    running.connection.study("recalled").stop("the drug was recalled")
    until(lambda: running.script.requests)
    (request,) = running.script.requests
    assert request.body["type"] == "study.stopped"
    assert request.headers["webhook-signature"].startswith("v1,")


def test_a_service_ends_with_all_that_was_acknowledged(running):
    remote = running.connection.study("trial")
    pulls = remote.ask(20)
    events = remote.tell_many([(pull, 0.5) for pull in pulls])
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(60) == 0
    with Study.open(running.storage, "trial") as study:
        assert study.n_events == events[-1].seq
        assert study.verify().ok


def until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_requests_that_wait_for_news_do_not_hold_up_the_end(storage):
    make_study(storage).close()
    with (
        serving(storage) as (url, process),
        ft.connect(url, make_token(storage), patience=0) as connection,
    ):
        assert process.stdout.readline().startswith("Nobody has a token yet.")
        remote = connection.study("trial")
        waiting = threading.Thread(target=lambda: remote.wait(0, 25))
        waiting.start()
        until(lambda: len(process.log) > 2)
        process.send_signal(signal.SIGINT)
        waiting.join(20)
        assert not waiting.is_alive()
        assert process.wait(60) == 0


def test_another_machine_may_reach_it_only_if_somebody_has_a_token(storage, invoke):
    result = invoke("serve", "--storage", storage, "--host", "0.0.0.0")
    assert result.exit_code == 2
    assert "fairtrial token create" in result.stderr
    make_token(storage)
    with Tokens(storage) as tokens:
        tokens.revoke("admin")
    assert invoke("serve", "--storage", storage, "--host", "0.0.0.0").exit_code == 2
    make_token(storage, "another")
    with serving(storage, "--host", "0.0.0.0", "--json") as (url, process):
        rest = [process.stdout.readline() for _ in range(3)]
        assert json.loads("{" + "".join(rest)) == {"storage": storage, "has_token": True}
        port = url.rpartition(":")[2]
        with contextlib.closing(opened(f"http://127.0.0.1:{port}/health/live")) as answer:
            assert answer.status == 200


def test_a_port_that_is_taken_is_a_plain_error(storage):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "fairtrial", "serve", "--storage", storage]
        result = subprocess.run(
            [*command, "--port", port], capture_output=True, text=True, timeout=60
        )
    assert result.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--host", "no such host at all"], "cannot listen"),
        (["--port", "70000"], "0<=x<=65535"),
        (["--allowed-host", "a:80"], "hosts must be names"),
        (
            ["--webhook", "http://192.0.2.1/", "--webhook-secret-file", __file__],
            "by its owner only",
        ),
        (["--webhook", "https://x.org"], "needs a secret"),
        (["--webhook-secret-file", "x"], "needs --webhook"),
        (["--webhook", "https://x.org", "--webhook-secret-file", "missing"], "cannot be read"),
        (["--storage", "http://127.0.0.1:1"], "storage must be"),
        (["--storage", "memory://"], "nobody could make a token"),
        (["--storage", "sqlite:////no/such/folder/x.db"], "does not exist"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_served(
    storage, invoke, options, message, monkeypatch
):
    monkeypatch.delenv("FAIRTRIAL_WEBHOOK_SECRET", raising=False)
    make_token(storage)
    result = invoke("serve", "--storage", storage, "--port", "0", *options)
    assert result.exit_code in (1, 2)
    assert message in result.stderr
    assert result.stdout == ""
