"""One policy has one specification, however its default learner is given."""

import json

import pytest

from fairtrial.allocation import (
    UCB1,
    FairLearn,
    Problem,
    Thompson,
    ThompsonWithFairness,
    UnconstrainedLearner,
)
from fairtrial.study import Study
from fairtrial.study.memory import MemoryStore
from fairtrial.study.specification import Specification

PROBLEM = Problem(["a", "b"], "1/4")


@pytest.mark.parametrize("policy", [FairLearn, UnconstrainedLearner])
def test_the_default_learner_is_the_same_given_or_not(policy):
    assert policy(PROBLEM).to_dict() == policy(PROBLEM, Thompson()).to_dict()
    assert policy(PROBLEM).to_dict() != policy(PROBLEM, UCB1()).to_dict()


def test_a_study_goes_on_with_the_learner_given_or_not():
    store = MemoryStore()
    for learner in (None, Thompson()):
        study = Study.create(
            PROBLEM, FairLearn(PROBLEM, learner), storage=store, name="s", seed=1, exist_ok=True
        )
        study.tell(study.ask(), 1.0)
    assert study.verify().ok
    assert study.policy.told == 2


def test_a_study_whose_specification_names_the_default_opens_and_goes_on(tmp_path):
    # As versions before this one wrote it.
    made = Specification.of(PROBLEM, FairLearn(PROBLEM), 1)
    older = Specification(made.problem, {**made.policy, "learner": {"name": "Thompson"}}, made.seed)
    assert older.sha256 != made.sha256
    storage = f"sqlite:///{tmp_path}/old.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Specification, "of", classmethod(lambda *_: older))
        Study.create(PROBLEM, FairLearn(PROBLEM), storage=storage, name="s", seed=1).close()
    for learner in (None, Thompson()):
        with Study.create(
            PROBLEM, FairLearn(PROBLEM, learner), storage=storage, name="s", seed=1, exist_ok=True
        ) as study:
            study.tell(study.ask(), 1.0)
            assert study.verify().ok
    with Study.open(storage, "s") as study:
        stored = json.loads(study.session.row().spec_json)
        assert stored["policy"]["learner"] == {"name": "Thompson"}


def test_a_rule_without_a_learner_to_choose_is_specified_without_one():
    rule = ThompsonWithFairness(Problem(3, 0.2), eta=3.0)
    assert rule.to_dict() == {"name": "ThompsonWithFairness", "eta": 3.0}
