"""Effects by segment of a finished experiment, whose intervals hold together."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fairtrial.errors import InvalidArgument
from fairtrial.study.segments import SegmentEffects, segment_effects
from tests.effort import runs
from tests.messages import raises

ARMS = ["old", "new"]


def experiment(
    units: int = 2_000, seed: int = 0, effect: float = 0.3
) -> tuple[dict[str, list[str]], NDArray[np.int64], NDArray[np.float64]]:
    """Segments, arms and outcomes; the new arm is better by `effect` in country x only."""
    rng = np.random.default_rng(seed)
    country = rng.choice(["x", "y"], units, p=[0.6, 0.4])
    device = rng.choice(["phone", "desk", "tablet"], units, p=[0.6, 0.3, 0.1])
    arms = rng.integers(2, size=units)
    chance = 0.3 + effect * (arms == 1) * (country == "x")
    outcomes = (rng.random(units) < chance) * 1.0
    return {"country": country.tolist(), "device": device.tolist()}, arms, outcomes


def effects(
    columns: dict[str, list[str]], arms: NDArray[np.int64], outcomes: NDArray[np.float64]
) -> SegmentEffects:
    return segment_effects(columns, ARMS, "old", arms, outcomes, (0.0, 1.0), 0.05)


def test_the_segments_of_all_columns_share_the_error_probability() -> None:
    found = effects(*experiment())
    assert [one.segment for one in found.effects] == ["x", "y", "phone", "desk", "tablet"]
    assert found.level == pytest.approx(0.05 / 5)
    assert found.confidence == pytest.approx(0.95)
    alone = effects({"country": experiment()[0]["country"]}, *experiment()[1:])
    width = [one.effects[0].upper - one.effects[0].lower for one in (found, alone)]  # type: ignore[operator]
    assert width[0] > width[1]


def test_an_effect_in_one_segment_is_found_there_only() -> None:
    by_name = {one.segment: one for one in effects(*experiment(6_000)).effects}
    assert by_name["x"].lower is not None
    assert by_name["y"].lower is not None
    assert by_name["x"].lower > 0.0 > by_name["y"].lower
    assert by_name["x"].units + by_name["y"].units == 6_000


def test_the_estimate_is_the_difference_of_the_means() -> None:
    columns, arms, outcomes = experiment()
    chosen = np.array(columns["device"]) == "desk"
    means = [outcomes[chosen & (arms == arm)].mean() for arm in (0, 1)]
    [found] = [one for one in effects(columns, arms, outcomes).effects if one.segment == "desk"]
    assert found.difference == pytest.approx(means[1] - means[0])


def test_a_missing_outcome_may_have_been_anything() -> None:
    columns, arms, outcomes = experiment(effect=0.0)
    whole = effects(columns, arms, outcomes).effects[0]
    outcomes[::10] = np.nan
    found = effects(columns, arms, outcomes).effects[0]
    assert found.missing > 0
    assert found.upper - found.lower > whole.upper - whole.lower + 0.15  # type: ignore[operator]


def test_a_segment_without_units_of_an_arm_has_no_interval() -> None:
    columns, arms, outcomes = experiment(60)
    columns["device"] = ["rare" if place == 3 else "phone" for place in range(60)]
    found = effects(columns, arms, outcomes).effects[-1]
    assert (found.segment, found.units, found.difference) == ("rare", 1, None)


@pytest.mark.parametrize("scale", [1e-160, 1.0, 1e160])
def test_outcomes_may_have_any_scale(scale: float) -> None:
    columns, arms, outcomes = experiment(500)
    unit = effects(columns, arms, outcomes).effects[0]
    found = segment_effects(
        columns, ARMS, "old", arms, outcomes * scale, (0.0, scale), 0.05
    ).effects[0]
    assert found.lower == pytest.approx(unit.lower * scale, rel=1e-6)  # type: ignore[operator]


def test_a_column_of_too_many_values_is_refused() -> None:
    _, arms, outcomes = experiment(300)
    with raises(InvalidArgument) as error:
        effects({"user": [str(place) for place in range(300)]}, arms, outcomes)
    assert error.value.name == "segments"


@pytest.mark.statistical
def test_all_intervals_hold_together() -> None:
    number = runs(60, whole=2_000)
    failed = 0
    for seed in range(number):
        columns, arms, outcomes = experiment(400, seed)
        truth = {"x": 0.3, "y": 0.0, "phone": 0.18, "desk": 0.18, "tablet": 0.18}
        failed += any(
            not one.lower <= truth[one.segment] <= one.upper  # type: ignore[operator]
            for one in effects(columns, arms, outcomes).effects
            if one.lower is not None
        )
    assert failed <= stats.binom.ppf(0.999, number, 0.05)
