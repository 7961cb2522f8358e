"""Delays that depend on outcomes are detected; differences between arms are not reported."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fairtrial.delayed import diagnose
from fairtrial.errors import InvalidArgument
from tests import effort
from tests.messages import raises


def test_delays_that_grow_with_outcomes_are_noticed():
    rng = np.random.default_rng(0)
    outcomes = rng.normal(size=40)
    found = diagnose(["a", "b"] * 20, np.exp(outcomes), outcomes)
    assert found.correlation > 0.8
    assert found.p_value < 1e-6
    assert "set delay_depends_on_outcome in the problem" in found.warning


def test_arms_may_differ_in_delay_and_mean():
    rng = np.random.default_rng(0)
    arm = np.repeat([0, 1, 2], 30)
    found = diagnose(arm.tolist(), arm * 10 + rng.random(90), arm * 5 + rng.normal(size=90))
    assert found.pulls == 90
    assert found.warning is None


def test_few_pulls_and_constant_delays_say_nothing():
    numbers = list(range(19))
    assert diagnose(["a"] * 19, numbers, numbers).warning is None
    assert diagnose(["a"] * 20, [*numbers, 19], [*numbers, 19]).warning is not None
    constant = diagnose(["a"] * 30, [5.0] * 30, list(range(30)))
    assert (constant.correlation, constant.warning) == (None, None)
    assert diagnose([], [], []).pulls == 0


def test_columns_of_different_length_are_refused():
    with raises(InvalidArgument, "outcomes"):
        diagnose(["a"], [1.0], [1.0, 2.0])
    with raises(InvalidArgument, "arms"):
        diagnose(["a", "b"], [1.0], [1.0])


@pytest.mark.statistical
def test_looking_after_every_pull_does_not_add_to_false_warnings():
    rng, warned, studies = np.random.default_rng(2), 0, effort.runs(40, whole=150)
    for _ in range(studies):
        delays, outcomes = rng.exponential(size=(2, 160))
        arms = rng.integers(2, size=160)
        warned += any(
            diagnose(arms[:n].tolist(), delays[:n], outcomes[:n]).warning is not None
            for n in (20, 21, 30, 40, 60, 80, 100, 120, 140, 160)
        )
    # At most .01 of the studies: four standard errors above it. Ten looks at p < .01 warn in 7 %.
    assert warned <= 0.01 * studies + 4 * math.sqrt(0.01 * studies)
