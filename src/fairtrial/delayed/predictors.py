"""Forecast outcomes from the curve so far, with errors that are checked on complete curves.

Report a forecast (value and deviation) to a policy as a ``refining`` reading. No proof covers
fitted forecasts: with ``errors="unknown"``, the guarantee says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.keywords import named_arguments
from fairtrial.core.validation import check_array, check_number
from fairtrial.errors import InvalidArgument

__all__ = ["CalibratedPredictor", "Curve", "CurvePredictor", "LastValue", "LinearPredictor"]

Floats = NDArray[np.float64]

_DECILES = 10
_ENOUGH = 10
_MOST_ERRORS = 2.0


@dataclass(frozen=True, slots=True)
class Curve:
    """A recorded curve, or the first part of one.

    Parameters
    ----------
    times, values : ndarray of shape (points,)
        Time of each point since the start, increasing, and its value.
    outcome : float or None
        The outcome at the end, if it is known.
    """

    times: Floats
    values: Floats
    outcome: float | None = None

    @classmethod
    def of(cls, times: ArrayLike, values: ArrayLike, outcome: float | None = None) -> Curve:
        """Return the curve with these points.

        Raises
        ------
        InvalidArgument
            If there are no points, the lengths differ, or times do not increase.
        """
        when = check_array("times", times, (None,))
        what = check_array("values", values, (when.size,))
        if not when.size or (np.diff(when) <= 0.0).any():
            raise InvalidArgument("times", "must be at least one number, and increase", times)
        return cls(when, what, outcome)

    def until(self, points: int) -> Curve:
        """Return the first points of the curve."""
        return Curve(self.times[:points], self.values[:points], self.outcome)


class CurvePredictor(Protocol):
    """Interface of objects that forecast the outcome of a curve from its first points."""

    def fit(self, completed: Sequence[Curve]) -> None:
        """Learn from complete curves."""

    def predict(self, prefix: Curve) -> tuple[float, float]:
        """Return the forecast of the outcome, and its standard deviation."""


class LastValue:
    """Forecast the last point as the outcome, with the error of points at the same age.

    Examples
    --------
    >>> curves = [Curve.of([1, 2], [0.0, 0.5], 1.0), Curve.of([1, 2], [1.0, 1.5], 2.0)]
    >>> forecast = LastValue()
    >>> forecast.fit(curves)
    >>> forecast.predict(Curve.of([1], [3.0]))
    (3.0, 1.0)
    """

    @named_arguments
    def __init__(self) -> None:
        self._length = 1.0
        self._std = np.zeros(_DECILES)

    def fit(self, completed: Sequence[Curve]) -> None:
        """Learn the root mean square error of the last point, by age."""
        self._length = _length(_whole(completed))
        self._std = _by_decile(completed, self._length, _last)

    def predict(self, prefix: Curve) -> tuple[float, float]:
        """Return the last point, and the error of such points."""
        return _last(prefix), float(self._std[_decile(prefix, self._length)])


class LinearPredictor:
    """Forecast by least squares on the last point, the mean, the recent slope and the age.

    Parameters
    ----------
    ridge : float
        Weight of the penalty that keeps coefficients small, at least 0.
    """

    @named_arguments
    def __init__(self, ridge: float = 1e-3) -> None:
        self.ridge = check_number("ridge", ridge, low=0.0)
        self._length = 1.0
        self._coefficients = np.zeros(5)
        self._std = np.zeros(_DECILES)

    def fit(self, completed: Sequence[Curve]) -> None:
        """Learn from all prefixes of complete curves."""
        self._length = _length(_whole(completed))
        prefixes = [prefix for curve in completed for prefix in _prefixes(curve)]
        rows = np.array([self._features(prefix) for prefix in prefixes])
        wanted = np.array([prefix.outcome for prefix in prefixes])
        penalty = self.ridge * len(rows) * np.diag([0.0, 1.0, 1.0, 1.0, 1.0])
        self._coefficients = np.linalg.lstsq(rows.T @ rows + penalty, rows.T @ wanted, rcond=None)[
            0
        ]
        self._std = _by_decile(completed, self._length, self._forecast)

    def _features(self, prefix: Curve) -> Floats:
        times, values = prefix.times, prefix.values
        half = len(times) // 2
        slope = (
            (values[-1] - values[half]) / (times[-1] - times[half]) if half + 1 < len(times) else 0
        )
        age = times[-1] / self._length
        return np.array([1.0, values[-1], values.mean(), slope * self._length, age])

    def _forecast(self, prefix: Curve) -> float:
        return float(self._features(prefix) @ self._coefficients)

    def predict(self, prefix: Curve) -> tuple[float, float]:
        """Return the forecast, and the error of such forecasts on the fitted curves."""
        return self._forecast(prefix), float(self._std[_decile(prefix, self._length)])


class CalibratedPredictor:
    """A forecast whose stated errors were checked on curves that were left out of its fit.

    Each complete curve is left out once, and the errors of its forecasts are compared with the
    stated deviations. For every tenth of the length of a curve, deviations are inflated by the root
    mean square of their ratio, if it is above 1. Forecasts are refused in a tenth with fewer than
    10 curves, or with a mean error above two standard errors.

    Parameters
    ----------
    predictor : CurvePredictor
        Anything with `fit` and `predict`; it is copied.
    completed : sequence of Curve
        Complete curves, each with its outcome.

    Raises
    ------
    InvalidArgument
        If there are fewer than two curves, or a curve has no outcome.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> curves = []
    >>> for _ in range(40):
    ...     outcome = rng.normal()
    ...     curves.append(Curve.of(range(1, 11), outcome + rng.normal(0, 0.1, 10), outcome))
    >>> forecast = CalibratedPredictor(LastValue(), curves)
    >>> value, std = forecast.predict(Curve.of([1, 2], [0.3, 0.4]))
    >>> value, 0.05 < std < 0.2
    (0.4, True)
    """

    @named_arguments
    def __init__(self, predictor: CurvePredictor, completed: Sequence[Curve]) -> None:
        self._length = _length(_whole(completed, least=2))
        self.factors = self._calibrate(predictor, completed)
        self._predictor = deepcopy(predictor)
        self._predictor.fit(completed)

    def _calibrate(self, predictor: CurvePredictor, completed: Sequence[Curve]) -> Floats:
        """Return the inflation factor of deviations; NaN where forecasts are refused."""
        errors: list[list[tuple[float, float]]] = [[] for _ in range(_DECILES)]
        for left_out, curve in enumerate(completed):
            fitted = deepcopy(predictor)
            fitted.fit([other for place, other in enumerate(completed) if place != left_out])
            for decile, found in self._own_errors(fitted, curve).items():
                errors[decile].append(found)
        return np.array([_factor(np.array(found).reshape(-1, 2)) for found in errors])

    def _own_errors(self, fitted: CurvePredictor, curve: Curve) -> dict[int, tuple[float, float]]:
        """Return error and ratio of a curve's last forecast in each tenth."""
        assert curve.outcome is not None
        found = {}
        for prefix in _prefixes(curve):
            value, std = fitted.predict(prefix)
            error = value - curve.outcome
            ratio = error / std if std > 0.0 else (0.0 if error == 0.0 else math.inf)
            found[_decile(prefix, self._length)] = (error, ratio)
        return found

    def predict(self, prefix: Curve) -> tuple[float, float] | None:
        """Return the forecast and its inflated deviation, or None if it must not be used."""
        factor = float(self.factors[_decile(prefix, self._length)])
        if math.isnan(factor):
            return None
        value, std = self._predictor.predict(prefix)
        return value, factor * std


def _factor(found: Floats) -> float:
    """Return the inflation factor for errors and ratios; NaN if they cannot be trusted."""
    if len(found) < _ENOUGH or not np.isfinite(found).all():
        return math.nan
    errors, ratios = found.T
    standard_error = errors.std(ddof=1) / math.sqrt(len(errors))
    if abs(errors.mean()) > _MOST_ERRORS * standard_error:
        return math.nan
    return math.sqrt(max(1.0, float(np.mean(ratios**2))))


def _whole(completed: Sequence[Curve], least: int = 1) -> Sequence[Curve]:
    """Return the curves; raise if there are too few, or one has no outcome."""
    if not isinstance(completed, Sequence) or len(completed) < least:
        raise InvalidArgument("completed", f"must be at least {least} whole curves", completed)
    for curve in completed:
        if not isinstance(curve, Curve) or curve.outcome is None:
            raise InvalidArgument("completed", "must be curves, each with its outcome", curve)
    return completed


def _length(completed: Sequence[Curve]) -> float:
    return max(float(curve.times[-1]) for curve in completed)


def _decile(prefix: Curve, length: float) -> int:
    place = math.ceil(_DECILES * float(prefix.times[-1]) / length) - 1
    return min(max(place, 0), _DECILES - 1)


def _prefixes(curve: Curve) -> list[Curve]:
    return [curve.until(points) for points in range(1, len(curve.times) + 1)]


def _last(prefix: Curve) -> float:
    return float(prefix.values[-1])


def _by_decile(completed: Sequence[Curve], length: float, forecast: object) -> Floats:
    """Return the root mean square error by tenth; for empty tenths, that of all curves."""
    assert callable(forecast)
    sums, counts = np.zeros(_DECILES), np.zeros(_DECILES)
    for curve in completed:
        assert curve.outcome is not None
        for prefix in _prefixes(curve):
            place = _decile(prefix, length)
            sums[place] += (forecast(prefix) - curve.outcome) ** 2
            counts[place] += 1.0
    overall = sums.sum() / max(1.0, counts.sum())
    return np.sqrt(np.where(counts > 0.0, sums / np.maximum(counts, 1.0), overall))
