"""Estimates of every arm's mean and gaps from rows of all arms, with intervals and verdicts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._fragment import encode_table
from fairtrial.causal._ledger import Records, open_ledger, reweighted
from fairtrial.causal._weighted import ESTIMATORS, Weighted
from fairtrial.core.parameters import plain
from fairtrial.core.recommendation import Guarantee
from fairtrial.core.validation import check_choice, check_integer, check_probability
from fairtrial.errors import InvalidArgument

if TYPE_CHECKING:
    from fairtrial.causal.problem import Problem

__all__ = ["ArmEstimate", "Estimates", "Verdict", "estimate"]

Floats = NDArray[np.float64]
_LEAST_REPLICATIONS = 200

Verdict = Literal["fair", "unfair", "undecided"]

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


class ArmEstimate(NamedTuple):
    """What is known of one arm, in the outcome's own units.

    Intervals are pairs (lower, upper), each at level 1 - delta by itself. The gaps are by
    pair (counterfactual value, observed value).
    """

    arm: str
    mean: float
    mean_normal: tuple[float, float]
    mean_bernstein: tuple[float, float]
    means_by_value: dict[str, float]
    gaps: dict[tuple[str, str], float]
    gaps_normal: dict[tuple[str, str], tuple[float, float]]
    gaps_bernstein: dict[tuple[str, str], tuple[float, float]]
    verdict: Verdict


@dataclass(frozen=True)
class Estimates:
    """Estimates of all arms from one log.

    Parameters
    ----------
    problem : Problem
        The problem.
    estimator : {"sn", "mis", "cell"}
        How the estimates were made.
    delta : float
        Every interval's level is 1 - delta; the verdicts hold together at that level.
    rows : int
        Rows in the log.
    means : ndarray of shape (K,)
        Mean outcome by arm; NaN where the log tells nothing of an arm.
    means_by_value : ndarray of shape (K, values)
        Mean outcome by arm and value of the sensitive attribute.
    gaps : ndarray of shape (K, pairs)
        Gap by arm and pair, in the order of ``problem.pairs``.
    mean_normal, mean_bernstein : ndarray of shape (K, 2)
        Intervals of the means: by the normal approximation, and by Bernstein's inequality
        with the `mis` estimate (NaN if the outcome has no range).
    gaps_normal, gaps_bernstein : ndarray of shape (K, pairs, 2)
        Intervals of the gaps.
    verdicts : tuple of {"fair", "unfair", "undecided"}
        By arm, at level 1 - delta for all together.
    guarantee : Guarantee
        What the verdicts stand on.
    best : str or None
        The arm of the best mean among those whose estimated gaps keep the bound.
    tie : bool
        Whether another such arm has exactly the same mean.
    """

    problem: Problem = field(repr=False)
    estimator: str
    delta: float
    rows: int
    means: Floats
    means_by_value: Floats
    gaps: Floats
    mean_normal: Floats
    mean_bernstein: Floats
    gaps_normal: Floats
    gaps_bernstein: Floats
    verdicts: tuple[Verdict, ...]
    guarantee: Guarantee
    best: str | None
    tie: bool

    def __getitem__(self, arm: str) -> ArmEstimate:
        k = self.problem.arm_labels.index(arm)
        pairs = self.problem.pairs
        return ArmEstimate(
            arm=arm,
            mean=float(self.means[k]),
            mean_normal=_ends(self.mean_normal[k]),
            mean_bernstein=_ends(self.mean_bernstein[k]),
            means_by_value=dict(
                zip(self.problem.values, self.means_by_value[k].tolist(), strict=True)
            ),
            gaps=dict(zip(pairs, self.gaps[k].tolist(), strict=True)),
            gaps_normal=dict(zip(pairs, map(_ends, self.gaps_normal[k]), strict=True)),
            gaps_bernstein=dict(zip(pairs, map(_ends, self.gaps_bernstein[k]), strict=True)),
            verdict=self.verdicts[k],
        )

    @property
    def arms(self) -> tuple[ArmEstimate, ...]:
        """The arms' estimates, in the problem's order."""
        return tuple(self[arm] for arm in self.problem.arm_labels)

    def to_dict(self) -> dict[str, Any]:
        """Return the estimates as JSON's own types; NaN becomes None."""
        return {
            "estimator": self.estimator,
            "delta": self.delta,
            "rows": self.rows,
            "best": self.best,
            "tie": self.tie,
            "guarantee": self.guarantee.to_dict(),
            "arms": [
                {
                    "arm": arm.arm,
                    "verdict": arm.verdict,
                    "mean": _number(arm.mean),
                    "mean_normal": list(map(_number, arm.mean_normal)),
                    "mean_bernstein": list(map(_number, arm.mean_bernstein)),
                    "means_by_value": {k: _number(v) for k, v in arm.means_by_value.items()},
                    "gaps": [
                        {
                            "counterfactual": pair[0],
                            "observed": pair[1],
                            "gap": _number(gap),
                            "normal": list(map(_number, arm.gaps_normal[pair])),
                            "bernstein": list(map(_number, arm.gaps_bernstein[pair])),
                        }
                        for pair, gap in arm.gaps.items()
                    ],
                }
                for arm in self.arms
            ],
            "assumptions": plain(_ASSUMPTIONS),
        }


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
    """Return estimates of all arms from a log of rows, whichever arms they came from.

    Every row tells of every arm, by the weight of its cell under that arm. The verdicts
    always come from the `mis` estimate with Bernstein's inequality, where the outcome has a
    range; the estimates and their normal intervals from the estimator that is asked for.

    Parameters
    ----------
    problem : Problem
        The problem.
    rows : mapping of str to sequence, pandas.DataFrame, or sequence of mappings
        One row per observation: the problem's `columns`, the arm, and the mode.
    estimator : {"sn", "mis", "cell"}
        ``"mis"`` weighs by the mixture of all rows' sources and is unbiased; ``"sn"`` divides
        by the sum of the weights, which has less variance; ``"cell"`` adds a fitted mean of
        every cell, for tables whose outside parents nothing influences.
    delta : float
        1 - delta is the level of the intervals.
    fixed_allocation : bool
        Say that the numbers of rows by arm and forced value were fixed before any outcome
        was seen: the verdicts are then proven.
    arm, mode : str
        Names of the columns of the arm and of the mode, "natural" or "forced"; without
        a column of that name all rows are natural.
    tables : {"exact", "bootstrap"}
        How the model's tables are taken: as exact, or as estimates that vary by as much as
        the counts behind them allow, in models that `CausalModel.fit` returned. All intervals
        are then wider, and the verdicts more careful.
    replications : int
        Number of models drawn for the bootstrap; at least 200.
    seed : int, numpy.random.Generator or None
        Source of the bootstrap's randomness.

    Returns
    -------
    Estimates

    Raises
    ------
    InvalidArgument
        If a column is missing or there is no row.
    InvalidOutcome
        If a value is refused, or a row cannot happen under its own arm; the row is named.
    ModelError
        If the estimator does not suit the model.

    Notes
    -----
    The mixture is that of multiple importance sampling: Veach and Guibas 1995, "Optimally
    combining sampling techniques for Monte Carlo rendering", the balance heuristic. The gap
    is the difference of two means: Gao and Feng, section 3, for a root. The variance bound
    is that of Maurer and Pontil 2009, stratified. The bootstrap takes the rows that the
    tables were fitted from as others than those of the log: Rubin 1981, "The Bayesian
    bootstrap".

    Examples
    --------
    >>> from fairtrial.causal import chain
    >>> arms = {"a": [[0.5, 0.5], [0.4, 0.6]], "b": [[0.2, 0.8], [0.1, 0.9]]}
    >>> problem, world = chain(0.4, arms, [0.1, 0.9], fairness_bound=0.2)
    >>> log = world.table([0] * 4000 + [3] * 4000, np.random.default_rng(1))
    >>> result = estimate(problem, log, fixed_allocation=True)
    >>> result.means.round(2), result.verdicts, result.best, result.guarantee.proven
    (array([0.54, 0.79]), ('fair', 'fair'), 'b', True)
    """
    check_choice("estimator", estimator, ESTIMATORS)
    check_probability("delta", delta)
    check_choice("tables", tables, ["exact", "bootstrap"])
    if not isinstance(fixed_allocation, bool):
        raise InvalidArgument("fixed_allocation", "must be True or False", fixed_allocation)
    check_integer("replications", replications, low=_LEAST_REPLICATIONS)
    if tables == "bootstrap" and not problem.model.counts:
        raise InvalidArgument(
            "tables",
            "must be 'exact' for a model that keeps no counts; see CausalModel.fit",
            tables,
        )
    encoded = encode_table(problem, rows, arm, mode)
    if not len(encoded.arm):
        raise InvalidArgument("rows", "must have at least one row")
    ledger = open_ledger(problem.fragment)
    ledger.add(encoded)
    records = ledger.records()
    spread = None
    if tables == "bootstrap":
        spread = table_spread(problem, records, estimator, replications, seed)
    return estimate_records(problem, records, estimator, delta, fixed_allocation, spread)


def estimate_records(
    problem: Problem,
    records: Records,
    estimator: str,
    delta: float,
    fixed_allocation: bool,
    spread: tuple[Floats, Floats] | None = None,
) -> Estimates:
    """Return estimates of all arms from records; the arguments are those of `estimate`.

    `spread` holds the standard deviations of means, shape (K,), and gaps, shape (K, pairs),
    that come from estimated tables.
    """
    own = Weighted(problem, records, estimator)
    exact = Weighted(problem, records, "mis") if estimator != "mis" else own
    means, by_value, gaps = own.means, own.by_value, own.gaps
    normal = own.normal_reach(delta)
    bernstein = exact.bernstein_reach(delta)
    together = delta / problem.n_statements
    has_range = problem.outcome_range is not None
    reach = exact.bernstein_reach(together)[1] if has_range else own.normal_reach(together)[1]
    if spread is not None:
        # The normal approximations add in squares; to the inequality's width it just adds.
        tables = _normal_widths(spread, delta)
        normal = np.hypot(normal[0], tables[0]), np.hypot(normal[1], tables[1])
        bernstein = bernstein[0] + tables[0], bernstein[1] + tables[1]
        reach = reach + _normal_widths(spread, together)[1]
    verdicts = _verdicts(problem, exact.gaps if has_range else gaps, reach)
    best, tie = best_fair(problem, means, gaps)
    return Estimates(
        problem=problem,
        estimator=estimator,
        delta=delta,
        rows=int(records.number.sum()),
        means=problem.unscaled_mean(means),
        means_by_value=problem.unscaled_mean(by_value),
        gaps=problem.unscaled_gap(gaps),
        mean_normal=_sorted_ends(problem.unscaled_mean, means, normal[0]),
        mean_bernstein=_sorted_ends(problem.unscaled_mean, exact.means, bernstein[0]),
        gaps_normal=_sorted_ends(problem.unscaled_gap, gaps, normal[1]),
        gaps_bernstein=_sorted_ends(problem.unscaled_gap, exact.gaps, bernstein[1]),
        verdicts=verdicts,
        guarantee=_guarantee(problem, fixed_allocation, has_range, spread is not None),
        best=None if best is None else problem.arm_labels[best],
        tie=tie,
    )


def best_fair(problem: Problem, means: Floats, gaps: Floats) -> tuple[int | None, bool]:
    """Return the arm of the largest scaled mean among the fair ones, and whether it is tied."""
    with np.errstate(invalid="ignore"):
        fair = (np.abs(gaps) < problem.bound).all(axis=1) & ~np.isnan(means)
    if not fair.any():
        return None, False
    quality = np.where(fair, means, -np.inf)
    best = int(np.argmax(quality))
    return best, bool((quality == quality[best]).sum() > 1)


def _verdicts(problem: Problem, gaps: Floats, reach: Floats) -> tuple[Verdict, ...]:
    size = np.abs(gaps)
    with np.errstate(invalid="ignore"):
        fair = np.asarray((size + reach < problem.bound).all(axis=1))
        unfair = np.asarray((size - reach >= problem.bound).any(axis=1))
    return tuple(
        "fair" if is_fair else "unfair" if is_unfair else "undecided"
        for is_fair, is_unfair in zip(fair.tolist(), unfair.tolist(), strict=True)
    )


def _guarantee(
    problem: Problem, fixed_allocation: bool, has_range: bool, varied: bool
) -> Guarantee:
    name = "stratified empirical Bernstein" if has_range else "normal approximation"
    if varied:
        name += ", with bootstrapped tables"
    exact = not problem.model.fitted
    if problem.by_attribute:
        exact = exact and problem.fragment.shares is not None
    proven = fixed_allocation and has_range and exact
    return Guarantee(name, proven, _STATEMENT, _ASSUMPTIONS, _SOURCE)


def _normal_widths(spread: tuple[Floats, Floats], delta: float) -> tuple[Floats, Floats]:
    from scipy.special import ndtri

    quantile = float(ndtri(1.0 - delta / 2.0))
    return quantile * spread[0], quantile * spread[1]


def table_spread(
    problem: Problem, records: Records, estimator: str, replications: int, seed: Any
) -> tuple[Floats, Floats]:
    """Return standard deviations of means and gaps over models with redrawn tables."""
    generator = np.random.default_rng(seed)
    means, gaps = [], []
    for _ in range(replications):
        other = problem.clone(model=problem.model.redrawn(generator))
        drawn = Weighted(other, reweighted(records, other.fragment), estimator)
        means.append(drawn.means)
        gaps.append(drawn.gaps)
    return np.std(means, axis=0), np.std(gaps, axis=0)


def _sorted_ends(unscale: Any, centre: Floats, reach: Floats) -> Floats:
    ends = np.stack([unscale(centre - reach), unscale(centre + reach)], axis=-1)
    return np.sort(ends, axis=-1)


def _ends(pair: Floats) -> tuple[float, float]:
    return float(pair[0]), float(pair[1])


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def details_of(estimates: Estimates) -> Mapping[str, Any]:
    """Return what a policy's progress shows of the estimates."""
    return {
        "gaps": {
            f"{a} | {b}": [_number(value) for value in estimates.gaps[:, place].tolist()]
            for place, (a, b) in enumerate(estimates.problem.pairs)
        },
        "verdicts": dict(zip(estimates.problem.arm_labels, estimates.verdicts, strict=True)),
    }
