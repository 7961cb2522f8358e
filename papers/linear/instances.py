"""The environments of the tables with their exact properties, each defined once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fairtrial.linear import (
    Complexity,
    GaussianEnvironment,
    Problem,
    ReplayEnvironment,
    complexity,
    oracle_design,
)

__all__ = [
    "COMMON",
    "CROWDED",
    "DIMENSIONS",
    "PAPER",
    "Instance",
    "hard_nulls",
    "paper_instance",
]

Floats = NDArray[np.float64]

ANGLE = 0.01
"""Angle between the best and the second best arm of the paper's experiment, in radians."""

SMALL = 1e-6
"""The gap of a hard null, too small for any test."""


@dataclass(frozen=True, eq=False)
class Instance:
    """One environment.

    Parameters
    ----------
    name : str
        Its name in the tables.
    environment : GaussianEnvironment or ReplayEnvironment
        The environment; it holds the problem.
    theta : ndarray of shape (d,)
        The environment's parameter.
    """

    name: str
    environment: GaussianEnvironment | ReplayEnvironment
    theta: Floats

    @property
    def problem(self) -> Problem:
        """The problem."""
        return self.environment.problem

    @cached_property
    def complexity(self) -> Complexity:
        """T* and the optimal shares."""
        return complexity(GaussianEnvironment(self.problem, self.theta))

    def hardness_at(self, shares: Sequence[float] | Floats) -> float:
        """Return the paper's H with these shares of pulls instead of the optimal ones."""
        return 0.5 / float(self.evidence_of(np.asarray(shares, dtype=np.float64)).min())

    def evidence_of(self, pulls: Floats) -> Floats:
        """Return the evidence, in nats, of the given pulls against every rival of the best arm.

        It is the smallest divergence to an environment in which the rival is at least as good:
        ``gap^2 / (2 ||y||^2_{A^-1})``.
        """
        rows, values = self.problem.features, self.problem.values(self.theta)
        best = int(values.argmax())
        rivals = np.delete(np.arange(len(rows)), best)
        directions = rows[best] - rows[rivals]
        gram = (rows.T * pulls) @ rows
        variances = np.einsum("ij,ji->i", directions, np.linalg.solve(gram, directions.T))
        evidence: Floats = (values[best] - values[rivals]) ** 2 / (2.0 * variances)
        return evidence

    @cached_property
    def oracle_shares(self) -> Floats:
        """The optimal fixed shares of pulls."""
        return oracle_design(self.problem, self.theta).weights


def _gaussian(name: str, features: Floats, theta: Floats) -> Instance:
    problem = Problem(features, noise_std=1.0)
    return Instance(name, GaussianEnvironment(problem, theta), theta)


# ------------------------------------------------------------------------------ the environments


def _soare(dimension: int, angle: float) -> tuple[Floats, Floats]:
    """Return the unit vectors, and one more vector close to the first, which is the best."""
    extra = np.zeros(dimension)
    extra[:2] = np.cos(angle), np.sin(angle)
    return np.vstack([np.eye(dimension), extra]), 2.0 * np.eye(dimension)[0]


def _on_sphere(number: int, dimension: int, seed: int) -> tuple[Floats, int, int]:
    """Return random unit vectors, and the indices of the closest two."""
    arms = np.random.default_rng(seed).standard_normal((number, dimension))
    arms /= np.linalg.norm(arms, axis=1)[:, np.newaxis]
    closeness = arms @ arms.T
    np.fill_diagonal(closeness, -2.0)
    first, second = sorted(divmod(int(closeness.argmax()), number))
    return arms, first, second


def _sphere(number: int, dimension: int, seed: int) -> Instance:
    """Return random unit vectors; theta is a hundredth of the way between the closest two."""
    arms, first, second = _on_sphere(number, dimension, seed)
    theta = arms[first] + 0.01 * (arms[second] - arms[first])
    return _gaussian(f"sphere:{number}:{dimension}:{seed}", arms, theta)


def _mab(number: int, gap: float) -> Instance:
    """Return arms that say nothing about each other."""
    return _gaussian(f"mab:{number}:{gap:g}", np.eye(number), gap * np.eye(number)[0])


@cache
def paper_instance(dimension: int, angle: float = ANGLE) -> Instance:
    """Return the paper's experiment in `dimension` dimensions."""
    return _gaussian(f"soare:{dimension}:{angle:g}", *_soare(dimension, angle))


DIMENSIONS = tuple(range(2, 11))
"""Dimensions of the paper's Figure 4."""

PAPER = paper_instance(5)
"""The environment of the paper's Figure 5."""

COMMON = (
    *(paper_instance(dimension, 0.1) for dimension in (2, 5, 10)),
    PAPER,
    _sphere(30, 5, 1),
    _mab(8, 0.5),
)
"""Environments on which all rules are compared."""

CROWDED = (_sphere(50, 10, 3), _sphere(50, 4, 4), _mab(50, 1.0))
"""Environments with many arms, for block betting."""


# ------------------------------------------------------------------------------ hard nulls


@cache
def hard_nulls(noise: Literal["normal", "coins"]) -> tuple[Instance, ...]:
    """Return environments whose two best arms no test can distinguish: a rule hardly ever stops.

    Parameters
    ----------
    noise : {"normal", "coins"}
        Normal noise, or a fair coin that adds or subtracts 1; both are sub-Gaussian with scale 1.
    """
    arms, first, second = _on_sphere(12, 3, 1)
    cosine = float(arms[first] @ arms[second])
    # Slightly less than half way from one of the closest two to the other.
    share = 0.5 - SMALL / (2.0 * (1.0 - cosine))
    theta = arms[first] + share * (arms[second] - arms[first])
    environments = {
        "two arms, gap 1e-6": (np.eye(2), SMALL * np.eye(2)[0]),
        "eight arms, gap 1e-6": (np.eye(8), SMALL * np.eye(8)[0]),
        "soare:3, angle 1e-5": _soare(3, 1e-5),
        "sphere, 12 arms in 3 dimensions, closest two 1e-6 apart": (arms, theta),
    }
    make = _gaussian if noise == "normal" else _flipped
    return tuple(make(name, *environment) for name, environment in environments.items())


def _flipped(name: str, features: Floats, theta: Floats) -> Instance:
    problem = Problem(features, noise_std=1.0)
    table: dict[str, list[object]] = {"arm": [], "reward": []}
    for arm, mean in zip(problem.arms, features @ theta, strict=True):
        table["arm"] += [arm, arm]
        table["reward"] += [mean - 1.0, mean + 1.0]
    return Instance(name, ReplayEnvironment(problem, table), theta)
