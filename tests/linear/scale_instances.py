"""Problems whose features are hard on floats, with a truth that is known exactly.

Every float is an exact fraction: theta is solved for, and means and values are computed, in
fractions. So the right answer is known in any units, however near rows are.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fairtrial.core import Policy
from fairtrial.errors import InvalidArgument
from fairtrial.linear import Problem


@dataclass
class Instance:
    """Features, what the problem states, and the truth: means by arm and values by candidate."""

    kinds: tuple[str, ...]
    arguments: dict[str, Any]
    means: list[Fraction]
    values: list[Fraction]
    noise: np.ndarray

    def problem(self) -> Problem | None:
        """The problem, or None if it is refused."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return Problem(**self.arguments)
            except InvalidArgument:
                return None

    def is_wrong(self, answer: str) -> bool:
        """Whether an answer is worse than another by more than the last digits of values."""
        chosen = self.values[int(answer)]
        largest = max(abs(value) for value in (*self.values, *self.means))
        return max(self.values) - chosen > largest / 10**13


def fractions(rows: np.ndarray) -> list[list[Fraction]]:
    """Return floats as exact fractions."""
    return [[Fraction(float(value)) for value in row] for row in rows]


def solved(rows: list[list[Fraction]], wanted: list[Fraction]) -> list[Fraction]:
    """Return an exact solution; wanted values of rows that depend on others are not used."""
    width = len(rows[0])
    system: list[tuple[int, list[Fraction]]] = []
    for row, value in zip(rows, wanted, strict=True):
        line = [*row, value]
        for pivot, other in system:
            if line[pivot]:
                factor = line[pivot] / other[pivot]
                line = [a - factor * b for a, b in zip(line, other, strict=True)]
        # A row that is not larger than its rounding is ignored: columns depend on each other.
        sizes = [abs(entry) for entry in line[:width]]
        if any(size * 2**44 > abs(entry) for size, entry in zip(sizes, row, strict=True) if size):
            system.append((sizes.index(max(sizes)), line))
    theta = [Fraction(0)] * width
    for pivot, line in reversed(system):
        rest = sum(a * b for a, b in zip(line[:width], theta, strict=True))
        theta[pivot] = (line[width] - rest) / line[pivot]
    return theta


def times(rows: list[list[Fraction]], theta: list[Fraction]) -> list[Fraction]:
    """Return the rows' values."""
    return [sum((a * b for a, b in zip(row, theta, strict=True)), Fraction(0)) for row in rows]


KINDS = ("units", "time", "collinear", "near rows", "far candidates", "noise", "lengths", "offset")


def hard_instance(seed: int, bounded: bool = False) -> Instance:
    """Return a random instance of the given kinds; gaps are mostly many times the noise."""
    rng = np.random.default_rng(seed)
    kinds = tuple(str(kind) for kind in rng.choice(KINDS, size=rng.integers(1, 4), replace=False))
    features = _features(rng, kinds)
    rows = fractions(features)
    order = rng.permutation(len(rows))
    wanted = [Fraction(float(value)) for value in rng.integers(-60, 60, len(rows))]
    if "offset" in kinds and not bounded:
        wanted[int(order[0])] += Fraction(float(10.0 ** rng.uniform(3, 9)))
    theta = solved([rows[k] for k in order], [wanted[k] for k in order])
    unit = Fraction(float(10.0 ** rng.uniform(-160, 160) if "noise" in kinds else 1.0))
    theta = [unit * value for value in theta]
    candidates = _candidates(rng, features) if "far candidates" in kinds else None
    means = times(rows, theta)
    values = means if candidates is None else times(fractions(candidates), theta)
    arguments: dict[str, Any] = {"features": features, "candidates": candidates}
    noise = np.full(len(rows), float(unit))
    if bounded:
        low, high = min(means), max(means)
        margin = (high - low) / 4 + unit
        arguments["reward_range"] = (float(low - margin), float(high + margin))
    elif "noise" in kinds and rng.random() < 0.5:
        noise = noise * 10.0 ** rng.uniform(-3, 3, len(rows))
        arguments["noise_std"] = noise
    else:
        arguments["noise_std"] = float(unit)
    return Instance(kinds, arguments, means, values, noise)


def _features(rng: np.random.Generator, kinds: tuple[str, ...]) -> np.ndarray:
    arms, width = int(rng.integers(3, 8)), int(rng.integers(1, 4))
    if "time" in kinds:
        time = 1.7e9 + 3600.0 * rng.permutation(arms) + rng.integers(0, 60, arms)
        features = np.column_stack([time**power for power in range(width)])
    else:
        features = rng.normal(size=(arms, width))
        if rng.random() < 0.5:
            features[:, 0] = 1.0
    if "near rows" in kinds:
        k, step = int(rng.integers(arms)), 10.0 ** rng.uniform(-14, -3)
        near = features[[k, k]] * (1.0 + step * rng.normal(size=(2, features.shape[1])))
        features = np.vstack([features, near, features[:1]])
    if "lengths" in kinds:
        features = features * 2.0 ** rng.integers(-60, 60, (len(features), 1))
    if "collinear" in kinds:
        mixed = features @ rng.integers(-3, 4, (features.shape[1], 1))
        features = np.column_stack([features, mixed])
    if "units" in kinds:
        features = features * 10.0 ** rng.uniform(-160, 160, features.shape[1])
    return features


def _candidates(rng: np.random.Generator, features: np.ndarray) -> np.ndarray:
    """Return combinations of arms, some of them far away, and some near each other."""
    number = int(rng.integers(2, 7))
    weights = rng.integers(-4, 5, (number, len(features))).astype(float)
    far = 2.0 ** rng.integers(0, 60)
    weights[::2] *= far
    return np.asarray(weights @ features)


def answer_of(
    policy: Policy, instance: Instance, rng: np.random.Generator, bounded: bool
) -> tuple[str | None, bool]:
    """Run a policy to its stop; return its answer and whether it is labelled proven."""
    means = np.array([float(mean) for mean in instance.means])
    low, high = instance.arguments.get("reward_range") or (0.0, 1.0)
    while not policy.stopped:
        pull = policy.ask()
        mean = means[pull.action]
        if bounded:
            # A coin with two values inside the range, and the right mean.
            step = min(mean - low, high - mean)
            reward = mean + step * (1.0 if rng.random() < 0.5 else -1.0)
            reward = min(max(reward, low), high)
        else:
            reward = mean + instance.noise[pull.action] * rng.normal()
        policy.tell(pull, reward)
    found = policy.recommend()
    assert found.guarantee is not None
    return found.arm, found.guarantee.proven
