"""Predictions from features, fitted again between the blocks of a finished experiment."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

__all__ = ["fitted_predictions"]

Floats = NDArray[np.float64]

_RIDGE = 1.0
"""Pulls' worth of features, in standard deviations, that shrink coefficients."""


def fitted_predictions(
    features: Floats, outcomes: Floats, actions: Sequence[int], ends: Sequence[int]
) -> Floats:
    """Return a prediction of every unit, from units of earlier blocks only.

    A unit of the first block is predicted from the other units of this block. So nothing may be bet
    on that block; its predictions only show what the features are worth.

    Parameters
    ----------
    features : array of shape (units, P)
        The features; NaN if missing, which counts as the mean.
    outcomes : array of shape (units,)
        The outcomes, in the order of assignment; NaN if missing.
    actions : sequence of int
        The action of every unit.
    ends : sequence of int
        The end of every block; the last one is the number of units.

    Returns
    -------
    array of shape (units,)

    Notes
    -----
    Least squares with one level for each action, so that features explain differences within
    actions; coefficients are shrunk as if by one more unit.

    Examples
    --------
    >>> features = np.arange(8.0)[:, np.newaxis]
    >>> found = fitted_predictions(features, np.arange(8.0), [0, 1] * 4, [4, 8])
    >>> bool((np.diff(found[4:]) > 0).all())
    True
    """
    found, cells = np.zeros(len(outcomes)), np.asarray(actions)
    first = ends[0]
    for unit in range(first):
        others = np.arange(first) != unit
        past = features[:first][others], outcomes[:first][others], cells[:first][others]
        found[unit] = _predicted(*past, features[unit : unit + 1])[0]
    for begin, end in pairwise(ends):
        past = features[:begin], outcomes[:begin], cells[:begin]
        found[begin:end] = _predicted(*past, features[begin:end])
    return found


def _predicted(features: Floats, outcomes: Floats, cells: NDArray[np.int64], new: Floats) -> Floats:
    """Return predictions of new units from past ones."""
    known = ~np.isnan(outcomes)
    if not known.any():
        return np.zeros(len(new))
    y, cells = outcomes[known], cells[known]
    counts = np.maximum((~np.isnan(features)).sum(axis=0), 1)
    centre = np.nansum(features, axis=0) / counts
    off = np.nan_to_num(features[known] - centre)
    scale = np.sqrt(np.square(off).mean(axis=0))
    scale = np.where(scale > 0.0, scale, 1.0)
    x = _within(off / scale, cells)
    levels = _within(y[:, np.newaxis], cells)[:, 0]
    form = x.T @ x + _RIDGE * np.eye(x.shape[1])
    slopes = np.linalg.solve(form, x.T @ levels)
    return np.asarray(y.mean() + np.nan_to_num((new - centre) / scale) @ slopes)


def _within(values: Floats, cells: NDArray[np.int64]) -> Floats:
    """Return values minus their mean in their cell."""
    places = np.unique(cells, return_inverse=True)[1]
    counts = np.bincount(places)
    sums = np.stack([np.bincount(places, column) for column in values.T], axis=1)
    return np.asarray(values - (sums / counts[:, np.newaxis])[places])
