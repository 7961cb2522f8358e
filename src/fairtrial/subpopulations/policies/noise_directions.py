"""Directions in which the stated noise of several measures is tested against the results.

A bet adds up measures of a pull, each with a weight. If a covariance S is stated, the proof
requires that the noise of every such sum spreads as the weights and S imply. Testing each measure
is not enough: sums, differences, and the part of a measure that the others do not explain are
tested in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.subpopulations.policies.stated_noise import StatedNoise
from fairtrial.subpopulations.problem import Problem

__all__ = ["Direction", "noise_directions"]

Floats = NDArray[np.float64]

_LEAST_VARIANCE = 1e-10
"""Least scale of a sum with weights of length 1, in units of the measures' noise. A covariance may
be singular, and its smallest eigenvalue is not stated more precisely than this."""


class Direction(NamedTuple):
    """A weighted sum of the measures of a pull whose spread is tested.

    Attributes
    ----------
    tested : StatedNoise
        The statement that is tested, in words, and its share of the false alarms.
    weights : ndarray of shape (K, L, M)
        Weights of the measures in units of their stated noise; the sum has a stated variance of 1.
    """

    tested: StatedNoise
    weights: Floats


def noise_directions(problem: Problem) -> list[Direction]:
    """Return the directions in which the noise is tested: none if ranges are known instead.

    Each measure comes first. With a stated covariance, the sum and the difference of each two
    measures follow; for three or more measures also the part of each that the others do not
    explain, and the sum of all; and the objective if it has several measures. Half of the false
    alarms are shared by these, the other half by the single measures.

    Examples
    --------
    >>> covariance = [[4.0, 1.0], [1.0, 1.0]]
    >>> problem = Problem(["a"], 1, measures=["x", "y"], objective="x", noise_cov=covariance)
    >>> for tested, _ in noise_directions(problem):
    ...     print(f"{tested.what}: {tested.spreads}")
    noise_cov of x: they spread
    noise_cov of y: they spread
    noise_cov of x and y: their sum spreads
    noise_cov of x and y: their difference spreads
    """
    if problem.measure_ranges is not None:
        return []
    names = problem.measures
    stated = "noise_std" if problem.noise_covariance is None else "noise_cov"
    own = [(f"{stated} of {name}", "they spread") for name in names]
    combined = [] if problem.noise_covariance is None else [*_combinations(problem)]
    halves = 2 if combined else 1
    weights = np.broadcast_to(np.eye(len(names)), (*problem.shape, len(names), len(names)))
    return [
        *(
            Direction(StatedNoise(what, spreads, 1 / (halves * len(own))), weights[:, :, place])
            for place, (what, spreads) in enumerate(own)
        ),
        *(
            Direction(
                StatedNoise(what, spreads, 1 / (halves * len(combined)), is_combined=True), weights
            )
            for what, spreads, weights in combined
        ),
    ]


def _combinations(problem: Problem) -> Iterator[tuple[str, str, Floats]]:
    """Yield the statement about a sum of measures, the sum's name, and its weights, (K, L, M)."""
    names, objective = problem.measures, np.asarray(problem.objective_weights)
    stds, correlations = _taken_apart(np.asarray(problem.noise_covariance))
    shape = *problem.shape, len(names)
    for first, second in combinations(range(len(names)), 2):
        what = f"noise_cov of {names[first]} and {names[second]}"
        for sign, word in ((1.0, "sum"), (-1.0, "difference")):
            weights = np.zeros(shape)
            weights[..., first], weights[..., second] = 1.0, sign
            yield what, f"their {word} spreads", _in_stated_units(weights, correlations)
    if len(names) > 2:
        for place, name in enumerate(names):
            weights = _left_by_others(correlations, place)
            spreads = "the part that the other measures do not explain spreads"
            yield f"noise_cov of {name}", spreads, _in_stated_units(weights, correlations)
        weights = _in_stated_units(np.ones(shape), correlations)
        yield "noise_cov of all measures", "their sum spreads", weights
    if np.count_nonzero(objective) > 1:
        weights = _in_stated_units(objective * stds, correlations)
        yield "noise_cov in the objective", "it spreads", weights


def _taken_apart(covariance: Floats) -> tuple[Floats, Floats]:
    """Return the standard deviations of the measures of a cell, and their correlations."""
    stds = np.sqrt(np.diagonal(covariance, axis1=2, axis2=3))
    return stds, covariance / stds[..., :, np.newaxis] / stds[..., np.newaxis, :]


def _left_by_others(correlations: Floats, place: int) -> Floats:
    """Return the weights of a measure minus its prediction from the others."""
    others = np.delete(np.arange(correlations.shape[-1]), place)
    of_others = correlations[..., others[:, np.newaxis], others]
    inverse = np.linalg.pinv(of_others, rcond=_LEAST_VARIANCE, hermitian=True)
    weights = np.ones(correlations.shape[:-1])
    weights[..., others] = -(inverse @ correlations[..., others, place, np.newaxis])[..., 0]
    return weights


def _in_stated_units(weights: Floats, correlations: Floats) -> Floats:
    """Return the weights divided by the stated standard deviation of their sum."""
    weights = weights / np.linalg.norm(weights, axis=-1, keepdims=True)
    variance = np.einsum("...i,...ij,...j->...", weights, correlations, weights)
    return np.asarray(weights / np.sqrt(np.maximum(variance, _LEAST_VARIANCE))[..., np.newaxis])
