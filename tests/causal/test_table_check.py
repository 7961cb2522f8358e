"""The test of whether rows are distributed as the tables of the model say."""

import itertools
import math

import numpy as np
import pytest

from fairtrial.causal import BlockBetting, CausalModel, NetworkEnvironment, Problem
from fairtrial.causal.policies.table_check import TableTest, log_evidence_against_table
from fairtrial.study import Study
from tests.causal.betting_instances import region, small
from tests.effort import runs

TABLE = np.array([[0.1, 0.9], [0.6, 0.4]])
HOURS = "Hours given Sex is not distributed as in the model"
OFFER = "Offer given the arm, Hours is not distributed as in the model"


def evidence_of(rows, missing=0, table=TABLE):
    hits = np.zeros(table.shape)
    for stratum, state in rows:
        hits[stratum, state] += 1
    return math.exp(log_evidence_against_table(hits, table, missing, (len(table),)))


def test_the_evidence_is_worth_one_at_most_on_average_whatever_chose_the_strata():
    """All paths of five rows, in which the next stratum depends on the states so far."""
    total = 0.0
    for path in itertools.product([0, 1], repeat=5):
        rows = [(path[row - 1] if row else 0, state) for row, state in enumerate(path)]
        total += math.prod(TABLE[row] for row in rows) * evidence_of(rows)
    assert 0.5 < total <= 1.0 + 1e-12


def test_missing_rows_are_taken_as_they_would_make_up_the_difference():
    rows = [(0, 0)] * 12 + [(0, 1)] * 8
    least = evidence_of(rows, missing=2)
    ends = list(itertools.product([0, 1], [0, 1]))
    for first, second in itertools.product(ends, ends):
        assert evidence_of([*rows, first, second]) >= least
    assert evidence_of(rows) > 1000 > evidence_of(rows, missing=20)


def test_the_evidence_is_that_of_a_sum_over_all_sets_of_strata():
    table = np.array([[0.2, 0.8], [0.5, 0.5], [0.3, 0.7], [0.6, 0.4]])
    hits = np.array([[3.0, 1.0], [2.0, 2.0], [1.0, 5.0], [4.0, 1.0]])
    tilts = [sign * size for size in (0.05, 0.2, 0.5, 1.0, 2.0, 4.0) for sign in (1, -1)]

    def mean(sets):
        factors = [
            math.prod(
                math.exp(tilt * hits[s, state])
                / (1 - table[s, state] + table[s, state] * math.exp(tilt)) ** hits[s].sum()
                for s in strata
            )
            for strata in sets
            for state in (0, 1)
            for tilt in tilts
        ]
        return np.mean(factors)

    kinds = [[(0,), (1,), (2,), (3,)], [(0, 1, 2, 3)], [(0, 1), (2, 3)], [(0, 2), (1, 3)]]
    expected = np.mean([mean(sets) for sets in kinds])
    assert log_evidence_against_table(hits, table, 0, (2, 2)) == pytest.approx(math.log(expected))


def question(hours=((0.1, 0.9), (0.3, 0.7))):
    """Return a question whose cells do not show Hours: given the offer, it changes no outcome."""
    model = CausalModel(
        edges=[("Sex", "Hours"), ("Hours", "Offer"), ("Offer", "Gain")],
        states={"Sex": ["m", "f"], "Hours": ["part", "full"], "Offer": ["no", "yes"], "Gain": 2},
        tables={"Sex": [0.5, 0.5], "Hours": hours, "Gain": [[0.8, 0.2], [0.4, 0.6]]},
    )
    arms = {"now": [[0.7, 0.3], [0.4, 0.6]], "new": [[0.4, 0.6], [0.3, 0.7]]}
    return Problem(
        model, "Sex", "Offer", "Gain", arms=arms, fairness_bound=0.05, outcome_range=(0, 1)
    )


def follow(policy, environment, rows, change=dict):
    """Tell a policy rows of an environment; return the pulls and rows."""
    generator, told = np.random.default_rng(1), []
    for _ in range(rows):
        pull = policy.ask()
        told.append((pull, change(environment.sample(pull, generator))))
        policy.tell(*told[-1])
    return told


@pytest.mark.parametrize("knowledge", ["cells", "covariates", "ratios"])
def test_a_wrong_table_is_found_although_the_cells_do_not_show_it(knowledge):
    policy = BlockBetting(question(), delta=1e-12, knowledge=knowledge, seed=0)
    # In the same world, fewer women work full time than the table says: offers stay as they are.
    wrong = NetworkEnvironment(question([[0.1, 0.9], [0.75, 0.25]]))
    follow(policy, wrong, 200)
    assert policy.guarantee.doubts == (HOURS,)
    assert not policy.guarantee.proven
    assert any("Hours given Sex" in warning for warning in policy.warnings())


def test_an_arm_that_is_not_carried_out_is_found():
    policy = BlockBetting(question(), delta=1e-12, seed=0)
    follow(policy, NetworkEnvironment(policy.problem), 60, lambda row: {**row, "Offer": "yes"})
    assert OFFER in policy.guarantee.doubts


def test_the_attribute_is_tested_by_rows_in_which_it_was_not_set():
    policy = BlockBetting(question(), delta=1e-12, seed=0)
    follow(policy, NetworkEnvironment(policy.problem), 300)
    assert policy.guarantee.proven
    test = policy._tables
    sexes = test._tables[0]
    assert sexes.about == "Sex"
    natural = policy._counts.reshape(2, 3)[:, 0].sum()
    assert sexes.of(test.counts).sum() == natural < 300


@pytest.mark.parametrize(("all_known", "tested"), [(True, "R"), (False, "S given R")])
def test_nodes_whose_distribution_is_not_assumed_are_not_tested(all_known, tested):
    names = [table.about for table in TableTest(region()[0], all_known=all_known)._tables]
    assert (tested in names) == all_known
    assert {"X given R, S", "V given the arm, X"} <= set(names)


def test_a_right_model_is_hardly_ever_contradicted_at_any_time():
    found = 0
    for seed in range(runs(5, whole=200)):
        problem, environment = small()
        policy = BlockBetting(problem, delta=1e-12, seed=seed)
        generator = np.random.default_rng(seed)
        for _ in range(400):
            pull = policy.ask()
            policy.tell(pull, environment.sample(pull, generator))
        found += bool(policy._tables.contradicted())
    assert found <= 1


@pytest.mark.parametrize("kind", ["lost", "in flight", "unasked"])
def test_rows_that_are_selected_raise_no_alarm(kind):
    """The proof holds whichever rows are lost, so this does not contradict the model."""
    policy = BlockBetting(question(), delta=1e-12, seed=0)
    environment, generator = NetworkEnvironment(policy.problem), np.random.default_rng(0)
    for _ in range(400):
        pull = policy.ask()
        row = environment.sample(pull, generator)
        if row["Hours"] == "full" or kind == "unasked":
            policy.tell(pull, row)
        elif kind == "lost":
            policy.fail(pull)
        if kind == "unasked":
            again = policy.problem.pull(**policy.problem.labels(pull.action))
            policy.tell(again, {**row, "Hours": "part"})
    assert policy.guarantee.proven


def test_a_fallen_label_stays_fallen_until_the_rows_are_corrected():
    policy = BlockBetting(question(), delta=1e-12, seed=0)
    right = NetworkEnvironment(policy.problem)
    told = follow(policy, NetworkEnvironment(question([[0.1, 0.9], [0.9, 0.1]])), 100)
    assert HOURS in policy.guarantee.doubts
    policy.ask(300)
    follow(policy, right, 400)
    restored = policy.clone()
    restored.set_state(policy.get_state())
    generator = np.random.default_rng(2)
    better = [(pull, row, right.sample(pull, generator)) for pull, row in told]
    for one in (policy, restored):
        assert HOURS in one.guarantee.doubts
        for correction in better:
            one.amend(*correction)
        assert one.guarantee.proven
    states = policy.get_state(), restored.get_state()
    assert all(np.array_equal(states[0][name], states[1][name]) for name in states[0])


def test_a_study_that_ends_between_two_looks_still_shows_what_its_rows_contradict():
    """The last row of a study is always looked at."""
    problem = question()
    wrong = NetworkEnvironment(question([[0.1, 0.9], [0.95, 0.05]]))
    policy = BlockBetting(problem, delta=1e-12, max_pulls=49, seed=0)
    with Study.create(problem, policy, storage="memory://", name="short", seed=0) as study:
        generator = np.random.default_rng(0)
        while not study.stopped:
            pull = study.ask()
            study.tell(pull, wrong.sample(pull, generator))
        assert study.policy.told % 10
        counts = study.policy._tables.counts
        assert np.array_equal(study.policy._tables.counts_then, counts)
        assert HOURS in study.recommend().guarantee.doubts


def test_nothing_is_tested_if_tables_were_estimated():
    problem = question()
    rows = NetworkEnvironment(problem).table([0] * 200, np.random.default_rng(0))
    fitted = CausalModel(problem.model.edges, problem.model.states).fit(
        rows, nodes=["Sex", "Hours"]
    )
    policy = BlockBetting(problem.clone(model=fitted), delta=1e-12, seed=0)
    follow(policy, NetworkEnvironment(question([[0.1, 0.9], [0.9, 0.1]])), 100)
    assert policy.guarantee.doubts == ()
    assert not policy._tables.counts.any()
