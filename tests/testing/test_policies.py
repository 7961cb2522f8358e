from typing import Any

import numpy as np
import pytest

from fairtrial.core import Policy, Recommendation
from fairtrial.core.run import Run
from fairtrial.errors import InvalidArgument
from fairtrial.subpopulations import GaussianEnvironment, Problem
from fairtrial.testing import check_policy
from tests.messages import raises

PROBLEM = Problem(["a", "b"], ["x"], floors=None, noise_std=1.0)
ENVIRONMENT = GaussianEnvironment(PROBLEM, [[0.2], [0.4]])


class EqualShares(Policy):
    """Pulls both arms in turn, up to a budget; keeps the contract."""

    state_fields = ("sums",)

    def __init__(self, problem: Problem, budget: int = 20, seed: Any = None) -> None:
        super().__init__(problem, seed)
        self.budget = budget
        self.sums = np.zeros(2)

    def choose(self) -> int | None:
        return self.asked % 2 if self.asked < 2 * self.budget else None

    def learn(self, pull: Any, outcome: float) -> None:
        self.sums[pull.action] += outcome

    @property
    def stopped(self) -> bool:
        return self.told >= self.budget

    def recommend(self) -> Recommendation:
        best = self.problem.arms[int(np.argmax(self.sums))]
        if self.stopped:
            return Recommendation(best, "decided", leader=best)
        return Recommendation(None, "running", leader=best)


def test_a_policy_that_keeps_the_contract_passes() -> None:
    check_policy(EqualShares(PROBLEM), ENVIRONMENT)
    check_policy(EqualShares(PROBLEM), ENVIRONMENT, parallel=1, losses=False)


class IgnoresTheGroup(EqualShares):
    def choose(self, group: str | None = None) -> int | None:
        return super().choose()


def test_a_policy_that_issues_pulls_of_another_group_than_asked_for_is_told_so() -> None:
    problem = Problem(["a", "b"], ["x", "y"], floors=None, noise_std=1.0)
    environment = GaussianEnvironment(problem, [[0.2, 0.2], [0.4, 0.4]])
    check_policy(EqualShares(problem), environment)
    with raises(AssertionError):
        check_policy(IgnoresTheGroup(problem), environment)
    policy = IgnoresTheGroup(problem)
    with raises(InvalidArgument, "IgnoresTheGroup.choose"):
        policy.ask(group="y")
    assert policy.asked == 0
    assert policy.outstanding() == []


@pytest.mark.parametrize("refusal", [InvalidArgument("group", "must be 'x'", "y"), TypeError("y")])
def test_a_policy_that_takes_a_group_and_refuses_one_of_its_values_is_told_so(
    refusal: Exception,
) -> None:
    class RefusesAGroup(EqualShares):
        def choose(self, group: str | None = None) -> int | None:
            if group == "y":
                raise refusal
            return super().choose()

    problem = Problem(["a", "b"], ["x", "y"], floors=None, noise_std=1.0)
    environment = GaussianEnvironment(problem, [[0.2, 0.2], [0.4, 0.4]])
    with raises(AssertionError):
        check_policy(RefusesAGroup(problem), environment)


class ForgetsItsState(EqualShares):
    state_fields = ()


class HasItsOwnChance(EqualShares):
    chance = np.random.default_rng(0)

    def choose(self) -> int:
        return int(self.chance.integers(2))


class SharesItsState(EqualShares):
    shared = np.zeros(2)

    def learn(self, pull: Any, outcome: float) -> None:
        self.shared[pull.action] += outcome
        self.sums = self.shared


class ChangesWhileItRefuses(EqualShares):
    def tell(self, pull: Any, outcome: Any) -> None:
        self.sums = self.sums + 1.0
        super().tell(pull, outcome)


class TakesAnything(EqualShares):
    def tell(self, pull: Any, outcome: Any) -> None:
        if outcome is not None and outcome == outcome:
            super().tell(pull, outcome)


class NamesAnArmTooSoon(EqualShares):
    def recommend(self) -> Recommendation:
        return Recommendation("a", "running" if not self.stopped else "decided")


class GoesOnAfterTheStop(EqualShares):
    def _issue(self, context: dict[str, Any]) -> Any:
        return self._pull(0, 0, 0) if self.stopped else super()._issue(context)


class ExcludesItsOwnAnswer(EqualShares):
    def recommend(self) -> Recommendation:
        status = "decided" if self.stopped else "running"
        return Recommendation("a" if self.stopped else None, status, candidates=("b",))


class SaysWhatIsNoJSON(EqualShares):
    def recommend(self) -> Recommendation:
        said = super().recommend()
        return Recommendation(said.arm, said.status, evidence={"gap": float("nan")})


class CompiledOtherwise(EqualShares):
    def compiled_run(
        self, environment: Any, generator: Any, horizon: Any, parallel: int = 1
    ) -> Run:
        return Run("a", "decided", 3, np.array([2, 1]), 3.0)


class TakesChanceAndDeclines(EqualShares):
    def compiled_run(
        self, environment: Any, generator: Any, horizon: Any, parallel: int = 1
    ) -> None:
        generator.random()


@pytest.mark.parametrize(
    "broken",
    [
        ForgetsItsState,
        HasItsOwnChance,
        SharesItsState,
        ChangesWhileItRefuses,
        TakesAnything,
        NamesAnArmTooSoon,
        GoesOnAfterTheStop,
        ExcludesItsOwnAnswer,
        CompiledOtherwise,
        TakesChanceAndDeclines,
    ],
)
def test_a_policy_that_breaks_the_contract_is_found_out(broken: type) -> None:
    with raises(AssertionError):
        check_policy(broken(PROBLEM), ENVIRONMENT)


def test_what_cannot_be_written_as_json_is_found_out() -> None:
    with pytest.raises((AssertionError, ValueError)):
        check_policy(SaysWhatIsNoJSON(PROBLEM), ENVIRONMENT)


def test_arguments_of_the_check_are_checked() -> None:
    used = EqualShares(PROBLEM)
    used.ask()
    for arguments in (
        ("policy", ENVIRONMENT),
        (EqualShares(PROBLEM), "environment"),
        (used, ENVIRONMENT),
    ):
        with raises(InvalidArgument):
            check_policy(*arguments)
    with raises(InvalidArgument, "pulls"):
        check_policy(EqualShares(PROBLEM), ENVIRONMENT, pulls=0)
