import math

import numpy as np
import pytest
from scipy.stats import chisquare

from fairtrial.causal import (
    CausalModel,
    ModelError,
    NetworkEnvironment,
    ReplayEnvironment,
    chain,
)
from fairtrial.causal._cell_model import cell_model_of
from fairtrial.errors import InvalidArgument, InvalidOutcome
from tests.causal.slow import assignments, diamond, joint, means_by_value, tiny, with_value
from tests.causal.test_estimation import gaussian_environment
from tests.messages import raises


def test_the_textbook_chain_has_the_reference_truth():
    truth = tiny()[1].truth
    assert truth.means == pytest.approx([0.308, 0.548, 0.42])
    assert truth.gaps[("s", "s'")] == pytest.approx([-0.08, -0.08, 0.4])
    assert truth.best == "k1"
    assert truth.accepts("k1")
    assert not truth.accepts(None)
    assert tiny(fairness_bound=0.05)[1].truth.best is None


@pytest.mark.parametrize("attributes", [1, 2])
@pytest.mark.parametrize("carrier", [False, True])
def test_means_and_gaps_equal_those_of_the_full_joint_distribution(attributes, carrier):
    problem = diamond(2, arms=2, intervened_is_carrier=carrier, attributes=attributes)
    truth = NetworkEnvironment(problem).truth
    slow = means_by_value(problem)
    assert truth.means_by_value == pytest.approx(slow, rel=1e-12)
    place = {label: position for position, label in enumerate(problem.values)}
    for (a, b), gap in truth.gaps.items():
        assert gap == pytest.approx(slow[:, place[a]] - slow[:, place[b]])
        assert gap == pytest.approx(-truth.gaps[(b, a)])


@pytest.mark.statistical
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_rows_have_the_networks_distribution(mode):
    problem = diamond(7, intervened_is_carrier=True)
    environment = NetworkEnvironment(problem)
    n = 20_000
    rows = environment.batch(np.full(n, 3 + mode), np.random.default_rng(mode))
    nodes = ["S", "A", "X", "V"]
    expected = np.zeros((2, cell_model_of(problem).n_cells))
    for row in assignments(problem, nodes):
        p = joint(problem, "arm1", row)
        if mode:
            if row["S"] != mode - 1:
                continue
            p /= problem.model.tables["S"][mode - 1]
        cell = np.ravel_multi_index(
            [row[m] for m in problem.cell_nodes], cell_model_of(problem).shape
        )
        expected[row["S"], cell] += p
    counts = np.zeros_like(expected)
    np.add.at(counts, (rows.value, rows.cells), 1)
    possible = expected > 0
    assert counts[~possible].sum() == 0
    # By chance, one sample in a thousand has a smaller p-value.
    assert chisquare(counts[possible], n * expected[possible]).pvalue > 1e-3
    mean = (
        environment.truth.means[1] if mode == 0 else environment.truth.means_by_value[1, mode - 1]
    )
    assert abs(rows.outcome.mean() - mean) < 4 * rows.outcome.std() / math.sqrt(n)


def test_cell_moments_are_those_of_the_outcome_in_each_cell():
    problem = diamond(8)
    first, second = NetworkEnvironment(problem).cell_moments()
    numbers = list(problem.outcome_values.values())
    total = np.zeros((3, cell_model_of(problem).n_cells))
    for row in assignments(problem, problem.model.nodes):
        p = joint(problem, "arm0", row)
        cell = np.ravel_multi_index(
            [row[m] for m in problem.cell_nodes], cell_model_of(problem).shape
        )
        y = numbers[row["Y"]]
        total[:, cell] += p * np.array([1, y, y * y])
    for value in (0, 1):
        assert first[value] == pytest.approx(total[1] / total[0])
        assert second[value] == pytest.approx(total[2] / total[0])


def test_the_common_part_of_the_cells_is_that_of_the_joint_distribution():
    problem = diamond(9, intervened_is_carrier=True)
    cell_model = cell_model_of(problem)
    found = cell_model.g[2, 1] * cell_model.h[1]
    slow = np.zeros(cell_model.n_cells)
    for row in assignments(problem, ["A", "X", "V"]):
        full = with_value(problem, row, 1)
        cell = np.ravel_multi_index([row[m] for m in problem.cell_nodes], cell_model.shape)
        slow[cell] += joint(problem, "arm2", full) / problem.model.tables["S"][1]
    assert found == pytest.approx(slow)


def test_an_environment_may_know_more_than_the_problem():
    problem, environment = tiny()
    bare = problem.clone(model=problem.model.clone(tables={"S": [0.4, 0.6]}))
    with raises(ModelError, "distribution of Y"):
        NetworkEnvironment(bare)
    other = NetworkEnvironment(bare, problem.model)
    assert other.truth.means == pytest.approx(environment.truth.means)


def test_a_network_of_another_shape_is_refused():
    problem, _ = tiny()
    with raises(ModelError, "network"):
        NetworkEnvironment(problem, CausalModel([("S", "V"), ("V", "Y")], dict.fromkeys("SVY", 2)))
    states = {"S": ["s", "s'"], "V": 3, "Y": 2}
    with raises(ModelError, "network"):
        NetworkEnvironment(problem, CausalModel([("V", "Y")], states))


def test_densities_have_no_batches():
    assert not gaussian_environment()[1].answers_in_batches


# ----------------------------------------------------------------------------- replay


def log_of(size=600, seed=0):
    problem, environment = tiny()
    actions = np.tile(np.arange(9), size // 9)
    return problem, environment.table(actions, np.random.default_rng(seed))


def test_a_replays_truth_is_that_of_its_rows():
    problem, log = log_of()
    truth = ReplayEnvironment(problem, log).truth
    rows = list(zip(log["arm"], log["s_mode"], log["S"], log["Y"], strict=True))
    for k, arm in enumerate(problem.arm_labels):
        natural = [y for a, mode, _, y in rows if a == arm and mode == "natural"]
        assert truth.means[k] == pytest.approx(np.mean(natural))
        at = {v: np.mean([y for a, _, s, y in rows if a == arm and s == v]) for v in ("s", "s'")}
        assert truth.gaps[("s", "s'")][k] == pytest.approx(at["s"] - at["s'"])


@pytest.mark.statistical
def test_a_replay_draws_rows_of_the_action():
    problem, log = log_of()
    environment = ReplayEnvironment(problem, log)
    n = 4000
    for action in (3, 4):
        rows = environment.batch(np.full(n, action), np.random.default_rng(action))
        value = action - 4
        mean = (
            environment.truth.means[1] if value < 0 else environment.truth.means_by_value[1, value]
        )
        assert abs(rows.outcome.mean() - mean) < 4 * rows.outcome.std() / math.sqrt(n)
        assert value < 0 or (rows.value == value).all()


def test_a_replay_in_batches_equals_one_row_after_another():
    problem, log = log_of()
    environment = ReplayEnvironment(problem, log)
    actions = np.random.default_rng(1).integers(0, 9, 50)
    rows = environment.batch(actions, np.random.default_rng(2))
    generator = np.random.default_rng(2)
    for place, action in enumerate(actions):
        pull = problem.pull(**problem.labels(int(action)))
        value, cell, outcome = cell_model_of(problem).encode(
            problem.check_outcome(environment.sample(pull, generator))
        )
        assert (value, cell, outcome) == (rows.value[place], rows.cells[place], rows.outcome[place])


def test_an_action_without_rows_is_refused_unless_it_is_forbidden():
    problem, log = log_of()
    keep = [k for k, arm in enumerate(log["arm"]) if arm != "k2"]
    less = {name: [column[k] for k in keep] for name, column in log.items()}
    with raises(InvalidArgument, "table"):
        ReplayEnvironment(problem, less)
    allowed = problem.clone(costs=[0, 0, math.inf])
    assert math.isnan(ReplayEnvironment(allowed, less).truth.means[2])


def test_a_bad_row_is_named():
    problem, log = log_of()
    log["Y"][5] = 3
    with raises(InvalidOutcome, "row 5: Y"):
        ReplayEnvironment(problem, log)


def test_a_state_of_probability_zero_never_comes():
    # In floating point, ten tenths sum to less than one; the eleventh state is impossible.
    _, environment = chain(0.5, {"a": [[0.1] * 10 + [0.0]] * 2}, np.full(11, 0.5), 0.9)

    class Highest:
        """Draws the largest uniform number, which rounding could move beyond the last border."""

        def random(self, size):
            return np.full(size, np.nextafter(1.0, 0.0))

    assert environment._sampler.draw(np.array([0]), np.array([0]), Highest())["V"].tolist() == [9]


@pytest.mark.parametrize("actions", [[99], [-1], [0.5], "all", 0], ids=str)
def test_a_log_of_actions_that_do_not_exist_is_refused(actions):
    environment = tiny()[1]
    with raises(InvalidArgument, "actions", given=actions):
        environment.table(actions, np.random.default_rng(0))
