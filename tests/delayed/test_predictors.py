"""Forecasts from the first points of a curve, and the check of their stated errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fairtrial.delayed import (
    CalibratedPredictor,
    Curve,
    InformationRacing,
    LastValue,
    LinearPredictor,
    Problem,
)
from fairtrial.errors import InvalidArgument
from tests.messages import raises


def curves(number, seed=0, noise=0.1, bias=0.0, gap=0.0):
    """Return curves that rise linearly from `gap` below their outcome."""
    rng = np.random.default_rng(seed)
    found = []
    times = np.arange(1.0, 11.0)
    for _ in range(number):
        outcome = rng.normal()
        values = outcome + bias - gap * (1 - times / 10) + rng.normal(0, noise, 10)
        found.append(Curve.of(times, values, outcome))
    return found


def test_the_last_value_has_the_error_of_its_age():
    forecast = LastValue()
    forecast.fit(curves(400, gap=1.0))
    for points, left in ((1, 0.9), (5, 0.5), (10, 0.0)):
        value, std = forecast.predict(Curve.of(range(1, points + 1), [7.0] * points))
        assert value == 7.0
        # The root mean square of 400 errors of 0.1 about a known gap is known to 5 %.
        assert std == pytest.approx(math.hypot(left, 0.1), rel=0.15)


def test_least_squares_learns_the_gap_that_the_last_value_has():
    linear, last = LinearPredictor(), LastValue()
    for forecast in (linear, last):
        forecast.fit(curves(200, gap=1.0))
    fresh = curves(100, seed=1, gap=1.0)
    errors = {
        name: np.sqrt(np.mean([(f.predict(c.until(4))[0] - c.outcome) ** 2 for c in fresh]))
        for name, f in (("linear", linear), ("last", last))
    }
    assert errors["linear"] < 0.2 < errors["last"]


def test_least_squares_is_exact_on_outcomes_that_are_linear_in_its_features():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(30):
        values = rng.normal(size=6)
        # All prefixes must agree, so the curve has only one point.
        found.append(Curve.of([2.0], values[:1], 3.0 * values[0] + 1.0))
    forecast = LinearPredictor(ridge=0.0)
    forecast.fit(found)
    value, std = forecast.predict(Curve.of([2.0], [0.5]))
    assert value == pytest.approx(2.5)
    assert std == pytest.approx(0.0, abs=1e-9)


class Overconfident(LastValue):
    def predict(self, prefix):
        value, std = super().predict(prefix)
        return value, std / 3


def test_stated_errors_that_are_too_small_are_inflated():
    honest = CalibratedPredictor(LastValue(), curves(200))
    rash = CalibratedPredictor(Overconfident(), curves(200))
    prefix = curves(1, seed=9)[0].until(5)
    assert honest.predict(prefix)[1] == pytest.approx(0.1, rel=0.3)
    assert rash.predict(prefix)[1] == pytest.approx(honest.predict(prefix)[1], rel=0.05)
    assert not (honest.factors < 1.0).any()
    # By chance, one in twenty tenths has a mean error above two standard errors.
    assert np.isnan(honest.factors).sum() <= 3


def test_a_forecast_that_is_off_is_refused():
    biased = CalibratedPredictor(LastValue(), curves(50, bias=0.1))
    assert biased.predict(curves(1)[0].until(5)) is None


class Certain(LastValue):
    def predict(self, prefix):
        return super().predict(prefix)[0], 0.0


def test_who_errs_and_states_no_error_is_refused():
    assert np.isnan(CalibratedPredictor(Certain(), curves(30)).factors).all()


class Memory:
    """A predictor that remembers the outcomes of its curves, and predicts 0 for all others."""

    def fit(self, completed):
        self._seen = {curve.values[0]: curve.outcome for curve in completed}

    def predict(self, prefix):
        return self._seen.get(prefix.values[0], 0.0), 0.5


def test_errors_are_those_on_curves_that_were_left_out():
    whole = curves(30)
    squares = [curve.outcome**2 for curve in whole]
    found = CalibratedPredictor(Memory(), whole).factors
    assert found == pytest.approx(math.sqrt(np.mean(squares)) / 0.5)


def test_a_tenth_with_few_curves_is_refused():
    assert CalibratedPredictor(LastValue(), curves(9)).predict(curves(1)[0].until(5)) is None
    assert CalibratedPredictor(LastValue(), curves(30)).predict(curves(1)[0].until(5)) is not None


def test_bad_curves_are_refused():
    with raises(InvalidArgument, "times", given=[2, 1]):
        Curve.of([2, 1], [0.0, 0.0])
    with raises(InvalidArgument, "times", given=[]):
        Curve.of([], [])
    with raises(InvalidArgument, "values"):
        Curve.of([1], [0.0, 1.0])
    with raises(InvalidArgument, "completed"):
        CalibratedPredictor(LastValue(), curves(1))
    with raises(InvalidArgument, "completed"):
        CalibratedPredictor(LastValue(), [Curve.of([1], [0.0])] * 3)
    for predictor in (LastValue(), LinearPredictor()):
        for bad in ([], None, [1.0], [Curve.of([1], [0.0])]):
            with raises(InvalidArgument, "completed"):
                predictor.fit(bad)
    with raises(InvalidArgument, "ridge"):
        LinearPredictor(ridge=-1.0)


def test_a_forecast_is_reported_as_a_reading_and_not_called_proven():
    forecast = CalibratedPredictor(LastValue(), curves(50))
    policy = InformationRacing(Problem(2, noise_std=1.0, feedback="refining"))
    pull = policy.ask()
    value, std = forecast.predict(curves(1, seed=3)[0].until(3))
    policy.report(pull, value, stage=3, std=std)
    assert policy.progress().actions[0].mean == pytest.approx(value)
    assert not policy.guarantee.proven
