"""Limits of measures: their status for each arm, and the order in which they are shown."""

import math

import pytest

from fairtrial.core import Estimate, MeasureLimit, Progress, Recommendation
from fairtrial.presentation.guardrails import by_reference, guardrails
from fairtrial.presentation.limits import Standing, Standings


def row(arm="a", estimate=0.2, kind="ceiling", **more):
    about = {"measure": "harmed", "group": "x", "bound": 0.3, "log_evidence": 0.0}
    return MeasureLimit(**{**about, "arm": arm, "kind": kind, "estimate": estimate, **more})


def progress_of(*rows, answer=None):
    recommendation = Recommendation(answer, "decided" if answer else "running", confidence=0.95)
    arms = tuple(Estimate({"arm": name}, 3, mean=0.5) for name in "ab")
    return Progress(recommendation, 9, 9, 0, arms=arms, measure_limits=rows)


@pytest.mark.parametrize(
    ("limit", "answer", "standing"),
    [
        (row(estimate=0.2), None, Standing.LIKELY_KEPT),
        (row(estimate=0.3), None, Standing.LIKELY_KEPT),
        (row(estimate=0.4), None, Standing.LIKELY_BROKEN),
        (row(estimate=0.2, kind="floor"), None, Standing.LIKELY_BROKEN),
        (row(estimate=0.3, kind="floor"), None, Standing.LIKELY_KEPT),
        (row(estimate=None), None, Standing.UNKNOWN),
        (row(estimate=math.nan), None, Standing.UNKNOWN),
        (row(estimate=0.2, met_by_bets=True), None, Standing.KEPT),
        (row(estimate=0.2, lower=0.1, upper=0.25), None, Standing.KEPT),
        (row(estimate=0.4, lower=0.35, upper=0.5), None, Standing.BROKEN),
        (row(estimate=0.4, met_by_bets=True), "a", Standing.KEPT),
        (row(estimate=0.4), "a", Standing.DECIDED),
        (row(estimate=0.4, met_by_bets=True), "b", Standing.KEPT),
    ],
)
def test_a_limit_stands_by_its_evidence_or_by_its_mean(limit, answer, standing):
    (found,) = guardrails(progress_of(limit, answer=answer), minimize=False)
    assert found.standing == standing


def test_those_of_the_answer_come_first_and_overall_ones_say_so():
    rows = row("a", group=None), row("b", log_evidence=math.log(30))
    first, second = guardrails(progress_of(*rows, answer="b"), minimize=False)
    assert (first.arm, first.where, first.log_wealth) == ("b", "x", math.log(30))
    assert (second.arm, second.where, second.log_wealth) == ("a", "overall", None)


def test_a_progress_without_measures_has_none():
    progress = Progress(Recommendation(None, "running"), 1, 1, 0)
    assert guardrails(progress, minimize=False) == []


@pytest.mark.parametrize(
    ("kind", "bound", "words"),
    [
        ("ceiling", 0.1, "at most 0.1 above now"),
        ("ceiling", -0.1, "at least 0.1 below now"),
        ("floor", -0.1, "at most 0.1 below now"),
        ("floor", 0.1, "at least 0.1 above now"),
        ("floor", 0.0, "not below now"),
        ("ceiling", 0.0, "not above now"),
    ],
)
def test_a_limit_against_the_control_is_in_words(kind, bound, words):
    limit = row(kind=kind, bound=bound, estimate=0.0, control="now")
    (found,) = guardrails(progress_of(limit), minimize=False)
    assert found.limit("{:g}".format) == words


def test_limits_against_the_control_are_shown_apart():
    rows = row("a"), row("a", control="now", bound=0.1, estimate=0.05)
    own, beside = by_reference(guardrails(progress_of(*rows), minimize=False))
    assert [one.control for one in own[2]] == [None]
    assert [one.control for one in beside[2]] == ["now"]
    assert (own[1], beside[1]) == ("mean", "difference")
    assert len(by_reference(guardrails(progress_of(rows[0]), minimize=False))) == 1


def test_a_limit_against_the_control_is_none_of_the_mean_itself():
    """The estimate of the mean has no limit, even if its difference misses one."""
    broken = row("a", control="now", bound=0.1, estimate=0.5, lower=0.4, upper=0.6)
    mean = Estimate({"arm": "a", "group": "x", "measure": "harmed"}, 9, mean=0.5)
    assert Standings.by(progress_of(broken)).of(mean) == Standing.FREE
    assert Standings.by(progress_of(broken)).of_measure(broken) == Standing.BROKEN
