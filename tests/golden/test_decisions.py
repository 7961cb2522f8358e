"""Every policy decides, call for call, what it decided when `tests.golden.record` was run.

If one of these tests fails after a change that was not meant to change decisions, the change is
wrong. The top of `tests/golden/record.py` says when and how to record again.
"""

from __future__ import annotations

import inspect

import pytest

from fairtrial.core import Policy
from fairtrial.core.family import FAMILIES, family_module
from tests.golden.logs import ROWS, first_difference, read_logs
from tests.testing.families import Row

LOGS = read_logs()


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_every_decision_is_the_recorded_one(row: Row) -> None:
    assert row.name in LOGS, f"record it: python -m tests.golden.record {row.name!r}"
    for log in LOGS[row.name]:
        difference = first_difference(row, log)
        assert difference is None, difference


def test_the_first_decision_that_differs_is_shown_with_its_number() -> None:
    row = next(iter(ROWS.values()))
    log = LOGS[row.name][0]
    number, line = next((n, line) for n, line in enumerate(log) if line.startswith('["ask",'))
    changed = [*log[:number], line + " 0", *log[number + 1 :]]
    assert f"decision {number} of {row.name} differs" in (first_difference(row, changed) or "")


def test_a_number_may_differ_by_no_more_than_rounding() -> None:
    row = ROWS["delayed-late-Racing"]
    log = LOGS[row.name][0]
    number, line = next((n, line) for n, line in enumerate(log) if line.startswith('["progress"]'))
    place, known = next(item for item in enumerate(line.split()) if "." in item[1])
    for factor, is_close in [(1 + 3e-6, True), (1 + 3e-5, False)]:
        words = line.split()
        words[place] = repr(float(known) * factor)
        changed = [*log[:number], " ".join(words), *log[number + 1 :]]
        assert (first_difference(row, changed) is None) == is_close


def test_no_log_is_of_a_policy_that_is_not_in_the_table() -> None:
    assert set(LOGS) == set(ROWS)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_policy_of_a_family_is_recorded(family: str) -> None:
    module = family_module(family)
    exported = {getattr(module, name) for name in module.__all__}
    policies = {
        item
        for item in exported
        if inspect.isclass(item) and issubclass(item, Policy) and not inspect.isabstract(item)
    }
    assert policies
    assert policies <= {row.policy for row in ROWS.values() if row.name in LOGS}
