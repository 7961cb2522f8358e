"""Warnings name the line of the user's program, however deep in the package their cause is."""

import warnings

import numpy as np
import pytest

import fairtrial as ft

MODEL = ft.causal.CausalModel(
    [("S", "V"), ("V", "Y")], {"S": ["s", "t"], "V": 2, "Y": 2}, {"S": [0.4, 0.6]}
)
ARMS = {"now": [[0.5, 0.5], [0.4, 0.6]], "new": [[0.2, 0.8], [0.2, 0.8]]}


def question(bound=0.05, arms=ARMS):
    return ft.causal.Problem(
        MODEL, "S", "V", "Y", arms=arms, fairness_bound=bound, outcome_range=(0, 1)
    )


def rows(value, number=80):
    """Rows of the arm "now" that it never gives: V is always the same."""
    return {
        name: [value_of] * number
        for name, value_of in {"arm": "now", "S": "s", "V": value, "Y": 1}.items()
    }


def estimated():
    ft.causal.estimate(question(), rows("1"))


def read():
    ft.causal.read(question(), rows("1"))


def without_overlap():
    certain = {"now": [[1, 0], [1, 0]], "new": [[0, 1], [0, 1]]}
    problem = question(arms=certain).clone(costs=[0, 1], mean_budget=0.0)
    ft.causal.BlockBetting(problem)


def planned_without_overlap():
    swapped = {"a": [[1, 0], [0, 1]], "b": [[0, 1], [1, 0]]}
    problem, _ = ft.causal.chain(0.4, swapped, [0.1, 0.9], 0.2)
    ft.causal.PlugIn(problem, budget=20).ask()


def loose():
    question(bound=2.0)


def idle():
    ft.allocation.Problem(["a", "b"], {"a": 1})


def zero_features():
    ft.linear.Problem(np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]), noise_std=1.0)


def analysed():
    problem = ft.subpopulations.Problem(["a", "b"], groups=1, reward_range=(0, 1))
    table = {"arm": ["a", "a ", "b", "b"], "reward": [0, 1, 0, 1], "turn": [1, 2, 3, 4]}
    ft.analyse(problem, table, order="turn", outcome="reward")


@pytest.mark.parametrize(
    "call",
    [
        estimated,
        read,
        without_overlap,
        planned_without_overlap,
        loose,
        idle,
        zero_features,
        analysed,
    ],
    ids=lambda call: call.__name__,
)
def test_a_warning_names_the_line_that_called_the_package(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert caught
    assert {one.filename for one in caught} == {__file__}
