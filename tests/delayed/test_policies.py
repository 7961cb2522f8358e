"""Policies with late, repeated, unordered, lost, stopped and corrected results."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairtrial.core import run_policy
from fairtrial.delayed import (
    ConflictingReport,
    CurveEnvironment,
    GeometricDelay,
    InformationRacing,
    LognormalDelay,
    OutcomeDelay,
    Problem,
    Racing,
    SimulatedEnvironment,
    UniformDelay,
)
from fairtrial.delayed._kernels.state import ACCEPTED, SURVIVES
from fairtrial.errors import AlreadyTold, InvalidArgument, NothingToAsk, NotSupported, UnknownPull
from tests import effort
from tests.delayed.slow import box_sets, declared, lucb_choice, pair_sets, settled_within
from tests.delayed.states import arms_of, pulls_of
from tests.messages import raises

HOW = {
    "full": {},
    "unbiased": {"reading_std": 0.6},
    "biased": {"reading_std": 0.6},
    "refining": {"reading_std": 0.6, "errors": "nested"},
    "incremental": {"duration": 6},
}


def problem_with(feedback="unbiased", arms=4, **more):
    return Problem(arms, noise_std=1.0, feedback=feedback, **{**HOW[feedback], **more})


def policies(feedback):
    yield lambda problem, **more: InformationRacing(problem, **more)
    yield lambda problem, **more: InformationRacing(problem, test="box", **more)
    variants = ["full"] if feedback == "refining" else ["full", "partial", "proven"]
    for variant in variants:
        yield lambda problem, variant=variant, **more: Racing(problem, variant=variant, **more)


CASES = [(feedback, make) for feedback in HOW for make in policies(feedback)]


def state_of(policy):
    """Return the state except for decisions."""
    return pulls_of(policy), arms_of(policy)


# ---------------------------------------------------------------- live equals compiled


@pytest.mark.parametrize(("feedback", "make"), CASES)
@pytest.mark.parametrize("parallel", [1, 5])
def test_a_compiled_run_is_the_plain_loop_draw_for_draw(feedback, make, parallel):
    problem = problem_with(feedback, top=2, direction="minimize")
    delay = None if feedback == "incremental" else LognormalDelay(6.0, 0.7)
    environment = SimulatedEnvironment(problem, [0.0, 1.5, 3.0, 5.0], delay=delay, loss=0.1)
    check_both(make(problem), environment, parallel)


def check_both(policy, environment, parallel, horizon=None, seed=3):
    slow, fast = policy.clone(), policy.clone()
    expected = run_policy(slow, environment, np.random.default_rng(seed), horizon, parallel)
    found = fast.compiled_run(environment, np.random.default_rng(seed), horizon, parallel)
    assert found is not None
    assert found.pulls.tolist() == expected.pulls.tolist()
    for name in ("answer", "status", "stopping_time", "elapsed", "cancelled", "metrics"):
        assert getattr(found, name) == getattr(expected, name), name
    assert np.array_equal(pulls_of(slow), pulls_of(fast))
    assert np.array_equal(arms_of(slow), arms_of(fast))
    # A compiled run does not store the order of arrival, which the checks of assumptions need.
    assert slow.guarantee.statement == fast.guarantee.statement
    return expected


@pytest.mark.parametrize(
    "delay",
    [UniformDelay(1, 9), GeometricDelay(5.0), OutcomeDelay(1, 30), [1.0, 2.0, 3.0, 7.5]],
)
def test_a_compiled_run_is_the_plain_loop_for_every_delay(delay):
    problem = problem_with("unbiased")
    environment = SimulatedEnvironment(problem, [3.0, 1.0, 1.0, 0.0], delay=delay, every=0.7)
    check_both(InformationRacing(problem, per_arm=2), environment, parallel=6)


def test_a_compiled_run_is_the_plain_loop_where_delays_depend_on_outcomes():
    problem = problem_with("unbiased", delay_depends_on_outcome=True)
    environment = SimulatedEnvironment(problem, [3.0, 1.0, 1.0, 0.0], delay=OutcomeDelay(1, 30))
    assert check_both(InformationRacing(problem), environment, 6).metrics["readings"] == 0


@pytest.mark.parametrize(
    "more", [{"failure": "outcome"}, {"failure": "outcome", "failure_value": -3.0}]
)
def test_a_compiled_run_is_the_plain_loop_where_failures_depend_on_outcomes(more):
    problem = problem_with("unbiased", **more)
    environment = SimulatedEnvironment(problem, [3.0, 1.0, 1.0, 0.0], delay=5.0, loss=0.2)
    run = check_both(InformationRacing(problem), environment, 6)
    assert (run.status == "undecided") == ("failure_value" not in more)


@pytest.mark.parametrize("caps", [{"max_pulls": 7}, {"max_readings": 40}, {}])
def test_a_compiled_run_is_the_plain_loop_up_to_a_cap(caps):
    problem = problem_with("unbiased")
    environment = SimulatedEnvironment(problem, [0.0, 0.0, 0.0, 0.0], delay=5.0)
    run = check_both(InformationRacing(problem, **caps), environment, 3, horizon=20)
    assert run.status == ("undecided" if caps else "running")
    assert run.answer is None
    if "max_pulls" in caps:
        assert run.stopping_time == 7


@pytest.mark.parametrize("max_time", [0.5, 5.0, 7.3, 1e6])
def test_a_compiled_run_is_the_plain_loop_up_to_a_time(max_time):
    problem = problem_with("unbiased")
    environment = SimulatedEnvironment(problem, [0.0, 0.1, 0.0, 0.1], delay=LognormalDelay(5, 1))
    for policy in (
        InformationRacing(problem, max_time=max_time),
        Racing(problem, max_time=max_time),
    ):
        run = check_both(policy, environment, 3, horizon=30)
        assert run.elapsed <= max_time
        assert (run.status == "undecided") == (run.elapsed == max_time)
        if max_time < 100:
            assert run.elapsed == max_time
            assert run.cancelled == 3


def test_a_race_ends_undecided_when_its_time_has_passed():
    policy, pulls = running(max_time=10.0)
    policy.pass_time(9.5)
    policy.pass_time(3.0)
    assert not policy.stopped
    state = policy.get_state()
    policy.pass_time(10.0)
    assert policy.recommend().status == "undecided"
    assert "time" in policy.recommend().reason
    assert policy.to_cancel() == pulls
    twin = InformationRacing(policy.problem, delta=1e-9, max_time=10.0)
    twin.set_state(state)
    assert not twin.stopped
    for bad in (-1.0, math.nan):
        with raises(InvalidArgument, "now", given=bad):
            policy.pass_time(bad)
        with raises(InvalidArgument, "max_time", given=bad):
            InformationRacing(policy.problem, max_time=bad)
    without, _ = running()
    without.pass_time(1e9)
    assert not without.stopped


def test_truncated_pulls_are_called_back_and_count_with_their_readings():
    problem = problem_with("unbiased")
    environment = SimulatedEnvironment(problem, [4.0, 1.0, 1.0, 0.0], delay=50.0)
    run = check_both(InformationRacing(problem, truncate=3), environment, parallel=4, horizon=99)
    assert run.answer == ("0",)
    assert run.stopping_time == 0
    assert run.cancelled == run.pulls.sum()
    policy = InformationRacing(problem, truncate=2)
    pull = policy.ask()
    policy.report(pull, 1.0)
    assert policy.to_cancel() == []
    policy.report(pull, 1.0)
    assert policy.to_cancel() == [pull]
    with raises(InvalidArgument, "truncate", given=2):
        InformationRacing(problem_with("biased"), truncate=2)
    with raises(InvalidArgument, "truncate", given=2):
        InformationRacing(problem, truncate=2, use_partial=False)


def test_a_compiled_run_replays_curves_as_the_plain_loop_does():
    rng = np.random.default_rng(0)
    rows = {"arm": [], "curve": [], "elapsed": [], "value": []}
    for arm, mean in (("a", 0.0), ("b", 2.0)):
        for curve in range(9):
            outcome = rng.normal(mean, 0.5)
            for elapsed in range(1, 2 + rng.integers(9)):
                rows["arm"].append(arm)
                rows["curve"].append(curve)
                rows["elapsed"].append(elapsed)
                rows["value"].append(outcome + rng.normal(0, 0.2))
    problem = Problem(["a", "b"], noise_std=1.0, feedback="refining", reading_std=0.5)
    check_both(InformationRacing(problem), CurveEnvironment(problem, rows), parallel=3)


def test_what_a_policy_has_heard_before_rules_a_compiled_run_out():
    problem = problem_with("full")
    environment = SimulatedEnvironment(problem, [0.0, 1.0, 2.0, 3.0])
    policy = InformationRacing(problem)
    policy.tell(problem.pull(arm="0"), 1.0)
    assert policy.compiled_run(environment, np.random.default_rng(0), 10) is None


def test_without_noise_on_the_delay_full_and_useless_readings_make_the_same_run():
    # With a delay of one step, no reading precedes its outcome.
    runs = []
    for variant in ("full", "partial"):
        problem = problem_with("unbiased")
        environment = SimulatedEnvironment(problem, [3.0, 1.0, 1.0, 0.0], delay=1.0)
        policy = Racing(problem, variant=variant)
        runs.append(policy.compiled_run(environment, np.random.default_rng(1), None, 3))
    assert runs[0].elapsed == runs[1].elapsed
    assert runs[0].pulls.tolist() == runs[1].pulls.tolist()


# ------------------------------------------------------------------ order independence


@st.composite
def shuffled_events(draw):
    """Return events of six pulls, and the same events in another order."""
    events = []
    for pull in range(6):
        stages = range(draw(st.integers(0, 3)))
        events.extend(("report", pull, stage, draw(st.floats(-5, 5))) for stage in stages)
        end = draw(st.sampled_from(["tell", "fail", "cancel", "open"]))
        if end != "open":
            events.append((end, pull, 0, draw(st.floats(-5, 5))))
    return events, draw(st.permutations(events))


def replay(policy, events):
    pulls = policy.ask(6)
    for kind, number, stage, value in events:
        pull = pulls[number]
        if kind == "report":
            policy.report(pull, value, stage=stage)
        elif kind == "tell":
            policy.tell(pull, value)
        else:
            policy.fail(pull, "lost" if kind == "fail" else "user")
    return policy


@pytest.mark.parametrize("feedback", ["unbiased", "refining", "incremental", "biased"])
@settings(max_examples=effort.runs(20, whole=60))
@given(events=shuffled_events())
def test_the_same_events_in_any_order_leave_the_same_estimates_bit_for_bit(feedback, events):
    first, second = events
    # Every arm has several pulls, whose sums could depend on the order of events. With this delta,
    # nothing is decided.
    problem = problem_with(feedback, arms=2)
    one = replay(InformationRacing(problem, delta=1e-300, sampling="uniform"), first)
    other = replay(InformationRacing(problem, delta=1e-300, sampling="uniform"), second)
    assert np.array_equal(arms_of(one), arms_of(other))
    # Only compare columns of pulls that do not depend on readings that arrive too late to be used.
    for name in ("state", "outcome"):
        columns = (getattr(each._race.pulls, name)[:6] for each in (one, other))
        assert np.array_equal(*columns)


@settings(max_examples=effort.runs(20, whole=40))
@given(events=shuffled_events())
def test_the_full_race_depends_on_the_set_of_events_only(events):
    problem = problem_with("full", arms=2)
    told = [[event for event in order if event[0] != "report"] for order in events]
    one, other = (replay(Racing(problem, variant="full", delta=1e-300), events) for events in told)
    assert np.array_equal(arms_of(one), arms_of(other))


# -------------------------------------------------------------------------- anomalies


def running(feedback="unbiased", cls=InformationRacing, max_time=None, **more):
    policy = cls(problem_with(feedback, **more), delta=1e-9, max_time=max_time)
    return policy, policy.ask(4)


def means(policy):
    return [estimate.mean for estimate in policy.progress().actions]


def test_a_reading_that_comes_twice_counts_once():
    policy, pulls = running()
    policy.report(pulls[0], 1.0, stage=1)
    before = state_of(policy)
    policy.report(pulls[0], 1.0, stage=1)
    assert policy.duplicates == 1
    for one, other in zip(before, state_of(policy), strict=True):
        assert np.array_equal(one, other)


def test_a_reading_with_another_value_contradicts_the_first():
    policy, pulls = running()
    policy.report(pulls[0], 1.0, stage=1)
    before = state_of(policy)
    with raises(ConflictingReport):
        policy.report(pulls[0], 2.0, stage=1)
    with raises(ConflictingReport):
        policy.report(pulls[0], 1.0, stage=1, std=0.1)
    for one, other in zip(before, state_of(policy), strict=True):
        assert np.array_equal(one, other)
    policy.tell(pulls[0], 3.0)
    with raises(ConflictingReport):
        policy.report(pulls[0], 2.0, stage=1)


def test_readings_without_a_stage_are_counted_and_elapsed_stands_for_it():
    policy, pulls = running()
    policy.report(pulls[0], 1.0)
    policy.report(pulls[0], 1.0)
    assert policy.duplicates == 0
    assert policy.metrics()["readings"] == 2
    policy.report(pulls[1], 1.0, elapsed=0.5)
    policy.report(pulls[1], 1.0, elapsed=0.5)
    assert policy.duplicates == 1


def test_a_reading_without_a_stage_is_the_newest():
    policy, pulls = running("refining")
    policy.report(pulls[0], 1.0, stage=5.5)
    policy.report(pulls[0], 2.0)
    assert means(policy)[0] == pytest.approx(2.0)


def test_an_earlier_reading_that_comes_late_joins_the_average():
    policy, pulls = running()
    policy.report(pulls[0], 1.0, stage=2)
    policy.report(pulls[0], 3.0, stage=1)
    assert means(policy)[0] == pytest.approx(2.0)


def test_a_reading_after_the_outcome_changes_nothing():
    policy, pulls = running()
    policy.tell(pulls[0], 1.0)
    before = state_of(policy)
    policy.report(pulls[0], 9.0, stage=1)
    for one, other in zip(before, state_of(policy), strict=True):
        assert np.array_equal(one, other)


def test_a_reading_after_the_outcome_still_tells_of_the_bias():
    policy, pulls = running("biased")
    policy.tell(pulls[0], 1.0)
    second = next(p for p in policy.ask(8) if p.arm == pulls[0].arm)
    policy.report(second, 7.0, stage=1)
    assert means(policy)[0] == 1.0
    policy.report(pulls[0], 3.0, stage=1)
    # The bias is about 2, so the second pull indicates 5 and raises the mean.
    assert means(policy)[0] > 1.5


@pytest.mark.parametrize("reason", ["cancelled", "user", "lost", "error"])
def test_a_stopped_pull_keeps_its_readings_and_may_still_come(reason):
    policy, pulls = running()
    policy.report(pulls[0], 2.0, stage=1)
    policy.fail(pulls[0], reason)
    assert means(policy)[0] == 2.0
    policy.report(pulls[0], 4.0, stage=2)
    assert means(policy)[0] == pytest.approx(3.0)
    by_chance = reason in ("lost", "error")
    assert any("1 pull got lost" in text for text in policy.guarantee.assumptions) == by_chance
    policy.tell(pulls[0], 1.0)
    assert means(policy)[0] == 1.0
    assert not policy.stopped
    # Results that arrive after all were only late.
    assert not any("got lost" in text for text in policy.guarantee.assumptions)


@pytest.mark.parametrize("reason", ["timeout", "expired", "Timeout", "time-out", "fell ill", ""])
def test_only_reasons_that_are_known_for_chance_are_taken_for_it(reason):
    policy, pulls = running()
    policy.fail(pulls[0], reason)
    assert "needs a decision" in policy.recommend().reason


def test_a_time_out_may_be_due_to_the_outcome_and_waits_for_a_decision():
    policy, pulls = running()
    policy.fail(pulls[0], "timeout")
    assert policy.stopped
    answer = policy.recommend()
    assert answer.status == "undecided"
    assert "needs a decision" in answer.reason
    policy.tell(pulls[0], 1.0)
    assert not policy.stopped
    policy.fail(pulls[1], "expired")
    assert policy.stopped


def test_a_time_out_can_be_declared_independent():
    policy, pulls = running(failure="independent")
    policy.fail(pulls[0], "timeout")
    assert not policy.stopped


def test_a_failure_can_count_as_a_value_until_its_outcome_comes():
    policy, pulls = running(failure="outcome", failure_value=-5.0)
    policy.fail(pulls[0], "lost")
    assert means(policy)[0] == -5.0
    assert policy.told == 0
    policy.tell(pulls[0], 2.0)
    assert means(policy)[0] == 2.0
    assert policy._race.control.results[0] == 1


def test_where_failures_have_a_value_every_loss_has_it():
    policy, pulls = running(failure_value=-5.0)
    policy.fail(pulls[0], "lost")
    assert means(policy)[0] == -5.0


def test_after_a_cap_no_failure_counts_as_a_value():
    policy = InformationRacing(
        Problem(4, reward_range=(0, 1), failure_value=0.0), delta=1e-9, max_pulls=2
    )
    pulls = [policy.problem.pull(arm=str(arm)) for arm in range(2)]
    late = policy.ask()
    for pull in pulls:
        policy.tell(pull, 0.5)
    assert "a maximum" in policy.recommend().reason
    policy.fail(late, "timeout")
    assert means(policy)[:2] == [0.5, 0.5]


def test_a_result_counts_once_for_a_cap_if_its_pull_had_failed():
    policy = InformationRacing(
        Problem(4, reward_range=(0, 1), failure_value=0.0), delta=1e-9, max_pulls=2
    )
    first, second = policy.ask(2)
    policy.fail(first, "timeout")
    policy.tell(second, 0.5)
    assert not policy.stopped
    policy.tell(first, 0.5)
    assert policy.stopped


def test_a_failure_on_a_decided_arm_stops_nothing():
    problem = problem_with("full", arms=3)
    policy = InformationRacing(problem, sampling="uniform")
    pulls = policy.ask(6)
    late = next(p for p in reversed(pulls) if p.arm == "0")
    for pull in pulls:
        if pull is not late:
            policy.tell(pull, {"0": -30.0, "1": 0.0, "2": 0.1}[pull.arm])
    assert policy.to_cancel() == [late]
    policy.fail(late, "timeout")
    assert not policy.stopped


def test_only_the_longest_run_of_complete_pulls_counts_where_delays_depend_on_outcomes():
    policy, _ = running("unbiased", delay_depends_on_outcome=True, arms=2, cls=InformationRacing)
    policy = InformationRacing(policy.problem, delta=1e-9, sampling="uniform")
    pulls = policy.ask(6)
    first, second, third = (pull for pull in pulls if pull.arm == "0")
    policy.report(first, 50.0, stage=1)
    policy.tell(third, 9.0)
    policy.tell(second, 3.0)
    assert policy.progress().arms[0].counted == 0
    policy.tell(first, 0.0)
    assert policy.progress().arms[0].counted == 3
    assert means(policy)[0] == pytest.approx(4.0)
    assert "may depend" in " ".join(policy.guarantee.assumptions)


def test_a_lost_pull_ends_the_run_of_complete_pulls():
    problem = problem_with("full", arms=2, delay_depends_on_outcome=True)
    policy = InformationRacing(problem, delta=1e-9, sampling="uniform")
    pulls = policy.ask(6)
    first, second, _ = (pull for pull in pulls if pull.arm == "0")
    policy.tell(second, 3.0)
    policy.fail(first, "lost")
    assert policy.stopped
    assert "needs a decision" in policy.recommend().reason
    assert policy.progress().arms[0].counted == 0
    policy.tell(first, 1.0)
    assert not policy.stopped
    assert means(policy)[0] == 2.0


def test_unknown_and_finished_pulls_are_refused():
    policy, pulls = running()
    other = InformationRacing(policy.problem).ask(8)[-1]
    with raises(UnknownPull):
        policy.tell(other, 1.0)
    with raises(UnknownPull):
        policy.report(other, 1.0)
    policy.tell(pulls[0], 1.0)
    with raises(AlreadyTold):
        policy.tell(pulls[0], 1.0)


def test_full_feedback_takes_no_readings():
    policy, pulls = running("full")
    with raises(NotSupported):
        policy.report(pulls[0], 1.0)


def test_readings_that_are_not_to_count_are_written_down_only():
    problem = problem_with("unbiased")
    policy = InformationRacing(problem, use_partial=False)
    pull = policy.ask()
    policy.report(pull, 9.0, stage=1)
    assert means(policy)[0] is None
    with raises(ConflictingReport):
        policy.report(pull, 8.0, stage=1)


def test_stopping_a_pull_for_readings_that_do_not_count_is_a_failure_due_to_its_outcome():
    policy = InformationRacing(problem_with("unbiased"), use_partial=False)
    first, second = policy.ask(2)
    policy.fail(first, "user")
    assert not policy.stopped
    policy.report(second, -9.0, stage=1)
    policy.fail(second, "user")
    assert "needs a decision" in policy.recommend().reason
    policy.tell(second, 0.0)
    assert not policy.stopped
    independent = InformationRacing(
        problem_with("unbiased", failure="independent"), use_partial=False
    )
    first, second = independent.ask(2)
    for pull in (first, second):
        independent.report(pull, -9.0, stage=1)
    independent.fail(first, "lost")
    assert not independent.stopped
    independent.fail(second, "user")
    assert "needs a decision" in independent.recommend().reason


@pytest.mark.parametrize("feedback", ["unbiased", "biased", "incremental"])
def test_the_proven_race_takes_a_stop_for_a_failure_where_it_follows_one_pull_only(feedback):
    policy, pulls = running(feedback, cls=Racing)
    policy.report(pulls[0], -9.0, stage=1)
    policy.fail(pulls[0], "user")
    # All pieces of stopped pulls stay in the walk, so stopping does not select.
    assert policy.stopped == (feedback != "incremental")


def test_an_outcome_can_be_corrected():
    for cls in (InformationRacing, Racing):
        policy, pulls = running(cls=cls)
        policy.tell(pulls[0], 1.0)
        policy.amend(pulls[0], 1.0, 2.0)
        assert means(policy)[0] == 2.0
        assert not policy.guarantee.proven
        assert "1 correction came" in policy.guarantee.assumptions[-1]
        with raises(UnknownPull):
            policy.amend(pulls[0], 1.0, 3.0)


def test_data_that_nobody_asked_for_count():
    problem = problem_with("unbiased")
    policy = InformationRacing(problem)
    policy.tell(problem.pull(arm="2"), 1.0)
    policy.tell(problem.pull(arm="2"), 2.0)
    assert means(policy)[2] == 1.5
    policy.amend(problem.pull(arm="2"), 1.0, 3.0)
    assert means(policy)[2] == 2.5


def test_reports_on_a_decided_arm_have_no_effect_and_its_pulls_are_called_back():
    problem = problem_with("unbiased", arms=3, top=1)
    policy = InformationRacing(problem, sampling="uniform")
    pulls = policy.ask(6)
    for pull in pulls[:3]:
        policy.tell(pull, {"0": -50.0, "1": 0.0, "2": 0.1}[pull.arm])
    assert [pull.arm for pull in policy.to_cancel()] == ["0"]
    late = policy.to_cancel()[0]
    policy.tell(problem.pull(arm="0"), -50.0)
    assert policy.to_cancel() == [late]
    policy.report(late, 500.0, stage=1)
    policy.tell(late, 500.0)
    assert policy.progress().arm_states[0].status == "rejected"
    assert not policy.stopped


def test_a_race_whose_workers_are_all_gone_waits():
    policy = Racing(problem_with("full"), parallel=4)
    assert len(policy.ask(9)) == 4
    assert policy.ask(9) == []
    assert policy.recommend().status == "running"
    assert policy.to_cancel() == []
    assert len(policy.outstanding()) == 4


def test_a_complete_pull_without_a_reading_tells_nothing_of_the_bias():
    policy, pulls = running("biased", arms=2)
    first, second = (pull for pull in pulls if pull.arm == "0")
    policy.report(second, 7.0, stage=1)
    policy.tell(first, 1.0)
    assert means(policy)[0] == 1.0


# -------------------------------------------------------------------- caps and sampling


def test_no_more_pulls_are_given_out_than_may_be_in_flight():
    problem = problem_with("full")
    policy = InformationRacing(problem, parallel=3)
    assert len(policy.ask(9)) == 3
    with raises(NothingToAsk):
        policy.ask()
    policy.tell(policy.outstanding()[0], 0.0)
    assert len(policy.ask(9)) == 1
    narrow = Racing(problem, per_arm=2)
    assert [pull.arm for pull in narrow.ask(99)] == ["0", "1", "2", "3"] * 2


def test_uniform_sampling_starts_the_least_started_survivor():
    policy = Racing(problem_with("full", arms=3))
    assert [pull.arm for pull in policy.ask(7)] == ["0", "1", "2", "0", "1", "2", "0"]


def test_lucb_starts_the_two_arms_at_the_border_and_every_fourth_the_least_started():
    policy = InformationRacing(problem_with("full", arms=5), delta=1e-9)
    for pull in policy.ask(5):
        policy.tell(pull, {"0": 9.0, "1": 8.5, "2": 1.0, "3": 0.5, "4": 0.0}[pull.arm])
    arms = [pull.arm for pull in policy.ask(20)]
    # Starts 5, 6, 8, 9, 10, ... (start 7 and every fourth start after it are for the least started
    # arm).
    border = [arm for start, arm in enumerate(arms, start=5) if start % 4 != 3]
    assert set(border) == {"0", "1"}
    assert abs(border.count("0") - border.count("1")) <= 2
    least = [arm for start, arm in enumerate(arms, start=5) if start % 4 == 3]
    assert least == ["2", "3", "4", "2", "3"]


@pytest.mark.parametrize("per_arm", [None, 2])
def test_lucb_is_the_slow_version_with_pulls_in_flight(per_arm):
    problem = Problem(5, top=2, noise_std=[1.0, 0.5, 2.0, 1.0, 1.0])
    race = InformationRacing(problem, delta=1e-3, per_arm=per_arm)
    rng, open_pulls = np.random.default_rng(2), []
    told, started = np.zeros((5, 2)), [0] * 5
    for _ in range(120):
        known = told[:, 0] > 0
        mean = np.where(known, told[:, 1] / np.maximum(told[:, 0], 1), 0.0)
        mean[~known] = mean[known].mean() if known.any() else 0.0
        in_flight = [sum(pull.action == arm for pull in open_pulls) for arm in range(5)]
        expected = lucb_choice(problem, race, mean, started, in_flight)
        open_pulls.append(race.ask())
        assert open_pulls[-1].action == expected
        started[expected] += 1
        if len(open_pulls) == 7:
            pull = open_pulls.pop(int(rng.integers(7)))
            outcome = rng.normal([0.6, 0.4, 0.4, 0.2, 0.0][pull.action], 1.0)
            race.tell(pull, outcome)
            told[pull.action] += 1.0, outcome
    assert {one.status for one in race.progress().arm_states} == {"undecided"}


# --------------------------------------------------------------------------- decisions


@settings(max_examples=effort.runs(20, whole=60))
@given(seed=st.integers(0, 10**6), arms=st.integers(2, 6), data=st.data(), boxes=st.booleans())
def test_sets_follow_from_estimates_as_in_the_slow_version(seed, arms, data, boxes):
    top = data.draw(st.integers(1, arms - 1))
    slack = data.draw(st.sampled_from([0.0, 0.5, 2.0]))
    problem = Problem(arms, top=top, noise_std=1.0, tolerance=slack)
    policy = InformationRacing(
        problem, delta=0.49, test="box" if boxes else "pairwise", sampling="uniform"
    )
    rng = np.random.default_rng(seed)
    truth = rng.normal(0, 2, arms)
    alive, accepted, better = set(range(arms)), set(), set()
    while alive and policy.told < 60:
        pull = policy.ask()
        policy.tell(pull, truth[pull.action] + rng.normal())
        arms_now = policy._race.arms
        mean, variance, penalty = arms_now.estimate, arms_now.variance, arms_now.penalty
        lower, upper = arms_now.lower, arms_now.upper
        level = math.log(top * (arms - top) / 0.49)
        if boxes:
            alive, accepted = box_sets(lower, upper, alive, accepted, top)
            near = {(i, j) for i in alive for j in alive if lower[i] > upper[j] - slack}
        else:
            better |= declared(mean, variance, penalty, level, alive)
            alive, accepted = pair_sets(better, alive, accepted, top)
            near = declared(mean, variance, penalty, level, alive, slack)
        if slack:
            alive, accepted = settled_within(near, mean, alive, accepted, top)
        assert set(np.flatnonzero(arms_now.status == SURVIVES)) == alive
        assert set(np.flatnonzero(arms_now.status == ACCEPTED)) == accepted
    assert policy.stopped == (not alive)
    if not alive:
        order = sorted(accepted, key=lambda arm: -policy._race.arms.estimate[arm])
        assert policy.recommend().arm == tuple(str(arm) for arm in order)


@pytest.mark.parametrize("cls", [InformationRacing, Racing])
def test_ties_end_within_a_tolerance_and_a_chain_does_not_add_up(cls):
    problem = Problem(4, noise_std=0.01, tolerance=1.0)
    environment = SimulatedEnvironment(problem, [0.0, -0.9, -1.8, -2.7])
    for seed in range(30):
        run = cls(problem).compiled_run(environment, np.random.default_rng(seed), 400)
        assert run.status == "decided"
        assert run.answer in (("0",), ("1",))
    equal = SimulatedEnvironment(problem, [0.0, 0.0, 0.0, 0.0])
    assert cls(problem).compiled_run(equal, np.random.default_rng(0), 400).status == "decided"
    exact = problem.clone(tolerance=0.0)
    equal = SimulatedEnvironment(exact, [0.0, 0.0, 0.0, 0.0])
    assert cls(exact).compiled_run(equal, np.random.default_rng(0), 400).status == "running"


# --------------------------------------------------------------------- saved, restored


def test_restored_it_knows_who_is_out(tmp_path):
    policy = InformationRacing(problem_with("full"))
    for pull in policy.ask(8):
        policy.tell(pull, [-90.0, 0.0, 0.1, 0.2][pull.action])
    assert policy.progress().arm_states[0].status == "rejected"
    np.savez(tmp_path / "state.npz", **policy.get_state())
    twin = InformationRacing(policy.problem)
    twin.set_state(dict(np.load(tmp_path / "state.npz")))
    assert [pull.arm for pull in twin.ask(9)] == [pull.arm for pull in policy.ask(9)]
    assert "0" not in [pull.arm for pull in twin.outstanding()]


def steer(policy, feedback, rng):
    """Ask, report, tell and lose a little."""
    for pull in policy.ask(3):
        if feedback != "full":
            for stage in (2, 1):
                policy.report(pull, float(pull.action + rng.normal()), stage=stage)
        if rng.random() < 0.6:
            policy.tell(pull, float(pull.action + rng.normal()))
        elif rng.random() < 0.3:
            policy.fail(pull, "lost")


def test_progress_shows_estimates_and_intervals_in_the_units_of_the_outcomes():
    problem = problem_with("full", arms=2, direction="minimize")
    policy = InformationRacing(problem, sampling="uniform")
    for pull in policy.ask(4):
        policy.tell(pull, 1.0 if pull.arm == "0" else 2.0)
    progress = policy.progress()
    first, second = progress.actions
    assert (first.mean, second.mean) == (1.0, 2.0)
    assert first.lower < 1.0 < first.upper
    assert progress.recommendation.leader == ("0",)
    assert progress.evidence < progress.threshold
    assert first.pulls == 2
    assert [(one["arm"], one["status"]) for one in progress.to_dict()["arm_states"]] == [
        ("0", "undecided"),
        ("1", "undecided"),
    ]
