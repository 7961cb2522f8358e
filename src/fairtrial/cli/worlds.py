"""The world that a file's source or plan describes, and what is wrong with it."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from fairtrial.cli.assumptions import rows_at_the_ends
from fairtrial.cli.construction import REFUSALS, in_words
from fairtrial.cli.sections import (
    CommandSource,
    ReplaySource,
    WorldSection,
    did_you_mean,
)
from fairtrial.cli.shell import misplaced, placeholders, variable
from fairtrial.core import Environment, Problem
from fairtrial.core.parameters import build
from fairtrial.core.specification import family_module
from fairtrial.core.tables import read_table
from fairtrial.core.wording import plural
from fairtrial.errors import FairtrialError, InvalidArgument

__all__ = ["build_environment", "build_replay", "check_command", "warn_without_readings"]

_MOST_ROWS_NAMED = 3
_OF_DELAYED = ("delay", "bias", "every")


# ------------------------------------------------------------------- simulated worlds


def build_environment(
    problem: Problem, section: WorldSection, path: str, mistakes: list[str]
) -> Environment | None:
    """Return a simulated world around means given in the order of the labels, or by label.

    A problem that holds a whole model of its world needs no means. Where rewards are bounded
    and `std` is given, a reward is the mean plus or minus it; without `std` it is 0 or 1. Where
    the noise is known, it is Gaussian unless told otherwise.
    """
    before = len(mistakes)
    _note_misplaced(problem, section, path, mistakes)
    if len(mistakes) > before:
        return None
    if _holds_its_world(problem):
        return _world(problem, "NetworkEnvironment", path, mistakes)
    if problem.family == "linear":
        return _linear_world(problem, section, path, mistakes)
    if section.means is None:
        mistakes.append(f"{path}.means: is required")
        return None
    means = _by_position(section.means, _axes(problem), f"{path}.means", mistakes)
    if len(mistakes) > before:
        return None
    if problem.family == "delayed":
        return _late_world(problem, section, means, path, mistakes)
    bounded = getattr(problem, "reward_range", None) is not None
    if section.noise == "bernoulli" or (section.noise is None and bounded and section.std is None):
        return _world(problem, "BernoulliEnvironment", path, mistakes, means)
    if bounded and section.noise is None:
        return _two_point_world(problem, means, section.std, path, mistakes)
    return _world(problem, "GaussianEnvironment", path, mistakes, means, std=section.std)


def _note_misplaced(
    problem: Problem, section: WorldSection, path: str, mistakes: list[str]
) -> None:
    """Note keys that say nothing in the problem's family, or beside another key."""
    family, is_gaussian = family_module(problem.family), section.noise == "gaussian"
    for key in section.told:
        if key == "theta" and problem.family != "linear":
            mistakes.append(f"{path}.theta: must be left out but in the family 'linear'")
        elif key in _OF_DELAYED and problem.family != "delayed":
            mistakes.append(f"{path}.{key}: must be left out but in the family 'delayed'")
        elif _holds_its_world(problem):
            mistakes.append(f"{path}.{key}: must be left out: the problem holds its world's model")
        elif key == "means" and problem.family == "linear":
            mistakes.append(f"{path}.means: must be left out in the family 'linear': give theta")
        elif key == "noise" and problem.family in ("delayed", "linear"):
            mistakes.append(f"{path}.noise: must be left out in the family {problem.family!r}")
        elif key == "noise" and is_gaussian and not hasattr(family, "GaussianEnvironment"):
            mistakes.append(
                f"{path}.noise: must be 'bernoulli', or left out, in the family {problem.family!r}"
            )
    if section.noise == "bernoulli" and section.std is not None:
        mistakes.append(f"{path}.std: must be left out when the rewards are 0 or 1")


def _holds_its_world(problem: Problem) -> bool:
    return hasattr(family_module(problem.family), "NetworkEnvironment")


def _linear_world(
    problem: Problem, section: WorldSection, path: str, mistakes: list[str]
) -> Environment | None:
    """Return a world whose rewards are linear in the features, with the parameter given."""
    if section.theta is None:
        mistakes.append(f"{path}.theta: is required")
        return None
    if getattr(problem, "reward_range", None) is None:
        name, options = "GaussianEnvironment", {"std": section.std}
        return _world(problem, name, path, mistakes, section.theta, **options)
    if section.std is None:
        return _world(problem, "BernoulliEnvironment", path, mistakes, section.theta)
    return _spread_linear_world(problem, section, path, mistakes)


def _spread_linear_world(
    problem: Any, section: WorldSection, path: str, mistakes: list[str]
) -> Environment | None:
    """Return a linear world of bounded rewards with the spread given."""
    try:
        values = problem.values(section.theta).tolist()
    except REFUSALS as error:
        mistakes.append(in_words(path, error))
        return None
    unpulled = [
        ({"arm": label}, value)
        for label, value in zip(problem.answers, values, strict=True)
        if label not in problem.arms
    ]
    means = problem.features @ section.theta
    return _two_point_world(problem, means, section.std, path, mistakes, unpulled)


def _late_world(
    problem: Problem, section: WorldSection, means: Any, path: str, mistakes: list[str]
) -> Environment | None:
    """Return a world whose results come late: `delay` is a number, or a distribution by name."""
    if getattr(problem, "reward_range", None) is not None:
        return _late_bounded_world(problem, section, means, path, mistakes)
    delay = section.delay
    if isinstance(delay, Mapping):
        arguments = dict(delay)
        name = str(arguments.pop("name", ""))
        cls = getattr(family_module("delayed"), name, None)
        if not (name.endswith("Delay") and inspect.isclass(cls)):
            mistakes.append(f"{path}.delay.name: must be a delay of the family; got {name!r}")
            return None
        try:
            delay = build(cls, arguments)
        except REFUSALS as error:
            mistakes.append(in_words(f"{path}.delay", error))
            return None
    given = {"delay": delay, "bias": section.bias, "std": section.std}
    if section.every is not None:
        given["every"] = section.every
    return _world(problem, "SimulatedEnvironment", path, mistakes, means, **given)


def _late_bounded_world(
    problem: Any, section: WorldSection, means: Any, path: str, mistakes: list[str]
) -> Environment | None:
    """Return a world whose late outcomes are 0 or 1, or with `std` the mean plus or minus it.

    Each is recorded as a curve that has nothing but its outcome, so there are no readings.
    """
    before = len(mistakes)
    if problem.feedback != "full":
        mistakes.append(
            f"{path}: outcomes in problem.reward_range are simulated without readings only: "
            "problem.feedback must be 'full'"
        )
    outcomes = _bounded_outcomes(problem, means, section.std, path, mistakes)
    delays = _delays(problem, section.delay, path, mistakes)
    if len(mistakes) > before or outcomes is None:
        return None
    rows = [
        (arm, number, delay, value)
        for arm, delay, values in zip(problem.arms, delays, outcomes, strict=True)
        for number, value in enumerate(values)
    ]
    columns = zip(*rows, strict=True)
    table = dict(zip(("arm", "curve", "elapsed", "value"), map(list, columns), strict=True))
    return _world(problem, "CurveEnvironment", path, mistakes, table)


def _bounded_outcomes(
    problem: Problem, means: Any, std: Any, path: str, mistakes: list[str]
) -> list[list[float]] | None:
    """Return by arm the outcomes to draw from, or None after adding a mistake."""
    if std is not None:
        either = _either_side_of_means(problem, means, std, path, mistakes)
        return None if either is None else np.transpose(either).tolist()
    try:
        centre = np.asarray(means, dtype=np.float64)
    except REFUSALS:
        mistakes.append(f"{path}.means: must be numbers; got {means!r}")
        return None
    if not ((centre >= 0.0) & (centre <= 1.0)).all() or any(
        _refusal(problem, reward) for reward in (0.0, 1.0)
    ):
        mistakes.append(
            f"{path}.means: must be probabilities in [0, 1], and problem.reward_range must hold "
            "0 and 1; else give std"
        )
        return None
    return [rows_at_the_ends(mean, 0.0, 1.0).tolist() for mean in centre.tolist()]


def _delays(problem: Any, delay: Any, path: str, mistakes: list[str]) -> list[float]:
    """Return how long an outcome of each arm takes; by default as the problem says, or 1."""
    default = 1.0 if problem.duration is None else problem.duration
    try:
        given = np.asarray(default if delay is None else delay, dtype=np.float64)
        found: list[float] = np.broadcast_to(given, (len(problem.arms),)).tolist()
    except REFUSALS:
        mistakes.append(
            f"{path}.delay: must be a number, or one per arm, where outcomes have a range; "
            f"got {delay!r}"
        )
        return []
    return found


def warn_without_readings(world: Any) -> None:
    """Warn of a simulated world in which every result comes before its first reading."""
    if getattr(world.problem, "feedback", "full") in ("full", "incremental"):
        return
    every, longest = world.every, _longest(world.delay)
    if longest <= every:
        warnings.warn(
            f"No reading comes before its result: readings come every {every:g}, results after "
            f"{longest:g} at the latest. A smaller every, or a longer delay, brings some",
            stacklevel=2,
        )


def _longest(delay: Any) -> float:
    """Return how long a pull takes at most, where that is known without drawing."""
    from fairtrial.delayed.delays import Delay

    if delay is None:
        return 1.0
    latest = getattr(delay, "high", getattr(delay, "time", delay))
    return math.inf if isinstance(latest, Delay) else float(np.max(latest))


def _two_point_world(
    problem: Problem,
    means: Any,
    std: Any,
    path: str,
    mistakes: list[str],
    unpulled: Sequence[tuple[Mapping[str, Any], float]] = (),
) -> Environment | None:
    """Return a world with rewards mean - std and mean + std, either as often as the other.

    `unpulled` are labels and means of what is no action and may be an answer.
    """
    either = _either_side_of_means(problem, means, std, path, mistakes)
    if either is None:
        return None
    rows = [dict(problem.labels(action)) for action in range(problem.n_actions)] * 2
    rows += [dict(labels) for labels, _ in unpulled]
    table: dict[str, Any] = {key: [row[key] for row in rows] for key in rows[0]}
    own = [mean for _, mean in unpulled]
    table["reward"] = [*either.flat, *own]
    return _world(problem, "ReplayEnvironment", path, mistakes, table)


def _either_side_of_means(
    problem: Problem, means: Any, std: Any, path: str, mistakes: list[str]
) -> Any:
    """Return mean - std and mean + std of every action, or None after adding a mistake."""
    try:
        centre = np.asarray(means, dtype=np.float64)
        spread = np.broadcast_to(np.asarray(std, dtype=np.float64), centre.shape)
        outside = [
            dict(problem.labels(action))
            for action, (mean, off) in enumerate(zip(centre.flat, spread.flat, strict=True))
            if not (off > 0 and all(_refusal(problem, mean + side) is None for side in (-off, off)))
        ]
    except REFUSALS:
        mistakes.append(f"{path}.std: must be a number, or one per cell; got {std!r}")
        return None
    if outside:
        mistakes.append(
            f"{path}.std: must be positive and keep mean - std and mean + std in the "
            f"reward_range; not so for {outside[0]}"
        )
        return None
    return np.array([centre - spread, centre + spread])


def _axes(problem: Problem) -> list[tuple[str, list[str]]]:
    """Return the labels along each axis of the means: arms, then groups."""
    rows = problem.action_labels
    return [(key, list(dict.fromkeys(str(row[key]) for row in rows))) for key in rows[0]]


def _by_position(
    means: object, axes: Sequence[tuple[str, list[str]]], path: str, mistakes: list[str]
) -> Any:
    if not axes:
        return means
    (axis, labels), *rest = axes
    if isinstance(means, Mapping):
        mistakes.extend(
            f"{path}.{key}: is not {_a(axis)}; {did_you_mean(key, labels)}"
            for key in means
            if key not in labels
        )
        mistakes.extend(f"{path}.{key}: is required" for key in labels if key not in means)
        return [
            _by_position(means[key], rest, f"{path}.{key}", mistakes)
            for key in labels
            if key in means
        ]
    if isinstance(means, list):
        if len(means) != len(labels):
            mistakes.append(
                f"{path}: must have one entry per {axis} ({', '.join(labels)}); got {len(means)}"
            )
        return [
            _by_position(entry, rest, f"{path}[{index}]", mistakes)
            for index, entry in enumerate(means)
        ]
    mistakes.append(
        f"{path}: must be a list in the order of the {axis}s, or a table by {axis}; got {means!r}"
    )
    return None


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


# -------------------------------------------------------------------------- commands


def check_command(problem: Problem, section: CommandSource, mistakes: list[str]) -> None:
    """Note placeholders in a wrong place, and such as look like ours and are not.

    Other braces are the shell's.
    """
    known = [*problem.action_labels[0], "pull"]
    mistakes.extend(
        f"source.run: has the placeholder {{{name}}}; {did_you_mean(name, known)}"
        for name in placeholders(section.run)
        if name not in known and get_close_matches(name, known, n=1)
    )
    mistakes.extend(
        f"source.run: has the placeholder {{{name}}} {where}, where the shell would not take it as "
        f"one word; write it outside, without quotes, or read the variable {variable(name)}"
        for name, where in misplaced(section.run, known)
    )


# --------------------------------------------------------------------- replayed worlds


def build_replay(
    problem: Problem, section: ReplaySource, folder: Path, mistakes: list[str]
) -> Environment | None:
    """Return a world that draws rows of the table, or None after adding the mistakes."""
    labels = {"arm": section.arm, "group": section.group}
    keys = list(problem.action_labels[0])
    world = getattr(family_module(problem.family), "ReplayEnvironment", None)
    if world is None or not labels.keys() >= set(keys):
        mistakes.append(
            "source.kind: must be 'simulate' or 'command' in the family "
            f"{problem.family!r}; got 'replay'"
        )
        return None
    options = {"noise_std": section.noise_std} if section.noise_std else {}
    if options and "noise_std" not in inspect.signature(world).parameters:
        mistakes.append("source.noise_std: must be left out but in the family 'linear'")
        return None
    columns = {key: labels[key] for key in keys} | {"reward": section.reward}
    table = _read(folder / section.table, columns, mistakes)
    if table is None:
        return None
    before = len(mistakes)
    for key in keys:
        _check_labels(problem, key, columns[key], table[columns[key]], mistakes)
    _check_rewards(problem, section.reward, table[section.reward], mistakes)
    if len(mistakes) > before:
        return None
    return _world(problem, "ReplayEnvironment", "source", mistakes, table, **columns, **options)


def _read(
    path: Path, columns: Mapping[str, str], mistakes: list[str]
) -> dict[str, list[Any]] | None:
    names = list(columns.values())
    labels = [name for key, name in columns.items() if key != "reward"]
    try:
        table = read_table(path, text=labels)
    except FairtrialError as error:
        text = error.accepted if isinstance(error, InvalidArgument) else str(error)
        mistakes.append(f"source.table: {text}; got {str(path)!r}")
        return None
    missing = [(key, name) for key, name in columns.items() if name not in table]
    for key, name in missing:
        mistakes.append(
            f"source.{key}: must be a column of {path.name}; {did_you_mean(name, table)}; "
            f"got {name!r}"
        )
    return None if missing else {name: table[name] for name in names}


def _check_labels(
    problem: Problem, key: str, column: str, values: Sequence[str], mistakes: list[str]
) -> None:
    known = dict(_axes(problem))[key]
    found = dict.fromkeys(values)
    mistakes.extend(
        f"source.{key}: column {column!r} holds {label!r} in "
        f"{plural(values.count(label), 'row')}, "
        f"which is not {_a(key)} of the problem; {did_you_mean(label, known)}"
        for label in found
        if label not in known
    )
    mistakes.extend(
        f"source.{key}: column {column!r} has no row with {label!r}"
        for label in known
        if label not in found
    )


def _check_rewards(
    problem: Problem, column: str, values: Sequence[Any], mistakes: list[str]
) -> None:
    refused = [
        (row, reason)
        for row, value in enumerate(values, start=1)
        if (reason := _refusal(problem, value))
    ]
    for row, reason in refused[:_MOST_ROWS_NAMED]:
        mistakes.append(f"source.reward: column {column!r}, row {row}: {reason}")
    if len(refused) > _MOST_ROWS_NAMED:
        mistakes.append(
            f"source.reward: column {column!r}: {len(refused) - _MOST_ROWS_NAMED} more such rows"
        )


def _refusal(problem: Problem, value: Any) -> str | None:
    """Return why the problem refuses a reward, or None if it takes it."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return f"must be a number; got {value!r}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"must be a finite number; got {value!r}"
    try:
        problem.check_outcome(value)
    except InvalidArgument as error:
        return f"{error.accepted}; got {value!r}"
    return None


def _world(
    problem: Problem, name: str, path: str, mistakes: list[str], *arguments: Any, **keywords: Any
) -> Environment | None:
    cls = getattr(family_module(problem.family), name)
    try:
        environment: Environment = cls(problem, *arguments, **keywords)
    except REFUSALS as error:
        mistakes.append(_about_world(path, error))
        return None
    return environment


def _about_world(path: str, error: Exception) -> str:
    if not isinstance(error, InvalidArgument):
        return in_words(path, error)
    if error.name == "problem":
        return f"problem: {error.accepted}"
    if error.name.startswith("reward_range"):
        return f"problem.reward_range: {error.accepted}, for a reward of 0 or 1"
    return in_words(path, error)
