"""Compiled scalar functions of bounds and thresholds, for the kernels of all families."""

import math

import numpy as np
from numpy.typing import NDArray

import fairtrial.confidence.penalties as plain
from fairtrial.core.compilation import kernel

_SQRT_HALF = math.sqrt(0.5)
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_SERIES_BELOW = -20.0
_SERIES_TERMS = 9

stylised_threshold = kernel(plain.stylised_threshold)
mixture_penalty = kernel(plain.mixture_penalty)
iterated_logarithm_penalty = kernel(plain.iterated_logarithm_penalty)


@kernel
def log_ndtr(z: float) -> float:
    """Return the log of the standard normal distribution function, to 2e-13 relative."""
    if z < _SERIES_BELOW:
        return _log_mills_series(z) - 0.5 * z * z
    if z < 0.0:
        return math.log(0.5 * math.erfc(-z * _SQRT_HALF))
    return math.log1p(-0.5 * math.erfc(z * _SQRT_HALF))


@kernel
def log_scaled_ndtr(z: float) -> float:
    """Return ``z^2 / 2 + ln Phi(z)``, without loss of digits far below 0."""
    if z < _SERIES_BELOW:
        return _log_mills_series(z)
    return 0.5 * z * z + log_ndtr(z)


@kernel
def _log_mills_series(z: float) -> float:
    # Asymptotic series of the normal tail; the first omitted term is below 1e-16 here.
    x = 1.0 / (z * z)
    series = 1.0
    for k in range(_SERIES_TERMS, 0, -1):
        series = 1.0 - (2 * k - 1) * x * series
    return math.log(series) - math.log(-z) - _HALF_LOG_2PI


@kernel
def mixture_cell_log_evalue(pulls: float, distance: float, kappa: float) -> float:
    """Return the log e-value of one cell against "its mean is on the other side of the limit".

    `distance`: how far the mean of `pulls` outcomes lies beyond the limit, in units of
    sigma, negative on the null's side. `kappa`: prior count of the half-normal mixture.
    """
    total = pulls + kappa
    z = pulls * distance / math.sqrt(total)
    return math.log(2.0) - 0.5 * math.log1p(pulls / kappa) + log_scaled_ndtr(z)


@kernel
def mixture_cell_log_evalue_mean(
    pulls: float, distance: float, kappas: NDArray[np.float64]
) -> float:
    """Return the log of the mean of a cell's e-values over several prior counts."""
    largest = -math.inf
    total = 0.0
    for kappa in kappas:
        value = mixture_cell_log_evalue(pulls, distance, kappa)
        if value > largest:
            total = total * math.exp(largest - value) + 1.0
            largest = value
        else:
            total += math.exp(value - largest)
    return largest + math.log(total / kappas.size)
