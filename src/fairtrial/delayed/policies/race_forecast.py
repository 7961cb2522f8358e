"""How many more blocks a race needs for each rival, if results go on as they have."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["FEWEST_BLOCKS", "blocks_needed", "repeated_blocks"]

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

FEWEST_BLOCKS = 10
"""Blocks before the first forecast: fewer say nothing about the blocks left."""
# Standard errors by which rivals are taken to be better than they were: the leader leads partly by
# luck, so a forecast from its plain lead is half of what is needed in the median.
_CAUTION = 0.5
# Numbers of blocks at which the evidence of the forecast is computed, closer together at first.
_STEPS, _GROWTH = 24, 1.5
_LEAST = 1e-9


def repeated_blocks(blocks: int, end: int, categories: Indices | None = None) -> Indices:
    """Return which of the first `blocks` blocks stands for each block from there to `end`.

    Parameters
    ----------
    blocks, end : int
        Number of complete blocks, at least one, and of all.
    categories : ndarray of int, optional
        The category of each block: one of the same category stands for it, if there is any.

    Examples
    --------
    >>> repeated_blocks(3, 8, np.array([0, 1, 0, 1, 0, 0, 0, 2]))
    array([1, 0, 2, 0, 1])
    """
    places = np.arange(blocks, end) % blocks
    if categories is None:
        return places
    for category in np.unique(categories[blocks:end]):
        left = np.flatnonzero(categories[blocks:end] == category)
        known = np.flatnonzero(categories[:blocks] == category)
        if known.size:
            places[left] = known[np.arange(left.size) % known.size]
    return places


def blocks_needed(
    evidence: Callable[[Floats, Indices], Floats],
    scores: Floats,
    targets: Indices,
    places: Indices,
    leader: int,
    rivals: Indices,
    level: float,
    highest: float,
) -> Floats:
    """Return how many of the blocks left each rival needs; infinity if all are not enough.

    Parameters
    ----------
    evidence : callable
        ``evidence(scores, targets)`` returns the evidence against each rival on blocks.
    scores, targets : ndarray
        Scores on complete blocks, at least one, by arm; the two best arms before each of them.
    places : ndarray of int
        Which of these blocks stands for each block left.
    leader, rivals : int and ndarray of int
        The leader, and the arms that are to be decided.
    level : float
        The evidence that decides.
    highest : float
        The highest possible score, or infinity.
    """
    blocks, end = len(scores), len(scores) + len(places)
    all_scores = np.concatenate([scores, _cautious(scores, leader, highest)[places]])
    following = np.tile(_led_by(leader, targets[-1]), (len(places), 1))
    all_targets = np.concatenate([targets, following])
    needed = np.full(len(rivals), math.inf)
    before, last = evidence(scores, targets), blocks
    needed[before >= level] = 0.0
    shares = np.linspace(0.0, 1.0, _STEPS + 1)[1:] ** _GROWTH
    for stop in np.unique(np.rint(blocks + (end - blocks) * shares).astype(int)).tolist():
        if stop == last or np.isfinite(needed).all():
            continue
        now = evidence(all_scores[:stop], all_targets[:stop])
        new = ~np.isfinite(needed) & (now >= level)
        gained = np.maximum(now[new] - before[new], _LEAST)
        part = np.clip((level - before[new]) / gained, 0.0, 1.0)
        needed[new] = last - blocks + part * (stop - last)
        before, last = now, stop
    return needed


def _cautious(scores: Floats, leader: int, highest: float) -> Floats:
    """Return scores whose differences from the leader are worse for it by a part of their error.

    All of them are possible: bets on two rivals, too, need differences within the range.
    """
    own = scores[:, [leader]]
    gaps = own - scores
    # The square of a large gap would overflow.
    unit = float(np.nanmax(abs(gaps))) or 1.0
    is_known = ~np.isnan(gaps)
    deviations = np.std(gaps / unit, axis=0, where=is_known | ~is_known.any(axis=0))
    errors = unit * deviations / math.sqrt(len(scores))
    return np.asarray(np.minimum(scores + _CAUTION * errors, highest))


def _led_by(leader: int, best_two: Indices) -> Indices:
    """Return the leader and the best of the others, given the two best arms before a block."""
    others = best_two[best_two != leader]
    return np.array([leader, others[0] if others.size else leader])
