"""Check that an environment keeps the contract of `fairtrial.core.Environment`."""

from __future__ import annotations

import numpy as np

from fairtrial.core.contract import check_members
from fairtrial.core.environment import Environment, Trajectory
from fairtrial.core.keywords import named_arguments
from fairtrial.core.pull import Pull
from fairtrial.core.validation import check_instance, check_integer
from fairtrial.errors import NotSupported

__all__ = ["check_environment"]


@named_arguments
def check_environment(environment: Environment, draws: int = 20, seed: int = 0) -> None:
    """Check that outcomes are valid, depend only on the generator, and fit the stated truth.

    Parameters
    ----------
    environment : Environment
        The environment; it is not changed.
    draws : int
        Number of outcomes to draw for every action.
    seed : int
        Source of the randomness.

    Raises
    ------
    AssertionError
        If the environment breaks the contract; the message says where.

    Examples
    --------
    >>> from fairtrial.subpopulations import GaussianEnvironment, Problem
    >>> problem = Problem(["a", "b"], ["x"], noise_std=1.0)
    >>> check_environment(GaussianEnvironment(problem, [[0.1], [0.3]]))
    """
    check_instance("environment", environment, Environment)
    check_members(environment, Environment, "environment")
    check_integer("draws", draws, low=1)
    first, second = (_drawn(environment, draws, seed) for _ in range(2))
    assert first == second, "equal generators must give equal outcomes, contexts and delays"
    for path in first:
        _check_trajectory(environment, path)
    _check_truth(environment)


def _drawn(environment: Environment, draws: int, seed: int) -> list[Trajectory]:
    generator = np.random.default_rng(seed)
    run = environment.begin(generator)
    problem, drawn = environment.problem, []
    for number in range(draws * problem.n_actions):
        run.context(generator)
        action = number % problem.n_actions
        pull = Pull(number, action, problem.labels(action))
        drawn.append(run.trajectory(pull, generator))
    return drawn


def _check_trajectory(environment: Environment, path: Trajectory) -> None:
    assert path.delay >= 0.0, f"a delay must not be negative; got {path.delay!r}"
    if path.outcome is not None:
        environment.problem.check_outcome(path.outcome)
    last = 0.0
    for reading in path.readings:
        environment.problem.check_reading(reading.value)
        assert last <= reading.elapsed <= path.delay, (
            "readings must come in the order of time, and not after the outcome"
        )
        last = reading.elapsed


def _check_truth(environment: Environment) -> None:
    try:
        truth = environment.truth
    except NotSupported:
        return
    assert truth.accepts(truth.best), "truth.accepts must accept truth.best"
    assert np.isfinite(truth.means).all(), "truth.means must be finite"
