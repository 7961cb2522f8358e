"""False alarm rates of the checks of assumptions, compared with their guarantees.

Linear arms: the tests of the stated noise and of linear means. Lost results: the test of unequal
losses, and the effect on the answer of losses that depend on values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.loss_test import log_evidence_of_unequal_losses
from fairtrial.confidence.noise_kernels import COUNT, MEAN, record_result
from fairtrial.confidence.noise_test import NoiseTest
from fairtrial.linear import BlockBetting as LinearBlockBetting
from fairtrial.linear import LinGapE, Problem
from fairtrial.linear.policies.checks import log_evidence
from fairtrial.subpopulations import BlockBetting
from fairtrial.subpopulations import Problem as GroupProblem

Floats = NDArray[np.float64]

LEVELS = (0.1, 0.05, 0.001)
LINE = [[1.0, 0.0], [1.0, 1.0], [1.0, 2.0], [1.0, 4.0]]


def run(*, quick: bool) -> None:
    """Print how often each check raised an alarm, and how often the answer was wrong."""
    runs = 50 if quick else 2_000
    print(f"\nlinear arms, {runs} runs: evidence ever at the level .1 / .05 / .001")
    print(f"{'what is true':<50}{'fit':>27}{'noise':>27}")
    for environment in _linear_environments():
        _show_evidence(environment, runs)
    print(f"\nlinear arms, {runs} runs checked every 10 pulls: runs whose label ever fell")
    for cls in (LinearBlockBetting, LinGapE):
        for problem in (Problem(LINE, noise_std=1.0), Problem(LINE, reward_range=(0, 1))):
            _show_label(cls, problem, runs)
    print(f"\nlost results, block betting at delta {DELTA}, best arm on its floor, {runs} runs")
    head = f"{'what is lost':<28}{'losses=':<14}{'ruled out':>10}{'and proven':>11}"
    print(f"{head}{'fell':>7}{'evidence ever':>27}")
    for name, loss in LOSSES.items():
        for losses in ("informative", "ignorable"):
            _show_losses(name, loss, losses, runs)


def _shares(evidence: Floats) -> str:
    shares = [float(np.mean(evidence >= -math.log(level))) for level in LEVELS]
    return " / ".join(f"{share:.4f}" for share in shares)


# ---------------------------------------------------------------------------- linear arms


@dataclass(frozen=True)
class _LinearEnvironment:
    """Rewards that satisfy the problem's assumptions."""

    name: str
    problem: Problem
    reward: Callable[[np.random.Generator, Floats, int], float]
    pulls: int = 60

    def means(self, generator: np.random.Generator) -> Floats:
        """Return means that are linear in the features, up to the problem's misspecification."""
        problem = self.problem
        size = 0.1 if problem.reward_range is not None else 10.0
        linear = problem.features @ (size * generator.uniform(size=problem.features.shape[1]))
        signs = np.where(np.arange(len(linear)) % 2 == 0, 1.0, -1.0)
        return np.asarray(linear + problem.misspecification * signs)


def _linear_environments() -> list[_LinearEnvironment]:
    def normal(generator: np.random.Generator, means: Floats, arm: int) -> float:
        return float(generator.normal(means[arm]))

    def by_arm(generator: np.random.Generator, means: Floats, arm: int) -> float:
        return float(generator.normal(means[arm], noise[arm]))

    def either_side(generator: np.random.Generator, means: Floats, arm: int) -> float:
        return float(means[arm] + generator.choice([-1.0, 1.0]))

    def coin(generator: np.random.Generator, means: Floats, arm: int) -> float:
        return float(generator.random() < means[arm])

    many = np.random.default_rng(0).normal(size=(12, 4))
    noise = np.linspace(0.5, 3.0, 12)
    line = Problem(LINE, noise_std=1.0)
    return [
        _LinearEnvironment("4 arms, 2 features, normal noise", line, normal),
        _LinearEnvironment("the same, mean - 1 or mean + 1", line, either_side),
        _LinearEnvironment(
            "the same, 0 or 1, in a range", Problem(LINE, reward_range=(0, 1)), coin
        ),
        _LinearEnvironment("the same, 600 pulls, normal noise", line, normal, pulls=600),
        _LinearEnvironment(
            "12 arms, 4 features, noise by arm", Problem(many, noise_std=noise), by_arm
        ),
        _LinearEnvironment(
            "4 arms, off by the misspecification of .5",
            Problem(LINE, noise_std=1.0, misspecification=0.5),
            normal,
        ),
    ]


def _show_evidence(environment: _LinearEnvironment, runs: int) -> None:
    found = np.array([_largest_evidence(environment, seed) for seed in range(runs)])
    noise = "-" if environment.problem.reward_range is not None else _shares(found[:, 1])
    print(f"{environment.name:<50}{_shares(found[:, 0]):>27}{noise:>27}", flush=True)


def _largest_evidence(environment: _LinearEnvironment, seed: int) -> tuple[float, float]:
    """Return the largest evidence against the fit and against the noise, at twenty looks."""
    generator, problem = np.random.default_rng([seed, 11]), environment.problem
    means = environment.means(generator)
    record, early = (NoiseTest.empty_record(len(means)) for _ in range(2))
    largest = (-math.inf, -math.inf)
    start = problem.features.shape[1]
    for pull in range(environment.pulls):
        arm = pull if pull < start else _suspicious(problem, record, generator)
        record_result(record, arm, environment.reward(generator, means, arm) / problem.scale[arm])
        if pull == start - 1:
            early = record.copy()
        elif pull >= start and pull % (environment.pulls // 20) == 0:
            now = log_evidence(problem, record, early), NoiseTest(record).log_evidence
            largest = max(largest[0], now[0]), max(largest[1], now[1])
    return largest


def _suspicious(problem: Problem, record: Floats, generator: np.random.Generator) -> int:
    """Return alternately the arm that is farthest from the fit, and a random arm."""
    if generator.random() < 0.5:
        return int(generator.integers(len(record)))
    weights = np.sqrt(record[:, COUNT])
    rows = problem.features / problem.scale[:, np.newaxis]
    fitted = np.linalg.lstsq(weights[:, np.newaxis] * rows, weights * record[:, MEAN])[0]
    return int(np.argmax(weights * np.abs(record[:, MEAN] - rows @ fitted)))


def _show_label(cls: type[LinearBlockBetting | LinGapE], problem: Problem, runs: int) -> None:
    bounded = problem.reward_range is not None
    fell = sum(_label_falls(cls(problem), bounded, seed) for seed in range(runs))
    rewards = "0 or 1, in a range" if bounded else "normal noise"
    print(f"{f'{cls.__name__}, {rewards}':<50}{fell:>6} of {runs}", flush=True)


def _label_falls(policy: LinearBlockBetting | LinGapE, bounded: bool, seed: int) -> bool:
    generator = np.random.default_rng([seed, 12])
    means = policy.problem.features @ [0.2, 0.05]
    while not policy.stopped and policy.told < 300:
        for pull in policy.ask(10):
            mean = means[pull.action]
            noisy = generator.random() < mean if bounded else generator.normal(mean)
            policy.tell(pull, float(noisy))
        if policy.warnings():
            return True
    return False


# --------------------------------------------------------------------------- lost results

DELTA = 0.1
MEANS = (0.3, 0.29)
"""Arm 0 is the best and exactly on its floor, the hardest case for the guarantee."""

LOSSES: dict[str, tuple[tuple[float, float], tuple[float, float]]] = {
    "none": ((0.0, 0.0), (0.0, 0.0)),
    "15 %, by chance": ((0.15, 0.15), (0.15, 0.15)),
    "30 %, by chance": ((0.3, 0.3), (0.3, 0.3)),
    "by value, 15 and 36 %": ((0.0, 0.5), (0.5, 0.0)),
    "by value, 15 % of each arm": ((0.0, 0.5), (0.15 / 0.71, 0.0)),
}
"""By arm, the probabilities of losing a 0 and a 1; "by value" harms the right answer."""


def _show_losses(
    name: str, loss: tuple[tuple[float, float], tuple[float, float]], losses: str, runs: int
) -> None:
    found = np.array([_play(loss, losses, seed) for seed in range(runs)])
    ruled_out, proven, fell = (int(count) for count in found[:, :3].sum(axis=0))
    print(
        f"{name:<28}{losses:<14}{ruled_out / runs:>10.4f}{proven / runs:>11.4f}{fell / runs:>7.4f}"
        f"{_shares(found[:, 3]):>27}",
        flush=True,
    )


def _play(
    loss: tuple[tuple[float, float], tuple[float, float]], losses: str, seed: int
) -> tuple[bool, bool, bool, float]:
    """Return whether the right answer was ever ruled out, whether labelled proven, and two more.

    The others are whether the label was ever lowered, and the largest evidence of unequal losses.
    """
    problem = GroupProblem(2, 1, floors=MEANS[0], reward_range=(0, 1))
    policy = BlockBetting(problem, delta=DELTA, losses=losses)
    generator = np.random.default_rng([seed, 13])
    came, lost = np.zeros((2, 1)), np.zeros((2, 1))
    largest, fell, ruled_out, proven = -math.inf, False, False, False
    while not policy.stopped and policy.asked < 400:
        for pull in policy.ask(8):
            reward = int(generator.random() < MEANS[pull.action])
            if generator.random() < loss[pull.action][reward]:
                lost[pull.action] += 1
                policy.fail(pull)
            else:
                came[pull.action] += 1
                policy.tell(pull, float(reward))
        largest = max(largest, log_evidence_of_unequal_losses(came, lost))
        label = policy.guarantee.proven
        fell |= not label
        if not ruled_out and "0" not in policy.recommend().candidates:
            ruled_out, proven = True, label
    return ruled_out, proven, fell, largest
