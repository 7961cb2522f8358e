"""Estimates of every arm's mean and gaps from rows of all arms, with intervals and verdicts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from fairtrial.causal._cell_model import cell_model_of
from fairtrial.causal._intervals import (
    LEAST_ROWS,
    bernstein_reach,
    least_effective_rows,
    normal_reach,
)
from fairtrial.causal._ledger import LedgerRecords, open_ledger, reweighted
from fairtrial.causal._logs import encode_table
from fairtrial.causal._weighted import ESTIMATORS, Weighted
from fairtrial.causal.contradictions import Contradiction, contradictions
from fairtrial.causal.errors import ContradictedModel, ThinOverlap
from fairtrial.causal.estimates import Estimates, Verdict
from fairtrial.causal.problem import Problem
from fairtrial.core.keywords import named_arguments
from fairtrial.core.recommendation import Guarantee
from fairtrial.core.seeds import as_seed
from fairtrial.core.validation import (
    check_choice,
    check_error_probability,
    check_flag,
    check_instance,
    check_integer,
)
from fairtrial.core.warning import warn_caller
from fairtrial.errors import InvalidArgument

__all__ = ["estimate"]

Floats = NDArray[np.float64]
_LEAST_REPLICATIONS = 200

_STATEMENT = (
    "with probability at least 1 - delta every arm called fair is fair and every arm called "
    "unfair is unfair"
)
_ASSUMPTIONS = (
    "the model's tables are exact",
    "the numbers of rows by arm and forced value were fixed before any outcome was seen",
    "rows are independent, and not selected on anything that the sensitive attribute influences",
    "the sensitive attribute has no unmeasured common cause with what leads to the outcome",
)
_SOURCE = "docs/explanation/counterfactual-fairness.md"


@named_arguments
def estimate(
    problem: Problem,
    rows: Any,
    estimator: str = "sn",
    delta: float = 0.05,
    fixed_allocation: bool = False,
    arm: str = "arm",
    mode: str = "s_mode",
    tables: str = "exact",
    replications: int = 200,
    seed: int | np.random.Generator | None = 0,
) -> Estimates:
    """Return estimates of all arms from a log with rows of any arms.

    Every row informs about every arm, by the weight of its cell under that arm. If the outcome has
    a range, the verdicts always come from the `mis` estimate with Bernstein's inequality. The
    estimates and their normal intervals come from the chosen estimator.

    Parameters
    ----------
    problem : Problem
        The problem.
    rows : mapping of str to sequence, data frame, or sequence of mappings
        One row per observation: the problem's `columns`, the arm, and the mode.
    estimator : {"sn", "mis", "cell"}
        ``"mis"`` weights by the mixture of all rows' sources and is unbiased. ``"sn"`` divides by
        the sum of the weights, which has less variance. ``"cell"`` adds a fitted mean of every
        cell, for tables whose outside parents nothing influences; it compares each row with the
        mean of its cell's other rows, so gaps are not shrunk towards zero.
    delta : float
        The level of the intervals is 1 - delta.
    fixed_allocation : bool
        Whether the numbers of rows by arm and forced value were fixed before any outcome was seen.
        The verdicts are then proven.
    arm, mode : str
        Names of the columns of the arm and of the mode, "natural" or "forced"; without a mode
        column, all rows are natural.
    tables : {"exact", "bootstrap"}
        How to treat the model's tables: as exact, or, in models that `CausalModel.fit` returned, as
        estimates whose uncertainty follows from their counts. All intervals are then wider, and the
        verdicts more cautious.
    replications : int
        Number of models to draw for the bootstrap; at least 200.
    seed : int, numpy.random.Generator or None
        Source of the bootstrap's randomness.

    Raises
    ------
    InvalidArgument
        If a column is missing, or there are no rows.
    InvalidOutcome
        If a value is refused, or a row is impossible under its own arm; the message names the row.
    ModelError
        If the estimator does not suit the model.

    Warns
    -----
    ContradictedModel
        If the rows contradict the model; the verdicts are then not called proven.
    ThinOverlap
        If the rows say too little about an arm for a normal interval.

    Notes
    -----
    The normal intervals are approximate, even if the numbers of rows are fixed. The mixture is that
    of multiple importance sampling: Veach and Guibas 1995, "Optimally combining sampling techniques
    for Monte Carlo rendering", the balance heuristic. The gap is the difference of two means: Gao
    and Feng, section 3, for a root. The variance bound is that of Maurer and Pontil 2009,
    stratified. The ``"cell"`` estimate is augmented inverse probability weighting (Robins,
    Rotnitzky and Zhao 1994), cross-fitted by leaving one row out as in Chernozhukov et al. 2018,
    "Double/debiased machine learning". The bootstrap (Rubin 1981, "The Bayesian bootstrap") assumes
    that the tables were fitted from other rows than those of the log.

    Examples
    --------
    >>> from fairtrial.causal import chain
    >>> arms = {"a": [[0.5, 0.5], [0.4, 0.6]], "b": [[0.2, 0.8], [0.1, 0.9]]}
    >>> problem, environment = chain(0.4, arms, [0.1, 0.9], fairness_bound=0.2)
    >>> log = environment.table([0] * 4000 + [3] * 4000, np.random.default_rng(1))
    >>> result = estimate(problem, log, fixed_allocation=True)
    >>> result.means.round(2), result.verdicts, result.best, result.guarantee.proven
    (array([0.54, 0.79]), ('fair', 'fair'), 'b', True)
    """
    check_instance("problem", problem, Problem)
    check_choice("estimator", estimator, ESTIMATORS)
    check_error_probability("delta", delta)
    check_flag("fixed_allocation", fixed_allocation)
    _check_tables(problem, tables, replications)
    seed = seed if isinstance(seed, np.random.Generator) else as_seed(seed)
    records = records_of(problem, rows, arm, mode)
    spread = None
    if tables == "bootstrap":
        spread = table_spread(problem, records, estimator, replications, seed)
    found = contradictions(problem, records)
    result = estimate_records(problem, records, estimator, delta, fixed_allocation, spread, found)
    warn_of(result)
    return result


def records_of(problem: Problem, rows: Any, arm: str, mode: str) -> LedgerRecords:
    """Return the validated rows of a log as records.

    Raises
    ------
    InvalidArgument
        If a column is missing, or there are no rows.
    InvalidOutcome
        If a value is refused; the message names row and column.
    """
    encoded = encode_table(problem, rows, arm, mode)
    if not len(encoded.arm):
        raise InvalidArgument("rows", "must have at least one row")
    ledger = open_ledger(cell_model_of(problem))
    ledger.add(encoded)
    return ledger.records()


def warn_of(result: Estimates) -> None:
    """Warn if rows contradict the model, or say too little for an interval."""
    if result.contradictions:
        warn_caller(ContradictedModel(result.contradictions))
    labels = result.problem.arm_labels
    few = {
        arm: rows
        for arm, rows in zip(labels, result.effective_rows.tolist(), strict=True)
        if rows < LEAST_ROWS <= result.rows
    }
    if few:
        warn_caller(ThinOverlap(few))


def _check_tables(problem: Problem, tables: str, replications: int) -> None:
    check_choice("tables", tables, ["exact", "bootstrap"])
    check_integer("replications", replications, low=_LEAST_REPLICATIONS)
    if tables == "bootstrap" and not problem.model.counts:
        raise InvalidArgument(
            "tables",
            "must be 'exact' for a model that keeps no counts; see CausalModel.fit",
            tables,
        )


def estimate_records(
    problem: Problem,
    records: LedgerRecords,
    estimator: str,
    delta: float,
    fixed_allocation: bool,
    spread: Spread | None = None,
    contradicted: tuple[Contradiction, ...] = (),
) -> Estimates:
    """Return estimates of all arms from records; see `estimate` for the arguments.

    `spread` holds the standard deviations due to estimated tables, `contradicted` the statements of
    the model that the records contradict.
    """
    own = Weighted(problem, records, estimator)
    exact = own if estimator == "mis" else Weighted(problem, records, "mis")
    normal, bernstein = _reaches(own, exact, delta, spread)
    best, tie = best_fair(problem, own.means, own.gaps)
    return Estimates(
        problem=problem,
        estimator=estimator,
        delta=delta,
        rows=int(records.number.sum()),
        means=problem.unscaled_mean(own.means),
        means_by_value=problem.unscaled_mean(own.by_value),
        gaps=problem.unscaled_gap(own.gaps),
        mean_normal=_interval(problem.unscaled_mean, own.means, normal.means),
        mean_bernstein=_interval(problem.unscaled_mean, exact.means, bernstein.means),
        gaps_normal=_interval(problem.unscaled_gap, own.gaps, normal.gaps),
        gaps_bernstein=_interval(problem.unscaled_gap, exact.gaps, bernstein.gaps),
        verdicts=_verdicts(own, exact, delta, spread),
        guarantee=_guarantee(problem, fixed_allocation, spread is not None, contradicted),
        effective_rows=least_effective_rows(own),
        contradictions=contradicted,
        best=None if best is None else problem.arm_labels[best],
        tie=tie,
    )


class Spread(NamedTuple):
    """A scaled number for every mean, shape (K,), and for every gap, shape (K, pairs)."""

    means: Floats
    gaps: Floats


def _reaches(
    own: Weighted, exact: Weighted, delta: float, spread: Spread | None
) -> tuple[Spread, Spread]:
    """Return half-widths by the normal approximation and by the Bernstein inequality."""
    normal = Spread(*normal_reach(own, delta))
    bernstein = Spread(*bernstein_reach(exact, delta))
    if spread is None:
        return normal, bernstein
    # The normal half-widths combine as squares; the inequality's half-width is simply increased.
    tables = _normal_widths(spread, delta)
    return (
        Spread(np.hypot(normal.means, tables.means), np.hypot(normal.gaps, tables.gaps)),
        Spread(bernstein.means + tables.means, bernstein.gaps + tables.gaps),
    )


def best_fair(problem: Problem, means: Floats, gaps: Floats) -> tuple[int | None, bool]:
    """Return the arm with the largest scaled mean among the fair ones, and whether it is tied."""
    with np.errstate(invalid="ignore"):
        fair = (np.abs(gaps) < problem.bound).all(axis=1) & ~np.isnan(means)
    if not fair.any():
        return None, False
    quality = np.where(fair, means, -np.inf)
    best = int(np.argmax(quality))
    return best, bool((quality == quality[best]).sum() > 1)


def _verdicts(
    own: Weighted, exact: Weighted, delta: float, spread: Spread | None
) -> tuple[Verdict, ...]:
    """Return verdicts that hold together; without a range, they are approximate."""
    problem = own.problem
    together = delta / problem.n_statements
    if problem.outcome_range is None:
        size, reach = np.abs(own.gaps), normal_reach(own, together)[1]
    else:
        size, reach = np.abs(exact.gaps), bernstein_reach(exact, together)[1]
    if spread is not None:
        reach = reach + _normal_widths(spread, together).gaps
    with np.errstate(invalid="ignore"):
        fair = np.asarray((size + reach < problem.bound).all(axis=1))
        unfair = np.asarray((size - reach >= problem.bound).any(axis=1))
    return tuple(
        "fair" if is_fair else "unfair" if is_unfair else "undecided"
        for is_fair, is_unfair in zip(fair.tolist(), unfair.tolist(), strict=True)
    )


def _guarantee(
    problem: Problem,
    fixed_allocation: bool,
    varied: bool,
    contradicted: tuple[Contradiction, ...],
) -> Guarantee:
    has_range = problem.outcome_range is not None
    name = "stratified empirical Bernstein" if has_range else "normal approximation"
    if varied:
        name += ", with bootstrapped tables"
    exact = not problem.model.fitted
    if problem.by_attribute:
        exact = exact and cell_model_of(problem).shares is not None
    proven = fixed_allocation and has_range and exact
    found = Guarantee(name, proven, _STATEMENT, _ASSUMPTIONS, _SOURCE)
    for contradiction in contradicted:
        found = found.weakened(f"the rows contradict the model: {contradiction}")
    return found


def _normal_widths(spread: Spread, delta: float) -> Spread:
    quantile = float(scipy.special.ndtri(1.0 - delta / 2.0))
    return Spread(quantile * spread.means, quantile * spread.gaps)


def table_spread(
    problem: Problem,
    records: LedgerRecords,
    estimator: str,
    replications: int,
    seed: int | np.random.Generator,
) -> Spread:
    """Return standard deviations of means and gaps, over models with redrawn tables."""
    generator = np.random.default_rng(seed)
    means, gaps = [], []
    for _ in range(replications):
        other = problem.clone(model=problem.model.redrawn(generator))
        drawn = Weighted(other, reweighted(records, cell_model_of(other)), estimator)
        means.append(drawn.means)
        gaps.append(drawn.gaps)
    return Spread(np.std(means, axis=0), np.std(gaps, axis=0))


def _interval(unscale: Any, centre: Floats, reach: Floats) -> Floats:
    """Return intervals in the outcome's units, lower end first."""
    ends = np.stack([unscale(centre - reach), unscale(centre + reach)], axis=-1)
    return np.sort(ends, axis=-1)
