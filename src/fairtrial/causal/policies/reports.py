"""Estimates and limits for a policy's progress."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.progress_parts import ValueLimit
from fairtrial.core.recommendation import Estimate

if TYPE_CHECKING:
    from fairtrial.causal._ledger import LedgerRecords
    from fairtrial.causal.estimates import Estimates
    from fairtrial.causal.problem import Problem

Floats = NDArray[np.float64]


def action_estimates(problem: Problem, records: LedgerRecords) -> tuple[Estimate, ...]:
    """Return the number of rows and their mean outcome, by action."""
    modes = len(problem.modes)
    action = records.arm * modes + np.where(records.forced, records.value + 1, 0)
    size = problem.n_actions
    counts = np.bincount(action, weights=records.number, minlength=size)
    totals = np.bincount(action, weights=records.total, minlength=size)
    return tuple(
        Estimate(
            labels=labels,
            pulls=int(counts[place]),
            mean=float(problem.unscaled_mean(totals[place] / counts[place]))
            if counts[place]
            else None,
        )
        for place, labels in enumerate(problem.action_labels)
    )


def arm_estimates(
    problem: Problem, known: Estimates | None, records: LedgerRecords
) -> tuple[Estimate, ...]:
    """Return every arm's mean with an approximate interval, and the number of its own rows."""
    arms = problem.arm_labels
    rows = np.bincount(records.arm, weights=records.number, minlength=len(arms))
    if known is None:
        return tuple(Estimate({"arm": arm}, 0) for arm in arms)
    return tuple(
        Estimate(
            labels={"arm": arm},
            pulls=int(rows[k]),
            mean=_finite(known.means[k]),
            lower=_finite(known.mean_normal[k, 0]),
            upper=_finite(known.mean_normal[k, 1]),
        )
        for k, arm in enumerate(arms)
    )


def shown_pairs(problem: Problem) -> list[int]:
    """Return the indices of the gaps to show: the first of two opposite gaps."""
    pairs = problem.pairs
    return [
        place
        for place, (a, b) in enumerate(pairs)
        if not problem.is_root or pairs.index((b, a)) > place
    ]


def gap_limits(
    problem: Problem, gaps: Floats, evidence: Floats | None = None
) -> tuple[ValueLimit, ...]:
    """Return every arm's gaps with their bound.

    Parameters
    ----------
    problem : Problem
        The problem.
    gaps : ndarray of shape (K, pairs)
        Gaps in the outcome's units; NaN if unknown.
    evidence : ndarray of shape (K, pairs), optional
        The logarithm of the e-value against "the gap is not inside its bound"; infinite if the gap
        cannot be outside.
    """
    rows = []
    for k, arm in enumerate(problem.arm_labels):
        for place in shown_pairs(problem):
            a, b = problem.pairs[place]
            known = 0.0 if evidence is None else float(evidence[k, place])
            rows.append(
                ValueLimit(
                    arm,
                    "counterfactual gap",
                    f"{a} instead of {b}",
                    problem.fairness_bound,
                    value=_finite(gaps[k, place]),
                    log_wealth=known if math.isfinite(known) and known else None,
                    certain=known == math.inf,
                )
            )
    return tuple(rows)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
