"""Divergences between arms: how much a row of one arm says about another arm."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._cell_model import CellModel, cell_model_of
from fairtrial.causal._quadrature import integrated_divergences
from fairtrial.causal._sampling import Sampler
from fairtrial.causal._structure import require_outcome_table
from fairtrial.causal.errors import ModelError
from fairtrial.causal.problem import Problem
from fairtrial.core.keywords import named_arguments
from fairtrial.core.parameters import plain
from fairtrial.core.validation import check_exact_integer, check_instance, check_integer
from fairtrial.core.warning import warn_caller

__all__ = ["Divergences", "divergences"]

Floats = NDArray[np.float64]

_LARGEST = 1e6
_HEAVY = 0.5


@dataclass(frozen=True)
class Divergences:
    """The divergences of a problem's arms.

    Parameters
    ----------
    outcome : ndarray of shape (K, K)
        M: entry (k, j) is large if rows of arm j say little about arm k's mean. At least 1,
        infinite without overlap.
    gap : mapping of (str, str) to ndarray of shape (K, K)
        D for every ordered pair of values (counterfactual, observed) that a gap depends on: like M,
        but for the gap, with rows whose sensitive attribute has the observed value. At least log 2.
    outcome_error : ndarray of shape (K, K)
        Error of M: quadrature error or jackknife error; 0 where M is exact.
    gap_error : mapping of (str, str) to ndarray of shape (K, K)
        Error of D.

    Examples
    --------
    >>> from fairtrial.causal import chain
    >>> arms = {"a": [[1, 0], [1, 0]], "b": [[0.5, 0.5], [0.5, 0.5]]}
    >>> found = divergences(chain(0.4, arms, [0.1, 0.9], fairness_bound=0.2)[0])
    >>> found.outcome, found.outcome_information
    (array([[ 1.,  2.],
           [inf,  1.]]), array([[1. , 0.5],
           [0. , 1. ]]))
    """

    outcome: Floats
    gap: Mapping[tuple[str, str], Floats]
    outcome_error: Floats
    gap_error: Mapping[tuple[str, str], Floats] = field(default_factory=dict)

    @cached_property
    def outcome_information(self) -> Floats:
        """Reciprocals of M, shape (K, K); 0 for values above a million."""
        return _reciprocals(self.outcome)

    @cached_property
    def gap_information(self) -> list[Floats]:
        """Reciprocals of D by pair, each of shape (K, K)."""
        return [_reciprocals(matrix) for matrix in self.gap.values()]

    def to_dict(self) -> dict[str, Any]:
        """Return the divergences as JSON's own types; a pair becomes one key, "a | b"."""
        return {
            "outcome": plain(self.outcome),
            "gap": {f"{a} | {b}": plain(matrix) for (a, b), matrix in self.gap.items()},
        }


@named_arguments
def divergences(problem: Problem, samples: int = 10_000, seed: int = 0) -> Divergences:
    """Return the divergences between the arms of a problem.

    With tables, they are exact, by enumeration in logarithms. With densities of at most two
    real-valued nodes, they are integrated by adaptive quadrature; values above a million count as
    infinite and are replaced by sample means, with an infinite error and a warning. With more such
    nodes, all are sample means over rows drawn from the model, with a jackknife error. That error
    is infinite, with a warning, if a single row contributes more than half of a mean.

    Parameters
    ----------
    problem : Problem
        The problem; its model must contain the distributions of the sensitive attribute and of all
        other nodes that the cells depend on.
    samples : int
        Rows to draw per arm and mode if a sample is needed; at least 100.
    seed : int
        Seed of that sample.

    Raises
    ------
    ModelError
        If the model lacks a necessary distribution.

    Notes
    -----
    Source: Gao and Feng, equations for M and D in section 3; Sen et al. 2017, "Identifying
    best interventions through online importance sampling", definition 2.
    M = log E_k exp(r) with r = P_k/P_j, and D = log(E_{k,a} exp|w| + E_{k,b} exp|w|) with
    w = (P_k(.|a) - P_k(.|b))/P_j(.|b), both under the target arm k.

    Examples
    --------
    >>> from fairtrial.causal import chain
    >>> arms = {"a": [[0.5, 0.3, 0.2], [0.4, 0.3, 0.3]], "b": [[0.2, 0.3, 0.5], [0.1, 0.3, 0.6]]}
    >>> problem, environment = chain(0.4, arms, [0.1, 0.1, 0.9], fairness_bound=0.2)
    >>> divergences(problem).outcome.round(4)
    array([[1.    , 2.8197],
           [1.8097, 1.    ]])
    """
    check_instance("problem", problem, Problem)
    check_integer("samples", samples, low=100)
    check_exact_integer("seed", seed, low=0)
    require_outcome_table(problem)
    key = ("divergences", samples, seed)
    if key not in problem.cache:
        cell_model = cell_model_of(problem)
        if cell_model.shares is None:
            raise ModelError("model", f"must give the distribution of {problem.sensitive!r}")
        if cell_model.is_tabulated:
            problem.cache[key] = _enumerated(problem, cell_model)
        else:
            problem.cache[key] = _with_densities(problem, cell_model, samples, seed)
    found: Divergences = problem.cache[key]
    return found


def _reciprocals(matrix: Floats) -> Floats:
    return np.where(matrix <= _LARGEST, 1.0 / matrix, 0.0)


def _pair_positions(problem: Problem) -> list[tuple[int, int]]:
    place = {label: position for position, label in enumerate(problem.values)}
    return [(place[a], place[b]) for a, b in problem.value_pairs]


# ------------------------------------------------------------------------ enumeration


def _enumerated(problem: Problem, cell_model: CellModel) -> Divergences:
    if cell_model.h is None:
        raise ModelError(
            "model",
            f"must give the distributions of all nodes that lead to {', '.join(cell_model.nodes)}",
        )
    assert cell_model.shares is not None
    weights, common, shares = cell_model.g, cell_model.h, cell_model.shares
    with np.errstate(divide="ignore"):
        log_cells = np.log(weights * common)
        log_h = np.log(common)
        log_shares = np.log(shares)
    outcome = np.array(
        [
            _log_mean_exp(log_cells[k] + log_shares[:, None], _ratio(weights[k], weights))
            for k in range(problem.n_arms)
        ]
    )
    gap = {
        pair: np.array([_gap_row(weights, log_h, k, *positions) for k in range(problem.n_arms)])
        for pair, positions in zip(problem.value_pairs, _pair_positions(problem), strict=True)
    }
    zero = np.zeros_like(outcome)
    return Divergences(outcome, gap, zero, dict.fromkeys(gap, zero))


def _ratio(above: Floats, below: Floats) -> Floats:
    """Return above/below, with 0/0 = 0 and x/0 infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(above == 0.0, 0.0, above / below)


def _gap_row(weights: Floats, log_h: Floats, k: int, a: int, b: int) -> Floats:
    size = _ratio(np.abs(weights[k, a] - weights[k, b]), weights[:, b])
    with np.errstate(divide="ignore"):
        both = np.log(weights[k][[a, b]]) + log_h[b]
    return _log_mean_exp(both, np.broadcast_to(size[:, None], (len(size), *both.shape)))


def _log_mean_exp(log_probability: Floats, exponents: Floats) -> Floats:
    """Return log of the sum of probability times exp(exponent), one for each arm j."""
    happens = log_probability > -np.inf
    terms = np.where(happens, log_probability + np.where(happens, exponents, 0.0), -np.inf)
    flat = terms.reshape(len(exponents), -1)
    top = flat.max(axis=1)
    with np.errstate(invalid="ignore"):
        shifted = np.exp(flat - top[:, None]).sum(axis=1)
    result: Floats = np.where(np.isinf(top), top, top + np.log(shifted))
    return result


# ------------------------------------------------------------------------- quadrature


def _with_densities(
    problem: Problem, cell_model: CellModel, samples: int, seed: int
) -> Divergences:
    found = _integrated(problem)
    if found is None:
        found = _sampled(problem, cell_model, samples, seed)
    elif any(np.isinf(matrix).any() for matrix in (found.outcome, *found.gap.values())):
        found = _stood_in(problem, cell_model, found, samples, seed)
    errors = [found.outcome_error, *found.gap_error.values()]
    if any(np.isinf(error).any() for error in errors):
        warn_caller(
            "a divergence may be infinite: the value comes from a sample and depends mostly on "
            "its largest row, or grows with the size of the sample",
            RuntimeWarning,
        )
    return found


def _stood_in(
    problem: Problem, cell_model: CellModel, found: Divergences, samples: int, seed: int
) -> Divergences:
    """Replace infinite values by those of a sample, with infinite errors.

    Tails that are too heavy for the integral are rarely sampled, so rows are still informative.
    """
    try:
        drawn = _sampled(problem, cell_model, samples, seed)
    except ModelError:
        return found

    def merged(exact: Floats, sample: Floats) -> Floats:
        return np.where(np.isinf(exact), sample, exact)

    def error(exact: Floats, sample: Floats, known: Floats) -> Floats:
        return np.where(np.isinf(exact) & np.isfinite(sample), np.inf, known)

    return Divergences(
        merged(found.outcome, drawn.outcome),
        {pair: merged(found.gap[pair], drawn.gap[pair]) for pair in found.gap},
        error(found.outcome, drawn.outcome, found.outcome_error),
        {
            pair: error(found.gap[pair], drawn.gap[pair], found.gap_error[pair])
            for pair in found.gap
        },
    )


def _integrated(problem: Problem) -> Divergences | None:
    found = integrated_divergences(problem, _LARGEST)
    if found is None:
        return None
    return Divergences(
        found.value[0],
        dict(zip(problem.value_pairs, found.value[1:], strict=True)),
        found.error[0],
        dict(zip(problem.value_pairs, found.error[1:], strict=True)),
    )


# --------------------------------------------------------------------------- sampling


def _sampled(problem: Problem, cell_model: CellModel, samples: int, seed: int) -> Divergences:
    sampler = Sampler(problem, problem.model, problem.model.ancestors(cell_model.nodes))
    generator = np.random.default_rng(seed)
    arms, positions = problem.n_arms, _pair_positions(problem)
    outcome, outcome_error = np.empty((2, arms, arms))
    gap = np.empty((len(positions), arms, arms))
    gap_error = np.empty_like(gap)
    for k in range(arms):
        natural, value = _logs_from(sampler, cell_model, k, -1, samples, generator)
        outcome[k], outcome_error[k] = _sampled_outcome(natural, value, k)
        made = [
            _logs_from(sampler, cell_model, k, mode, samples, generator)[0]
            for mode in range(cell_model.n_values if problem.is_root else 0)
        ]
        for place, (a, b) in enumerate(positions):
            if problem.is_root:
                both = np.concatenate([made[a], made[b]])
                found = _log_means(_gap_sizes(both, k, a, b), samples)
            else:
                found = _observed_gap(natural[value == b], k, a, b)
            gap[place, k], gap_error[place, k] = found
    return Divergences(
        outcome,
        dict(zip(problem.value_pairs, gap, strict=True)),
        outcome_error,
        dict(zip(problem.value_pairs, gap_error, strict=True)),
    )


def _logs_from(
    sampler: Any, cell_model: CellModel, k: int, mode: int, samples: int, generator: Any
) -> tuple[Floats, NDArray[np.int64]]:
    """Return log weights, shape (n, K, values), and values, of rows from one arm and mode."""
    columns = sampler.draw(np.full(samples, k), np.full(samples, mode), generator)
    value, cells = cell_model.gather(columns)
    return cell_model.log_weights(cells), value


def _sampled_outcome(logs: Floats, value: NDArray[np.int64], k: int) -> tuple[Floats, Floats]:
    own_value = np.take_along_axis(logs, value[:, None, None], axis=2)[:, :, 0]
    exponents = np.exp(own_value[:, k, None] - own_value)
    return _log_means(exponents, len(exponents))


def _observed_gap(logs: Floats, k: int, a: int, b: int) -> tuple[Floats, Floats]:
    """Return D and its error from rows of arm k that were observed with b."""
    size = _gap_sizes(logs, k, a, b)
    moved = (logs[:, k, a] - logs[:, k, b])[:, None] + size
    return _log_means(np.concatenate([moved, size]), len(logs))


def _gap_sizes(logs: Floats, k: int, a: int, b: int) -> Floats:
    with np.errstate(over="ignore"):
        at_a = np.exp(logs[:, k, a, None] - logs[:, :, b])
        at_b = np.exp(logs[:, k, b, None] - logs[:, :, b])
    size: Floats = np.abs(at_a - at_b)
    return size


def _log_means(exponents: Floats, samples: int) -> tuple[Floats, Floats]:
    """Return log(sum exp / samples) by column, with its jackknife error."""
    top = exponents.max(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = np.exp(exponents - top)
        total = shares.sum(axis=0)
        value = np.where(np.isinf(top), np.inf, top + np.log(total) - math.log(samples))
        shares = shares / total
        left_out = np.log1p(-shares)
        n = len(exponents)
        error = np.sqrt((n - 1) / n * ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0))
    heavy = ~(shares.max(axis=0) <= _HEAVY)
    return value, np.where(heavy, np.inf, error)
