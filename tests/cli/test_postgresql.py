"""The command with studies in PostgreSQL: the same results, and no password in any output."""

import json

import pytest
from click.testing import CliRunner

from fairtrial.cli.app import app
from fairtrial.cli.config import load_study_section
from tests.cli.configurations import replayed, write
from tests.postgresql import PASSWORD

PARTS_OF_PASSWORD = (PASSWORD, "sesame", "%40%C3")


@pytest.fixture
def trial(folder, postgresql_url):
    """A configuration whose study is in PostgreSQL."""
    study = {"name": "small", "storage": postgresql_url, "seed": 7, "durability": "process"}
    return write(folder, replayed(study=study))


@pytest.fixture
def said():
    """Return a function that runs a command, and checks that its output has no password."""

    def run(*arguments, expected=0):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert result.exit_code == expected, result.output
        assert not [part for part in PARTS_OF_PASSWORD if part in result.output]
        return result.output

    return run


def test_a_study_is_run_looked_at_and_moved(folder, trial, said, postgresql_url, monkeypatch):
    assert "'a'" in said("run", trial)
    assert "PostgreSQL 1" in said("study", "show", trial)
    shown = json.loads(said("study", "show", trial, "--json"))
    assert shown["verification"]["ok"]
    assert shown["storage_software"].startswith("PostgreSQL ")
    assert "small" in said("study", "list", trial)
    said("study", "verify", trial)
    said("study", "report", trial, "--out", "report.html")
    said("study", "export", trial, "log.jsonl")
    for file in ("report.html", "log.jsonl"):
        text = (folder / file).read_text(encoding="utf-8")
        assert not [part for part in PARTS_OF_PASSWORD if part in text]
    said("study", "import", "log.jsonl", "--storage", "sqlite:///copy.db")
    head = said("study", "head", "small", "--storage", "sqlite:///copy.db")
    assert head == said("study", "head", trial)
    monkeypatch.setenv("FAIRTRIAL_STORAGE", postgresql_url)
    said("study", "import", "log.jsonl", "--name", "back")
    assert said("study", "head", "back").split()[-1] == head.split()[-1]
    said("study", "verify", "back")


def test_a_run_that_is_continued_says_where_it_is_without_the_password(trial, said, postgresql_url):
    first = json.loads(said("run", trial, "--pulls", 3, "--json", expected=3))
    assert first["storage"] == f"postgresql://experimenter@{postgresql_url.rpartition('@')[2]}"
    second = json.loads(said("run", trial, "--json"))
    assert second["progress"]["recommendation"]["arm"] == "a"
    assert "Answer: a" in said("study", "show", trial)


def test_a_study_by_hand(folder, trial, said):
    found = json.loads(said("study", "create", trial, "--json"))
    assert "experimenter@127.0.0.1" in found["storage"]
    said("study", "ask", trial, "-n", 2)
    # With the same name it is refused; the message says where it is.
    assert "experimenter@127.0.0.1" in said("study", "create", trial, expected=2)


@pytest.mark.parametrize(
    ("old", "new", "expected", "code"),
    [
        ("sesame", "sesamy", "password authentication failed", 1),
        ("/trials_", "/absent_", "does not exist", 1),
        ("127.0.0.1:", "127.0.0.1:x", "invalid integer value", 1),
        ("%40", "@", "percent-encoded", 2),
    ],
)
def test_a_storage_that_cannot_be_used_is_told_without_the_password(
    folder, said, postgresql_url, old, new, expected, code
):
    study = {"name": "small", "storage": postgresql_url.replace(old, new, 1)}
    path = write(folder, replayed(study=study))
    for command in (["run", path], ["study", "show", path], ["run", path, "--json"]):
        assert expected in said(*command, expected=code)


@pytest.mark.parametrize("odd", ["study = '{}'", "[[study]]\nstorage = '{}'"])
def test_an_address_at_the_wrong_place_is_not_repeated(folder, said, postgresql_url, odd):
    (folder / "trial.toml").write_text(odd.format(postgresql_url))
    assert "study: must be a section with keys" in said("run", "trial.toml", expected=2)


def test_the_section_of_a_configuration_does_not_show_it(trial):
    assert PASSWORD not in repr(load_study_section(trial))
    assert "sesame" not in repr(load_study_section(trial))
