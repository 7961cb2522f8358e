"""`fairtrial study list | show | history | verify | export`."""

import csv
import json
import sqlite3

import pytest

from fairtrial.cli import ExitCode
from fairtrial.study import Study
from tests.cli.configurations import replayed, write

STORAGE = "sqlite:///small.db"


@pytest.fixture
def decided(folder, invoke):
    path = write(folder, replayed())
    assert invoke("run", path).exit_code == ExitCode.OK
    return path


@pytest.fixture
def running(folder, invoke):
    path = write(folder, replayed())
    assert invoke("run", path, "--pulls", 45).exit_code == ExitCode.NO_ANSWER
    return path


def tamper(statement):
    """Change the database behind the back of the triggers that forbid it."""
    with sqlite3.connect("small.db") as connection:
        triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        for (name,) in triggers.fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(statement)
    connection.close()


# ----------------------------------------------------------------- which study is meant


@pytest.mark.parametrize(
    "arguments", [["small", "--storage", STORAGE], ["trial.toml"], ["small", "--storage=small.db"]]
)
def test_a_study_is_named_by_a_storage_or_by_its_configuration(decided, document, arguments):
    found, result = document("study", "show", *arguments)
    assert (result.exit_code, found["study"]) == (ExitCode.OK, "small")


def test_the_storage_may_come_from_the_environment(decided, document, monkeypatch):
    monkeypatch.setenv("FAIRTRIAL_STORAGE", STORAGE)
    found, _ = document("study", "show", "small")
    assert found["study"] == "small"
    assert document("study", "list")[0]["studies"][0]["name"] == "small"


@pytest.mark.parametrize("command", ["show", "history", "verify"])
def test_without_a_storage_it_is_said_how_to_name_one(folder, document, command):
    found, result = document("study", command, "small")
    assert result.exit_code == ExitCode.USAGE
    assert "--storage" in found["error"]["message"]
    assert "FAIRTRIAL_STORAGE" in found["error"]["message"]


def test_an_unknown_study_is_a_mistake_and_those_that_exist_are_named(decided, document):
    found, result = document("study", "show", "smal", "--storage", STORAGE)
    assert (result.exit_code, found["error"]["type"]) == (ExitCode.USAGE, "StudyNotFound")
    assert "'small'" in found["error"]["message"]


def test_looking_at_a_storage_that_is_not_there_makes_none(folder, document):
    for arguments in (["list"], ["show", "small"]):
        _, result = document("study", *arguments, "--storage", STORAGE)
        assert result.exit_code in (ExitCode.USAGE, ExitCode.FAILURE)
    assert not (folder / "small.db").exists()


# ------------------------------------------------------------------------ what is shown


def test_list_names_every_study_with_its_status(running, folder, invoke, document):
    section = {**replayed()["study"], "name": "other"}
    invoke("run", write(folder, replayed(study=section), "other.toml"))
    found, result = document("study", "list", "trial.toml")
    assert result.exit_code == ExitCode.OK
    assert [(item["name"], item["status"]) for item in found["studies"]] == [
        ("small", "running"),
        ("other", "decided"),
    ]
    text = invoke("study", "list", "trial.toml").stdout
    assert "small" in text
    assert "BlockBetting" in text


def test_show_says_the_answer_the_estimates_and_the_health(decided, invoke, document):
    text = invoke("study", "show", decided).stdout
    for part in ("Answer: a", "Guarantee", "interval", "0 late"):
        assert part in text
    found, _ = document("study", "show", decided)
    assert found["progress"]["recommendation"]["arm"] == "a"
    assert found["health"]["lost"] == 0


def test_show_of_a_study_without_an_answer_says_so_by_its_exit_code(running, invoke):
    result = invoke("study", "show", running)
    assert result.exit_code == ExitCode.NO_ANSWER
    assert "No answer yet: running, 45 pulls so far" in result.stdout


def test_show_works_before_the_first_result(folder, invoke):
    path = write(folder, replayed(source={"kind": "command", "run": "exit 1"}))
    invoke("run", path)
    assert "no result so far" in invoke("study", "show", path).stdout


def test_history_tells_every_event_with_labels_and_values(running, document, invoke):
    found, result = document("study", "history", running)
    assert result.exit_code == ExitCode.OK
    assert [event["kind"] for event in found["events"]] == ["ask", "tell"] * 45
    assert found["events"][1]["arm"] == "a"
    assert found["events"][1]["value"] in (0.7, 0.9)
    last, _ = document("study", "history", running, "--last", 3)
    assert last["events"] == found["events"][-3:]
    assert "tell" in invoke("study", "history", running, "--last", 3).stdout


def test_history_may_be_asked_for_more_than_there_is(running, document):
    found, _ = document("study", "history", running, "--last", 1000)
    assert len(found["events"]) == 90


def test_verify_confirms_a_log_that_is_whole(decided, invoke, document):
    found, result = document("study", "verify", decided)
    assert (result.exit_code, found["verification"]["ok"]) == (ExitCode.OK, True)
    assert "none altered" in invoke("study", "verify", decided).stdout


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE event SET value = 0.99 WHERE seq = 20",
        "UPDATE event SET action = 1 - action WHERE seq = 21",
        "DELETE FROM event WHERE seq = 30",
    ],
)
def test_verify_finds_what_was_altered_and_says_where(decided, invoke, document, statement):
    tamper(statement)
    found, result = document("study", "verify", decided)
    assert result.exit_code == ExitCode.NOT_VERIFIED
    text = json.dumps(found)
    assert any(f"event {number}" in text for number in (20, 21, 30))


def test_a_database_of_a_newer_version_is_refused_in_one_sentence(decided, document):
    with sqlite3.connect("small.db") as connection:
        connection.execute("PRAGMA user_version = 999")
    connection.close()
    for arguments in (["study", "show", decided], ["run", decided]):
        found, result = document(*arguments)
        assert (result.exit_code, found["error"]["type"]) == (ExitCode.FAILURE, "StorageError")
        assert "999" in found["error"]["message"]


def test_a_file_that_is_no_database_is_refused(folder, document):
    (folder / "small.db").write_text("nothing of the kind\n" * 100)
    found, result = document("study", "list", "--storage", STORAGE)
    assert (result.exit_code, found["error"]["type"]) == (ExitCode.FAILURE, "StorageError")


@pytest.mark.parametrize("name", ["log.jsonl", "log.csv", "log.parquet"])
def test_export_writes_the_log_in_the_format_of_the_name(decided, folder, document, name):
    found, result = document("study", "export", decided, name)
    assert (result.exit_code, found["path"]) == (ExitCode.OK, name)
    assert (folder / name).stat().st_size > 0


def test_an_exported_log_can_be_read_elsewhere(decided, folder, invoke):
    assert invoke("study", "export", decided, "log.jsonl").exit_code == ExitCode.OK
    with Study.import_log("log.jsonl", storage="memory://") as copy:
        assert copy.verify().ok
        assert copy.recommend().arm == "a"
    invoke("study", "export", decided, "log.csv")
    with (folder / "log.csv").open() as stream:
        assert sum(1 for row in csv.DictReader(stream) if row["kind"] == "tell") > 40


def test_an_export_to_an_unknown_format_is_a_mistake(decided, document):
    found, result = document("study", "export", decided, "log.xlsx")
    assert result.exit_code == ExitCode.USAGE
    assert ".jsonl" in found["error"]["message"]
