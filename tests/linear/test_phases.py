"""Rules in phases, compared with a slow and obvious judge written from the mathematics alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fairtrial.core import Policy, Pull
from fairtrial.linear import ODLinBAI, Problem, Rage, XYAdaptive, xy_optimal_design

DELTA, ALPHA = 0.1, 0.1
FEATURES = np.array([[1.0, 0.0], [0.95, 0.3], [0.8, -0.5], [0.0, 1.0], [-0.6, 0.4]])
THETA = np.array([1.0, 0.1])  # values 1, .98, .75, .1, -.56


class Judge:
    """The phases of one experiment, in the features as given."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.alive = set(range(len(problem.arms)))
        self.phase = 0
        self.largest = 1.0 / (problem.rank * (problem.rank + 1) + 1)
        self.verdict = "open"

    def begin(self, planned: np.ndarray, cls: type[Policy]) -> None:
        """Check the plan of the next phase, and its length."""
        self.phase += 1
        self.own: list[tuple[int, float]] = []
        pairs = [(i, j) for i in self.alive for j in self.alive if i < j]
        inverse = self.inverse(planned)
        rows = [self.problem.features[i] - self.problem.features[j] for i, j in pairs]
        largest = max(float(y @ inverse @ y) for y in rows)
        if cls is XYAdaptive:
            assert 0.8 * ALPHA * self.largest <= largest <= ALPHA * self.largest
            self.largest = largest
        else:
            value = xy_optimal_design(self.problem, sorted(self.alive), tol=1e-2).value
            wanted = math.ceil(1.1 * value * self.level() * 4**self.phase)
            # At first every arm that is needed to test the fit is pulled, too.
            assert wanted <= planned.sum() <= wanted + (3 if self.phase == 1 else 0)
            used = np.count_nonzero(planned)
            assert largest <= value / (planned.sum() - used + 1) * (1 + 1e-5)

    def level(self) -> float:
        errors = len(self.problem.arms) - 1
        return 2 * math.log(errors * self.phase * (self.phase + 1) / DELTA)

    def inverse(self, counts: np.ndarray) -> np.ndarray:
        weights = counts / self.problem.scale**2
        return np.linalg.pinv((self.problem.features.T * weights) @ self.problem.features)

    def gap_bias_variance(self, i: int, j: int) -> tuple[float, float, float]:
        problem, arms = self.problem, np.array([arm for arm, _ in self.own])
        inverse = self.inverse(np.bincount(arms, minlength=len(problem.arms)))
        weights = 1.0 / problem.scale[arms] ** 2
        rewards = problem.sign * np.array([reward for _, reward in self.own])
        theta = inverse @ (problem.features[arms].T @ (weights * rewards))
        y = problem.features[i] - problem.features[j]
        pulls = np.abs(weights * (problem.features[arms] @ inverse @ y)).sum()
        return float(y @ theta), problem.misspecification * (pulls + 2), float(y @ inverse @ y)

    def judge(self) -> None:
        pairs = {
            (i, j): self.gap_bias_variance(i, j) for i in self.alive for j in self.alive if i != j
        }
        width = {
            pair: math.sqrt(self.level() * variance) for pair, (_, _, variance) in pairs.items()
        }
        leader = next(i for i in self.alive if all(pairs[i, j][0] >= 0 for j in self.alive - {i}))
        self.alive -= {j for (i, j), (gap, bias, _) in pairs.items() if gap - bias >= width[i, j]}
        rivals = [(leader, j) for j in self.alive - {leader}]
        slack = self.problem.tolerance
        if any(pairs[pair][0] + slack + width[pair] < pairs[pair][1] for pair in rivals):
            self.verdict = "hopeless"
        elif not rivals or (
            slack > 0
            and all(pairs[pair][0] + slack - pairs[pair][1] >= width[pair] for pair in rivals)
        ):
            self.verdict, self.alive = "decided", {leader}


NOISE = [0.5, 1.0, 0.7, 0.5, 0.9]
PROBLEMS = {
    "one noise": Problem(FEATURES, noise_std=0.6),
    "noise by arm": Problem(FEATURES, noise_std=NOISE, direction="minimize"),
    "within tolerance": Problem(FEATURES, noise_std=0.6, tolerance=0.03),
    "not quite linear": Problem(FEATURES, noise_std=NOISE, misspecification=0.02),
    "not quite linear, within tolerance": Problem(
        FEATURES, noise_std=0.6, misspecification=0.002, tolerance=0.03
    ),
}


@pytest.mark.parametrize("cls", [Rage, XYAdaptive])
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_phase_is_judged_by_its_own_data_at_the_level_of_its_number(
    name: str, cls: type[Policy]
) -> None:
    """Lost pulls are issued again; late and unsolicited results count in no phase."""
    problem = PROBLEMS[name]
    policy, judge, rng = cls(problem, delta=DELTA), Judge(problem), np.random.default_rng(1)
    means = problem.sign * FEATURES @ THETA
    lost: list[Pull] = []
    while not policy.stopped:
        pull = policy.ask()
        if pull.tag > judge.phase:
            planned = policy._race.results[2].copy()
            planned[pull.action] += 1.0
            judge.begin(planned, cls)
        reward = rng.normal(means[pull.action], problem.scale[pull.action])
        fate = rng.random()
        if fate < 0.03:
            policy.fail(pull)
            lost.append(pull)
            continue
        if fate < 0.05:
            policy.tell(lost.pop() if lost else problem.pull(arm="0"), -9.0 * problem.sign)
        judge.own.append((pull.action, reward))
        policy.tell(pull, reward)
        if policy._race.waiting == 0:
            judge.judge()
            assert set(np.flatnonzero(policy._race.alive)) == judge.alive
            assert policy.stopped == (judge.verdict != "open")
    assert policy.recommend().status == {"hopeless": "undecided"}.get(judge.verdict, judge.verdict)
    assert judge.phase >= 2


@pytest.mark.parametrize("cls", [Rage, XYAdaptive])
def test_a_correction_reaches_its_phase_and_what_came_too_late_for_it_does_not(
    cls: type[Policy],
) -> None:
    policy = cls(Problem(np.eye(2), noise_std=1.0), delta=DELTA)
    pulls = policy.ask(4)
    for pull in pulls[:2]:
        policy.fail(pull)
        policy.tell(pull, 1.0)
    policy.tell(pulls[2], 0.5)
    policy.amend(pulls[2], 0.5, 2.0)
    own = policy._race.results[4].copy()
    assert own.sum() == 2.0
    policy.amend(pulls[0], 1.0, 100.0)
    assert (policy._race.results[4] == own).all()
    assert policy._race.results[1].sum() == 103.0
    assert any(text.startswith("2 pulls got lost") for text in policy.guarantee.assumptions)


def test_the_better_half_stays_by_the_data_of_its_phase_alone() -> None:
    rng = np.random.default_rng(3)
    features = rng.normal(size=(12, 5))
    policy = ODLinBAI(Problem(features, noise_std=1.0), budget=150)
    alive = list(range(12))
    for kept in (3, 2, 1):
        pulls = policy.ask(1000)
        assert len(pulls) == 50
        assert {pull.action for pull in pulls} <= set(alive)
        rewards = rng.normal(size=50)
        rows = features[[pull.action for pull in pulls]]
        values = features[alive] @ np.linalg.pinv(rows, rcond=1e-10) @ rewards
        for pull, reward in zip(pulls, rewards, strict=True):
            policy.tell(pull, reward)
        alive = sorted(np.array(alive)[np.argsort(-values)[:kept]].tolist())
        assert np.flatnonzero(policy._race.alive).tolist() == alive
    assert policy.recommend().arm == str(alive[0])
