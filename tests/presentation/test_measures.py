"""Every measure of every arm with its limits, and the arms that miss a limit."""

from fairtrial.allocation import FairLearn
from fairtrial.allocation import Problem as Shares
from fairtrial.core import Effect, Estimate, MeasureLimit, Progress, Recommendation
from fairtrial.presentation.guardrails import guardrails
from fairtrial.presentation.measures import (
    measured_arms,
    missing_a_limit,
    name_of_objective,
    said_of_missed_limits,
)
from fairtrial.subpopulations import Problem


def cell(arm: str, measure: str, mean: float) -> Estimate:
    return Estimate({"arm": arm, "group": "old", "measure": measure}, 20, mean=mean)


ACTIONS = (
    *(cell("a", "cured", 0.2), cell("a", "harmed", 0.1)),
    *(cell("b", "cured", 0.9), cell("b", "harmed", 0.6)),
)
LIMITS = (
    MeasureLimit("a", "harmed", "old", "ceiling", 0.3, estimate=0.1),
    MeasureLimit("b", "harmed", "old", "ceiling", 0.3, estimate=0.6, lower=0.4, upper=0.8),
    MeasureLimit("b", "harmed", "old", "ceiling", 0.1, estimate=0.5, control="a"),
    MeasureLimit("b", "cured", None, "floor", 0.95, estimate=0.9),
)


def progress(**changes: object) -> Progress:
    given: dict = {"actions": ACTIONS, "measure_limits": LIMITS, "intervals": "anytime"}
    return Progress(Recommendation(None, "running"), 40, 40, 0, **given | changes)


def test_a_measure_has_the_limits_of_its_arm_and_group_and_no_others() -> None:
    elsewhere = Estimate({"arm": "a", "group": "young", "measure": "cured"}, 20, mean=0.5)
    shown = progress(actions=(elsewhere, *ACTIONS))
    found = {(one.arm, one.measure): one for one in measured_arms(shown, minimize=False)}
    assert set(found) == {(one.labels["arm"], one.labels["measure"]) for one in ACTIONS}
    assert found["b", "harmed"].estimate == ACTIONS[3]
    assert found["b", "harmed"].limit(str) == "at most 0.3; at most 0.1 above a"
    assert found["b", "harmed"].standing == "missed; missed so far, not settled"
    assert found["a", "harmed"].standing == "met so far, not settled"
    assert (found["b", "cured"].limits, found["b", "cured"].standing) == ((), "")
    own = guardrails(shown, minimize=False)
    assert all(limit in own for one in found.values() for limit in one.limits)


def test_a_limit_on_the_overall_mean_stands_beside_that_mean() -> None:
    """That is the mean of the only group, or the one over all groups."""
    alone = {(one.arm, one.measure): one for one in measured_arms(progress(), minimize=False)}
    assert alone["b", "cured"].limit(str) == "at least 0.95"
    assert alone["a", "cured"].limit(str) == ""
    overall = Estimate({"arm": "b", "measure": "cured"}, 20, mean=0.9)
    elsewhere = Estimate({"arm": "b", "group": "young", "measure": "cured"}, 20, mean=0.9)
    shown = progress(actions=(*ACTIONS, elsewhere), overall_measures=(overall,))
    limits = {
        one.where: one.limit(str)
        for one in measured_arms(shown, minimize=False)
        if (one.arm, one.measure) == ("b", "cured")
    }
    assert limits == {"overall": "at least 0.95", "old": "", "young": ""}


def test_problems_with_one_measure_have_no_rows() -> None:
    only = (Estimate({"arm": "a"}, 20, mean=0.5),)
    assert measured_arms(progress(actions=only, measure_limits=()), minimize=False) == []


def test_arms_that_miss_a_limit_are_named_with_the_measure_and_how_sure_it_is() -> None:
    assert missing_a_limit(progress()) == {"b": "misses a limit of harmed"}
    likely = progress(intervals="approximate")
    assert missing_a_limit(likely) == {"b": "misses a limit of harmed, cured so far"}
    assert said_of_missed_limits(likely) == (
        "However good the means are: b misses a limit of harmed, cured so far."
    )
    assert said_of_missed_limits(progress(measure_limits=LIMITS[:1])) == ""


def test_arms_that_miss_the_same_are_named_together() -> None:
    low = tuple(Estimate({"arm": name}, 20, mean=0.1, lower_limit=0.3) for name in "abc")
    shown = progress(actions=low, measure_limits=(), intervals="approximate")
    said = "However good the means are: a, b, c miss a limit so far."
    assert said_of_missed_limits(shown) == said


def test_an_arm_that_is_less_than_one_pull_behind_its_share_misses_no_limit() -> None:
    policy = FairLearn(Shares(["a", "b"], ["1/3", "1/3"]), lambda t, n, s, allowed: allowed[0])
    policy.ask(4)
    shares = policy.progress()
    assert [one.behind > 0.0 for one in shares.shares] == [False, True]
    assert missing_a_limit(shares) == {}
    assert said_of_missed_limits(shares) == ""


def test_a_difference_from_the_control_can_miss_a_limit() -> None:
    behind = Effect("b", "a", None, -0.4, -0.6, -0.2, lower_limit=-0.1)
    shown = progress(actions=(), measure_limits=(), find_effects=lambda: (behind,))
    assert missing_a_limit(shown) == {"b": "misses a limit"}


def test_the_objective_has_a_name_if_pulls_have_several_measures() -> None:
    measures = {"x": (0, 1), "y": (0, 1)}
    weighted = Problem(["a", "b"], 1, measures=measures, objective={"x": 1.0, "y": -0.5})
    assert name_of_objective(weighted) == "the objective"
    assert name_of_objective(Problem(["a", "b"], 1, reward_range=(0, 1))) == ""
