"""Which tests an arm must pass in the usual trials, compared with trials of single patients."""

import numpy as np
import pytest
from scipy import stats

from fairtrial.confidence.group_sequential import GroupSequential
from fairtrial.confidence.intersection_union import simulate, size
from fairtrial.subpopulations import (
    OVERALL,
    BernoulliEnvironment,
    GaussianEnvironment,
    Problem,
)
from fairtrial.subpopulations.contrasts import contrasts
from tests.effort import runs

RUNS = runs(20_000, whole=100_000)
DELTA = 0.05


def tolerance(probability, number):
    """Return four standard errors of a share of that many runs."""
    return 4.0 * np.sqrt(probability * (1.0 - probability) / number)


# A trial with three doses and a placebo, in two strata. Every dose must heal more than the placebo
# does, may harm at most 30 % of each stratum, and at most 15 % more than the placebo overall.
STRATA = {"outpatient": 0.6, "inpatient": 0.4}
TRIAL = Problem(
    ["low", "placebo", "medium", "high"],
    STRATA,
    measures={"healed": (0, 1), "toxic": (0, 1)},
    objective="healed",
    direction={"toxic": "minimize"},
    control="placebo",
    ceilings={"toxic": 0.30},
    margin={("toxic", OVERALL): 0.15},
)
HEALED = [[0.45, 0.35], [0.40, 0.30], [0.65, 0.55], [0.70, 0.65]]
TOXIC = [[0.05, 0.05], [0.05, 0.05], [0.10, 0.12], [0.40, 0.45]]


def trial(healed=HEALED, toxic=TOXIC, **more):
    return BernoulliEnvironment(TRIAL, {"healed": healed, "toxic": toxic}, **more)


def by_hand(environment, design, each, number, seed, doses=(0, 2, 3)):
    """Return by trial whether each dose is shown to be better and to keep every limit.

    The outcomes of patients are counted; the tests are written out, and nothing is taken from the
    problem. The variances are the true ones, as the design assumes.
    """
    generator = np.random.default_rng(seed)
    means = environment.cell_means
    assert environment.correlation is None
    stage = np.round(np.array([0.6, 0.4]) * each / design.looks).astype(int)
    counted = np.zeros((number, 4, 2, 2))
    patients = np.zeros(2)
    critical, ended = design.critical_values, np.zeros(number, bool)
    claimed = np.zeros((number, 4), bool)
    for look in range(design.looks):
        counted += generator.binomial(stage[:, np.newaxis], means, (number, 4, 2, 2))
        patients += stage
        seen = counted / patients[:, np.newaxis]
        variances = means * (1 - means) / patients[:, np.newaxis]
        overall = 0.6 * seen[:, :, 0] + 0.4 * seen[:, :, 1]
        errors = 0.36 * variances[:, 0] + 0.16 * variances[:, 1]
        passed = np.zeros((number, 4), bool)
        for dose in doses:
            both = np.sqrt(errors[dose] + errors[1])
            more = overall[:, dose] - overall[:, 1]
            passed[:, dose] = more[:, 0] / both[0] > critical[look]
            passed[:, dose] &= (0.15 - more[:, 1]) / both[1] > critical[look]
            for stratum in (0, 1):
                within = 0.30 - seen[:, dose, stratum, 1]
                error = np.sqrt(variances[dose, stratum, 1])
                passed[:, dose] &= within > critical[look] * error
        claimed = np.where(ended[:, np.newaxis], claimed, passed)
        ended |= passed.any(axis=1)
    return claimed[:, [0, 2, 3]]


@pytest.mark.statistical
@pytest.mark.parametrize(("looks", "shape"), [(1, "pocock"), (5, "pocock"), (5, "obrien-fleming")])
def test_a_trial_with_three_doses_has_the_power_that_its_size_is_for(looks, shape):
    environment = trial()
    design = GroupSequential(3, DELTA, shape, looks)
    planned = contrasts(environment, "placebo")
    assert planned.arms == ("low", "medium", "high")
    most = size(design, planned, 1, 0.9, RUNS, seed=1)
    claimed = by_hand(environment, design, most / 4, RUNS, seed=2)
    fast = simulate(design, planned, most, RUNS, seed=3)
    # Counts of patients are not normal: the approximation is wrong by up to one percent here.
    near = 0.01 + 2 * tolerance(0.5, RUNS)
    assert claimed.mean(axis=0) == pytest.approx(fast.claimed.mean(axis=0), abs=near)
    # The power is that of the dose if no other one ends the trial before.
    alone = by_hand(environment, design, most / 4, RUNS, seed=2, doses=[2])[:, 1].mean()
    assert alone == pytest.approx(0.9, abs=0.01 + 2 * tolerance(0.9, RUNS))
    assert claimed[:, 2].mean() < 0.001


LEAST_FAVOURABLE = {
    "much better, exactly at the limit of one stratum": (
        [HEALED[1], HEALED[1], [0.95, 0.95], HEALED[1]],
        [[0.0, 0.0], [0.20, 0.28], [0.0, 0.30], [0.0, 0.0]],
    ),
    "much better, exactly at the margin to the placebo": (
        [HEALED[1], HEALED[1], [0.95, 0.95], HEALED[1]],
        [[0.0, 0.0], [0.02, 0.02], [0.17, 0.17], [0.0, 0.0]],
    ),
    "equal to the placebo, far inside its limits": (
        [HEALED[1]] * 4,
        [[0.0, 0.0], [0.05, 0.05], [0.0, 0.0], [0.0, 0.0]],
    ),
}


@pytest.mark.statistical
@pytest.mark.parametrize("looks", [1, 5])
@pytest.mark.parametrize("name", LEAST_FAVOURABLE)
def test_the_error_of_a_dose_is_its_part_of_delta_at_the_hardest_means(name, looks):
    environment = trial(*LEAST_FAVOURABLE[name])
    design = GroupSequential(3, DELTA, "pocock", looks)
    found = simulate(design, contrasts(environment, "placebo"), looks * 4 * 300, RUNS, seed=4)
    level = DELTA / 3
    rate = found.claimed[:, 1].mean()
    assert rate < level + tolerance(level, RUNS)
    # A fixed size is exact; with looks another dose may end the trial before.
    least = level if looks == 1 else 0.7 * level
    assert rate > least - tolerance(level, RUNS)
    assert (found.named >= 0).mean() < DELTA + tolerance(DELTA, RUNS)
    # Single patients: each of the 20,000 trials has its own.
    slow = by_hand(environment, design, looks * 300, RUNS, seed=5)[:, 1].mean()
    assert slow == pytest.approx(rate, abs=0.004 + tolerance(level, RUNS))


# ------------------------------------------------------------------------ which tests


def required_of(problem, means, arm, control=None, **more):
    """Return the distances that the tests of an arm are about, and their spreads."""
    environment = GaussianEnvironment(problem, means, **more)
    found = contrasts(environment, control)
    place = found.arms.index(arm)
    return found.effects(place) - found.tests[place].bounds, found.spreads(place), found


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_floors_ceilings_and_limits_against_the_control_are_tested(sign):
    problem = Problem(
        ["a", "now"],
        {"x": 0.25, "y": 0.75},
        floors={"x": sign * 0.1, "y": None},
        ceilings={"x": None, "y": sign * 2.0},
        control="now",
        margin={"x": 0.5, "y": None},
        superiority=0.2,
        noise_std=1.0,
        direction="maximize" if sign > 0 else "minimize",
    )
    means = sign * np.array([[1.0, 1.5], [0.4, 0.5]])
    stds = np.array([[1.0, 2.0], [3.0, 4.0]])
    distances, spreads, found = required_of(problem, means, "a", "now", std=stds)
    # The superiority replaces the test that the difference is larger than 0.
    length = 0.75
    better = (0.25 * 0.6 + 0.75 * 1.0 - 0.2) / length
    assert distances == pytest.approx([better, 0.9, 1.1, 0.5])
    overall = np.sqrt(0.25 * (1 + 9) + 0.75 * (4 + 16)) / length
    assert spreads == pytest.approx([overall, 2.0, np.sqrt(40.0), 2.0 / np.sqrt(0.75)])
    assert found.has_limits
    assert not found.without_limits().has_limits
    assert found.without_limits().effects(0) == pytest.approx([better + 0.2 / length])


def test_limits_that_no_mean_can_miss_are_not_tested():
    problem = Problem(["a", "now"], 2, control="now", margin=1.0, floors=0.0, reward_range=(0, 1))
    found = contrasts(BernoulliEnvironment(problem, [[0.5, 0.5], [0.4, 0.4]]), "now")
    assert not found.has_limits
    lower = problem.clone(direction="minimize", floors=1.0, ceilings=0.2)
    found = contrasts(BernoulliEnvironment(lower, [[0.5, 0.5], [0.6, 0.6]]), "now")
    assert found.tests[0].bounds.tolist() == [0.0, 0.2, 0.2]


def test_groups_arrive_in_their_own_proportions():
    problem = Problem(["a", "now"], {"x": 0.5, "y": 0.5}, control="now", floors=-1, noise_std=1.0)
    _, spreads, _ = required_of(problem, [[1, 1], [0, 0]], "a", "now", arrivals=[0.9, 0.1])
    overall = np.sqrt(2 * (1 / 0.9 + 1 / 0.1))
    assert spreads == pytest.approx([overall, np.sqrt(1 / 0.9), np.sqrt(1 / 0.1)])


def test_an_arm_without_limits_must_only_be_better():
    problem = Problem(
        ["a", "b", "now"],
        ["x"],
        control="now",
        floors={"a": None, "b": 0.3, "now": 5.0},
        noise_std=1.0,
    )
    found = contrasts(GaussianEnvironment(problem, [[1.0], [1.0], [0.0]]), "now")
    assert [own.bounds.tolist() for own in found.tests] == [[0.0], [0.0, 0.3]]


def test_without_a_control_limits_alone_are_tested():
    problem = Problem(["a", "b"], ["x", "y"], floors=0.0, noise_std=1.0)
    distances, _, found = required_of(problem, [[1.0, 2.0], [3.0, 4.0]], "b")
    assert distances.tolist() == [np.inf, 3.0, 4.0]
    assert found.arms == ("a", "b")
    assert not found.has_control


@pytest.mark.statistical
def test_measures_of_a_patient_may_depend_on_each_other():
    """A fixed size of one dose, held against the bivariate normal distribution."""
    problem = Problem(
        ["new", "now"],
        1,
        measures={"gain": (0, 1), "harm": (0, 1)},
        objective="gain",
        control="now",
        ceilings={"harm": 0.3},
    )
    means = {"gain": [[0.5], [0.4]], "harm": [[0.2], [0.2]]}
    design = GroupSequential(1, DELTA, "pocock", 1)
    critical = stats.norm.isf(DELTA)
    shares = {}
    for correlation in (-0.4, 0.4):
        environment = BernoulliEnvironment(problem, means, correlation=correlation)
        found = simulate(design, contrasts(environment, "now"), 400, RUNS, seed=6)
        # The control adds to the noise of the difference, but not to that of the limit.
        between = -correlation * np.sqrt(0.25 / (0.25 + 0.24))
        shifts = np.sqrt(200) * np.array([0.1 / np.sqrt(0.25 + 0.24), 0.1 / np.sqrt(0.16)])
        matrix = [[1.0, between], [between, 1.0]]
        exact = stats.multivariate_normal([0, 0], matrix).cdf(shifts - critical)
        shares[correlation] = found.claimed.mean()
        assert shares[correlation] == pytest.approx(exact, abs=tolerance(exact, RUNS))
    assert shares[-0.4] > shares[0.4]
