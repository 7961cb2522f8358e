"""How much the leading candidates differ from the control, or from the leader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.effects import (
    BlockResults,
    DifferenceInterval,
    Spread,
    difference_from_blocks,
)
from fairtrial.core.recommendation import Effect
from fairtrial.linear._units import Units

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
    results: BlockResults,
    level: float,
    limits: Mapping[int, float],
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
    results : BlockResults
        Results of the blocks, in units of the noise.
    level : float
        The probability with which each interval ever fails.
    limits : mapping of int to float
        By candidate, a lower limit of its difference; an upper one if small is good.
    """
    reduced = units.problem.reduced
    kept = np.asarray((results.drawn > 0.0).any(axis=0))
    results = results.only(np.ones(len(results.counts), dtype=np.bool_), kept)
    arms = reduced.arms[kept]
    matrices = np.einsum("ta,ai,aj->tij", results.drawn, arms, arms)
    fit = _Fit(matrices, np.linalg.pinv(matrices, rcond=_UNSEEN, hermitian=True))
    difference = partial(_difference, units, kept, results, fit, level)
    found = []
    for candidate in candidates:
        direction = reduced.candidates[candidate] - reduced.candidates[reference]
        direction += reduced.rest[candidate] - reduced.rest[reference]
        interval = difference(direction)
        names = labels[candidate], labels[reference], None
        effect = Effect(*names, *(interval or ()))
        limit = limits.get(candidate)
        if units.problem.sign > 0.0:
            found.append(replace(effect, lower_limit=limit))
        else:
            found.append(replace(effect, upper_limit=limit))
    return tuple(found)


def _difference(
    units: Units,
    kept: NDArray[np.bool_],
    results: BlockResults,
    fit: _Fit,
    level: float,
    direction: Floats,
) -> DifferenceInterval | None:
    """Return the value of a direction, from the blocks that measure it."""
    problem = units.problem
    solved = fit.inverses @ direction
    missed = np.einsum("tij,tj->ti", fit.matrices, solved) - direction
    usable = np.linalg.norm(missed, axis=1) <= _UNSEEN * np.linalg.norm(direction)
    if not usable.any() or not direction.any():
        return None
    known = results.only(usable, np.ones(kept.sum(), dtype=np.bool_))
    weights = solved[usable] @ problem.reduced.arms[kept].T
    off = (np.abs(weights) * known.drawn) @ units.deviations[kept] + 2.0 * units.misspecification
    ends = problem.reward_range
    own = None if ends is None else sorted(units.factors[0] * end for end in ends)
    spread = Spread(np.ones(kept.sum()), None if own is None else (own[0], own[1]))
    first = float((weights[0] ** 2 * known.drawn[0]).sum() * known.drawn[0].sum())
    found = difference_from_blocks(known, weights, spread, level, first, off)
    found = found.times(problem.sign * problem.reduced.unit)
    # Rewards of candidates that cannot be pulled may lie outside the range.
    if ends is None or problem.candidates is not None:
        return found
    width = ends[1] - ends[0]
    return DifferenceInterval(*np.clip(found, -width, width))
