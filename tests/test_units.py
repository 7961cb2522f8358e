"""Recorded studies of every policy, repeated in other units: the same pulls, the same numbers.

Powers of two multiply without rounding, so nothing may differ in any digit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from fairtrial import linear
from fairtrial.core import Problem
from fairtrial.qualification.decisions import LogPlayer
from tests import effort
from tests.golden.logs import ARROW, ROWS, read_logs
from tests.testing.families import Row

UNITS = [2.0**40, 2.0**-400]

IN_UNITS = {
    *("floors", "ceilings", "margin", "superiority", "tolerance", "floor_tolerance", "noise_std"),
    *("reward_range", "misspecification", "reading_std", "target_std", "failure_value", "measures"),
    *("outcome_range", "fairness_bound", "std", "theta"),
}
"""The arguments of problems, policies and readings that are in the unit of rewards."""

PAPERS_UNIT = {"Rage", "XYAdaptive"}
"""They plan their first phases in the units of the papers, in which gaps are about one."""

CALLS = 50


def times(value: Any, unit: float) -> Any:
    """Return numbers in another unit, in any nesting."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Mapping):
        return {key: times(each, unit) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(times(each, unit) for each in value)
    return value * unit


def arguments_in(given: Mapping[str, Any], unit: float) -> dict[str, Any]:
    """Return arguments of which those in the unit of rewards are multiplied."""
    return {
        name: times(value, unit) if name in IN_UNITS else value for name, value in given.items()
    }


def problem_in(problem: Problem, unit: float) -> Problem:
    changes = arguments_in(problem.get_params(), unit)
    if changes.get("noise_cov") is not None:
        changes["noise_cov"] = times(changes["noise_cov"], unit * unit)
    if changes.get("limits") is not None:
        changes["limits"] = {
            name: arguments_in(limit, unit) for name, limit in changes["limits"].items()
        }
    if problem.family == "causal":
        values = times(problem.outcome_values, unit)  # type: ignore[attr-defined]
        changes["outcome"] = (problem.outcome_node, values)  # type: ignore[attr-defined]
    return problem.clone(**changes)


def call_in(call: list[Any], unit: float, outcome_field: str | None) -> list[Any]:
    """Return a call of a log with its outcomes in another unit."""
    name, *rest = call
    if name not in ("tell", "data", "report", "amend", "amend_data"):
        return call

    def told(value: Any) -> Any:
        if outcome_field is None or not isinstance(value, Mapping):
            return times(value, unit)
        return {**value, outcome_field: times(value[outcome_field], unit)}

    if name == "report":
        pull, value, details = rest
        return [name, pull, told(value), arguments_in(details, unit)]
    return [name, rest[0], *map(told, rest[1:])]


def numbers_of(shown: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every value of a nested document, with its place; texts only by how many words."""
    if isinstance(shown, Mapping):
        for key, value in shown.items():
            yield from numbers_of(value, (*path, str(key)))
    elif isinstance(shown, list | tuple):
        for place, value in enumerate(shown):
            yield from numbers_of(value, (*path, str(place)))
    else:
        yield path, len(shown.split()) if isinstance(shown, str) else shown


def is_same(expected: Any, found: Any, unit: float) -> bool:
    """Return whether a value is the same, in its own unit, that of rewards, or their square."""
    if isinstance(expected, bool | None) or found is None:
        return bool(expected == found)
    return any(found == expected * factor for factor in (1.0, unit, unit * unit))


def player_in(row: Row, unit: float) -> LogPlayer:
    problem, _ = row.instance()
    options = arguments_in(row.options, unit)
    if isinstance(options.get("stopping"), linear.RidgeLevel):
        bound = options["stopping"].norm_bound * unit
        options["stopping"] = linear.RidgeLevel(bound, ridge=1.0 / unit**2)
    return LogPlayer(row.policy(problem_in(problem, unit), seed=1, **options))


LOGS = read_logs()
"""Calls and outcomes of all policies."""

RECORDED = [name for name, row in ROWS.items() if row.policy.__name__ not in PAPERS_UNIT]


@pytest.mark.parametrize("name", RECORDED)
def test_a_study_is_the_same_in_every_unit_of_its_rewards(name: str) -> None:
    row = ROWS[name]
    problem, _ = row.instance()
    outcome_field = getattr(problem, "outcome_node", None)
    # A ridge and a covariance are in squares of the unit, which must be in reach.
    has_squares = "RidgeLevel" in name or getattr(problem, "noise_cov", None) is not None
    units = [2.0**40, 2.0**-60] if has_squares else UNITS
    # In a short run every second row has one unit, and the others have the other one.
    for unit in units if effort.long else units[RECORDED.index(name) % 2 :][:1]:
        own, other = LogPlayer(row.make()[0]), player_in(row, unit)
        for line in LOGS[name][0][:CALLS]:
            call = json.loads(line.split(ARROW)[0])
            if call[0] == "epoch":
                break
            if call[0] != "progress":
                decided = other.make(*call_in(call, unit, outcome_field))
                assert decided == own.make(*call), line
        expected = dict(numbers_of(own.policy.progress().to_dict()))
        found = dict(numbers_of(other.policy.progress().to_dict()))
        assert found.keys() == expected.keys()
        differ = {
            place: (value, found[place])
            for place, value in expected.items()
            if not is_same(value, found[place], unit)
        }
        assert not differ


def test_the_comparison_notices_a_number_that_does_not_follow_the_unit() -> None:
    assert is_same(0.3, 0.3 * 2.0**40, 2.0**40)
    assert not is_same(0.3, math.nextafter(0.3, 1.0) * 2.0**40, 2.0**40)
    assert not is_same(np.float64(0.3), None, 2.0**40)
