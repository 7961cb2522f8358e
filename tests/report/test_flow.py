"""The flow of units through a finished experiment, in its report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairtrial import analyse, delayed, linear, subpopulations, write_report
from fairtrial.presentation.flow import ArmFlow, flow_of
from fairtrial.study import Study
from tests.report.test_report import NASTY, Node, parse, table_named

LONG = "a recipe with a name that takes more than one line of a narrow telephone"


def page_of(study: Study, folder: Path) -> Node:
    return parse(write_report(study, folder / "page.html").read_text(encoding="utf-8"))


def finished(arms: list[str], each: int, missing: dict[str, int] | None = None) -> Study:
    """Analyse an experiment in which some units of some arms have no outcome."""
    problem = delayed.Problem(arms, reward_range=(0, 1))
    left = dict(missing or {})
    table: dict[str, list[object]] = {"arm": [], "outcome": []}
    for unit in range(each * len(arms)):
        arm = arms[unit % len(arms)]
        table["arm"].append(arm)
        table["outcome"].append(None if left.get(arm) else float(arm == arms[-1]))
        left[arm] = max(left.get(arm, 0) - 1, 0)
    return analyse(problem, table, order="as given")


def test_units_are_counted_by_arm_also_those_after_the_answer() -> None:
    with finished(["a", "b"], 100, {"a": 3}) as study:
        flow = flow_of(study)
        used = study.progress().asked
    assert flow is not None
    assert flow.total == ArmFlow("all arms", 200, 197)
    assert flow.arms == (ArmFlow("a", 100, 97), ArmFlow("b", 100, 100))
    assert flow.used == used < 200
    assert flow.arms[0].missing == 3


def test_groups_of_an_arm_are_counted_together() -> None:
    problem = subpopulations.Problem(2, ["x", "y"], floors=None, reward_range=(0, 1))
    table = {"arm": [0, 1] * 20, "group": ["x", "x", "y", "y"] * 10, "outcome": [0.5] * 40}
    with analyse(problem, table, order="as given") as study:
        assert [one.assigned for one in flow_of(study).arms] == [20, 20]


def test_results_that_come_later_add_no_unit() -> None:
    with finished(["a", "b"], 10, {"a": 1}) as study:
        for _ in range(5):
            study.tell(study.problem.pull(arm="b"), 1.0)
        assert flow_of(study).arms == (ArmFlow("a", 10, 9), ArmFlow("b", 10, 10))


def test_only_a_live_study_has_delays(tmp_path: Path) -> None:
    problem = delayed.Problem(["a", "b"], reward_range=(0, 1))
    with Study.create(
        problem, delayed.BlockBetting(problem), storage="memory://", name="live"
    ) as study:
        study.tell(study.ask(), 1.0)
        study.ask()
        live = write_report(study, tmp_path / "live.html").read_text(encoding="utf-8")
    with finished(["a", "b"], 10, {"a": 1}) as study:
        over = write_report(study, tmp_path / "over.html").read_text(encoding="utf-8")
    assert "How long results take" in live
    assert "How long results take" not in over
    assert "time runs out" in live
    assert "time runs out" not in over


def test_only_a_live_study_has_times_at_which_pulls_were_made(tmp_path: Path) -> None:
    """The rows of a table were not assigned when they are read; corrections are made then."""
    with finished(["a", "b"], 10) as study:
        first = next(event for event in study.events() if event.kind == "tell")
        study.amend(first.pull_id, 0.5, "typing error")
        rows = table_named(page_of(study, tmp_path), f"First and last of {study.n_events} events")
    timed = {row[1] for row in rows if any(":" in cell for cell in row)}
    assert "result corrected" in timed
    assert not {"pull asked for", "result"} & timed


def test_a_live_study_has_no_such_section(tmp_path: Path) -> None:
    problem = delayed.Problem(2, reward_range=(0, 1))
    policy = delayed.BlockBetting(problem)
    with Study.create(problem, policy, storage="memory://", name="live", seed=0) as study:
        assert flow_of(study) is None
        assert not page_of(study, tmp_path).of_class("flows")


@pytest.mark.parametrize("number", [2, 24])
def test_every_arm_has_a_row_of_boxes(number: int, tmp_path: Path) -> None:
    arms = [f"{LONG} {arm}" for arm in range(number)]
    with finished(arms, 20, {arms[0]: 4}) as study:
        page = page_of(study, tmp_path)
    (flows,) = page.of_class("flows")
    rows = flows.of_class("flow")
    assert len(rows) == 1 + number
    assert [box.text for box in rows[0].of_class("box")] == [
        f"{20 * number} assigned",
        f"{20 * number - 4} analysed",
    ]
    passages = [row.of_class("passage")[0].text for row in rows]
    # Nothing lost: there is only the arrow.
    assert passages == ["4 without outcome", "4 without outcome", *[""] * (number - 1)]
    assert all(len(row.of_class("arrow")) == 1 for row in rows)
    (picture,) = [
        n for n in page.everything() if "without an" in n.attributes.get("aria-label", "")
    ]
    assert picture.attributes["role"] == "img"
    assert (
        f"{20 * number} units assigned, 4 of them without an outcome"
        in (picture.attributes["aria-label"])
    )
    assert table_named(page, "Units by arm")[2][1:] == ["20", "4", "16"]
    assert not page.all("script")


def test_of_very_many_arms_those_with_most_units_are_shown(tmp_path: Path) -> None:
    with finished([f"arm {arm}" for arm in range(30)], 3) as study:
        page = page_of(study, tmp_path)
    assert len(page.of_class("flow")) == 1 + 24
    assert "Showing 24 of 30 arms: those with the most units." in page.text
    assert "90 units assigned, 0 of them without an outcome" in page.text


def test_labels_are_text_whatever_they_hold(tmp_path: Path) -> None:
    with finished(NASTY[:3], 12) as study:
        page = page_of(study, tmp_path)
    assert not page.all("script")
    assert "<script>alert(1)</script>" in page.of_class("flows")[0].text


def test_the_report_of_a_table_does_not_list_every_row(tmp_path):
    problem = subpopulations.Problem(["a", "b"], ["x"], reward_range=(0, 1))
    sizes = []
    for number in (2_000, 6_000):
        table = {"arm": ["a", "b"] * (number // 2), "outcome": [0, 1, 1, 0] * (number // 4)}
        with analyse(problem, table, order="as given") as study:
            text = write_report(study, tmp_path / "report.html").read_text(encoding="utf-8")
        sizes.append(len(text))
        assert f"({number:,} values)" in text
    # Charts have more points, and numbers more digits; each row has more than 3 characters.
    assert sizes[1] - sizes[0] < 4_000


def after_answer(family: str) -> Study:
    """Analyse an experiment that has its answer long before its last unit, with a loss."""
    arms = ["a", "b"]
    table = {"arm": arms * 200, "outcome": [0.0, 1.0] * 200}
    table["outcome"][6] = table["outcome"][-1] = None
    if family == "subpopulations":
        return analyse(
            subpopulations.Problem(arms, ["x"], reward_range=(0, 1)), table, order="as given"
        )
    if family == "linear":
        problem = linear.Problem([[1, 0], [0, 1]], arms=arms, reward_range=(0, 1))
        return analyse(problem, table, order="as given")
    return analyse(delayed.Problem(arms, reward_range=(0, 1)), table, order="as given")


@pytest.mark.parametrize("family", ["subpopulations", "linear", "delayed"])
def test_an_analysis_talks_of_units_and_not_of_pulls(family: str, tmp_path: Path) -> None:
    with after_answer(family) as study:
        page, progress, events = page_of(study, tmp_path), study.progress(), list(study.events())
        text = re.sub(r"BlockBetting\(.*?\)", "", page.text)
    assert (progress.assigned, progress.told) == (400, 398)
    assert progress.asked < 400
    assert f"398 results of 400 units; the answer uses the first {progress.asked}" in text
    assert not re.findall(r"[^.]*(?:\bpulls?\b|nsolicited|nobody asked|asked for)[^.]*", text, re.I)
    kinds = {row[1] for row in table_named(page, f"First and last of {len(events)} events")}
    assert {"unit assigned", "outcome of a unit that the answer does not use"} <= kinds
    state = dict(table_named(page, "State of the study"))
    later = progress.told - sum(event.kind == "tell" for event in events)
    assert state["Results that the answer does not use"] == str(later)


def test_numbers_of_one_analysis_agree(tmp_path: Path) -> None:
    """Rivals are ruled out by the results that count, of which there are less than units used."""
    with after_answer("subpopulations") as study:
        page, progress = page_of(study, tmp_path), study.progress()
    rows = table_named(page, "Evidence against each answer")
    (ruled,) = [row[-1] for row in rows if row[0] == "a"]
    assert ruled == f"ruled out once {progress.settled} results counted"
    assert progress.settled <= progress.asked
    assert f"{progress.settled} results count for the decision" in page.text
    over_time = table_named(page, "Evidence over time")
    assert over_time[-1][1:3] == ["20 or more", "20"]


def test_a_floor_that_no_mean_can_miss_is_not_named(tmp_path: Path) -> None:
    with after_answer("subpopulations") as study:
        assert study.recommend().reason.endswith("'b' is the best arm")
        assert "floor" not in page_of(study, tmp_path).of_class("verdict")[0].text
        assert study.problem.in_words()["Question"].endswith("largest mean?")
    floors = subpopulations.Problem(["a", "b"], ["x"], reward_range=(-1, 1))
    table = {"arm": ["a", "b"] * 200, "outcome": [0.0, 1.0] * 200}
    with analyse(floors, table, order="as given") as study:
        said = study.recommend().reason
    assert said.endswith("'b' is the best arm with a mean of at least 0")
