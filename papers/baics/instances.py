"""The environments of the tables with the reference's complexities, each defined once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np

from fairtrial.core.tables import read_table
from fairtrial.subpopulations import (
    BernoulliEnvironment,
    GaussianEnvironment,
    Problem,
    ReplayEnvironment,
)
from fairtrial.subpopulations.planning import Complexity, complexity

__all__ = [
    "CLICKS",
    "E1",
    "E2",
    "NONE_FEASIBLE",
    "THREE_EQUAL_ARMS",
    "TRAP",
    "Instance",
    "bounded_nulls",
    "coins",
    "email",
    "hard_nulls",
    "plain_environments",
    "trial",
    "with_noise_known",
]

CellEnvironment = GaussianEnvironment | BernoulliEnvironment | ReplayEnvironment

SMALL = 1e-6
"""The gap of a hard null, too small for any test."""

_STEPS_OF_UNIFORM = 2_000
_LEAST_LIFT = 0.01


@dataclass(frozen=True, eq=False)
class Instance:
    """One environment, and its complexity according to the reference.

    Parameters
    ----------
    name : str
        Its name in the tables.
    environment : GaussianEnvironment, BernoulliEnvironment or ReplayEnvironment
        The environment; it holds the problem.
    characteristic_time : float, optional
        T* according to the reference, for Gaussian rewards with the true standard deviations.
    precision : float
        Relative precision of the reference; most of its values are integers, from a maximisation
        that errs on the high side.
    """

    name: str
    environment: CellEnvironment
    characteristic_time: float | None = None
    precision: float = 1.0

    @property
    def problem(self) -> Problem:
        """The problem."""
        return self.environment.problem

    def complexity(self, arrivals: tuple[float, ...] | None = None) -> Complexity:
        """Return T* with the true standard deviations, certified to 1e-7."""
        return _complexity(self, arrivals)


@cache
def _complexity(instance: Instance, arrivals: tuple[float, ...] | None) -> Complexity:
    return complexity(instance.environment, tol=1e-7, arrivals=arrivals)


# --------------------------------------------------------------------------- the paper's


def _gaussian(
    name: str,
    means: Sequence[Sequence[float]],
    weights: Sequence[float] | None = None,
    floors: float | list[float] | None = 0.0,
    characteristic_time: float | None = None,
    precision: float = 1e-6,
) -> Instance:
    """Return an environment of normal rewards with standard deviation 1."""
    problem = Problem(
        [f"arm {k + 1}" for k in range(len(means))],
        [f"group {column + 1}" for column in range(len(means[0]))],
        group_weights=weights,
        floors=floors,
        noise_std=1.0,
    )
    environment = GaussianEnvironment(problem, means)
    return Instance(name, environment, characteristic_time, precision)


E1 = _gaussian(
    "E1",
    [[0.2, 0.6, 0.8], [0.4, 0.4, 0.3], [-0.2, 1.0, 1.5]],
    weights=[0.2, 0.3, 0.5],
    characteristic_time=190.883590,
    precision=1.9e-4,
)
"""The paper's first example: the best arm overall fails one group."""

E2 = _gaussian(
    "E2",
    [[-0.2, 0.4, 1.2], [0.2, 0.6, 0.6], [0.3, 0.3, 0.6], [-0.6, 0.8, 0.4]],
    characteristic_time=16_700 / 9,
    precision=1.9e-3,
)
"""The paper's second example: two arms tie overall, one of them fails a group."""

NONE_FEASIBLE = _gaussian("N", [[-0.4, 0.6, 0.7], [0.8, -0.3, -0.5]], characteristic_time=20.5)
"""No arm is feasible."""

_NINE_FLOORS = [*[0.0] * 9, -math.inf]

TRAP = _gaussian("B", [[1.0] * 10, [0.01] * 9 + [60.0]], floors=_NINE_FLOORS)
"""This breaks the stylised rule: nine groups of the right arm are just above their floors."""

THREE_EQUAL_ARMS = _gaussian("three equal arms", [[1.0] * 3] * 3)
"""There is nothing to find: a rule with a valid guarantee hardly ever stops."""


# ------------------------------------------------------------------------ rewards in a range


@cache
def trial(outcome: Literal["cd4", "event_free"], floor: float) -> Instance:
    """Return the ACTG 175 HIV trial as an experiment, replayed with replacement."""
    from fairtrial.data import actg175

    reward_range = (-1.0, 1.0) if outcome == "cd4" else (0.0, 1.0)
    problem = Problem(
        ["zdv", "zdv_ddi", "zdv_ddc", "ddi"],
        {"naive": 0.414, "upto52w": 0.192, "over52w": 0.394},
        floors=floor,
        reward_range=reward_range,
    )
    environment = ReplayEnvironment(problem, actg175(outcome), group="stratum")
    title = {"cd4": "trial, CD4 gain", "event_free": "trial, event-free"}[outcome]
    times = {("cd4", 0.0): 208.0, ("event_free", 0.75): 5884.0, ("event_free", 0.78): 1018.0}
    return Instance(f"{title}, floor {floor:g}", environment, times.get((outcome, floor)))


CLICKS = Instance(
    "clicks, floor .035",
    BernoulliEnvironment(
        Problem(3, 3, floors=0.035, reward_range=(0, 1)),
        [[0.04, 0.05, 0.06], [0.05, 0.06, 0.07], [0.03, 0.04, 0.05]],
    ),
    characteristic_time=4341.0,
)
"""Click rates in three groups: the second arm is right, the third infeasible."""


def email(path: str | Path) -> Instance:
    """Return Hillstrom's e-mail campaign: visits, with floors .01 above each group's own rate.

    Parameters
    ----------
    path : str or Path
        The table, a .csv or .csv.gz file with the columns segment, bought, newbie and visit. Its
        licence does not allow us to ship it.
    """
    table = read_table(path, ["segment", "bought", "newbie", "visit"], text=["newbie"])
    groups = [
        f"{bought}/{new}" for bought, new in zip(table["bought"], table["newbie"], strict=True)
    ]
    visits = np.array(table["visit"])
    unmailed = np.array(table["segment"]) == "no_mail"
    sizes = {name: groups.count(name) for name in sorted(set(groups))}
    base = [visits[unmailed & (np.array(groups) == name)].mean() for name in sizes]
    problem = Problem(
        ["mens_mail", "womens_mail", "no_mail"],
        sizes,
        floors=np.array(base) + _LEAST_LIFT,
        reward_range=(0, 1),
    )
    rows = {"arm": table["segment"], "group": groups, "reward": table["visit"]}
    return Instance(
        "e-mail visits, floor base + .01",
        ReplayEnvironment(problem, rows),
        characteristic_time=1153.0,
    )


def coins(name: str, rates: Sequence[float], characteristic_time: float | None = None) -> Instance:
    """Return plain arms without groups and floors, with rewards 1 or 0."""
    environment = BernoulliEnvironment(_plain(len(rates)), np.reshape(rates, (-1, 1)))
    return Instance(name, environment, characteristic_time)


def _plain(arms: int) -> Problem:
    return Problem(arms, 1, floors=None, reward_range=(0, 1))


def _replay(name: str, cells: Sequence[Sequence[float]], time: float, problem: Problem) -> Instance:
    """Return an environment of plain arms that draw from lists of equally likely rewards."""
    return Instance(name, _replayed(problem, cells), time)


def _replayed(problem: Problem, cells: Sequence[Sequence[float]]) -> ReplayEnvironment:
    """Return an environment in which flat cell i draws uniformly from ``cells[i]``."""
    labels = problem.action_labels
    rows = [(labels[i], reward) for i, cell in enumerate(cells) for reward in cell]
    return ReplayEnvironment(
        problem,
        {
            "arm": [label["arm"] for label, _ in rows],
            "group": [label["group"] for label, _ in rows],
            "reward": [reward for _, reward in rows],
        },
    )


def _uniform(low: float, high: float) -> list[float]:
    """Return rewards that are almost uniform on [low, high]."""
    steps = (np.arange(_STEPS_OF_UNIFORM) + 0.5) / _STEPS_OF_UNIFORM
    rewards: list[float] = (low + (high - low) * steps).tolist()
    return rewards


@cache
def plain_environments() -> tuple[Instance, ...]:
    """Return the environments of plain arms with rewards in [0, 1]."""
    narrow = [_uniform(mean - 0.25, mean + 0.25) for mean in (0.5, 0.45, 0.45, 0.4, 0.4)]
    wide = [_uniform(0.0, 1.0), _uniform(0.05, 0.85), _uniform(0.0, 0.8)]
    two_points = [[0.5] * high + [0.3] * (10 - high) for high in (6, 5, 4)]
    return (
        coins("coins .5 .4 .4 .3 .3", [0.5, 0.4, 0.4, 0.3, 0.3], 308.0),
        coins("coins .9 .8 .7", [0.9, 0.8, 0.7], 110.0),
        coins("coins .06 .03 .02 .02", [0.06, 0.03, 0.02, 0.02], 442.0),
        _replay("uniform, width .5: .5 .45 .45 .4 .4", narrow, 106.0, _plain(5)),
        _replay("uniform, width 1: .5; width .8: .45 .4", wide, 228.0, _plain(3)),
        _replay("two points .3 and .5: .42 .40 .38", two_points, 210.0, _plain(3)),
    )


@cache
def with_noise_known(instance: Instance) -> Instance:
    """Return the same environment for a rule that knows the largest true standard deviation."""
    environment = instance.environment
    largest = float(np.max(environment.cell_stds))
    problem = instance.problem.clone(reward_range=None, noise_std=largest)
    return Instance(instance.name, environment.clone(problem=problem), instance.characteristic_time)


# ------------------------------------------------------------------------------ hard nulls


def _two(first: Sequence[float], second: Sequence[float]) -> list[list[float]]:
    return [list(first), list(second)]


def _null_means() -> dict[str, tuple[list[list[float]], float | list[float] | None]]:
    """Return means and floors of the hard nulls with known noise."""
    almost = [1.0, 1.0, 1.0, 1.0, -SMALL]
    just = [1.0, 1.0, 1.0, 1.0, SMALL]
    return {
        "two arms, gap 1e-6": ([[SMALL], [0.0]], None),
        "eight arms, gap 1e-6": ([[SMALL], *[[0.0]] * 7], None),
        "B": (_two([1.0] * 10, [0.01] * 9 + [60.0]), _NINE_FLOORS),
        "B with .01 -> 1e-6": (_two([1.0] * 10, [SMALL] * 9 + [60.0]), _NINE_FLOORS),
        "three equal arms": ([[1.0] * 3] * 3, 0.0),
        "answer on all its floors": (_two([0.0] * 5, [-1.0] * 5), 0.0),
        "better arm infeasible by 1e-6": (_two(almost, [0.5] * 5), 0.0),
        "better arm feasible by 1e-6": (_two(just, [0.5] * 5), 0.0),
        "none, all short by 1e-6": ([almost] * 3, 0.0),
    }


@cache
def hard_nulls(noise: Literal["normal", "coins"]) -> tuple[Instance, ...]:
    """Return environments in which a rule with a valid guarantee hardly ever stops.

    Parameters
    ----------
    noise : {"normal", "coins"}
        Normal noise, or a fair coin that adds or subtracts 1; both are sub-Gaussian with scale 1.
    """
    environments = []
    for name, (means, floors) in _null_means().items():
        problem = Problem(len(means), len(means[0]), floors=floors, noise_std=1.0)
        if noise == "normal":
            environments.append(Instance(name, GaussianEnvironment(problem, means)))
        else:
            flips = [[mean - 1.0, mean + 1.0] for row in means for mean in row]
            environments.append(Instance(name, _replayed(problem, flips)))
    return tuple(environments)


@cache
def bounded_nulls() -> tuple[Instance, ...]:
    """Return hard nulls with rewards in [0, 1]."""
    return (
        _coin_null("two arms, fair coins, gap 1e-6", [[0.5 + SMALL], [0.5]], None),
        _coin_null("three arms x 2 groups, coins .05, tied", [[0.05] * 2] * 3, 0.025),
        _coin_null("answer on all its floors, coins .05", _two([0.05] * 4, [0.01] * 4), 0.05),
        _coin_null("answer on all its floors, coins .9", _two([0.9] * 4, [0.8] * 4), 0.9),
        _coin_null("answer on its floor, gains 2 % of 1", _two([0.02] * 2, [0.001] * 2), 0.02),
        _coin_null(
            "better arm infeasible by 1e-6, losses 2 % of 0",
            _two([0.98 - SMALL, 1.0], [0.985, 0.985]),
            0.98,
        ),
        _coin_null("two arms, rare losses, gap 1e-6", [[0.98 + SMALL], [0.98]], None),
        _coin_null("none, all short by 1e-6, coins", [[0.5 - SMALL, 0.8]] * 3, 0.5),
        _coin_null(
            "better arm feasible by 1e-6, coins .1", _two([0.1 + SMALL, 0.3], [0.15] * 2), 0.1
        ),
    )


def _coin_null(name: str, rates: Sequence[Sequence[float]], floor: float | None) -> Instance:
    problem = Problem(len(rates), len(rates[0]), floors=floor, reward_range=(0, 1))
    return Instance(name, BernoulliEnvironment(problem, rates))
