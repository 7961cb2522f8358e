"""The lack-of-fit test, compared with regressions and sums of squares computed differently."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fairtrial.data import direct_arylation
from fairtrial.errors import InvalidArgument, InvalidOutcome
from fairtrial.linear import Problem, g_optimal_design, lack_of_fit, round_design
from tests import effort
from tests.messages import raises


def residual_squares(design: np.ndarray, rewards: np.ndarray) -> float:
    """The residual sum of squares of a regression, with the projector on the columns."""
    left, values, _ = np.linalg.svd(design, full_matrices=False)
    basis = left[:, values > 1e-10 * values[0]]
    return float(((rewards - basis @ (basis.T @ rewards)) ** 2).sum())


@settings(max_examples=effort.runs(20, whole=40))
@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(6, 12), st.booleans())
def test_it_is_the_f_test_of_nested_regressions(
    seed: int, rank: int, arms: int, by_arm: bool
) -> None:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(arms, rank)) @ rng.normal(size=(rank, 4))
    noise = rng.uniform(0.5, 2.0, arms) if by_arm else 0.7
    problem = Problem(features, noise_std=noise)
    places = np.concatenate([np.arange(arms), rng.integers(arms, size=arms + 3)])
    rewards = rng.normal(size=places.size) + rng.normal(size=arms)[places]
    found = lack_of_fit(problem, [problem.arms[k] for k in places], rewards)
    scale = np.broadcast_to(noise, arms)[places]
    linear = residual_squares(features[places] / scale[:, None], rewards / scale)
    means = residual_squares(np.eye(arms)[places] / scale[:, None], rewards / scale)
    freedom = (arms - rank, places.size - arms)
    statistic = (linear - means) / freedom[0] / (means / freedom[1])
    assert found.degrees_of_freedom == freedom
    assert found.statistic == pytest.approx(statistic, rel=1e-8)
    assert found.p_value == pytest.approx(stats.f.sf(statistic, *freedom), rel=1e-6)
    unit = 1.0 if by_arm else 0.7
    assert found.noise_std == pytest.approx(unit * math.sqrt(means / freedom[1]), rel=1e-8)


@pytest.mark.statistical
def test_p_values_are_uniform_where_means_are_linear_and_small_where_not() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(8, 3))
    problem = Problem(features, noise_std="estimated")
    labels = list(problem.arms) * 2
    linear = np.tile(features @ [1.0, -1.0, 0.5], 2)
    bent = linear + np.tile(rng.normal(size=8), 2)
    runs = 400
    noise = 0.3 * rng.normal(size=(runs, 16))
    null = [lack_of_fit(problem, labels, linear + row).p_value for row in noise]
    # Kolmogorov's distance exceeds 1.95 / sqrt(n) with probability 0.001.
    assert stats.kstest(null, "uniform").statistic < 1.95 / math.sqrt(runs)
    power = np.mean([lack_of_fit(problem, labels, bent + row).p_value < 0.05 for row in noise])
    assert power > 0.9


@pytest.mark.statistical
def test_the_deviation_is_that_of_the_means() -> None:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(60, 2))
    problem = Problem(features, noise_std=0.2)
    off = rng.normal(size=60)
    off -= features @ np.linalg.lstsq(features, off, rcond=None)[0]
    places = np.repeat(np.arange(60), 5)
    rewards = (features @ [1.0, 2.0] + off)[places] + 0.2 * rng.normal(size=300)
    found = lack_of_fit(problem, places.tolist(), rewards)
    # Standard errors: .2 / sqrt(2 * 240) and .2 / sqrt(300), five of each.
    assert found.noise_std == pytest.approx(0.2, abs=0.05)
    assert found.deviation == pytest.approx(math.sqrt((off**2).mean()), abs=0.06)


def test_yields_of_reactions_are_not_linear_in_their_parts() -> None:
    table = direct_arylation()
    problem = Problem(table["features"], arms=table["arm"], noise_std="estimated")
    pulls = round_design(g_optimal_design(problem, tol=0.05), 3 * 96)
    wells = np.repeat(np.arange(len(pulls)), pulls)
    wells = np.concatenate([wells, wells])
    rng = np.random.default_rng(2)
    rewards = np.array(table["reward"])[wells] + 0.03 * rng.standard_normal(wells.size)
    found = lack_of_fit(problem, [table["arm"][k] for k in wells], rewards)
    assert found.p_value < 1e-12
    assert found.noise_std == pytest.approx(0.03, rel=0.25)
    assert 0.1 < found.deviation < 0.25


def test_data_without_noise_have_a_clear_answer() -> None:
    problem = Problem([[1, 0], [1, 1], [1, 2]], noise_std=1.0)
    arms = ["0", "1", "2", "2"]
    straight = lack_of_fit(problem, arms, [0.0, 1.0, 2.0, 2.0])
    assert (straight.statistic, straight.p_value, straight.deviation) == (0.0, 1.0, 0.0)
    bent = lack_of_fit(problem, arms, [0.0, 1.0, 0.0, 0.0])
    assert (bent.statistic, bent.p_value) == (math.inf, 0.0)


@pytest.mark.parametrize(
    ("arms", "rewards", "error", "name"),
    [
        (["0", "1", "2"], [0, 1, 2], InvalidArgument, "arms"),
        (["0", "0", "1"], [0, 1, 2], InvalidArgument, "arms"),
        (["0", "x"], [0, 1], InvalidArgument, "arms[1]"),
        (["0", "1"], [0], InvalidArgument, "rewards"),
        (["0", "1"], [0, math.nan], InvalidOutcome, "rewards[1]"),
        ([], [], InvalidArgument, "arms"),
    ],
)
def test_data_that_cannot_be_tested_are_refused(arms, rewards, error, name: str) -> None:
    problem = Problem([[1, 0], [1, 1], [1, 2]], noise_std=1.0)
    with raises(error, name):
        lack_of_fit(problem, arms, rewards)
    with raises(InvalidArgument, "problem"):
        lack_of_fit("problem", arms, rewards)  # type: ignore[arg-type]
