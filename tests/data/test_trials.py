from collections import Counter, defaultdict
from importlib.resources import files

import pytest

from fairtrial.data import actg175
from fairtrial.errors import InvalidArgument
from tests.messages import raises

# The catalogue prints three digits; one of its values (.3125117) was cut, not rounded.
DIGITS = 6e-4
WEIGHTS = {"naive": 0.414, "upto52w": 0.192, "over52w": 0.394}


def cell_means(outcome):
    table = actg175(outcome)
    rewards = defaultdict(list)
    for arm, stratum, reward in zip(table["arm"], table["stratum"], table["reward"], strict=True):
        rewards[arm, stratum].append(reward)
    return {cell: sum(values) / len(values) for cell, values in rewards.items()}


def overall(means, arm):
    return sum(weight * means[arm, stratum] for stratum, weight in WEIGHTS.items())


def test_every_patient_is_there_and_the_strata_have_the_catalogues_shares():
    table = actg175()
    assert {len(column) for column in table.values()} == {2139}
    shares = {name: count / 2139 for name, count in Counter(table["stratum"]).items()}
    assert shares == pytest.approx(WEIGHTS, abs=DIGITS)
    assert {522, 561} <= set(Counter(table["arm"]).values())


@pytest.mark.parametrize(
    ("arm", "naive", "over52w", "upto52w", "quality"),
    [
        ("zdv_ddi", 0.312, 0.152, 0.171, 0.222),
        ("ddi", 0.200, 0.042, 0.054, 0.110),
        ("zdv_ddc", 0.174, 0.044, -0.026, 0.084),
        ("zdv", 0.024, -0.171, -0.117, -0.080),
    ],
)
def test_gains_of_cd4_cells_have_the_catalogues_means(arm, naive, over52w, upto52w, quality):
    means = cell_means("cd4")
    found = [means[arm, stratum] for stratum in ("naive", "over52w", "upto52w")]
    assert found == pytest.approx([naive, over52w, upto52w], abs=DIGITS)
    assert overall(means, arm) == pytest.approx(quality, abs=DIGITS)


def test_event_free_survival_has_the_catalogues_means():
    means = cell_means("event_free")
    found = [means["zdv_ddi", stratum] for stratum in ("naive", "over52w", "upto52w")]
    assert found == pytest.approx([0.840, 0.759, 0.811], abs=DIGITS)
    assert overall(means, "zdv_ddi") == pytest.approx(0.803, abs=DIGITS)
    worst = {arm: min(m for (a, _), m in means.items() if a == arm) for arm, _ in means}
    assert max(worst.values()) == pytest.approx(0.759, abs=DIGITS)


def test_rewards_lie_in_the_range_that_is_said():
    assert min(actg175("cd4")["reward"]) == -1.0
    assert max(actg175("cd4")["reward"]) == 1.0
    assert set(actg175("event_free")["reward"]) == {0.0, 1.0}


def test_another_outcome_is_refused_with_those_accepted():
    with raises(InvalidArgument, "outcome", given="days"):
        actg175("days")


def test_origin_and_licence_travel_with_the_data():
    folder = files("fairtrial.data") / "actg175"
    assert "No licence of the trial data\nitself is stated there" in (
        folder / "ORIGIN.md"
    ).read_text(encoding="utf-8")
    assert "Cameron Davidson-Pilon" in (folder / "LICENSE").read_text(encoding="utf-8")
