"""The plug-in estimates: rows weighted by the mixture of where all rows came from."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._gaps import applied, contrasts, mean_direction, own_values
from fairtrial.causal.errors import ModelError

if TYPE_CHECKING:
    from fairtrial.causal._fragment import Fragment
    from fairtrial.causal._ledger import Records
    from fairtrial.causal.problem import Problem

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ESTIMATORS = ("sn", "mis", "cell")

_PRIOR = 0.5
_FEWEST_FOR_NORMAL = 30
_FEW = 2


class Weighted:
    """The plug-in estimates: every row weighted by the mixture of where rows came from.

    All numbers are scaled: outcomes from 0 to 1, large is good. If the sensitive attribute
    is a root all rows are one group; else those observed with each value are a group, with
    a mixture of their own, and tell of what another value would have made of that group.
    """

    def __init__(self, problem: Problem, records: Records, estimator: str) -> None:
        self.problem = problem
        self.records = records
        self.estimator = estimator
        self.fragment: Fragment = problem.fragment
        if estimator == "cell":
            require_cell_estimator(problem)
        counts = np.zeros((problem.n_arms, self.fragment.n_values))
        np.add.at(counts, (records.arm, records.value), records.number)
        self.counts = counts
        self.group = self.fragment.group(records.value)
        if problem.is_root:
            mixture = np.einsum("nku,ku->n", records.ratio, counts)
        else:
            own = records.ratio[np.arange(len(self.group)), :, self.group]
            mixture = np.einsum("nk,kn->n", own, counts[:, self.group])
        self.weights = records.ratio / mixture[:, None, None]

    # -------------------------------------------------------------------- estimates

    @cached_property
    def shares(self) -> Floats:
        """Probability of every value of the sensitive attribute, shape (values,)."""
        if self.fragment.shares is not None:
            return self.fragment.shares
        natural = self.records.pick(~self.records.forced)
        counts = np.bincount(
            natural.value, weights=natural.number, minlength=self.fragment.n_values
        )
        if counts.sum() == 0:
            raise ModelError(
                "model",
                f"must give the distribution of {self.problem.sensitive!r}: there is no natural "
                "row to estimate it from",
            )
        return np.asarray(counts / counts.sum())

    @cached_property
    def effects(self) -> Floats:
        """Mean by arm, value and observed group, shape (K, values, groups); NaN if unknown."""
        sums = self._by_group(self.records.total)
        if self.estimator == "sn":
            with np.errstate(invalid="ignore", divide="ignore"):
                sums = sums / self._weight_sums
        elif self.estimator == "cell":
            sums = self._model_part() + self._by_group(self._residuals)
        return np.where(self.informed[:, None, None], sums, np.nan)

    def _by_group(self, amounts: Floats) -> Floats:
        """Return the sums of amounts times weights, shape (K, values, groups)."""
        if self.fragment.n_groups == 1:
            return np.asarray(np.einsum("n,nku->ku", amounts, self.weights)[:, :, None])
        parts = [
            np.einsum("n,nku->ku", np.where(self.group == group, amounts, 0.0), self.weights)
            for group in range(self.fragment.n_groups)
        ]
        return np.stack(parts, axis=2)

    @property
    def by_value(self) -> Floats:
        """Mean outcome by arm and value, shape (K, values): of the group as it is."""
        return own_values(self.problem, self.effects)

    @cached_property
    def means(self) -> Floats:
        """Mean outcome by arm, shape (K,)."""
        return applied(self._mean_direction, self.effects)[:, 0]

    @cached_property
    def gaps(self) -> Floats:
        """Gap by arm and pair, shape (K, pairs)."""
        return applied(self._contrasts, self.effects)

    @cached_property
    def _mean_direction(self) -> Floats:
        return mean_direction(self.problem, self.shares)

    @cached_property
    def _contrasts(self) -> Floats:
        return contrasts(self.problem, self.shares)

    @cached_property
    def _weight_sums(self) -> Floats:
        return self._by_group(self.records.number)

    @cached_property
    def informed(self) -> NDArray[np.bool_]:
        """Whether every cell that can occur under an arm can occur in the rows, shape (K,)."""
        if not self.fragment.is_tabulated:
            return np.asarray(self._weight_sums.min(axis=(1, 2)) > 0.0)
        informed = np.ones(self.problem.n_arms, dtype=bool)
        missing = (self._cell_mixture == 0.0) & self._possible
        for group in missing:
            # A value that nobody has counts too: gaps ask what it would have made of others.
            informed &= ~((self.fragment.g > 0.0) & group).any(axis=(1, 2))
        return informed

    @cached_property
    def _cell_mixture(self) -> Floats:
        """Expected number of rows by group and cell, but for the common part."""
        if self.fragment.n_groups == 1:
            return np.asarray(np.einsum("ku,kuz->z", self.counts, self.fragment.g)[None])
        return np.asarray(np.einsum("ku,kuz->uz", self.counts, self.fragment.g))

    @cached_property
    def _possible(self) -> NDArray[np.bool_]:
        """Whether a cell can occur, shape (groups, cells)."""
        common = self.fragment.h
        if common is None:
            return np.ones((self.fragment.n_groups, self.fragment.n_cells), dtype=bool)
        return np.asarray(common[: self.fragment.n_groups] > 0.0)

    # --------------------------------------------------------- the cells' own means

    @cached_property
    def _cell_means(self) -> Floats:
        """Mean outcome by group and cell, shrunk to the overall mean."""
        counts = self._cell_sums(self.records.number)
        totals = self._cell_sums(self.records.total)
        overall = self.records.total.sum() / max(self.records.number.sum(), 1.0)
        return np.asarray((totals + _PRIOR * overall) / (counts + _PRIOR))

    def _cell_sums(self, amounts: Floats) -> Floats:
        groups, cells = self.fragment.n_groups, self.fragment.n_cells
        place = self.group * cells + self.records.cells
        sums = np.zeros(groups * cells)
        np.add.at(sums, place, amounts)
        return sums.reshape(groups, cells)

    @cached_property
    def _row_means(self) -> Floats:
        return np.asarray(self._cell_means[self.group, self.records.cells])

    @property
    def _residuals(self) -> Floats:
        return np.asarray(self.records.total - self.records.number * self._row_means)

    def _model_part(self) -> Floats:
        """Return the mean of the cells' means under every arm and value, by group."""
        places = np.unravel_index(np.arange(self.fragment.n_cells), self.fragment.shape)
        outside = np.zeros(self.fragment.n_cells, dtype=np.int64)
        for node in _outside(self.problem):
            axis = self.fragment.nodes.index(node)
            outside = outside * self.fragment.shape[axis] + places[axis]
        numbers = self._cell_sums(self.records.number)
        parts = []
        for group, means in enumerate(self._cell_means):
            counts = np.bincount(outside, weights=numbers[group])
            common = counts[outside] / max(numbers[group].sum(), 1.0)
            parts.append(np.einsum("kuz,z->ku", self.fragment.g, common * means))
        return np.stack(parts, axis=2)

    # -------------------------------------------------------------------- intervals

    def normal_reach(self, delta: float) -> tuple[Floats, Floats]:
        """Return half-widths by the normal approximation: means (K,), gaps (K, pairs).

        They are NaN for fewer rows than such an approximation can be trusted with.
        """
        from scipy.special import ndtri

        if self.records.number.sum() < _FEWEST_FOR_NORMAL:
            return (
                np.full(self.problem.n_arms, np.nan),
                np.full((self.problem.n_arms, len(self.problem.pairs)), np.nan),
            )
        quantile = float(ndtri(1.0 - delta / 2.0))
        means, gaps = (quantile * np.sqrt(v) for v in self._variances(self._linear()))
        return means, gaps

    def bernstein_reach(self, delta: float) -> tuple[Floats, Floats]:
        """Return half-widths by the empirical Bernstein inequality, for the `mis` estimate."""
        if self.problem.outcome_range is None:
            nothing = np.full((self.problem.n_arms, len(self.problem.pairs)), np.nan)
            return np.full(self.problem.n_arms, np.nan), nothing
        logarithm = math.log(3.0 / delta)
        spans = self._spans(self._mean_direction)[:, 0], self._spans(self._contrasts)
        variances = self._variances(self._linear(), spans)
        means, gaps = (
            np.sqrt(2.0 * variance * logarithm) + 3.0 * span * logarithm
            for variance, span in zip(variances, spans, strict=True)
        )
        return means, gaps

    def _linear(self) -> tuple[Floats, Floats]:
        """Return slope and intercept of a row's term in its outcome, shape (n, K, values)."""
        slope = self.weights
        if self.estimator == "mis":
            return slope, np.zeros_like(slope)
        # Residuals of fitted cells would be too small: `cell` has the intervals of `sn`, which
        # are wider than it needs.
        with np.errstate(invalid="ignore", divide="ignore"):
            slope = slope / self._of_rows(self._weight_sums)
        return slope, -slope * self._of_rows(self.effects)

    def _of_rows(self, table: Floats) -> Floats:
        """Return each row's group's part of a table of shape (K, values, groups)."""
        return np.moveaxis(table, 2, 0)[self.group]

    def _variances(
        self, linear: tuple[Floats, Floats], spans: tuple[Floats, Floats] | None = None
    ) -> tuple[Floats, Floats]:
        """Return the variances of means and gaps, added up over strata by arm and value.

        With `spans` a stratum of one or two rows counts with the largest variance that its
        span allows; a sample of that size says nothing of it.
        """
        results = []
        for place, directions in enumerate((self._mean_direction, self._contrasts)):
            span = None if spans is None else spans[place].reshape(self.problem.n_arms, -1)
            columns = [
                self._variance(linear, direction, None if span is None else span[:, column])
                for column, direction in enumerate(directions)
            ]
            empty = np.zeros((self.problem.n_arms, 0))
            results.append(np.column_stack(columns) if columns else empty)
        return results[0][:, 0], results[1]

    def _variance(
        self, linear: tuple[Floats, Floats], direction: Floats, span: Floats | None
    ) -> Floats:
        records = self.records
        slope, intercept = (self._along(part, direction) for part in linear)
        first = slope * records.total[:, None] + intercept * records.number[:, None]
        second = (
            slope**2 * records.squares[:, None]
            + 2.0 * slope * intercept * records.total[:, None]
            + intercept**2 * records.number[:, None]
        )
        strata = records.arm * self.fragment.n_values + records.value
        size = self.counts.ravel()
        sums = np.zeros((len(size), self.problem.n_arms))
        squares = np.zeros_like(sums)
        np.add.at(sums, strata, first)
        np.add.at(squares, strata, second)
        used = size > 0
        n, sums, squares = size[used][:, None], sums[used], squares[used]
        spread = np.maximum(squares - sums**2 / n, 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            # A single row has no spread: its second moment stands in for the variance.
            variance = np.where(n > 1, n / (n - 1.0) * spread, squares)
        if span is not None:
            variance = np.where(n <= _FEW, n * span**2 / 4.0, variance)
        return np.where(self.informed, variance.sum(axis=0), np.nan)

    def _along(self, terms: Floats, direction: Floats) -> Floats:
        """Return terms of shape (n, K, values) added up along a direction, shape (n, K)."""
        if self.fragment.n_groups == 1:
            return np.asarray(terms @ direction[:, 0])
        return np.asarray(np.einsum("nku,nu->nk", terms, direction.T[self.group]))

    def _spans(self, directions: Floats) -> Floats:
        """Return the range of a row's term over all rows that can occur, shape (K, directions)."""
        if not self.fragment.is_tabulated:
            return self._bounded_spans(directions)
        shape = (self.problem.n_arms, len(directions))
        # An outcome of zero makes a term zero.
        lowest, highest = np.zeros(shape), np.zeros(shape)
        for group, mixture in enumerate(self._cell_mixture):
            occurs = (mixture > 0.0) & self._possible[group]
            weights = self.fragment.g[:, :, occurs] / mixture[occurs]
            terms = np.einsum("du,kuz->kdz", directions[:, :, group], weights)
            lowest = np.minimum(lowest, terms.min(axis=2, initial=0.0))
            highest = np.maximum(highest, terms.max(axis=2, initial=0.0))
        return highest - lowest

    def _bounded_spans(self, directions: Floats) -> Floats:
        """Return bounds of the ranges: a weight never exceeds one over its own rows."""
        with np.errstate(divide="ignore"):
            largest = np.broadcast_to(
                (1.0 / self.counts)[:, :, None], (*self.counts.shape, self.fragment.n_groups)
            ).copy()
        if not self.problem.is_root:
            # Nothing bounds what a group tells of another value.
            largest[:, ~np.eye(self.fragment.n_values, dtype=bool)] = np.inf
        return applied(np.abs(directions), largest)


def require_cell_estimator(problem: Problem) -> None:
    """Refuse a model for which the `cell` estimator is not valid."""
    if not problem.fragment.is_tabulated:
        raise ModelError("estimator", "'cell' needs cells that can be listed; use 'sn' or 'mis'")
    influenced = problem.model.descendants(problem.intervened)
    for attribute in problem.attributes:
        influenced |= problem.model.descendants(attribute)
    for node in _outside(problem):
        if node in influenced:
            raise ModelError(
                "estimator",
                f"'cell' needs parents that nothing influences, and {node!r} is influenced; "
                "use 'sn' or 'mis'",
            )


def _outside(problem: Problem) -> list[str]:
    """Return the nodes of a cell that are neither intervened nor carriers."""
    own = (problem.intervened, *problem.carriers)
    return [node for node in problem.cell_nodes if node not in own]
