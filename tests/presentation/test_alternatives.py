"""The evidence against every possible answer, in words."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.text import Text

import fairtrial as ft
from fairtrial.core import AnswerStatus
from fairtrial.plots import evidence, overview
from fairtrial.presentation.alternatives import (
    alternatives,
    candidates_sentence,
    e_value,
    explanation,
    needed,
    ruled_out,
    ruling,
    still_missing,
    summary,
    when_ruled_out,
)
from tests.plots.plot_fakes import FakeStudy, progress_of_grid


def of(rows, **changes):
    return progress_of_grid(answers=tuple(rows), **changes)


def betting(**wealth):
    return of([AnswerStatus(a, w >= 3.0, log_wealth=w) for a, w in wealth.items()])


def decided_study():
    """Return a policy that has decided between three arms, and its moments."""
    problem = ft.subpopulations.Problem(["a", "b", "c"], ["x"], reward_range=(0, 1))
    policy = ft.subpopulations.BlockBetting(problem, delta=0.05)
    moments = [policy.progress()]
    means = {"a": 1.0, "b": 0.0, "c": 0.6}
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, means[pull.arm])
        moments.append(policy.progress())
    return moments


@pytest.fixture(scope="module")
def moments():
    return decided_study()


def test_block_betting_says_what_speaks_against_every_answer(moments):
    found = {one.answer: one for one in alternatives(moments[-1])}
    assert found["a"].accepted
    assert found["b"].rejected
    assert found["c"].rejected
    assert needed(moments[-1]) == pytest.approx(math.log(20))


def test_no_arm_is_an_answer_only_where_an_arm_can_break_a_limit():
    for floors, answers in ((None, ["a", "b"]), (0.3, ["a", "b", "no arm"])):
        problem = ft.subpopulations.Problem(["a", "b"], 1, floors=floors, reward_range=(0, 1))
        progress = ft.subpopulations.BlockBetting(problem).progress()
        assert [one.answer for one in alternatives(progress)] == answers


def test_an_answer_keeps_limits_only_where_there_are_any():
    for floors, kept in ((None, False), (0.3, True)):
        problem = ft.subpopulations.Problem(["a", "b"], 1, floors=floors, reward_range=(0, 1))
        policy = ft.subpopulations.BlockBetting(problem, delta=0.05)
        while not policy.stopped:
            pull = policy.ask()
            policy.tell(pull, float(pull.arm == "a"))
        assert ("floors" in policy.recommend().reason) is kept


def test_the_moment_of_a_ruling_is_the_first_at_which_the_wealth_is_enough(moments):
    when = when_ruled_out(moments)
    assert when.keys() >= {"b", "c"}
    before = moments[when["c"] - 1]
    assert "c" not in ruled_out(before)
    assert max(when.values()) == moments[-1].told


@pytest.mark.parametrize("family", ["linear", "delayed"])
def test_other_families_say_under_the_same_key_what_is_ruled_out(family):
    if family == "linear":
        problem = ft.linear.Problem(np.eye(2), arms=["a", "b"], noise_std=0.1)
        policy = ft.linear.XYAdaptive(problem, delta=0.05)
    else:
        problem = ft.delayed.Problem(["a", "b"], noise_std=0.1)
        policy = ft.delayed.InformationRacing(problem, delta=0.05)
    assert ruled_out(policy.progress()) == frozenset()
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, 1.0 if pull.arm == "b" else 0.0)
    end = policy.progress()
    assert ruled_out(end) == {"a"}
    assert [one.accepted for one in alternatives(end)] == [False, True]
    assert needed(end) is None
    assert summary(end, 6) == "Ruled out: 1 of 1 other answer."


def test_a_race_by_pairs_says_who_is_better_than_an_arm_that_is_out():
    problem = ft.delayed.Problem(["a", "b", "c", "d"], noise_std=0.05, top=2)
    policy = ft.delayed.InformationRacing(problem, delta=0.05)
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, {"a": 0.0, "b": 2.0, "c": 1.0, "d": 3.0}[pull.arm])
    found = {one.answer: one for one in alternatives(policy.progress())}
    assert set(found["c"].worse_than) == {"b", "d"}
    assert len(found["a"].worse_than) == 2
    assert ruling(found["c"], "by result 5") == "ruled out by result 5: worse than b, d"
    assert ruling(found["d"]) == "accepted"
    by_boxes = ft.delayed.InformationRacing(problem, test="box").progress()
    assert by_boxes.answers[0] == AnswerStatus("a", rejected=False)


def test_a_policy_that_does_not_test_answers_says_nothing():
    progress = of([])
    assert alternatives(progress) == []
    assert summary(progress, 6) == explanation(progress) == ""


@pytest.mark.parametrize(
    ("wealth", "rejected", "text"),
    [
        (0.0, False, "1"),
        (math.log(20), True, "20"),
        (2.0, True, "20 or more"),
        (2.0, False, "7.39"),
        (1000.0, True, "over a million"),
        (-40.0, False, "below 0.01"),
        (None, True, "\N{EN DASH}"),
    ],
)
def test_e_values_are_written_as_people_read_them(wealth, rejected, text):
    (one,) = alternatives(of([AnswerStatus("b", rejected, log_wealth=wealth)]))
    assert e_value(one, math.log(20)) == text


def test_answers_are_found_by_their_own_labels_whatever_these_look_like():
    label = "  two  words\n"
    rows = [AnswerStatus(label, rejected=True), AnswerStatus("zdv_ddi", rejected=False)]
    assert ruled_out(of(rows)) == {label}
    assert summary(of(rows), 6) == "Ruled out: 1 of 1 other answer."


def undecided(candidates, *, proven=True, confidence=0.95, status="running", rejected=1):
    rows = [AnswerStatus(f"r{number}", rejected=True) for number in range(rejected)]
    rows += [AnswerStatus(one, rejected=False) for one in candidates or ()]
    progress = of(rows, status=status)
    guarantee = progress.recommendation.guarantee
    changed = replace(
        progress.recommendation,
        candidates=candidates,
        confidence=confidence,
        guarantee=guarantee if proven else guarantee.weakened("luck"),
    )
    return replace(progress, recommendation=changed)


@pytest.mark.parametrize(
    ("candidates", "said"),
    [
        (("b", "c"), "b or c"),
        (("b", "c", "d"), "b, c or d"),
        (("b",), "b"),
        (("b", None), "b, or that no arm is acceptable"),
        (("b", "c", None), "b or c, or that no arm is acceptable"),
        ((None,), "that no arm is acceptable"),
        (
            tuple("abcdefghij"),
            "one of 10 arms (a, b, c, d, e, f, g, h and 2 more)",
        ),
    ],
)
@pytest.mark.parametrize("status", ["running", "undecided"])
def test_the_answers_that_are_left_are_named_with_their_confidence(candidates, said, status):
    progress = undecided(candidates, status=status)
    assert candidates_sentence(progress) == f"With 95 % confidence the right answer is {said}."


def test_of_many_answers_that_are_left_the_leader_and_the_least_refuted_are_named():
    names = [f"arm{number}" for number in range(1200)]
    rows = [AnswerStatus("out", rejected=True)]
    rows += [
        AnswerStatus(one, rejected=False, log_wealth=2 - at / 1e4) for at, one in enumerate(names)
    ]
    progress = of(rows)
    recommendation = undecided(tuple(names)).recommendation
    progress = replace(progress, recommendation=replace(recommendation, leader="arm5"))
    said = candidates_sentence(progress)
    last = ", ".join(f"arm{number}" for number in range(1199, 1192, -1))
    assert f"one of 1,200 arms (arm5, {last} and 1,192 more)" in said
    others = f"1,199 other answers to be ruled out: {last}, arm1192 and 1,191 more."
    assert others in still_missing(progress)
    doubted = replace(
        recommendation, leader="arm5", guarantee=recommendation.guarantee.weakened("luck")
    )
    weak = candidates_sentence(replace(progress, recommendation=doubted))
    assert f"without a proven confidence: 1,200 arms (arm5, {last} and" in weak


def test_nothing_is_said_of_answers_that_are_left_where_nothing_is_known_of_them():
    assert candidates_sentence(undecided(None)) == ""
    assert candidates_sentence(undecided(("b",), confidence=None)) == ""
    assert candidates_sentence(undecided(("b",), status="decided")) == ""
    assert candidates_sentence(replace(undecided(("b", "c")), told=0)) == ""


def test_before_anything_is_ruled_out_no_confidence_is_claimed():
    sentence = candidates_sentence(undecided(("b", "c", None), rejected=0))
    assert sentence == "None of the 3 possible answers is ruled out yet."
    weak = candidates_sentence(undecided(("b", "c"), proven=False))
    assert weak == "Not ruled out so far, without a proven confidence: b and c."
    with_none = candidates_sentence(undecided(("b", None), proven=False))
    assert with_none.endswith(": b, and that no arm is acceptable.")


@pytest.mark.parametrize(
    ("candidates", "said"),
    [
        (("b", "c", "d"), "among b, c and d"),
        (tuple("abcdefghij"), "among 10 arms (b, c, a, d, e, f, g, h and 2 more)"),
        (("b", "c"), "b and c"),
    ],
)
def test_of_several_best_it_is_said_among_which_they_are(candidates, said):
    progress = undecided(candidates)
    several = replace(progress.recommendation, leader=("b", "c"))
    found = candidates_sentence(replace(progress, recommendation=several))
    assert found == f"With 95 % confidence the best 2 are {said}."


def test_page_and_picture_name_the_answers_that_are_left(tmp_path):
    study = FakeStudy(end=undecided(("b", None)))
    sentence = "With 95 % confidence the right answer is b, or that no arm is acceptable."
    page = ft.write_report(study, tmp_path / "page.html").read_text(encoding="utf-8")
    assert sentence in page
    said = [text.get_text() for text in overview(study).findobj(Text)]
    assert any(sentence in " ".join(text.split()) for text in said)


def test_rulings_in_words():
    rows = [AnswerStatus(None, rejected=True), AnswerStatus("zdv_ddi", rejected=False)]
    out, answer = alternatives(of(rows))
    assert ruling(out, "from the start") == "ruled out from the start"
    assert ruling(out, "by result 1,200") == "ruled out by result 1,200"
    assert ruling(answer) == "accepted"
    (open_,) = alternatives(of(rows[1:], status="running"))
    assert ruling(open_) == "not ruled out"


def test_a_few_alternatives_are_named_and_many_are_counted():
    progress = betting(zdv=3.5, zdv_ddi=0.0, ddi=3.0)
    assert summary(progress, 6) == (
        "Strength of evidence against each rival (20 or more rules it out): zdv 33.1, ddi 20.1."
    )
    assert summary(progress, 1) == (
        "Ruled out: 2 of 2 other answers, by evidence of 20 or more against each."
    )


def test_the_explanation_states_the_level_and_its_probability():
    said = explanation(replace(betting(zdv=3.5, zdv_ddi=0.0), threshold=math.log(100)))
    assert "ever reaches 100 is at most 1 %" in said


def test_the_evidence_panel_shows_when_each_alternative_was_ruled_out(moments):
    (ax,) = evidence(moments).axes
    crosses = [line for line in ax.lines if line.get_gid() == "ruled out"]
    when = when_ruled_out(moments)
    assert {line.get_xdata()[0] for line in crosses} == set(when.values())
    assert [line.get_ydata()[0] for line in crosses] == pytest.approx([math.log(20)] * len(crosses))
    thin = [line for line in ax.lines if line.get_gid() == "alternative"]
    assert len(thin) == len([one for one in alternatives(moments[-1]) if one.rejected])
    assert max(np.nanmax(line.get_ydata()) for line in thin) <= math.log(20) + 1e-12
    assert any("b" in text.get_text() and "out" in text.get_text() for text in ax.texts)


def test_evidence_far_below_runs_off_the_axis_and_that_is_said():
    trace = [
        progress_of_grid(told=n, evidence=gained, threshold=3.0)
        for n, gained in ((10, 0.0), (20, -500.0), (30, 3.0))
    ]
    (ax,) = evidence(trace).axes
    assert ax.get_ylim()[0] > -10
    assert [text.get_text() for text in ax.texts if text.get_gid() == "below"] == [
        "the evidence runs on below"
    ]


def test_without_evidence_there_is_a_sentence_and_no_axis():
    (ax,) = evidence([progress_of_grid(evidence=None, threshold=None)]).axes
    assert not ax.axison
    (ax,) = evidence([progress_of_grid(evidence=None, threshold=3.0)]).axes
    assert [text.get_text() for text in ax.texts] == ["no evidence yet"]


def test_the_overview_says_what_speaks_against_the_others():
    figure = overview(FakeStudy(betting(zdv=3.5, zdv_ddi=0.0, ddi=3.0)))
    said = " ".join(text.get_text() for ax in figure.axes for text in ax.texts)
    assert "zdv 33.1" in " ".join(said.split())
