"""Check the assumption of races that delays say nothing about outcomes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.keywords import named_arguments
from fairtrial.core.validation import check_array
from fairtrial.errors import InvalidArgument

__all__ = ["Diagnosis", "diagnose"]

_ENOUGH = 20
_LEVEL = 0.01


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Whether delays and outcomes of complete pulls are correlated.

    Parameters
    ----------
    pulls : int
        Number of complete pulls that were compared.
    correlation : float or None
        Rank correlation of delay and outcome within arms; None if it cannot be computed.
    p_value : float or None
        Probability of a correlation at least as large if delays say nothing about outcomes.
    warning : str or None
        What to do about it, if anything.
    """

    pulls: int
    correlation: float | None
    p_value: float | None
    warning: str | None


@named_arguments
def diagnose(arms: Sequence[Hashable], delays: ArrayLike, outcomes: ArrayLike) -> Diagnosis:
    """Compare delays with outcomes, within arms, after 20, 40, 80, ... pulls.

    Parameters
    ----------
    arms : sequence
        The arm of every complete pull, in the order in which outcomes arrived.
    delays, outcomes : array-like of shape (pulls,)
        The delay and the outcome of every pull.

    Returns
    -------
    Diagnosis
        For all pulls. It has a warning if the rank correlation of the first 20, 40, 80, ... pulls
        has a p-value below 0.01 / (k (k + 1)) at the k-th of these looks. So the probability of a
        false warning is at most 0.01, even if a study is checked again and again.

    Raises
    ------
    InvalidArgument
        If the three arguments do not have the same length.

    Notes
    -----
    Arms may differ in delay and mean, so both are first centred within every arm. The p-values use
    a normal approximation. A race also checks its own results, in the order in which they arrive,
    and its guarantee says which assumptions they contradict.

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
    places = {arm: place for place, arm in enumerate(dict.fromkeys(arms))}
    labels = np.array([places[arm] for arm in arms], dtype=np.int64)
    correlation, p_value = _rank_correlation(labels, times, results)
    warning = None
    look, pulls = 1, _ENOUGH
    while pulls <= times.size and warning is None:
        own, level = _rank_correlation(labels[:pulls], times[:pulls], results[:pulls])
        if own is not None and level is not None and level < _LEVEL / (look * (look + 1)):
            warning = (
                f"delays and outcomes go together (rank correlation {own:.2f}, p = {level:.2g}): "
                "set delay_depends_on_outcome in the problem"
            )
        look, pulls = look + 1, 2 * pulls
    return Diagnosis(times.size, correlation, p_value, warning)


def _rank_correlation(
    labels: NDArray[np.int64], times: NDArray[np.float64], results: NDArray[np.float64]
) -> tuple[float | None, float | None]:
    """Return the rank correlation within arms and its p-value, or None for both."""
    times, results = _centred(labels, times), _centred(labels, results)
    if times.size < 3 or np.ptp(times) == 0.0 or np.ptp(results) == 0.0:
        return None, None
    found = scipy.stats.spearmanr(times, results)
    return float(found.statistic), float(found.pvalue)


def _centred(labels: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values minus the median of their arm."""
    centred = values.copy()
    for label in np.unique(labels):
        centred[labels == label] -= np.median(values[labels == label])
    return centred
