"""A test, valid at all times, of the stated noise against the data.

A proof for "noise of a known scale" is worth nothing if the stated scale is too small. The results
themselves show it: they spread too widely around their means.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.noise_kernels import COLUMNS, COUNT, FIRST, MEAN, SPREAD

__all__ = ["FALSE_ALARM", "NoiseTest", "log_evidence_against_noise"]

Floats = NDArray[np.float64]

FALSE_ALARM = 0.001
"""Probability that the test ever contradicts a noise that was stated correctly."""

_INFLATIONS = np.array([1.1, 1.25, 1.6, 2.5, 6.0, 40.0])


def log_evidence_against_noise(
    residual: float, spread: float, results: float, log_volume: float
) -> float:
    """Return the logarithm of an e-value against "the noise is at most as large as stated".

    It compares two explanations of the same results: predictions, each made from earlier results
    with a variance larger than stated, and the best fit that the model allows with the stated one.

    Parameters
    ----------
    residual : float
        Sum of squared residuals of the tested results from the model's best fit, in units of the
        stated variance.
    spread : float
        Sum of e^2 / (1 + h) over the tested results, with e the error of the prediction from
        earlier results and h its variance, both in units of the stated noise. For means of cells
        it is the sum of squares about the means, the first results included.
    results : float
        Number of tested results.
    log_volume : float
        Sum of log(1 + h) over the tested results.

    Returns
    -------
    float
        At most log(1 / a) at all times with probability at least 1 - a, if the noise of every
        result, given the past, is sub-Gaussian at the stated scale, however the pulls were chosen.

    Notes
    -----
    Source: docs/explanation/assumption-checks.md, with the proof; the construction is that of
    Wasserman, Ramdas and Balakrishnan (2020), "Universal inference", section 7.

    Examples
    --------
    >>> log_evidence_against_noise(residual=900.0, spread=910.0, results=100, log_volume=4.6) > 100
    True
    """
    if results <= 0.0:
        return 0.0
    if not math.isfinite(residual) or not math.isfinite(spread):
        return math.inf
    logs = 0.5 * (residual - spread / _INFLATIONS - results * np.log(_INFLATIONS) - log_volume)
    return float(np.logaddexp.reduce(logs) - math.log(len(_INFLATIONS)))


class NoiseTest:
    """Whether the results of cells with a constant mean contradict the noise stated for them.

    Parameters
    ----------
    record : array of shape (cells, 4)
        Record written by `record_result` of `fairtrial.confidence.noise_kernels`, in units of each
        cell's stated noise. It is never changed here.

    Examples
    --------
    >>> from fairtrial.confidence.noise_kernels import record_result
    >>> record = NoiseTest.empty_record(cells=1)
    >>> for value in [9.0, -8.0, 10.0, -9.5]:       # stated: a standard deviation of 1
    ...     record_result(record, 0, value)
    >>> NoiseTest(record).contradicted
    True
    """

    def __init__(self, record: Floats) -> None:
        self.record = record

    @staticmethod
    def empty_record(cells: int) -> Floats:
        """Return a record without results, shape (cells, 4)."""
        return np.zeros((cells, COLUMNS))

    @property
    def log_evidence(self) -> float:
        """Logarithm of the e-value against the stated noise."""
        tested = self.record[self.record[:, COUNT] >= 2.0]
        count, spread = tested[:, COUNT], tested[:, SPREAD]
        with np.errstate(over="ignore", invalid="ignore"):
            # The first result of a cell predicts the second and is not tested itself.
            residual = spread - count / (count - 1.0) * (tested[:, FIRST] - tested[:, MEAN]) ** 2
            return log_evidence_against_noise(
                residual=float(np.maximum(residual, 0.0).sum()),
                spread=float(spread.sum()),
                results=float((count - 1.0).sum()),
                log_volume=float(np.log(count).sum()),
            )

    @property
    def contradicted(self) -> bool:
        """Whether the evidence exceeds its limit: by chance it ever does at most 1 in 1,000."""
        return self.log_evidence >= -math.log(FALSE_ALARM)

    @property
    def estimated_inflation(self) -> float | None:
        """Observed standard deviation as a multiple of the stated one, None without enough results.

        About 1 if the stated noise is right.
        """
        tested = self.record[self.record[:, COUNT] >= 2.0]
        freedom = float((tested[:, COUNT] - 1.0).sum())
        return math.sqrt(float(tested[:, SPREAD].sum()) / freedom) if freedom else None
