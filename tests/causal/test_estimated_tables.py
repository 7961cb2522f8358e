"""Conditional distributions that were estimated from data, and their effects."""

import json
import math

import numpy as np
import pytest

from fairtrial.causal import CausalModel, ModelError, NetworkEnvironment, Problem, estimate
from fairtrial.errors import InvalidArgument
from tests import effort
from tests.causal.slow import diamond
from tests.messages import raises


def fitted(problem, n, generator):
    """Return the problem with P(X | A, S) estimated from n other rows."""
    environment = NetworkEnvironment(problem)
    log = environment.table(np.zeros(n, dtype=int), generator)
    return problem.clone(model=problem.model.fit(log, ["X"]))


def test_the_counts_behind_a_table_are_kept_and_written_down():
    problem = fitted(diamond(1), 500, np.random.default_rng(0))
    counts = problem.model.counts["X"]
    table = problem.model.tables["X"]
    assert counts.sum() == pytest.approx(500 + 0.5 * counts.size)
    assert table == pytest.approx(counts / counts.sum(axis=-1, keepdims=True))
    again = Problem.from_dict(json.loads(json.dumps(problem.to_dict())))
    assert again == problem
    assert again.model.counts["X"] == pytest.approx(counts)
    with raises(ModelError, "counts of X"):
        problem.model.clone(counts={"X": [1.0]})


def test_redrawn_tables_have_the_mean_and_variance_of_the_dirichlet_distribution():
    model = CausalModel([], {"X": 3}).fit({"X": [0] * 6 + [1] * 3 + [2]}, smoothing=0.5)
    generator = np.random.default_rng(1)
    drawn = np.array([model.redrawn(generator).tables["X"] for _ in range(4000)])
    total = 11.5
    mean = np.array([6.5, 3.5, 1.5]) / total
    # Four standard errors of a mean of 4000 draws are below .01.
    assert drawn.mean(axis=0) == pytest.approx(mean, abs=0.01)
    assert drawn.var(axis=0) == pytest.approx(mean * (1 - mean) / (total + 1), rel=0.15)


@pytest.mark.statistical
def test_intervals_cover_where_few_observations_are_behind_a_table():
    truth_problem = diamond(1)
    environment = NetworkEnvironment(truth_problem)
    truth = np.column_stack([*environment.truth.gaps.values()])
    generator = np.random.default_rng(2)
    actions = np.repeat(np.arange(truth_problem.n_actions), 800)
    covered = {"exact": 0, "bootstrap": 0}
    runs = effort.runs(8, whole=24)
    for _ in range(runs):
        problem = fitted(truth_problem, 150, generator)
        log = environment.table(actions, generator)
        for tables in covered:
            found = estimate(problem, log, tables=tables)
            inside = (found.gaps_normal[..., 0] <= truth) & (truth <= found.gaps_normal[..., 1])
            covered[tables] += inside[:, 0].mean() / runs
    # Arms are correlated, so a run counts about once.
    assert covered["bootstrap"] > 0.95 - 4 * math.sqrt(0.95 * 0.05 / runs)
    assert covered["exact"] < covered["bootstrap"] - 0.15


def test_the_bootstrap_widens_every_interval_and_claims_no_proof():
    generator = np.random.default_rng(3)
    problem = fitted(diamond(2), 300, generator)
    log = NetworkEnvironment(diamond(2)).table(np.tile(np.arange(9), 100), generator)
    exact = estimate(problem, log, fixed_allocation=True)
    wide = estimate(problem, log, fixed_allocation=True, tables="bootstrap")
    assert wide.means == pytest.approx(exact.means)
    for name in ("mean_normal", "mean_bernstein", "gaps_normal", "gaps_bernstein"):
        assert (np.diff(getattr(wide, name)) > np.diff(getattr(exact, name))).all()
    assert not wide.guarantee.proven
    assert "bootstrapped tables" in wide.guarantee.name
    again = estimate(problem, log, tables="bootstrap", seed=0)
    assert (again.gaps_normal == wide.gaps_normal).all()


def test_what_cannot_be_bootstrapped_is_refused():
    problem = diamond(2)
    log = NetworkEnvironment(problem).table([0] * 10, np.random.default_rng(0))
    with raises(InvalidArgument, "tables", given="bootstrap"):
        estimate(problem, log, tables="bootstrap")
    with raises(InvalidArgument, "replications"):
        estimate(problem, log, replications=199)
    with raises(InvalidArgument, "tables", given="fuzzy"):
        estimate(problem, log, tables="fuzzy")
