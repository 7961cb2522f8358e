"""The stated reason for an answer is what was shown, in every family that stops by itself."""

import numpy as np
import pytest

import fairtrial as ft


def best_of_floors(margin):
    problem = ft.subpopulations.Problem(
        ["a", "b"],
        ["g", "h"],
        group_weights=[0.5, 0.5],
        floors=0.0,
        noise_std=0.1,
        tolerance=margin,
    )
    return ft.subpopulations.BalancedTracking(problem, delta=0.1)


def best_of_features(margin):
    problem = ft.linear.Problem(np.eye(2), arms=["a", "b"], noise_std=0.1, tolerance=margin)
    return ft.linear.BlockBetting(problem, delta=0.1)


def best_of_late(margin):
    problem = ft.delayed.Problem(["a", "b"], noise_std=0.1, tolerance=margin)
    return ft.delayed.InformationRacing(problem, delta=0.1)


def best_of_blocks(margin):
    problem = ft.delayed.Problem(["a", "b"], reward_range=(0.0, 1.0), tolerance=margin)
    return ft.delayed.PairedRacing(problem, delta=0.1)


def decided(policy):
    """Tell 1 of arm "a" and 0 of arm "b", until the policy stops; return its answer."""
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, float(pull.arm == "a"))
    return policy.recommend()


@pytest.mark.parametrize(
    "best_of", [best_of_floors, best_of_features, best_of_late, best_of_blocks]
)
def test_an_answer_that_may_fall_short_of_the_best_says_by_how_much(best_of):
    assert "or within 0.25 of" in decided(best_of(0.25)).reason
    assert "within" not in decided(best_of(0.0)).reason


def test_guarantees_say_which_answers_are_right():
    assert "within 0.25 of the best is right" in best_of_floors(0.25).guarantee.statement
    assert "within 0.25 of the best is right" in best_of_features(0.25).guarantee.statement
    assert "within 0.25" in best_of_late(0.25).guarantee.statement


def test_the_best_few_are_counted():
    problem = ft.linear.Problem(
        np.eye(3), arms=["a", "b", "c"], noise_std=0.1, top=2, tolerance=0.25
    )
    answer = decided(ft.linear.BlockBetting(problem, delta=0.1))
    assert "are the best 2, or within 0.25 of them" in answer.reason


def test_limits_that_may_be_missed_are_said_to_be_missed_by_so_much():
    problem = ft.subpopulations.Problem(
        ["a", "b"], ["g"], group_weights=[1.0], floors=0.5, noise_std=0.1, floor_tolerance=0.05
    )
    policy = ft.subpopulations.BalancedTracking(problem, delta=0.1)
    assert "keeps all its floors to within 0.05" in decided(policy).reason
    none = problem.clone(floors=5.0)
    policy = ft.subpopulations.BalancedTracking(none, delta=0.1)
    assert decided(policy).reason.endswith("no arm keeps all its floors by 0.05")
