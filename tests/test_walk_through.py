"""The walk-through of the service is true: real processes run its commands, to the decision."""

import contextlib
import doctest
import html
import io
import os
import re
import shlex
import socket
import subprocess
import sys
import threading

import httpx
import pytest
from click.testing import CliRunner

from fairtrial.study import Study
from tests.test_docs import DOCS, FLAGS, blocks

PAGE = DOCS / "how-to/run-a-test-with-a-service.md"
DEFAULT = "127.0.0.1:8000"


class Reader:
    """A person who reads the page and follows it, in a separate folder."""

    def __init__(self, folder):
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as place:
            # Port 8000 may be in use where tests run.
            self.address = f"127.0.0.1:{place.getsockname()[1]}"
        self.service = None
        self.errors_of_service = []
        self.workers = []

    def follow(self, block):
        """Run a block of the page."""
        text = block["text"].replace(DEFAULT, self.address)
        if block["language"] == "toml":
            (self.folder / text.splitlines()[0].removeprefix("# ")).write_text(text)
        elif block["language"] == "sh":
            script = self.folder / re.search(r'title="(\w+)"', block["title"])[1]
            script.write_text(text)
            script.chmod(0o755)
        elif block["language"] == "python":
            self.run_python(text)
        elif block["language"] == "console":
            is_terminal = "Terminal" in block["title"]
            for step in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, expected = step.partition("\n")
                words = shlex.split(command)[1:]
                (self.start if is_terminal else self.run)(words, expected)

    def run(self, words, expected):
        from fairtrial.cli.app import app

        self.wait_for_workers()
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
        assert doctest.OutputChecker().check_output(expected, result.stdout, FLAGS), result.stdout

    def start(self, words, expected):
        if words[0] == "serve":
            words += ["--port", self.address.partition(":")[2]]
        process = subprocess.Popen(
            [sys.executable, "-m", "fairtrial", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ.copy(),
        )
        errors = []
        threading.Thread(target=lambda: errors.extend(process.stderr), daemon=True).start()
        if words[0] == "serve":
            self.service, self.errors_of_service = process, errors
            assert process.stdout.readline() == expected, "".join(errors)
        else:
            self.workers.append((process, expected, errors))

    def wait_for_workers(self):
        while self.workers:
            process, expected, errors = self.workers.pop()
            assert process.wait(300) == 0, "".join([*errors, *self.errors_of_service])
            assert process.stdout.read() == expected

    def run_python(self, text):
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile(text, str(PAGE), "exec"), {})
        assert f"# {output.getvalue().strip()}" in text

    def leave(self):
        for process in [self.service, *(process for process, _, _ in self.workers)]:
            if process is not None:
                process.terminate()
                process.wait(60)


@pytest.fixture
def reader(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FAIRTRIAL_STORAGE", raising=False)
    reader = Reader(tmp_path)
    yield reader
    reader.leave()


def test_a_team_comes_from_nothing_to_its_decision_and_a_clinic_enters_patients(reader):
    for block in blocks(PAGE):
        reader.follow(block)
    with Study.open("sqlite:///studies.db", "checkout") as study:
        actors = {event.actor for event in study.events() if event.kind == "tell"}
        assert actors == {"shop-1", "shop-2"}
        assert study.recommend().guarantee.proven
    assert (reader.folder / "from-afar.html").exists()
    enter_a_patient(reader)
    reader.service.terminate()
    assert reader.service.wait(60) == 0


def enter_a_patient(reader):
    """Do the work of the nurse on the page, with the page's forms."""
    token = (reader.folder / "ward-3.token").read_text().strip()
    with httpx.Client(base_url=f"http://{reader.address}", follow_redirects=True) as browser:
        front = browser.post("/login", data={"token": token, "next": "/"})
        assert "heart" in front.text
        assert "checkout" not in front.text
        pulls = browser.get("/studies/heart/pulls")
        asked = browser.post(
            "/studies/heart/forms/ask",
            data={**hidden(pulls, "ask"), "n": "1", "context_group": "severe"},
        )
        (pull,) = set(re.findall(r"/studies/heart/pulls/([0-9a-f]{32})", asked.text))
        shown = browser.get(f"/studies/heart/pulls/{pull}")
        told = browser.post(
            "/studies/heart/forms/tell", data={**hidden(shown, "tell"), "value": "1"}
        )
        assert told.status_code == 200
        # Facts that would unblind her are hidden from her.
        assert browser.get("/studies/heart/decision").status_code == 404
        assert browser.get("/studies/checkout/decision").status_code == 404
    with Study.open("sqlite:///studies.db", "heart") as study:
        ask, tell = study.events()
        assert (ask.actor, tell.actor, tell.value) == ("ward-3", "ward-3", 1.0)
        assert study.problem.labels(ask.action)["group"] == "severe"


def hidden(answer, form):
    """Return the hidden fields of a form, which are sent besides what a person types."""
    text = re.search(rf'<form[^>]*forms/{form}".*?</form>', answer.text, re.DOTALL)[0]
    fields = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', text)
    return {name: html.unescape(value) for name, value in fields}
