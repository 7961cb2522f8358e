"""Environments: what they draw and what they know."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

from fairtrial.data import direct_arylation
from fairtrial.errors import InvalidArgument, InvalidOutcome, NotSupported
from fairtrial.linear import (
    BernoulliEnvironment,
    GaussianEnvironment,
    Problem,
    ReplayEnvironment,
)
from tests.messages import raises

ROWS = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 1.0]]
LABELS = ["a", "b", "c", "d"]
THETA = [0.3, 0.2]  # values .3, .2, .5, .2


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
@pytest.mark.parametrize("tolerance", [0.0, 0.1, 0.2])
def test_acceptable_are_the_answers_within_epsilon(direction: str, tolerance: float) -> None:
    problem = Problem(ROWS, arms=LABELS, noise_std=1.0, tolerance=tolerance, direction=direction)
    truth = GaussianEnvironment(problem, THETA).truth
    wanted = {
        ("maximize", 0.0): "c", ("maximize", 0.1): "c", ("maximize", 0.2): "ac",
        ("minimize", 0.0): "bd", ("minimize", 0.1): "abd", ("minimize", 0.2): "abd",
    }[direction, tolerance]  # fmt: skip
    assert set(truth.acceptable) == set(wanted)
    assert truth.best == ("c" if direction == "maximize" else "b")
    assert truth.means.tolist() == pytest.approx([0.3, 0.2, 0.5, 0.2])


@pytest.mark.parametrize("tolerance", [0.0, 0.1])
def test_top_answers_are_right_in_any_order_and_of_distinct_candidates(tolerance: float) -> None:
    problem = Problem(ROWS, arms=LABELS, noise_std=1.0, top=2, tolerance=tolerance)
    truth = GaussianEnvironment(problem, THETA).truth
    assert truth.best == ("c", "a")
    values = dict(zip(LABELS, [0.3, 0.2, 0.5, 0.2], strict=True))
    for size in (1, 2, 3):
        for answer in itertools.product(LABELS, repeat=size):
            distinct = len(set(answer)) == size == 2 and set(answer) != {"b", "d"}
            good = all(values[label] >= 0.3 - tolerance - 1e-9 for label in answer)
            assert truth.accepts(answer) == (distinct and good), answer
    assert not truth.accepts("ca")
    assert not truth.accepts(None)
    assert not truth.accepts(("c", "elsewhere"))


def test_candidates_have_values_and_arms_have_means() -> None:
    problem = Problem(ROWS, candidates=[[2, 0], [0, 4]], answers=["p", "q"], noise_std=1.0)
    truth = GaussianEnvironment(problem, THETA).truth
    assert truth.best == "q"
    assert truth.details["values"].tolist() == pytest.approx([0.6, 0.8])
    assert truth.means.size == 4


@pytest.mark.statistical
def test_draws_have_the_stated_means_and_deviations() -> None:
    draws = 4_000  # tolerance: 5 standard errors of a mean, and of a deviation
    gaussian = Problem(ROWS, noise_std=[0.5, 1.0, 2.0, 1.0])
    table = {"arm": [0, 1, 2, 3, 3], "reward": [0.3, 0.2, 0.9, 0.1, 0.5]}
    environments = [
        GaussianEnvironment(gaussian, THETA),
        GaussianEnvironment(gaussian, THETA, std=0.3),
        BernoulliEnvironment(Problem(ROWS, reward_range=(0, 1)), THETA),
        ReplayEnvironment(gaussian, table, noise_std=0.4),
        ReplayEnvironment(gaussian, table),
    ]
    for environment in environments:
        generator = np.random.default_rng(1)
        for action in range(4):
            pull = environment.problem.pull(arm=str(action))
            sample = np.array([environment.sample(pull, generator) for _ in range(draws)])
            spread = environment.arm_stds[action]
            error = 5 * spread / math.sqrt(draws) + 1e-12
            assert abs(sample.mean() - environment.arm_means[action]) < error
            assert abs(sample.std() - spread) < error


def test_replay_knows_what_was_measured_though_it_is_not_linear() -> None:
    problem = Problem(ROWS, arms=LABELS, noise_std=1.0)
    table = pd.DataFrame({"row": list("aabcd"), "gain": [0.0, 1.0, 0.7, 0.1, 0.2]})
    environment = ReplayEnvironment(problem, table, "row", "gain")
    assert environment.truth.best == "b"
    assert environment.truth.acceptable == ("b",)
    fitted, *_ = np.linalg.lstsq(np.array(ROWS), np.array([0.5, 0.7, 0.1, 0.2]), rcond=None)
    assert environment.theta == pytest.approx(fitted)


def test_candidates_that_cannot_be_pulled_may_be_measured_in_the_table() -> None:
    problem = Problem(ROWS, candidates=[[2, 0], [0, 4]], answers=["p", "a"], arms=LABELS,
                      noise_std=1.0)  # fmt: skip
    rows = {"arm": [*LABELS, "p"], "reward": [0.1, 0.2, 0.3, 0.4, 0.9]}
    assert ReplayEnvironment(problem, rows).truth.details["values"].tolist() == [0.9, 0.1]
    fewer = {name: column[:4] for name, column in rows.items()}
    with raises(NotSupported):
        ReplayEnvironment(problem, fewer).truth  # noqa: B018


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda p: GaussianEnvironment(p, [1.0]), "theta"),
        (lambda p: GaussianEnvironment(p, [1.0, math.nan]), "theta[1]"),
        (lambda p: GaussianEnvironment(p, THETA, std=-1.0), "std"),
        (lambda p: BernoulliEnvironment(p, [0.9, 0.2]), "theta"),
        (lambda p: ReplayEnvironment(p, {"arm": ["a"], "reward": [1]}), "table"),
        (lambda p: ReplayEnvironment(p, {"arm": ["z"], "reward": [1]}), "table row 0"),
        (lambda p: ReplayEnvironment(p, {"arm": ["a"]}), "table"),
        (lambda p: ReplayEnvironment(p, {"arm": ["a"], "reward": []}), "table"),
    ],
)
def test_environments_refuse_what_does_not_fit(make, name: str) -> None:
    with raises(InvalidArgument, name):
        make(Problem(ROWS, arms=LABELS, noise_std=1.0))


def test_environments_respect_the_range_of_rewards() -> None:
    bounded = Problem(ROWS, arms=LABELS, reward_range=(0, 1))
    table = {"arm": LABELS, "reward": [0.1, 0.2, 0.3, 1.4]}
    with raises(InvalidOutcome, "table row 3: reward", given=1.4):
        ReplayEnvironment(bounded, table)
    with raises(InvalidArgument, "noise_std"):
        ReplayEnvironment(bounded, {"arm": LABELS, "reward": [0, 0, 0, 1]}, noise_std=0.1)
    with raises(InvalidArgument, "problem"):
        GaussianEnvironment(bounded, THETA)
    with raises(InvalidOutcome):
        BernoulliEnvironment(Problem(ROWS, reward_range=(0.5, 1)), THETA)


def test_reactions_measured_and_fitted_have_different_winners() -> None:
    table = direct_arylation()
    problem = Problem(table["features"], arms=table["arm"], noise_std=0.156)
    environment = ReplayEnvironment(problem, table, noise_std=0.156)
    assert problem.rank == 20
    assert environment.truth.best == table["arm"][1552]
    fitted = problem.values(environment.theta)
    assert int(fitted.argmax()) == 785
    assert fitted[785] == pytest.approx(0.7365, abs=1e-4)
    assert int((fitted > fitted[1552]).sum()) + 1 == 20


def test_candidates_within_reach_of_the_best_are_interchangeable() -> None:
    features = [[1, 0], [0, 1], [0.9, 0.1], [1, 0]]
    clear = GaussianEnvironment(Problem(features[:3], noise_std=1.0), [0.2, 0.8])
    assert clear.truth.interchangeable == ()
    tied = GaussianEnvironment(Problem(features[:3], noise_std=1.0), [0.5, 0.5])
    assert tied.truth.interchangeable == ("0", "1", "2")
    two = Problem(features, noise_std=1.0, top=2)
    # Arms 0 and 3 are one answer with two names; with the third best there is no choice.
    assert GaussianEnvironment(two, [0.9, 0.2]).truth.interchangeable == ()
    assert GaussianEnvironment(two, [0.5, 0.5]).truth.interchangeable == ("0", "1", "2", "3")
    named = [(features[:3], [0.2, 0.8]), (features[:3], [0.5, 0.5])]
    assert [
        GaussianEnvironment(Problem(rows, noise_std=1.0), theta).truth.tied for rows, theta in named
    ] == [False, True]
    # Two names of the best arm do not tie, either.
    twice = Problem([[1, 0], [0, 1], [1, 0]], noise_std=1.0)
    assert not GaussianEnvironment(twice, [0.9, 0.2]).truth.tied
    assert [GaussianEnvironment(two, theta).truth.tied for theta in ([0.9, 0.2], [0.5, 0.5])] == [
        False,
        True,
    ]
