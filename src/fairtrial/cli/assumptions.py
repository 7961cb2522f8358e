"""The noise to plan with if a table is replayed: the table's own, or what else is known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core import Environment, Problem
from fairtrial.core.assumed import axes_of, rows_at_the_ends
from fairtrial.core.family import family_of
from fairtrial.core.mistakes import REFUSALS, in_words
from fairtrial.core.tables import column_of
from fairtrial.core.warning import warn_caller

__all__ = ["replay_to_plan_in"]

Floats = NDArray[np.float64]
Cell = tuple[str, ...]

_ROWS_OF_NOISE = 200


def replay_to_plan_in(environment: Any, std: Any, mistakes: list[str]) -> Environment | None:
    """Return the environment to plan in, with a table's means, or None after adding a mistake.

    A cell of the table with a single row says nothing about the noise, nor does a table in which no
    cell's rows differ. Then the problem decides: its `noise_std`, or its `reward_range`, with
    rewards at the ends of the range, which are as noisy as possible. If the problem states neither,
    the noise of the other cells is used. A warning states what is assumed.

    Parameters
    ----------
    environment : Environment
        The table's environment: a ReplayEnvironment of any family.
    std : object
        The standard deviation in the plan: a number, or one per cell; None to use what is known.
    mistakes : list of str
        The list that mistakes are added to.
    """
    own: Environment = environment
    if getattr(environment.problem, "prediction", None) is not None:
        if std is None:
            return own
        mistakes.append("plan.std: must be left out if rows have predictions")
        return None
    rows = _rows_by_cell(environment)
    if std is not None:
        return _with_noise_given(environment, rows, std, mistakes)
    silent = _silent(rows)
    if environment.get_params().get("noise_std", 0.0) > 0.0 or not any(silent.values()):
        return own
    known = _known_noise(environment.problem, rows, silent)
    if known is None:
        mistakes.append(_needed(environment.problem, silent))
        return None
    noisy, said = known
    warn_caller(_assumed(silent, said))
    return _replay(environment, noisy)


# ---------------------------------------------------------------------- known noise


def _rows_by_cell(environment: Any) -> dict[Cell, Floats]:
    """Return the rewards of every action, by its labels."""
    rows: dict[Cell, list[float]] = {cell: [] for cell in _cells(environment.problem)}
    rewards = column_of(environment.table, environment.reward)
    for cell, reward in zip(_cells_of_rows(environment), rewards, strict=True):
        if cell in rows:
            rows[cell].append(float(reward))
    return {cell: np.array(own) for cell, own in rows.items()}


def _cells(problem: Problem) -> list[Cell]:
    return [tuple(map(str, labels.values())) for labels in problem.action_labels]


def _cells_of_rows(environment: Any) -> list[Cell]:
    names = environment.get_params()
    columns = [
        column_of(environment.table, names[key]) for key in environment.problem.action_labels[0]
    ]
    return [tuple(map(str, labels)) for labels in zip(*columns, strict=True)]


def _silent(rows: Mapping[Cell, Floats]) -> dict[Cell, bool]:
    """Return for every cell whether its rows say nothing about the noise."""
    nothing_differs = all(np.ptp(own) == 0.0 for own in rows.values())
    return {cell: nothing_differs or len(own) == 1 for cell, own in rows.items()}


def _known_noise(
    problem: Any, rows: Mapping[Cell, Floats], silent: Mapping[Cell, bool]
) -> tuple[dict[Cell, Floats], str] | None:
    """Return rows for the cells without noise, and in words how they were made."""
    means = {cell: float(own.mean()) for cell, own in rows.items() if silent[cell]}
    if problem.reward_range is not None:
        low, high = problem.reward_range
        noisy = {cell: rows_at_the_ends(mean, low, high) for cell, mean in means.items()}
        return noisy, "rewards at the ends of problem.reward_range, which are as noisy as possible"
    if problem.estimates_noise:
        std = _pooled(rows)
        if std == 0.0:
            return None
        stds, said = dict.fromkeys(means, std), f"the spread of the other rows, {std:.3g}"
    else:
        by_cell = zip(_cells(problem), np.ravel(problem.scale).tolist(), strict=True)
        stds, said = dict(by_cell), "normal noise of problem.noise_std"
    return {cell: _normal(mean, stds[cell]) for cell, mean in means.items()}, said


def _pooled(rows: Mapping[Cell, Floats]) -> float:
    """Return the standard deviation of the rows within their cells; 0 if it is unknown."""
    freedom = sum(len(own) - 1 for own in rows.values())
    squares = sum(float(((own - own.mean()) ** 2).sum()) for own in rows.values())
    return math.sqrt(squares / freedom) if freedom else 0.0


def _assumed(silent: Mapping[Cell, bool], said: str) -> str:
    count, kind = sum(silent.values()), "arm" if len(next(iter(silent))) == 1 else "cell"
    return (
        f"For {count} of {len(silent)} {kind}s the table has only one row, or identical rows, and "
        f"so does not show how noisy a pull is. This plan assumes {said}; set std in [plan] to "
        "assume something else"
    )


def _needed(problem: Problem, silent: Mapping[Cell, bool]) -> str:
    first = next(cell for cell, is_silent in silent.items() if is_silent)
    means = family_of(problem.family).means_key
    return (
        f"plan.std: is required, or plan.{means}: the rows of the table for {', '.join(first)} do "
        "not show how noisy a pull is, and the problem does not state it"
    )


# ------------------------------------------------------------------------ tables with noise


def _with_noise_given(
    environment: Any, rows: Mapping[Cell, Floats], std: Any, mistakes: list[str]
) -> Environment | None:
    """Return an environment with the table's means and the noise that the plan gives."""
    problem = environment.problem
    shape = tuple(len(labels) for _, labels in axes_of(problem))
    try:
        spread = np.broadcast_to(np.asarray(std, dtype=np.float64), shape).ravel().tolist()
        right = all(0.0 < own < math.inf for own in spread)
    except REFUSALS:
        right = False
    if not right:
        mistakes.append(f"plan.std: must be a positive number, or one per cell; got {std!r}")
        return None
    bounded = problem.reward_range is not None
    draws = _either_side if bounded else _normal
    noisy = {
        cell: draws(float(own.mean()), off)
        for (cell, own), off in zip(rows.items(), spread, strict=True)
    }
    try:
        own = {"noise_std"} & environment.get_params().keys()
        return _replay(environment, noisy, **dict.fromkeys(own, 0.0))
    except REFUSALS as error:
        if not bounded:
            mistakes.append(in_words("plan", error))
            return None
        low, high = problem.reward_range
        outside = next(cell for cell, own in noisy.items() if own[0] < low or own[-1] > high)
        mistakes.append(
            "plan.std: must keep mean - std and mean + std in the reward_range; "
            f"too large for {', '.join(outside)}"
        )
        return None


def _replay(environment: Any, noisy: Mapping[Cell, Floats], **changes: Any) -> Environment:
    """Return the environment with other rows for some cells."""
    keys = list(environment.problem.action_labels[0])
    rewards = column_of(environment.table, environment.reward)
    kept = [
        (cell, reward)
        for cell, reward in zip(_cells_of_rows(environment), rewards, strict=True)
        if cell not in noisy
    ]
    kept += [(cell, reward) for cell, own in noisy.items() for reward in own.tolist()]
    names = environment.get_params()
    table: dict[str, Any] = {
        names[key]: [cell[place] for cell, _ in kept] for place, key in enumerate(keys)
    }
    table[environment.reward] = [reward for _, reward in kept]
    replayed: Environment = environment.clone(table=table, **changes)
    return replayed


def _normal(mean: float, std: float) -> Floats:
    """Return rows with that mean and spread: quantiles of a normal distribution."""
    normal = NormalDist()
    points = [normal.inv_cdf((rank + 0.5) / _ROWS_OF_NOISE) for rank in range(_ROWS_OF_NOISE)]
    standard = np.array(points)
    return np.asarray(mean + std * standard / standard.std())


def _either_side(mean: float, std: float) -> Floats:
    return np.array([mean - std, mean + std])
