"""Writes as values: each is checked, and its JSON makes the same write on the other side."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fairtrial.delayed import Problem as DelayedProblem
from fairtrial.errors import InvalidArgument, NotSupported, UnknownPull
from fairtrial.study import writes
from fairtrial.study.conduct import Conduct
from fairtrial.study.result_tables import Mistake, ResultRow, ResultTable, Spot
from fairtrial.study.writes import Checks, Sent
from fairtrial.subpopulations import Problem
from tests.messages import raises

PROBLEM = Problem(["a", "b"], ["x", "y"], reward_range=(0, 1))
LOCAL = Checks("trial", PROBLEM, "memory://", conduct=Conduct(kits="K####"))
ID = "0" * 32

MEASURED = Problem(["a", "b"], 1, measures={"cured": (0, 1), "harmed": (0, 1)}, objective="cured")
RACE = DelayedProblem(["a", "b"], noise_std=0.1, feedback="unbiased", reading_std=0.5)

ROW = ResultRow(Spot(0, "line 2"), ID, {"arm": "a"}, 0.5, "W1-001")
TABLE = ResultTable("plate.csv", (ROW,))

WRITES = [
    writes.Ask(3, "ward", 60.0, "key", {"group": "x"}),
    writes.Ask(1, "ward", tell=writes.Tell(ID, 0.5, "ward")),
    writes.Ask(1, "ward", None, "key", {}, writes.Tell(ID, 0.5, "ward")),
    writes.Tell(ID, 0.5, "ward", "key"),
    writes.Extend(ID, 5.0),
    writes.Kit(ID, "K0001", "ward"),
    writes.Supply(5, "pharmacy", "key"),
    writes.Unmask(ID, "overdose", "ward"),
    writes.UnmaskAll("the end", "board"),
    writes.TellKnown(ID, 0.5, "ward"),
    writes.Amend(ID, 0.5, "typing error", "ward"),
    writes.Report(ID, 0.5, {"stage": 2, "std": 0.5}, "ward", "key"),
    writes.Report(ID, 0.5),
    writes.Fail(ID, "lost", "ward"),
    writes.Cancel(ID, "no longer needed", "ward"),
    writes.Stop("the drug was recalled", "ward"),
    writes.Close("a", None, "two deaths", "ward"),
    writes.TellMany([writes.Tell(ID, 0.5, "ward"), writes.Tell(ID, 1.0, "ward")], "key"),
    writes.TellManyKnown([writes.TellKnown(ID, 0.5, "ward")]),
    writes.TellTable(replace(TABLE, mistakes=(Mistake(Spot(1, "line 3"), "wrong"),)), "ward"),
    writes.AmendTable(replace(TABLE, rows=(replace(ROW, result=None),)), "slip", "ward", True),
]


def sent_again(write, study):
    """Return a write as it arrives at a service, after a check at each end."""
    checked = write.check(study)
    assert checked.check(study) == checked, "checking again changes nothing"
    actor = getattr(write, "actor", getattr(write, "worker", "ward"))
    body = json.loads(json.dumps(checked.to_json()))
    sent = Sent(body, actor, write.key, ID if "{pull}" in write.path else "")
    return type(write).from_json(sent).check(study), checked


@pytest.mark.parametrize("write", WRITES, ids=lambda write: type(write).__name__)
def test_json_makes_the_same_write(write):
    there, here = sent_again(write, replace(LOCAL, problem=RACE))
    assert there == here


@pytest.mark.parametrize(
    "write",
    [
        writes.Tell(ID, {"cured": 1, "harmed": None}),
        writes.TellKnown(ID, {"harmed": None}),
        writes.TellManyKnown([writes.TellKnown(ID, {"cured": 0}, "ward")]),
        writes.Report(ID, {"cured": True}),
        writes.Amend(ID, {"cured": 0}, "typing error"),
    ],
    ids=lambda write: type(write).__name__,
)
def test_json_makes_the_same_write_of_measures(write):
    there, here = sent_again(write, replace(LOCAL, problem=MEASURED))
    assert there == here


def test_every_kind_of_write_is_tested_or_has_no_json():
    kinds = {getattr(writes, name) for name in writes.__all__}
    of_writes = {kind for kind in kinds if issubclass(kind, writes.Write)} - {writes.Write}
    assert of_writes - set(map(type, WRITES)) == {
        writes.FailMany,
        writes.Mask,
    }


def test_invalid_values_of_a_table_are_mistakes_of_their_rows():
    rows = (ROW, replace(ROW, spot=Spot(4, "line 6"), result=2.0))
    checked = writes.TellTable(replace(TABLE, rows=rows)).check(LOCAL).table
    assert checked.rows == (ROW,)
    (mistake,) = checked.mistakes
    assert mistake.spot.line == "line 6"
    assert mistake.text.startswith("reward must")


def test_labels_stand_for_unsolicited_data():
    labels = {"arm": "a", "group": "y"}
    by_labels = writes.Tell(labels, 1).check(LOCAL)
    by_pull = writes.Tell(PROBLEM.pull(**labels), 1.0).check(LOCAL)
    assert by_labels.pull.action == by_pull.pull.action == PROBLEM.pull(**labels).action
    assert by_labels.to_item() == {**labels, "value": 1.0}
    assert writes.Tell.from_item(by_labels.to_item(), None).check(LOCAL).value == 1.0


def test_each_unsolicited_result_of_several_has_its_own_key():
    tells = [writes.Tell({"arm": "a", "group": "x"}, 1.0), writes.Tell(ID, 1.0)]
    checked = writes.TellMany(tells, "key").check(LOCAL)
    assert [tell.request_id for tell in checked.writes] == ["key:0", None]


def test_the_unsolicited_result_of_a_request_has_a_key_of_its_own():
    ask = writes.Ask(1, request_id="key", tell=writes.Tell({"arm": "a", "group": "x"}, 1.0))
    checked = ask.check(LOCAL)
    assert (checked.request_id, checked.tell.request_id) == ("key", "key:tell")
    assert replace(ask, request_id=None).check(LOCAL).tell.request_id is None
    assert replace(ask, tell=writes.Tell(ID, 1.0)).check(LOCAL).tell.request_id is None


@pytest.mark.parametrize(
    ("write", "name"),
    [
        (writes.Ask(-1), "n"),
        (writes.Ask(10_001), "n"),
        (writes.Ask(1.5), "n"),
        (writes.Ask(1, worker=""), "worker"),
        (writes.Ask(1, lease=0.0), "lease"),
        (writes.Ask(1, request_id=""), "request_id"),
        (writes.Ask(1, context=3), "context"),
        (writes.Ask(1, context={"self": 1}), "context"),
        (writes.Ask(1, context={"n": 1}), "context"),
        (writes.Ask(1, context={"a b": 1}), "context"),
        (writes.Ask(1, context={1: 1}), "context"),
        (writes.Ask(1, context={"other": float("nan")}), "context"),
        (writes.Ask(1, tell=writes.Tell({1: "a"}, 0.5)), "outcomes"),
        (writes.Tell({"self": "a"}, 0.5), "outcomes"),
        (writes.Tell({1: "a"}, 0.5), "outcomes"),
        (writes.Tell({"arm": "a"}, 0.5), "labels"),
        (writes.Tell(ID, 2.0), "reward"),
        (writes.Tell(ID, 0.5, "x" * 201), "actor"),
        (writes.Tell(ID, 0.5, request_id=3), "request_id"),
        (writes.TellKnown(ID, 2.0), "reward"),
        (writes.Report(ID, "x"), "reading"),
        (writes.Report(ID, 0.5, 3), "details"),
        (writes.Report(ID, 0.5, {"pull": 1}), "details"),
        (writes.Report(ID, 0.5, {"value": 1}), "details"),
        (writes.Report(ID, 0.5, {1: 1}), "details"),
        (writes.Report(ID, 0.5, {"stage": object()}), "details"),
        (writes.Extend(ID, -1.0), "lease"),
        (writes.Fail(ID, " "), "reason"),
        (writes.Cancel(ID, 3), "reason"),
        (writes.Stop(""), "reason"),
        (writes.Close("a", "x", "harm"), "arm, group"),
        (writes.Close(None, None, "harm"), "arm, group"),
        (writes.Close("z", None, "harm"), "arm"),
        (writes.Close(None, "z", "harm"), "group"),
        (writes.Close("a", None, ""), "reason"),
        (writes.Amend(ID, 0.5, "x" * 10_001), "reason"),
        (writes.AmendTable(TABLE, ""), "reason"),
        (writes.TellTable(TABLE, ""), "actor"),
        (writes.TellTable(replace(TABLE, rows=TABLE.rows * 10_001)), "path"),
        (writes.TellTable(replace(TABLE, name="x" * 10_001)), "reason"),
        (writes.TellMany([writes.Tell(ID, 0.5)] * 10_001), "outcomes"),
        (writes.TellMany([writes.Ask(1)]), "writes"),
        (writes.TellMany([writes.TellKnown(ID, 0.5)]), "writes"),
        (writes.TellManyKnown([writes.TellKnown(ID, float("nan"))]), "reward"),
        (writes.FailMany([writes.Cancel(ID, "lost")]), "writes"),
        (writes.FailMany([writes.Fail(ID, "")]), "reason"),
    ],
)
def test_what_is_refused(write, name):
    with raises(InvalidArgument) as caught:
        write.check(LOCAL)
    assert caught.value.name == name


@pytest.mark.parametrize("pull", [7, None, PROBLEM.pull(arm="a", group="x"), "\ud800"])
def test_what_is_no_pull_is_refused_by_every_write_about_one(pull):
    for write in WRITES:
        if "{pull}" in write.path and not isinstance(write, writes.Tell):
            with raises(UnknownPull):
                replace(write, pull=pull).check(LOCAL)


def test_a_service_is_told_of_pulls_only_by_their_ids():
    remote = replace(LOCAL, is_remote=True)
    for pull in (7, "a/b", "", "x" * 65, PROBLEM.pull(arm="a", group="x")):
        with raises(UnknownPull):
            writes.Ask(1, tell=writes.Tell(pull, 0.5)).check(remote)


def test_a_service_records_the_name_of_the_token():
    remote = replace(LOCAL, is_remote=True, most=1)
    for write in (writes.Tell(ID, 0.5, "me"), writes.Ask(1, "me"), writes.Stop("over", "me")):
        with raises(InvalidArgument) as caught:
            write.check(remote)
        assert caught.value.name in ("actor", "worker")
    with raises(InvalidArgument) as caught:
        writes.Ask(2).check(remote)
    assert caught.value.name == "n"


def test_what_no_service_takes():
    with raises(NotSupported):
        writes.FailMany([]).to_json()


def test_several_writes_are_one(a_study):
    pulls = a_study.ask(2)
    before = a_study.n_events
    with raises(UnknownPull):
        a_study.write(writes.FailMany([writes.Fail(pulls[0], "lost"), writes.Fail(ID, "lost")]))
    assert a_study.n_events == before
    done = a_study.write(writes.FailMany([writes.Fail(pull, "lost") for pull in pulls]))
    assert [event.kind for event in done.events] == ["fail", "fail"]


def test_a_key_counts_once_within_one_write_too(a_study):
    unsolicited = PROBLEM.pull(arm="a", group="x")
    same = writes.TellMany([writes.Tell(unsolicited, 0.5, None, "key")] * 2)
    first, again = a_study.write(same).events
    assert first == again
    assert a_study.n_events == 1
    other = writes.Tell(PROBLEM.pull(arm="b", group="x"), 0.5, None, "key 2")
    with raises(InvalidArgument) as caught:
        a_study.write(writes.TellMany([replace(same.writes[0], request_id="key 2"), other]))
    assert caught.value.name == "request_id"
    pulls = a_study.ask(2)
    with raises(InvalidArgument) as caught:
        a_study.write(writes.TellMany([writes.Tell(pull, 0.5, None, "k") for pull in pulls]))
    assert caught.value.name == "request_id"
    assert a_study.n_events == 3


@pytest.fixture
def a_study():
    from fairtrial.study import Study
    from fairtrial.subpopulations import BlockBetting

    return Study.create(PROBLEM, BlockBetting(PROBLEM), storage="memory://", name="trial")
