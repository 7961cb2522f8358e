"""What is claimed of arms: better than the control, and within every limit."""

import pytest

from fairtrial.core import Effect, Progress, Recommendation
from fairtrial.core.claims import arms_within_limits, is_gain
from fairtrial.core.progress_parts import MeasureLimit


def limit_of(arm, kind, lower, upper, by_bets=False):
    return MeasureLimit(arm, "m", None, kind, 0.3, 0.3, lower, upper, met_by_bets=by_bets)


def progress_of(*limits, arm=None, intervals="anytime"):
    status = "running" if arm is None else "decided"
    found = Recommendation(arm, status, confidence=0.95)
    return Progress(found, 9, 9, 0, intervals=intervals, measure_limits=limits)


@pytest.mark.parametrize(
    ("lower", "upper", "more_is_gain", "less_is_gain"),
    [
        (0.01, 0.2, True, False),
        (-0.2, -0.01, False, True),
        (0.0, 0.2, False, False),
        (-0.2, 0.0, False, False),
        (None, 0.2, False, False),
        (0.1, None, False, False),
    ],
)
def test_only_an_interval_beyond_0_shows_a_gain(lower, upper, more_is_gain, less_is_gain):
    effect = Effect("a", "c", None, 0.1, lower, upper)
    assert is_gain(effect, minimize=False) == more_is_gain
    assert is_gain(effect, minimize=True) == less_is_gain


def test_an_arm_keeps_every_limit_by_intervals_by_bets_or_as_the_answer():
    limits = (
        limit_of("a", "ceiling", 0.0, 0.3),
        limit_of("a", "floor", 0.3, 0.9),
        limit_of("b", "ceiling", 0.0, 0.2),
        limit_of("b", "ceiling", 0.0, 0.31),
        limit_of("d", "floor", 0.1, 0.9, by_bets=True),
        limit_of("e", "floor", None, 0.9),
    )
    shown = {"a": True, "b": False, "d": True, "e": False}
    assert arms_within_limits(progress_of(*limits)) == shown
    assert arms_within_limits(progress_of(*limits, arm="b")) == {**shown, "b": True}
    rough = arms_within_limits(progress_of(*limits, intervals="approximate"))
    assert not any(rough.values())
    assert arms_within_limits(progress_of()) == {}
