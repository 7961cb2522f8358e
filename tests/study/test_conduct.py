"""What every request for pulls must state, as chosen when the study was created."""

import json

import pytest

from fairtrial import linear
from fairtrial.errors import CorruptLog, InvalidArgument, StudyExists
from fairtrial.study import Study
from fairtrial.study.memory import MemoryStore
from fairtrial.subpopulations import BlockBetting, Problem
from tests.messages import raises

PROBLEM = Problem(["a", "b"], ["young", "old"], reward_range=(0, 1))
POLICY = BlockBetting(PROBLEM, delta=0.05)


def made(store, **rules):
    return Study.create(PROBLEM, POLICY, storage=store, name="trial", seed=7, **rules)


@pytest.fixture
def strict(store):
    """A study that must be told the group of everybody who arrives."""
    return made(store, require_group=True)


def requests(study):
    """Return every way to ask a study for a pull without naming a group."""
    open_pull = study.ask(group="old")
    return [
        study.ask,
        lambda: study.ask(3),
        lambda: study.ask(group=None),
        lambda: study.tell_and_ask(open_pull, 0.5),
    ]


def test_a_request_without_a_group_is_refused_and_changes_nothing(strict):
    for request in requests(strict):
        before = strict.head_hash
        with raises(InvalidArgument) as caught:
            request()
        assert caught.value.name == "group"
        assert "young" in caught.value.accepted
        assert strict.head_hash == before


def test_a_request_with_a_group_is_answered_for_that_group(strict):
    assert {pull.group for pull in strict.ask(5, group="old")} == {"old"}


def test_by_default_the_study_chooses_the_group(store):
    assert made(store).ask(4)


def test_the_rule_belongs_to_the_specification(strict, store):
    again = Study.open(store, "trial")
    with raises(InvalidArgument):
        again.ask()
    with raises(StudyExists):
        made(store, exist_ok=True)
    assert made(store, exist_ok=True, require_group=True).name == "trial"


def test_the_rule_goes_with_an_exported_log(strict, tmp_path):
    strict.ask(group="old")
    path = strict.export(tmp_path / "log.jsonl")
    moved = Study.import_log(path, storage=MemoryStore())
    assert moved.head_hash == strict.head_hash
    with raises(InvalidArgument):
        moved.ask()


@pytest.mark.parametrize("conduct", [{"require_grup": True}, {"require_group": "yes"}, [1]])
def test_a_log_with_an_unknown_rule_is_not_imported(strict, tmp_path, conduct):
    path = strict.export(tmp_path / "log.jsonl")
    header, *rest = path.read_text().splitlines()
    changed = json.loads(header)
    changed["specification"]["conduct"] = conduct
    path.write_text("\n".join([json.dumps(changed), *rest]) + "\n")
    with raises((InvalidArgument, CorruptLog)):
        Study.import_log(path, storage=MemoryStore())


def test_a_specification_without_rules_has_the_hash_that_it_had_before_there_were_rules(store):
    assert "conduct" not in made(store).session.row().spec_json


def test_a_group_cannot_be_required_where_there_are_none():
    problem = linear.Problem([[1.0, 0.0], [0.0, 1.0]], noise_std=1.0)
    with raises(InvalidArgument) as caught:
        Study.create(
            *(problem, linear.BlockBetting(problem)),
            storage="memory://",
            name="x",
            require_group=True,
        )
    assert caught.value.name == "require_group"
