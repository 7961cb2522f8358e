"""Trials whose arms must pass several tests at once, compared with closed forms and slow trials."""

import itertools

import numpy as np
import pytest
from scipy import optimize, stats

from fairtrial.confidence.group_sequential import GroupSequential, boundaries
from fairtrial.confidence.intersection_union import ArmTests, Contrasts, simulate, size
from tests.effort import runs

RUNS = runs(20_000, whole=100_000)
SHAPES = ["pocock", "obrien-fleming"]


def tolerance(probability, number):
    """Return four standard errors of a share of that many runs."""
    return 4.0 * np.sqrt(probability * (1.0 - probability) / number)


def of_one_mean(differences, variances):
    """Return arms whose only requirement is that their mean is larger than the control's."""
    one = np.ones((1, 1))
    return Contrasts(
        tuple(map(str, range(len(differences)))),
        tuple(ArmTests.together([(one, one, 0.0)]) for _ in differences),
        np.array([0.0, *differences]).reshape(-1, 1, 1),
        np.array(variances, dtype=float).reshape(-1, 1, 1, 1),
        np.ones(1),
    )


def of_two_measures(arms, limit=0.3, correlation=0.0):
    """Return arms that must be better than the control, and harm at most `limit` in two strata.

    `arms` has the mean gain and harm of the control and of every arm. The strata are 60 and 40 % of
    the patients. Both measures have a standard deviation of 1.
    """
    shares = np.array([0.6, 0.4])
    gain = np.stack([shares, np.zeros(2)], axis=1)
    harms = [np.stack([np.zeros(2), -np.eye(2)[stratum]], axis=1) for stratum in (0, 1)]
    rows = [(gain, gain, 0.0), *((harm, 0.0 * harm, -limit) for harm in harms)]
    means = np.broadcast_to(np.array(arms)[:, np.newaxis], (len(arms), 2, 2))
    covariance = np.array([[1.0, correlation], [correlation, 1.0]])
    return Contrasts(
        tuple(map(str, range(1, len(arms)))),
        tuple(ArmTests.together(rows) for _ in arms[1:]),
        means,
        np.broadcast_to(covariance, (len(arms), 2, 2, 2)),
        shares,
    )


def slow_trials(design, arms, each, number, limit=0.3, correlation=0.0, seed=1):
    """Yield by trial its named arm, the claimed arms and the last look, from single patients.

    Nothing is shared with the package but the boundaries, which have tests of their own.
    """
    generator = np.random.default_rng(seed)
    critical = boundaries(design.looks, design.delta / design.arms, design.shape)
    counts = [round(0.6 * each), each - round(0.6 * each)]
    for _ in range(number):
        patients = [
            [
                np.array(own)
                + np.stack(
                    [
                        first := generator.standard_normal(count),
                        correlation * first
                        + np.sqrt(1 - correlation**2) * generator.standard_normal(count),
                    ],
                    axis=1,
                )
                for count in counts
            ]
            for own in arms
        ]
        claimed, look, gains = [], 0, {}
        while not claimed and look < design.looks:
            look += 1
            seen = [
                [group[: len(group) * look // design.looks] for group in arm] for arm in patients
            ]
            gain = [0.6 * x[:, 0].mean() + 0.4 * y[:, 0].mean() for x, y in seen]
            error = np.sqrt(2 * (0.36 / len(seen[0][0]) + 0.16 / len(seen[0][1])))
            for arm in range(1, len(arms)):
                gains[arm - 1] = gain[arm]
                is_better = (gain[arm] - gain[0]) / error > critical[look - 1]
                is_harmless = all(
                    (limit - group[:, 1].mean()) * np.sqrt(len(group)) > critical[look - 1]
                    for group in seen[arm]
                )
                if is_better and is_harmless:
                    claimed.append(arm - 1)
        yield max(claimed, key=gains.get, default=-1), claimed, look


# ------------------------------------------------------------------- one test of an arm


@pytest.mark.statistical
@pytest.mark.parametrize("shape", SHAPES)
def test_simulated_trials_have_the_level_and_the_power_that_were_computed(shape):
    design = GroupSequential(1, 0.05, shape)
    most = design.size(0.3, 2.0, 0.8)
    false = simulate(design, of_one_mean([0.0], [1.0, 1.0]), most, RUNS, seed=1)
    true = simulate(design, of_one_mean([0.3], [1.0, 1.0]), most, RUNS, seed=2)
    assert false.claimed.mean() == pytest.approx(0.05, abs=tolerance(0.05, RUNS))
    # The rounding of the size adds up to half a percent.
    assert true.claimed.mean() == pytest.approx(0.8, abs=tolerance(0.8, RUNS) + 0.005)
    assert true.results.mean() < false.results.mean() <= most
    assert ((true.named == 0) == true.claimed[:, 0]).all()


@pytest.mark.statistical
def test_several_equal_arms_share_the_level():
    design = GroupSequential(3, 0.05, "obrien-fleming")
    found = simulate(design, of_one_mean([0.0] * 3, [1.0] * 4), 400, RUNS, seed=3)
    # Dunnett's correlation of one half makes Bonferroni's level slightly conservative.
    assert 0.038 < (found.named >= 0).mean() < 0.05 + tolerance(0.05, RUNS)


def test_a_single_test_has_the_size_that_was_computed_without_simulation():
    design = GroupSequential(2, 0.05, "pocock")
    contrasts = of_one_mean([0.3, 0.4], [1.0, 2.0, 3.0])
    assert size(design, contrasts, 1, 0.9, runs=1, seed=0) == design.size(0.4, 4.0, 0.9)


def test_of_the_arms_that_pass_the_one_with_the_largest_mean_is_named():
    contrasts = of_one_mean([5.0, 9.0, -1.0], [1.0, 1.0, 100.0, 1.0])
    found = simulate(GroupSequential(3, 0.05, "pocock", 1), contrasts, 4_000, 50, seed=0)
    assert (found.named == 1).all()
    assert (found.claimed == [True, True, False]).all()


def test_of_tests_of_one_sum_the_strictest_counts():
    one, other = np.ones((1, 2)), np.array([[1.0, 0.0]])
    rows = [(one, one, 0.0), (other, 0 * other, 0.3), (4 * one, 4 * one, 2.0), (one, one, -1.0)]
    found = ArmTests.together(rows)
    assert found.bounds.tolist() == [0.5, 0.3]
    assert found.control[1].tolist() == [[0.0, 0.0]]


# --------------------------------------------------------------- several tests of an arm


@pytest.mark.statistical
@pytest.mark.parametrize("correlation", [0.0, 0.6, -0.6])
def test_one_look_has_the_size_of_the_multivariate_normal_distribution(correlation):
    design = GroupSequential(2, 0.05, "pocock", 1)
    arms = [(0.0, 0.0), (0.4, 0.05), (0.0, 0.0)]
    critical = stats.norm.isf(0.025)
    between = -correlation * np.sqrt([0.6 / 2, 0.4 / 2])
    matrix = np.eye(3)
    matrix[0, 1:] = matrix[1:, 0] = between

    def power(each):
        shifts = np.sqrt(each) * np.array([0.4 / np.sqrt(2), *(0.25 * np.sqrt([0.6, 0.4]))])
        return stats.multivariate_normal(np.zeros(3), matrix).cdf(shifts - critical)

    exact = optimize.brentq(lambda each: power(each) - 0.9, 10, 10_000)
    found = size(design, of_two_measures(arms, correlation=correlation), 0, 0.9, RUNS, seed=4)
    assert power(found / 3) == pytest.approx(0.9, abs=tolerance(0.9, RUNS) + 0.001)
    assert found / 3 == pytest.approx(exact, rel=0.04)


ARMS = [(0.0, 0.0), (0.45, 0.0), (0.55, 0.28), (0.1, 0.0)]


@pytest.mark.statistical
@pytest.mark.parametrize("shape", SHAPES)
def test_trials_of_single_patients_have_the_power_that_the_size_is_for(shape):
    design, number = GroupSequential(3, 0.05, shape), runs(4_000, whole=20_000)
    contrasts = of_two_measures(ARMS, correlation=0.3)
    most = size(design, contrasts, 0, 0.9, RUNS, seed=5)
    each = most // 4
    # Alone, the arm is stopped by no other.
    alone = slow_trials(GroupSequential(3, 0.05, shape), ARMS[:2], each, number, correlation=0.3)
    shown = np.mean([claimed == [0] for _, claimed, _ in alone])
    assert shown == pytest.approx(0.9, abs=tolerance(0.9, number) + 0.005)


@pytest.mark.statistical
def test_trials_of_single_patients_name_claim_and_end_as_simulated():
    design, number = GroupSequential(3, 0.2, "pocock", 3), runs(4_000, whole=20_000)
    fast = simulate(design, of_two_measures(ARMS, correlation=0.3), 4 * 300, RUNS, seed=6)
    slow = list(slow_trials(design, ARMS, 300, number, correlation=0.3))
    for arm in (-1, 0, 1, 2):
        share = (fast.named == arm).mean()
        assert np.mean([named == arm for named, *_ in slow]) == pytest.approx(
            share, abs=tolerance(share, number) + tolerance(share, RUNS) + 0.003
        )
    for look in (1, 2, 3):
        share = (fast.results == look * 400).mean()
        assert np.mean([last == look for *_, last in slow]) == pytest.approx(
            share, abs=tolerance(share, number) + tolerance(share, RUNS) + 0.003
        )
    for arm in (0, 1, 2):
        share = fast.claimed[:, arm].mean()
        assert np.mean([arm in claimed for _, claimed, _ in slow]) == pytest.approx(
            share, abs=tolerance(share, number) + tolerance(share, RUNS) + 0.003
        )


def test_all_tests_must_be_passed_at_the_same_look():
    """A trial may pass one test early and another one late, which is not enough."""
    design = GroupSequential(1, 0.1, "pocock")
    contrasts = of_two_measures([(0.0, 0.0), (0.2, 0.1)])
    at_once = simulate(design, contrasts, 500, RUNS, seed=7).claimed.mean()
    critical = design.critical_values[:, np.newaxis]
    roots = np.sqrt(50 * np.arange(1, 6))[:, np.newaxis]
    generator = np.random.default_rng(8)
    sums = generator.standard_normal((RUNS, 5, 3)).cumsum(axis=1)
    scores = sums / np.sqrt(np.arange(1, 6))[:, np.newaxis] + roots * contrasts.signals(0)
    above = scores > critical
    apart, together = above.any(axis=1).all(axis=1).mean(), above.all(axis=2).any(axis=1).mean()
    assert at_once == pytest.approx(together, abs=1.5 * tolerance(together, RUNS))
    assert apart - together > 2 * tolerance(together, RUNS)
    # A size for passing them at different looks would be too small for passing them at once.
    number = 3 * RUNS
    most = size(design, contrasts, 0, 0.6, number, seed=14)
    at_once = simulate(design, contrasts, most, number, seed=15).claimed.mean()
    assert at_once == pytest.approx(0.6, abs=1.5 * tolerance(0.6, number) + 0.003)


# ------------------------------------------------------------------------------ errors


@pytest.mark.statistical
@pytest.mark.parametrize(("looks", "shape"), [(1, "pocock"), (5, "pocock"), (5, "obrien-fleming")])
@pytest.mark.parametrize("arms", [1, 3])
@pytest.mark.parametrize(
    "at",
    [(50.0, 0.3), (0.0, -50.0)],
    ids=["much better, exactly at its limit", "equal to the control, far inside its limits"],
)
def test_the_error_at_the_hardest_means_is_the_level_of_the_arm(looks, shape, arms, at):
    delta = 0.1
    design = GroupSequential(arms, delta, shape, looks)
    # In the first case only one of the two strata is at its limit.
    contrasts = of_two_measures([(0.0, 0.0), *[at] * arms], correlation=0.3)
    means = np.array(contrasts.means)
    means[1:, 1, 1] = -50.0
    contrasts = Contrasts(
        contrasts.arms, contrasts.tests, means, contrasts.covariances, contrasts.shares
    )
    found = simulate(design, contrasts, looks * (arms + 1) * 40, RUNS, seed=9)
    of_an_arm = found.claimed.mean(axis=0)
    level = delta / arms
    # A trial may end with another arm before an arm exceeds its boundary.
    assert (of_an_arm < level + tolerance(level, RUNS)).all()
    if arms == 1:
        assert of_an_arm[0] == pytest.approx(level, abs=tolerance(level, RUNS))
    any_arm = (found.named >= 0).mean()
    assert any_arm < delta + tolerance(delta, RUNS)
    if arms > 1 and at[0] > 0.0:
        # Limits of different arms are tested with different patients.
        independent = 1 - (1 - level) ** arms
        assert any_arm == pytest.approx(independent, abs=tolerance(delta, RUNS))


@pytest.mark.statistical
def test_an_arm_at_all_its_limits_at_once_is_claimed_less_often():
    design = GroupSequential(1, 0.1, "pocock", 1)
    found = simulate(design, of_two_measures([(0.0, 0.0), (0.0, 0.3)]), 400, RUNS, seed=10)
    assert found.claimed.mean() == pytest.approx(0.001, abs=tolerance(0.001, RUNS))


def test_limits_far_away_cost_nothing():
    for shape, looks in itertools.product(SHAPES, (1, 5)):
        design = GroupSequential(2, 0.05, shape, looks)
        arms = [(0.0, 0.0), (0.3, -9.0), (0.1, -9.0)]
        contrasts = of_two_measures(arms)
        found = size(design, contrasts, 0, 0.9, RUNS, seed=11)
        closed = design.size(0.3, 2.0, 0.9)
        # With 20,000 runs the power at a size has an error of 0.2 %, and the size one of 0.8 %.
        assert found == pytest.approx(closed, rel=0.04)
        assert contrasts.has_limits
        assert not contrasts.without_limits().has_limits


def test_the_unit_of_a_measure_does_not_matter():
    design, arms = GroupSequential(1, 0.05, "pocock"), [(0.0, 0.0), (0.3, 0.1)]
    plain = of_two_measures(arms)
    unit = np.array([1e12, 1.0])
    scaled = Contrasts(
        plain.arms,
        plain.tests,
        plain.means * unit,
        plain.covariances * np.outer(unit, unit),
        plain.shares,
    )
    assert size(design, scaled, 0, 0.9, 500, seed=16) == size(design, plain, 0, 0.9, 500, seed=16)


def test_a_limit_that_is_kept_for_certain_needs_no_results():
    design, plain = GroupSequential(1, 0.05, "pocock"), of_two_measures([(0.0, 0.0), (0.3, 0.1)])
    never = np.diag([1.0, 0.0]) * np.ones((2, 2, 1, 1))
    certain = Contrasts(plain.arms, plain.tests, plain.means, never, plain.shares)
    found = size(design, certain, 0, 0.9, RUNS, seed=17)
    assert found == pytest.approx(design.size(0.3, 2.0, 0.9), rel=0.04)


@pytest.mark.parametrize("arm", [(0.0, 0.0), (-0.1, 0.0), (0.3, 0.3), (0.3, 0.4)])
def test_no_size_shows_what_is_not_true(arm):
    contrasts = of_two_measures([(0.0, 0.0), arm])
    assert size(GroupSequential(1, 0.05, "pocock"), contrasts, 0, 0.8, 100, seed=0) is None


def test_no_size_shows_anything_in_a_stratum_that_nobody_comes_from():
    contrasts = of_two_measures([(0.0, 0.0), (0.3, 0.0)])
    empty = Contrasts(
        contrasts.arms, contrasts.tests, contrasts.means, contrasts.covariances, np.array([1.0, 0])
    )
    assert np.isinf(empty.spreads(0)[[0, 2]]).all()
    assert size(GroupSequential(1, 0.05, "pocock"), empty, 0, 0.8, 100, seed=0) is None


# --------------------------------------------------------------------- without a control


def of_limits_alone(gains, harms, limit=0.3):
    """Return arms without a control that must harm at most `limit`, and are ranked by gain."""
    gain, harm = np.array([[1.0, 0.0]]), np.array([[0.0, -1.0]])
    rows = [(gain, 0 * gain, -np.inf), (harm, 0 * harm, -limit)]
    means = np.stack([gains, harms], axis=1)[:, np.newaxis]
    return Contrasts(
        tuple(map(str, range(len(gains)))),
        tuple(ArmTests.together(rows) for _ in gains),
        means,
        np.broadcast_to(np.eye(2), (len(gains), 1, 2, 2)),
        np.ones(1),
    )


@pytest.mark.statistical
def test_without_a_control_the_size_is_for_naming_the_right_arm():
    design = GroupSequential(3, 0.05, "pocock", 1)
    contrasts = of_limits_alone([0.0, 0.3, 0.5], [0.0, 0.0, 0.4])
    most = size(design, contrasts, 1, 0.9, RUNS, seed=12)
    # Slow: arm 1 passes its limit, and has the largest mean of those that pass.
    generator, each = np.random.default_rng(13), most // 3
    gains, harms = generator.standard_normal((2, RUNS, 3)) / np.sqrt(each)
    passed = (0.3 - harms - [0.0, 0.0, 0.4]) * np.sqrt(each) > stats.norm.isf(0.05 / 3)
    named = np.where(passed, gains + np.array([0.0, 0.3, 0.5]), -np.inf).argmax(axis=1)
    share = ((named == 1) & passed.any(axis=1)).mean()
    assert share == pytest.approx(0.9, abs=2 * tolerance(0.9, RUNS) + 0.003)
    fewer = simulate(design, contrasts, most - 30, RUNS, seed=12)
    assert (fewer.named == 1).mean() < 0.9


def test_without_a_control_an_arm_that_is_not_the_best_is_never_named_often_enough():
    contrasts = of_limits_alone([0.5, 0.3], [0.0, 0.0])
    assert size(GroupSequential(2, 0.05, "pocock", 1), contrasts, 1, 0.9, 200, seed=0) is None
