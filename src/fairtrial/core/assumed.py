"""Simulated environments that a file describes: the parts that several families share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.environment import Environment
from fairtrial.core.mistakes import REFUSALS, Mistakes, did_you_mean
from fairtrial.core.problem import Problem
from fairtrial.errors import InvalidArgument

__all__ = [
    "a",
    "axes_of",
    "bernoulli_or_two_points",
    "either_side_of_means",
    "means_in_order",
    "measured_means_in_order",
    "rows_at_the_ends",
    "takes",
    "two_points",
]

Floats = NDArray[np.float64]

_ROWS_OF_NOISE = 200


def axes_of(problem: Problem) -> list[tuple[str, list[str]]]:
    """Return the labels along each axis of the means: arms, then groups."""
    rows = problem.action_labels
    return [(key, list(dict.fromkeys(str(row[key]) for row in rows))) for key in rows[0]]


def means_in_order(problem: Problem, given: Mapping[str, Any], mistakes: Mistakes) -> Any:
    """Return means given by label, in the order of the labels; None after adding mistakes."""
    if "means" not in given:
        mistakes.add("means", "is required")
        return None
    means = _by_position(given["means"], axes_of(problem), "means", mistakes)
    return None if mistakes else means


def measured_means_in_order(
    problem: Problem, given: Mapping[str, Any], mistakes: Mistakes
) -> dict[str, Any] | None:
    """Like `means_in_order`, for the means of every measure; None after adding mistakes."""
    means = given.get("means")
    if not isinstance(means, Mapping):
        names = ", ".join(problem.measures)
        mistakes.add("means", f"is required: a table by measure ({names}); got {means!r}")
        return None
    for name in means:
        if name not in problem.measures:
            known = did_you_mean(str(name), problem.measures)
            mistakes.add(f"means.{name}", f"is not a measure; {known}")
    for name in problem.measures:
        if name not in means:
            mistakes.add(f"means.{name}", "is required")
    found = {
        name: _by_position(means[name], axes_of(problem), f"means.{name}", mistakes)
        for name in problem.measures
        if name in means
    }
    return None if mistakes else found


def _by_position(
    means: object, axes: Sequence[tuple[str, list[str]]], key: str, mistakes: Mistakes
) -> Any:
    if not axes:
        return means
    (axis, labels), *rest = axes
    if isinstance(means, Mapping):
        for label in means:
            if label not in labels:
                mistakes.add(f"{key}.{label}", f"is not {a(axis)}; {did_you_mean(label, labels)}")
        for label in labels:
            if label not in means:
                mistakes.add(f"{key}.{label}", "is required")
        return [
            _by_position(means[label], rest, f"{key}.{label}", mistakes)
            for label in labels
            if label in means
        ]
    if isinstance(means, list):
        if len(means) != len(labels):
            names = ", ".join(labels)
            mistakes.add(key, f"must have one entry per {axis} ({names}); got {len(means)}")
        return [
            _by_position(entry, rest, f"{key}[{index}]", mistakes)
            for index, entry in enumerate(means)
        ]
    text = f"must be a list in the order of the {axis}s, or a table by {axis}; got {means!r}"
    mistakes.add(key, text)
    return None


def a(noun: str) -> str:
    """Return a noun with its indefinite article."""
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def takes(problem: Problem, reward: float) -> bool:
    """Return whether the problem accepts a reward."""
    try:
        problem.check_outcome(reward)
    except InvalidArgument:
        return False
    return True


def bernoulli_or_two_points(
    bernoulli: type[Environment],
    replay: type[Environment],
    problem: Problem,
    given: Mapping[str, Any],
    mistakes: Mistakes,
) -> Environment | None:
    """Return an environment of bounded rewards: 0 or 1, or mean - std and mean + std if given."""
    means = means_in_order(problem, given, mistakes)
    if mistakes:
        return None
    if given.get("noise") != "bernoulli" and "std" in given:
        return two_points(replay, problem, means, given["std"], mistakes)
    if "std" in given:
        mistakes.add("std", "must be left out when the rewards are 0 or 1")
        return None
    return mistakes.build(bernoulli, problem, means)


def two_points(
    replay: type[Environment],
    problem: Problem,
    means: Any,
    std: Any,
    mistakes: Mistakes,
    unpulled: Mapping[str, float] | None = None,
) -> Environment | None:
    """Return an environment with rewards mean - std and mean + std, each half of the time.

    `unpulled` are the means of arms that cannot be pulled but may be the answer.
    """
    either = either_side_of_means(problem, means, std, mistakes)
    if either is None:
        return None
    own = unpulled or {}
    rows = [dict(problem.labels(action)) for action in range(problem.n_actions)] * 2
    rows += [{"arm": label} for label in own]
    table: dict[str, Any] = {key: [row[key] for row in rows] for key in rows[0]}
    table["reward"] = [*either.flat, *own.values()]
    return mistakes.build(replay, problem, table)


def either_side_of_means(
    problem: Problem, means: Any, std: Any, mistakes: Mistakes
) -> Floats | None:
    """Return mean - std and mean + std of every action, or None after adding a mistake."""
    try:
        centre = np.asarray(means, dtype=np.float64)
        spread = np.broadcast_to(np.asarray(std, dtype=np.float64), centre.shape)
        outside = [
            dict(problem.labels(action))
            for action, (mean, off) in enumerate(zip(centre.flat, spread.flat, strict=True))
            if not (off > 0 and takes(problem, mean - off) and takes(problem, mean + off))
        ]
    except REFUSALS:
        mistakes.add("std", f"must be a number, or one per cell; got {std!r}")
        return None
    if outside:
        mistakes.add(
            "std",
            "must be positive and keep mean - std and mean + std in the "
            f"reward_range; it does not for {outside[0]}",
        )
        return None
    return np.array([centre - spread, centre + spread])


def rows_at_the_ends(mean: float, low: float, high: float) -> Floats:
    """Return rows with that mean; all but one of them are at an end of the range."""
    above = _ROWS_OF_NOISE * (mean - low) / (high - low)
    full = min(int(above), _ROWS_OF_NOISE - 1)
    between = min(low + (above - full) * (high - low), high)
    return np.array([*[low] * (_ROWS_OF_NOISE - 1 - full), between, *[high] * full])
