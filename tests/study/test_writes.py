"""Writes as values: each is checked, and its JSON makes the same write on the other side."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fairtrial.errors import InvalidArgument, InvalidOutcome, NotSupported, UnknownPull
from fairtrial.study import writes
from fairtrial.study.writes import Checks, Sent
from fairtrial.subpopulations import Problem

PROBLEM = Problem(["a", "b"], ["x", "y"], reward_range=(0, 1))
LOCAL = Checks("trial", PROBLEM, "memory://")
ID = "0" * 32

WRITES = [
    writes.Ask(3, "ward", 60.0, "key", {"group": "x"}),
    writes.Ask(1, "ward", tell=writes.Tell(ID, 0.5, "ward")),
    writes.Tell(ID, 0.5, "ward", "key"),
    writes.Extend(ID, 5.0),
    writes.TellKnown(ID, 0.5, "ward"),
    writes.Amend(ID, 0.5, "typing error", "ward"),
    writes.Fail(ID, "lost", "ward"),
    writes.Cancel(ID, "no longer needed", "ward"),
    writes.Stop("the drug was recalled", "ward"),
    writes.TellMany([writes.Tell(ID, 0.5, "ward"), writes.Tell(ID, 1.0, "ward")], "key"),
    writes.TellManyKnown([writes.TellKnown(ID, 0.5, "ward")]),
]


@pytest.mark.parametrize("write", WRITES, ids=lambda write: type(write).__name__)
def test_json_makes_the_same_write(write):
    checked = write.check(LOCAL)
    assert checked.check(LOCAL) == checked, "checking again changes nothing"
    body = json.loads(json.dumps(checked.to_json()))
    sent = Sent(body, "ward", write.key, ID if "{pull}" in write.path else "")
    assert type(write).from_json(sent).check(LOCAL) == checked


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


@pytest.mark.parametrize(
    ("write", "error"),
    [
        (writes.Ask(-1), InvalidArgument),
        (writes.Ask(1, lease=0.0), InvalidArgument),
        (writes.Ask(1, request_id=""), InvalidArgument),
        (writes.Tell(ID, 2.0), InvalidOutcome),
        (writes.Tell(7, 0.5), UnknownPull),
        (writes.Extend(ID, -1.0), InvalidArgument),
        (writes.Fail(ID, " "), InvalidArgument),
        (writes.Stop(""), InvalidArgument),
        (writes.Amend(ID, 0.5, "x" * 10_001), InvalidArgument),
        (writes.TellMany([writes.Tell(ID, 0.5)] * 10_001), InvalidArgument),
        (writes.TellManyKnown([writes.TellKnown(ID, float("nan"))]), InvalidOutcome),
    ],
)
def test_what_is_refused(write, error):
    with pytest.raises(error):
        write.check(LOCAL)


def test_a_service_records_the_name_of_the_token():
    remote = replace(LOCAL, is_remote=True, most=1)
    for write in (writes.Tell(ID, 0.5, "me"), writes.Ask(1, "me"), writes.Stop("over", "me")):
        with pytest.raises(InvalidArgument) as caught:
            write.check(remote)
        assert caught.value.name in ("actor", "worker")
    with pytest.raises(InvalidArgument) as caught:
        writes.Ask(2).check(remote)
    assert caught.value.name == "n"


def test_what_no_service_takes():
    with pytest.raises(NotSupported):
        writes.Together([writes.Stop("over")]).to_json()


def test_several_writes_are_one(a_study):
    pulls = a_study.ask(2)
    before = a_study.n_events
    with pytest.raises(UnknownPull):
        a_study.write(writes.Together([writes.Fail(pulls[0], "lost"), writes.Fail(ID, "lost")]))
    assert a_study.n_events == before
    done = a_study.write(writes.Together([writes.Fail(pull, "lost") for pull in pulls]))
    assert [event.kind for event in done.events] == ["fail", "fail"]


@pytest.fixture
def a_study():
    from fairtrial.study import Study
    from fairtrial.subpopulations import BlockBetting

    return Study.create(PROBLEM, BlockBetting(PROBLEM), storage="memory://", name="trial")
