"""Lines as data: what they say of runs."""

import numpy as np
import pytest

from fairtrial.presentation.lines import effect_chart, stopping_chart


@pytest.mark.parametrize("most", [1, 7, 80, 100_000])
def test_the_share_that_has_decided_grows_to_that_of_all(most):
    generator = np.random.default_rng(1)
    times = generator.integers(1, most + 1, size=30)
    chart = stopping_chart({"some": times, "none": []}, runs=40, most=most)
    some, none = chart.lines
    assert (some.across[0], some.across[-1]) == (0.0, most)
    assert (np.diff(some.across) > 0).all()
    for at, share in zip(some.across, some.up, strict=True):
        assert share == (times <= at).sum() / 40
    assert some.up[-1] == 0.75
    assert set(none.up) == {0.0}


def test_effects_are_drawn_from_nothing_to_the_largest():
    chart = effect_chart([0, 0.5, 2], {"a": [0.1, 0.2, 0.9]}, "probability", shares=True)
    assert (chart.span, chart.height) == ((0.0, 2.0), (0.0, 1.0))
    assert chart.marked
