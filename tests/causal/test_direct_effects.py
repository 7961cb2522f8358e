"""A sensitive attribute that is a parent of the outcome, with an effect to be learned."""

import itertools
import warnings

import numpy as np
import pytest

from fairtrial import simulate
from fairtrial.causal import (
    BlockBetting,
    CausalModel,
    ConstraintSuccessiveRejection,
    ModelError,
    NetworkEnvironment,
    PlugIn,
    Problem,
    ThinOverlap,
    complexity,
    divergences,
    estimate,
    read,
)
from fairtrial.causal._cell_model import cell_model_of
from fairtrial.causal._functionals import KNOWLEDGE, Functionals
from fairtrial.errors import InvalidOutcome
from tests.causal.betting_instances import direct as instance
from tests.causal.slow import assignments, direct
from tests.causal.slow_betting import Beliefs, Instance, exact_mean, freeze
from tests.effort import runs
from tests.messages import raises

OPTIONS = {
    "forced or not": {},
    "observed only": {"forcing": "never"},
    "minimised": {"direction": "minimize", "outcome_range": (-1.0, 2.0)},
    "two attributes": {"attributes": 2},
    "each of two": {"attributes": 2, "gap_set": "attributes"},
    "small": {"is_small": True},
}


# ----------------------------------------------------------------- by enumerating everything


def likelihood(problem, network, arm, forced, row):
    """Return the probability of one state of every node, with S forced or not."""
    total = 1.0
    for node in network.nodes:
        place = (*(row[parent] for parent in network.parents(node)), row[node])
        if forced is not None and node in problem.attributes:
            total *= row[node] == forced[problem.attributes.index(node)]
        elif node == problem.intervened:
            total *= problem.arms[arm][place]
        else:
            total *= network.tables[node][place]
    return total


def enumerated(problem, network):
    """Return the probability and mean outcome of each cell for every arm and mode.

    The shapes are (K, 1 + values, values, cells), with the natural mode first even if it is not
    available.
    """
    model = cell_model_of(problem)
    modes = [None, *model.combinations]
    shape = (problem.n_arms, len(modes), model.n_values, model.n_cells)
    chance, total = np.zeros(shape), np.zeros(shape)
    for row in assignments(problem.clone(model=network), network.nodes):
        value = model.combinations.index(tuple(row[node] for node in problem.attributes))
        cell = np.ravel_multi_index([row[node] for node in model.nodes], model.shape)
        outcome = problem.scaled(problem.outcome_numbers[row[problem.outcome_node]])
        for (k, arm), (m, mode) in itertools.product(enumerate(problem.arms), enumerate(modes)):
            p = likelihood(problem, network, arm, mode, row)
            chance[k, m, value, cell] += p
            total[k, m, value, cell] += p * outcome
    return chance, total


def parts(problem, network, known):
    """Return the law and mean outcome of every place by enumeration."""
    chance, total = enumerated(problem, network)
    means = total.sum(axis=(0, 1)) / chance.sum(axis=(0, 1))
    each = np.where(chance > 0.0, total / np.where(chance > 0.0, chance, 1.0), means)
    # Given S and the cell, neither the arm nor the way in which S was set matters.
    assert np.abs(each - means).max() < 1e-12
    place = known.place_of
    assert place.shape == means.shape
    mean = np.array([means[place == one].mean() for one in range(known.n_places)])
    assert np.abs(means - mean[place]).max() < 1e-12
    offered = chance if len(problem.modes) > 1 else chance[:, :1]
    falls = np.zeros((problem.n_actions, known.n_places))
    np.add.at(falls.T, place.ravel(), offered.reshape(problem.n_actions, -1).T)
    law = falls.sum(axis=0) / known.actions.sum(axis=0)
    assert falls == pytest.approx(known.actions * law)
    return law, mean


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("knowledge", KNOWLEDGE)
def test_means_and_gaps_add_up_to_those_of_the_whole_network(name, knowledge):
    problem, network = direct(7, **OPTIONS[name])
    known = Functionals(problem, knowledge)
    law, mean = parts(problem, network, known)
    if knowledge == "cells":
        assert law == pytest.approx(np.ones(known.n_places))
    truth = NetworkEnvironment(problem, network).truth
    assert known.means @ (law * mean) == pytest.approx(problem.scaled(truth.means))
    gaps = np.column_stack([truth.gaps[pair] for pair in problem.pairs]) / problem.width
    sign = 1.0 if problem.direction == "maximize" else -1.0
    assert known.gaps @ (law * mean) == pytest.approx(sign * gaps)
    assert known.basis @ law == pytest.approx(known.totals)


@pytest.mark.parametrize("name", OPTIONS)
def test_forced_means_are_those_of_the_gaps(name):
    """By hand: the mean under each value equals that of rows in which the value is forced."""
    problem, network = direct(8, **OPTIONS[name])
    truth = NetworkEnvironment(problem, network).truth
    total = enumerated(problem, network)[1].sum(axis=(2, 3))
    assert problem.scaled(truth.means) == pytest.approx(total[:, 0])
    if not problem.by_attribute:
        for a, b in problem.pairs:
            one, other = (1 + problem.values.index(value) for value in (a, b))
            sign = 1.0 if problem.direction == "maximize" else -1.0
            found = sign * truth.gaps[a, b] / problem.width
            assert found == pytest.approx(total[:, one] - total[:, other])


@pytest.mark.parametrize("knowledge", KNOWLEDGE)
def test_no_block_pays_more_than_it_takes_on_average(knowledge):
    generator = np.random.default_rng(12)
    for seed in range(runs(8, whole=60)):
        problem, network = direct(seed, is_small=True)
        known = Functionals(problem, knowledge)
        law, means = parts(problem, network, known)
        zero = np.zeros(known.n_places, dtype=np.int64)
        instance = Instance(
            knowledge,
            known.actions,
            known.means,
            known.gaps,
            known.classes,
            known.strata,
            zero,
            np.ones(1),
            known.basis,
            known.totals,
            problem.bound,
        )
        size = runs(3, whole=4)
        actions = problem.n_actions
        counts = generator.multinomial(size, np.ones(actions) / actions).astype(float)
        s, nu = generator.exponential(size=2)
        functional = s * (known.means[0] - known.means[1]) + nu * known.gaps[1, seed % 2]
        if (functional[counts @ known.actions == 0.0] != 0.0).any():
            continue
        believed = np.ones(known.n_places)
        if knowledge == "ratios":
            believed = 0.1 + generator.random(known.n_places)
        beliefs = Beliefs(
            generator.random(known.n_places),
            0.01 + 0.24 * generator.random(known.n_places),
            np.full(known.n_places, 5.0),
            believed,
            0.5,
            counts @ known.actions + 1.0,
        )
        null = float(functional @ (law * means))
        bet = freeze(instance, functional, null, counts, beliefs, 0.05 + generator.random())
        assert exact_mean(bet, instance, counts, law, means) <= 1.0 + 1e-10


# ------------------------------------------------------------------------------- the policy


def test_it_is_the_default_and_says_what_has_to_be_right():
    problem, environment = instance()
    assert problem.default_policy == "BlockBetting"
    assert problem.carriers == ("V",)
    assert problem.columns == ("S", "V", "Y")
    policy = BlockBetting(problem, delta=0.05, seed=0)
    assert policy.guarantee.proven
    wanted = "the graph is right: given V and S the mean outcome does not depend on the arm"
    assert wanted in policy.guarantee.assumptions
    assert "the distributions of V and of S are right" in policy.guarantee.assumptions
    policy.compiled_run(environment, np.random.default_rng(0), 20_000)
    assert policy.recommend().arm == environment.truth.best == "k1"


@pytest.mark.parametrize("knowledge", KNOWLEDGE)
def test_whole_runs_decide_as_single_calls(knowledge):
    problem, environment = instance()
    found = [
        simulate(
            BlockBetting(problem, knowledge=knowledge),
            environment,
            runs(1, whole=2),
            seed=3,
            horizon=runs(300, whole=100_000),
            engine=engine,
        ).stopping_time.tolist()
        for engine in ("auto", "python")
    ]
    assert found[0] == found[1]


def test_outcomes_between_the_ends_of_the_range_are_taken():
    problem, _ = instance()
    policy = BlockBetting(problem, seed=0)
    pull = policy.ask()
    value = pull.labels["sensitive"]
    row = {"S": "s" if value == "natural" else value, "V": 0, "Y": 0.25}
    with raises(InvalidOutcome, "outcome: Y"):
        policy.tell(pull, {**row, "Y": 1.5})
    policy.tell(pull, row)
    assert policy.told == 1


def test_saved_at_any_moment_it_decides_as_one_that_was_not():
    problem, environment = instance()
    policies = [BlockBetting(problem, delta=0.2, seed=5) for _ in range(2)]
    generator = np.random.default_rng(2)
    for _ in range(120):
        pull = policies[0].ask()
        assert pull == policies[1].ask()
        row = environment.sample(pull, generator)
        for policy in policies:
            policy.tell(pull, row)
        state = policies[1].get_state()
        policies[1] = BlockBetting(Problem.from_dict(problem.to_dict()), delta=0.2, seed=5)
        policies[1].set_state(state)
    assert policies[0].progress().details == policies[1].progress().details


def test_a_log_is_read():
    problem, environment = instance()
    actions = np.tile(np.arange(problem.n_actions), 400)
    log = environment.table(actions, np.random.default_rng(4))
    found = read(problem, log, delta=0.1)
    assert found.recommend().arm == "k1"
    assert found.guarantee.proven
    assert not found.contradictions


def test_the_bound_of_any_rule_is_below_what_it_takes():
    problem, environment = instance()
    bound = complexity(environment).lower_bound(0.1)
    rows = simulate(
        BlockBetting(problem, delta=0.1), environment, runs(4, whole=8), seed=1
    ).stopping_time.mean()
    assert 0.0 < bound < rows < 6.0 * bound


# --------------------------------------------------------------------------------- refusals


def with_table():
    problem, environment = instance()
    return problem.clone(model=environment.network)


@pytest.mark.parametrize(
    "use",
    [
        lambda problem, _: PlugIn(problem, 500),
        lambda problem, _: ConstraintSuccessiveRejection(problem, 500),
        lambda problem, _: divergences(problem),
        lambda problem, log: estimate(problem, log),
    ],
)
def test_rules_that_weigh_by_the_outcome_want_its_table(use):
    problem, environment = instance()
    log = environment.table([0] * 30, np.random.default_rng(0))
    with raises(ModelError, "table of Y"):
        use(problem, log)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ThinOverlap)
        use(with_table(), log)


def test_with_the_outcomes_table_it_is_said_that_it_must_go():
    problem = with_table()
    assert problem.default_policy == "PlugIn"
    with raises(ModelError, "problem"):
        BlockBetting(problem)
    with raises(ModelError, "problem"):
        complexity(NetworkEnvironment(problem))


def test_an_attribute_with_parents_is_refused_with_what_to_do():
    edges = [("R", "S"), ("S", "V"), ("S", "Y"), ("V", "Y")]
    tables = {"R": [0.5, 0.5], "S": [[0.5, 0.5], [0.2, 0.8]]}
    states = {"R": 2, "S": 2, "V": 2, "Y": ["0", "1"]}
    arms = {"a": [[0.5, 0.5], [0.1, 0.9]]}
    with raises(ModelError, "table of Y"):
        Problem(CausalModel(edges, states, tables), "S", "V", "Y", arms, 0.1, forcing="never")
    tables["Y"] = [[[0.5, 0.5], [0.2, 0.8]], [[0.6, 0.4], [0.3, 0.7]]]
    problem = Problem(CausalModel(edges, states, tables), "S", "V", "Y", arms, 0.1, forcing="never")
    with raises(ModelError, "problem"):
        BlockBetting(problem)
    assert problem.default_policy == "PlugIn"


def test_a_covariate_that_the_attribute_changes_is_no_covariate():
    """X, a child of S, only leads to V: it carries the attribute, so its table is needed."""
    edges = [("S", "X"), ("X", "V"), ("V", "Y"), ("S", "Y")]
    states = {"S": 2, "X": 2, "V": 2, "Y": ["0", "1"]}
    arms = {"a": [[0.5, 0.5], [0.1, 0.9]]}
    with raises(ModelError, "table of X"):
        Problem(CausalModel(edges, states, {"S": [0.5, 0.5]}), "S", "V", "Y", arms, 0.1)
    model = CausalModel(edges, states, {"S": [0.5, 0.5], "X": [[0.9, 0.1], [0.2, 0.8]]})
    assert BlockBetting(Problem(model, "S", "V", "Y", arms, 0.1)).guarantee.proven
