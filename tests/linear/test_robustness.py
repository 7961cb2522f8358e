"""Bad numbers, nearly dependent features and other coordinates: an error, or no effect."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairtrial.core import Policy
from fairtrial.errors import AlreadyTold, InvalidArgument, InvalidOutcome, UnknownPull
from fairtrial.linear import (
    BlockBetting,
    FrankWolfeSampling,
    GAllocation,
    GaussianEnvironment,
    LazyTrackAndStop,
    LinGame,
    LinGapE,
    Problem,
    Rage,
    XYAdaptive,
    g_optimal_design,
    oracle_design,
    xy_optimal_design,
)
from fairtrial.linear._kernels.matrices import whitener, whitener_of_rows
from tests import effort
from tests.linear.test_designs import all_pairs, conic_optimum
from tests.messages import raises

EVERY = [
    BlockBetting, LinGapE, LinGame, FrankWolfeSampling, LazyTrackAndStop,
    GAllocation, Rage, XYAdaptive,
]  # fmt: skip


# -------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("call", [oracle_design, GaussianEnvironment])
def test_a_theta_that_is_not_finite_is_named(call) -> None:
    with raises(InvalidArgument, "theta[1]"):
        call(Problem(np.eye(2), noise_std=1.0), [0.0, math.nan])


@pytest.mark.parametrize("cls", EVERY)
def test_results_of_unknown_arms_and_more_results_than_asked_are_refused(
    cls: type[Policy],
) -> None:
    problem = Problem(np.eye(2), arms=["a", "b"], noise_std=1.0)
    policy = cls(problem)
    with raises(InvalidArgument, "labels"):
        problem.pull(arm="c")
    pull = policy.ask()
    other = Problem(np.eye(2), arms=["a", "c"], noise_std=1.0).pull(arm="c")
    before = policy.get_state()
    for wrong in (other, pull.__class__(99, pull.action, pull.labels, pull.tag)):
        with raises(UnknownPull):
            policy.tell(wrong, 1.0)
    with raises(InvalidOutcome, "reward"):
        policy.tell(pull, math.nan)
    assert all(np.array_equal(before[name], value) for name, value in policy.get_state().items())
    policy.tell(pull, 1.0)
    with raises(AlreadyTold):
        policy.tell(pull, 1.0)


def test_a_zero_arm_is_warned_of_once_and_never_pulled_by_any_rule() -> None:
    rows = [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        problem = Problem(rows, arms=list("abcd"), noise_std=0.5)
        environment = GaussianEnvironment(problem, [0.5, -0.5])
        for cls in EVERY:
            found = cls(problem, max_pulls=3000).compiled_run(
                environment, np.random.default_rng(1), None
            )
            assert found is not None
            assert found.pulls[1] == found.pulls[3] == 0
            assert found.answer == "a"
    assert [str(entry.message) for entry in caught] == [
        "features of arm 'b' are all zero: it is never pulled"
    ]


# ------------------------------------------------------------------- ill-conditioned


def nearly_dependent(width: float) -> Problem:
    return Problem([[1.0, 1.0], [1.0, 1.0 + width], [1.0, 1.0 - width]], noise_std=1.0)


@pytest.mark.parametrize("cls", EVERY)
def test_nearly_dependent_features_are_warned_of_and_told_apart_all_the_same(
    cls: type[Policy],
) -> None:
    problem = nearly_dependent(1e-7)
    policy = cls(problem)
    theta = [0.0, 3e7]
    found = policy.compiled_run(
        GaussianEnvironment(problem, theta), np.random.default_rng(0), 20_000
    )
    assert found is not None
    assert found.answer == "1"
    assert "IllConditioned" in policy.progress().details["warnings"][0]
    tame = cls(nearly_dependent(1e-3))
    tame.compiled_run(GaussianEnvironment(tame.problem, [0.0, 3e3]), np.random.default_rng(0), 50)
    assert "warnings" not in tame.progress().details


def test_the_condition_is_that_of_the_scaled_gram_matrix() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(5, 3)) * [1e-3, 1.0, 1e4]
    pulls = np.array([3, 0, 2, 8, 1])
    gram = (features.T * pulls) @ features
    scaled = gram / np.sqrt(np.outer(np.diag(gram), np.diag(gram)))
    wanted = np.linalg.cond(scaled)
    assert Problem(features, noise_std=1.0).condition(pulls) == pytest.approx(wanted)
    assert Problem(features, noise_std=1.0).condition([1, 1, 0, 0, 0]) == math.inf
    with raises(InvalidArgument, "pulls"):
        Problem(features, noise_std=1.0).condition([1, 1])


@settings(max_examples=effort.runs(20, whole=40))
@given(st.integers(0, 10_000), st.integers(1, 5))
def test_the_whitener_from_rows_is_the_one_from_the_gram_matrix(seed: int, rank: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(rank + 3, rank))
    weights = rng.integers(0, 5, size=rank + 3).astype(float)
    weights[:rank] += 1.0
    plain, rotated = np.zeros((rank, rank)), np.full((rank, rank), np.nan)
    assert whitener((rows.T * weights) @ rows, plain)
    assert whitener_of_rows(rows, weights, rotated)
    assert np.abs(rotated) == pytest.approx(np.abs(plain), rel=1e-6, abs=1e-9)


def test_the_whitener_from_rows_keeps_the_digits_that_the_gram_matrix_loses() -> None:
    rows = np.array([[1.0, 1.0], [1.0, 1.0 + 1e-9]])
    root = np.zeros((2, 2))
    assert not whitener(rows.T @ rows, root)
    assert whitener_of_rows(rows, np.ones(2), root)
    # The inverse of rows.T @ rows: the last entry is 2 / det, with det the square of 1e-9.
    assert (root.T @ root)[1, 1] == pytest.approx(2e18, rel=1e-6)
    assert not whitener_of_rows(np.ones((2, 2)), np.ones(2), root)


# ------------------------------------------------------------------------- invariance


def pulls_of(policy: Policy, rewards: np.ndarray, most: int) -> list[int]:
    """The actions chosen if the n-th reward of an arm is given beforehand."""
    drawn = np.zeros(len(rewards), dtype=int)
    actions = []
    while len(actions) < most and not policy.stopped:
        pull = policy.ask()
        actions.append(pull.action)
        policy.tell(pull, rewards[pull.action, drawn[pull.action]])
        drawn[pull.action] += 1
    return actions


def ordered(cls: type[Policy], problem: Problem) -> Policy:
    """Return a policy that draws nothing at random."""
    return cls(problem, randomize=False) if cls is BlockBetting else cls(problem, seed=0)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([BlockBetting, LinGapE, LinGame, GAllocation]))
def test_order_rotation_and_units_of_the_features_change_nothing(
    seed: int, cls: type[Policy]
) -> None:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(6, 3))
    rewards = (features @ rng.normal(size=3))[:, None] + 0.3 * rng.normal(size=(6, 150))
    wanted = pulls_of(ordered(cls, Problem(features, noise_std=0.3)), rewards, 150)
    rotation = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    for other in (features @ rotation, 1e4 * features, features @ rotation * [1e-3, 1.0, 7.0]):
        assert pulls_of(ordered(cls, Problem(other, noise_std=0.3)), rewards, 150) == wanted
    order = rng.permutation(6)
    permuted = pulls_of(ordered(cls, Problem(features[order], noise_std=0.3)), rewards[order], 150)
    # The learner of LinGame starts from a tie of all arms: its path depends on their order.
    if cls is not LinGame and (len(wanted) < 150 or len(permuted) < 150):
        # Arms that are due together come in the given order, so only the totals are the same.
        totals = (np.bincount(order[permuted], minlength=6), np.bincount(wanted, minlength=6))
        assert np.abs(totals[0] - totals[1]).max() <= (2 if cls is GAllocation else 0)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([LinGapE, BlockBetting]))
def test_a_column_that_depends_on_others_changes_nothing(seed: int, cls: type[Policy]) -> None:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(5, 2))
    more = np.column_stack([features, features @ [0.5, -2.0], np.zeros(5)])
    rewards = (features @ [1.0, 0.5])[:, None] + 0.3 * rng.normal(size=(5, 100))
    plain, flat = (Problem(rows, noise_std=0.3) for rows in (features, more))
    assert flat.rank == 2
    assert pulls_of(ordered(cls, plain), rewards, 100) == pulls_of(ordered(cls, flat), rewards, 100)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 3), st.booleans())
def test_certificates_enclose_the_optimum_of_a_conic_solver(
    seed: int, rank: int, flat: bool
) -> None:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(5, rank))
    features = np.vstack([features, features[:1]])
    theta = rng.normal(size=rank)
    if flat:
        features = np.column_stack([features, features.sum(axis=1)])
        theta = np.append(theta, 0.0)
    problem = Problem(features, noise_std=1.0)
    arms, candidates = problem.reduced.arms, problem.reduced.unit * problem.reduced.candidates
    values = features[:5] @ theta
    best = int(values.argmax())
    others = np.delete(np.arange(5), best)
    if np.delete(values, best).max() > values[best] - 0.05:
        return
    gaps = (values[best] - values[others])[:, None]
    for design, rows in (
        (xy_optimal_design(problem, tol=1e-3), all_pairs(candidates)),
        (oracle_design(problem, theta, tol=1e-3), (candidates[best] - candidates[others]) / gaps),
        (g_optimal_design(problem, tol=1e-3), arms),
    ):
        optimum = conic_optimum(arms, rows)
        assert design.lower <= optimum * (1 + 1e-6)
        assert optimum <= design.value * (1 + 1e-6)
        assert design.gap <= 1e-3 * (1 + 1e-9)
