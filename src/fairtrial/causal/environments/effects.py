"""Effects of every arm and value in a network: summed exactly if possible, otherwise sampled.

An effect is the mean outcome by arm, value of the sensitive attribute, and observed group. Its
shape is (K, values, groups), with a single group if the attribute is a root.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._cell_model import cell_model_of
from fairtrial.causal._factors import Factor, shares_of, sum_product, table_factor
from fairtrial.causal._sampling import Sampler
from fairtrial.causal.model import CausalModel
from fairtrial.causal.problem import Problem

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_ROWS = 200_000


def enumerated_effects(
    problem: Problem, network: CausalModel, nodes: frozenset[str], shares: Floats
) -> Floats:
    """Return the effects by summing over a network of tables.

    Parameters
    ----------
    problem : Problem
        The problem; its outcome's states have numbers.
    network : CausalModel
        The environment's network.
    nodes : frozenset of str
        The nodes that lead to the outcome.
    shares : ndarray of shape (values,)
        Probability of every value of the sensitive attribute.
    """
    assert problem.outcome_numbers is not None
    family = (*network.parents(problem.intervened), problem.intervened)
    factors = [Factor(("", *family), cell_model_of(problem).arm_tables)]
    factors += [
        table_factor(network, node)
        for node in sorted(nodes)
        if node != problem.intervened and node not in problem.attributes
    ]
    factors.append(Factor((problem.outcome_node,), problem.outcome_numbers))
    sizes = [network.size(node) for node in problem.attributes]
    shape = (problem.n_arms, len(problem.values), cell_model_of(problem).n_groups)
    if problem.is_root:
        sums = sum_product(factors, ("", *problem.attributes))
        return np.broadcast_to(sums, (problem.n_arms, *sizes)).reshape(shape)
    # Nodes before the attributes are weighted by the observed value, nodes after them are not.
    observed = {node: f"observed {node}" for node in problem.attributes}
    for node in problem.attributes:
        names, array = table_factor(network, node)
        factors.append(Factor(tuple(observed.get(name, name) for name in names), array))
    sums = sum_product(factors, ("", *problem.attributes, *observed.values()))
    joint = np.broadcast_to(sums, (problem.n_arms, *sizes, *sizes)).reshape(shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        return joint / shares


def sampled_effects(
    problem: Problem, network: CausalModel, sampler: Sampler
) -> tuple[Floats, Floats, Floats]:
    """Return effects, their standard errors and the values' shares from a large sample."""
    cell_model = cell_model_of(problem)
    effects = np.empty((problem.n_arms, cell_model.n_values, cell_model.n_groups))
    error = np.empty_like(effects)
    generator = np.random.default_rng(0)
    counts = np.zeros(cell_model.n_values)
    for k in range(problem.n_arms):
        value, outcome, cells = _rows(problem, sampler, k, -1, generator)
        counts += np.bincount(value, minlength=cell_model.n_values)
        for a in range(cell_model.n_values):
            if problem.is_root:
                terms = _rows(problem, sampler, k, a, generator)[1]
                effects[k, a, 0], error[k, a, 0] = _mean_and_error(terms)
                continue
            for b in range(cell_model.n_values):
                logs = cell_model.log_weights(cells[value == b])[:, k]
                terms = outcome[value == b] * np.exp(logs[:, a] - logs[:, b])
                effects[k, a, b], error[k, a, b] = _mean_and_error(terms)
    shares = shares_of(network, problem.attributes)
    return effects, error, counts / counts.sum() if shares is None else shares


def _rows(
    problem: Problem, sampler: Sampler, arm: int, value: int, generator: np.random.Generator
) -> tuple[Integers, Floats, NDArray[Any]]:
    """Return values, outcomes and cells of an arm's rows, forced to a value unless it is -1."""
    columns = sampler.draw(np.full(_ROWS, arm), np.full(_ROWS, value), generator)
    values, cells = cell_model_of(problem).gather(columns)
    return values, problem.numbers_of(columns[problem.outcome_node]), cells


def _mean_and_error(terms: Floats) -> tuple[float, float]:
    if len(terms) < 2:
        return math.nan, math.nan
    return float(terms.mean()), float(terms.std(ddof=1)) / math.sqrt(len(terms))
