"""Units: each has one pull, which is found again by a keyed hash of the unit."""

import json
import sqlite3
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

import fairtrial as ft
from fairtrial.errors import (
    ConflictingOutcome,
    ExperimentFinished,
    InvalidArgument,
    NotSupported,
    UnknownPull,
)
from fairtrial.study import Study
from fairtrial.subpopulations import BlockBetting, Problem
from tests.messages import raises
from tests.study.toys import Elimination, Serving, ToyProblem

PROBLEM = Problem(["a", "b"], ["young", "old"], reward_range=(0, 1))
POLICY = BlockBetting(PROBLEM, delta=0.05)
VISITOR = "anna.smith@example.org"


@pytest.fixture
def study(store):
    return Study.create(PROBLEM, POLICY, storage=store, name="trial", seed=7)


def test_a_unit_has_one_pull_whatever_else_is_stated(study):
    pull = study.ask(unit=VISITOR, group="old")
    again = study.ask(unit=VISITOR, group="young", worker="web 2", request_id="r", lease=60)
    assert (again.id, again.arm, again.group) == (pull.id, pull.arm, "old")
    assert study.ask(1, unit=VISITOR) == [pull]
    assert study.pull_of(unit=VISITOR).id == pull.id
    assert study.ask(unit="somebody else").id != pull.id
    assert [event.kind for event in study.events()] == ["ask", "ask"]
    assert study.verify().ok


def test_a_unit_is_recognised_by_another_handle(store, study):
    pull = study.ask(unit=VISITOR)
    study.close()
    with Study.open(store, "trial") as again:
        assert again.ask(unit=VISITOR).id == pull.id


def test_asking_for_no_new_pull_returns_only_one_that_is_there(study):
    assert study.ask(0, unit=VISITOR) == []
    with raises(UnknownPull):
        study.pull_of(unit=VISITOR)
    assert study.n_events == 0
    pull = study.ask(unit=VISITOR)
    assert study.ask(0, unit=VISITOR) == [pull]


def test_a_unit_that_is_told_twice_counts_once(study):
    pull = study.ask(unit=VISITOR)
    first = study.tell(pull, 1.0)
    assert study.tell(study.pull_of(unit=VISITOR), 1.0) == first
    with raises(ConflictingOutcome):
        study.tell(study.pull_of(unit=VISITOR), 0.0)
    assert study.health()["duplicates"] == 1
    assert study.progress().told == 1
    assert study.ask(unit=VISITOR).id == pull.id
    study.amend(pull, 0.0, reason="the order was cancelled")
    assert study.verify().ok


@pytest.mark.parametrize("end", ["tell", "fail", "cancel", "expire", "stop"])
def test_a_unit_keeps_its_pull_after_the_end(study, clock, end):
    pull = study.ask(unit=VISITOR, lease=60)
    if end == "tell":
        study.tell(pull, 1.0)
    elif end in ("fail", "cancel"):
        getattr(study, end)(pull, reason="gone")
    elif end == "expire":
        clock.advance(61)
        study.pass_time()
    else:
        study.stop(reason="enough")
        with raises(ExperimentFinished):
            study.ask(unit="new")
    assert study.ask(unit=VISITOR).id == pull.id


def test_a_policy_that_draws_nothing_at_random_has_units_too(store):
    problem = ft.allocation.Problem(arms=["a", "b"], shares=[0.5, 0.25])
    policy = ft.allocation.FairLearn(problem, learner=ft.allocation.UCB1())
    assert not policy.randomizes
    study = Study.create(problem, policy, storage=store, name="traffic", seed=1)
    pulls = {unit: study.ask(unit=unit).arm for unit in map(str, range(20))}
    assert set(pulls.values()) == {"a", "b"}
    assert {unit: study.ask(unit=unit).arm for unit in pulls} == pulls
    assert len(list(study.events())) == 20
    assert study.verify().ok


def test_no_pull_of_a_unit_is_handed_out_again_to_others(make_study, clock):
    study = make_study(Serving)
    assert study.policy.expiry == "reissue"
    with raises(InvalidArgument) as caught:
        study.ask(unit=VISITOR, lease=60)
    assert caught.value.name == "lease"
    abandoned = study.ask(lease=60)
    clock.advance(61)
    own = study.ask(unit=VISITOR)
    assert own.id != abandoned.id
    assert study.ask().id == abandoned.id
    assert study.ask(unit=VISITOR).id == own.id


@pytest.mark.parametrize("bad", ["", "x" * 1_001, 7, b"x", "\ud800"])
def test_a_bad_unit_is_refused_and_not_repeated(study, bad):
    for attempt in (lambda: study.ask(unit=bad), lambda: study.pull_of(unit=bad)):
        with raises(InvalidArgument) as caught:
            attempt()
        assert (caught.value.name, caught.value.given) == ("unit", None)
    assert study.n_events == 0


@pytest.mark.parametrize("unit", ["x" * 1_000, "\0", "é ü 東京", " "])
def test_any_other_text_is_a_unit_of_its_own(study, unit):
    assert study.ask(unit=unit).id == study.ask(unit=unit).id != study.ask(unit=unit[:-1] + "y").id


def test_a_unit_gets_no_list_of_pulls(study):
    with raises(InvalidArgument) as caught:
        study.ask(2, unit=VISITOR)
    assert caught.value.name == "n"


def test_a_pull_is_found_by_one_of_participant_and_unit(study):
    for attempt in (study.pull_of, lambda: study.pull_of("W1", unit=VISITOR)):
        with raises(InvalidArgument) as caught:
            attempt()
        assert caught.value.name == "participant, unit"


def test_a_study_of_participants_has_no_units(store):
    study = Study.create(
        PROBLEM, POLICY, storage=store, name="clinic", seed=7, participants="W#-###"
    )
    with raises(InvalidArgument) as caught:
        study.ask(unit=VISITOR, participant="W1-001")
    assert caught.value.name == "unit"


def test_the_group_is_required_for_a_new_pull_only(store):
    study = Study.create(PROBLEM, POLICY, storage=store, name="t", seed=7, require_group=True)
    with raises(InvalidArgument) as caught:
        study.ask(unit=VISITOR)
    assert caught.value.name == "group"
    pull = study.ask(unit=VISITOR, group="old")
    assert study.pull_of(unit=VISITOR).id == pull.id


def test_the_storage_does_not_hold_the_unit_nor_the_same_hash_in_two_studies(tmp_path):
    path = tmp_path / "trial.db"
    keys = set()
    for name in ("one", "two"):
        with Study.create(PROBLEM, POLICY, storage=path, name=name, seed=7) as study:
            study.ask(unit=VISITOR, worker="web")
            keys |= {event.request_id for event in study.events()}
            lines = study.export(tmp_path / "log.jsonl").read_text()
            assert VISITOR not in lines
    assert len(keys) == 2
    with sqlite3.connect(path) as database:
        assert VISITOR not in "\n".join(database.iterdump())


def test_a_copy_recognises_units_if_it_has_the_secret(tmp_path, study):
    pull = study.ask(unit=VISITOR)
    path = study.export(tmp_path / "log.jsonl")
    with Study.import_log(path, storage="memory://", name="copy") as copy:
        assert copy.ask(unit=VISITOR).id == pull.id


def test_a_copy_without_the_secret_says_that_it_knows_no_units(tmp_path, make_study):
    study = make_study(Elimination)
    study.ask(unit=VISITOR)
    head, *lines = study.export(tmp_path / "log.jsonl").read_text().splitlines()
    header = json.loads(head)
    del header["secret"]
    (tmp_path / "log.jsonl").write_text("\n".join([json.dumps(header), *lines]) + "\n")
    own = {"policies": [Elimination], "problems": [ToyProblem]}
    with Study.import_log(tmp_path / "log.jsonl", storage="memory://", name="c", **own) as copy:
        assert copy.verify().ok
        with raises(NotSupported):
            copy.ask(unit=VISITOR)
        assert copy.ask().id


def ask_for_all(url, order):
    with Study.open(url, "trial") as study:
        return {unit: study.ask(unit=f"visitor {unit}").id for unit in order}


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_two_processes_give_a_unit_the_same_pull(kind, tmp_path, request):
    url = (
        f"sqlite:///{tmp_path / 'trial.db'}"
        if kind == "sqlite"
        else request.getfixturevalue("postgresql_url")
    )
    with Study.create(PROBLEM, POLICY, storage=url, name="trial", seed=7) as study:
        units = list(range(40))
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            both = [pool.submit(ask_for_all, url, units) for _ in range(2)]
            one, two = (future.result(120) for future in both)
        assert one == two
        assert len(set(one.values())) == study.n_events == len(units)
        assert study.verify().ok
