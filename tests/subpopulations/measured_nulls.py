"""The hardest questions on several measures: a right answer must not be ruled out.

Answers are exactly on their limits, better arms break a limit by a millionth, arms tie, measures
are equal or opposite, or values are missing where this hurts.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fairtrial.core.draws import VectorSource
from fairtrial.subpopulations import (
    OVERALL,
    BernoulliEnvironment,
    BlockBetting,
    GaussianEnvironment,
    Problem,
)

TINY = 1e-6

CORNERS = np.array([[0, 0], [0, 1], [1, 0], [1, 1.0]])
"""The possible results of two coins."""


class Null(NamedTuple):
    """A question: its truth, the results of its pulls, and whether losses count as chance."""

    environment: Any
    source: Any = None
    losses: str = "informative"


class Shares(NamedTuple):
    """Shares of runs in which the right answer was ruled out, a wrong one given, or none."""

    rejected: float
    wrong: float
    undecided: float


class _Sourced(NamedTuple):
    source: Any


def shares_of(name: str, runs: int, *, delta: float = 0.1, pulls: int = 2_000) -> Shares:
    """Return the events in runs of at most that many pulls."""
    null = (BESIDE | NULLS)[name]()
    problem, right = null.environment.problem, null.environment.truth.acceptable
    # Several arms may be right: the proof applies to each of them.
    first = len(problem.arms) if right[0] is None else problem.arms.index(right[0])
    source = _Sourced(null.environment.source if null.source is None else null.source)
    rejected = wrong = undecided = 0
    for seed in range(runs):
        policy = BlockBetting(problem, delta=delta, losses=null.losses, seed=seed)
        assert policy._measured is not None
        policy._measured.run(source, 0.0, np.random.default_rng([seed, 1]), pulls)
        said = policy.recommend()
        rejected += bool(policy._rejected[first])
        wrong += policy.stopped and said.arm not in right
        undecided += not policy.stopped
    return Shares(rejected / runs, wrong / runs, undecided / runs)


# ------------------------------------------------------------------------------- bounded


def coins(cells: list[tuple[float, ...]], rho: Any, groups: int = 1, **limits: Any) -> Any:
    """Return coins, from their rates by arm, then group, and the correlations of two of them."""
    size = len(cells[0])
    problem = Problem(
        len(cells) // groups,
        groups,
        measures={f"m{i}": (0, 1) for i in range(size)},
        objective="m0",
        **limits,
    )
    means = np.array(cells).reshape(*problem.shape, size)
    correlation = None if rho is None else np.array(rho, dtype=float).reshape(problem.shape)
    return BernoulliEnvironment(problem, means, correlation=correlation)


def _plain(*arguments: Any, **limits: Any) -> Callable[[], Null]:
    return lambda: Null(coins(*arguments, **limits))


def _hidden(environment: Any, chances: np.ndarray, losses: str = "informative") -> Null:
    """Return a null whose second coin hides with a chance by arm and corner, shape (K, 4)."""
    arms = len(environment.problem.arms)
    points, shown = np.empty((arms, 8, 2)), np.empty((arms, 8))
    for arm, (p, r) in enumerate(environment.cell_means[:, 0]):
        joint = p * r + environment.cell_covariances[arm, 0, 0, 1]
        probabilities = np.array([1 - p - r + joint, r - joint, p - joint, joint])
        points[arm] = np.concatenate([CORNERS, np.where([[False, True]], np.nan, CORNERS)])
        hides = probabilities * chances[arm]
        shown[arm] = np.concatenate([probabilities - hides, hides])
    return Null(environment, VectorSource.points(points, shown), losses)


def half_of_the_harms_hide() -> Null:
    """The better arm is slightly short, and half of its harms are never reported."""
    environment = coins([(0.4, 0.1), (0.6, 0.3 + TINY)], [0.0, 0.3], ceilings={"m1": 0.3})
    return _hidden(environment, np.array([[0.0] * 4, [0.0, 0.5, 0.0, 0.5]]))


def a_quarter_of_the_good_values_hides() -> Null:
    """The answer is on its ceiling, and a quarter of its harmless values are never reported."""
    environment = coins([(0.4, 0.3), (0.3, 0.1)], [0.5, 0.0], ceilings={"m1": 0.3})
    return _hidden(environment, np.array([[0.25, 0.0, 0.25, 0.0], [0.0] * 4]))


def missing_by_chance() -> Null:
    """The answer is on its ceiling; 30 % of its harms are missing by chance, and drawn again."""
    environment = coins([(0.4, 0.3), (0.3, 0.1)], [0.5, 0.0], ceilings={"m1": 0.3})
    return _hidden(environment, np.array([[0.3] * 4, [0.0] * 4]), losses="ignorable")


BOUNDED: dict[str, Callable[[], Null]] = {
    "answer on two limits": _plain(
        [(0.3, 0.3)] * 2 + [(0.25, 0.1)] * 2,
        [0.5, 0.5, 0.0, 0.0],
        2,
        floors={"m0": 0.3},
        ceilings={"m1": 0.3},
    ),
    "answer on limits, floors by arm": _plain(
        [(0.4, 0.3), (0.3, 0.1)],
        [0.5, 0.0],
        floors={"m0": {"0": 0.4, "1": 0.2}},
        ceilings={"m1": 0.3},
    ),
    "better arm short by little": _plain(
        [(0.4, 0.1)] * 2 + [(0.6, 0.3 + TINY), (0.6, 0.1)],
        [0.0, 0.0, 0.3, 0.0],
        2,
        ceilings={"m1": 0.3},
    ),
    "better arm keeps three by nothing": _plain(
        [(0.5, 0.2, 0.2, 0.2), (0.3, 0.05, 0.1, 0.1)],
        None,
        ceilings={"m1": 0.2, "m2": 0.2, "m3": 0.2},
    ),
    "three arms, two of them tie": _plain(
        [(0.4, 0.1), (0.4, 0.1), (0.4, 0.2)], [0.3] * 3, ceilings={"m1": 0.3}
    ),
    "equal measures, both floors": _plain(
        [(0.3, 0.3), (0.28, 0.28)], [1.0] * 2, floors={"m0": 0.3, "m1": 0.3}
    ),
    "opposite measures, floor and ceiling": _plain(
        [(0.5, 0.5), (0.7, 0.3), (0.48, 0.52), (0.6, 0.4)],
        [-1.0] * 4,
        2,
        floors={"m0": 0.5},
        ceilings={"m1": 0.5},
    ),
    "opposite measures, both floors": _plain(
        [(0.5, 0.5), (0.45, 0.55)], [-1.0] * 2, floors={"m0": 0.5, "m1": 0.5}
    ),
    "overall ceiling on its border": _plain(
        [(0.5, 0.5), (0.5, 0.1)] + [(0.4, 0.1)] * 2,
        [0.5, 0.33, 0.0, 0.0],
        2,
        ceilings={("m1", OVERALL): 0.3},
    ),
    "overall ceiling broken by little": _plain(
        [(0.4, 0.1)] * 2 + [(0.5, 0.45 + 2 * TINY), (0.5, 0.15)],
        [0.0, 0.0, 0.5, 0.42],
        2,
        ceilings={("m1", OVERALL): 0.3},
    ),
    "rare harms, overall and in a group": _plain(
        [(0.3, 0.05), (0.3, 0.01)] + [(0.2, 0.01)] * 2,
        [0.2, 0.1, 0.0, 0.0],
        2,
        ceilings={("m1", "0"): 0.05, ("m1", OVERALL): 0.03},
    ),
    "all arms on their limits": _plain(
        [(0.3, 0.3), (0.3, 0.3), (0.3, 0.2), (0.3, 0.3), (0.3, 0.1), (0.3, 0.3)],
        [0.5, 0.5, 0.1, 0.5, 0.0, -0.42],
        2,
        floors={"m0": 0.3},
        ceilings={"m1": 0.3},
    ),
    "none, each short by little": _plain(
        [(0.3 - TINY, 0.2), (0.5, 0.1), (0.5, 0.1), (0.5, 0.3 + TINY)],
        [0.5, 0.0, 0.0, 0.2],
        2,
        floors={"m0": 0.3},
        ceilings={"m1": 0.3},
    ),
    "half of the harms hide": half_of_the_harms_hide,
    "a quarter of the good values hides": a_quarter_of_the_good_values_hides,
    "values missing by chance": missing_by_chance,
}


# --------------------------------------------------------------------------- known noise


def normal(rho: float, *, stated: bool) -> Null:
    """The answer is exactly on two floors, while a clearly feasible worse arm leads."""
    covariance = [[1.0, rho], [rho, 1.0]]
    noise: dict[str, Any] = (
        {"noise_cov": covariance} if stated else {"noise_std": {"m0": 1.0, "m1": 1.0}}
    )
    problem = Problem(
        2,
        1,
        measures=["m0", "m1"],
        objective="m0",
        floors={"m0": {"0": 0.0, "1": -1.0}, "m1": 0.0},
        **noise,
    )
    means = [[[0.0, 0.0]], [[-0.3, 1.0]]]
    return Null(GaussianEnvironment(problem, means, cov=covariance))


def _normal(rho: float, *, stated: bool) -> Callable[[], Null]:
    return lambda: normal(rho, stated=stated)


NORMAL: dict[str, Callable[[], Null]] = {
    f"normal, correlation {rho:g}, {known}": _normal(rho, stated=known == "covariance")
    for rho in (1.0, -1.0, 0.0)
    for known in ("covariance", "scales")
}

NULLS: dict[str, Callable[[], Null]] = {**BOUNDED, **NORMAL}


# --------------------------------------------------------------------- against a control


def _beside(*arguments: Any, **limits: Any) -> Callable[[], Null]:
    """Return coins; the first arm is the control, and small values of the second coin are good."""
    return _plain(*arguments, control="0", direction={"m1": "minimize"}, **limits)


def harmless_values_of_the_control_hide() -> Null:
    """The better arm is slightly short of a control half of whose harmless values are missing."""
    environment = coins(
        [(0.4, 0.2), (0.6, 0.3 + TINY)],
        [0.0, 0.3],
        control="0",
        direction={"m1": "minimize"},
        margin={"m1": 0.1},
    )
    return _hidden(environment, np.array([[0.5, 0.0, 0.5, 0.0], [0.0] * 4]))


def normal_beside(rho: float, *, stated: bool) -> Null:
    """The answer is exactly on both margins, and worse than a control that breaks a floor."""
    covariance = [[1.0, rho], [rho, 1.0]]
    noise: dict[str, Any] = (
        {"noise_cov": covariance} if stated else {"noise_std": {"m0": 1.0, "m1": 1.0}}
    )
    problem = Problem(
        3,
        1,
        measures=["m0", "m1"],
        objective="m0",
        direction={"m1": "minimize"},
        control="0",
        margin={"m0": 0.5, "m1": 0.5},
        floors={"m0": {"0": 0.0, "1": None, "2": None}},
        **noise,
    )
    means = [[[-TINY, 0.0]], [[-0.5 - TINY, 0.5]], [[-0.4, 0.5 + TINY]]]
    return Null(GaussianEnvironment(problem, means, cov=covariance))


def _normal_beside(rho: float, *, stated: bool) -> Callable[[], Null]:
    return lambda: normal_beside(rho, stated=stated)


BESIDE: dict[str, Callable[[], Null]] = {
    "answer on its margin in both groups": _beside(
        [(0.3, 0.2)] * 2 + [(0.4, 0.3)] * 2 + [(0.35, 0.1)] * 2,
        [0.3] * 6,
        2,
        margin={"m1": 0.1},
    ),
    "better arm short of a margin by little": _beside(
        [(0.4, 0.1), (0.6, 0.2 + TINY), (0.5, 0.15)], [0.3] * 3, margin={"m1": 0.1}
    ),
    "every rival short of the control": _beside(
        [(0.4, 0.1)] * 2
        + [(0.6, 0.2 + TINY), (0.6, 0.1)] * 2
        + [(0.6, 0.1), (0.3 - TINY, 0.1)]
        + [(0.5, 0.1), (0.5, 0.2 + TINY)],
        [0.0] * 10,
        2,
        margin={"m0": 0.1, "m1": 0.1},
    ),
    "two best arms tie on their margins": _beside(
        [(0.4, 0.2), (0.5, 0.3), (0.5, 0.3)], [0.3] * 3, margin={"m1": 0.1}
    ),
    "better by exactly enough": _beside(
        [(0.4, 0.2), (0.5, 0.2), (0.4, 0.1)], [0.3] * 3, superiority=0.1, margin={"m1": 0.1}
    ),
    "better by not quite enough": _beside(
        [(0.4, 0.2), (0.5 - TINY, 0.2), (0.5 - TINY, 0.1)], [0.3] * 3, superiority=0.1
    ),
    "overall margin on its border": _beside(
        [(0.4, 0.2)] * 2 + [(0.5, 0.35), (0.5, 0.25)] + [(0.45, 0.1)] * 2,
        [0.3] * 6,
        2,
        margin={("m1", OVERALL): 0.1},
    ),
    "on both margins, control infeasible": _beside(
        [(0.6 - TINY, 0.2), (0.5 - TINY, 0.3), (0.55, 0.3 + TINY)],
        [0.3] * 3,
        margin={"m0": 0.1, "m1": 0.1},
        floors={"m0": {"0": 0.6, "1": None, "2": None}},
    ),
    "none, against a control": _beside(
        [(0.5 - TINY, 0.2), (0.9, 0.3 + TINY), (0.5 - TINY, 0.1)],
        [0.3, 0.0, 0.3],
        margin={"m1": 0.1},
        floors={"m0": 0.5},
    ),
    "harmless values of the control hide": harmless_values_of_the_control_hide,
    "normal, margins, correlation 1, covariance": _normal_beside(1.0, stated=True),
    "normal, margins, correlation -1, covariance": _normal_beside(-1.0, stated=True),
    "normal, margins, correlation -1, scales": _normal_beside(-1.0, stated=False),
}
"""Limits of measures against a control."""
