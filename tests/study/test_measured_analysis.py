"""A finished experiment whose rows have several measures."""

import math

import numpy as np
import pytest

import fairtrial as ft
from fairtrial.data import actg175
from fairtrial.errors import InvalidArgument, InvalidOutcome
from fairtrial.presentation.limits import Standing, Standings
from fairtrial.subpopulations import OVERALL, Problem
from tests.messages import raises

DOSES = Problem(
    ["low", "high"], 1, measures={"cured": (0, 1), "harmed": (0, 1)}, objective="cured",
    ceilings={"harmed": 0.4},
)  # fmt: skip


def rows_of(number, *, harm=0.1, hidden=0.0, seed=0):
    """Return units that were assigned in turn; the harm is blank for a share of them."""
    rng = np.random.default_rng(seed)
    table = {"day": range(number), "arm": [], "cured": [], "harmed": []}
    for unit in range(number):
        arm = ("low", "high")[unit % 2]
        table["arm"].append(arm)
        table["cured"].append(float(rng.random() < (0.3 if arm == "low" else 0.7)))
        is_blank = rng.random() < hidden
        table["harmed"].append(math.nan if is_blank else float(rng.random() < harm))
    return table


def standings_of(arm, progress):
    """Return the standings of the limits of an arm, by measure."""
    limits = [one for one in progress.measure_limits if one.arm == arm]
    return {one.measure: Standings.by(progress).of_measure(one) for one in limits}


def test_rows_of_measures_are_read_as_a_study_would_have_been():
    with ft.analyse(DOSES, rows_of(600), 0.05, order="day") as study:
        answer = study.recommend()
        assert (answer.arm, answer.guarantee.label) == ("high", "proven")
        assert standings_of("high", study.progress()) == {"harmed": Standing.KEPT}
        assert study.verify().ok
        assert study.policy.told == 600


def test_the_same_rows_in_another_order_of_the_table_are_the_same_experiment():
    table, places = rows_of(300), np.random.default_rng(1).permutation(300)
    mixed = {name: [list(column)[place] for place in places] for name, column in table.items()}
    with (
        ft.analyse(DOSES, table, order="day") as one,
        ft.analyse(DOSES, mixed, order="day") as other,
    ):
        assert one.policy.progress().to_dict() == other.policy.progress().to_dict()


def test_a_harm_that_hides_counts_as_one():
    """A third of the better arm's harms are blank: counted as the worst, they break its limit."""
    with ft.analyse(DOSES, rows_of(600, hidden=0.35), order="day") as study:
        assert study.recommend().arm != "high"
        missing = sum(one.missing for one in study.progress().measures)
        assert missing > 100
        assert study.policy.guarantee.label == "proven"


@pytest.mark.parametrize(
    "limits",
    [{}, {"ceilings": {"harmed": 0.5}}, {"control": "old", "margin": {"cured": 0.05}}],
    ids=["best", "ceiling", "control"],
)
def test_missing_values_of_one_arm_do_not_keep_two_others_from_being_compared(limits):
    """With all its blanks cures, the third arm would be better than the new one: it stays open."""
    measures = {"cured": (0, 1), "harmed": (0, 1)}
    problem = Problem(
        ["old", "new", "third"], 1, measures=measures, objective="cured", **limits
    )  # fmt: skip
    rng = np.random.default_rng(5)
    arm = rng.choice(problem.arms, size=1_500)
    rates = {"old": 0.2, "new": 0.5, "third": 0.45}
    cured = (rng.random(arm.size) < [rates[one] for one in arm]).astype(float)
    cured[(arm == "third") & (rng.random(arm.size) < 0.2)] = math.nan
    harmed = (rng.random(arm.size) < 0.2).astype(float)
    table = {"arm": arm, "cured": cured, "harmed": harmed}
    with ft.analyse(problem, table, order="as given") as study:
        assert study.recommend().candidates == ("new", "third")
        assert study.progress().remaining is None


def test_a_row_without_any_value_is_a_lost_unit_and_a_column_may_have_another_name():
    table = rows_of(200)
    table["tox"] = table.pop("harmed")
    table["cured"][7] = table["tox"][7] = None
    columns = {"cured": "cured", "harmed": "tox"}
    with ft.analyse(DOSES, table, order="day", outcome=columns) as study:
        kinds = [event.kind for event in study.events()]
        assert kinds.count("fail") == 1
        assert study.policy.told == 199


@pytest.mark.parametrize(
    ("column", "value", "error", "name"),
    [
        ("harmed", 2.0, InvalidOutcome, "table, row 9: harmed"),
        ("harmed", "many", InvalidOutcome, "table, row 9: harmed"),
        ("harmed", math.inf, InvalidOutcome, "table, row 9: harmed"),
        ("arm", "middle", InvalidArgument, "table, row 9"),
    ],
)
def test_a_bad_cell_is_named_with_its_row(column, value, error, name):
    table = rows_of(40)
    table[column][9] = value
    with raises(error, name):
        ft.analyse(DOSES, table, order="day")


def test_a_column_that_is_missing_or_named_in_a_wrong_way_is_refused():
    table = rows_of(40)
    with raises(InvalidArgument, "table"):
        ft.analyse(DOSES, {k: v for k, v in table.items() if k != "harmed"}, order="day")
    with raises(InvalidArgument, "outcome"):
        ft.analyse(DOSES, table, order="day", outcome="cured")
    with raises(InvalidArgument, "reward"):
        ft.analyse(DOSES, table, order="day", outcome={"rash": "tox"})
    with raises(InvalidArgument, "order"):
        ft.analyse(DOSES, table, order="harmed")


def test_the_trial_is_read_with_its_two_measures():
    cells, events = actg175(), actg175("event_free")
    problem = Problem(
        ["zdv", "zdv_ddi", "zdv_ddc", "ddi"], ["naive", "upto52w", "over52w"],
        measures={"cd4": (-1, 1), "event_free": (0, 1)}, objective="cd4",
        floors={("event_free", OVERALL): 0.6},
    )  # fmt: skip
    table = {
        "arm": cells["arm"],
        "group": cells["stratum"],
        "cd4": cells["reward"],
        "event_free": events["reward"],
    }
    with ft.analyse(problem, table, order="as given", group_weights="from the table") as study:
        progress = study.progress()
        assert progress.told == 2139
        assert progress.recommendation.leader == "zdv_ddi"
        known = sum(one.values for one in progress.measures)
        assert known == 2 * 2139


def test_rows_are_compared_with_a_control():
    """The better arm is decided although its harm only has a limit beside the other arm."""
    problem = DOSES.clone(
        ceilings=None, control="low", superiority=0.0, margin={"harmed": 0.2},
        direction={"harmed": "minimize"},
    )  # fmt: skip
    with ft.analyse(problem, rows_of(900), 0.05, order="day") as study:
        answer = study.recommend()
        assert (answer.arm, answer.guarantee.label) == ("high", "proven")
        progress = study.progress()
        assert {one.control for one in progress.measure_limits} == {"low"}
        assert standings_of("high", progress) == {"cured": Standing.KEPT, "harmed": Standing.KEPT}
        assert study.verify().ok
