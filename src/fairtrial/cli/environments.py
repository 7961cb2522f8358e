"""The environment that a file's source or plan describes, and mistakes in it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from fairtrial.cli.sections import ReplaySource
from fairtrial.cli.shell import misplaced, placeholders, variable
from fairtrial.core import Environment, Problem
from fairtrial.core.assumed import a, axes_of
from fairtrial.core.family import family_of
from fairtrial.core.mistakes import Mistakes, did_you_mean
from fairtrial.core.sheets import is_blank
from fairtrial.core.tables import columns_of_measures, read_table
from fairtrial.core.wording import plural
from fairtrial.errors import FairtrialError, InvalidArgument

__all__ = ["build_replay", "check_command", "warn_of"]

_MOST_ROWS_NAMED = 3


def warn_of(environment: Environment) -> None:
    """Show the warnings about an environment."""
    for doubt in family_of(environment.problem.family).doubts(environment):
        warnings.warn(doubt, stacklevel=2)


# -------------------------------------------------------------------------- commands


def check_command(problem: Problem, key: str, command: str, mistakes: list[str]) -> None:
    """Note placeholders in a wrong place, and unknown ones that look like ours.

    Other braces belong to the shell. `key` is the key path of the command, for messages.
    """
    known = [*problem.action_labels[0], "pull"]
    mistakes.extend(
        f"{key}: has the placeholder {{{name}}}; {did_you_mean(name, known)}"
        for name in placeholders(command)
        if name not in known and get_close_matches(name, known, n=1)
    )
    mistakes.extend(
        f"{key}: has the placeholder {{{name}}} {where}, where the shell would not take it as one "
        f"word; write it outside, without quotes, or read the variable {variable(name)}"
        for name, where in misplaced(command, known)
    )


# --------------------------------------------------------------------- replayed rows


def build_replay(
    problem: Problem, section: ReplaySource, folder: Path, mistakes: list[str]
) -> Environment | None:
    """Return an environment that draws rows of the table, or None after adding the mistakes."""
    family, labels = family_of(problem.family), {"arm": section.arm, "group": section.group}
    keys = list(problem.action_labels[0])
    if family.replay is None:
        mistakes.append(
            "source.kind: must be 'simulate' or 'command' in the family "
            f"{problem.family!r}; got 'replay'"
        )
        return None
    options: dict[str, Any] = {"noise_std": section.noise_std} if section.noise_std else {}
    if not family.replay_keys >= options.keys():
        mistakes.append(f"source.noise_std: must be left out in the family {problem.family!r}")
        return None
    try:
        rewards = _reward_columns(problem, section.reward)
    except InvalidArgument as error:
        mistakes.append(f"source.reward: {error.accepted}; got {error.given!r}")
        return None
    columns = {key: labels[key] for key in keys} | rewards
    table = _read(folder / section.table, columns, mistakes, _fixed(problem, section))
    if table is None:
        return None
    before = len(mistakes)
    for key in keys:
        _check_labels(problem, key, columns[key], table[columns[key]], mistakes)
    for key, column in rewards.items():
        _check_rewards(problem, key, column, table[column], mistakes)
    if len(mistakes) > before:
        return None
    found = Mistakes("source", mistakes)
    own = {key: labels[key] for key in keys}
    given = rewards if problem.measures else rewards["reward"]
    return found.build(family.replay, problem, table, **own, reward=given, **options)


def _reward_columns(problem: Problem, given: str | Mapping[str, str]) -> dict[str, str]:
    """Return the column of the rewards, or of each measure."""
    if problem.measures:
        if isinstance(given, str) and given != "reward":
            accepted = 'must be a table by measure, such as { efficacy = "cured" }, or left out'
            raise InvalidArgument("reward", accepted, given)
        return columns_of_measures(problem, given)
    if not isinstance(given, str):
        raise InvalidArgument("reward", "must be the name of a column", given)
    return {"reward": given}


def _fixed(problem: Problem, section: ReplaySource) -> dict[str, str]:
    """Return the only group, if the table has no column for groups."""
    groups: Sequence[str] = dict(axes_of(problem)).get("group", ())
    if len(groups) != 1 or "group" in section.model_fields_set:
        return {}
    return {section.group: groups[0]}


def _read(
    path: Path, columns: Mapping[str, str], mistakes: list[str], fixed: Mapping[str, str]
) -> dict[str, list[Any]] | None:
    names = list(columns.values())
    labels = [name for key, name in columns.items() if key in ("arm", "group")]
    try:
        table = read_table(path, text=labels)
    except FairtrialError as error:
        text = error.accepted if isinstance(error, InvalidArgument) else str(error)
        mistakes.append(f"source.table: {text}; got {str(path)!r}")
        return None
    rows = len(next(iter(table.values())))
    table = {name: [value] * rows for name, value in fixed.items()} | table
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
    known = dict(axes_of(problem))[key]
    found = dict.fromkeys(values)
    mistakes.extend(
        f"source.{key}: column {column!r} holds {label!r} in "
        f"{plural(values.count(label), 'row')}, "
        f"which is not {a(key)} of the problem; {did_you_mean(label, known)}"
        for label in found
        if label not in known
    )
    mistakes.extend(
        f"source.{key}: column {column!r} has no row with {label!r}"
        for label in known
        if label not in found
    )


def _check_rewards(
    problem: Problem, key: str, column: str, values: Sequence[Any], mistakes: list[str]
) -> None:
    measure = key if problem.measures else None
    refused = [
        (row, reason)
        for row, value in enumerate(values, start=1)
        if (reason := _refusal(problem, value, measure))
    ]
    for row, reason in refused[:_MOST_ROWS_NAMED]:
        mistakes.append(f"source.reward: column {column!r}, row {row}: {reason}")
    if len(refused) > _MOST_ROWS_NAMED:
        mistakes.append(
            f"source.reward: column {column!r}: {len(refused) - _MOST_ROWS_NAMED} more such rows"
        )


def _refusal(problem: Problem, value: Any, measure: str | None) -> str | None:
    """Return why the problem refuses a reward, or None if it does not; a measure may be blank."""
    if measure is not None and is_blank(value):
        return None
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return f"must be a number; got {value!r}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"must be a finite number; got {value!r}"
    try:
        if measure is not None and problem.measured is not None:
            problem.measured.named({measure: value})
        else:
            problem.check_outcome(value)
    except InvalidArgument as error:
        return f"{error.accepted}; got {value!r}"
    return None
