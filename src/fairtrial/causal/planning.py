"""Planning: the complexity of a problem, and the number of rows that make verdicts certain."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._cell_model import cell_model_of
from fairtrial.causal._functionals import Functionals, knowledge_of
from fairtrial.causal._gaps import contrasts
from fairtrial.causal._information import Items, Outcomes, nearest
from fairtrial.causal._mixtures import mixtures_of
from fairtrial.causal.allocation import Wanted, solve
from fairtrial.causal.environments import NetworkEnvironment
from fairtrial.causal.policies import smallest_budget
from fairtrial.causal.problem import Problem
from fairtrial.confidence.complexity import Complexity
from fairtrial.confidence.cutting_planes import CutsAt, best_shares
from fairtrial.core.keywords import named_arguments
from fairtrial.core.validation import check_error_probability, check_instance
from fairtrial.errors import InvalidArgument

__all__ = ["Budgets", "Complexity", "complexity", "row_budgets"]

Floats = NDArray[np.float64]

_MOST_ROWS = 10**12


_TOLERANCE = 1e-3
_MOST_SECONDS = 20.0
_FLUID_STEPS = 200
_ROUNDING = 1e-9
_LEAST_PART = 1e-9
_NEAR = 1.5
_NOTHING = 1e-15
"""Information below this is a rounding error of a divergence of zero."""

_COINS = "outcomes at one end of their range or the other"
_GRADED = "outcomes that are one of the {} values in the model"


@named_arguments
def complexity(environment: NetworkEnvironment) -> Complexity:
    """Return the complexity T* of finding the best fair arm, and the optimal shares of rows.

    No rule with an error probability of at most delta needs fewer than ``T* kl(delta, 1 - delta)``
    rows on average. This already accounts for rows that inform about several arms.

    Parameters
    ----------
    environment : NetworkEnvironment
        A guess of the environment, with tables only.

    Returns
    -------
    Complexity
        Its `allocation` holds the shares of the actions, by arm and mode.

    Raises
    ------
    ModelError
        If cells cannot be listed, a table is missing, or `BlockBetting` does not accept the
        problem.
    InvalidArgument
        If the outcome has no range.

    Notes
    -----
    For shares w of the actions, the information of a row against another answer is the least
    divergence between the assumed outcomes of the cells and outcomes, on the same values, under
    which that answer would be right. T* is the inverse of the largest minimum of this information
    over all other answers. A rule that is correct for all outcomes in a range is also correct for
    outcomes on these values, so the bound applies to it, too. The distributions of all nodes except
    the outcome count as known: with less knowledge, more rows are needed. Source: Garivier,
    Kaufmann (2016), "Optimal best arm identification with fixed confidence", Theorem 1, with the
    cells of docs/explanation/fair-interventions.md. Solved by cutting planes.

    Examples
    --------
    >>> from fairtrial.causal import chain
    >>> arms = {"a": [[0.5, 0.5], [0.4, 0.6]], "b": [[0.2, 0.8], [0.1, 0.9]]}
    >>> problem, environment = chain(0.4, arms, [0.1, 0.9], fairness_bound=0.2)
    >>> found = complexity(environment)
    >>> found.answer, round(found.lower_bound(0.05))
    ('b', 7)
    """
    problem = check_instance("environment", environment, NetworkEnvironment).problem
    if problem.outcome_range is None:
        raise InvalidArgument("environment", "must have an outcome range", environment)
    known = Functionals(problem, _known_cells(problem))
    outcomes = _place_outcomes(environment, known)
    means, assumes = outcomes.means, _assumed(outcomes)
    answer = environment.truth.best
    reason = _why_undecidable(environment, known, means)
    if reason:
        return Complexity(math.inf, math.inf, math.inf, None, answer, reason, assumes)
    items = _items(problem, known, answer)
    mixtures = mixtures_of(problem)
    if not len(items.rows):
        even = (mixtures.mean(axis=0)).reshape(problem.n_arms, -1)
        return Complexity(0.0, 0.0, 0.0, even, answer, "", assumes)
    if _is_out_of_sight(items, outcomes, mixtures @ known.actions):
        reason = "a gap or a mean depends on cells into which no row that can be drawn falls"
        return Complexity(math.inf, math.inf, math.inf, None, answer, reason, assumes)
    lower, upper, shares = _hardest(items, outcomes, mixtures @ known.actions)
    allocation = (shares.ravel() @ mixtures).reshape(problem.n_arms, -1)
    allocation.setflags(write=False)
    return Complexity(0.5 * (lower + upper), lower, upper, allocation, answer, "", assumes)


def _known_cells(problem: Problem) -> Literal["cells"]:
    knowledge_of(problem, "cells")
    return "cells"


def _place_outcomes(environment: NetworkEnvironment, known: Functionals) -> Outcomes:
    """Return the scaled outcomes of every place."""
    values, chances = environment.cell_outcomes()
    by_cell = chances[: len(known.place_of)].reshape(-1, len(values))
    place = known.place_of.ravel()
    found = np.empty((known.n_places, len(values)))
    found[place[place >= 0]] = by_cell[place >= 0]
    return Outcomes(np.clip(values, 0.0, 1.0), found)


def _assumed(outcomes: Outcomes) -> str:
    are_coins = np.abs(outcomes.values * (1.0 - outcomes.values)).max() <= _ROUNDING
    return _COINS if are_coins else _GRADED.format(len(outcomes.values))


def _why_undecidable(environment: NetworkEnvironment, known: Functionals, means: Floats) -> str:
    """Return why no number of rows suffices (a tie, or a gap on the bound); otherwise ""."""
    problem, answer = environment.problem, environment.truth.best
    quality = known.means @ means
    excess = (known.gaps @ means).max(axis=1, initial=-math.inf) - problem.bound
    labels = _labels(problem, known)
    best = _index(labels, answer)
    if (
        best is not None
        and (problem.bound - (known.gaps[best] @ means)[known.breakable[best]] <= _ROUNDING).any()
    ):
        return f"a gap of the best arm {answer!r} is exactly on the bound"
    for k, own in enumerate(labels):
        is_as_good = best is None or quality[best] - quality[k] <= _ROUNDING
        if k == best or not is_as_good or excess[k] > _ROUNDING:
            continue
        if excess[k] < -_ROUNDING:
            return f"the arms {answer!r} and {own[0]!r} tie for best"
        return f"a gap of {own[0]!r} is exactly on the bound"
    return ""


def _labels(problem: Problem, known: Functionals) -> list[list[str]]:
    """Return the labels of every distinct arm."""
    return [[problem.arm_labels[k] for k in twins] for twins in known.twins]


def _index(labels: list[list[str]], answer: str | None) -> int | None:
    return next((k for k, own in enumerate(labels) if answer in own), None)


def _items(problem: Problem, known: Functionals, answer: str | None) -> Items:
    """Return the claims that must be ruled out before the answer is certain."""
    arms, limits, cells = known.gaps.shape
    best = _index(_labels(problem, known), answer)
    rows, ends = [], []
    for k in range(arms):
        if k == best:
            continue
        behind = np.zeros(cells) if best is None else known.means[best] - known.means[k]
        rows.append(np.concatenate([behind[np.newaxis], known.gaps[k]]))
        # Without a best arm, the first condition is empty.
        ends.append(np.append(1.0 if best is None else 0.0, np.full(limits, problem.bound)))
    if best is not None:
        for gap in known.gaps[best][known.breakable[best]]:
            rows.append(np.concatenate([-gap[np.newaxis], np.zeros((limits, cells))]))
            ends.append(np.append(-problem.bound, np.ones(limits)))
    shape = (len(rows), 1 + limits, cells)
    return Items(np.reshape(rows, shape), np.reshape(ends, shape[:2]))


def _is_out_of_sight(items: Items, outcomes: Outcomes, falls: Floats) -> bool:
    """Return whether changes in cells without rows alone could make another answer right."""
    values, _ = nearest(items, outcomes, falls.mean(axis=0), np.zeros(items.limits.shape))
    return bool(values.min() <= _NOTHING)


def _hardest(items: Items, outcomes: Outcomes, falls: Floats) -> tuple[float, float, Floats]:
    """Return bounds on T* and the shares of the mixtures, whose rows are distributed as `falls`."""
    multipliers = np.zeros(items.limits.shape)

    def cuts_at(shares: Floats) -> tuple[float, Floats]:
        values, divergences = nearest(items, outcomes, shares.ravel() @ falls, multipliers)
        # Cells without rows are not informative, however far their means move.
        cuts = np.where(np.isfinite(divergences), divergences, 0.0) @ falls.T
        near = values <= _NEAR * values.min()
        return 2.0 * float(values.min()), 2.0 * cuts[near][:, :, np.newaxis]

    start = _fluid_shares(cuts_at, len(falls))
    return best_shares(
        cuts_at, start, np.ones(1), _TOLERANCE, _LEAST_PART, max_seconds=_MOST_SECONDS
    )


def _fluid_shares(cuts_at: CutsAt, number: int) -> Floats:
    """Return good shares: each step moves them towards the best mixture for the weakest item."""
    shares = np.full((number, 1), 1.0 / number)
    best, most = shares, 0.0
    for step in range(_FLUID_STEPS):
        information, cuts = cuts_at(shares)
        if information > most:
            best, most = shares, information
        weakest = cuts[np.argmin((cuts * shares).sum(axis=(1, 2)))]
        speed = 1.0 / (8.0 + step)
        shares = shares * ((1.0 - speed) + speed * weakest / (shares * weakest).sum())
        shares = shares / shares.sum()
    return best


@dataclass(frozen=True)
class Budgets:
    """Numbers of rows with which verdicts are possible, and certain.

    Parameters
    ----------
    least_budget : int
        Smallest number of rows with which a phased rule can find any arm fair.
    information : float
        Value of the allocation programme for all arms: information per row.
    certifying_budget : tuple of int or None
        By arm, the number of rows of that allocation after which the Bernstein intervals of the
        arm's gaps are expected to lie on one side of the bound; None if no number is enough.
    delta : float
        The certificates hold together at level 1 - delta.
    allocation : ndarray of shape (K, 1 + values)
        The allocation.

    Examples
    --------
    >>> from fairtrial.causal import chain
    >>> arms = {"on the bound": [[0.75, 0.25], [0.25, 0.75]], "blind": [[0.5, 0.5]] * 2}
    >>> problem, environment = chain(0.4, arms, [0.0, 1.0], fairness_bound=0.5)
    >>> row_budgets(environment).certifying_budget
    (None, 1)
    """

    least_budget: int
    information: float
    certifying_budget: tuple[int | None, ...]
    delta: float
    allocation: Floats


@named_arguments
def row_budgets(environment: NetworkEnvironment, delta: float = 0.05) -> Budgets:
    """Return the numbers of rows that make verdicts certain, in an assumed environment.

    Parameters
    ----------
    environment : NetworkEnvironment
        A guess of the environment, with tables only.
    delta : float
        Level 1 - delta of the certificates.

    Raises
    ------
    ModelError
        If the model does not determine the divergences.
    InvalidArgument
        If there are too many cells to list, or the outcome has no range.
    NotSupported
        If the sensitive attribute has more than four values.

    Notes
    -----
    The budget solves ``sqrt(2 V log(3/d) / T) + 3 b log(3/d) / T = | |gap| - bound |`` with the
    variance V and range b of a row's term, and d = delta divided among all arms' means and gaps;
    see `estimate`.

    Examples
    --------
    >>> from fairtrial.causal import chain
    >>> arms = {"a": [[0.5, 0.5], [0.4, 0.6]], "b": [[0.2, 0.8], [0.1, 0.9]]}
    >>> problem, environment = chain(0.4, arms, [0.1, 0.9], fairness_bound=0.2)
    >>> plan = row_budgets(environment)
    >>> plan.least_budget, plan.certifying_budget
    (10, (84, 84))
    """
    check_error_probability("delta", delta)
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
    return Budgets(smallest_budget(problem.bound), best.value, budgets, delta, best.shares)


def _certifying(variance: Floats, span: Floats, margin: Floats, logarithm: float) -> int | None:
    """Return the number of rows with which every half-width is within its margin."""
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
    """Return variance and range, per row, of a row's term in each gap, shape (pairs, K)."""
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
