"""Which arms are shown if there are too many, and what is said about the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fairtrial.core import AnswerStatus, Estimate
from fairtrial.plots import allocation, means, overview
from fairtrial.presentation.cuts import (
    MOST_ARMS,
    MOST_GROUPS,
    cut_of,
    cut_of_arms,
    shown_alternatives,
)
from tests.plots.plot_fakes import FakeSimulation, FakeStudy, GridProblem, cell, progress_of_grid

MANY = [f"arm {number}" for number in range(1728)]


def progress_of(values, out=(), leader="arm 0", status="running", **changes):
    """Return a progress whose arms have these means; None for no result."""
    cells = tuple(
        cell(10 if mean is not None else 0, mean, limit=None, labels={"arm": f"arm {number}"})
        for number, mean in enumerate(values)
    )
    answers = tuple(AnswerStatus(f"arm {n}", n in out) for n in range(len(values)))
    start = progress_of_grid(status=status, answer=leader, answers=answers if out else ())
    return replace(start, actions=cells, arms=(), **changes)


def note_of(figure):
    """Return the note above the key: of the figure, or of each of its parts."""
    parts = [figure, *figure.subfigs]
    titles = [legend.get_title() for part in parts for legend in part.legends]
    return [" ".join(title.get_text().split()) for title in titles]


def rows_of(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def test_as_many_arms_as_fit_keep_their_order_and_need_no_note():
    cut = cut_of(progress_of([0.1 * n for n in range(MOST_ARMS)], leader="arm 3"), minimize=False)
    assert cut.arms == tuple(f"arm {n}" for n in range(MOST_ARMS))
    assert cut.ranked[:3] == ("arm 3", "arm 23", "arm 22")
    assert cut.note == ""


@pytest.mark.parametrize("minimize", [False, True])
def test_the_leader_comes_first_then_the_best_by_mean(minimize):
    progress = progress_of([float(n) for n in range(100)], leader="arm 50")
    best = range(22) if minimize else range(99, 77, -1)
    cut = cut_of(progress, minimize)
    assert cut.arms == ("arm 50", *(f"arm {n}" for n in best), cut.arms[-1])
    shown = f"Showing {MOST_ARMS} of 100 arms: the leader, then the best by mean."
    assert cut.note == f"{shown} {100 - MOST_ARMS} are left out; progress() and --json list all."


def test_arms_that_are_not_ruled_out_come_before_better_ones_that_are():
    out = range(50, 100)
    cut = cut_of(progress_of([float(n) for n in range(100)], out), minimize=False)
    assert cut.arms[:3] == ("arm 0", "arm 49", "arm 48")
    assert not set(cut.arms) & {f"arm {n}" for n in out}
    assert "those not ruled out first. 50 of the 76 others are ruled out." in cut.note


def test_it_is_said_if_all_others_are_ruled_out():
    progress = progress_of([float(n) for n in range(60)], range(1, 60), status="decided")
    note = cut_of(progress, minimize=False).note
    assert "All of the 36 others are ruled out." in note


def test_arms_without_a_result_come_last():
    values = [None if n < 20 else -float(n) for n in range(60)]
    cut = cut_of(progress_of(values, leader="arm 59"), minimize=False)
    assert cut.arms[:2] == ("arm 59", "arm 20")
    assert not set(cut.arms) & {f"arm {n}" for n in range(20)}


def test_the_overall_mean_ranks_arms_of_several_groups():
    arms = [f"arm {n}" for n in range(30)]
    progress = progress_of_grid(arms, ["x", "y"], answer="arm 7", told=6000)
    overall = {arm.labels["arm"]: arm.mean for arm in progress.arms}
    cut = cut_of(progress, minimize=False)
    assert list(cut.arms[1:]) == sorted(set(cut.arms[1:]), key=lambda arm: -overall[arm])
    kept = cut.apply(progress)
    assert (len(kept.actions), len(kept.arms)) == (2 * MOST_ARMS, MOST_ARMS)
    assert kept.told == progress.told


def test_answers_that_are_not_the_arms_are_cut_by_themselves():
    answers = tuple(Estimate({"arm": f"dose {n}"}, 0, mean=float(n)) for n in range(50))
    progress = replace(progress_of([0.5, 0.2], leader="dose 3"), arms=answers)
    assert cut_of(progress, minimize=False).note == ""
    assert cut_of_arms(progress, minimize=False).arms[:2] == ("dose 3", "dose 49")


def test_alternatives_are_cut_as_the_arms_are_and_no_arm_comes_last():
    progress = progress_of([float(n) for n in range(60)], range(50))
    rows = (*progress.answers, AnswerStatus(None, rejected=True))
    shown, note = shown_alternatives(replace(progress, answers=rows), minimize=False)
    assert len(shown) == MOST_ARMS + 1
    assert [one.answer for one in shown][:2] == ["arm 0", "arm 59"]
    assert shown[-1].answer == "no arm"
    assert note.startswith("Showing")


@pytest.mark.parametrize("number", [2, 30, 1728])
def test_no_picture_grows_with_the_number_of_arms(number):
    arms = MANY[:number]
    study = FakeStudy(progress_of_grid(arms, [], answer="arm 1", told=40 * number))
    study.problem = GridProblem(arms, [])
    rows = min(number, MOST_ARMS)
    for draw in (means, allocation):
        figure = draw(study)
        assert len(rows_of(figure.axes[0])) == rows
        assert draw is allocation or "arm 1" in rows_of(figure.axes[0])
        assert (f"of {number:,} arms" in note_of(figure)[0]) == (number > MOST_ARMS)
    whole = overview(study)
    assert whole.get_size_inches()[1] < 22
    assert [len(rows_of(ax)) for ax in whole.axes[2:]] == [rows, rows]


def test_shares_are_of_all_pulls_also_if_few_arms_are_drawn():
    study = FakeStudy(progress_of_grid(MANY, [], answer="arm 1", told=50_000))
    study.problem = GridProblem(MANY, [])
    figure = allocation(study)
    pulls = {action.labels["arm"]: action.pulls for action in study.end.actions}
    widths = [bar.get_width() for bar in figure.axes[0].containers[0]]
    wanted = [pulls[arm] / 50_000 for arm in rows_of(figure.axes[0])]
    assert widths == pytest.approx(wanted)


def test_of_a_simulation_those_with_the_most_pulls_are_drawn():
    simulation = FakeSimulation(GridProblem(MANY[:40], ["x"]), mean=4000, runs=3)
    figure = allocation(simulation)
    total = simulation.pulls.sum(axis=0)
    assert rows_of(figure.axes[0]) == [
        MANY[place] for place in (-total).argsort(kind="stable")[:MOST_ARMS]
    ]
    assert note_of(figure) == [f"Showing {MOST_ARMS} of 40 arms: those with the most pulls."]


def test_a_study_of_many_actions_is_looked_at_in_fewer_moments():
    asked = []
    study = FakeStudy(progress_of_grid(MANY, [], answer="arm 1", told=9_000))
    study.problem = GridProblem(MANY, [])
    trace = study.trace
    study.trace = lambda points=200: (asked.append(points), trace())[1]
    overview(study)
    assert asked == [40]


# ------------------------------------------------------------------------- groups

HOSPITALS = [f"hospital {number}" for number in range(40)]


def titles_of(figure):
    return [ax.get_title(loc="left") for ax in figure.axes]


def in_hospitals(leader, mean_of, limit=0.0, **changes):
    """Return a progress of arms a and b; `mean_of` gives the mean of an arm in a hospital."""
    cells = tuple(
        cell(10 + n, mean_of(arm, n), limit=limit, labels={"arm": arm, "group": HOSPITALS[n]})
        for arm in "ab"
        for n in range(40)
    )
    start = progress_of_grid(["a", "b"], HOSPITALS, answer=leader, **changes)
    return replace(start, actions=cells)


def test_as_many_groups_as_fit_keep_their_order_and_need_no_note():
    figure = means(progress_of_grid(["a", "b"], HOSPITALS[:MOST_GROUPS], answer="b"))
    assert titles_of(figure) == ["overall", *HOSPITALS[:MOST_GROUPS]]
    assert note_of(figure) == [""]


@pytest.mark.parametrize("status", ["running", "decided"])
def test_of_many_groups_those_are_drawn_that_the_best_arm_may_fail(status):
    worst_last = in_hospitals("a", lambda arm, n: 0.4 - 0.01 * n if arm == "a" else -1.0 + n)
    figure = means(replace_status(worst_last, status))
    assert titles_of(figure) == ["overall", *HOSPITALS[:25:-1]]
    who = "answer" if status == "decided" else "leader"
    why = (
        f"those where the {who} has its mean nearest to its floor, in widths of its interval, or "
        "on its wrong side"
    )
    assert note_of(figure) == [f"Showing {MOST_GROUPS} of 40 groups: {why}."]


def replace_status(progress, status):
    arm = progress.recommendation.leader if status == "decided" else None
    return replace(
        progress, recommendation=replace(progress.recommendation, status=status, arm=arm)
    )


def test_measures_in_large_units_do_not_crowd_out_those_in_small_ones():
    """A load time 300 ms below its ceiling is near; a share .5 below its own is far."""
    progress = in_hospitals("a", lambda arm, n: 0.3)
    cells = [
        Estimate(
            {"arm": "a", "group": name, "measure": measure},
            pulls=50,
            mean=mean,
            lower=mean - half,
            upper=mean + half,
            upper_limit=mean + distance,
        )
        for name in HOSPITALS[:10]
        for measure, mean, half, distance in (("load", 900.0, 400.0, 300.0), ("no", 0.2, 0.1, 0.5))
    ]
    titles = titles_of(means(replace(progress, actions=tuple(cells), arms=())))
    assert titles == [f"{name}, load" for name in HOSPITALS[:10]] + [
        f"{name}, no" for name in HOSPITALS[:4]
    ]


def test_where_nothing_leads_the_groups_are_drawn_that_any_arm_fails_most():
    nobody = in_hospitals(None, lambda arm, n: 0.01 * n if arm == "a" else 1.0, status="running")
    assert titles_of(means(nobody))[1:] == HOSPITALS[:14]
    assert "those where an arm has its mean nearest to its floor" in note_of(means(nobody))[0]


def test_groups_without_a_result_of_the_leader_come_last():
    progress = in_hospitals("a", lambda arm, n: None if arm == "a" and n < 30 else 0.2)
    assert titles_of(means(progress))[1:11] == HOSPITALS[:29:-1]


def test_without_floors_the_groups_with_the_most_pulls_are_drawn():
    figure = means(in_hospitals("a", lambda arm, n: 0.3, limit=None))
    assert titles_of(figure) == ["overall", *HOSPITALS[:25:-1]]
    assert note_of(figure) == ["Showing 14 of 40 groups: those with the most pulls."]


def test_many_arms_in_many_groups_have_a_note_on_both():
    progress = progress_of_grid(MANY[:30], HOSPITALS, answer="arm 1", told=40_000)
    figure = means(progress)
    assert len(figure.axes) == 1 + MOST_GROUPS
    assert len(rows_of(figure.axes[0])) == MOST_ARMS
    assert "of 30 arms" in note_of(figure)[0]
    assert "of 40 groups" in note_of(figure)[0]


def test_a_group_may_be_called_overall():
    study = FakeStudy(progress_of_grid(["a", "b"], ["overall", "x"], answer="b"))
    assert titles_of(means(study)) == ["overall", "overall", "x"]
    assert overview(study)


def test_of_many_groups_allocation_draws_those_with_the_most_pulls():
    figure = allocation(in_hospitals("a", lambda arm, n: 0.3))
    assert titles_of(figure) == HOSPITALS[:25:-1]
    assert note_of(figure) == ["Showing 14 of 40 groups: those with the most pulls."]
    total = 2 * sum(10 + n for n in range(40))
    widths = [[bar.get_width() for bar in ax.containers[0]] for ax in figure.axes]
    assert widths[0] == pytest.approx([49 / total] * 2)


def test_the_whole_picture_does_not_grow_with_the_number_of_groups():
    many, few = (progress_of_grid(["a", "b"], HOSPITALS[:n], answer="b") for n in (40, MOST_GROUPS))
    heights = [overview(FakeStudy(progress)).get_size_inches()[1] for progress in (many, few)]
    assert heights[0] < heights[1] + 1


def predictions(measured, many=100):
    """Return predictions of many arms, the last the best, of which some have results."""
    found = [Estimate({"arm": f"arm {n}"}, 0, float(n), predicted=True) for n in range(many)]
    for n in measured:
        found[n] = replace(found[n], pulls=2, own_mean=1.0)
    return replace(progress_of([], leader="arm 99"), actions=tuple(found))


def test_arms_with_results_come_before_those_that_are_only_predicted():
    cut = cut_of(predictions([3, 7]), minimize=False)
    assert cut.ranked[:4] == ("arm 99", "arm 7", "arm 3", "arm 98")
    assert cut.note.startswith("Showing 24 of 100 arms: the leader, then those with results")


def test_the_note_tells_how_many_arms_with_results_are_left_out():
    cut = cut_of(predictions(range(40)), minimize=False)
    assert "23 of the 40 arms with results" in cut.note
    assert len(cut.arms) == MOST_ARMS


def test_before_a_prediction_the_arms_with_results_come_first():
    progress = predictions([3, 7])
    unknown = tuple(replace(one, mean=None) for one in progress.actions)
    cut = cut_of(replace(progress, actions=unknown), minimize=False)
    assert set(cut.ranked[:3]) == {"arm 99", "arm 7", "arm 3"}
