"""Values whose size must stay below a bound: their status, and how they are shown."""

import math

import pytest

from fairtrial.core import Estimate, Progress, Recommendation, ValueLimit
from fairtrial.presentation.bounds import (
    bounded_values,
    explanation_of_bounds,
    title_of_bounds,
)
from fairtrial.presentation.limits import Standing


def row(arm, value, **more):
    return ValueLimit(arm, "gap", "x", 0.2, value=value, **more)


def progress_of(*rows, arm=None, arms="ab"):
    recommendation = Recommendation(arm, "decided" if arm else "running", confidence=0.95)
    estimates = tuple(Estimate({"arm": name}, 3, mean=0.5) for name in arms)
    return Progress(recommendation, 9, 9, 0, arms=estimates, value_limits=rows)


@pytest.mark.parametrize(
    ("value", "more", "answer", "standing"),
    [
        (0.1, {}, None, Standing.LIKELY_KEPT),
        (-0.1, {}, None, Standing.LIKELY_KEPT),
        (0.3, {}, None, Standing.LIKELY_BROKEN),
        (-0.3, {}, None, Standing.LIKELY_BROKEN),
        # A value exactly on a bound that it must stay below misses it.
        (0.2, {}, None, Standing.LIKELY_BROKEN),
        (None, {}, None, Standing.UNKNOWN),
        (math.nan, {}, None, Standing.UNKNOWN),
        (0.3, {}, "a", Standing.DECIDED),
        (0.1, {"certain": True}, None, Standing.KEPT),
    ],
)
def test_a_value_stands_to_its_bound_by_its_size(value, more, answer, standing):
    (found,) = bounded_values(progress_of(row("a", value, **more), arm=answer), minimize=False)
    assert found.standing == standing


def test_the_answer_comes_first_and_evidence_is_explained_where_there_is_some():
    rows = row("a", 0.1), row("b", 0.1, log_wealth=math.log(30))
    found = bounded_values(progress_of(*rows, arm="b"), minimize=False)
    assert [one.arm for one in found] == ["b", "a"]
    assert "gain nothing on average" in explanation_of_bounds(found)
    assert title_of_bounds(found).startswith("Gaps, to be between")
    assert explanation_of_bounds(bounded_values(progress_of(row("a", 0.1)), False)) == ""
