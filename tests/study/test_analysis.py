"""Finished experiments from tables: what is read, in which order, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairtrial import allocation, analyse, causal, delayed, errors, linear, write_report
from fairtrial.core import Progress
from fairtrial.core.noted import segments_noted
from fairtrial.data import adult_offer
from fairtrial.presentation.counted import counted_note
from fairtrial.study import Study
from fairtrial.study.writer import AssignedUnit, Writer
from fairtrial.subpopulations import BlockBetting, Problem
from tests.messages import raises

PROBLEM = Problem(["old", "new"], ["f", "m"], floors=0.1, reward_range=(0, 1))


def trial(units: int = 800, seed: int = 0) -> pd.DataFrame:
    """A randomised trial in which the new treatment is better, most of all for women."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"arm": rng.choice(["old", "new"], units), "group": rng.choice(["f", "m"], units)}
    )
    chance = 0.3 + 0.3 * (frame.arm == "new") + 0.1 * (frame.group == "f")
    frame["outcome"] = (rng.random(units) < chance).astype(float)
    frame["day"] = np.arange(units)
    return frame


def events(study: Study) -> list[tuple[object, ...]]:
    """Return the events and their cells, with outcomes."""
    history = study.history()[["kind", "arm", "group", "value"]].astype(object)
    return [tuple(None if cell != cell else cell for cell in row) for row in history.to_numpy()]


def test_the_better_treatment_is_found_with_the_guarantee_of_a_live_study() -> None:
    with analyse(PROBLEM, trial(), order="day") as study:
        answer = study.recommend()
        assert (answer.arm, answer.status) == ("new", "decided")
        assert answer.guarantee.proven
        assert study.verify().ok


def test_all_rows_count_for_the_estimates_also_those_after_the_decision() -> None:
    frame = trial()
    with analyse(PROBLEM, frame, order="day") as study:
        progress = study.progress()
        assert progress.asked < len(frame)
        found = {tuple(one.labels.values()): (one.pulls, one.mean) for one in progress.actions}
    for (arm, group), rows in frame.groupby(["arm", "group"]):
        assert found[arm, group] == (len(rows), pytest.approx(rows.outcome.mean()))


def test_rows_are_read_in_the_order_of_assignment() -> None:
    frame = trial(300)
    with analyse(PROBLEM, frame, order="day") as study:
        expected = events(study)
    shuffled = frame.sample(frac=1.0, random_state=1)
    with analyse(PROBLEM, shuffled, order="day") as study:
        assert events(study) == expected
    with analyse(PROBLEM, frame, order="as given") as study:
        assert events(study) == expected


def test_dates_order_rows_by_time_and_not_by_their_letters() -> None:
    frame = trial(300)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(frame.day, unit="D")
    frame["enrolled"] = days.dt.strftime("%Y-%m-%d")
    frame["stamp"] = days
    with analyse(PROBLEM, frame, order="day") as study:
        expected = study.progress().evidence
    for column in ("enrolled", "stamp"):
        with analyse(PROBLEM, frame.sample(frac=1.0, random_state=2), order=column) as study:
            assert study.progress().evidence == expected


def test_numbers_written_as_text_order_rows_as_numbers() -> None:
    frame = trial(300)
    with analyse(PROBLEM, frame, order="day") as study:
        expected = study.progress().evidence
    frame["day"] = frame.day.astype(str)
    with analyse(PROBLEM, frame.sample(frac=1.0, random_state=2), order="day") as study:
        assert study.progress().evidence == expected


@pytest.mark.parametrize("blank", [None, math.nan, "", "  ", "NA", pd.NA, "nan"], ids=repr)
def test_a_blank_outcome_is_a_lost_unit(blank: object) -> None:
    frame = trial(400).astype({"outcome": object})
    frame.loc[::20, "outcome"] = blank
    with analyse(PROBLEM, frame, order="day") as study:
        lost = study.health()["lost"]
        assert lost == sum(frame.outcome[: study.progress().asked].isin([blank])) or lost > 0
        assert study.recommend().guarantee.proven


def test_an_undecided_experiment_names_the_answers_that_are_left() -> None:
    with analyse(PROBLEM, trial(80), order="day") as study:
        answer, progress = study.recommend(), study.progress()
    assert answer.status == "undecided"
    assert "all 80 units of the experiment are used" in answer.reason
    assert answer.candidates is not None
    assert "new" in answer.candidates
    assert progress.remaining is None or progress.remaining > 0


def test_a_file_is_read_as_people_have_it(tmp_path: Path) -> None:
    frame = trial(300).rename(columns={"arm": "treatment", "group": "sex", "outcome": "cured"})
    path = tmp_path / "trial.csv"
    frame.to_csv(path, sep=";", decimal=",", index=False, encoding="utf-8-sig")
    columns = {"arm": "treatment", "group": "sex"}
    with analyse(PROBLEM, path, order="day", outcome="cured", columns=columns) as study:
        assert study.progress().told == 300


def test_labels_that_are_numbers_are_matched_as_text(tmp_path: Path) -> None:
    problem = Problem(2, 1, floors=None, reward_range=(0, 1))
    rows = {"arm": [0.0, 1.0] * 100, "outcome": [0, 1] * 100}
    with analyse(problem, rows, order="as given") as study:
        assert study.recommend().arm == "1"


def test_groups_may_weigh_as_much_as_they_have_rows() -> None:
    frame = trial(400)
    with pytest.warns(UserWarning, match="group_weights"):
        study = analyse(PROBLEM, frame, order="day", group_weights="from the table")
    with study:
        shares = frame.group.value_counts(normalize=True)
        assert study.problem.shares.tolist() == pytest.approx([shares["f"], shares["m"]])


def test_the_study_is_kept_where_it_is_told_and_has_a_report(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path / 'trial.db'}"
    with analyse(PROBLEM, trial(300), order="day", storage=storage, name="cure") as study:
        head = study.head_hash
    with Study.open(storage, "cure") as study:
        assert study.head_hash == head
        assert isinstance(study.policy, BlockBetting)
        page = tmp_path / "report.html"
        write_report(study, page)
    assert "in the order in which they were assigned" in page.read_text(encoding="utf-8")


# -------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"order": "when"}, "table"),
        ({"order": "arm"}, "order, row 0"),
        ({"outcome": "cured"}, "table"),
        ({"columns": {"dose": "arm"}}, "columns"),
        ({"columns": {"group": "site"}}, "table"),
        ({"group_weights": "equal"}, "group_weights"),
        ({"delta": 1.5}, "delta"),
    ],
    ids=str,
)
def test_arguments_that_fit_no_table_are_refused(change: dict[str, object], name: str) -> None:
    with raises(errors.InvalidArgument, name):
        analyse(PROBLEM, trial(100), **{"order": "day", **change})


@pytest.mark.parametrize(
    ("column", "value", "error", "name"),
    [
        ("arm", "placebo", errors.InvalidArgument, "table, row 7"),
        ("outcome", 1.5, errors.InvalidOutcome, "table, row 7: outcome"),
        ("outcome", "ill", errors.InvalidOutcome, "table, row 7: outcome"),
        ("outcome", math.inf, errors.InvalidOutcome, "table, row 7: outcome"),
        ("day", "21/11/2026", errors.InvalidArgument, "order, row 7"),
        ("day", math.nan, errors.InvalidArgument, "order, row 7"),
    ],
    ids=str,
)
def test_a_bad_row_is_named(column: str, value: object, error: type[Exception], name: str) -> None:
    frame = trial(100).astype({column: object})
    frame.loc[7, column] = value
    with raises(error, name):
        analyse(PROBLEM, frame, order="day")


def test_a_bad_line_of_a_file_is_named_as_an_editor_counts(tmp_path: Path) -> None:
    path = tmp_path / "trial.csv"
    path.write_text("arm,group,outcome\nold,f,0\nnew,f,7\n")
    with raises(errors.InvalidOutcome, "table, line 3: outcome"):
        analyse(PROBLEM, path, order="as given")


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("arm,group,outcome\nold,f,0\nnew,f,1\n\n\nnew,f,7\n", "table, line 6: outcome"),
        ('arm,group,outcome,note\nold,f,0,"two\nlines"\nnew,f,x,\n', "table, line 4: outcome"),
        ("arm;group;outcome\nold;f;0,5\nnew;f;1.25\n", "table, line 3: outcome"),
    ],
)
def test_lines_are_those_of_the_file(tmp_path: Path, content: str, place: str) -> None:
    (tmp_path / "trial.csv").write_text(content)
    with raises(errors.InvalidOutcome) as caught:
        analyse(PROBLEM, tmp_path / "trial.csv", order="as given")
    assert caught.value.name == place


def test_numbers_that_may_be_two_are_refused_until_the_separator_is_stated(tmp_path: Path) -> None:
    problem = PROBLEM.clone(reward_range=(0, 3000))
    path = tmp_path / "trial.csv"
    path.write_text("arm;group;outcome\n" + "old;f;1.500\nnew;f;2.347\n" * 2 + "old;m;2\nnew;m;2\n")
    with raises(errors.InvalidOutcome) as caught:
        analyse(problem, path, order="as given")
    assert caught.value.name == "table, line 2: outcome"
    for decimal, mean in ((".", 2.347), (",", 2347.0)):
        with analyse(problem, path, order="as given", decimal=decimal) as study:
            assert study.progress().actions[2].mean == pytest.approx(mean)


def test_units_count_once_and_not_at_all_if_they_are_in_both_arms() -> None:
    rows = [
        ("u", "old", "f", 1),
        ("v", "new", "f", 0),
        ("u", "new", "f", 0),
        ("w", "new", "m", None),
    ]
    rows += [("w", "new", "m", 1), ("w", "new", "m", 0), ("x", "old", "f", 0), ("y", "old", "m", 1)]
    frame = pd.DataFrame(rows, columns=["user", "arm", "group", "outcome"])
    with pytest.warns(UserWarning, match="unit 'user'") as caught:
        study = analyse(PROBLEM, frame, order="as given", unit="user")
    with study:
        told = [(row[1], row[2], row[3]) for row in events(study) if row[0] == "tell"]
    assert told == [("new", "f", 0), ("new", "m", 1), ("old", "f", 0), ("old", "m", 1)]
    said = [str(one.message) for one in caught if "unit" in str(one.message)]
    assert any("1 unit in several variants: none of their 2 rows" in one for one in said)
    assert any("2 further rows" in one for one in said)


def test_a_row_without_a_unit_is_refused_and_words_are_missing_outcomes() -> None:
    rows = {
        "arm": ["old", "new"] * 2,
        "group": ["f", "f", "m", "m"],
        "outcome": [0, "failed", 1, 1],
    }
    with raises(errors.InvalidArgument) as caught:
        analyse(PROBLEM, {**rows, "user": [1, 2, None, 3]}, order="as given", unit="user")
    assert caught.value.name == "row 2: user"
    with analyse(PROBLEM, rows, order="as given") as study:
        assert study.health()["lost"] == 1


def test_an_arm_without_a_row_is_refused() -> None:
    rows = {"arm": ["old"] * 9, "group": ["f"] * 9, "outcome": [0] * 9}
    with raises(errors.InvalidArgument, "table"):
        analyse(PROBLEM, rows, order="as given")


def test_columns_of_unequal_length_and_empty_tables_are_refused() -> None:
    rows = {"arm": ["old"] * 9, "group": ["f"] * 8, "outcome": [0] * 9}
    with raises(errors.InvalidArgument, "table", given=9):
        analyse(PROBLEM, rows, order="as given")
    with raises(errors.InvalidArgument, "table"):
        analyse(PROBLEM, {"arm": [], "group": [], "outcome": []}, order="as given")


def test_a_family_without_such_an_analysis_says_so() -> None:
    problem = allocation.Problem(["a", "b"], shares=0.2)
    with raises(errors.NotSupported):
        analyse(problem, {"arm": ["a"], "outcome": [1]}, order="as given")


def test_a_refused_table_leaves_no_study_behind(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path / 'trial.db'}"
    frame = trial(100)
    frame.loc[50, "outcome"] = 2.0
    with raises(errors.InvalidOutcome):
        analyse(PROBLEM, frame, order="day", storage=storage)
    assert not (tmp_path / "trial.db").exists()


def test_two_columns_of_one_name_are_refused() -> None:
    frame = trial(100)
    for name in ("arm", "outcome", "day"):
        twice = pd.concat([frame, frame[[name]]], axis=1)
        with raises(errors.InvalidArgument, "table"):
            analyse(PROBLEM, twice, order="day")


def test_two_columns_of_one_name_in_a_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "trial.csv"
    path.write_text("arm,group,outcome,outcome\nold,f,0,1\nnew,f,1,0\n")
    with raises(errors.InvalidArgument, "path"):
        analyse(PROBLEM, path, order="as given")


def test_rows_with_equal_places_are_warned_about_and_stay_in_the_order_of_the_table() -> None:
    table = trial(200)
    table["day"] = np.arange(200) // 10
    with pytest.warns(UserWarning, match="200 of 200 rows") as found:
        study = analyse(PROBLEM, table, order="day")
    with study, analyse(PROBLEM, table, order="as given") as same:
        assert events(study) == events(same)
    assert len(found) == 1


@pytest.mark.parametrize("order", ["constant", "label"])
def test_a_column_that_gives_no_order_is_refused(order: str) -> None:
    table = trial(200).assign(constant=1).replace({"f": "1", "m": "2"})
    problem = PROBLEM.clone(groups=["1", "2"])
    with raises(errors.InvalidArgument) as error:
        analyse(problem, table, order="group" if order == "label" else order)
    assert error.value.name == "order"


def test_the_outcomes_are_no_order() -> None:
    with raises(errors.InvalidArgument, "order"):
        analyse(PROBLEM, trial(100), order="outcome")


# --------------------------------------------------------------------------- other families

BREWS = delayed.Problem(["a", "b", "c", "d"], top=2, reward_range=(0, 1))
RECIPES = linear.Problem(
    [[1, 0, 0], [1, 1, 0], [1, 0, 1], [1, 1, 1]],
    arms=["plain", "salt", "heat", "both"],
    noise_std=1.0,
)
MEANS = {
    BREWS.family: {"a": 0.2, "b": 0.3, "c": 0.7, "d": 0.8},
    RECIPES.family: {"plain": 0.0, "salt": 1.0, "heat": -1.0, "both": 0.0},
}
ANSWERS = {BREWS.family: ("d", "c"), RECIPES.family: "salt"}
OTHERS = [pytest.param(BREWS, id="delayed"), pytest.param(RECIPES, id="linear")]


def batches(problem: delayed.Problem | linear.Problem, units: int) -> pd.DataFrame:
    """An experiment in which every arm got the same number of units, in random order."""
    rng = np.random.default_rng(3)
    arms = rng.permutation([problem.arms[unit % 4] for unit in range(units)])
    means = np.array([MEANS[problem.family][arm] for arm in arms])
    noise = rng.random(units) < means if problem.reward_range else means + rng.normal(size=units)
    return pd.DataFrame({"arm": arms, "outcome": noise.astype(float), "day": np.arange(units)})


@pytest.mark.parametrize("problem", OTHERS)
def test_a_clear_difference_is_found_in_other_families(problem: delayed.Problem) -> None:
    with analyse(problem, batches(problem, 600), order="day") as study:
        answer, progress = study.recommend(), study.progress()
        assert answer.status == "decided"
        assert set(np.atleast_1d(answer.arm)) == set(np.atleast_1d(ANSWERS[problem.family]))
        assert answer.guarantee.proven
        assert "in the order in which they were assigned" in " ".join(answer.guarantee.assumptions)
        assert progress.told == 600
        assert progress.asked < 600
        for effect in progress.effects:
            true = MEANS[problem.family]
            assert effect.lower < true[effect.arm] - true[effect.reference] < effect.upper
        assert study.verify().ok


@pytest.mark.parametrize("problem", OTHERS)
def test_an_undecided_experiment_of_other_families_says_what_is_missing(
    problem: delayed.Problem,
) -> None:
    with analyse(problem, batches(problem, 48), order="day") as study:
        answer, progress = study.recommend(), study.progress()
    assert answer.status == "undecided"
    assert "all 48 units of the experiment are used" in answer.reason
    assert set(np.atleast_1d(ANSWERS[problem.family])) <= set(answer.candidates)
    assert progress.remaining is not None
    assert progress.remaining > 0


@pytest.mark.parametrize("problem", OTHERS)
def test_a_unit_without_an_outcome_is_lost_in_other_families(problem: delayed.Problem) -> None:
    frame = batches(problem, 200).astype({"outcome": object})
    frame.loc[::20, "outcome"] = ""
    with analyse(problem, frame, order="day") as study:
        used = study.progress().asked
        assert study.health()["lost"] == len(range(0, used, 20))
        # Without a range, losses must be unrelated to the outcomes.
        assert study.recommend().guarantee.proven == (problem.reward_range is not None)


@pytest.mark.parametrize("problem", OTHERS)
def test_the_order_of_the_rows_does_not_count_in_other_families(problem: delayed.Problem) -> None:
    frame = batches(problem, 200)
    with analyse(problem, frame, order="day") as study:
        expected = study.progress().evidence
    with analyse(problem, frame.sample(frac=1.0, random_state=1), order="day") as study:
        assert study.progress().evidence == expected


@pytest.mark.parametrize("problem", OTHERS)
def test_a_study_of_other_families_is_kept_and_has_a_report(
    problem: delayed.Problem, tmp_path: Path
) -> None:
    storage = f"sqlite:///{tmp_path / 'trial.db'}"
    with analyse(problem, batches(problem, 200), order="day", storage=storage) as study:
        expected = study.progress().evidence
    with Study.open(storage, "analysis") as study:
        assert study.progress().evidence == expected
        write_report(study, tmp_path / "report.html")


@pytest.mark.parametrize("zones", [("", "+01:00"), ("Z", "")])
def test_a_time_with_a_zone_unlike_those_before_is_named(zones: tuple[str, str]) -> None:
    days = [f"2026-11-{day:02d} 12:00:00{zones[0]}" for day in range(1, 9)]
    odd = f"2026-11-06 12:00:00{zones[1]}"
    table = {"arm": ["a", "b"] * 4, "outcome": [0, 1] * 4, "day": [*days[:5], odd, *days[6:]]}
    problem = Problem(["a", "b"], 1, floors=None, reward_range=(0, 1))
    with raises(errors.InvalidArgument, "order, row 5", given=odd):
        analyse(problem, table, order="day")


@pytest.mark.parametrize("odd", ["1788220889", "soon"])
def test_a_cell_unlike_the_dates_of_its_column_is_named(odd: str) -> None:
    days = [f"2026-11-{day:02d}" for day in range(1, 9)]
    table = {"arm": ["a", "b"] * 4, "outcome": [0, 1] * 4, "day": [*days[:5], odd, *days[6:]]}
    problem = Problem(["a", "b"], 1, floors=None, reward_range=(0, 1))
    with raises(errors.InvalidArgument, "order, row 5", given=odd):
        analyse(problem, table, order="day")


@pytest.mark.parametrize("problem", OTHERS)
@pytest.mark.parametrize(
    ("column", "value", "error", "name"),
    [
        ("arm", "z", errors.InvalidArgument, "table, row 7"),
        ("outcome", "ill", errors.InvalidOutcome, "table, row 7: outcome"),
        ("outcome", math.inf, errors.InvalidOutcome, "table, row 7: outcome"),
        ("day", "soon", errors.InvalidArgument, "order, row 7"),
    ],
    ids=str,
)
def test_a_bad_row_of_other_families_is_named(
    problem: delayed.Problem, column: str, value: object, error: type[Exception], name: str
) -> None:
    frame = batches(problem, 80).astype({column: object})
    frame.loc[7, column] = value
    with raises(error, name):
        analyse(problem, frame, order="day")


def test_an_arm_without_a_row_matters_only_where_no_other_tells_its_mean() -> None:
    frame = batches(BREWS, 80)
    with raises(errors.InvalidArgument, "table"):
        analyse(BREWS, frame[frame.arm != "d"], order="day")
    frame = batches(RECIPES, 400)
    with analyse(RECIPES, frame[frame.arm != "both"], order="day") as study:
        assert study.recommend().arm == "salt"
    with raises(errors.InvalidArgument, "table"):
        analyse(RECIPES, frame[frame.arm.isin(["plain", "heat"])], order="day")


def test_noise_that_is_to_be_estimated_is_refused() -> None:
    problem = RECIPES.clone(noise_std="estimated")
    with raises(errors.InvalidArgument, "problem"):
        analyse(problem, batches(RECIPES, 80), order="day")


@pytest.mark.parametrize("problem", OTHERS)
def test_only_groups_have_weights(problem: delayed.Problem) -> None:
    with raises(errors.InvalidArgument, "group_weights"):
        analyse(problem, batches(problem, 80), order="day", group_weights="from the table")


# ------------------------------------------------------------------- outcomes that are rows

OFFERS, PEOPLE = causal.chain(
    0.5,
    {"now": [[0.6, 0.4], [0.5, 0.5]], "fair": [[0.2, 0.8]] * 2, "rash": [[0.0, 1.0], [0.5, 0.5]]},
    [0.1, 0.9],
    0.2,
)


def offers(units: int = 400) -> pd.DataFrame:
    """A log of interventions: each row has the attribute, the intervention, and the outcome."""
    rng = np.random.default_rng(4)
    actions = rng.integers(OFFERS.n_actions, size=units)
    table = PEOPLE.table(actions, rng)
    done = [OFFERS.labels(action)["sensitive"] for action in actions.tolist()]
    frame = pd.DataFrame({**table, "sensitive": done, "day": np.arange(units)})
    return frame.drop(columns="s_mode")


def test_a_log_of_interventions_is_analysed_with_a_report(tmp_path: Path) -> None:
    path = tmp_path / "offers.csv"
    offers().to_csv(path, index=False)
    storage = f"sqlite:///{tmp_path / 'offers.db'}"
    with analyse(OFFERS, path, order="day", storage=storage) as study:
        answer = study.recommend()
        assert (answer.arm, answer.status) == ("fair", "decided")
        assert answer.guarantee.proven
        assert study.progress().told == 400
        assert study.verify().ok
        page = write_report(study, tmp_path / "offers.html").read_text(encoding="utf-8")
    assert "Counterfactual gaps" in page
    read = causal.read(OFFERS, PEOPLE.table([0], np.random.default_rng(0)))
    assert read.problem == study.problem


@pytest.mark.parametrize("field", ["Y", "V"])
def test_words_for_a_missing_field_are_read_as_blank_ones_are(field: str) -> None:
    found = []
    for word in ("", "failed", " Missing "):
        frame = offers().astype({field: object})
        frame.loc[::20, field] = word
        with analyse(OFFERS, frame, order="day") as study:
            found.append((study.policy.progress().to_dict(), study.health()["lost"]))
    assert found[0][1] > 0
    assert found[0] == found[1] == found[2]


def test_a_state_with_the_name_of_such_a_word_is_no_missing_value() -> None:
    """Exams are passed or failed, and a wage follows."""
    model = causal.CausalModel(
        [("S", "V"), ("V", "Y")],
        states={"S": ["s", "t"], "V": ["passed", "failed"], "Y": ["0", "1"]},
        tables={"S": [0.5, 0.5], "Y": [[0.2, 0.8], [0.7, 0.3]]},
    )
    arms = {"old": [[0.5, 0.5], [0.5, 0.5]], "new": [[0.8, 0.2], [0.8, 0.2]]}
    problem = causal.Problem(model, "S", "V", "Y", arms, 0.2, (0.0, 1.0))
    rng = np.random.default_rng(4)
    table = causal.NetworkEnvironment(problem).table(rng.integers(2, size=80), rng)
    frame = pd.DataFrame({**table, "sensitive": "natural"}).drop(columns="s_mode")
    assert set(frame["V"]) == {"passed", "failed"}
    frame.loc[3, "V"] = "missing"
    with analyse(problem, frame, order="as given") as study:
        assert study.health()["lost"] == 1


def test_an_analysis_says_how_many_results_count_for_the_evidence() -> None:
    """Of complete blocks until the decision; means count all rows."""
    trials = pd.DataFrame({"arm": ["0", "1"] * 300, "outcome": [0, 1] * 300, "day": range(600)})
    trial = Problem(2, 1, floors=None, reward_range=(0, 1))
    cases = [(OFFERS, offers()), (BREWS, batches(BREWS, 400)), (RECIPES, batches(RECIPES, 90))]
    for problem, frame in [*cases, (trial, trials), (trial, trials[:70])]:
        with analyse(problem, frame, order="day") as study:
            policy, progress = study.policy, study.progress()
            blocks = policy._cuts.starts.items()
            assert blocks
            used = sum(end - start for start, end in blocks if end <= policy.asked)
            assert progress.settled == used < progress.told == len(frame)
            assert all(one.counted in (None, one.pulls) for one in progress.actions)
            assert f"{used} of {len(frame)} results count for the evidence" in counted_note(
                progress
            )


def test_an_intervention_without_its_outcome_is_lost() -> None:
    frame = offers().astype({"Y": object})
    frame.loc[::20, "Y"] = ""
    with analyse(OFFERS, frame, order="day") as study:
        used = study.progress().asked
        assert study.health()["lost"] == len(range(0, used, 20))
        assert study.recommend().guarantee.proven


@pytest.mark.parametrize(
    ("column", "value", "error", "name"),
    [
        ("arm", "z", errors.InvalidArgument, "table, row 7"),
        ("sensitive", "z", errors.InvalidArgument, "table, row 7"),
        ("V", "9", errors.InvalidOutcome, "table, row 7: V"),
        ("Y", 2.0, errors.InvalidOutcome, "table, row 7: Y"),
    ],
    ids=str,
)
def test_a_bad_row_of_interventions_is_named(
    column: str, value: object, error: type[Exception], name: str
) -> None:
    frame = offers(80).astype({column: object})
    frame.loc[7, column] = value
    with raises(error, name):
        analyse(OFFERS, frame, order="day")


def test_interventions_are_not_ordered_by_what_came_of_them() -> None:
    with raises(errors.InvalidArgument, "order"):
        analyse(OFFERS, offers(40), order="Y")


def test_one_snapshot_is_saved_however_many_rows_there_are() -> None:
    """One for every thousand events would take time in proportion to the square of the rows."""
    rows = {"arm": ["old", "new"] * 600, "group": ["f"] * 600 + ["m"] * 600}
    with analyse(PROBLEM, {**rows, "outcome": [0.5] * 1_200}, order="as given") as study:
        assert study.n_events > 2_000
        assert len(list(study.session.store.snapshots(study.session.id))) == 1


def test_the_log_holds_every_unit_as_a_pull_with_its_end(tmp_path: Path) -> None:
    frame = trial(700).astype({"outcome": object})
    frame.loc[5::40, "outcome"] = None
    storage = f"sqlite:///{tmp_path / 'trial.db'}"
    with analyse(PROBLEM, frame, order="day", storage=storage) as study:
        asked = study.progress().asked
        kinds = study.history()["kind"].value_counts()
        assert study.verify().ok
    assert kinds["ask"] == asked == kinds["tell"] + kinds["fail"]
    assert kinds["unsolicited"] == frame.outcome[asked:].notna().sum()
    with Study.open(storage, "analysis") as study:
        assert study.verify().ok
        assert not study.outstanding()


def test_batches_do_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with analyse(PROBLEM, trial(700), order="day") as study:
        expected = study.progress()
    monkeypatch.setattr("fairtrial.study.analysis._AT_ONCE", 37)
    with analyse(PROBLEM, trial(700), order="day") as study:
        assert study.progress() == expected
        assert study.verify().ok


def test_a_batch_is_refused_if_somebody_else_wrote_to_the_study(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path / 'trial.db'}"
    units = [AssignedUnit(unit % 2, 0.5) for unit in range(40)]
    problem = Problem(["old", "new"], ["all"], floors=None, reward_range=(0, 1))
    policy = BlockBetting(problem, assigned=[unit.action for unit in units])
    with Study.create(problem, policy, storage=storage, name="t", seed=0) as study:
        study.session.play(units[:10], 0)
        with Study.open(storage, "t") as other:
            pull = other.ask()
        for _ in ("open", "told"):
            with raises(errors.StorageError):
                study.session.play(units[10:20], 10)
            study.tell(pull, 0.5)
        assert study.progress().told == 11
        assert study.verify().ok


def test_an_interrupted_batch_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    units = [AssignedUnit(unit % 2, 0.5) for unit in range(40)]
    problem = Problem(["old", "new"], ["all"], floors=None, reward_range=(0, 1))
    policy = BlockBetting(problem, assigned=[unit.action for unit in units])
    storage = f"sqlite:///{tmp_path / 'trial.db'}"
    with Study.create(problem, policy, storage=storage, name="t", seed=0) as study:
        study.session.play(units[:10], 0)
        head = study.head_hash
        with monkeypatch.context() as patched:
            patched.setattr(Writer, "flush", _interrupted)
            with pytest.raises(KeyboardInterrupt):
                study.session.play(units[10:], 10)
        assert study.head_hash == head
        study.session.play(units[10:], 10)
        assert study.progress().told == 40
        assert study.verify().ok


def _interrupted(_writer: Writer) -> None:
    raise KeyboardInterrupt


DAYS = {
    "day": [1, 1, 2, 2, 3, 3],
    "arm": ["old", "new"] * 3,
    "users": [300, 310, 290, 300, 0, 5],
    "bought": [30, 93, 29, 90, 0, 2],
}
SHOP = Problem(["old", "new"], ["all"], floors=None, reward_range=(0, 1))


def test_counts_by_day_are_analysed_as_their_units() -> None:
    with pytest.warns(UserWarning, match="random order"):
        study = analyse(SHOP, DAYS, order="day", count="users", successes="bought")
    with study:
        assert study.recommend().arm == "new"
        found = {one.labels["arm"]: (one.pulls, one.mean) for one in study.progress().actions}
        assert found["old"] == (590, pytest.approx(59 / 590))
        assert found["new"] == (615, pytest.approx(185 / 615))
        assert study.verify().ok


def test_counts_by_outcome_are_the_same_units_as_counts_of_successes() -> None:
    rows = zip(DAYS["day"], DAYS["arm"], DAYS["users"], DAYS["bought"], strict=True)
    by_outcome = [
        (day, arm, outcome, number)
        for day, arm, users, bought in rows
        for outcome, number in ((1, bought), (0, users - bought))
    ]
    table = dict(zip(("day", "arm", "outcome", "n"), zip(*by_outcome, strict=True), strict=True))
    with analyse(SHOP, table, order="day", count="n") as study:
        found = {one.labels["arm"]: (one.pulls, one.mean) for one in study.progress().actions}
        assert found["old"] == (590, pytest.approx(59 / 590))
        assert found["new"] == (615, pytest.approx(185 / 615))
        assert study.recommend().arm == "new"


def test_counts_without_an_order_are_read_at_random_and_said_to_be() -> None:
    table = {"arm": ["old", "new"], "users": [600, 600], "bought": [60, 180]}
    with pytest.warns(UserWarning, match="does not show the order"):
        study = analyse(SHOP, table, order="at random", count="users", successes="bought")
    with study:
        assert study.recommend().arm == "new"


def test_a_blank_outcome_of_a_count_is_as_many_lost_units() -> None:
    table = {"arm": ["old", "new", "new"], "n": [20, 10, 9], "outcome": [0, 1, None]}
    with analyse(SHOP, table, order="at random", count="n") as study:
        assert study.health()["lost"] == 9


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"count": None}, "successes"),
        ({"order": "as given"}, "order"),
        ({"order": "at random", "count": None, "successes": None}, "order"),
        ({"unit": "day"}, "unit"),
        ({"outcome": "bought"}, "outcome"),
        ({"successes": "users"}, "successes"),
        ({"count": "people"}, "table"),
        ({"successes": "sales"}, "table"),
        ({"order": "bought"}, "order"),
    ],
)
def test_options_that_fit_no_table_of_counts_are_refused(change: dict[str, str], name: str) -> None:
    given = {"order": "day", "count": "users", "successes": "bought"} | change
    with raises(errors.InvalidArgument) as error:
        analyse(SHOP, DAYS, **given)
    assert error.value.name == name


def test_successes_are_refused_if_an_outcome_has_several_parts() -> None:
    problem = Problem(
        ["old", "new"],
        ["all"],
        measures={"bought": (0, 1), "paid": (0, 9)},
        objective="bought",
    )
    with raises(errors.InvalidArgument) as error:
        analyse(problem, DAYS, order="day", count="users", successes="bought")
    assert error.value.name == "successes"


# ------------------------------------------------------------ refused outcomes, and segments


def page_visits(units: int = 400) -> dict[str, list[object]]:
    """Return visits of two pages, with the revenue of each in the column 'revenue'."""
    return {
        "day": list(range(units)),
        "arm": ["old", "new"] * (units // 2),
        "device": ["phone"] * (units // 4) + ["desktop"] * (units - units // 4),
        "revenue": [float(unit % 7 == 0) for unit in range(units)],
    }


ONE_PAGE = Problem(["old", "new"], ["all"], floors=None, reward_range=(0, 1))


def test_a_refused_outcome_is_named_by_its_column_with_the_number_of_others() -> None:
    table = page_visits()
    for row in (7, 20, 300):
        table["revenue"][row] = 1.5
    with raises(errors.InvalidOutcome, "table, row 7: revenue", given=1.5) as error:
        analyse(ONE_PAGE, table, order="day", outcome="revenue")
    assert "2 other rows" in error.value.accepted


def test_a_refused_measure_is_named_by_its_column() -> None:
    problem = Problem(["old", "new"], ["all"], measures={"paid": (0, 1)}, objective="paid")
    table = page_visits()
    table["revenue"][7] = 1.5
    with raises(errors.InvalidOutcome, "table, row 7: revenue", given=1.5) as error:
        analyse(problem, table, order="day", outcome={"paid": "revenue"})
    assert "other row" not in error.value.accepted


def test_segments_are_notes_of_the_study() -> None:
    given = {"order": "day", "outcome": "revenue", "progress": False}
    with (
        analyse(ONE_PAGE, page_visits(), segments=["device"], **given) as study,
        analyse(ONE_PAGE, page_visits(), **given) as plain,
    ):
        found = segments_noted(study.notes)
        assert list(found) == [f"device = {one}: new minus old" for one in ("desktop", "phone")]
        assert "300 units" in found["device = desktop: new minus old"]
        assert study.recommend() == plain.recommend()
        assert segments_noted(plain.notes) == {}


def test_segments_are_a_list_of_columns() -> None:
    with raises(errors.InvalidArgument, "segments", given="device"):
        analyse(ONE_PAGE, page_visits(), order="day", outcome="revenue", segments="device")


def with_losses(shares: tuple[float, float]) -> dict[str, list[object]]:
    """Return 4,000 units of two arms, each of which lacks a share of its outcomes."""
    rng = np.random.default_rng(5)
    arms = rng.permutation([0, 1] * 2000).tolist()
    outcomes = [
        None if rng.random() < shares[arm] else float(rng.random() < 0.3 + 0.1 * arm)
        for arm in arms
    ]
    return {"arm": [("old", "new")[arm] for arm in arms], "outcome": outcomes}


def _width_of_difference(progress: Progress) -> float:
    [effect] = [one for one in progress.effects if one.lower is not None]
    return effect.upper - effect.lower


PLAIN = Problem(["old", "new"], ["all"], floors=None, reward_range=(0, 1))


def test_an_analysis_that_ignores_losses_is_that_of_the_table_without_them() -> None:
    table = with_losses((0.03, 0.03))
    rows = [row for row, outcome in enumerate(table["outcome"]) if outcome is not None]
    without = {name: [column[row] for row in rows] for name, column in table.items()}
    found = analyse(PLAIN, table, order="as given", losses="ignorable").progress()
    expected = analyse(PLAIN, without, order="as given").progress()
    assert found.effects == expected.effects
    assert found.evidence == expected.evidence
    as_worst = analyse(PLAIN, table, order="as given").progress()
    narrow, wide = map(_width_of_difference, (found, as_worst))
    assert narrow < 0.9 * wide


def lossy_third(rates: dict[str, float], number: int = 1_500, share: float = 0.2) -> pd.DataFrame:
    """Return units of three arms in random order; a share of the outcomes of `third` is blank."""
    rng = np.random.default_rng(5)
    arm = rng.choice(list(rates), size=number)
    outcome = (rng.random(number) < [rates[one] for one in arm]).astype(float)
    outcome[(arm == "third") & (rng.random(number) < share)] = np.nan
    return pd.DataFrame({"arm": arm, "outcome": outcome})


@pytest.mark.parametrize(
    "given",
    [{"floors": None}, {"floors": 0.1}, {"control": "old", "margin": 0.05}],
    ids=["best", "floor", "control"],
)
def test_losses_of_one_arm_do_not_keep_two_others_from_being_compared(
    given: dict[str, Any],
) -> None:
    # With all its blanks ones, the third arm would be better than the new one: that stays open.
    problem = Problem(["old", "new", "third"], ["all"], reward_range=(0, 1), **given)
    table = lossy_third({"old": 0.2, "new": 0.5, "third": 0.45})
    with analyse(problem, table, order="as given") as study:
        answer = study.recommend()
        assert answer.candidates == ("new", "third")
        assert answer.guarantee.proven
        assert study.progress().remaining is None


def test_losses_of_one_arm_do_not_keep_others_from_missing_their_floors() -> None:
    problem = Problem(["old", "new", "third"], ["all"], floors=0.5, reward_range=(0, 1))
    table = lossy_third({"old": 0.2, "new": 0.2, "third": 0.45})
    with analyse(problem, table, order="as given") as study:
        assert study.recommend().candidates == ("third", None)


def test_losses_are_not_ignorable_if_an_arm_has_more_of_them() -> None:
    with pytest.warns(UserWarning, match="missing outcomes"):
        study = analyse(PLAIN, with_losses((0.02, 0.12)), order="as given", losses="ignorable")
    assert not study.recommend().guarantee.proven
    with pytest.warns(UserWarning, match="missing outcomes"):
        study = analyse(PLAIN, with_losses((0.02, 0.12)), order="as given")
    assert study.recommend().guarantee.proven


def test_losses_are_ignorable_only_in_families_that_have_this_choice() -> None:
    problem = delayed.Problem(["old", "new"], top=1, reward_range=(0, 1))
    with raises(errors.NotSupported):
        analyse(problem, with_losses((0.0, 0.0)), order="as given", losses="ignorable")
    empty = {"arm": ["old", "new"], "outcome": [None, None]}
    with raises(errors.InvalidArgument, "table"):
        analyse(PLAIN, empty, order="as given", losses="ignorable")


def test_losses_that_depend_on_arm_and_group_are_found_if_they_look_equal_by_arm() -> None:
    rng = np.random.default_rng(6)
    arms, groups = rng.permutation([0, 1] * 2000), rng.integers(2, size=4000)
    # Old lacks outcomes of the first group, new those of the second.
    lost = rng.random(4000) < np.where(arms == groups, 0.08, 0.01)
    outcomes = (rng.random(4000) < 0.3 + 0.1 * arms).astype(float)
    table = {
        "arm": [("old", "new")[arm] for arm in arms],
        "group": [("f", "m")[group] for group in groups],
        "outcome": [None if gone else y for gone, y in zip(lost, outcomes, strict=True)],
    }
    problem = Problem(["old", "new"], ["f", "m"], floors=None, reward_range=(0, 1))
    with pytest.warns(UserWarning, match="missing outcomes.*old / f"):
        study = analyse(problem, table, order="as given", losses="ignorable")
    assert not study.recommend().guarantee.proven
    table["group"] = rng.permutation(table["group"]).tolist()
    with pytest.warns(UserWarning, match="are left out") as said:
        study = analyse(problem, table, order="as given", losses="ignorable")
    assert not any("missing outcomes" in str(one.message) for one in said)
    assert study.recommend().guarantee.proven


@pytest.mark.parametrize("arm", ["old", "new"])
def test_losses_are_not_ignorable_if_an_arm_has_no_outcome_at_all(arm: str) -> None:
    table = with_losses((0.0, 0.0))
    pairs = zip(table["arm"], table["outcome"], strict=True)
    table["outcome"] = [None if own == arm else outcome for own, outcome in pairs]
    with raises(errors.InvalidArgument, "losses", given="ignorable"):
        analyse(PLAIN, table, order="as given", losses="ignorable")


def test_losses_may_leave_few_units() -> None:
    table = with_losses((0.0, 0.0))
    last = {arm: row for row, arm in enumerate(table["arm"])}
    table["outcome"] = [
        outcome if row in last.values() else None for row, outcome in enumerate(table["outcome"])
    ]
    with analyse(PLAIN, table, order="as given", losses="ignorable") as study:
        assert study.progress().assigned == study.progress().told == 2
        assert study.recommend().status == "undecided"


def test_segments_units_and_predictions_are_those_of_the_units_with_outcomes() -> None:
    table = with_losses((0.03, 0.03))
    rng = np.random.default_rng(8)
    table["device"] = rng.choice(["phone", "desk"], 4000).tolist()
    table["user"] = [str(user) for user in rng.permutation(4000)]
    table["before"] = rng.random(4000).tolist()
    rows = [row for row, outcome in enumerate(table["outcome"]) if outcome is not None]
    without = {name: [column[row] for row in rows] for name, column in table.items()}
    predicted = PLAIN.clone(prediction=(0, 1))
    for problem, options in (
        (PLAIN, {"segments": ["device"], "unit": "user"}),
        (predicted, {"prediction": "before"}),
        (predicted, {"features": ["before"]}),
    ):
        found = analyse(problem, table, order="as given", losses="ignorable", **options)
        expected = analyse(problem, without, order="as given", losses="ignorable", **options)
        assert found.progress() == expected.progress()
        assert found.progress().effects == expected.progress().effects
        assert segments_noted(found.notes) == segments_noted(expected.notes)
        assert bool(segments_noted(found.notes)) == ("segments" in options)


def adult_rows() -> tuple[causal.Problem, dict[str, list[object]]]:
    """Return a causal question, and 900 rows of it in random order."""
    question = adult_offer("easy")
    problem = causal.Problem(question.pop("network"), **question, outcome_range=(0, 1))
    rng = np.random.default_rng(0)
    actions = rng.integers(problem.n_actions, size=900)
    drawn = causal.NetworkEnvironment(problem).table(actions, rng)
    table = {name: list(column) for name, column in dict(drawn).items()}
    table["sensitive"] = [problem.labels(action)["sensitive"] for action in actions.tolist()]
    return problem, table


def without_outcomes(
    problem: causal.Problem, table: dict[str, list[object]], lost: np.ndarray
) -> dict[str, list[object]]:
    """Return the table with all fields of the outcomes of some rows blank."""
    return {
        name: [None if gone else cell for gone, cell in zip(lost, column, strict=True)]
        if name in problem.outcome_fields
        else column
        for name, column in table.items()
    }


def test_a_causal_analysis_may_ignore_losses() -> None:
    problem, table = adult_rows()
    lost = np.random.default_rng(3).random(900) < 0.05
    rows = np.flatnonzero(~lost).tolist()
    kept = {name: [column[row] for row in rows] for name, column in table.items()}
    found = analyse(
        problem, without_outcomes(problem, table, lost), order="as given", losses="ignorable"
    )
    expected = analyse(problem, kept, order="as given")
    assert found.recommend().arm == expected.recommend().arm is not None
    assert found.progress().evidence == expected.progress().evidence
    guarantee = found.recommend().guarantee
    assert guarantee.proven
    assert set(guarantee.assumptions) > set(expected.recommend().guarantee.assumptions)


def test_causal_losses_that_depend_on_the_sensitive_value_are_not_ignorable() -> None:
    problem, table = adult_rows()
    natural = np.array([value == "natural" for value in table["sensitive"]])
    lost = np.random.default_rng(3).random(900) < np.where(natural, 0.4, 0.01)
    blank = without_outcomes(problem, table, lost)
    with pytest.warns(UserWarning, match="missing outcomes"):
        study = analyse(problem, blank, order="as given", losses="ignorable")
    assert not study.recommend().guarantee.proven


def rows_of_cells(cells, number=40):
    """Return a table with rows of these pairs of arm and group in turn."""
    turns = [cells[place % len(cells)] for place in range(number)]
    return {
        "variant": [arm for arm, _ in turns],
        "group": [group for _, group in turns],
        "day": list(range(number)),
        "outcome": [float(place // 3 % 2) for place in range(number)],
    }


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["ax"], "variant 'b'"),
        (["ax", "ay"], "variant 'b'"),
        (["ax", "bx"], "group 'y'"),
        (["ax", "bx", "ay"], "variant 'b' and group 'y'"),
    ],
)
def test_a_table_without_rows_of_an_arm_or_group_says_which_by_its_columns(cells, said):
    problem = Problem(["a", "b"], ["x", "y"], reward_range=(0, 1))
    with raises(errors.InvalidArgument) as caught:
        analyse(problem, rows_of_cells(cells), order="day", columns={"arm": "variant"})
    assert caught.value.name == "table"
    assert f"there is none with {said}." in caught.value.accepted


def test_a_table_that_leaves_an_arm_of_features_open_is_refused_in_words_of_tables():
    problem = linear.Problem([[1, 0], [0, 1]], arms=["a", "b"], reward_range=(0, 1))
    with raises(errors.InvalidArgument) as caught:
        analyse(problem, rows_of_cells(["ax"]), order="day", columns={"arm": "variant"})
    assert caught.value.name == "table"
    assert "rows that determine the mean of every arm, also 'b'" in caught.value.accepted
