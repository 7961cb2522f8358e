"""Reported estimates of every arm: means, gaps, intervals and verdicts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._intervals import LEAST_ROWS
from fairtrial.causal.contradictions import Contradiction
from fairtrial.core.parameters import plain
from fairtrial.core.recommendation import Guarantee
from fairtrial.core.validation import index_of

if TYPE_CHECKING:
    from fairtrial.causal.problem import Problem

__all__ = ["ArmEstimate", "Estimates", "Verdict"]

Floats = NDArray[np.float64]

Verdict = Literal["fair", "unfair", "undecided"]


class ArmEstimate(NamedTuple):
    """Estimates of one arm, in the outcome's units.

    Intervals are pairs (lower, upper), each at its own level 1 - delta. The normal ones are
    approximate. They are NaN if there are none; `without_interval` then says why. The gaps are by
    pair (counterfactual value, observed value). `effective_rows` is the number of the arm's own
    rows that would say as much as all rows say about its least-known quantity.
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
    effective_rows: float
    without_interval: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return the arm's estimates as JSON types; NaN and missing intervals become None."""
        return {
            "arm": self.arm,
            "verdict": self.verdict,
            "effective_rows": _number(self.effective_rows),
            "without_interval": self.without_interval,
            "mean": _number(self.mean),
            "mean_normal": _interval(self.mean_normal),
            "mean_bernstein": _interval(self.mean_bernstein),
            "means_by_value": {k: _number(v) for k, v in self.means_by_value.items()},
            "gaps": [
                {
                    "counterfactual": pair[0],
                    "observed": pair[1],
                    "gap": _number(gap),
                    "normal": _interval(self.gaps_normal[pair]),
                    "bernstein": _interval(self.gaps_bernstein[pair]),
                }
                for pair, gap in self.gaps.items()
            ],
        }


@dataclass(frozen=True)
class Estimates:
    """Estimates of all arms from one log.

    Parameters
    ----------
    problem : Problem
        The problem.
    estimator : {"sn", "mis", "cell"}
        The estimator that was used.
    delta : float
        Every interval has level 1 - delta; all verdicts together hold at that level.
    rows : int
        Rows in the log.
    means : ndarray of shape (K,)
        Mean outcome by arm; NaN if the log says nothing about an arm.
    means_by_value : ndarray of shape (K, values)
        Mean outcome by arm and value of the sensitive attribute.
    gaps : ndarray of shape (K, pairs)
        Gap by arm and pair, in the order of ``problem.pairs``.
    mean_normal, mean_bernstein : ndarray of shape (K, 2)
        Intervals of the means: by the normal approximation (approximate; NaN for fewer than 30
        effective rows), and by Bernstein's inequality with the `mis` estimate (NaN if the
        outcome has no range).
    gaps_normal, gaps_bernstein : ndarray of shape (K, pairs, 2)
        Intervals of the gaps.
    verdicts : tuple of {"fair", "unfair", "undecided"}
        Verdict by arm, at level 1 - delta for all together.
    guarantee : Guarantee
        The basis of the verdicts.
    effective_rows : ndarray of shape (K,)
        Number of each arm's own rows that would say as much as all rows say about its least-known
        quantity; see `fairtrial.causal.estimate`.
    contradictions : tuple of Contradiction
        Statements of the model that the rows contradict; if there are any, the verdicts are not
        proven.
    best : str or None
        The arm with the best mean among those whose estimated gaps are within the bound.
    tie : bool
        Whether another such arm has exactly the same mean.

    Examples
    --------
    >>> from fairtrial.causal import chain, estimate
    >>> problem, environment = chain(0.4, {"a": [[0.5, 0.5], [0.4, 0.6]]}, [0.1, 0.9], 0.2)
    >>> found = estimate(problem, environment.table([0] * 400, np.random.default_rng(1)))
    >>> found["a"].verdict, found["a"].mean_normal[0] < 0.55 < found["a"].mean_normal[1]
    ('fair', True)
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
    effective_rows: Floats
    contradictions: tuple[Contradiction, ...]
    best: str | None
    tie: bool

    def __getitem__(self, arm: str) -> ArmEstimate:
        """Return the estimates of one arm.

        Raises
        ------
        InvalidArgument
            If there is no such arm.
        """
        k = index_of("arm", arm, self.problem.arm_labels)
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
            effective_rows=float(self.effective_rows[k]),
            without_interval=self._reason(k),
        )

    def _reason(self, k: int) -> str | None:
        """Return why an arm has no normal interval; None if it has one."""
        ends = np.append(self.mean_normal[k].ravel(), self.gaps_normal[k].ravel())
        if not np.isnan(ends).any():
            return None
        if np.isnan(self.means[k]):
            return "no row is informative about the arm"
        if self.rows < LEAST_ROWS:
            return f"there are only {self.rows} rows; {LEAST_ROWS} are needed"
        return (
            f"all rows together are worth {self.effective_rows[k]:.2g} rows of its own; "
            f"{LEAST_ROWS} are needed"
        )

    @property
    def arms(self) -> tuple[ArmEstimate, ...]:
        """The arms' estimates, in the problem's order."""
        return tuple(self[arm] for arm in self.problem.arm_labels)

    def to_dict(self) -> dict[str, Any]:
        """Return the estimates as JSON types; NaN becomes None."""
        return {
            "estimator": self.estimator,
            "delta": self.delta,
            "rows": self.rows,
            "best": self.best,
            "tie": self.tie,
            "guarantee": self.guarantee.to_dict(),
            "contradictions": [
                {"statement": found.statement, "p_value": found.p_value}
                for found in self.contradictions
            ],
            "arms": [arm.to_dict() for arm in self.arms],
            "assumptions": plain(self.guarantee.assumptions),
        }


def details_of(estimates: Estimates) -> Mapping[str, Any]:
    """Return the estimates in the form that a policy's progress shows."""
    return {
        "gaps": {
            f"{a} | {b}": [_number(value) for value in estimates.gaps[:, place].tolist()]
            for place, (a, b) in enumerate(estimates.problem.pairs)
        },
        "verdicts": dict(zip(estimates.problem.arm_labels, estimates.verdicts, strict=True)),
    }


def _ends(pair: Floats) -> tuple[float, float]:
    return float(pair[0]), float(pair[1])


def _interval(ends: tuple[float, float]) -> list[float] | None:
    return list(ends) if all(map(math.isfinite, ends)) else None


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
