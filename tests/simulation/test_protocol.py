"""Claims, exposure, usual designs and calendar of simulated studies, compared with their runs."""

import numpy as np
import pytest
from scipy import stats

from fairtrial import subpopulations
from fairtrial.core.lossy import LossyEnvironment
from fairtrial.errors import InvalidArgument
from fairtrial.simulation import Scenario, default_scenarios, operating_characteristics
from fairtrial.simulation.claims import runs_with_claim
from tests.messages import raises

PROBLEM = subpopulations.Problem(
    ["old", "weak", "new", "bad"],
    {"x": 0.25, "y": 0.75},
    floors=-0.5,
    noise_std=1.0,
    control="old",
)
ASSUMED = subpopulations.GaussianEnvironment(
    PROBLEM, [[0.0, 0.0], [0.2, 0.2], [1.5, 1.5], [-1.0, -1.0]]
)
POLICY = subpopulations.BlockBetting(PROBLEM, delta=0.2)
RATE, DELAY = 3.0, 4.0
LOSSY = Scenario("losses", LossyEnvironment(ASSUMED, 0.2))


@pytest.fixture(scope="module")
def found():
    scenarios = [Scenario("full", ASSUMED), default_scenarios(ASSUMED, "old")[0], LOSSY]
    return operating_characteristics(
        POLICY,
        scenarios,
        160,
        replications=12,
        pulls_per_day=RATE,
        delay_days=DELAY,
        looks=[40, 20],
        progress=False,
    )


def designs_of(row, claim):
    """Return the usual designs with a claim: of fixed size, and with looks."""
    return [one for one in row.comparators if one.claim == claim]


def test_claims_are_those_of_the_runs(found):
    row = found.row("full")
    by_claim = {(claim.arm, claim.kind): claim for claim in row.claims}
    assert len(by_claim) == 9
    named = row.simulation.decided & (row.simulation.answer == "new")
    assert by_claim["new", "best"].made.count == named.sum() > 0
    assert by_claim["new", "better"].made.count == row.simulation.better[:, 2].sum() > 0
    assert {key for key, claim in by_claim.items() if claim.true} == {
        ("weak", "better within limits"),
        ("weak", "better"),
        ("new", "better within limits"),
        ("new", "better"),
        ("new", "best"),
    }
    both = row.simulation.better & row.simulation.within_limits
    assert by_claim["new", "better within limits"].made.count == both[:, 2].sum()
    assert [claim.arm for claim in row.claims if claim.breaks_limit] == ["bad"] * 3
    false = row.simulation.wrong | row.simulation.better[:, 3]
    assert row.false_claims.count == false.sum()


def test_runs_with_a_claim_made_it_of_any_arm_of_which_it_is_true_or_false(found):
    row = found.row("full")
    runs = row.simulation
    true = runs_with_claim(row.scenario, runs, "better", true=True)
    assert (true == runs.better[:, [1, 2]].any(axis=1)).all()
    false = runs_with_claim(row.scenario, runs, "better", true=False)
    assert (false == runs.better[:, 3]).all()
    best = runs_with_claim(row.scenario, runs, "best", true=False)
    assert (best == (runs.decided & ~np.isin(runs.answer, ["new", "old"]))).all()
    assert runs_with_claim(found.row("null").scenario, runs, "best", true=True) is None


def test_no_claim_is_true_if_all_arms_are_equal(found):
    row = found.row("null")
    assert not any(claim.true for claim in row.claims)
    assert row.false_claims.count >= row.wrong.count


def test_an_arm_without_a_limit_keeps_all_its_limits():
    problem = subpopulations.Problem(
        ["old", "free", "held"],
        ["all"],
        floors=None,
        ceilings={"old": None, "free": None, "held": 0.9},
        reward_range=(0, 1),
        control="old",
    )
    environment = subpopulations.BernoulliEnvironment(problem, [[0.1], [0.9], [0.1]])
    found = operating_characteristics(
        subpopulations.BlockBetting(problem, max_pulls=300),
        [Scenario("full", environment)],
        300,
        replications=6,
        progress=False,
    )
    row = found.row("full")
    by_claim = {(claim.arm, claim.kind): claim for claim in row.claims}
    better = by_claim["free", "better"].made.count
    assert by_claim["free", "better within limits"].made.count == better > 0


def test_a_better_arm_that_breaks_a_limit_has_no_true_claim_with_limits():
    """Toxic is better than the control, and beyond the ceiling of harm in one group."""
    problem = subpopulations.Problem(
        ["control", "safe", "toxic"],
        ["x", "y"],
        floors=None,
        control="control",
        measures={"healed": (0, 1), "harmed": (0, 1)},
        objective="healed",
        direction={"harmed": "minimize"},
        margin=[{"measure": "harmed", "bound": 0.1}],
    )
    healed = [[0.1, 0.1], [0.9, 0.9], [0.9, 0.9]]
    harmed = [[0.05, 0.05], [0.02, 0.02], [0.6, 0.6]]
    environment = subpopulations.BernoulliEnvironment(problem, {"healed": healed, "harmed": harmed})
    policy = subpopulations.BlockBetting(problem, delta=0.1)
    row = operating_characteristics(
        policy, [Scenario("full", environment)], 900, replications=6, progress=False
    )[0]
    by_claim = {(claim.arm, claim.kind): claim for claim in row.claims}
    toxic = by_claim["toxic", "better within limits"]
    assert not toxic.true
    assert toxic.made.count == 0
    assert by_claim["toxic", "better"].true
    assert by_claim["toxic", "better"].breaks_limit
    assert by_claim["toxic", "better"].made.count > 0
    safe = by_claim["safe", "better within limits"]
    assert safe.true
    assert 0 < safe.made.count <= by_claim["safe", "better"].made.count
    # The order of the columns of the report.
    assert [claim.kind for claim in row.claims[:3]] == ["better within limits", "better", "best"]


def test_without_a_control_nothing_is_claimed_against_it():
    problem = PROBLEM.clone(control=None)
    policy = POLICY.clone(problem=problem)
    scenario = Scenario("full", ASSUMED.clone(problem=problem))
    row = operating_characteristics(policy, [scenario], 40, 2, progress=False)[0]
    assert (row.claims, row.false_claims) == ((), None)
    assert row.calendar is None
    assert set(row.exposure) == {"beyond a limit", "worse than the best acceptable arm"}


def test_exposure_counts_the_pulls_of_inferior_arms(found):
    row = found.row("full")
    by_arm = row.simulation.pulls.reshape(-1, 4, 2).sum(axis=2).mean(axis=0)
    assert row.exposure["beyond a limit"] == pytest.approx(by_arm[3])
    assert row.exposure["worse than the control"] == pytest.approx(by_arm[3])
    assert row.exposure["worse than the best acceptable arm"] == pytest.approx(
        by_arm.sum() - by_arm[2]
    )
    assert set(found.row("null").exposure.values()) == {0.0}


def test_smaller_means_are_better_if_they_are_to_be_minimized():
    problem = subpopulations.Problem(
        ["a", "b"], 1, floors=None, noise_std=1.0, control="a", direction="minimize"
    )
    environment = subpopulations.GaussianEnvironment(problem, [[0.0], [-2.0]])
    policy = subpopulations.BlockBetting(problem, delta=0.2)
    found = operating_characteristics(
        policy, [Scenario("full", environment)], 60, 4, progress=False
    )
    row = found[0]
    better = next(claim for claim in row.claims if claim.kind == "better")
    assert better.true
    assert better.made.count == 4
    assert row.exposure["worse than the control"] == 0.0
    assert row.exposure["worse than the best acceptable arm"] > 0.0


def test_the_fixed_size_is_the_textbook_formula_and_errors_are_at_their_level(found):
    fixed, *looks = designs_of(found.row("full"), "better")
    z = stats.norm.ppf(1 - 0.2 / 3) + stats.norm.ppf(0.9)
    assert fixed.most == 4 * int(np.ceil(2 * z**2 / 1.5**2))
    assert fixed.results == fixed.most
    for one in designs_of(found.row("null"), "better"):
        assert one.right is None
        # Between the error of one comparison and Bonferroni's sum, with four standard errors.
        slack = 4 * np.sqrt(0.2 * 0.8 / one.wrong.runs)
        assert 0.2 / 3 - slack < one.wrong.rate < 0.2 + slack
    # The bad arm is never named, and the new one is right.
    assert fixed.harmful.count == 0
    assert fixed.right.rate > 0.89
    assert all(one.results < one.most and one.most > fixed.most for one in looks)


def test_usual_designs_see_limits_only_if_they_test_them():
    means = np.array([[0.0, 0.0], [0.5, 0.5], [3.0, -0.9], [-1.0, -1.0]])
    environment = subpopulations.GaussianEnvironment(PROBLEM, means[:, ::-1])
    row = operating_characteristics(POLICY, [Scenario("full", environment)], 20, 2, progress=False)[
        0
    ]
    assert row.harmful.count == 0
    for one in designs_of(row, "better"):
        # The arm with the largest difference breaks its floor in the smaller group.
        assert one.harmful.rate > 0.9
        assert one.right.rate < 0.1
        # It is better, so that is no false claim.
        assert one.wrong.rate == 0.0
    for one in designs_of(row, "better within limits"):
        assert one.harmful.rate <= one.wrong.rate < 0.01
        assert one.right.rate > 0.88


def test_the_designs_with_limits_come_first_and_say_which_question_they_answer(found):
    designs = found.row("full").comparators
    claims = [one.claim for one in designs]
    assert claims == ["better within limits"] * 3 + ["better"] * 3
    assert [one.name for one in designs[:3]] == [one.name for one in designs[3:]]
    assert "keeps every limit" in designs[0].question
    assert "test no limits" in designs[3].question
    assert found.to_dict()["comparators_assume"].count("intersection-union") == 1
    shown = designs[0].to_dict()
    assert shown["claim"] == "better within limits"
    assert shown["shown"]["rate"] == designs[0].shown.rate


def test_the_sizes_are_for_the_assumed_means_in_every_scenario_and_for_every_seed(found):
    def sizes(row):
        return [one.most for one in row.comparators]

    full = sizes(found.row("full"))
    assert sizes(found.row("null")) == full
    again = operating_characteristics(
        POLICY, [Scenario("full", ASSUMED)], 20, 2, seed=8, progress=False
    )
    assert sizes(again[0]) == full
    # A limit cannot make a trial smaller, but for the error of its size.
    assert all(more > 0.97 * fewer for more, fewer in zip(full[:3], full[3:], strict=True))


@pytest.mark.parametrize(
    ("old", "new", "is_true"),
    [
        (0.0, [50.0, -0.5 - 1e-9], False),
        (0.0, [50.0, -0.5], True),
        (50.0, [50.0, 50.0], False),
        (50.0, [50.0 + 1e-9, 50.0 + 1e-9], True),
    ],
    ids=["just beyond its limit", "at its limit", "equal to the control", "hardly better"],
)
def test_a_false_claim_is_as_rare_as_stated_where_it_is_easiest(old, new, is_true):
    """The new arm is far on the right side of everything else; the others are far worse."""
    means = [[old, old], [old - 9.0, old - 9.0], new, [old - 9.0, old - 9.0]]
    hard = Scenario("hard", subpopulations.GaussianEnvironment(PROBLEM, means))
    full = Scenario("full", ASSUMED)
    row = operating_characteristics(POLICY, [full, hard], 20, 2, progress=False)[1]
    level = POLICY.delta / 3
    for one in designs_of(row, "better within limits"):
        made = one.shown if is_true else one.wrong
        assert made.rate == pytest.approx(level, abs=4 * np.sqrt(level * (1 - level) / made.runs))
        assert (one.shown is not None) == is_true
        if is_true:
            assert one.wrong.count == 0


def test_without_a_control_a_fixed_size_shows_which_arms_keep_their_limits():
    problem = PROBLEM.clone(control=None)
    policy, assumed = POLICY.clone(problem=problem), ASSUMED.clone(problem=problem)
    row = operating_characteristics(policy, [Scenario("full", assumed)], 40, 2, progress=False)[0]
    (only,) = row.comparators
    assert (only.name, only.claim) == ("fixed size", "within limits")
    assert only.right.rate == pytest.approx(0.9, abs=0.03)
    assert only.wrong.rate < POLICY.delta
    assert "no error probability" in only.question
    # A tie has no best arm, which a size could be for.
    tied = assumed.clone(means=np.ones((4, 2)))
    row = operating_characteristics(policy, [Scenario("full", tied)], 40, 2, progress=False)[0]
    assert row.comparators == ()


def test_without_limits_and_control_there_is_no_usual_design_to_compare_with():
    problem = PROBLEM.clone(control=None, floors=None)
    scenario = Scenario("full", ASSUMED.clone(problem=problem))
    policy = POLICY.clone(problem=problem)
    assert operating_characteristics(policy, [scenario], 40, 2)[0].comparators == ()


def test_without_limits_there_are_the_designs_against_the_control_alone():
    problem = PROBLEM.clone(floors=None)
    scenario = Scenario("full", ASSUMED.clone(problem=problem))
    row = operating_characteristics(POLICY.clone(problem=problem), [scenario], 40, 2)[0]
    assert [one.claim for one in row.comparators] == ["better"] * 3


def test_usual_designs_are_not_shown_where_results_are_lost(found):
    assert found.row("losses").comparators == ()


@pytest.mark.parametrize("name", ["full", "losses"])
def test_the_calendar_follows_from_rate_and_delay(found, name):
    row = found.row(name)
    runs, in_flight = row.simulation, int(RATE * DELAY)
    assert found.parallel == in_flight
    known = runs.stopping_time + runs.lost
    # Result i is known when i - 1 further pulls, and those in flight, have been made.
    assert runs.elapsed * RATE == pytest.approx(known - 1 + in_flight)
    made = runs.pulls.sum(axis=1)
    assert ((made - known >= 0) & (made - known < in_flight)).all()
    assert row.calendar.overrun.mean == pytest.approx((made - known).mean())
    assert row.calendar.overrun.mean > 0
    assert row.calendar.decision.mean == pytest.approx(runs.elapsed.mean())
    assert row.calendar.last_result.mean == pytest.approx((made - 1).mean() / RATE + DELAY)
    assert row.days == row.calendar.decision
    assert (runs.lost.sum() > 0) == (name == "losses")


def test_no_run_of_the_calendar_ends_after_its_last_result():
    """Near a planned end people come for whom no pull is left, so the last pulls take longer."""
    problem = subpopulations.Problem(["old", "new"], {"x": 0.2, "y": 0.8}, reward_range=(0, 1))
    policy = subpopulations.BlockBetting(problem, delta=0.1, max_pulls=60, planned_end=True)
    means = [[0.5, 0.5], [0.5, 0.5]]
    assumed = subpopulations.BernoulliEnvironment(problem, means, arrivals=[0.2, 0.8])
    late = operating_characteristics(
        policy,
        [Scenario("equal", assumed)],
        60,
        replications=12,
        pulls_per_day=RATE,
        delay_days=DELAY,
        progress=False,
    ).row("equal")
    assert late.simulation.elapsed.max() > 59 / RATE + DELAY
    own = late.calendar
    assert own.last_result.mean >= own.decision.mean
    assert own.last_result.mean == pytest.approx(own.last_pull.mean + DELAY)


def test_looks_count_what_had_been_decided_and_what_was_decided_later(found):
    row = found.row("full")
    runs = row.simulation
    assert [look.day for look in row.looks] == [20, 40]
    for look in row.looks:
        early = runs.decided & (runs.elapsed <= look.day)
        going_on = runs.elapsed > look.day
        assert look.decided.count == early.sum()
        assert look.later.count == (runs.decided & going_on).sum()
        assert look.later.runs == going_on.sum()


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"delay_days": 2}, "delay_days"),
        ({"delay_days": -1, "pulls_per_day": 1}, "delay_days"),
        ({"delay_days": 2, "pulls_per_day": 1, "parallel": 3}, "parallel"),
        ({"looks": [3], "pulls_per_day": 1}, "looks"),
    ],
)
def test_a_calendar_that_makes_no_sense_is_refused(more, name):
    with raises(InvalidArgument) as refusal:
        operating_characteristics(POLICY, [Scenario("full", ASSUMED)], 40, 2, **more)
    assert refusal.value.name == name


@pytest.mark.parametrize("delays", [{}, {"pulls_per_day": RATE, "delay_days": DELAY}])
def test_lost_pulls_before_a_planned_end_are_made_again_as_in_a_live_study(delays):
    """A limit of the pulls that are asked for would leave the last block without its end."""
    problem = subpopulations.Problem(["old", "new"], ["x"], reward_range=(0, 1))
    policy = subpopulations.BlockBetting(
        problem, delta=0.1, losses="ignorable", max_pulls=60, planned_end=True
    )
    assumed = subpopulations.BernoulliEnvironment(problem, [[0.4], [0.6]])
    lossy = Scenario("losses", LossyEnvironment(assumed, 0.2))
    row = operating_characteristics(
        policy, [lossy], [40, 60], replications=10, progress=False, **delays
    )[-1]
    runs = row.simulation
    assert row.max_pulls == 60
    assert "running" not in runs.status
    ended = runs.status == "undecided"
    assert ended.any()
    made = runs.pulls.sum(axis=1)
    assert (made[ended] > 60).all()
    assert made.max() <= policy.horizon_for(60)
    assert (made <= 60 + runs.lost + runs.cancelled).all()
