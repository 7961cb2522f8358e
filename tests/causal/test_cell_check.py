"""The test of whether rows fall into cells as often as the model says."""

import itertools

import numpy as np
import pytest

from fairtrial.causal import BlockBetting, NetworkEnvironment
from fairtrial.causal.policies.cell_check import cells_contradict, log_evidence_against_cells
from tests.causal.betting_instances import REGION_ARMS, region, small
from tests.effort import runs


def test_the_evidence_is_worth_one_at_most_on_average_whatever_chose_the_actions():
    """All paths of five rows, in which the next action depends on the cells so far."""
    probabilities = np.array([[0.1, 0.9], [0.6, 0.4]])
    totals = np.zeros(2)
    for path in itertools.product([0, 1], repeat=5):
        chance, counts, rows = 1.0, np.zeros(2), np.zeros(2)
        for row, cell in enumerate(path):
            action = path[row - 1] if row else 0
            chance *= probabilities[action, cell]
            counts[action] += 1
            rows[cell] += 1
        totals += chance * np.exp(log_evidence_against_cells(counts, rows, probabilities, 0))
    assert (totals <= 1.0 + 1e-12).all()
    assert (totals > 0.4).all()


def test_missing_rows_are_taken_as_they_would_make_up_the_difference():
    probabilities = np.array([[0.2, 0.8]])
    counts, rows = np.array([300.0]), np.array([120.0, 180.0])
    assert cells_contradict(counts, rows, probabilities)
    # With 200 more rows, all in the second cell, the counts would be plausible.
    assert not cells_contradict(counts, rows, probabilities, missing=200)
    most = log_evidence_against_cells(counts, rows, probabilities, 10)
    for hits in range(11):
        whole = rows + np.array([hits, 10 - hits])
        assert (log_evidence_against_cells(counts + 10, whole, probabilities, 0) >= most).all()


def test_a_right_model_is_hardly_ever_contradicted_at_any_time():
    problem, environment = small()
    found = 0
    for seed in range(runs(20, whole=400)):
        policy = BlockBetting(problem, delta=1e-12, seed=seed)
        policy.compiled_run(environment, np.random.default_rng(seed), 1_000)
        found += policy._contradicts_cells
        assert policy.guarantee.proven or found
    assert found <= 1


def wrong_world(law=(0.6, 0.2, 0.2)):
    """Return a problem, and an environment in which another node leads to V."""
    problem, _ = region()
    model = problem.model
    other = model.clone(tables={**model.tables, "R": law})
    return problem, NetworkEnvironment(problem, other)


@pytest.mark.parametrize("knowledge", ["cells", "covariates"])
def test_the_label_falls_where_rows_contradict_the_stated_law(knowledge):
    problem, environment = wrong_world()
    policy = BlockBetting(problem, delta=1e-12, knowledge=knowledge, seed=0)
    generator = np.random.default_rng(0)
    for _ in range(1_500):
        pull = policy.ask()
        policy.tell(pull, environment.sample(pull, generator))
    noticed = any("rows fall into some cells" in warning for warning in policy.warnings())
    assert noticed == (knowledge == "cells")
    assert policy.guarantee.proven == (knowledge != "cells")
    assert len(REGION_ARMS) == problem.n_arms


@pytest.mark.parametrize("kind", ["lost", "in flight", "unasked"])
def test_rows_that_are_selected_by_their_cell_raise_no_alarm(kind):
    """The proof holds whichever rows are lost, so this does not contradict the model."""
    problem, environment = small()
    policy = BlockBetting(problem, delta=1e-12, seed=0)
    generator = np.random.default_rng(0)
    for _ in range(600):
        pull = policy.ask()
        row = environment.sample(pull, generator)
        if row["V"] != "0":
            policy.tell(pull, row)
        elif kind == "lost":
            policy.fail(pull)
        elif kind == "unasked":
            policy.tell(pull, row)
            policy.tell(problem.pull(**problem.labels(pull.action)), row)
    assert not policy._contradicts_cells
    assert policy.guarantee.proven


def test_a_correction_of_the_cells_takes_the_alarm_back():
    problem, environment = wrong_world([0.98, 0.01, 0.01])
    right = NetworkEnvironment(problem)
    policy = BlockBetting(problem, delta=1e-12, seed=0)
    generator = np.random.default_rng(0)
    told = []
    for _ in range(150):
        pull = policy.ask()
        row = environment.sample(pull, generator)
        policy.tell(pull, row)
        told.append((pull, row))
    assert not policy.guarantee.proven
    for pull, row in told:
        policy.amend(pull, row, right.sample(pull, generator))
    assert policy.guarantee.proven


def contradicted(problem, environment, rows):
    """Return a policy whose rows contradict the model, its generator, and the rows told."""
    policy = BlockBetting(problem, delta=1e-12, seed=0)
    generator = np.random.default_rng(0)
    told = []
    while len(told) < rows:
        pull = policy.ask()
        told.append((pull, environment.sample(pull, generator)))
        policy.tell(*told[-1])
    assert not policy.guarantee.proven
    return policy, generator, told


def ask_more(policy, right, generator, _told):
    policy.ask(400)


def lose_more(policy, right, generator, _told):
    for pull in policy.ask(400):
        policy.fail(pull)


def give_unasked(policy, right, generator, _told):
    pull = policy.problem.pull(**policy.problem.labels(0))
    policy.tell(pull, right.sample(pull, generator))


def correct_unasked(policy, right, generator, _told):
    pull = policy.problem.pull(**policy.problem.labels(0))
    row = right.sample(pull, generator)
    policy.tell(pull, row)
    policy.amend(pull, row, right.sample(pull, generator))


def continue_with_right_rows(policy, right, generator, _told):
    for pull in policy.ask(runs(800, whole=2_000)):
        policy.tell(pull, right.sample(pull, generator))


def correct_later_rows(policy, right, generator, _told):
    later = [(pull, right.sample(pull, generator)) for pull in policy.ask(50)]
    for pull, row in later:
        policy.tell(pull, row)
        policy.amend(pull, row, right.sample(pull, generator))


def correct_an_outcome(policy, right, generator, told):
    pull, row = told[0]
    policy.amend(pull, row, row | {"Y": 1.0 - row["Y"]})


def tell_late(policy, right, generator, _told):
    for pull in policy.ask(50):
        policy.fail(pull)
        policy.tell(pull, right.sample(pull, generator))


@pytest.mark.parametrize(
    "happens",
    [ask_more, lose_more, give_unasked, correct_unasked, continue_with_right_rows,
     correct_later_rows, correct_an_outcome, tell_late],
    ids=lambda happens: happens.__name__,
)  # fmt: skip
def test_a_fallen_label_stays_fallen_until_the_rows_are_corrected(happens):
    problem, environment = wrong_world([0.98, 0.01, 0.01])
    right = NetworkEnvironment(problem)
    policy, generator, told = contradicted(problem, environment, runs(100, whole=300))
    happens(policy, right, generator, told)
    restored = policy.clone()
    restored.set_state(policy.get_state())
    for one in (policy, restored):
        assert not one.guarantee.proven
        assert any("rows fall into some cells" in warning for warning in one.warnings())
        for pull, row in told:
            one.amend(pull, row, right.sample(pull, generator))
        assert one.guarantee.proven
