"""The secret of a randomised study: drawn, fixed by its hash, kept hidden, audited."""

import json
from pathlib import Path

import pytest

from fairtrial.errors import CorruptLog, InvalidArgument, StudyExists
from fairtrial.report import write_report
from fairtrial.study import Study
from fairtrial.study.log import commitment
from fairtrial.subpopulations import BalancedTracking, BlockBetting, Problem
from tests.messages import raises
from tests.study.tools import connect

PROBLEM = Problem(["a", "b"], {"x": 0.5, "y": 0.5}, reward_range=(0, 1))


def created(path, name="trial", **options):
    options = {"seed": 7, "policy": BlockBetting(PROBLEM)} | options
    policy = options.pop("policy")
    return Study.create(PROBLEM, policy, storage=path, name=name, **options)


def order(study, number=30):
    return [(pull.action, pull.propensity) for pull in study.ask(number)]


def one_by_one(study, number):
    """Return actions and propensities of pulls that are asked and told one after the other."""
    found = []
    for _ in range(number):
        pull = study.ask()
        study.tell(pull, 0.6 if pull.arm == "a" else 0.5)
        found.append((pull.action, pull.propensity))
    return found


def test_two_studies_of_one_seed_draw_different_orders(path):
    with created(path, "one") as one, created(path, "two") as two:
        assert one.secret != two.secret
        assert len(one.secret) == 32
        assert order(one) != order(two)


def test_the_first_event_fixes_the_secret_by_its_hash(path):
    with created(path) as study:
        study.ask(3)
        first, *others = study.events()
        assert first.body["secret_sha256"] == commitment(study.secret)
        assert not [event for event in others if "secret_sha256" in event.body]
        assert study.verify().ok


def test_every_ask_says_the_probability_of_its_arm(path, tmp_path):
    with created(path) as study:
        pulls = study.ask(5)
        asks = [event for event in study.events() if event.kind == "ask"]
        assert [event.body["propensity"] for event in asks] == [p.propensity for p in pulls]
        assert [pull.propensity for pull in study.outstanding()] == [p.propensity for p in pulls]
        history = study.history()
        assert history.propensity.tolist() == [pull.propensity for pull in pulls]
        table = study.export(tmp_path / "log.csv").read_text().splitlines()
        column = table[0].split(",").index("propensity")
        assert [float(line.split(",")[column]) for line in table[1:]] == history.propensity.tolist()


def test_a_request_that_is_made_again_gets_the_same_propensities(path):
    with created(path) as study:
        first = study.ask(3, request_id="r")
        again = study.ask(3, request_id="r")
    assert [pull.propensity for pull in again] == [pull.propensity for pull in first]


@pytest.mark.parametrize("snapshots", [False, True])
def test_a_study_opened_again_for_every_pull_draws_the_same_order(path, snapshots):
    with created(path, "whole", secret="s") as study:
        expected = one_by_one(study, 40)
    created(path, "parts", secret="s").close()
    found = []
    for _ in range(40):
        with Study.open(path, "parts") as study:
            found += one_by_one(study, 1)
            if snapshots:
                study.snapshot()
    assert found == expected


def test_a_study_is_made_with_one_secret_only(path):
    created(path, secret="s").close()
    with created(path, secret="s", exist_ok=True) as same, created(path, exist_ok=True) as other:
        assert (same.secret, other.secret) == ("s", "s")
    with raises(StudyExists):
        created(path, secret="t", exist_ok=True)


def test_an_imported_log_brings_its_secret_and_goes_on_as_the_first(path, tmp_path):
    with created(path) as study:
        one_by_one(study, 10)
        log = study.export(tmp_path / "log.jsonl")
        with Study.import_log(log, storage=tmp_path / "copy.db") as copy:
            assert copy.secret == study.secret
            assert copy.verify().ok
            assert one_by_one(copy, 10) == one_by_one(study, 10)


@pytest.mark.parametrize(
    ("change", "error"),
    [("another", CorruptLog), ("missing", InvalidArgument), ("no text", CorruptLog)],
)
def test_a_log_with_a_changed_secret_is_refused(path, tmp_path, change, error):
    with created(path) as study:
        one_by_one(study, 10)
        log = study.export(tmp_path / "log.jsonl")
    header, rest = log.read_text().split("\n", 1)
    data = json.loads(header)
    if change == "missing":
        del data["secret"]
    else:
        data["secret"] = "other" if change == "another" else 5
    log.write_text(json.dumps(data) + "\n" + rest)
    with raises(error, **{"name": "path"} if error is InvalidArgument else {}):
        Study.import_log(log, storage=tmp_path / "copy.db")


def test_a_secret_cannot_be_changed_in_the_file_and_verify_would_tell(path):
    with created(path) as study:
        one_by_one(study, 10)
    connection = connect(path)
    with pytest.raises(Exception, match="immutable"):
        connection.execute("UPDATE study SET secret = 'known'")
    connection.execute("DROP TRIGGER study_is_never_changed")
    connection.execute("UPDATE study SET secret = 'known'")
    connection.commit()
    with Study.open(path, "trial") as study:
        found = study.verify()
    assert not found.ok
    assert "secret" in found.first_difference or "decides" in found.first_difference


def test_an_altered_propensity_is_found(path, tmp_path):
    """Even a person who can rewrite the whole chain of hashes is found by the replay."""
    from fairtrial.study.log import Record, seal

    with created(path) as study:
        study.ask(2)
        records = list(study._store.records(study._session.id))
    altered = records[1]._replace(body='{"propensity":0.125}')
    altered = Record(*altered[:-1], seal(records[0].hash, altered))
    connection = connect(path)
    connection.execute("DROP TRIGGER event_is_never_changed")
    update = "UPDATE event SET body = ?, hash = ? WHERE seq = 2"
    connection.execute(update, (altered.body, altered.hash))
    connection.execute("UPDATE study SET head_hash = ?", (altered.hash,))
    connection.execute("UPDATE pull SET propensity = 0.125 WHERE asked_seq = 2")
    connection.commit()
    for beside in Path(path).parent.glob("*-head"):
        beside.unlink()
    with raises(CorruptLog):
        Study.open(path, "trial").recommend()


def test_nothing_that_is_shown_holds_the_secret_or_what_is_left_of_a_block(path, tmp_path):
    with created(path) as study:
        one_by_one(study, 30)
        page = write_report(study, tmp_path / "report.html").read_text()
        shown = page + json.dumps(study.progress().to_dict()) + json.dumps(study.health())
        assert study.secret not in shown
        assert "to_issue" not in shown


def test_the_secret_of_a_policy_without_coins_is_not_fixed_by_the_log(path):
    policy = BalancedTracking(Problem(["a", "b"], 1, noise_std=1))
    with Study.create(policy.problem, policy, storage=path, name="plain") as study:
        assert len(study.secret) == 32
        study.ask()
        assert "secret_sha256" not in next(study.events()).body
    with raises(InvalidArgument, "secret"):
        Study.create(policy.problem, policy, storage=path, name="other", secret="s")


@pytest.mark.parametrize("bad", ["", 5, "x" * 201, "\ud800", b"s"])
def test_a_bad_secret_is_refused_without_being_shown(path, bad):
    with raises(InvalidArgument, "secret") as caught:
        created(path, secret=bad)
    assert "xxx" not in str(caught.value)
