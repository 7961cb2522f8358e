"""Intervals of differences: how often they ever miss the truth, their width, and the bias.

Each study is checked whenever its intervals change. "Ever" counts the studies in which the interval
of the first arm against the control missed the true difference at any of these looks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial import delayed, linear, subpopulations
from fairtrial.confidence.block_betting import BlockPolicy

Floats = NDArray[np.float64]

DELTA = 0.1
MOST_PULLS = 300
LOOKS = (100, 200)

Sample = Callable[[np.random.Generator, float], float]


def run(*, quick: bool) -> None:
    """Print for hard cases of every family how often intervals missed, and their width."""
    runs = 20 if quick else 2_000
    print(
        f"\nintervals of confidence {1 - DELTA:.0%}, {runs} studies of at most {MOST_PULLS} pulls"
    )
    head = "".join(f"{'at ' + str(look):>9}" for look in LOOKS)
    print(f"{'case':<34}{'ever':>8}{head}{'at stop':>9}{'width':>8}{'bias (error)':>18}")
    for name, case in CASES.items():
        _show(name, case, runs)


@dataclass(frozen=True)
class Case:
    """A policy, the means of its arms, and how results are drawn around them."""

    policy: BlockPolicy
    means: tuple[float, ...]
    sample: Sample

    @property
    def true(self) -> float:
        """The difference of the first arm from the control, which is the second."""
        return self.means[0] - self.means[1]


def _bernoulli(generator: np.random.Generator, mean: float) -> float:
    return float(generator.random() < mean)


def _normal(generator: np.random.Generator, mean: float) -> float:
    return float(generator.normal(mean, 0.5))


def _skewed(generator: np.random.Generator, mean: float) -> float:
    """Return 1 rarely, and otherwise nearly 0."""
    return 1.0 if generator.random() < mean / 2 else mean / 2 / (1 - mean / 2)


def _subpopulations(groups: int = 1, **known: Any) -> BlockPolicy:
    problem = subpopulations.Problem(
        ["a", "b", "c"],
        groups,
        floors=None,
        control="b",
        **known,
    )
    return subpopulations.BlockBetting(problem, delta=DELTA, seed=1)


def _delayed(**known: Any) -> BlockPolicy:
    problem = delayed.Problem(["a", "b", "c"], control="b", **known)
    return delayed.BlockBetting(problem, delta=DELTA, seed=1)


def _linear(**known: Any) -> BlockPolicy:
    features = [[1.0, 0.0], [1.0, 1.0], [1.0, 3.0]]
    problem = linear.Problem(
        features,
        arms=["a", "b", "c"],
        control="b",
        **known,
    )
    return linear.BlockBetting(problem, delta=DELTA, seed=1)


RANGE = {"reward_range": (0.0, 1.0)}
NOISE = {"noise_std": 0.5}
CASES = {
    "subpopulations, equal, yes or no": Case(_subpopulations(**RANGE), (0.5, 0.5, 0.5), _bernoulli),
    "subpopulations, rare successes": Case(
        _subpopulations(**RANGE), (0.05, 0.04, 0.03), _bernoulli
    ),
    "subpopulations, skewed": Case(_subpopulations(**RANGE), (0.1, 0.1, 0.1), _skewed),
    "two groups, normal, equal": Case(_subpopulations(2, **NOISE), (0.0, 0.0, 0.0), _normal),
    "subpopulations, normal, apart": Case(_subpopulations(**NOISE), (0.3, 0.0, 0.0), _normal),
    "delayed, normal, apart": Case(_delayed(**NOISE), (0.3, 0.0, 0.0), _normal),
    "linear, yes or no": Case(_linear(**RANGE), (0.5, 0.45, 0.35), _bernoulli),
    "linear, normal": Case(_linear(**NOISE), (0.3, 0.2, 0.0), _normal),
}


@dataclass(frozen=True)
class Seen:
    """Result of one study: whether its intervals missed, and its last difference."""

    ever: bool
    at: tuple[bool, ...]
    at_stop: bool
    width: float
    error: float


def _show(name: str, case: Case, runs: int) -> None:
    seen = [_study(case, seed) for seed in range(runs)]
    at = np.mean([one.at for one in seen], axis=0)
    errors = np.array([one.error for one in seen])
    bias, error = np.nanmean(errors), np.nanstd(errors) / np.sqrt(runs)
    shares = "".join(f"{share:>9.2%}" for share in at)
    print(
        f"{name:<34}{np.mean([one.ever for one in seen]):>8.2%}{shares}"
        f"{np.mean([one.at_stop for one in seen]):>9.2%}"
        f"{np.nanmedian([one.width for one in seen]):>8.3f}{bias:>10.4f} ({error:.4f})",
        flush=True,
    )


def _study(case: Case, seed: int) -> Seen:
    """Run one study, and check the interval whenever a block was paid."""
    policy, generator = case.policy.clone(seed=seed), np.random.default_rng(seed)
    ever, at = False, [False] * len(LOOKS)
    paid, missed, width, error = -1, False, np.nan, np.nan
    while not policy.stopped and policy.told < MOST_PULLS:
        pull = policy.ask()
        policy.tell(pull, case.sample(generator, case.means["abc".index(pull.arm)]))
        blocks = len(policy._blocks.paid)  # noqa: SLF001 - progress() takes longer than the study
        if blocks > paid:
            paid = blocks
            missed, width, error = _look(policy, case.true)
            ever |= missed
        for place, look in enumerate(LOOKS):
            if policy.told <= look:
                at[place] = missed
    return Seen(ever, tuple(at), missed, width, error)


def _look(policy: BlockPolicy, true: float) -> tuple[bool, float, float]:
    """Return whether the interval misses, its width, and the error of the difference."""
    for effect in policy.progress().effects:
        if effect.arm == "a" and effect.group is None and effect.difference is not None:
            lower, upper = effect.lower or 0.0, effect.upper or 0.0
            return not lower <= true <= upper, upper - lower, effect.difference - true
    return False, np.nan, np.nan
