"""Rules with one pull at a time, compared with a slow and obvious referee."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from fairtrial.core import Policy
from fairtrial.linear import FullyAdaptiveXY, GAllocation, LinGapE, Problem
from tests import effort

DELTA, START, SPREAD = 0.1, 2, 0.2
FEATURES = np.array([[1.0, 0.0], [0.8, 0.4], [0.1, 1.0], [-0.6, 0.4], [0.3, -0.9]])
THETA = np.array([1.0, 0.1])  # values 1, .84, .2, -.56, .21
LOOKS = [math.ceil(1.1**j) for j in range(1, 90)]


class Referee:
    """The data of one experiment in the features as given, and the conclusions."""

    def __init__(self, problem: Problem, level: str) -> None:
        self.problem, self.kind = problem, level
        self.counts = np.zeros(len(problem.arms))
        self.right = np.zeros(problem.rank)
        self.rejected: set[int] = set()

    def add(self, arm: int, reward: float) -> None:
        weight = 1.0 / self.problem.scale[arm] ** 2
        self.counts[arm] += 1
        self.right += weight * self.problem.sign * reward * self.problem.features[arm]

    def gram(self, counts: np.ndarray) -> np.ndarray:
        features = self.problem.features
        return (features.T * (counts / self.problem.scale**2)) @ features

    def fit(self) -> None:
        self.inverse = np.linalg.inv(self.gram(self.counts))
        self.theta = self.inverse @ self.right
        self.level = 2 * self.log_level()

    def log_level(self) -> float:
        number, told = len(self.problem.arms), self.counts.sum()
        errors = self.problem.top * (number - self.problem.top)
        if self.kind == "static":
            return math.log(math.pi**2 / 6 * told**2 * errors / DELTA)
        if self.kind == "soare2014":
            return 4 * math.log(6 / math.pi**2 * told**2 * number**2 / DELTA)
        if self.kind == "static-checks":
            look = max(j for j, n in enumerate(LOOKS, start=1) if n <= told)
            return math.log(errors * look * (look + 1) / DELTA)
        start = np.zeros(number)
        start[self.problem.basis_arms] = START
        ratio = np.linalg.solve(SPREAD * self.gram(start), self.gram(self.counts))
        log_det = math.log(np.linalg.det(np.eye(len(ratio)) + ratio))
        return (1 + SPREAD) * (math.log(1 / DELTA) + 0.5 * log_det)

    def gap_bias_variance(self, i: int, j: int) -> tuple[float, float, float]:
        features, scale = self.problem.features, self.problem.scale
        y = features[i] - features[j]
        pulls = self.counts / scale**2 * np.abs(features @ self.inverse @ y)
        bias = self.problem.misspecification * (pulls.sum() + 2)
        return float(y @ self.theta), bias, float(y @ self.inverse @ y)

    def leaders(self) -> set[int]:
        values = self.problem.features @ self.theta
        left = [k for k in range(len(values)) if k not in self.rejected]
        return set(sorted(left, key=lambda k: -values[k])[: self.problem.top])

    def reject(self) -> None:
        """Rule out, without slack, candidates that another one still in the race beats."""
        left = set(range(len(self.problem.arms))) - self.rejected
        for i, j in itertools.permutations(left, 2):
            gap, bias, variance = self.gap_bias_variance(i, j)
            if gap - bias >= math.sqrt(self.level * variance):
                self.rejected.add(j)

    def rivals(self) -> dict[tuple[int, int], float]:
        """Return the squared gap over its variance, for leaders and all remaining candidates."""
        ratios = {}
        leaders = self.leaders()
        for i, j in itertools.product(leaders, set(range(len(FEATURES))) - leaders - self.rejected):
            gap, bias, variance = self.gap_bias_variance(i, j)
            ratios[i, j] = max(0.0, gap + self.problem.tolerance - bias) ** 2 / variance
        return ratios

    def is_good_choice(self, policy: Policy, arm: int) -> bool:
        """Return whether no other arm would have been better by the rule's own measure."""
        features = self.problem.features / self.problem.scale[:, None]
        images = features @ self.inverse
        lengths = 1 + (images * features).sum(axis=1)
        if isinstance(policy, LinGapE):
            widths = {
                pair: math.sqrt(self.level * variance) - gap
                for pair in self.rivals()
                for gap, _, variance in [self.gap_bias_variance(*pair)]
            }
            i, j = max(widths, key=lambda pair: widths[pair])
            gains = (images @ (FEATURES[i] - FEATURES[j])) ** 2 / lengths
            return bool(gains[arm] >= gains.max() * (1 - 1e-6))
        left = sorted(set(range(len(FEATURES))) - self.rejected)
        rows = np.array([FEATURES[i] - FEATURES[j] for i, j in itertools.combinations(left, 2)])
        now = ((rows @ self.inverse) * rows).sum(axis=1)
        after = (now - (images @ rows.T) ** 2 / lengths[:, None]).max(axis=1)
        return bool(after[arm] <= after.min() * (1 + 1e-6))


NOISE = [0.5, 0.9, 0.6, 1.2, 0.5]
WANTED = {
    "one": {"noise_std": 0.5},
    "noise by arm, minimised": {"noise_std": NOISE, "direction": "minimize"},
    "within tolerance": {"noise_std": 0.8, "tolerance": 0.3},
    "two": {"noise_std": 0.8, "top": 2, "tolerance": 0.15},
    "not quite linear": {"noise_std": NOISE, "misspecification": 0.01, "tolerance": 0.05},
}
RULES = [
    (LinGapE, "mixture"),
    (FullyAdaptiveXY, "mixture"),
    (GAllocation, "mixture"),
    (GAllocation, "static"),
    (GAllocation, "static-checks"),
    (GAllocation, "soare2014"),
]


@pytest.mark.parametrize(("rule", "name"), effort.covering(range(len(RULES)), WANTED))
def test_every_decision_is_the_referees(name: str, rule: int) -> None:
    cls, level = RULES[rule]
    if cls is FullyAdaptiveXY and name == "two":
        return
    problem = Problem(FEATURES, **WANTED[name])  # type: ignore[arg-type]
    policy = cls(problem, delta=DELTA, stopping=level, initial_pulls=START)
    referee, rng = Referee(problem, level), np.random.default_rng(2)
    means = problem.sign * FEATURES @ THETA
    basis = list(problem.geometry.start_arms)
    for told in range(1, 1500):
        pull = policy.ask()
        if told > len(basis) * START + 1 and cls is not GAllocation:
            assert referee.is_good_choice(policy, pull.action)
        reward = float(rng.normal(means[pull.action], problem.scale[pull.action]))
        policy.tell(pull, reward)
        referee.add(pull.action, reward)
        if (referee.counts[basis] < START).any():
            assert not policy.stopped
            continue
        referee.fit()
        if level == "static-checks" and told not in LOOKS:
            assert not policy.stopped
            continue
        if cls is FullyAdaptiveXY:
            referee.reject()
            assert set(np.flatnonzero(policy._race.track.ruled_out)) == referee.rejected
        rivals = referee.rivals()
        evidence = min(rivals.values(), default=math.inf) / 2
        assert set(policy._answer) == referee.leaders()
        if math.isfinite(evidence):
            assert policy._evidence() == pytest.approx((evidence, referee.level / 2), rel=1e-6)
        assert policy._decided == (evidence >= referee.level / 2)
        if policy.stopped:
            break
        open_pairs = {pair for pair, ratio in rivals.items() if ratio < referee.level}
        assert set(policy._findings.live()) == referee.leaders() | {j for _, j in open_pairs}
    assert policy._decided
    answer = set(policy._answer)
    for arm in (0, 1):
        policy.tell(problem.pull(arm=str(arm)), -100.0 * problem.sign)
    assert set(policy._answer) == answer


@pytest.mark.parametrize("told", [9, 505])
def test_choices_stand_on_the_information_with_all_pulls_in_flight(told: int) -> None:
    problem = Problem(FEATURES, noise_std=NOISE)
    policy = LinGapE(problem, delta=1e-9, initial_pulls=START)
    pulls = policy.ask(told + 20)
    for pull in pulls[:told]:
        policy.tell(pull, 0.0)
    for lost in (0, 3):
        for pull in pulls[told : told + lost]:
            policy.fail(pull)
        arms = [pull.action for pull in (*pulls[:told], *pulls[told + lost :])]
        expected = Referee(problem, "mixture").gram(np.bincount(arms, minlength=len(FEATURES)))
        basis = problem.reduced.basis
        found = problem.scale.max() ** 2 * basis @ policy._race.track.ahead @ basis.T
        assert np.linalg.inv(found) == pytest.approx(expected, rel=1e-6)
