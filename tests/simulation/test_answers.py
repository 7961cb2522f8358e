"""Answers are compared with the truth in one form; classes outside the contract are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fairtrial.core import Environment, Policy, Problem, Recommendation, Truth, run, run_policy
from fairtrial.delayed import InformationRacing, PairedRacing, SimulatedEnvironment
from fairtrial.delayed import Problem as LateProblem
from fairtrial.errors import InvalidArgument
from fairtrial.simulation import results, simulate, summary
from fairtrial.study import Study
from fairtrial.testing import check_environment, check_policy
from tests.messages import raises
from tests.testing.families import POLICIES, Row


class Coins(Problem):
    family = "coins"
    action_labels = ({"arm": "left"}, {"arm": "right"})


class Flips(Environment):
    problem = Coins()
    truth = Truth("right", ("right",), np.array([0.4, 0.6]))

    def sample(self, pull, generator):
        return float(generator.random() < self.truth.means[pull.action])


class TenPulls(Policy):
    answer: Any = "right"

    def choose(self):
        return self.asked % 2

    def learn(self, pull, outcome):
        pass

    @property
    def stopped(self):
        return self.told == 10

    def recommend(self):
        arm = self.answer if self.stopped else None
        return Recommendation(arm, "decided" if self.stopped else "running")


ROWS = {(row.policy, row.instance): row for row in POLICIES}.values()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_policy_answers_in_the_form_of_its_environments_truth(row: Row) -> None:
    policy, environment = row.make()
    truth = results._truth(environment)
    if truth is None:
        return
    named = truth.best if isinstance(truth.best, tuple) else (truth.best,)
    known = {*policy.problem.answer_labels, None}
    assert known.issuperset(named)
    assert truth.accepts(truth.best)
    run_policy(policy, environment, np.random.default_rng(0), 12)
    found = policy.recommend().leader
    results._require_comparable(found, truth)
    assert known.issuperset(found if isinstance(found, tuple) else (found,))


@pytest.mark.parametrize("top", [1, 2])
@pytest.mark.parametrize("policy", [InformationRacing, PairedRacing])
def test_a_race_that_is_right_counts_as_right(policy: type[Policy], top: int) -> None:
    if policy is PairedRacing and top > 1:
        pytest.skip("a paired race has one winner")
    problem = LateProblem(["a", "b", "c"], top=top, feedback="full", noise_std=0.1)
    environment = SimulatedEnvironment(problem, [0.02, 0.98, 0.5 if top == 2 else 0.02])
    found = simulate(policy(problem, delta=0.1), environment, 4, engine="python", progress=False)
    assert found.decided.all()
    assert found.error_rate == 0.0


class AnswersWithTuple(TenPulls):
    answer = ("right",)


class AnswersNoArm(TenPulls):
    answer = "up"


class AnswersText(TenPulls):
    def recommend(self):
        return "right"


class StopsAlways(TenPulls):
    def stopped(self):
        return self.told == 10


class RandomizesAlways(TenPulls):
    def randomizes(self):
        return False


class PromisesByMethod(TenPulls):
    def guarantee(self):
        return None


class HasDeltaAsMethod(TenPulls):
    def delta(self):
        return 0.05


class RecommendsByProperty(TenPulls):
    @property
    def recommend(self):
        return lambda: Recommendation("right", "running")


NOT_OF_THE_CONTRACT = [
    StopsAlways, RandomizesAlways, PromisesByMethod, HasDeltaAsMethod, RecommendsByProperty,
]  # fmt: skip


@pytest.mark.parametrize("cls", NOT_OF_THE_CONTRACT)
def test_a_member_of_the_wrong_kind_is_refused_everywhere(cls: type[Policy]) -> None:
    policy, environment = cls(Coins()), Flips()
    calls = [
        lambda: check_policy(policy, environment),
        lambda: simulate(policy, environment, 2, horizon=20, progress=False),
        lambda: run_policy(policy, environment, np.random.default_rng(0), 20),
        lambda: Study.create(policy.problem, policy, storage="memory://", name="s"),
    ]
    for call in calls:
        with raises(InvalidArgument) as error:
            call()
        assert error.value.name == "policy"


def test_a_truth_that_is_a_method_is_refused() -> None:
    class Untrue(Flips):
        def truth(self):
            return Flips.truth

    for call in (check_environment, lambda one: simulate(TenPulls(Coins()), one, 2)):
        with raises(InvalidArgument) as error:
            call(Untrue())
        assert error.value.name == "environment"


@pytest.mark.parametrize("cls", [AnswersNoArm, AnswersText])
def test_an_answer_that_names_no_arm_is_refused_everywhere(cls: type[Policy]) -> None:
    policy, environment = cls(Coins()), Flips()
    calls = [
        lambda: check_policy(policy, environment),
        lambda: simulate(policy, environment, 2, progress=False),
        lambda: run_policy(cls(Coins()), environment, np.random.default_rng(0)),
    ]
    for call in calls:
        with raises(InvalidArgument) as error:
            call()
        assert error.value.name == f"{cls.__name__}.recommend"


def test_a_study_keeps_its_results_and_refuses_an_answer_that_names_no_arm() -> None:
    policy = AnswersNoArm(Coins())
    with Study.create(policy.problem, policy, storage="memory://", name="s") as study:
        for _ in range(10):
            study.tell(study.ask(), 1.0)
        assert study.stopped
        with raises(InvalidArgument) as error:
            study.recommend()
    assert error.value.name == "AnswersNoArm.recommend"


def test_an_answer_that_cannot_be_compared_is_no_wrong_answer() -> None:
    with raises(InvalidArgument) as error:
        simulate(AnswersWithTuple(Coins()), Flips(), 2, progress=False)
    assert error.value.name == "policy"


def test_a_policy_of_the_contract_is_accepted() -> None:
    assert simulate(TenPulls(Coins()), Flips(), 2, progress=False).error_rate == 0.0


# ------------------------------------------------------------------ runs without an end


class Never(TenPulls):
    @property
    def stopped(self):
        return False


def test_a_run_without_an_end_is_undecided_at_the_default_limit(monkeypatch) -> None:
    for module in (run, results, summary):
        monkeypatch.setattr(module, "LONGEST_RUN", 50)
    found = simulate(Never(Coins()), Flips(), 3, progress=False)
    assert found.horizon is None
    assert (found.status == "running").all()
    assert (found.stopping_time == 50).all()
    assert found.cut_off == found.summary().cut_off == 3
    assert "default limit of 50 pulls" in str(found.summary())
    assert found.summary().to_dict()["cut_off"] == 3


@pytest.mark.parametrize("limits", [{"horizon": 80}, {}])
def test_a_stated_limit_replaces_the_default(monkeypatch, limits) -> None:
    monkeypatch.setattr(run, "LONGEST_RUN", 50)
    policy = Never(Coins())
    if not limits:
        policy = type("Capped", (TenPulls,), {"max_pulls": 80})(Coins())
        expected = 10
    else:
        expected = 80
    found = simulate(policy, Flips(), 2, progress=False, **limits)
    assert (found.stopping_time == expected).all()
    assert found.cut_off == 0
