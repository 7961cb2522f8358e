"""Gaps and means as linear functions of the effects of single values.

An effect theta[k, a, o] is the mean outcome of arm k had the sensitive attribute been a. Where
the attribute is a root that is the same in every observed group, and o takes one position.
Else it is the mean in the group whose observed value is o.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._cell_model import cell_model_of

if TYPE_CHECKING:
    from fairtrial.causal._ledger import Records
    from fairtrial.causal.problem import Problem

Floats = NDArray[np.float64]


def mixing(problem: Problem, shares: Floats) -> Floats:
    """Return how gaps are made of pairs of values, shape (pairs, value pairs).

    With gaps by attribute the others keep their distribution: that of the group observed,
    or simply their own where the attributes are roots. A group that nobody is in, by the
    model's own tables, has no gap: it is made of nothing.
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
    """Return whether nobody is observed with a value, where it matters who is."""
    shares = cell_model_of(problem).shares
    return not problem.is_root and shares is not None and bool(shares[value] == 0.0)


def _without(combination: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*combination[:axis], *combination[axis + 1 :])


def contrasts(problem: Problem, shares: Floats) -> Floats:
    """Return what every gap takes of the effects, shape (pairs, values, observed)."""
    cell_model = cell_model_of(problem)
    single = np.zeros((len(problem.value_pairs), cell_model.n_values, cell_model.n_groups))
    for row, (a, b) in enumerate(problem.value_pairs):
        new, old = problem.values.index(a), problem.values.index(b)
        group = 0 if problem.is_root else old
        single[row, new, group], single[row, old, group] = 1.0, -1.0
    return np.asarray(np.einsum("gp,pao->gao", mixing(problem, shares), single))


def mean_direction(problem: Problem, shares: Floats) -> Floats:
    """Return what the mean takes of the effects, shape (1, values, observed)."""
    return (shares[:, None] if problem.is_root else np.diag(shares))[None]


def applied(directions: Floats, effects: Floats) -> Floats:
    """Return linear functions of the effects, shape (K, functions).

    Effects that a function does not take may be unknown.
    """
    with np.errstate(invalid="ignore"):
        terms = np.where(directions != 0.0, directions * np.expand_dims(effects, 1), 0.0)
    return np.asarray(terms.sum(axis=(2, 3)))


def own_values(problem: Problem, effects: Floats) -> Floats:
    """Return the mean by arm in each group as it is, shape (K, values)."""
    if problem.is_root:
        return effects[:, :, 0]
    return np.diagonal(effects, axis1=1, axis2=2)


def overall_mean(problem: Problem, effects: Floats, shares: Floats) -> Floats:
    """Return the mean by arm, shape (K,); groups that nobody is in may be unknown."""
    own = own_values(problem, effects)
    if not shares.all():
        own = np.where(shares > 0.0, own, 0.0)
    return np.asarray(own @ shares)


def own_effects(problem: Problem, records: Records) -> Floats:
    """Return every arm's effects from its own rows only; NaN where they do not tell."""
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
    """Return where an arm at a value gives cells that it never gives at another.

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
