"""Means, variances and boxes, compared with slow versions, closed forms and references."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairtrial.confidence import FiniteLIL, NormalMixture, PolynomialStitching
from fairtrial.core import run_policy
from fairtrial.delayed import InformationRacing, Problem, Racing, SimulatedEnvironment
from fairtrial.delayed._kernels.boxes import split_three, split_two
from fairtrial.delayed.policies.bound_table import bound_table
from fairtrial.delayed.policies.information import price_of_prefixes
from fairtrial.errors import InvalidArgument
from tests import effort
from tests.delayed.slow import Seen, least_sum_of_radii, likelihood_estimate
from tests.delayed.states import arms_of
from tests.messages import raises

HOW = {
    "unbiased": {"reading_std": [0.7, 1.3]},
    "biased": {"reading_std": [0.7, 1.3]},
    "refining": {"reading_std": 0.7},
    "incremental": {"duration": [3.0, 6.0]},
}


def column(policy, name):
    return getattr(policy._race.arms, name)


# ------------------------------------------------------------------- the bound's table


@pytest.mark.parametrize(
    "bound",
    [FiniteLIL(), FiniteLIL(1.5, 1.01, one_sided=True), PolynomialStitching(), NormalMixture(0.3)],
)
def test_the_table_gives_the_radius_of_every_bound(bound):
    table = bound_table(bound, 128)
    for number in (1, 2, 10, 127):
        for level in (0.3, 0.05, 1e-6, 1e-30):
            radius = math.sqrt(table[0, number] - table[1, number] * math.log(level))
            assert radius == pytest.approx(float(bound.radius(number, level)), rel=1e-12)


def test_a_bound_of_another_form_is_refused():
    class Other(NormalMixture):
        def _standard_radius(self, pulls, log_inverse_level):
            return np.asarray(log_inverse_level / pulls)

    with raises(InvalidArgument, "bound"):
        Racing(Problem(2, noise_std=1.0), bound=Other())


# ----------------------------------------------------------------- the split of delta

SPLITS = [
    ((1, 1, 0.5, 0.25, 100), 0.326367, 3.752326977),
    ((3, 10, 0.5, 0.25, 100), 0.075761, 1.738283611),
    ((1, 99, 0.5, 0.25, 100), 0.037152, 2.594493313),
    ((10, 1, 0.5, 2.0, 10), 0.602833, 1.729087965),
]


def parts(case, biases=None):
    outcomes, readings, sigma, report, _arms = case
    found = [(1.0, sigma, outcomes), (1.0 / outcomes, report, readings)]
    if biases:
        found.append((1.0 / outcomes, report, biases))
    return found


def as_terms(bound, terms):
    """Return the flat arguments (scale, base) of the compiled split."""
    table = bound_table(bound, 128)
    flat = []
    for scale, sigma, number in terms:
        slope = table[1, number]
        flat += [scale * sigma * math.sqrt(slope), table[0, number] / slope]
    return flat


@pytest.mark.parametrize(("case", "share", "radius"), SPLITS)
def test_the_split_in_two_has_its_reference_values(case, share, radius):
    terms = parts(case)
    found, total = split_two(*as_terms(FiniteLIL(), terms), 1.0, math.log(case[4] / 0.05))
    assert found == pytest.approx(share, abs=1e-6)
    assert total == pytest.approx(radius, rel=1e-9)
    slow, least = least_sum_of_radii(FiniteLIL(), terms, 0.05 / case[4])
    assert total == pytest.approx(least, rel=1e-9)
    assert found == pytest.approx(slow[0], rel=1e-4)


def test_the_split_in_three_has_its_reference_values():
    terms = parts((3, 10, 0.5, 0.25, 100), biases=2)
    first, second, total = split_three(*as_terms(FiniteLIL(), terms), 1.0, math.log(100 / 0.05))
    assert (first, second) == (pytest.approx(0.064219, abs=1e-6), pytest.approx(0.153294, abs=1e-6))
    (_, slow_second), least = least_sum_of_radii(FiniteLIL(), terms, 0.05 / 100)
    assert total == pytest.approx(least, rel=1e-9)
    assert second == pytest.approx(slow_second, rel=1e-4)


def test_perfect_readings_take_no_share():
    share, total = split_two(1.0, 2.0, 0.0, 1.0, 1.0, 3.0)
    assert (share, total) == (0.0, math.sqrt(5.0))
    assert split_three(1.0, 2.0, 0.0, 1.0, 0.0, 1.0, 1.0, 3.0) == (0.0, 0.0, math.sqrt(5.0))


def test_the_price_of_prefixes_solves_its_equation():
    for level in (0.01, 1.0, 4.0, 30.0, 500.0):
        x = price_of_prefixes(level)
        assert x - math.log1p(x) == pytest.approx(level, rel=1e-12)
    assert price_of_prefixes(4.0) == pytest.approx(5.94, abs=0.05)


# --------------------------------------------------------------------- information


@st.composite
def pulls_of_two_arms(draw):
    number = st.floats(-3, 3)
    pulls = []
    for _ in range(draw(st.integers(1, 5))):
        arm = draw(st.integers(0, 1))
        count = draw(st.integers(0, 3))
        readings = [draw(number) for _ in range(count)]
        outcome = draw(st.none() | number)
        pulls.append((arm, readings, outcome))
    return pulls


def enact(policy, problem, pulls):
    """Ask until every wanted arm was pulled; report and tell; return the observations."""
    seen = []
    for arm, readings, outcome in pulls:
        row = policy._race.start(arm, policy.asked, pieces=None)
        policy._outstanding[policy.asked] = (arm, row)
        policy.asked += 1
        pull = policy.in_flight(policy.asked - 1)
        own = Seen(arm, duration=0.0 if problem.duration is None else problem.duration[arm])
        for stage, value in enumerate(readings, start=1):
            std = 0.0 if problem.reading_std is None else problem.reading_std[arm]
            policy.report(pull, value, stage=stage)
            own.readings[stage] = (value, std)
        if outcome is not None:
            policy.tell(pull, outcome)
            own.outcome = outcome
        seen.append(own)
    return seen


@pytest.mark.parametrize("feedback", list(HOW))
@settings(max_examples=effort.runs(20, whole=40))
@given(pulls=pulls_of_two_arms())
def test_information_is_generalised_least_squares_on_all_that_was_seen(feedback, pulls):
    problem = Problem(2, noise_std=[1.0, 2.0], feedback=feedback, **HOW[feedback])
    policy = InformationRacing(problem, delta=1e-12)
    seen = enact(policy, problem, pulls)
    for arm in range(2):
        own = [pull for pull in seen if pull.arm == arm]
        variance = column(policy, "variance")[arm]
        if feedback == "biased":
            check_beside_bias(policy, problem, arm, own)
            continue
        if not any(pull.readings or pull.outcome is not None for pull in own):
            assert variance == math.inf
            continue
        mean, information, _ = likelihood_estimate(problem, arm, own)
        total, rho = information[0, 0], 0.1 / problem.scale[arm] ** 2
        assert column(policy, "estimate")[arm] == pytest.approx(mean, rel=1e-9, abs=1e-9)
        assert variance == pytest.approx((total + rho) / total**2, rel=1e-9)
        assert column(policy, "penalty")[arm] == pytest.approx(
            0.5 * math.log((total + rho) / rho), rel=1e-9
        )


def check_beside_bias(policy, problem, arm, own):
    variance = column(policy, "variance")[arm]
    complete = [pull for pull in own if pull.outcome is not None]
    rho = 0.1 / problem.scale[arm] ** 2
    # A tenth of the evidence uses outcomes alone, the rest also uses the bias.
    if not complete:
        assert variance == math.inf
    elif not any(pull.readings for pull in complete):
        total = len(complete) / problem.scale[arm] ** 2
        assert variance == pytest.approx((total + rho) / total**2, rel=1e-9)
        charge = math.log(10) if any(pull.readings for pull in own) else 0.0
        assert column(policy, "penalty")[arm] == pytest.approx(
            0.5 * math.log((total + rho) / rho) + charge, rel=1e-9
        )
    else:
        mean, information, _ = likelihood_estimate(problem, arm, own)
        prior = np.diag([rho, 1000.0 / problem.reading_std[arm] ** 2])
        inverse = np.linalg.inv(information)
        determinants = np.linalg.det(information + prior) / np.linalg.det(prior)
        assert column(policy, "estimate")[arm] == pytest.approx(mean, rel=1e-7, abs=1e-7)
        assert variance == pytest.approx((inverse + inverse @ prior @ inverse)[0, 0], rel=1e-9)
        assert column(policy, "penalty")[arm] == pytest.approx(
            0.5 * math.log(determinants) + math.log(10 / 9), rel=1e-9
        )


def test_intervals_and_levels_are_the_closed_forms():
    values = [0.5, 1.5, 4.0]
    variance, penalty = (3 + 0.1) / 9, 0.5 * math.log(3.1 / 0.1)
    for test, threshold in (("box", math.log(5 / 0.1)), ("pairwise", math.log(2 * 3 / 0.1))):
        problem = Problem(5, top=2, noise_std=1.0)
        policy = InformationRacing(problem, delta=0.1, test=test)
        enact(policy, problem, [(0, [], value) for value in values])
        radius = math.sqrt(2 * variance * (math.log(5 / 0.1) + penalty))
        shown = policy.progress().actions[0]
        assert (shown.lower, shown.upper) == pytest.approx((2.0 - radius, 2.0 + radius))
        assert policy._race.rules.level[0] == pytest.approx(threshold)
        own = math.sqrt(2 * variance * (threshold + penalty))
        assert box(policy) == pytest.approx((2.0, own))


def test_evidence_is_that_of_the_weakest_pair_at_the_border():
    problem = Problem(3, noise_std=1.0)
    policy = InformationRacing(problem, delta=1e-6)
    enact(policy, problem, [(0, [], 5.0), (1, [], 3.0), (2, [], 0.0)])
    penalty = 0.5 * math.log(1.1 / 0.1)
    assert policy.progress().threshold == pytest.approx(math.log(2 / 1e-6))
    assert policy.progress().evidence == 0.0
    enact(policy, problem, [(1, [], 1.0), (0, [], 9.0)])
    gap, spread, own = 7.0 - 2.0, 2 * (2 + 0.1) / 4, 0.5 * math.log(2.1 / 0.1)
    assert policy.progress().evidence == pytest.approx(gap**2 / (2 * spread) - 2 * own)
    assert gap**2 / (2 * spread) - 2 * own < 7.0**2 / (2 * (spread / 2 + 1.1)) - own - penalty


def test_pairs_pay_for_prefixes_where_delays_depend_on_outcomes():
    problem = Problem(5, top=2, noise_std=1.0, delay_depends_on_outcome=True)
    level = math.log(2 * 3 / 0.05)
    x = InformationRacing(problem).progress().threshold
    assert x - math.log1p(x) == pytest.approx(level)
    boxes = InformationRacing(problem, test="box")
    assert boxes._race.rules.level[0] == pytest.approx(math.log(5 / 0.05))


@pytest.mark.parametrize("more", [{"delay_depends_on_outcome": True}, {}])
@pytest.mark.parametrize("feedback", list(HOW))
def test_readings_that_do_not_count_cost_nothing(feedback, more):
    found = []
    for about in ({"feedback": feedback, **HOW[feedback]}, {}):
        problem = Problem(2, noise_std=[1.0, 2.0], **about, **more)
        policy = InformationRacing(problem, use_partial=False)
        enact(policy, problem, [(0, [], 1.0), (0, [], 2.0), (1, [], 3.0)])
        found.append(arms_of(policy))
    assert np.array_equal(*found)


def test_the_bias_is_known_after_one_complete_pull_if_readings_have_no_noise():
    problem = Problem(2, noise_std=1.0, feedback="biased", reading_std=0.0)
    policy = InformationRacing(problem)
    enact(policy, problem, [(0, [3.0], 1.0), (0, [5.0], None)])
    # The bias is 2, so the second pull counts as an outcome of 3.
    assert column(policy, "estimate")[0] == pytest.approx(2.0, abs=1e-6)
    assert column(policy, "variance")[0] == pytest.approx((2 + 0.1) / 4, rel=1e-2)
    race = Racing(problem, variant="partial")
    enact(race, problem, [(0, [3.0], 1.0), (0, [5.0], None)])
    assert column(race, "estimate")[0] == pytest.approx(2.0)
    assert column(race, "upper")[0] - 2.0 == pytest.approx(float(FiniteLIL().radius(2, 0.025)))


def test_only_the_newest_reading_counts_where_each_refines_the_last():
    problem = Problem(2, noise_std=1.0, feedback="refining", errors="nested")
    policy = InformationRacing(problem)
    pull = policy.ask()
    policy.report(pull, 1.0, stage=2, std=0.5)
    policy.report(pull, 9.0, stage=1, std=0.9)
    assert column(policy, "estimate")[0] == 1.0
    policy.report(pull, 2.0, stage=3, std=0.0)
    assert column(policy, "estimate")[0] == pytest.approx(2.0)
    assert column(policy, "variance")[0] == pytest.approx(1.1, rel=1e-6)


def test_only_the_first_good_reading_counts_where_errors_are_redrawn():
    problem = Problem(2, noise_std=1.0, feedback="refining", errors="first", target_std=0.5)
    policy = InformationRacing(problem)
    pull = policy.ask()
    policy.report(pull, 9.0, stage=1, std=0.6)
    assert column(policy, "variance")[0] == math.inf
    policy.report(pull, 1.0, stage=2, std=0.5)
    policy.report(pull, 7.0, stage=3, std=0.1)
    assert column(policy, "estimate")[0] == 1.0
    policy.tell(pull, 3.0)
    assert column(policy, "estimate")[0] == 3.0


# ---------------------------------------------------------------------------- races


def race(variant, feedback="unbiased", bound=None, arms=2, **more):
    how = {"reading_std": 0.1} if feedback in ("unbiased", "biased") else {"duration": 4.0}
    problem = Problem(arms, noise_std=1.5, feedback=feedback, **how)
    return problem, Racing(problem, variant=variant, bound=bound, **more)


def box(policy, arm=0):
    lower, upper = column(policy, "lower")[arm], column(policy, "upper")[arm]
    return (lower + upper) / 2, (upper - lower) / 2


@pytest.mark.parametrize("bound", [FiniteLIL(), NormalMixture(), PolynomialStitching()])
def test_the_full_race_has_the_bound_of_its_outcomes(bound):
    problem, policy = race("full", bound=bound)
    enact(policy, problem, [(0, [9.0], 1.0), (0, [9.0, 9.0], 2.0), (0, [9.0], None)])
    assert box(policy) == pytest.approx((1.5, float(bound.radius(2, 0.025, 1.5))))


def test_the_published_estimator_takes_the_pull_with_most_readings_if_that_is_narrower():
    problem, policy = race("partial")
    enact(policy, problem, [(0, [], 1.0), (0, [2.0], None), (0, [4.0, 5.0], None)])
    _, least = least_sum_of_radii(FiniteLIL(), [(1, 1.5, 2), (0.5, 0.1, 2)], 0.025)
    assert least < float(FiniteLIL().radius(1, 0.025, 1.5))
    assert box(policy) == pytest.approx(((1.0 + 4.5) / 2, least))


def test_of_pulls_with_equally_many_readings_the_published_estimator_takes_the_oldest():
    problem, policy = race("partial")
    enact(policy, problem, [(0, [], 1.0), (0, [2.0], None), (0, [9.0], None)])
    assert box(policy)[0] == pytest.approx((1.0 + 2.0) / 2)


def test_the_published_estimator_takes_the_outcomes_if_that_is_narrower():
    problem = Problem(2, noise_std=1.0, feedback="unbiased", reading_std=50.0)
    policy = Racing(problem, variant="partial")
    enact(policy, problem, [(0, [], 1.0), (0, [2.0], None)])
    assert box(policy) == pytest.approx((1.0, float(FiniteLIL().radius(1, 0.025))))


def test_the_published_estimator_subtracts_the_bias_that_was_seen():
    problem, policy = race("partial", "biased")
    enact(policy, problem, [(0, [3.0, 5.0], 1.0), (0, [9.0], None)])
    terms = [(1, 1.5, 2), (0.5, 0.1, 1), (0.5, 0.1, 1)]
    _, least = least_sum_of_radii(FiniteLIL(), terms, 0.025)
    full = float(FiniteLIL().radius(1, 0.025, 1.5))
    assert least < full
    assert box(policy) == pytest.approx(((1.0 + 9.0 - 3.0) / 2, least))


@pytest.mark.parametrize("variant", ["partial", "proven"])
def test_pieces_are_one_random_walk(variant):
    problem, policy = race(variant, "incremental", bound=NormalMixture())
    enact(policy, problem, [(0, [1.0, 2.0], None), (0, [7.0], 6.0)])
    # Four pieces of the finished pull, two of the other: a mean of 4 * 9 / 6.
    radius = float(NormalMixture().radius(6, 0.025, 1.5 * 2.0))
    assert box(policy) == pytest.approx((6.0, radius))


def proven_radius(walk, terms, share=0.9, bound=None):
    bound = bound or NormalMixture()
    width = float(bound.radius(walk, share * 0.025, 1.5))
    for level, number in terms:
        width += float(bound.radius(number, level * 0.025, 0.1)) / walk
    return width


def test_the_proven_race_walks_over_outcomes_and_the_designated_pull():
    problem, policy = race("proven")
    seen = [(0, [], 1.0), (0, [2.0, 4.0], None), (0, [9.0] * 5, None)]
    enact(policy, problem, seen)
    # The oldest pull with a reading, not the one with the most readings; it is its arm's second.
    width = proven_radius(2, [(0.1 / 6, 2)])
    assert width < proven_radius(1, [])
    assert box(policy) == pytest.approx(((1.0 + 3.0) / 2, width))


def test_outcomes_alone_do_not_count_while_one_came_behind_the_designated_pull():
    problem = Problem(2, noise_std=1.5, feedback="unbiased", reading_std=50.0)
    policy = Racing(problem)
    enact(policy, problem, [(0, [40.0], None), (0, [], 1.0)])
    # The outcome comes after the first pull in the walk, so no prefix consists of it alone,
    # although its radius would be far smaller.
    bound = NormalMixture()
    walk = float(bound.radius(2, 0.9 * 0.025, 1.5))
    report = float(bound.radius(1, 0.1 / 2 * 0.025, 50.0)) / 2
    assert box(policy) == pytest.approx((20.5, walk + report))
    policy.tell(policy.in_flight(0), 3.0)
    assert box(policy) == pytest.approx((2.0, walk))


def test_a_designated_pull_that_is_lost_keeps_its_place():
    problem, policy = race("proven")
    enact(policy, problem, [(0, [2.0], None), (0, [], 6.0), (0, [4.0, 4.0], None)])
    policy.fail(policy.in_flight(0))
    # The lost pull, the outcome, and the next designated one: both of the first two terms stay.
    terms = [(0.1 / 2, 1), (0.1 / 12, 2)]
    assert box(policy) == pytest.approx(((2.0 + 6.0 + 4.0) / 3, proven_radius(3, terms)))
    policy.tell(policy.in_flight(0), 3.0)
    assert box(policy) == pytest.approx(((3.0 + 6.0 + 4.0) / 3, proven_radius(3, [(0.1 / 12, 2)])))


def test_the_proven_race_charges_the_bias():
    problem, policy = race("proven", "biased")
    enact(policy, problem, [(0, [3.0, 5.0], 1.0), (0, [9.0], None)])
    terms = [(0.05 / 6, 1), (0.05, 1)]
    assert box(policy) == pytest.approx(((1.0 + 9.0 - 3.0) / 2, proven_radius(2, terms)))


def test_the_proven_race_takes_the_bias_from_all_readings_alike():
    problem, policy = race("proven", "biased")
    enact(policy, problem, [(0, [3.0, 5.0], 1.0), (0, [9.0], 2.0), (0, [6.0], None)])
    bias = ((3.0 - 1.0) + (5.0 - 1.0) + (9.0 - 2.0)) / 3
    terms = [(0.05 / 12, 1), (0.05, 2)]
    assert box(policy) == pytest.approx(((1.0 + 2.0 + 6.0 - bias) / 3, proven_radius(3, terms)))


def test_every_forecast_in_the_walk_pays_for_the_bias():
    problem, policy = race("proven", "biased")
    enact(policy, problem, [(0, [3.0, 5.0], 1.0), (0, [9.0], None)])
    policy.fail(policy.in_flight(1), "lost")
    enact(policy, problem, [(0, [7.0, 7.0], None)])
    # Two of the three in the walk are known by their readings, each off by the bias, about 3.
    terms = [(0.05 / 6, 1), (0.05 / 12, 2), (0.05, 1), (0.05, 1)]
    mean = (1.0 + (9.0 - 3.0) + (7.0 - 3.0)) / 3
    assert box(policy) == pytest.approx((mean, proven_radius(3, terms)))


def test_outcomes_alone_do_not_count_once_a_designated_pull_is_lost():
    problem = Problem(2, noise_std=1.5, feedback="unbiased", reading_std=50.0)
    policy = Racing(problem)
    enact(policy, problem, [(0, [40.0], None)])
    policy.fail(policy.in_flight(0), "lost")
    enact(policy, problem, [(0, [], 1.0)])
    bound = NormalMixture()
    report = float(bound.radius(1, 0.1 / 2 * 0.025, 50.0)) / 2
    assert box(policy) == pytest.approx((20.5, float(bound.radius(2, 0.9 * 0.025, 1.5)) + report))


def test_a_lost_pull_that_was_never_designated_leaves_no_trace():
    problem, policy = race("proven")
    enact(policy, problem, [(0, [2.0], None), (0, [9.0], None)])
    policy.fail(policy.in_flight(1), "lost")
    assert box(policy) == pytest.approx((2.0, proven_radius(1, [(0.1 / 2, 1)])))


def test_nothing_is_designated_before_a_bias_is_known():
    problem, policy = race("proven", "biased")
    enact(policy, problem, [(0, [9.0], None), (0, [], 1.0)])
    assert box(policy) == pytest.approx((1.0, proven_radius(1, [])))


def test_a_designated_pull_stays_so_until_it_ends():
    problem, policy = race("proven")
    enact(policy, problem, [(0, [], None), (0, [2.0], None)])
    policy.report(policy.in_flight(0), 7.0, stage=1)
    # The older pull has a reading now, but it was read second.
    assert box(policy) == pytest.approx((2.0, proven_radius(1, [(0.1 / 6, 1)])))


@pytest.mark.parametrize("variant", ["partial", "proven"])
def test_a_corrected_outcome_also_corrects_the_bias(variant):
    boxes = []
    for first in (1.0, 2.5):
        problem, policy = race(variant, "biased")
        enact(policy, problem, [(0, [3.0, 5.0], first), (0, [9.0], None)])
        if first != 1.0:
            policy.amend(policy._pull(0, 0, 0), first, 1.0)
        boxes.append(box(policy))
    assert boxes[0] == pytest.approx(boxes[1])


def test_a_pull_may_have_more_readings_than_there_are_pulls():
    problem, policy = race("proven")
    enact(policy, problem, [(0, [1.0] * 600, None)])
    assert box(policy) == pytest.approx((1.0, proven_radius(1, [(0.1 / 2, 600)])))
    environment = SimulatedEnvironment(problem, [0.0, 0.0], delay=600.0)
    runs = []
    for compiled in (True, False):
        own = Racing(problem)
        if compiled:
            own.compiled_run(environment, np.random.default_rng(0), 2)
        else:
            run_policy(own, environment, np.random.default_rng(0), 2)
        runs.append(arms_of(own))
    assert np.array_equal(*runs)


def test_a_bound_that_is_not_proven_proves_nothing():
    class Guess(NormalMixture):
        proven = False

    assert Racing(Problem(2, noise_std=1.0)).guarantee.proven
    assert not Racing(Problem(2, noise_std=1.0), bound=Guess()).guarantee.proven


def test_without_a_finite_radius_the_box_stays():
    problem, policy = race("proven")
    enact(policy, problem, [(0, [], None)])
    assert column(policy, "upper")[0] == math.inf
    assert policy.progress().actions[0].mean is None


def test_a_running_intersection_only_shrinks():
    problem, policy = race("full", running_intersection=True)
    enact(policy, problem, [(0, [], 0.0)])
    first = box(policy)[1]
    enact(policy, problem, [(0, [], 9.0)])
    assert column(policy, "upper")[0] == pytest.approx(first)
    assert column(policy, "lower")[0] > -first
