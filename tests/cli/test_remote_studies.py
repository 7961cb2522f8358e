"""`fairtrial study` with the address of a service instead of a storage."""

import json

import pytest

import fairtrial as ft
from fairtrial.client.transport import Transport
from fairtrial.study import Study
from fairtrial.study.memory import MemoryStore
from tests.client.served import served
from tests.messages import warns

PROBLEM = ft.subpopulations.Problem(["a", "b"], ["x", "y"], reward_range=(0, 1))


@pytest.fixture(scope="module")
def service():
    store = MemoryStore()
    with served(store) as service:
        service.store = store
        service.tokens = {
            scope: service.token(f"somebody who may {scope}", scope)
            for scope in ("admin", "run", "read")
        }
        yield service


@pytest.fixture
def study(service, request, monkeypatch):
    monkeypatch.setenv("FAIRTRIAL_STORAGE", service.url)
    monkeypatch.setenv("FAIRTRIAL_TOKEN", service.tokens["admin"])
    policy = ft.subpopulations.BlockBetting(PROBLEM)
    return Study.create(PROBLEM, policy, storage=service.store, name=request.node.name, seed=1)


def test_a_study_is_carried_out_looked_at_and_taken_elsewhere(study, invoke, tmp_path):
    def run(*arguments, code=0):
        result = invoke("study", *arguments)
        assert result.exit_code == code, result.output
        return result.stdout

    name = study.name
    table = tmp_path / "monday.csv"
    run("ask", name, "-n", "6", "--csv", table, "--lease", "2d")
    head, *rows = table.read_text().splitlines()
    table.write_text("\n".join([head, *(f"{row}0.5" for row in rows[:4]), *rows[4:]]))
    assert "4 results taken; 2 pulls still open" in run("tell", name, table)
    fifth, sixth = study.outstanding()
    run("tell", name, fifth.id, "0.25")
    run("fail", name, sixth.id, "--reason", "spoilt")
    run("amend", name, fifth.id, "0.75", "--reason", "typing error")
    assert "no pull is open" in run("outstanding", name)
    shown = run("show", name, code=3)
    assert "verified" in shown
    assert study.head_hash in shown
    assert "is running" in run("show", name, "--blinded")
    assert "typing error" in run("history", name)
    assert "verified" in run("verify", name, "--head", run("head", name).strip())
    run("export", name, tmp_path / "log.csv")
    run("report", name, "--out", tmp_path / "report.html")
    assert name in run("list")
    run("stop", name, "--reason", "recalled")
    assert study.stopped
    assert study.verify().ok


def test_a_plate_is_told_and_corrected_by_table_through_a_service(study, invoke, tmp_path):
    name, table = study.name, tmp_path / "plate.csv"
    assert invoke("study", "ask", name, "-n", "4", "--csv", table).exit_code == 0
    head, *rows = table.read_text().splitlines()

    def fill(*values):
        filled = [f"{row}{value}" for row, value in zip(rows, values, strict=True)]
        table.write_text("\n".join([head, *filled]))

    fill("0.5", "failed", "0.25", "")
    assert "3 results taken; 1 pull still open" in invoke("study", "tell", name, table).stdout
    fill("0.75", "failed", "0.25", "1")
    amend = ["study", "amend", name, table, "--reason", "misread"]
    before = study.head_hash
    with warns(UserWarning) as caught:
        shown = invoke(*amend, "--preview", "--json")
    (found,) = json.loads(shown.stdout)["corrections"]
    assert (found["before"], found["after"]) == (0.5, 0.75)
    assert "1 first result left to be told" in str(caught[0].message)
    assert study.head_hash == before
    fill("0.75", "0.5", "7", "1")
    refused = invoke(*amend)
    assert refused.exit_code == 2
    assert "line 4: reward must be in [0, 1]" in refused.stderr
    assert study.head_hash == before
    fill("0.75", "failed", "0.25", "")
    assert "1 result corrected" in invoke(*amend).stdout
    assert [event.kind for event in study.events()][4:] == ["tell", "fail", "tell", "amend"]
    assert study.verify().ok


def test_those_who_recruit_are_not_told_the_answer(study, service, invoke, monkeypatch):
    monkeypatch.setenv("FAIRTRIAL_TOKEN", service.tokens["run"])
    invoke("study", "ask", study.name)
    (pull,) = study.outstanding()
    result = invoke("study", "tell", study.name, pull.id, "0.5", "--json")
    assert json.loads(result.stdout) == {
        "study": study.name,
        "told": 1,
        "told_before": 0,
        "open": 0,
        "stopped": False,
    }
    study.stop("recalled")
    unsolicited = invoke("study", "amend", study.name, pull.id, "0.6", "--reason", "oops")
    assert unsolicited.stdout.splitlines()[-1] == f"{study.name}: has stopped"
    refused = invoke("study", "show", study.name)
    assert refused.exit_code == 1
    assert "scope 'read'" in refused.stderr


def test_those_who_recruit_see_how_many_came(study, service, invoke, document, monkeypatch):
    for pull in study.ask(4, group="x"):
        study.tell(pull, 0.5)
    study.ask()
    monkeypatch.setenv("FAIRTRIAL_TOKEN", service.tokens["run"])
    shown = invoke("study", "show", study.name, "--blinded")
    assert shown.exit_code == 0
    counts = "5 pulls asked for, 4 results, 1 open pulls, 0 pulls given up, 4 results of x"
    assert counts in " ".join(shown.stdout.split())
    assert "Log         not done" in shown.stdout
    found, _ = document("study", "show", study.name, "--blinded")
    with ft.Study.open(service.store, study.name) as opened:
        monkeypatch.delenv("FAIRTRIAL_TOKEN")
        assert found["recruitment"]["results of x"] == 4
        assert found["health"] == opened.health(blinded=True)
    assert found["verification"] is None


def test_only_a_log_with_the_secret_is_imported_and_only_admins_get_one(
    study, service, invoke, tmp_path, monkeypatch
):
    study.ask(3)
    copy, name = f"sqlite:///{tmp_path / 'copy.db'}", study.name
    whole, part = tmp_path / "whole.jsonl", tmp_path / "part.jsonl"
    assert invoke("study", "export", name, whole, "--secret").exit_code == 0
    monkeypatch.setenv("FAIRTRIAL_TOKEN", service.tokens["read"])
    refused = invoke("study", "export", name, part, "--secret")
    assert (refused.exit_code, part.exists()) == (1, False)
    assert invoke("study", "export", name, part).exit_code == 0
    refused = invoke("study", "import", part, "--storage", copy)
    assert refused.exit_code == 2
    assert "without which its decisions cannot be checked" in refused.stderr
    imported = invoke("study", "import", whole, "--storage", copy)
    assert (imported.exit_code, study.head_hash in imported.stdout) == (0, True)


def test_who_asks_is_the_token(study, invoke):
    result = invoke("study", "ask", study.name, "--worker", "ana")
    assert result.exit_code == 2
    assert "worker must be left out" in result.stderr


def test_without_a_token_the_message_says_where_it_may_be(study, invoke, monkeypatch):
    monkeypatch.delenv("FAIRTRIAL_TOKEN")
    result = invoke("study", "show", study.name)
    assert result.exit_code == 2
    assert "FAIRTRIAL_TOKEN" in result.stderr


@pytest.mark.parametrize(
    "words", [("import", "log.jsonl"), ("accept-loss",)], ids=lambda words: words[0]
)
def test_what_needs_the_storage_itself_says_so(study, invoke, words):
    result = invoke("study", *words)
    assert result.exit_code != 0
    assert "Traceback" not in result.output


def test_open_pulls_of_a_service_have_their_participant_and_date(service, invoke, monkeypatch):
    monkeypatch.setenv("FAIRTRIAL_STORAGE", service.url)
    monkeypatch.setenv("FAIRTRIAL_TOKEN", service.tokens["run"])
    policy, name = ft.subpopulations.BlockBetting(PROBLEM), "ward"
    rules = {"storage": service.store, "name": name, "participants": "W#-###"}
    with Study.create(PROBLEM, policy, **rules, seed=1) as study:
        study.ask(participant="W2-001")  # of nobody on this ward
        for number in ("W1-001", "W1-002"):
            invoke("study", "ask", name, "--participant", number)
        shown = invoke("study", "outstanding", name).stdout
        assert "W1-001" in shown
        assert "W1-002" in shown
        assert "W2-001" not in shown
        with ft.connect(service.url, token=service.tokens["read"]) as connection:
            remote = connection.study(name)
            here, there = study.outstanding(), remote.outstanding()
            assert remote.asked_for(there) == study.asked_for(here)
            study.tell(here[0], 0.123456789)
            assert remote.asked_for(there) == study.asked_for(here)
    monkeypatch.setenv("FAIRTRIAL_TOKEN", service.tokens["read"])
    assert "0.123456789" in invoke("study", "history", name).stdout


def test_open_pulls_of_a_service_are_read_once(study, invoke, monkeypatch):
    pulls = study.ask(3)
    read, get = [], Transport.get

    def noted(self, path, **options):
        read.append(path)
        return get(self, path, **options)

    monkeypatch.setattr(Transport, "get", noted)
    shown = invoke("study", "outstanding", study.name).stdout
    assert all(pull.id in shown for pull in pulls)
    assert [path for path in read if path.endswith("/pulls")] == [f"/v1/studies/{study.name}/pulls"]
