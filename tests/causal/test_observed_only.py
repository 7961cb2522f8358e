"""A sensitive attribute that is only observed, never forced, with or without causes."""

import math

import numpy as np
import pytest

from fairtrial.causal import (
    CausalModel,
    ConstraintSuccessiveRejection,
    ModelError,
    NetworkEnvironment,
    PlugIn,
    Problem,
    ReplayEnvironment,
    SuccessiveRejection,
    TwoStageRejection,
    UniformSampling,
    allocate,
    divergences,
    estimate,
    row_budgets,
)
from fairtrial.causal._cell_model import cell_model_of
from fairtrial.causal._clipped import Clipped
from fairtrial.causal._intervals import bernstein_reach, normal_reach
from fairtrial.causal._ledger import open_ledger
from fairtrial.causal._weighted import Weighted
from fairtrial.core.run import run_policy
from fairtrial.errors import InvalidArgument, InvalidOutcome
from tests.causal.slow import assignments, confounded, effects, joint, tiny, twin_effects
from tests.messages import raises

# Four standard deviations: by chance, one z-score in 16,000 is larger.
SIGMAS = 4.0


def gaps_of(problem, found):
    """Return gaps by pair, shape (K, pairs), from effects of shape (K, a, b)."""
    place = {label: position for position, label in enumerate(problem.values)}
    columns = [
        found[:, place[a], place[b]] - found[:, place[b], place[b]] for a, b in problem.pairs
    ]
    return np.column_stack(columns)


def scores(sample, truth):
    sample = np.array(sample)
    return np.abs((sample.mean(axis=0) - truth) / (sample.std(axis=0) / math.sqrt(len(sample))))


# --------------------------------------------------------------------------- the truth


def with_an_empty_group():
    """Return A -> S -> V -> Y and A -> V, in which nobody has the third value of S."""
    model = CausalModel(
        [("A", "S"), ("S", "V"), ("A", "V"), ("V", "Y")],
        {"A": 2, "S": ["a", "b", "none"], "V": 2, "Y": 2},
        {
            "A": [0.4, 0.6],
            "S": [[0.3, 0.7, 0.0], [0.6, 0.4, 0.0]],
            "Y": [[0.9, 0.1], [0.2, 0.8]],
        },
    )
    generator = np.random.default_rng(0)
    arms = {arm: generator.dirichlet([5, 5], (3, 2)) for arm in "kj"}
    return Problem(model, "S", "V", "Y", arms, 0.3, forcing="never")


def test_a_group_that_nobody_is_in_has_no_gap_and_no_part_in_the_mean():
    problem = with_an_empty_group()
    environment = NetworkEnvironment(problem)
    slow, shares = effects(problem)
    truth = environment.truth
    assert truth.means == pytest.approx(slow[:, 0, 0] * shares[0] + slow[:, 1, 1] * shares[1])
    assert truth.gaps["none", "a"] == pytest.approx(slow[:, 2, 0] - slow[:, 0, 0])
    assert truth.gaps["a", "none"].tolist() == [0.0, 0.0]
    assert truth.best == "k"
    log = environment.table([0, 1] * 4000, np.random.default_rng(1))
    for estimator in ("sn", "mis", "cell"):
        found = estimate(problem, log, estimator)
        assert found.best == "k"
        assert found["k"].gaps["a", "none"] == 0.0
        assert found.verdicts == ("fair", "fair")
    assert None not in row_budgets(environment).certifying_budget


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (ConstraintSuccessiveRejection, {"pool_natural": True}),
        (PlugIn, {}),
        (UniformSampling, {}),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_group_that_nobody_is_in_keeps_no_policy_from_an_answer(cls, options):
    policy = cls(with_an_empty_group(), 4000, **options)
    environment = NetworkEnvironment(policy.problem)
    assert policy.compiled_run(environment, np.random.default_rng(2), None).answer == "k"


@pytest.mark.parametrize("seed", range(3))
def test_means_and_gaps_equal_those_of_the_full_joint_distribution(seed):
    problem = confounded(seed, states=2 + seed % 2)
    truth = NetworkEnvironment(problem).truth
    slow, shares = effects(problem)
    own = np.diagonal(slow, axis1=1, axis2=2)
    assert cell_model_of(problem).shares == pytest.approx(shares)
    assert truth.means_by_value == pytest.approx(own)
    assert truth.means == pytest.approx(own @ shares)
    assert np.column_stack([*truth.gaps.values()]) == pytest.approx(gaps_of(problem, slow))


@pytest.mark.statistical
def test_gaps_are_those_of_the_same_people_with_another_value():
    problem = confounded(0)
    slow, _ = effects(problem)
    seen, outcome = twin_effects(problem, "arm1", 1, 200_000, np.random.default_rng(3))
    for b in (0, 1):
        group = outcome[seen == b]
        assert abs(group.mean() - slow[1, 1, b]) < SIGMAS * group.std() / math.sqrt(len(group))


def test_the_two_directions_are_no_longer_opposite():
    problem = confounded(0)
    gaps = NetworkEnvironment(problem).truth.gaps
    assert np.abs(gaps[("0", "1")] + gaps[("1", "0")]).min() > 1e-3
    assert problem.n_statements == 3 * 3


def test_a_root_that_is_never_forced_has_the_gaps_of_one_that_is():
    forced, environment = tiny()
    observed = forced.clone(forcing="never", costs=None)
    truth = NetworkEnvironment(observed).truth
    assert truth.gaps[("s", "s'")] == pytest.approx(environment.truth.gaps[("s", "s'")])
    assert observed.n_actions == 3
    assert [dict(labels) for labels in observed.action_labels] == [
        {"arm": arm, "sensitive": "natural"} for arm in forced.arm_labels
    ]
    log = NetworkEnvironment(observed).table([0, 1, 2] * 30, np.random.default_rng(0))
    assert estimate(observed, log).gaps_bernstein == pytest.approx(
        estimate(forced, log).gaps_bernstein
    )


# ----------------------------------------------------------------- divergences, shares


def slow_gap_divergence(problem, k, j, a, b):
    """Return D by summing over all nodes except the outcome, in the group observed with b."""
    nodes = [node for node in problem.model.nodes if node != problem.outcome_node]
    free = [node for node in nodes if node not in problem.attributes]
    shares = cell_model_of(problem).shares
    total = 0.0
    for row in assignments(problem, free):
        at_a, at_b = {**row, "S": a}, {**row, "S": b}
        own = problem.model.tables["S"][row["A"], b]
        p = [
            joint(problem, k, at) / problem.model.tables["S"][row["A"], at["S"]]
            for at in (at_a, at_b)
        ]
        q = joint(problem, j, at_b) / problem.model.tables["S"][row["A"], b]
        total += (p[0] + p[1]) * own / shares[b] * math.exp(abs(p[0] - p[1]) / q)
    return math.log(total)


def test_divergences_equal_those_of_the_full_joint_distribution():
    problem = confounded(4, arms=2)
    known = divergences(problem)
    nodes = [node for node in problem.model.nodes if node != problem.outcome_node]
    for k, target in enumerate(problem.arms):
        for j, source in enumerate(problem.arms):
            for pair, matrix in known.gap.items():
                a, b = (problem.values.index(value) for value in pair)
                assert matrix[k, j] == pytest.approx(
                    slow_gap_divergence(problem, target, source, a, b)
                )
            total = sum(
                joint(problem, target, row)
                * math.exp(joint(problem, target, row) / joint(problem, source, row))
                for row in assignments(problem, nodes)
            )
            assert known.outcome[k, j] == pytest.approx(math.log(total))


def test_natural_rows_are_allocated_for_the_gaps():
    problem = confounded(4, costs=[0, 1, 1], mean_budget=0.5)
    found = allocate(problem)
    assert found.shares.shape == (3, 1)
    assert found.shares.sum() == pytest.approx(1.0)
    assert 0.0 < found.cost <= 0.5 + 1e-9
    known = divergences(problem)
    natural, shares = found.shares[:, 0], cell_model_of(problem).shares
    told = [(natural / known.outcome[k]).sum() for k in range(3)]
    told += [
        shares[problem.values.index(pair[1])] * (natural / matrix[k]).sum()
        for pair, matrix in known.gap.items()
        for k in range(3)
    ]
    assert found.value == pytest.approx(min(told))


# --------------------------------------------------------------------------- estimates


@pytest.mark.statistical
def test_mixture_and_clipped_estimates_are_unbiased():
    problem = confounded(5)
    environment = NetworkEnvironment(problem)
    truth = np.column_stack([environment.truth.means, *environment.truth.gaps.values()])
    actions = np.repeat([0, 1], 60)
    generator = np.random.default_rng(6)
    mixture, clipped = [], []
    for _ in range(400):
        ledger = open_ledger(cell_model_of(problem))
        ledger.add(environment.batch(actions, generator))
        records = ledger.records()
        found = Weighted(problem, records, "mis")
        mixture.append(np.column_stack([found.means, found.gaps]))
        rule = Clipped(problem, records, 1e9)
        gaps = [rule.gaps(pair, True) for pair in range(2)]
        clipped.append(np.column_stack([rule.means(), *gaps]))
    assert scores(mixture, truth).max() < SIGMAS
    # The printed average of the gap divides by the number of rows with the value, which varies
    # here; given this number, there is no bias.
    assert scores(clipped, truth).max() < SIGMAS


@pytest.mark.statistical
@pytest.mark.parametrize("estimator", ["sn", "mis", "cell"])
def test_every_estimator_comes_to_the_truth(estimator):
    problem = confounded(7)
    environment = NetworkEnvironment(problem)
    log = environment.table(np.tile([0, 1, 2], 15_000), np.random.default_rng(8))
    found = estimate(problem, log, estimator)
    truth = np.column_stack([*environment.truth.gaps.values()])
    reach = np.abs(found.gaps_normal[..., 1] - found.gaps)
    # The half-widths are two standard errors.
    assert (np.abs(found.gaps - truth) < 2.5 * reach).all()
    assert reach.max() < 0.02
    assert found.means == pytest.approx(environment.truth.means, abs=0.015)
    assert found.means_by_value == pytest.approx(environment.truth.means_by_value, abs=0.02)


@pytest.mark.statistical
def test_intervals_cover_the_truth():
    problem = confounded(9)
    environment = NetworkEnvironment(problem)
    truth = np.column_stack([*environment.truth.gaps.values()])
    generator = np.random.default_rng(10)
    runs, normal, bernstein = 300, np.zeros((3, 2)), np.zeros((3, 2))
    for _ in range(runs):
        ledger = open_ledger(cell_model_of(problem))
        ledger.add(environment.batch(np.repeat([0, 1, 2], 80), generator))
        weighted = Weighted(problem, ledger.records(), "mis")
        error = np.abs(weighted.gaps - truth)
        normal += error <= normal_reach(weighted, 0.05)[1]
        bernstein += error <= bernstein_reach(weighted, 0.05)[1]
    # Four standard errors of a coverage of .95 in 300 runs are .05.
    assert np.abs(normal / runs - 0.95).max() < 0.05
    assert (bernstein / runs >= 0.95).all()


def test_rows_one_by_one_give_the_same_estimates_as_cells(monkeypatch):
    problem = confounded(11)
    log = NetworkEnvironment(problem).table([0, 1, 2] * 500, np.random.default_rng(0))
    tabulated = estimate(problem, log)
    monkeypatch.setattr("fairtrial.causal._cell_model._MOST_WEIGHTS", 1)
    row_by_row = estimate(problem.clone(), log)
    assert row_by_row.gaps == pytest.approx(tabulated.gaps)
    # Without the list of cells, the informativeness is estimated from the observed rows.
    normal = np.diff(row_by_row.gaps_normal) / np.diff(tabulated.gaps_normal)
    assert ((normal > 0.9) & (normal < 1.5)).all()
    # Without the cells, there is no known bound on weights of a group for another value.
    assert np.isinf(row_by_row.gaps_bernstein).all()
    assert row_by_row.verdicts == ("undecided",) * 3


def test_a_forced_row_is_refused():
    problem = confounded(0)
    log = NetworkEnvironment(problem).table([0, 1], np.random.default_rng(0))
    log["s_mode"][1] = "forced"
    with raises(InvalidOutcome, "row 1: s_mode"):
        estimate(problem, log)


def test_shares_are_estimated_where_the_model_has_none():
    problem = confounded(12)
    environment = NetworkEnvironment(problem)
    tables = {node: problem.model.tables[node] for node in ("X",)}
    bare = problem.clone(model=problem.model.clone(tables=tables))
    log = environment.table([0, 1, 2] * 300, np.random.default_rng(1))
    found = estimate(bare, log)
    share = log["S"].count("0") / len(log["S"])
    assert found.means == pytest.approx(found.means_by_value @ [share, 1 - share])
    assert found.gaps == pytest.approx(estimate(problem, log).gaps)


# ---------------------------------------------------------------------------- policies

POLICIES = [
    (ConstraintSuccessiveRejection, {"pool_natural": True}),
    (ConstraintSuccessiveRejection, {"pool_natural": True, "variant": 1}),
    (SuccessiveRejection, {}),
    (UniformSampling, {}),
    (PlugIn, {}),
    (PlugIn, {"estimator": "cell"}),
]


@pytest.mark.parametrize(("cls", "options"), POLICIES)
def test_a_run_in_batches_equals_one_pull_after_another(cls, options):
    problem = confounded(1, fairness_bound=0.3, costs=[0, 1, 1], mean_budget=0.6)
    environment = NetworkEnvironment(problem)
    fast = cls(problem, 150, **options).compiled_run(environment, np.random.default_rng(3), None)
    slow = run_policy(cls(problem, 150, **options), environment, np.random.default_rng(3))
    assert (fast.answer, fast.status) == (slow.answer, slow.status)
    assert (fast.pulls == slow.pulls).all()
    assert fast.metrics == slow.metrics


def separated(**options):
    """Return a problem in which confounding makes the fair arm look unfair by its raw means."""
    model = CausalModel(
        [("A", "S"), ("A", "Y"), ("S", "V"), ("V", "Y")],
        {"A": 2, "S": ["s", "t"], "V": 2, "Y": 2},
        {
            "A": [0.5, 0.5],
            "S": [[0.8, 0.2], [0.2, 0.8]],
            "Y": [[[0.9, 0.1], [0.6, 0.4]], [[0.5, 0.5], [0.2, 0.8]]],
        },
    )
    arms = {"fair": [[0.3, 0.7], [0.3, 0.7]], "unfair": [[0.05, 0.95], [0.8, 0.2]]}
    given = {"arms": arms, "fairness_bound": 0.15, "forcing": "never", **options}
    return Problem(model, "S", "V", "Y", **given)


@pytest.mark.statistical
def test_confounding_is_not_taken_for_unfairness():
    problem = separated()
    environment = NetworkEnvironment(problem)
    truth = environment.truth
    raw = truth.means_by_value[:, 0] - truth.means_by_value[:, 1]
    assert abs(raw[0]) > problem.fairness_bound
    assert truth.best == "fair"
    for policy in (
        ConstraintSuccessiveRejection(problem, 8000, pool_natural=True),
        PlugIn(problem, 8000),
        UniformSampling(problem, 8000),
    ):
        assert policy.compiled_run(environment, np.random.default_rng(2), None).answer == "fair"
    policy = PlugIn(problem, 20_000, estimator="mis")
    policy.compiled_run(environment, np.random.default_rng(3), None)
    found = policy.certificate()
    assert found.guarantee.proven
    assert found.verdicts == ("fair", "unfair")


@pytest.mark.statistical
def test_a_replays_gaps_are_those_of_its_weighed_rows():
    problem = separated()
    environment = NetworkEnvironment(problem)
    log = environment.table([0, 1] * 10_000, np.random.default_rng(4))
    replay = ReplayEnvironment(problem, log)
    for pair, gap in replay.truth.gaps.items():
        # The largest standard error is .01.
        assert gap == pytest.approx(environment.truth.gaps[pair], abs=0.04)
    run = PlugIn(problem, 8000).compiled_run(replay, np.random.default_rng(5), None)
    assert run.answer == replay.truth.best == "fair"


def test_a_gap_that_a_log_cannot_tell_is_unknown():
    arms = {"hard": [[0.0, 1.0], [0.8, 0.2]]}
    problem = separated(arms=arms)
    environment = NetworkEnvironment(problem)
    log = environment.table([0] * 500, np.random.default_rng(6))
    gaps = ReplayEnvironment(problem, log).truth.gaps
    # Nobody observed with s ever has V = 0, which would be their most common state with t.
    assert np.isnan(gaps[("t", "s")][0])
    assert gaps[("s", "t")][0] == pytest.approx(environment.truth.gaps[("s", "t")][0], abs=0.2)
    assert math.isnan(estimate(problem, log)["hard"].mean)


@pytest.mark.statistical
def test_the_certifying_budget_matches_the_width_of_intervals():
    problem = separated()
    environment = NetworkEnvironment(problem)
    plan = row_budgets(environment)
    # The fair arm's gaps have weight zero, so one row is as good as a thousand.
    assert plan.certifying_budget[0] == 1
    truth = np.abs(np.column_stack([*environment.truth.gaps.values()]))
    margin = np.abs(truth[1] - problem.fairness_bound)
    counts = np.round(plan.allocation[:, 0] * plan.certifying_budget[1]).astype(int)
    ledger = open_ledger(cell_model_of(problem))
    ledger.add(environment.batch(np.repeat([0, 1], counts), np.random.default_rng(7)))
    weighted = Weighted(problem, ledger.records(), "mis")
    reach = bernstein_reach(weighted, 0.05 / problem.n_statements)[1][1]
    # Estimated variances of thousands of rows are within a few percent.
    assert (reach / margin).max() == pytest.approx(1.0, rel=0.1)


# ----------------------------------------------------------------------------- refused


def test_rules_that_need_forced_rows_say_so():
    problem = confounded(0, fairness_bound=0.3)
    with raises(InvalidArgument, "pool_natural"):
        ConstraintSuccessiveRejection(problem, 1000)
    with raises(InvalidArgument, "problem"):
        TwoStageRejection(problem, 1000)
    with raises(InvalidArgument, "one_sided"):
        ConstraintSuccessiveRejection(problem, 1000, one_sided=True, pool_natural=True)


def graph(edges, **options):
    sizes = dict.fromkeys("ASTWVY", 2)
    parents = {node: sum(child == node for _, child in edges) for node in sizes}
    tables = {node: np.full([2] * (1 + parents[node]), 0.5) for node in "ASTWY"}
    arms = {"a": np.full([2] * (1 + parents["V"]), 0.5)}
    given = {"sensitive": "S", "forcing": "never", **options}
    model = CausalModel(edges, sizes, tables)
    return Problem(model, intervened="V", outcome="Y", arms=arms, fairness_bound=0.1, **given)


def test_causes_that_make_the_gap_another_question_are_refused():
    with raises(ModelError, "intervened"):
        graph([("V", "S"), ("S", "Y"), ("V", "Y")])
    with raises(ModelError, "sensitive", given="W"):
        graph([("S", "W"), ("W", "T"), ("T", "Y"), ("V", "Y")], sensitive=["S", "T"])
    with raises(ModelError, "gap_set"):
        graph([("S", "T"), ("T", "Y"), ("V", "Y")], sensitive=["S", "T"], gap_set="attributes")
    with raises(ModelError, "sensitive", given="S"):
        graph([("A", "S"), ("S", "V"), ("V", "Y")], forcing="allowed")
    problem = graph([("A", "S"), ("S", "V"), ("V", "Y")])
    with raises(InvalidArgument, "forcing"):
        problem.clone(forcing="sometimes")


def test_an_attribute_may_be_the_parent_of_another():
    generator = np.random.default_rng(13)
    edges = [("A", "S"), ("S", "T"), ("S", "V"), ("T", "Y"), ("V", "Y"), ("A", "Y")]
    problem = graph(edges, sensitive=["S", "T"])
    tables = {
        node: generator.dirichlet(np.ones(2), size=table.shape[:-1])
        for node, table in problem.model.tables.items()
    }
    problem = problem.clone(
        model=problem.model.clone(tables=tables), arms={"a": [[0.9, 0.1], [0.3, 0.7]]}
    )
    slow, shares = effects(problem)
    truth = NetworkEnvironment(problem).truth
    assert problem.carriers == ("V", "Y") or set(problem.carriers) == {"V", "Y"}
    assert cell_model_of(problem).shares == pytest.approx(shares)
    assert np.column_stack([*truth.gaps.values()]) == pytest.approx(gaps_of(problem, slow))


def test_an_environment_in_which_a_root_has_parents_is_refused():
    problem, _ = tiny()
    states = {**problem.model.states, "A": ("0", "1")}
    tables = {**problem.model.tables, "A": [0.5, 0.5], "S": [[0.4, 0.6], [0.5, 0.5]]}
    network = CausalModel([("A", "S"), ("S", "V"), ("V", "Y")], states, tables)
    with raises(ModelError, "network"):
        NetworkEnvironment(problem, network)
