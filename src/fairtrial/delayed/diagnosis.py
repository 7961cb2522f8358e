"""A check of what a race assumes: that delays say nothing of outcomes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.validation import check_array
from fairtrial.errors import InvalidArgument

__all__ = ["Diagnosis", "diagnose"]

_ENOUGH = 20
_LEVEL = 0.01


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Whether delays and outcomes of complete pulls go together.

    Parameters
    ----------
    pulls : int
        Complete pulls that were compared.
    correlation : float or None
        Rank correlation of delay and outcome within arms; None if there is none to speak of.
    p_value : float or None
        Probability of one at least as large if delays say nothing.
    warning : str or None
        What to do about it, if anything.
    """

    pulls: int
    correlation: float | None
    p_value: float | None
    warning: str | None


def diagnose(arms: Sequence[Hashable], delays: ArrayLike, outcomes: ArrayLike) -> Diagnosis:
    """Compare delays with outcomes, within arms.

    Parameters
    ----------
    arms : sequence
        The arm of every complete pull.
    delays, outcomes : array-like of shape (pulls,)
        How long it took, and what came of it.

    Returns
    -------
    Diagnosis
        With a warning if there are at least 20 pulls and their rank correlation has a
        p-value below 0.01.

    Raises
    ------
    InvalidArgument
        If the three are not of the same length.

    Notes
    -----
    Arms may differ in delay and mean; so both are first centred in every arm.

    Examples
    --------
    >>> delays = [3.0, 1.0, 2.0, 5.0, 4.0] * 5
    >>> diagnose(["a"] * 25, delays, [10 * delay for delay in delays]).warning is None
    False
    """
    times = np.array(check_array("delays", delays, (None,)))
    results = np.array(check_array("outcomes", outcomes, (times.size,)))
    if len(arms) != times.size:
        raise InvalidArgument("arms", f"must name the arm of each of {times.size} pulls", len(arms))
    labels = np.array([list(dict.fromkeys(arms)).index(arm) for arm in arms])
    times, results = _centred(labels, times), _centred(labels, results)
    if times.size < 3 or np.ptp(times) == 0.0 or np.ptp(results) == 0.0:
        return Diagnosis(times.size, None, None, None)
    from scipy.stats import spearmanr

    found = spearmanr(times, results)
    correlation, p_value = float(found.statistic), float(found.pvalue)
    warning = None
    if times.size >= _ENOUGH and p_value < _LEVEL:
        warning = (
            f"delays and outcomes go together (rank correlation {correlation:.2f}, p = "
            f"{p_value:.2g}): say delay_depends_on_outcome=True in the problem"
        )
    return Diagnosis(times.size, correlation, p_value, warning)


def _centred(labels: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values less the median of their arm."""
    centred = values.copy()
    for label in np.unique(labels):
        centred[labels == label] -= np.median(values[labels == label])
    return centred
