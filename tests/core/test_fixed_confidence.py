"""The base of policies that stop by themselves, completed by a minimal family."""

from typing import Any

import numpy as np
import pytest

from fairtrial.core import Estimate, Guarantee, Pull
from fairtrial.core.fixed_confidence import Answers, FixedConfidencePolicy
from fairtrial.errors import InvalidArgument
from tests.core.toys import GaussianEnvironment, ToyProblem
from tests.messages import raises

ENOUGH = 3


class Winners(Answers):
    """An arm, by its number."""

    def __init__(self, problem: ToyProblem) -> None:
        self.problem = problem

    def label(self, answer: int) -> Any:
        return self.problem.labels(answer)["arm"]

    def finding(self, label: Any) -> str:
        return f"{label!r} won"


class FirstToThree(FixedConfidencePolicy):
    """The answer is the first arm with three successes."""

    environments = GaussianEnvironment
    state_fields = ("_successes",)

    def __init__(
        self,
        problem: ToyProblem,
        delta: float = 0.1,
        max_pulls: int | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(problem, delta, max_pulls, seed)
        self._answers = Winners(problem)
        self._successes = np.zeros(problem.n_actions)

    def choose(self) -> int:
        return self.asked % self.problem.n_actions

    def learn(self, pull: Pull, outcome: float) -> None:
        self._successes[pull.action] += outcome > 0

    def on_amend(self, pull: Pull, old: float, new: float) -> None:
        self._amended += 1

    @property
    def _finished(self) -> bool:
        return bool(self._successes.max() >= ENOUGH)

    @property
    def _answer(self) -> int | None:
        return int(self._successes.argmax()) if self._successes.any() else None

    def _evidence(self) -> tuple[float | None, float | None]:
        return float(self._successes.max()), float(ENOUGH)

    def _estimates(self) -> tuple[tuple[Estimate, ...], tuple[Estimate, ...]]:
        return (), ()

    def _simulate(self, environment: Any, generator: np.random.Generator, horizon: int) -> Any:
        self.asked = self.told = min(horizon, 5)
        self._successes[0] = self.told
        return np.array([self.told, 0])

    @property
    def guarantee(self) -> Guarantee:
        promise = Guarantee("toy", proven=True, statement="")
        return promise.weakened_by(self._amended, "correction", "came late")


def policy_after(*outcomes: float, **parameters: Any) -> FirstToThree:
    policy = FirstToThree(ToyProblem(["a", "b"]), **parameters)
    for outcome in outcomes:
        policy.tell(policy.ask(), outcome)
    return policy


def test_without_an_answer_it_says_so() -> None:
    answer = policy_after().recommend()
    assert (answer.arm, answer.leader, answer.status) == (None, None, "running")
    assert answer.reason == "nothing is known about any arm yet"
    assert answer.confidence == pytest.approx(0.9)


def test_while_it_runs_it_says_what_lacks_and_forecasts_what_is_left() -> None:
    progress = policy_after(1, 0).progress()
    answer = progress.recommendation
    assert (answer.arm, answer.leader, answer.status) == (None, "a", "running")
    assert answer.reason == "there is not enough evidence to decide yet"
    assert answer.evidence == {"evidence": 1.0, "threshold": 3.0, "pulls": 2}
    assert (progress.evidence, progress.threshold, progress.remaining) == (1.0, 3.0, 4.0)
    assert progress.intervals == "anytime"


def test_once_decided_it_gives_the_answer() -> None:
    policy = policy_after(0, 1, 0, 1, 0, 1)
    answer = policy.recommend()
    assert policy.stopped
    assert (answer.arm, answer.status) == ("b", "decided")
    assert answer.reason == "there is enough evidence: 'b' won"
    assert policy.progress().remaining == 0.0


def test_a_cap_ends_it_undecided() -> None:
    policy = policy_after(1, 0, max_pulls=2)
    answer = policy.recommend()
    assert policy.stopped
    assert (answer.arm, answer.leader, answer.status) == (None, "a", "undecided")
    assert answer.reason == "the maximum of 2 pulls is reached"


def test_corrections_weaken_the_guarantee_by_their_number() -> None:
    policy = policy_after(1)
    pull = policy.problem.pull(arm="a")
    assert policy.guarantee.proven
    policy.tell(pull, 1.0)
    policy.amend(pull, 1.0, 0.5)
    assert policy.guarantee.assumptions == ("1 correction came late",)
    assert not policy.guarantee.proven


@pytest.mark.parametrize(("horizon", "cap", "results"), [(None, None, 5), (4, None, 4), (4, 2, 2)])
def test_a_compiled_run_ends_at_the_least_of_its_limits(
    horizon: int | None, cap: int | None, results: int
) -> None:
    policy = policy_after(max_pulls=cap)
    environment = GaussianEnvironment(policy.problem, [0.5, 0.1])
    run = policy.compiled_run(environment, np.random.default_rng(0), horizon)
    assert run is not None
    assert (run.stopping_time, run.pulls.tolist()) == (results, [results, 0])
    decided = results >= ENOUGH
    assert (run.answer, run.status == "decided") == ("a" if decided else None, decided)


def test_a_run_is_compiled_for_a_fresh_policy_and_one_pull_at_a_time_only() -> None:
    policy = policy_after()
    environment, generator = (
        GaussianEnvironment(policy.problem, [0.5, 0.1]),
        np.random.default_rng(0),
    )
    assert policy.compiled_run(environment, generator, 5, parallel=2) is None
    policy.ask()
    assert policy.compiled_run(environment, generator, 5) is None


def test_bad_parameters_are_refused() -> None:
    with raises(InvalidArgument, "delta"):
        policy_after(delta=1.5)
    with raises(InvalidArgument, "max_pulls"):
        policy_after(max_pulls=0)
