"""Estimates of the phased rules: importance sampling with clipped ratios between arms."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._cell_model import cell_model_of
from fairtrial.causal._gaps import mixing
from fairtrial.causal.divergences import divergences

if TYPE_CHECKING:
    from fairtrial.causal._ledger import LedgerRecords
    from fairtrial.causal.problem import Problem

Floats = NDArray[np.float64]


class Clipped:
    """Estimates of the phased rules, from clipped ratios for the rows of each arm.

    Source: Gao and Feng, equations 3 and 4; `clip` is the factor of M and D.
    """

    def __init__(self, problem: Problem, records: LedgerRecords, clip: float) -> None:
        self.problem = problem
        self.records = records
        self.clip = clip
        self.known = divergences(problem)

    def means(self) -> Floats:
        """Return the mean outcome by arm, shape (K,); NaN without information."""
        rows = np.flatnonzero(~self.records.forced)
        ratio = self.records.ratio[rows, :, self.records.value[rows]]
        return self._average(rows, ratio, self.known.outcome, self.known.outcome_information)

    def gaps(self, pair: int, pool_natural: bool) -> Floats:
        """Return one pair's gap by arm, shape (K,); NaN without information."""
        weights = self._mixing[pair]
        total = np.zeros(self.problem.n_arms)
        for place in np.flatnonzero(weights):
            total += weights[place] * self._value_gaps(int(place), pool_natural)
        return total

    @cached_property
    def _mixing(self) -> Floats:
        shares = cell_model_of(self.problem).shares
        assert shares is not None
        return mixing(self.problem, shares)

    def _value_gaps(self, place: int, pool_natural: bool) -> Floats:
        pair = self.problem.value_pairs[place]
        a, b = (self.problem.values.index(value) for value in pair)
        observed = self.records.value == b
        rows = np.flatnonzero(observed if pool_natural else observed & self.records.forced)
        ratio = self.records.ratio[rows, :, a] - self.records.ratio[rows, :, b]
        divergence = self.known.gap[pair]
        return self._average(rows, ratio, divergence, self.known.gap_information[place])

    def _average(
        self, rows: NDArray[np.int64], ratio: Floats, divergence: Floats, information: Floats
    ) -> Floats:
        source = self.records.arm[rows]
        kept = np.abs(ratio) <= (self.clip * divergence.T)[source]
        terms = np.where(kept, ratio, 0.0) * information.T[source]
        total = self.records.total[rows] @ terms
        numbers = np.bincount(
            source, weights=self.records.number[rows], minlength=self.problem.n_arms
        )
        norm = information @ numbers
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(norm > 0.0, total / norm, np.nan)
