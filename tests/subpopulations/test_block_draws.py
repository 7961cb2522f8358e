"""Many runs in one call are the same runs; blocks drawn in one step have the same distribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fairtrial.confidence.noise_kernels import FIRST, MEAN, SPREAD
from fairtrial.errors import InvalidArgument
from fairtrial.simulation import simulate
from fairtrial.subpopulations import (
    BernoulliEnvironment,
    BlockBetting,
    GaussianEnvironment,
    Problem,
    ReplayEnvironment,
)
from tests.effort import runs as effort
from tests.messages import raises

ROWS = {
    "arm": ["0", "0", "0", "1", "1", "1"],
    "group": ["0", "0", "0", "0", "0", "0"],
    "reward": [0.5, 0.9, 1.0, 0.1, 0.3, 0.6],
}


def normal() -> GaussianEnvironment:
    """Return three plain arms, with the noise tested."""
    problem = Problem(3, 1, floors=None, noise_std=1.0)
    return GaussianEnvironment(problem, [[1.2], [0.3], [0.0]], std=0.8)


def smaller_is_better() -> GaussianEnvironment:
    """Return two arms with floors, units far from one, and different noise."""
    problem = Problem(2, 2, floors=-3e6, noise_std=[[1e6, 2e6]] * 2, direction="minimize")
    return GaussianEnvironment(problem, [[0.0, 0.0], [1e6, 3e6]])


def coins() -> BernoulliEnvironment:
    """Return two arms in two groups, with floors."""
    problem = Problem(2, 2, floors=0.2, reward_range=(0, 1))
    return BernoulliEnvironment(problem, [[0.9, 0.7], [0.4, 0.5]])


def coins_with_noise() -> BernoulliEnvironment:
    """Return results 0 or 1 as noise of known scale, whose test needs each cell's first result."""
    return BernoulliEnvironment(Problem(2, 1, floors=None, noise_std=0.5), [[0.8], [0.4]])


def rows() -> ReplayEnvironment:
    """Return recorded rows, which are drawn one by one."""
    return ReplayEnvironment(Problem(2, 1, floors=None, reward_range=(0, 1)), ROWS)


ENVIRONMENTS = [normal, smaller_is_better, coins, coins_with_noise, rows]


# ------------------------------------------------------------------------ many runs at once


@pytest.mark.parametrize("make", [normal, coins, rows])
@pytest.mark.parametrize("block_draws", [False, True])
def test_runs_do_not_depend_on_the_batch_the_workers_or_the_engine(
    make: Any, block_draws: bool
) -> None:
    environment = make()
    policy = BlockBetting(environment.problem, max_pulls=120, block_draws=block_draws)
    whole = simulate(policy, environment, 7, seed=3, workers=1, chunk_size=7)
    others = [
        simulate(policy, environment, 7, seed=3, workers=2, chunk_size=2),
        simulate(policy, environment, 7, seed=3, workers=1, estimates=True),
    ]
    if not block_draws:
        others.append(simulate(policy, environment, 7, seed=3, engine="python"))
    assert len(set(whole.stopping_time.tolist())) > 2
    for other in others:
        for name in ("stopping_time", "answer", "status", "pulls", "elapsed", "correct"):
            np.testing.assert_array_equal(getattr(whole, name), getattr(other, name))
        assert whole.metrics.keys() == other.metrics.keys()


def test_many_runs_leave_the_policy_as_it_is() -> None:
    environment = normal()
    policy = BlockBetting(environment.problem, seed=5)
    before = policy.get_state()
    simulate(policy, environment, 3)
    after = policy.get_state()
    for name, value in before.items():
        np.testing.assert_array_equal(value, after[name])


# ---------------------------------------------------------------------- blocks in one step


def statistics(
    environment: Any, block_draws: bool, horizon: int | None, number: int
) -> dict[str, NDArray[Any]]:
    """Return statistics of runs, one row for each."""
    problem = environment.problem
    found: dict[str, list[Any]] = {}
    for seed in range(number):
        policy = BlockBetting(problem, block_draws=block_draws, seed=seed)
        generator = np.random.default_rng(seed + 10**6 * block_draws)
        run = policy.compiled_run(environment, generator, horizon)
        assert run is not None
        state = policy._blocks.state
        record = state.settled_noise
        row = {
            "stopping time": [run.stopping_time],
            "decision": [-1 if run.answer is None else problem.arms.index(run.answer)],
            "wealth": np.clip(policy._wealth, -50, 50),
            "sums": state.sums.ravel(),
            "squares": state.squares.ravel(),
            "record": record[:, :4].ravel() if record.size else [],
        }
        for name, value in row.items():
            found.setdefault(name, []).append(np.asarray(value, dtype=float))
    return {name: np.array(values) for name, values in found.items()}


def distance(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Return the largest distance between two empirical distribution functions."""
    # Sums of the same results in another order differ by rounding.
    both = [np.sort([float(f"{value:.9g}") for value in own]) for own in (first, second)]
    points = np.concatenate(both)
    below = [np.searchsorted(own, points, side="right") / own.size for own in both]
    return float(np.abs(below[0] - below[1]).max())


@pytest.mark.statistical
@pytest.mark.parametrize("make", ENVIRONMENTS)
@pytest.mark.parametrize("to_the_end", [False, True])
def test_statistics_have_the_distribution_of_pulls_one_by_one(make: Any, to_the_end: bool) -> None:
    environment = make()
    problem = environment.problem
    first_block = 5 if problem.reward_range is None else 10
    horizon = None if to_the_end else first_block * problem.n_actions
    number = effort(100, whole=3000) if to_the_end else effort(200, whole=5000)
    plain, fast = (statistics(environment, drawn, horizon, number) for drawn in (False, True))
    # Kolmogorov and Smirnov: exceeded by one statistic in 5,000 if the distributions are equal.
    tolerance = math.sqrt(0.5 * math.log(2 * 5000)) * math.sqrt(2 / number)
    for name, values in plain.items():
        for column in range(values.shape[1]):
            found = distance(values[:, column], fast[name][:, column])
            assert found <= tolerance, f"{name} {column}: {found:.3f} > {tolerance:.3f}"


def first_records(environment: Any, initial_pulls: int) -> NDArray[Any]:
    """Return records of cells after their first block: runs x cells, in units of the true noise."""
    problem, found = environment.problem, []
    stds = np.broadcast_to(environment.cell_stds, problem.shape).ravel()
    for seed in range(effort(400, whole=3000)):
        policy = BlockBetting(problem, block_draws=True, initial_pulls=initial_pulls, seed=seed)
        generator = np.random.default_rng([seed, initial_pulls])
        run = policy.compiled_run(environment, generator, initial_pulls * problem.n_actions)
        assert run is not None
        assert run.metrics["block_draws"] == 1.0
        record = policy._blocks.state.settled_noise[:, :4].copy()
        means = problem.sign * environment.cell_means.ravel()
        record[:, MEAN] = record[:, MEAN] * problem.scale.ravel() / stds
        record[:, SPREAD] *= (problem.scale.ravel() / stds) ** 2
        record[:, FIRST] = record[:, FIRST] * problem.scale.ravel() / stds
        record[:, [MEAN, FIRST]] -= (means / stds)[:, None]
        found.append(record)
    return np.array(found).reshape(-1, 4)


@pytest.mark.statistical
@pytest.mark.parametrize("initial_pulls", [1, 2, 3, 5])
def test_normal_results_of_a_block_have_the_laws_of_cochran(initial_pulls: int) -> None:
    # With n degrees of freedom instead of n - 1, squares of three or more results would fail.
    count, mean, spread, first = first_records(normal(), initial_pulls).T
    assert set(count.tolist()) == {float(initial_pulls)}
    normal_law = stats.norm(scale=1 / math.sqrt(initial_pulls))
    laws: list[tuple[NDArray[Any], Any]] = [(mean, normal_law), (first, stats.norm)]
    if initial_pulls == 1:
        np.testing.assert_array_equal(spread, 0.0)
    else:
        laws.append((spread, stats.chi2(initial_pulls - 1)))
    for values, law in laws:
        # Kolmogorov and Smirnov with one sample, which one correct sample in 5,000 fails.
        assert stats.kstest(values, law.cdf).pvalue > 1 / 5000
    # Mean and sum of squares are independent; the first result is a part of the mean.
    error = 1 / math.sqrt(mean.size)
    if initial_pulls > 1:
        assert abs(np.corrcoef(mean, spread)[0, 1]) <= 4 * error
        expected = 1 / math.sqrt(initial_pulls)
        assert abs(np.corrcoef(mean, first)[0, 1] - expected) <= 4 * error


@pytest.mark.parametrize("make", ENVIRONMENTS)
def test_a_run_that_ends_within_a_block_has_that_many_pulls(make: Any) -> None:
    environment = make()
    for horizon in (1, 13, 47):
        policy = BlockBetting(environment.problem, block_draws=True, seed=1)
        run = policy.compiled_run(environment, np.random.default_rng(2), horizon)
        assert run is not None
        assert run.pulls.sum() == run.stopping_time <= horizon
        if run.status == "running":
            assert run.stopping_time == horizon
        # The first block of a cell has at least five results.
        drawn = horizon >= policy._blocks.state.blocks.came.sum() > 0
        assert run.metrics["block_draws"] == float(drawn)


def test_the_metrics_tell_whether_blocks_were_drawn() -> None:
    policy = BlockBetting(normal().problem, block_draws=True, max_pulls=60)
    for more, expected in (
        ({}, 1.0),
        ({"estimates": True}, 1.0),
        ({"engine": "python"}, 0.0),
        ({"parallel": 2}, 0.0),
        ({"horizon": 14}, 0.0),
        ({"horizon": 15}, 1.0),
    ):
        found = simulate(policy, normal(), 3, **more)  # type: ignore[arg-type]
        assert found.metrics["block_draws"].tolist() == [expected] * 3, more
    arriving = normal().clone(arrivals=[1.0])
    assert simulate(policy, arriving, 2).metrics["block_draws"].tolist() == [0.0] * 2
    plain = simulate(policy.clone(block_draws=False), normal(), 2)
    assert "block_draws" not in plain.metrics


def test_the_summary_of_a_block_is_that_of_its_results() -> None:
    environment = coins_with_noise()
    policy = BlockBetting(environment.problem, block_draws=True, seed=1)
    policy.compiled_run(environment, np.random.default_rng(4), 10)
    state = policy._blocks.state
    np.testing.assert_allclose(state.sums, state.squares)
    count, mean, spread, first = state.settled_noise[:, :4].T
    ones = state.sums.ravel()
    np.testing.assert_allclose(count, 5.0)
    np.testing.assert_allclose(mean, 2 * ones / 5)
    np.testing.assert_allclose(spread, 4 * ones * (1 - ones / 5))
    assert set(first.tolist()) <= {0.0, 2.0}


def test_measures_are_drawn_pull_by_pull() -> None:
    problem = Problem(2, 1, measures={"y": (0, 1), "z": (0, 1)}, objective="y")
    with raises(InvalidArgument) as refused:
        BlockBetting(problem, block_draws=True)
    assert refused.value.name == "block_draws"
