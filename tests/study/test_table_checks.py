"""Checks of a finished experiment's table: shares of arms, missing outcomes, order, odd units."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from fairtrial import analyse, linear
from fairtrial.confidence.share_test import FALSE_ALARM
from fairtrial.errors import InvalidArgument
from fairtrial.study.table_checks import (
    ArmUnits,
    TableCheck,
    beyond_median,
    crowded_units,
    outlying_units,
    planned_shares,
    refuse_sorted_by_outcome,
    stretches,
)
from fairtrial.subpopulations import Problem
from tests.effort import runs
from tests.messages import raises

PROBLEM = Problem(["old", "new"], ["all"], floors=None, reward_range=(0, 1))


def table(units: int = 600, seed: int = 0, share: float = 0.5) -> pd.DataFrame:
    """A randomised experiment in which both arms are equal."""
    rng = np.random.default_rng(seed)
    arms = np.where(rng.random(units) < share, "new", "old")
    return pd.DataFrame({"arm": arms, "outcome": (rng.random(units) < 0.4) * 1.0})


def warnings_about(frame: pd.DataFrame, **options: Any) -> list[str]:
    """Return all warnings of an analysis."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        analyse(PROBLEM, frame, **{"order": "as given", **options}).close()
    return [str(one.message) for one in caught]


# ------------------------------------------------------------------------------- shares


def test_a_sound_table_raises_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    analyse(PROBLEM, table(), order="as given").close()
    assert not recwarn.list


def test_deleted_rows_of_an_arm_are_noticed_by_the_sample_ratio() -> None:
    frame = table(1_200)
    failures = frame.index[(frame.arm == "new") & (frame.outcome == 0)]
    [said] = warnings_about(frame.drop(failures[::2]))
    assert said.startswith("sample ratio: ")
    assert "planned 50.00%" in said


def test_deleted_outcomes_of_an_arm_are_noticed_by_the_losses_and_not_by_the_ratio() -> None:
    frame = table(1_200)
    failures = frame.index[(frame.arm == "new") & (frame.outcome == 0)]
    frame.loc[failures[::2], "outcome"] = np.nan
    [said] = warnings_about(frame)
    assert said.startswith("missing outcomes: ")


def test_losses_after_the_decision_are_noticed_too() -> None:
    frame = table(3_000)
    frame.loc[:800, "outcome"] = (frame.arm[:801] == "new") * 1.0
    late = frame.index[(frame.index > 2_000) & (frame.arm == "new")]
    frame.loc[late[::3], "outcome"] = np.nan
    assert any(one.startswith("missing outcomes: ") for one in warnings_about(frame))


def test_shares_that_were_planned_are_no_mismatch(recwarn: pytest.WarningsRecorder) -> None:
    frame = table(1_000, share=0.9)
    analyse(PROBLEM, frame, order="as given", shares={"old": 1, "new": 9}).close()
    assert not recwarn.list
    [said] = warnings_about(frame)
    assert said.startswith("sample ratio: ")


def test_arms_described_by_features_have_no_planned_shares(
    recwarn: pytest.WarningsRecorder,
) -> None:
    problem = linear.Problem([[1, 0], [1, 1], [0, 1]], arms=["a", "b", "c"], noise_std=1.0)
    rng = np.random.default_rng(0)
    rows = {"arm": rng.choice(["a", "b"], 200).tolist(), "outcome": rng.normal(size=200).tolist()}
    analyse(problem, rows, order="as given").close()
    assert not recwarn.list
    with pytest.warns(UserWarning, match="sample ratio"):
        analyse(problem, rows, order="as given", shares={"a": 1, "b": 1, "c": 1}).close()


@pytest.mark.parametrize(
    ("shares", "given"),
    [
        ({"old": 1}, ["old"]),
        ({"old": 1, "new": 1, "x": 1}, "x"),
        ({"old": 1, "new": 0}, {"old": 1, "new": 0}),
        ({"old": 1, "new": float("nan")}, None),
        ({"old": 1, "new": "half"}, {"old": 1, "new": "half"}),
    ],
    ids=str,
)
def test_shares_that_are_none_are_refused(shares: dict[str, Any], given: object) -> None:
    with raises(InvalidArgument) as error:
        analyse(PROBLEM, table(), order="as given", shares=shares)
    assert error.value.name == "shares"
    assert given is None or error.value.given == given


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_shares_may_have_any_sum(scale: float) -> None:
    found = planned_shares(["a", "b"], {"a": 3 * scale, "b": scale})
    assert found == pytest.approx([0.75, 0.25])


@pytest.mark.statistical
def test_the_ratio_of_a_sound_table_is_rarely_called_wrong() -> None:
    number = runs(2_000, whole=20_000)
    rng = np.random.default_rng(3)
    alarms = 0
    for share in rng.choice([0.5, 0.9, 0.99], number):
        units = int(rng.integers(50, 100_000))
        new = int(rng.binomial(units, share))
        arms = ArmUnits("old", units - new, 0, 1 - share), ArmUnits("new", new, 0, share)
        alarms += TableCheck(arms).ratio_differs
    assert alarms <= stats.binom.ppf(0.999, number, FALSE_ALARM)


# -------------------------------------------------------------------------------- order


@pytest.mark.parametrize("within_arms", [True, False])
@pytest.mark.parametrize("ascending", [True, False])
def test_rows_sorted_by_outcome_are_refused(within_arms: bool, ascending: bool) -> None:
    columns = ["arm", "outcome"] if within_arms else ["outcome"]
    frame = table().sort_values(columns, ascending=ascending)
    with raises(InvalidArgument) as error:
        analyse(PROBLEM, frame, order="as given")
    assert error.value.name == "order"
    assert ("decrease" if ascending else "increase") in error.value.accepted


def test_a_column_that_sorts_by_outcome_is_refused_as_well() -> None:
    frame = table()
    frame["rank"] = frame.outcome.rank(method="first")
    with raises(InvalidArgument) as error:
        analyse(PROBLEM, frame, order="rank")
    assert error.value.given == "rank"


def test_few_rows_in_the_order_of_their_outcomes_may_be_chance() -> None:
    arms = np.array([0, 1] * 5)
    refuse_sorted_by_outcome("as given", arms, np.array([0.0] * 6 + [1.0] * 4))
    with raises(InvalidArgument):
        refuse_sorted_by_outcome("as given", np.repeat(arms, 10), np.arange(100.0))


def test_rows_sorted_by_arm_are_warned_about() -> None:
    frame = table().sort_values("arm", kind="stable")
    assert any("sorted by arm" in one for one in warnings_about(frame))


def test_rows_sorted_by_outcome_within_a_day_are_warned_about() -> None:
    frame = table(1_000)
    frame["day"] = np.arange(1_000) // 100
    frame = frame.sort_values(["day", "outcome"])
    said = warnings_about(frame, order="day")
    assert any("sorted by outcome" in one for one in said)
    assert any("have the same value as another row in 'day'" in one for one in said)


@pytest.mark.statistical
@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.02, 0.98), (0.2, 0.3, 0.5)], ids=str)
def test_a_random_order_is_rarely_called_sorted(weights: tuple[float, ...]) -> None:
    number = runs(2_000, whole=20_000)
    rng = np.random.default_rng(1)
    units = rng.choice([20, 40, 300], number)
    found = [stretches("arm", rng.choice(len(weights), size, p=weights)) for size in units]
    alarms = sum(one is not None for one in found)
    assert alarms <= stats.binom.ppf(0.999, number, FALSE_ALARM)


def test_the_expected_number_of_changes_is_that_of_all_orders() -> None:
    rng = np.random.default_rng(2)
    codes = np.repeat([0, 1, 2], [100, 60, 40])
    found = stretches("arm", codes)
    assert found is not None
    shuffled = [np.count_nonzero(np.diff(rng.permutation(codes))) for _ in range(400)]
    # The standard deviation of a single number is below 8.
    assert found.expected == pytest.approx(np.mean(shuffled), abs=4 * 8 / 20)


def test_a_trend_over_time_is_no_sorting() -> None:
    rng = np.random.default_rng(4)
    rising = (rng.random(5_000) < np.linspace(0.05, 0.5, 5_000)) * 1.0
    assert stretches("outcome", beyond_median(rising)) is None


@pytest.mark.parametrize("scale", [1e-160, 1.0, 1e160])
def test_outcomes_of_any_scale_are_checked(scale: float) -> None:
    outcomes = np.sort(np.random.default_rng(0).normal(size=200)) * scale
    assert stretches("outcome", beyond_median(outcomes)) is not None
    assert outlying_units(np.append(outcomes, 1e3 * scale)) == [(200, 1e3 * scale)]


# ---------------------------------------------------------------------------- odd units


def test_a_bot_is_named_and_counts_as_any_unit() -> None:
    frame = table(500)
    frame["user"] = [f"u{number}" for number in range(500)]
    visits = pd.DataFrame({"arm": "new", "outcome": 1.0, "user": ["bot"] * 200})
    said = warnings_about(pd.concat([frame, visits], ignore_index=True), unit="user")
    assert any("'bot' 200" in one for one in said)
    assert any("199 further rows of units" in one for one in said)


def test_a_bot_is_named_also_if_it_is_in_both_arms() -> None:
    frame = table(400)
    frame["user"] = [f"u{number}" for number in range(400)]
    frame.loc[frame.index % 2 == 0, "user"] = "crawler"
    assert any("'crawler' 200" in one for one in warnings_about(frame, unit="user"))


def test_units_that_usually_have_many_rows_are_no_bots() -> None:
    assert crowded_units(Counter({f"u{n}": 30 + n % 7 for n in range(200)}))[0] == ()


def test_an_extreme_outcome_is_named_with_its_row() -> None:
    problem = Problem(["old", "new"], ["all"], floors=None, reward_range=(0, 10_000))
    frame = table(400)
    frame["outcome"] = np.random.default_rng(0).integers(5, 50, 400) * 1.0
    frame.loc[123, "outcome"] = 9_999.0
    with pytest.warns(UserWarning, match="standard deviations from the mean: row 123: 9999"):
        analyse(problem, frame, order="as given").close()


@pytest.mark.parametrize("outcomes", [[], [3.0] * 50, [0.0] * 999 + [1.0]], ids=len)
def test_rare_or_equal_outcomes_are_not_extreme(outcomes: list[float]) -> None:
    assert outlying_units(np.array(outcomes)) == []


# ------------------------------------------------------- values that may be units with many rows


def visits(**more):
    """Return 3,000 rows in random order of two arms."""
    rng = np.random.default_rng(3)
    return {
        "day": range(3000),
        "arm": rng.permutation(["a", "b"] * 1500).tolist(),
        "outcome": rng.integers(2, size=3000).tolist(),
        **more,
    }


PAGE = Problem(["a", "b"], ["all"], floors=None, reward_range=(0, 1))


def warned_of(table, **more) -> list[str]:
    """Return what an analysis says about rows of single values."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        analyse(PAGE, table, order="day", progress=False, **more).close()
    return [str(one.message) for one in caught if "rows of a value" in str(one.message)]


def test_a_value_with_many_rows_is_named_although_nobody_named_the_column_of_units() -> None:
    users = [f"u{n}" if n % 3 else "bot-77" for n in range(3000)]
    (said,) = warned_of(visits(user=users))
    assert "'user'" in said
    assert "'bot-77' 1,000" in said
    assert warned_of(visits(user=users), unit="user") == []


@pytest.mark.parametrize(
    "column",
    [
        ["fr", "de", "it"] * 1000,
        [None if n % 2 else f"u{n}" for n in range(3000)],
        [0 if n % 2 else n for n in range(3000)],
        [19.5 if n % 2 else n / 7 for n in range(3000)],
        ["19,5" if n % 2 else str(n) for n in range(3000)],
        [f"u{n // 25}" for n in range(3000)],
        [f"u{n}" for n in range(3000)],
    ],
    ids=["labels", "blank", "zero", "fractions", "comma", "equal", "single"],
)
def test_columns_that_name_no_units_are_not_suspected(column) -> None:
    assert warned_of(visits(more=column)) == []
