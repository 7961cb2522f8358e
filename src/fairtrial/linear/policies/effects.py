"""How much the leading candidates differ from the control, or from the leader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.effects import BlockResults, DifferenceInterval, difference_with_noise
from fairtrial.core.recommendation import Effect
from fairtrial.linear._units import Units
from fairtrial.linear.policies.values import LinearResults, values_in_range

__all__ = ["effects_of_candidates"]

Floats = NDArray[np.float64]

_UNSEEN = 1e-9
"""The share of a direction that a block may miss and still count as having measured it."""


class _Fit(NamedTuple):
    """Matrices that turn the results of each block into a separate least-squares fit."""

    matrices: Floats
    inverses: Floats


def effects_of_candidates(
    units: Units,
    labels: Sequence[str],
    candidates: Sequence[int],
    reference: int,
    results: BlockResults | LinearResults,
    level: float,
    limits: Mapping[int, float],
    theta: Floats | None,
) -> tuple[Effect, ...]:
    """Return the effects of some candidates against one, from separate fits in every block.

    Parameters
    ----------
    units : Units
        The problem in the numbers of policies.
    labels : sequence of str
        Labels of all distinct candidates.
    candidates, reference
        The distinct candidates to compare, and the one to compare them with.
    results : BlockResults or LinearResults
        Results of the blocks, in units of the noise; `LinearResults` if rewards have a range.
    level : float
        The probability with which each interval ever fails.
    limits : mapping of int to float
        By candidate, a lower limit of its difference; an upper one if small is good.
    theta : array of shape (r,), optional
        The fit that means are shown from, so that differences are those of the means.
    """
    reduced = units.problem.reduced
    directions = reduced.candidates[candidates] - reduced.candidates[reference]
    directions += reduced.rest[candidates] - reduced.rest[reference]
    if isinstance(results, LinearResults):
        intervals = _in_range(units, results, level, directions)
    else:
        intervals = _with_noise(units, results, level, directions)
    outward = units.problem.sign * reduced.unit
    found = []
    for candidate, direction, interval in zip(candidates, directions, intervals, strict=True):
        shown: tuple[float, ...] = ()
        if interval is not None and direction.any():
            estimate = None if theta is None else float(direction @ theta)
            shown = _shown(interval.around(estimate).times(outward), units)
        effect = Effect(labels[candidate], labels[reference], None, *shown)
        limit = limits.get(candidate)
        if units.problem.sign > 0.0:
            found.append(replace(effect, lower_limit=limit))
        else:
            found.append(replace(effect, upper_limit=limit))
    return tuple(found)


def _shown(interval: DifferenceInterval, units: Units) -> tuple[float, ...]:
    """Return a difference and its ends, within what the range of rewards allows."""
    ends = units.problem.reward_range
    # Rewards of candidates that cannot be pulled may lie outside the range.
    if ends is None or units.problem.candidates is not None:
        return tuple(map(float, interval))
    width = ends[1] - ends[0]
    return tuple(np.clip(interval, -width, width).tolist())


def _in_range(
    units: Units, results: LinearResults, level: float, directions: Floats
) -> list[DifferenceInterval | None]:
    """Return the values of directions for results in a range; None where nothing is known."""
    spare = 2.0 * units.misspecification
    ends = zip(*values_in_range(results, directions, spare, level), strict=True)
    return [
        DifferenceInterval(0.5 * low + 0.5 * high, low, high) if np.isfinite(low) else None
        for low, high in ends
    ]


def _with_noise(
    units: Units, results: BlockResults, level: float, directions: Floats
) -> list[DifferenceInterval | None]:
    """Return the values of directions for results with known noise; None where none is known."""
    kept = np.asarray((results.drawn > 0.0).any(axis=0))
    results = results.only(np.ones(len(results.counts), dtype=np.bool_), kept)
    arms = units.problem.reduced.arms[kept]
    matrices = np.einsum("ta,ai,aj->tij", results.drawn, arms, arms)
    fit = _Fit(matrices, np.linalg.pinv(matrices, rcond=_UNSEEN, hermitian=True))
    return list(map(partial(_difference, units, kept, results, fit, level), directions))


def _difference(
    units: Units,
    kept: NDArray[np.bool_],
    results: BlockResults,
    fit: _Fit,
    level: float,
    direction: Floats,
) -> DifferenceInterval | None:
    """Return the value of a direction, from the blocks that measure it."""
    solved = fit.inverses @ direction
    missed = np.einsum("tij,tj->ti", fit.matrices, solved) - direction
    usable = np.linalg.norm(missed, axis=1) <= _UNSEEN * np.linalg.norm(direction)
    if not usable.any() or not direction.any():
        return None
    known = results.only(usable, np.ones(kept.sum(), dtype=np.bool_))
    weights = solved[usable] @ units.problem.reduced.arms[kept].T
    off = (np.abs(weights) * known.drawn) @ units.deviations[kept] + 2.0 * units.misspecification
    first = float((weights[0] ** 2 * known.drawn[0]).sum() * known.drawn[0].sum())
    return difference_with_noise(known, weights, np.ones(kept.sum()), level, first, off)
