"""Gaps and means as linear functions of the effects of single values.

An effect theta[k, a, o] is the mean outcome of arm k if the sensitive attribute were a. If the
attribute is a root, this is the same in every observed group, and o has a single position.
Otherwise it is the mean in the group whose observed value is o.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._cell_model import cell_model_of

if TYPE_CHECKING:
    from fairtrial.causal._ledger import LedgerRecords
    from fairtrial.causal.problem import Problem

Floats = NDArray[np.float64]


def mixing(problem: Problem, shares: Floats) -> Floats:
    """Return the weights of pairs of values in every gap, shape (pairs, value pairs).

    With gaps by attribute, the other attributes keep their distribution: that of the observed
    group, or their own if the attributes are roots. A group that is empty according to the model's
    tables has no gap: its weights are 0.
    """
    combinations = cell_model_of(problem).combinations
    if not problem.by_attribute:
        occupied = [not is_empty(problem, problem.values.index(b)) for _, b in problem.value_pairs]
        return np.diag(np.array(occupied, dtype=np.float64))
    result = np.zeros((len(problem.pairs), len(problem.value_pairs)))
    places = [(problem.values.index(a), problem.values.index(b)) for a, b in problem.value_pairs]
    for column, (a, b) in enumerate(places):
        new, old = combinations[a], combinations[b]
        (axis,) = (i for i, state in enumerate(old) if state != new[i])
        attribute = problem.attributes[axis]
        states = problem.model.states[attribute]
        pair = tuple(f"{attribute}={states[state]}" for state in (new[axis], old[axis]))
        others = [_without(combination, axis) for combination in combinations]
        same = np.array([other == _without(old, axis) for other in others])
        group = np.array([combination[axis] == old[axis] for combination in combinations])
        if problem.is_root:
            weight = shares[same].sum()
        else:
            weight = shares[b] / shares[group].sum() if shares[b] else 0.0
        result[problem.pairs.index((pair[0], pair[1])), column] = weight
    return result


def is_empty(problem: Problem, value: int) -> bool:
    """Return whether the observed group of a value is empty, if groups matter."""
    shares = cell_model_of(problem).shares
    return not problem.is_root and shares is not None and bool(shares[value] == 0.0)


def _without(combination: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*combination[:axis], *combination[axis + 1 :])


def contrasts(problem: Problem, shares: Floats) -> Floats:
    """Return the weight of every effect in every gap, shape (pairs, values, observed)."""
    cell_model = cell_model_of(problem)
    single = np.zeros((len(problem.value_pairs), cell_model.n_values, cell_model.n_groups))
    for row, (a, b) in enumerate(problem.value_pairs):
        new, old = problem.values.index(a), problem.values.index(b)
        group = 0 if problem.is_root else old
        single[row, new, group], single[row, old, group] = 1.0, -1.0
    return np.asarray(np.einsum("gp,pao->gao", mixing(problem, shares), single))


def mean_direction(problem: Problem, shares: Floats) -> Floats:
    """Return the weight of every effect in the mean, shape (1, values, observed)."""
    return (shares[:, None] if problem.is_root else np.diag(shares))[None]


def applied(directions: Floats, effects: Floats) -> Floats:
    """Return linear functions of the effects, shape (K, functions).

    Effects with weight 0 in a function may be unknown.
    """
    with np.errstate(invalid="ignore"):
        terms = np.where(directions != 0.0, directions * np.expand_dims(effects, 1), 0.0)
    return np.asarray(terms.sum(axis=(2, 3)))


def own_values(problem: Problem, effects: Floats) -> Floats:
    """Return the mean by arm in each group under its own value, shape (K, values)."""
    if problem.is_root:
        return effects[:, :, 0]
    return np.diagonal(effects, axis1=1, axis2=2)


def overall_mean(problem: Problem, effects: Floats, shares: Floats) -> Floats:
    """Return the mean by arm, shape (K,); empty groups may be unknown."""
    own = own_values(problem, effects)
    if not shares.all():
        own = np.where(shares > 0.0, own, 0.0)
    return np.asarray(own @ shares)


def own_effects(problem: Problem, records: LedgerRecords) -> Floats:
    """Return every arm's effects from its own rows only; NaN where these are not enough."""
    cell_model = cell_model_of(problem)
    shape = (problem.n_arms, cell_model.n_values, cell_model.n_values)
    counts = np.zeros(shape[:2])
    np.add.at(counts, (records.arm, records.value), records.number)
    rows = np.arange(len(records.arm))
    totals = np.zeros(shape)
    for value in range(cell_model.n_values):
        weights = records.ratio[rows, records.arm, value]
        place = (records.arm, np.full(len(rows), value), records.value)
        np.add.at(totals, place, records.total * weights)
    with np.errstate(invalid="ignore", divide="ignore"):
        effects = totals / counts[:, None, :]
    if problem.is_root:
        return np.diagonal(effects, axis1=1, axis2=2)[:, :, None]
    if cell_model.is_tabulated:
        effects = np.where(_without_overlap(problem), np.nan, effects)
    return effects


def _without_overlap(problem: Problem) -> NDArray[np.bool_]:
    """Return where an arm at a value produces cells that it never produces at another value.

    Shape (K, values, observed).
    """
    cell_model = cell_model_of(problem)
    never = cell_model.g == 0.0
    if cell_model.h is not None:
        never &= cell_model.h > 0.0
    lost = [
        ((cell_model.g > 0.0) & never[:, None, group]).any(axis=2)
        for group in range(cell_model.n_values)
    ]
    return np.stack(lost, axis=2)
