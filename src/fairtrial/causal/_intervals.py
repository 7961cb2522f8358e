"""Widths of intervals around estimates: normal approximations, and proven ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import scipy
from numpy.typing import NDArray

from fairtrial.causal._gaps import applied

if TYPE_CHECKING:
    from fairtrial.causal._weighted import Weighted

Floats = NDArray[np.float64]

LEAST_ROWS = 30
"""Smallest number of rows, and of effective rows, for a normal interval."""

_FEW = 2
_ROUNDING = 1e-13
"""Relative rounding error of a sum of squares of many rows."""

Reach = tuple[Floats, Floats]
"""Half-widths of means, shape (K,), and of gaps, shape (K, pairs)."""


# ------------------------------------------------------------------ how much rows tell


def effective_rows(weighted: Weighted) -> Floats:
    """Return the number of an arm's and value's own rows that would be as informative as all rows.

    Shape (K, values, groups). It is the inverse of the mean weight of a row that the arm and value
    produce, averaged over all possible rows, not only those in the log. If the cells' common part
    is not known, it is estimated from the rows in the log, and from how far their weights are from
    adding to one.
    """
    common = weighted.common
    if common is None:
        squares = _by_group(weighted, weighted.records.number, weighted.weights**2)
        return _inverse(squares + (1.0 - weighted.weight_sums) ** 2)
    means = np.zeros(weighted.weight_sums.shape)
    g = weighted.cell_model.g
    for group, mixture in enumerate(weighted.mixture):
        known = mixture > 0.0
        cells = np.divide(common[group], mixture, out=np.zeros_like(mixture), where=known)
        means[:, :, group] = np.einsum("kuz,z->ku", g**2, cells)
        lost = common[group] * ~known
        means[:, :, group][np.einsum("kuz,z->ku", g, lost) > 0.0] = np.inf
    return _inverse(means)


def least_effective_rows(weighted: Weighted) -> Floats:
    """Return the smallest number of effective rows of each arm, shape (K,)."""
    told = [_told(weighted, directions) for directions in weighted.directions]
    return np.asarray(np.column_stack(told).min(axis=1))


def _told(weighted: Weighted, directions: Floats) -> Floats:
    """Return the fewest effective rows among a direction's effects, shape (K, directions)."""
    taken = (directions != 0.0)[None]
    rows = np.where(taken, effective_rows(weighted)[:, None], np.inf)
    return np.asarray(rows.min(axis=(2, 3)))


def _inverse(values: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / values)


def _by_group(weighted: Weighted, amounts: Floats, terms: Floats) -> Floats:
    """Return sums of amounts times terms of shape (n, K, values); groups are the last axis."""
    groups = range(weighted.cell_model.n_groups)
    sums = [
        np.einsum("n,nku->ku", np.where(weighted.group == group, amounts, 0.0), terms)
        for group in groups
    ]
    return np.stack(sums, axis=2)


# ------------------------------------------------------------------- approximate ones


def normal_reach(weighted: Weighted, delta: float) -> Reach:
    """Return half-widths by the normal approximation; NaN where rows are too uninformative.

    The variance is measured on the observed rows. To account for possible rows that were not
    observed, the heaviest possible row is added as if it had occurred as often as the squared
    quantile. A score interval of a single proportion does the same. Even heavier rows that hardly
    ever occur count with the most that they could add.
    """
    quantile = float(scipy.special.ndtri(1.0 - delta / 2.0))
    scale = _outcome_scale(weighted)
    enough = weighted.records.number.sum() >= LEAST_ROWS
    found = []
    for variance, directions in zip(_variances(weighted), weighted.directions, strict=True):
        heaviest, beyond = _heaviest(weighted, directions, quantile)
        unseen = (quantile * scale * heaviest) ** 2
        reach = quantile * np.sqrt(variance + unseen) + scale * beyond
        told = _told(weighted, directions) >= LEAST_ROWS
        found.append(np.where(told & enough, reach, np.nan))
    return found[0][:, 0], found[1]


def _outcome_scale(weighted: Weighted) -> float:
    """Return the width of the outcomes' range; without a range, estimate it from the rows."""
    if weighted.problem.outcome_range is not None:
        return 1.0
    records = weighted.records
    centre = 0.0
    if weighted.estimator != "mis":
        centre = records.total.sum() / records.number.sum()
    means = records.total / records.number
    squares = records.squares / records.number - means**2 + (means - centre) ** 2
    return math.sqrt(max(float(squares.max(initial=0.0)), 0.0))


def _heaviest(weighted: Weighted, directions: Floats, quantile: float) -> Reach:
    """Return the range of all weights except the rarest rows', and what the rarest could add.

    Both have shape (K, directions). The cut between them is chosen to widen the interval the least.
    """
    common = weighted.common
    sums = np.ones_like(weighted.weight_sums)
    if weighted.estimator != "mis":
        sums = np.clip(weighted.weight_sums, np.finfo(float).tiny, 1.0)
    if common is None:
        terms = weighted.weights / np.moveaxis(sums, 2, 0)[weighted.group]
        rows = np.stack([_along(weighted, terms, d) for d in directions], axis=1)
        span = np.maximum(rows.max(axis=0), 0.0) - np.minimum(rows.min(axis=0), 0.0)
        return span.T, applied(np.abs(directions), _missing(weighted))
    parts, numbers = [], []
    for group, mixture in enumerate(weighted.mixture):
        seen = (mixture > 0.0) & (common[group] > 0.0)
        weights = weighted.cell_model.g[:, :, seen] / mixture[seen]
        scaled = directions[None, :, :, group] / sums[:, None, :, group]
        parts.append(np.einsum("kdu,kuz->kdz", scaled, weights))
        numbers.append(mixture[seen] * common[group][seen])
    return _trimmed(np.concatenate(parts, axis=2), np.concatenate(numbers), quantile)


def _missing(weighted: Weighted) -> Floats:
    """Return how far sums of weights differ from one beyond chance, (K, values, groups)."""
    squares = _by_group(weighted, weighted.records.number, weighted.weights**2)
    return np.maximum(np.abs(1.0 - weighted.weight_sums) - 2.0 * np.sqrt(squares), 0.0)


@np.errstate(over="ignore")  # where a width overflows, another cut is the best
def _trimmed(terms: Floats, numbers: Floats, quantile: float) -> Reach:
    """Return range and rest for each cell's term (K, D, cells) and expected rows (cells,)."""
    order = np.argsort(-np.abs(terms), axis=2)
    terms = np.take_along_axis(terms, order, axis=2)
    rest = np.cumsum(np.abs(terms) * numbers[order], axis=2)
    rest = np.concatenate([np.zeros_like(rest[:, :, :1]), rest], axis=2)
    lightest_first = terms[:, :, ::-1]
    highest = np.maximum.accumulate(np.maximum(lightest_first, 0.0), axis=2)
    lowest = np.minimum.accumulate(np.minimum(lightest_first, 0.0), axis=2)
    span = (highest - lowest)[:, :, ::-1]
    span = np.concatenate([span, np.zeros_like(rest[:, :, :1])], axis=2)
    best = np.argmin(quantile**2 * span + rest, axis=2)[:, :, None]
    return (
        np.take_along_axis(span, best, axis=2)[:, :, 0],
        np.take_along_axis(rest, best, axis=2)[:, :, 0],
    )


# ------------------------------------------------------------------------ proven ones


def bernstein_reach(weighted: Weighted, delta: float) -> Reach:
    """Return half-widths by the empirical Bernstein inequality, for the `mis` estimate."""
    if weighted.problem.outcome_range is None:
        nothing = np.full((weighted.problem.n_arms, len(weighted.problem.pairs)), np.nan)
        return np.full(weighted.problem.n_arms, np.nan), nothing
    logarithm = math.log(3.0 / delta)
    means, gaps = weighted.directions
    spans = _spans(weighted, means), _spans(weighted, gaps)
    found = [
        np.sqrt(2.0 * variance * logarithm) + 3.0 * span * logarithm
        for variance, span in zip(_variances(weighted, spans), spans, strict=True)
    ]
    return found[0][:, 0], found[1]


# -------------------------------------------------------------------------- variances


def _linear(weighted: Weighted) -> tuple[Floats, Floats]:
    """Return slope and intercept of a row's term as a function of its outcome, (n, K, values)."""
    slope = weighted.weights
    if weighted.estimator == "mis":
        return slope, np.zeros_like(slope)
    # Residuals of fitted cells would be too small, so `cell` uses the intervals of `sn`, which are
    # wider than necessary.
    with np.errstate(invalid="ignore", divide="ignore"):
        slope = slope / _of_rows(weighted, weighted.weight_sums)
    return slope, -slope * _of_rows(weighted, weighted.effects)


def _of_rows(weighted: Weighted, table: Floats) -> Floats:
    """Return for each row its group's entries of a table of shape (K, values, groups)."""
    return np.moveaxis(table, 2, 0)[weighted.group]


def _variances(weighted: Weighted, spans: Reach | None = None) -> Reach:
    """Return the variances of means, (K, 1), and gaps, summed over strata by arm and value.

    With `spans`, a stratum of one or two rows counts with the largest variance that its span
    allows, because so few rows say nothing about the variance.
    """
    linear = _linear(weighted)
    results = []
    for place, directions in enumerate(weighted.directions):
        span = None if spans is None else spans[place]
        columns = [
            _variance(weighted, linear, direction, None if span is None else span[:, column])
            for column, direction in enumerate(directions)
        ]
        empty = np.zeros((weighted.problem.n_arms, 0))
        results.append(np.column_stack(columns) if columns else empty)
    return results[0], results[1]


def _variance(
    weighted: Weighted, linear: tuple[Floats, Floats], direction: Floats, span: Floats | None
) -> Floats:
    records = weighted.records
    slope, intercept = (_along(weighted, part, direction) for part in linear)
    first = slope * records.total[:, None] + intercept * records.number[:, None]
    second = (
        slope**2 * records.squares[:, None]
        + 2.0 * slope * intercept * records.total[:, None]
        + intercept**2 * records.number[:, None]
    )
    strata = records.arm * weighted.cell_model.n_values + records.value
    size = weighted.counts.ravel()
    sums = np.zeros((len(size), weighted.problem.n_arms))
    squares = np.zeros_like(sums)
    np.add.at(sums, strata, first)
    np.add.at(squares, strata, second)
    # Far from zero, squares cancel: the difference can be smaller than their rounding errors.
    rounded = np.zeros_like(sums)
    parts = slope**2 * records.squares[:, None] + intercept**2 * records.number[:, None]
    np.add.at(rounded, strata, parts)
    used = size > 0
    n, sums, squares = size[used][:, None], sums[used], squares[used]
    spread = np.maximum(squares - sums**2 / n, 0.0) + _ROUNDING * rounded[used]
    with np.errstate(invalid="ignore", divide="ignore"):
        # A single row has no spread, so its second moment replaces the variance.
        variance = np.where(n > 1, n / (n - 1.0) * spread, squares)
    if span is not None:
        variance = np.where(n <= _FEW, n * span**2 / 4.0, variance)
    return np.where(weighted.informed, variance.sum(axis=0), np.nan)


def _along(weighted: Weighted, terms: Floats, direction: Floats) -> Floats:
    """Return terms of shape (n, K, values) summed along a direction, shape (n, K)."""
    if weighted.cell_model.n_groups == 1:
        return np.asarray(terms @ direction[:, 0])
    return np.asarray(np.einsum("nku,nu->nk", terms, direction.T[weighted.group]))


def _spans(weighted: Weighted, directions: Floats) -> Floats:
    """Return the range of a row's term over all possible rows, shape (K, directions)."""
    if not weighted.cell_model.is_tabulated:
        return _bounded_spans(weighted, directions)
    shape = (weighted.problem.n_arms, len(directions))
    # The term of an outcome of zero is zero.
    lowest, highest = np.zeros(shape), np.zeros(shape)
    for group, mixture in enumerate(weighted.mixture):
        occurs = (mixture > 0.0) & weighted.possible[group]
        weights = weighted.cell_model.g[:, :, occurs] / mixture[occurs]
        terms = np.einsum("du,kuz->kdz", directions[:, :, group], weights)
        lowest = np.minimum(lowest, terms.min(axis=2, initial=0.0))
        highest = np.maximum(highest, terms.max(axis=2, initial=0.0))
    return highest - lowest


def _bounded_spans(weighted: Weighted, directions: Floats) -> Floats:
    """Return bounds on the ranges: a weight is at most the inverse of its own number of rows."""
    with np.errstate(divide="ignore"):
        largest = np.broadcast_to(
            (1.0 / weighted.counts)[:, :, None],
            (*weighted.counts.shape, weighted.cell_model.n_groups),
        ).copy()
    if not weighted.problem.is_root:
        # Nothing bounds the weights of a group for another value.
        largest[:, ~np.eye(weighted.cell_model.n_values, dtype=bool)] = np.inf
    return applied(np.abs(directions), largest)
