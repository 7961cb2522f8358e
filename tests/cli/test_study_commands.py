"""`fairtrial study list | show | history | verify | export`."""

import csv
import json
import re
import sqlite3
import time

import numpy as np
import pytest

import fairtrial as ft
from fairtrial import delayed
from fairtrial.cli import ExitCode
from fairtrial.presentation.cuts import MOST_ARMS
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
    """Change the database in spite of the triggers that forbid it."""
    with sqlite3.connect("small.db") as connection:
        triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        for (name,) in triggers.fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(statement)
    connection.close()


def test_a_study_of_a_paired_race_is_opened_shown_and_verified(folder, document):
    problem = delayed.Problem(["a", "b", "c"], reward_range=(0, 1))
    policy = delayed.PairedRacing(problem, delta=0.05)
    with Study.create(problem, policy, storage=STORAGE, name="pairs", seed=1) as study:
        while study.status == "running":
            pull = study.ask()
            study.tell(pull, 0.2 * (pull.tag % 2) + {"a": 0.1, "b": 0.6, "c": 0.3}[pull.arm])
    with Study.open(STORAGE, "pairs") as study:
        assert isinstance(study.policy, delayed.PairedRacing)
    shown, result = document("study", "show", "pairs", "--storage", STORAGE)
    assert (result.exit_code, shown["progress"]["recommendation"]["arm"]) == (ExitCode.OK, "b")
    found, result = document("study", "verify", "pairs", "--storage", STORAGE)
    assert (result.exit_code, found["verification"]["ok"]) == (ExitCode.OK, True)


def test_the_event_that_decided_a_study_is_shown_everywhere(decided, invoke, document, tmp_path):
    with Study.open(STORAGE, "small") as study:
        (found,) = study.recommend().decisions
    said = f"Decided on {found.at:%Y-%m-%d}, with event {found.event}."
    assert said in invoke("study", "show", "trial.toml").stdout
    shown, _ = document("study", "show", "trial.toml")
    assert shown["progress"]["recommendation"]["decisions"] == [found.to_dict()]
    (row,) = [
        line
        for line in invoke("study", "history", "trial.toml").stdout.splitlines()
        if "decided the study" in line
    ]
    assert re.search(rf"\b{found.event}\b", row)
    log = tmp_path / "log.csv"
    assert said in invoke("study", "export", "trial.toml", log).stdout
    exported, _ = document("study", "export", "trial.toml", log, "--force")
    assert exported["decisions"] == [found.to_dict()]
    page = tmp_path / "report.html"
    invoke("study", "report", "trial.toml", "--out", page)
    assert said in page.read_text()
    blinded = tmp_path / "blinded.html"
    invoke("study", "report", "trial.toml", "--out", blinded, "--blinded")
    assert "with event" not in blinded.read_text()


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
    for part in ("Answer: a", "Guarantee", "interval", "none was lost, late, corrected"):
        assert part in text
    found, _ = document("study", "show", decided)
    assert found["progress"]["recommendation"]["arm"] == "a"
    assert found["health"]["lost"] == 0


def test_show_before_every_group_has_results_names_no_leader_and_no_differences(folder, invoke):
    (folder / "trial.toml").write_text(
        '[study]\nname = "trial"\nstorage = "sqlite:///trial.db"\n[problem]\n'
        'family = "subpopulations"\narms = ["a", "b"]\ngroups = ["x", "y"]\n'
        'reward_range = [0, 1]\ncontrol = "a"\n'
    )
    invoke("study", "create", "trial.toml")
    table = folder / "pulls.csv"
    invoke("study", "ask", "trial.toml", "-n", "20", "--csv", str(table))
    rows = [f"{row}1" if ",x," in row else row for row in table.read_text().splitlines()]
    table.write_text("\n".join(rows) + "\n")
    invoke("study", "tell", "trial.toml", str(table))
    shown = invoke("study", "show", "trial.toml")
    text = shown.stdout
    assert shown.exit_code == 3
    assert "8 results so far, 12 open; the leader is not known yet\n" in text
    assert "Difference from" not in text


def test_show_says_what_speaks_against_the_other_answers(decided, invoke):
    text = " ".join(invoke("study", "show", decided).stdout.split())
    for part in (
        "Evidence against each answer",
        "rules it out)",
        "ruled out",
        "The evidence against an answer is what a stake of 1",
        "ever reaches 20 is at most 5 %",
    ):
        assert part in text
    assert "2.996 of 2.996" not in text


@pytest.mark.parametrize("count", [3, 60])
def test_show_lists_every_arm_once_from_the_best_and_of_many_the_best_only(folder, invoke, count):
    names = [f"arm {number}" for number in range(count)]
    problem = ft.delayed.Problem(names, noise_std=1.0)
    policy = ft.delayed.InformationRacing(problem)
    with Study.create(problem, policy, storage=STORAGE, name="race", seed=1) as study:
        for pull in study.ask(count):
            study.tell(pull, 0.01 * pull.action)
    text = invoke("study", "show", "race", "--storage", STORAGE).stdout
    rows = [line for line in text.splitlines() if line.startswith("│ arm ")]
    assert len(rows) == min(count, MOST_ARMS)
    assert [row.split("│")[1].strip() for row in rows] == names[: -1 - len(rows) : -1]
    said = f"Showing {MOST_ARMS} of 60 arms: the leader, then the best by mean."
    assert (said in " ".join(text.split())) == (count == 60)


def test_show_of_a_policy_that_never_stops_shows_shares_and_succeeds(folder, invoke):
    problem = ft.allocation.Problem(["a", "b", "d"], {"a": "1/5", "b": "1/4", "d": "1/10"})
    first = ft.allocation.FairLearn(problem)
    for pull in first.ask(100):
        first.tell(pull, float(pull.arm == "d"))
    second = first.next_epoch(problem)
    with Study.create(problem, second, storage=STORAGE, name="epoch", seed=1) as study:
        for pull in study.ask(20):
            study.tell(pull, float(pull.arm == "d"))
        largest = study.progress().largest_shortfall
    result = invoke("study", "show", "epoch", "--storage", STORAGE)
    assert result.exit_code == ExitCode.OK
    assert result.stdout.startswith("Serving continues: 20 results so far; the leader is d\n")
    assert "No answer" not in result.stdout
    text = " ".join(result.stdout.split())
    assert re.search(r"│ d │ \d+ │ [\d.]+ % │ 10 % │ 0 % │ -", text)
    assert "Pulls that it was ahead or behind when it began are counted." in text
    assert largest
    assert f"No arm was ever more than {largest:.4g} pulls behind its share." in text
    assert "100 of the results behind the means do not count for the shares" in text


@pytest.mark.parametrize(
    "statement",
    ["UPDATE event SET value = 0.99 WHERE seq = 20", "DELETE FROM event WHERE seq = 30"],
)
def test_show_of_an_altered_log_warns_loudly_and_fails(decided, invoke, document, statement):
    tamper(statement)
    result = invoke("study", "show", decided)
    assert result.exit_code == ExitCode.NOT_VERIFIED
    assert "WARNING: small is NOT verified" in result.stderr
    assert result.stdout.startswith("DO NOT RELY ON THIS")
    found, again = document("study", "show", decided)
    assert again.exit_code == ExitCode.NOT_VERIFIED
    assert found["verification"]["ok"] is False


def test_show_of_a_long_log_says_that_only_its_end_was_checked(
    decided, invoke, document, monkeypatch
):
    monkeypatch.setattr("fairtrial.cli.commands.study._MOST_AUDITED", 10)
    text = " ".join(invoke("study", "show", decided).stdout.split())
    assert "none of the last 10 events altered; the" in text
    assert "were not audited: `fairtrial study verify` audits all" in text
    found, result = document("study", "show", decided)
    events = document("study", "verify", decided)[0]["verification"]["events"]
    expected = {"ok": True, "events": 10, "skipped": events - 10, "first_difference": None}
    assert (result.exit_code, found["verification"]) == (ExitCode.OK, expected)
    tamper(f"UPDATE event SET at = at + 1 WHERE seq = {events - 2}")
    result = invoke("study", "show", decided)
    assert result.exit_code == ExitCode.NOT_VERIFIED
    assert f"NOT verified: event {events - 2}: its hash" in result.stderr


def test_show_of_a_study_without_an_answer_says_so_by_its_exit_code(running, invoke):
    result = invoke("study", "show", running)
    assert result.exit_code == ExitCode.NO_ANSWER
    assert "No answer yet: running, 45 results so far" in result.stdout


def test_one_is_singular(folder, invoke):
    path = write(folder, replayed())
    result = invoke("run", path, "--pulls", 1)
    assert "running, 1 result so far" in result.stdout


def test_show_works_before_the_first_result(folder, invoke):
    path = write(folder, replayed(source={"kind": "command", "run": "exit 1"}))
    invoke("run", path)
    shown = invoke("study", "show", path).stdout
    assert "no result so far" in shown
    assert "leads" not in shown


def test_history_tells_every_event_with_labels_and_values(running, document, invoke):
    found, result = document("study", "history", running)
    assert result.exit_code == ExitCode.OK
    assert [event["kind"] for event in found["events"]] == ["ask", "tell"] * 45
    assert found["events"][1]["arm"] == "a"
    assert found["events"][1]["value"] in (0.7, 0.8, 0.9)
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


def test_an_export_replaces_no_file_unless_told_to(decided, folder, document):
    (folder / "log.csv").write_text("mine")
    found, result = document("study", "export", decided, "log.csv")
    assert result.exit_code == ExitCode.USAGE
    assert "--force" in found["error"]["message"]
    assert (folder / "log.csv").read_text() == "mine"
    _, result = document("study", "export", decided, "log.csv", "--force")
    assert result.exit_code == ExitCode.OK
    assert (folder / "log.csv").read_text() != "mine"


def test_an_export_to_an_unknown_format_is_a_mistake(decided, document):
    found, result = document("study", "export", decided, "log.json")
    assert result.exit_code == ExitCode.USAGE
    assert ".jsonl" in found["error"]["message"]


def test_a_report_is_one_page_and_replaces_no_file_unless_told_to(decided, folder, document):
    found, result = document("study", "report", decided, "--out", "page.html")
    assert (result.exit_code, found["path"]) == (ExitCode.OK, "page.html")
    page = (folder / "page.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "small" in page
    (folder / "page.html").write_text("mine")
    found, result = document("study", "report", decided, "--out", "page.html")
    assert result.exit_code == ExitCode.USAGE
    assert "--force" in found["error"]["message"]
    assert (folder / "page.html").read_text() == "mine"
    assert document("study", "report", decided, "--out", "page.html", "--force")[1].exit_code == 0
    assert (folder / "page.html").read_text() == page


def test_a_report_is_audited_once_and_whole(decided, folder, invoke, monkeypatch):
    monkeypatch.setattr("fairtrial.cli.commands.study._MOST_AUDITED", 10)
    audits, verify = [], Study.verify
    monkeypatch.setattr(Study, "verify", lambda study: audits.append(verify(study)) or audits[-1])
    assert invoke("study", "report", decided).exit_code == ExitCode.OK
    assert len(audits) == 1
    assert f"{audits[0].events:,} events checked" in (folder / "report.html").read_text()


def test_a_report_needs_no_name_and_tells_of_an_altered_log(decided, folder, invoke):
    assert "the report is in report.html" in invoke("study", "report", decided).stdout
    tamper("UPDATE event SET value = 0.99 WHERE seq = 20")
    result = invoke("study", "report", decided, "--force")
    assert result.exit_code == ExitCode.NOT_VERIFIED
    assert "WARNING: small is NOT verified" in result.stderr
    assert "does not replay to the recorded decisions" in (folder / "report.html").read_text()


# ------------------------------------------------------------ a file that was changed since


@pytest.mark.parametrize("command", ["show", "history", "verify"])
def test_a_file_that_is_not_the_studys_any_more_is_warned_of(decided, folder, document, command):
    assert document("study", command, decided)[1].stderr == ""
    changed = replayed(policy={"name": "BlockBetting", "delta": 0.01})
    found, result = document("study", command, write(folder, changed))
    assert (result.exit_code, found["study"]) == (ExitCode.OK, "small")
    assert "policy.delta is 0.05 and 0.01" in result.stderr
    assert "shown as recorded" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_changed_seed_is_warned_of_and_a_seed_left_out_is_not(decided, folder, document):
    for seed, warned in ((8, True), (None, False)):
        section = {"name": "small", "storage": STORAGE, **({} if seed is None else {"seed": seed})}
        _, result = document("study", "show", write(folder, replayed(study=section)))
        assert ("seed is 7 and 8" in result.stderr) == warned


def test_a_file_that_has_mistakes_now_is_warned_of_and_one_without_a_problem_is_not(
    decided, folder, document
):
    broken = replayed(problem={"family": "subpopulations"})
    _, result = document("study", "show", write(folder, broken))
    assert "its problem or policy has mistakes" in result.stderr
    _, result = document("study", "show", write(folder, {"study": replayed()["study"]}))
    assert result.stderr == ""


def test_a_missing_source_is_no_difference(decided, folder, document):
    (folder / "rows.csv").unlink()
    assert document("study", "show", decided)[1].stderr == ""


def test_the_end_of_a_studys_time_is_told(folder, invoke):
    problem = delayed.Problem(["a", "b"], noise_std=1.0)
    policy = delayed.InformationRacing(problem, max_time=0.01)
    with Study.create(problem, policy, storage="small.db", name="race", seed=1) as study:
        study.ask()
        time.sleep(0.02)
        study.pass_time()
    log = invoke("study", "history", "race", "--storage", STORAGE).stdout
    assert "max_time reached, after" in log
    shown = invoke("study", "show", "race", "--storage", STORAGE)
    assert shown.exit_code == ExitCode.NO_ANSWER
    assert shown.stdout.startswith("No answer: no result so far, 1 open")


# --------------------------------------------------------------- heads noted elsewhere


def rehashed():
    """Change an outcome, and write the whole chain of hashes again, as an insider could."""
    from fairtrial.study.log import Record, seal
    from fairtrial.study.store import StudyRow

    with sqlite3.connect("small.db") as connection:
        for name in ("event_is_never_changed", "event_is_never_removed"):
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("UPDATE event SET value = 0.25 WHERE seq = 40")
        columns = ", ".join(Record._fields)
        fields = ", ".join(StudyRow._fields)
        study = StudyRow(*connection.execute(f"SELECT {fields} FROM study").fetchone())
        previous = study.origin
        for row in connection.execute(f"SELECT {columns} FROM event ORDER BY seq").fetchall():
            previous = seal(previous, Record(*row))
            connection.execute("UPDATE event SET hash = ? WHERE seq = ?", (previous, row[0]))
        connection.execute("UPDATE study SET head_hash = ?", (previous,))
        from fairtrial.study import schema

        for statement in (part for step in schema.STEPS for part in step):
            if statement.split()[1:3] in (
                ["TRIGGER", "event_is_never_changed"],
                ["TRIGGER", "event_is_never_removed"],
            ):
                connection.execute(statement)
    connection.close()


def test_a_head_that_was_noted_elsewhere_finds_out_who_wrote_the_whole_log_anew(
    folder, invoke, document
):
    path = write(folder, replayed())
    invoke("run", path, "--pulls", 45)
    noted = invoke("study", "head", path).stdout.strip()
    assert noted == document("study", "show", path)[0]["head"]
    assert invoke("study", "verify", path, "--head", noted).exit_code == ExitCode.OK
    invoke("run", path, "--pulls", 2)
    assert invoke("study", "verify", path, "--head", noted).exit_code == ExitCode.OK
    rehashed()
    (folder / "small.db-head").unlink()
    assert invoke("study", "verify", path).exit_code == ExitCode.OK
    found, result = document("study", "verify", path, "--head", noted)
    assert result.exit_code == ExitCode.NOT_VERIFIED
    assert noted in found["verification"]["first_difference"]


def test_a_head_that_is_none_is_refused(decided, invoke):
    result = invoke("study", "verify", decided, "--head", "abc")
    assert result.exit_code == ExitCode.USAGE
    assert "64 digits" in result.output


def test_a_lost_end_is_said_and_can_be_accepted(folder, invoke, document):
    path = write(folder, replayed())
    invoke("run", path, "--pulls", 5)
    old = (folder / "small.db").read_bytes()
    invoke("run", path, "--pulls", 5)
    (folder / "small.db").write_bytes(old)
    result = invoke("study", "show", path)
    assert result.exit_code == ExitCode.NOT_VERIFIED
    assert "event 20 was acknowledged" in result.output
    found, _ = document("study", "accept-loss", "--storage", STORAGE)
    assert found["lost"] == [{"study": "small", "acknowledged": 20, "left": 10}]
    assert document("study", "verify", path)[0]["verification"]["events"] == 10
    repeated = invoke("study", "accept-loss", "--storage", STORAGE)
    assert repeated.stdout == "no acknowledged event is known to be missing\n"


def test_a_log_is_imported_under_another_name_or_not_at_all(decided, folder, document, invoke):
    invoke("study", "export", decided, "log.jsonl")
    head = document("study", "head", decided)[0]["head"]
    found, _ = document("study", "import", "log.jsonl", "--storage", "copy.db", "--name", "copy")
    assert found == {"study": "copy", "storage": f"sqlite:///{folder}/copy.db", "head": head}
    text = invoke("study", "import", "log.jsonl", "--storage", "copy.db").stdout
    assert text == f"small: its log ends with {head}\n"
    _, result = document("study", "import", "log.jsonl", "--storage", "copy.db")
    assert result.exit_code == 2
    log = (folder / "log.jsonl").read_text()
    (folder / "log.jsonl").write_text(log.replace('"value": ', '"value": 0'))
    _, result = document("study", "import", "log.jsonl", "--storage", "copy.db", "--name", "odd")
    assert result.exit_code != 0
    assert len(document("study", "list", "--storage", "copy.db")[0]["studies"]) == 2


def test_show_says_which_sqlite_reads_the_study(decided, invoke):
    shown = " ".join(invoke("study", "show", decided).stdout.split())
    assert f"SQLite {sqlite3.sqlite_version}" in shown


def test_a_witness_in_the_file_notes_every_head_and_audits_the_log(folder, invoke):
    configuration = replayed()
    configuration["study"]["witness"] = "heads"
    path = write(folder, configuration)
    invoke("run", path, "--pulls", 5)
    assert len((folder / "heads").read_text().splitlines()) >= 5
    audited = invoke("study", "verify", path, "--witness", folder / "heads")
    assert audited.exit_code == ExitCode.OK
    with (folder / "heads").open("a") as lines:
        lines.write(f"3 {'0' * 64}\n")
    audited = invoke("study", "verify", path, "--witness", folder / "heads")
    assert audited.exit_code == ExitCode.NOT_VERIFIED


def test_the_blinded_view_shows_counts_and_neither_arms_nor_results(decided, invoke, document):
    text = invoke("study", "show", decided, "--blinded").stdout
    assert "small has stopped\n" in text
    assert "Blinded     for those who recruit or treat" in text
    assert re.search(
        r"So far (\d+) pulls asked for, \1 results, 0 open pulls, 0 pulls given up, \d+ results",
        " ".join(text.split()),
    )
    found, result = document("study", "show", decided, "--blinded")
    assert result.exit_code == ExitCode.OK
    assert set(found) == {"study", "blinded", "stopped", "recruitment", "health", "verification"}
    assert found["recruitment"]["results"] > 0
    for word in ("Answer", "Guarantee", "interval", "Evidence", "Head"):
        assert word not in text


def test_drift_is_shown_with_its_arm_and_blinded_without(folder, invoke, document):
    problem = ft.linear.Problem([[1, 0], [0, 1]], arms=["aspirin", "zinc"], reward_range=(0, 1))
    policy, rng = ft.linear.BlockBetting(problem, delta=1e-9), np.random.default_rng(1)
    with Study.create(problem, policy, storage=STORAGE, name="drifts", seed=1) as study:
        for index in range(400):
            pull = study.ask()
            rate = (0.0 if index < 200 else 0.7) if pull.arm == "zinc" else 0.35
            study.tell(pull, float(rng.random() < rate))
    shown = ("study", "show", "drifts", "--storage", STORAGE)
    text = " ".join(invoke(*shown).stdout.split())
    assert "the results of 'zinc' come from another distribution later in the study" in text
    assert "aspirin" not in text[text.index("Warning") : text.index("Health")]
    blinded = invoke(*shown, "--blinded").stdout
    assert "Warning" not in blinded
    assert "problem" not in blinded
    assert "zinc" not in blinded
    found, _ = document(*shown, "--blinded")
    assert "zinc" not in json.dumps(found)


def test_a_blinded_report_has_a_title_and_no_decision(decided, invoke, tmp_path):
    page = tmp_path / "page.html"
    result = invoke(
        "study", "report", decided, "--out", str(page), "--blinded", "--title", "Ward 7"
    )
    assert result.exit_code == ExitCode.OK
    html = page.read_text()
    assert "<h1><bdi>Ward 7</bdi></h1>" in html
    assert "Decision" not in html
    assert "Recruitment" in html


def test_show_says_that_the_limits_of_the_answer_are_kept_by_the_decision(folder, invoke, decided):
    text = invoke("study", "show", decided).stdout
    rows = [line for line in text.splitlines() if line.startswith("│ a ") and "decision" in line]
    assert rows
    assert "not settled" not in " ".join(rows)


def test_a_blinded_view_of_an_analysis_counts_units_of_its_table(folder, invoke, document):
    problem = ft.subpopulations.Problem(["a", "b"], ["x"], reward_range=(0, 1))
    rows = {
        "arm": ["a", "b"] * 30,
        "group": ["x"] * 60,
        "day": list(range(60)),
        "outcome": [1.0, 0.0, 0.0, 1.0, 1.0] * 12,
    }
    ft.analyse(problem, rows, order="day", storage=STORAGE, name="table", progress=False).close()
    shown = "study", "show", "table", "--storage", STORAGE, "--blinded"
    text = " ".join(invoke(*shown).stdout.split())
    assert "60 units in the table, 60 results" in text
    for word in ("unsolicited", "pull", "Pull", "running"):
        assert word not in text
    found = document(*shown)[0]["recruitment"]
    assert (found["units in the table"], found["results of x"]) == (60, 60)
