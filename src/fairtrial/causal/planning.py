"""Planning: how many rows a question needs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._cell_model import cell_model_of
from fairtrial.causal._gaps import contrasts
from fairtrial.causal.allocation import Wanted, solve
from fairtrial.causal.environments import NetworkEnvironment
from fairtrial.causal.policies import smallest_budget
from fairtrial.core.validation import check_instance, check_probability
from fairtrial.errors import InvalidArgument

__all__ = ["Complexity", "complexity"]

Floats = NDArray[np.float64]

_MOST_ROWS = 10**12


@dataclass(frozen=True)
class Complexity:
    """How hard a question is.

    Parameters
    ----------
    least_budget : int
        Fewest rows with which a phased rule can find any arm fair.
    information : float
        Value of the allocation programme for all arms: information per row.
    certifying_budget : tuple of int or None
        By arm: rows drawn by that allocation with which the Bernstein interval of the arm's
        gaps is expected to lie on one side of the bound; None if no number of rows will do.
    delta : float
        The certificates hold together at level 1 - delta.
    allocation : ndarray of shape (K, 1 + values)
        The allocation.

    Examples
    --------
    >>> from fairtrial.causal import chain
    >>> arms = {"on the bound": [[0.75, 0.25], [0.25, 0.75]], "blind": [[0.5, 0.5]] * 2}
    >>> problem, environment = chain(0.4, arms, [0.0, 1.0], fairness_bound=0.5)
    >>> complexity(environment).certifying_budget
    (None, 1)
    """

    least_budget: int
    information: float
    certifying_budget: tuple[int | None, ...]
    delta: float
    allocation: Floats


def complexity(environment: NetworkEnvironment, delta: float = 0.05) -> Complexity:
    """Return how many rows a question needs, in an environment whose truth is known.

    Parameters
    ----------
    environment : NetworkEnvironment
        A guess of the environment, with tables only.
    delta : float
        Level 1 - delta of the certificates.

    Raises
    ------
    ModelError
        If the model does not tell the divergences.
    InvalidArgument
        If the cells are too many to be listed, or the outcome has no range.
    NotSupported
        If the sensitive attribute has more than four values.

    Notes
    -----
    The budget solves sqrt(2 V log(3/d) / T) + 3 b log(3/d) / T = | |gap| - bound | with the
    variance V and range b of a row's term per row, and d = delta shared by all arms' means
    and gaps; see `estimate`.

    Examples
    --------
    >>> from fairtrial.causal import chain
    >>> arms = {"a": [[0.5, 0.5], [0.4, 0.6]], "b": [[0.2, 0.8], [0.1, 0.9]]}
    >>> problem, environment = chain(0.4, arms, [0.1, 0.9], fairness_bound=0.2)
    >>> plan = complexity(environment)
    >>> plan.least_budget, plan.certifying_budget
    (10, (84, 84))
    """
    check_probability("delta", delta)
    problem = check_instance("environment", environment, NetworkEnvironment).problem
    if problem.outcome_range is None or not cell_model_of(problem).is_tabulated:
        raise InvalidArgument(
            "environment", "must have an outcome range and cells that can be listed", environment
        )
    everyone = np.ones(problem.n_arms, dtype=bool)
    best = solve(problem, everyone, Wanted(True, tuple(range(len(problem.value_pairs))), True))
    variance, span = _per_row(environment, best.shares)
    truth = environment.truth
    by_pair = [np.abs(gap) / problem.width for gap in truth.gaps.values()]
    margin = np.abs(np.array(by_pair).reshape(len(by_pair), -1) - problem.bound)
    together = delta / problem.n_statements
    budgets = tuple(
        _certifying(variance[:, k], span[:, k], margin[:, k], math.log(3.0 / together))
        for k in range(problem.n_arms)
    )
    return Complexity(smallest_budget(problem.bound), best.value, budgets, delta, best.shares)


def _certifying(variance: Floats, span: Floats, margin: Floats, logarithm: float) -> int | None:
    """Return the rows with which every half-width is within its margin."""
    needed = 0.0
    for v, b, m in zip(variance, span, margin, strict=True):
        if not (m > 0.0 and math.isfinite(v) and math.isfinite(b)):
            return None
        # sqrt(p / T) + q / T = m is a quadratic in 1 / sqrt(T).
        p, q = 2.0 * v * logarithm, 3.0 * b * logarithm
        root = (math.sqrt(p) + math.sqrt(p + 4.0 * q * m)) / (2.0 * m)
        needed = max(needed, root * root)
    return max(1, math.ceil(needed)) if needed <= _MOST_ROWS else None


def _per_row(environment: NetworkEnvironment, shares: Floats) -> tuple[Floats, Floats]:
    """Return variance and range of a row's term of each gap, shape (pairs, K), by row drawn."""
    problem, cell_model = environment.problem, cell_model_of(environment.problem)
    assert cell_model.h is not None
    assert cell_model.shares is not None
    source = shares[:, :1] * cell_model.shares
    if problem.forcing == "allowed":
        source = source + shares[:, 1:]
    group = cell_model.group(np.arange(cell_model.n_values))
    mixture = np.zeros((cell_model.n_groups, cell_model.n_cells))
    np.add.at(mixture, group, np.einsum("ku,kuz->uz", source, cell_model.g))
    with np.errstate(invalid="ignore", divide="ignore"):
        weights = cell_model.g[:, :, None, :] / mixture
    common = np.zeros_like(mixture)
    np.maximum.at(common, group, cell_model.h)
    lost = (mixture == 0.0) & (cell_model.g[:, :, None, :] > 0.0) & (common > 0.0)
    weights = np.where(mixture * common > 0.0, weights, 0.0)
    terms = np.einsum("pao,kaoz->pkoz", contrasts(problem, cell_model.shares), weights)
    first, second = environment.cell_moments()
    variances = np.zeros(terms.shape[:2])
    for j, u in np.argwhere(source > 0.0):
        cell = cell_model.g[j, u] * cell_model.h[u]
        term = terms[:, :, group[u]]
        mean = term @ (cell * first[u])
        variances += source[j, u] * (term**2 @ (cell * second[u]) - mean**2)
    variances[:, lost.any(axis=(1, 2, 3))] = np.inf
    spans = terms.max(axis=(2, 3), initial=0.0) - terms.min(axis=(2, 3), initial=0.0)
    return variances, spans
