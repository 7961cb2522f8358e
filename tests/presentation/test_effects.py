"""Statements about differences between arms."""

from dataclasses import replace

import pytest

from fairtrial.core import Effect, Progress, Recommendation
from fairtrial.core.progress_parts import MeasureLimit
from fairtrial.presentation.effects import differences


def progress_of(effects, status="running", intervals="anytime"):
    recommendation = Recommendation(None, status, confidence=0.95)
    return Progress(recommendation, 9, 9, 0, intervals=intervals, find_effects=lambda: effects)


def arms_of(effects):
    return [effect.arm for effect in effects]


def test_the_best_arm_comes_first_whichever_direction_is_good():
    effects = (Effect("a", "c", None, 0.1, 0.0, 0.2), Effect("b", "c", None, 0.3, 0.2, 0.4))
    assert arms_of(differences(progress_of(effects), minimize=False).overall) == ["b", "a"]
    assert arms_of(differences(progress_of(effects), minimize=True).overall) == ["a", "b"]


def test_without_any_known_difference_there_is_nothing_to_show():
    assert differences(progress_of(()), minimize=False) is None
    assert differences(progress_of((Effect("a", "c"),)), minimize=False) is None


def test_groups_follow_the_order_of_the_arms():
    effects = tuple(
        Effect(arm, "c", group, value, value, value)
        for group in (None, "x", "y")
        for arm, value in (("a", 0.1), ("b", 0.3))
    )
    found = differences(progress_of(effects), minimize=False)
    assert [(e.arm, e.group) for e in found.by_group] == [
        ("b", "x"),
        ("b", "y"),
        ("a", "x"),
        ("a", "y"),
    ]
    assert found.title == "Difference from c"


def test_differences_from_a_closed_control_say_what_they_rest_on():
    effects = (Effect("a", "c", None, 0.1, 0.0, 0.2),)
    open_ = replace(progress_of(effects), closed={"arm": ("a",)})
    assert "control" not in differences(open_, minimize=False).note
    closed = replace(progress_of(effects), closed={"arm": ("c",)})
    found = differences(closed, minimize=False)
    assert found.title == "Difference from c (closed)"
    assert found.note.startswith("The control c is closed: intervals of differences from it use")


def limit_of(arm, upper, by_bets=False):
    return MeasureLimit(
        arm, "toxic", None, "ceiling", 0.3, 0.1, lower=0.0, upper=upper, met_by_bets=by_bets
    )


def test_the_note_names_arms_that_are_better_and_those_that_keep_every_limit_as_well():
    effects = (
        Effect("a", "c", None, 0.3, 0.1, 0.5),
        Effect("b", "c", None, 0.2, 0.1, 0.3),
        Effect("d", "c", None, 0.1, 0.1, 0.2),
        Effect("e", "c", None, 0.1, 0.0, 0.2),
    )
    progress = progress_of(effects)
    better = "Better than c, by the whole interval: a, b, d."
    assert differences(progress, minimize=False).note.endswith(better)
    limits = (
        *(limit_of("a", upper=0.2), limit_of("a", upper=0.4)),
        limit_of("b", upper=0.4, by_bets=True),
        limit_of("d", upper=0.3),
        limit_of("e", upper=0.2),
    )
    limited = replace(progress, measure_limits=limits, closed={"arm": ("d",)})
    said = differences(limited, minimize=False).note
    assert "Better than c, by the whole interval: a, b, d (closed)." in said
    assert said.endswith("Of these, shown to keep every limit: b, d (closed).")
    none = replace(progress, measure_limits=[limit_of(arm, upper=0.4) for arm in "abd"])
    assert differences(none, minimize=False).note.endswith("to keep every limit: none.")
    rough = differences(replace(progress, intervals="approximate"), minimize=False).note
    assert "Better" not in rough
    assert "Better" not in differences(progress, minimize=True).note


def test_of_many_arms_the_furthest_behind_are_counted_and_not_shown():
    effects = tuple(Effect(str(k), "c", None, float(-k), -k - 1.0, -k + 1.0) for k in range(20))
    found = differences(progress_of(effects), minimize=False)
    assert arms_of(found.overall) == [str(k) for k in range(12)]
    assert "Differences of 8 more arms are not shown" in found.note


def test_the_note_says_what_the_intervals_promise():
    effects = (Effect("a", "c", None, 0.1, -0.1, 0.2),)
    running = differences(progress_of(effects), minimize=False).note
    assert running == "Each interval holds at all times with 95 % confidence, on its own."
    rough = differences(progress_of(effects, intervals="approximate"), minimize=False).note
    assert rough == "The intervals are approximate."


@pytest.mark.parametrize(
    ("answer", "effect", "is_said"),
    [
        ("a", Effect("a", "c", None, 0.1, -0.1, 0.2), True),
        ("c", Effect("a", "c", None, -0.1, -0.2, 0.1), True),
        ("a", Effect("a", "c", None, 0.1, 0.0, 0.2), True),
        ("a", Effect("a", "c", None, 0.1, 0.01, 0.2), False),
        ("c", Effect("a", "c", None, -0.1, -0.2, -0.01), False),
        # The decision says nothing of differences between other arms, or in one group.
        ("b", Effect("a", "c", None, 0.1, -0.1, 0.2), False),
        ("a", Effect("a", "c", "x", 0.1, -0.1, 0.2), False),
        ("a", Effect("a", "c", None, 0.1, None, None), False),
        (None, Effect("a", "c", None, 0.1, -0.1, 0.2), False),
    ],
)
def test_a_decision_beside_an_interval_with_0_is_explained(answer, effect, is_said):
    overall = replace(effect, group=None, lower=0.01, upper=0.2)
    progress = progress_of((effect,) if effect.group is None else (overall, effect), "decided")
    found = replace(progress, recommendation=replace(progress.recommendation, arm=answer))
    note = differences(found, minimize=False).note
    assert ("An interval here contains 0 although the answer is decided" in note) == is_said
    assert ("a difference only together with its interval" in note) == is_said
    running = replace(found, recommendation=replace(found.recommendation, status="running"))
    assert "although the answer" not in differences(running, minimize=False).note


def test_closing_an_arm_leaves_the_confidence_of_each_interval_as_it_was():
    progress = progress_of((Effect("a", "c", None, 0.1, -0.1, 0.2),))
    # The answer among the open arms may be wrong for two reasons, an interval only for one.
    answer = replace(progress.recommendation, confidence=0.90)
    closed = replace(progress, recommendation=answer, closed={"arm": ("b",)})
    assert "95 % confidence" in differences(closed, minimize=False).note
