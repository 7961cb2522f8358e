"""The first pulls of every rule: however few are asked for, they measure all that they can."""

import numpy as np
import pytest

from fairtrial.data import direct_arylation
from fairtrial.linear import BlockBetting, Problem
from tests import effort
from tests.testing.families import POLICIES

NAMES = ["base", "ligand", "solvent", "concentration", "temperature"]
LINEAR = [row for row in POLICIES if row.policy.__module__.startswith("fairtrial.linear")]


def ranks(problem, pulls):
    """Return how many directions each first part of the pulls measures."""
    rows = problem.reduced.arms[[pull.action for pull in pulls]]
    return [int(np.linalg.matrix_rank(rows[:number])) for number in range(1, len(pulls) + 1)]


@pytest.fixture(scope="module")
def reactions():
    table = direct_arylation()
    return Problem({name: table[name] for name in NAMES}, noise_std=0.03)


@pytest.mark.parametrize("row", LINEAR, ids=lambda row: row.name)
def test_every_pull_measures_a_new_direction_while_there_is_one(row):
    for seed in range(5):
        policy = row.make()[0].clone(seed=seed)
        rank = policy.problem.reduced.arms.shape[1]
        assert ranks(policy.problem, policy.ask(rank)) == list(range(1, rank + 1))


@pytest.mark.parametrize("interactions", [[], [["ligand", "base"], ["ligand", "solvent"]]])
@pytest.mark.parametrize(
    "options", [{}, {"randomize": "bernoulli"}, {"initial_pulls": 1}, {"randomize": False}], ids=str
)
def test_a_plate_of_the_rank_spans_the_features(reactions, interactions, options):
    problem = reactions.clone(interactions=interactions) if interactions else reactions
    for seed in range(effort.runs(2, whole=10) if not interactions else 1):
        policy = BlockBetting(problem, seed=seed, **options)
        pulls = policy.ask(problem.rank)
        assert ranks(problem, pulls)[-1] == problem.rank
        if options.get("randomize") is not False:
            # Each is drawn with equal probabilities from what is left of a basis.
            left = [round(1.0 / pull.propensity) for pull in pulls]
            assert left == list(range(problem.rank, 0, -1))


def test_results_that_span_the_features_give_a_leader(reactions):
    policy = BlockBetting(reactions, seed=1)
    pulls = policy.ask(reactions.rank)
    for pull in pulls[:-1]:
        policy.tell(pull, 0.5)
    assert policy.recommend().leader is None
    policy.tell(pulls[-1], 0.6)
    assert policy.recommend().leader is not None


def test_a_basis_is_pulled_first_after_results_of_other_arms(reactions):
    policy = BlockBetting(reactions, seed=1)
    for number in range(200):
        policy.tell(reactions.pull(arm=reactions.arms[number % 3]), 0.5)
    pulls = policy.ask(reactions.rank)
    assert ranks(reactions, pulls)[-1] >= reactions.rank - 1
