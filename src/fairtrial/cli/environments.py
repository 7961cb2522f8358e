"""The environment that a file's source or plan describes, and mistakes in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from fairtrial.cli.sections import ReplaySource
from fairtrial.cli.shell import misplaced, placeholders, variable
from fairtrial.core import Environment, Problem
from fairtrial.core.assumed import a, axes_of
from fairtrial.core.cells import NotANumber, is_blank
from fairtrial.core.family import Family, family_of
from fairtrial.core.mistakes import Mistakes, did_you_mean
from fairtrial.core.sheets import Sheet, read_sheet
from fairtrial.core.tables import columns_of_measures, columns_of_predictions
from fairtrial.core.warning import warn_caller
from fairtrial.core.wording import plural
from fairtrial.errors import FairtrialError, InvalidArgument

__all__ = ["build_replay", "check_command", "warn_of"]

_MOST_ROWS_NAMED = 3


def warn_of(environment: Environment) -> None:
    """Show the warnings about an environment."""
    for doubt in family_of(environment.problem.family).doubts(environment):
        warn_caller(doubt)


# -------------------------------------------------------------------------- commands


def check_command(
    problem: Problem, key: str, command: str, mistakes: list[str], *, has_blocks: bool
) -> None:
    """Note placeholders in a wrong place, and unknown ones.

    Within quotes, braces with a word may belong to another program (``awk '{print}'``): there only
    names that look like ours are unknown. `key` is the key path of the command, for messages.
    """
    known = [*problem.action_labels[0], "pull", *(["block"] if has_blocks else [])]
    unknown = Counter(name for name in placeholders(command) if name not in known)
    quoted = Counter(name for name, _ in misplaced(command, list(unknown)))
    mistakes.extend(
        f"{key}: has the placeholder {{{name}}}; {did_you_mean(name, known)}"
        for name, number in unknown.items()
        if number > quoted[name] or get_close_matches(name, known, n=1)
    )
    mistakes.extend(
        f"{key}: has the placeholder {{{name}}} {where}, where the shell would not take it as one "
        f"word; write it outside, without quotes, or read the variable {variable(name)}"
        for name, where in misplaced(command, known)
    )


# --------------------------------------------------------------------- replayed rows


def build_replay(
    problem: Problem,
    section: ReplaySource,
    folder: Path,
    mistakes: list[str],
    decimal: str | None = None,
) -> Environment | None:
    """Return an environment that draws rows of the table, or None after adding the mistakes."""
    family, labels = family_of(problem.family), {"arm": section.arm, "group": section.group}
    keys = list(problem.action_labels[0])
    if not family.offers(Family.replay):
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
    try:
        predicted = columns_of_predictions(problem, section.prediction)
    except InvalidArgument as error:
        mistakes.append(f"source.prediction: {error.accepted}")
        return None
    keys_of_predictions = [f"prediction.{name}" for name in predicted]
    if len(predicted) == 1:
        keys_of_predictions = ["prediction"]
    read = dict(zip(keys_of_predictions, predicted.values(), strict=True))
    columns = {key: labels[key] for key in keys} | rewards | read
    fixed = _fixed(problem, section)
    sheet = _open(folder / section.table, columns, mistakes, fixed, decimal)
    if sheet is None:
        return None
    before = len(mistakes)
    table: dict[str, list[Any]] = {}
    for key in keys:
        table[columns[key]] = _labels(sheet, key, columns[key], mistakes, fixed)
        _check_labels(problem, key, columns[key], table[columns[key]], mistakes)
    for key, column in rewards.items():
        table[column] = _rewards(problem, sheet, key, column, mistakes)
    for column in predicted.values():
        table[column] = _predictions(sheet, column, mistakes)
    if len(mistakes) > before:
        return None
    found = Mistakes("source", mistakes)
    own = {key: labels[key] for key in keys}
    given = rewards if problem.measures else rewards["reward"]
    known: dict[str, Any] = {"prediction": section.prediction} if predicted else {}
    return found.build(family.replay, problem, table, **own, reward=given, **known, **options)


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


def _predictions(sheet: Sheet, column: str, mistakes: list[str]) -> list[float | None]:
    try:
        return sheet.numbers(column)
    except InvalidArgument as error:
        mistakes.append(f"source.prediction: {error}")
        return []


def _fixed(problem: Problem, section: ReplaySource) -> dict[str, str]:
    """Return the only group, if the table has no column for groups."""
    groups: Sequence[str] = dict(axes_of(problem)).get("group", ())
    if len(groups) != 1 or "group" in section.model_fields_set:
        return {}
    return {section.group: groups[0]}


def _open(
    path: Path,
    columns: Mapping[str, str],
    mistakes: list[str],
    fixed: Mapping[str, str],
    decimal: str | None,
) -> Sheet | None:
    """Return the table with all columns that are not fixed, or None after adding mistakes."""
    try:
        sheet = read_sheet(path, decimal)
    except FairtrialError as error:
        text = error.accepted if isinstance(error, InvalidArgument) else str(error)
        mistakes.append(f"source.table: {text}; got {str(path)!r}")
        return None
    known = [*sheet.header, *fixed]
    missing = [(key, name) for key, name in columns.items() if name not in known]
    for key, name in missing:
        mistakes.append(
            f"source.{key}: must be a column of {path.name}; "
            f"{did_you_mean(name, sheet.header)}; got {name!r}"
        )
    return None if missing else sheet


def _labels(
    sheet: Sheet, key: str, column: str, mistakes: list[str], fixed: Mapping[str, str]
) -> list[str]:
    if not sheet.has(column):
        return [fixed[column]] * len(sheet.rows)
    try:
        return sheet.labels(column)
    except InvalidArgument as error:
        mistakes.append(f"source.{key}: {error}")
        return []


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


def _rewards(
    problem: Problem, sheet: Sheet, key: str, column: str, mistakes: list[str]
) -> list[float | None]:
    """Return a column of rewards, or of a measure, after adding the mistakes in it."""
    measure = key if problem.measures else None
    written = sheet.format_of(column)
    found: list[float | None] = []
    refused = []
    for row, cell in enumerate(sheet.cells(column)):
        value = None
        try:
            if measure is None or not is_blank(cell):
                value = written.number(cell)
                _check_reward(problem, value, measure)
        except NotANumber as error:
            refused.append((row, f"{error}; got {cell!r}"))
        except InvalidArgument as error:
            refused.append((row, f"{error.accepted}; got {value!r}"))
        found.append(value)
    for row, reason in refused[:_MOST_ROWS_NAMED]:
        mistakes.append(f"source.reward: column {column!r}, {sheet.where(row)}: {reason}")
    if len(refused) > _MOST_ROWS_NAMED:
        mistakes.append(
            f"source.reward: column {column!r}: {len(refused) - _MOST_ROWS_NAMED} more such rows"
        )
    return found


def _check_reward(problem: Problem, value: float, measure: str | None) -> None:
    """Raise if the problem refuses a reward, or the value of a measure."""
    if measure is not None and problem.measured is not None:
        problem.measured.named({measure: value})
    else:
        problem.check_outcome(value)
