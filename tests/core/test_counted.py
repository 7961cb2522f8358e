"""Tables of counts: which units they stand for, in which order, and which counts are refused."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.core.counted import CountedUnits
from fairtrial.core.tables import open_table
from fairtrial.errors import InvalidArgument
from tests.messages import raises


def units_of(table: dict[str, Any], successes: str | None = None) -> CountedUnits:
    return CountedUnits(open_table(table), "n", successes)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=6))
def test_every_row_has_as_many_units_and_successes_as_it_says(rows: list[tuple[int, int]]) -> None:
    counts = [max(row) for row in rows]
    ones = [min(row) for row in rows]
    if not sum(counts):
        return
    units = units_of({"row": list(range(len(rows))), "n": counts, "s": ones}, "s")
    found = Counter(zip(units.labels("row"), units.numbers("s"), strict=True))
    expected = Counter()
    for row, (count, one) in enumerate(zip(counts, ones, strict=True)):
        expected[str(row), 1.0] += one
        expected[str(row), 0.0] += count - one
    assert found == +expected


@pytest.mark.parametrize("successes", ["s", None])
def test_the_order_of_units_shows_neither_row_nor_outcome(successes: str | None) -> None:
    table = {"row": [0, 1], "n": [5000, 5000], "s": [2500, 2500], "outcome": [1, 0]}
    units = units_of(table, successes)
    places = np.arange(10_000)
    for column in ("row", successes or "outcome"):
        correlation = np.corrcoef(places, np.array(units.numbers(column)))[0, 1]
        # In random order its standard deviation is 1 / sqrt(10,000).
        assert abs(correlation) < 4 / math.sqrt(10_000)


def test_a_unit_is_found_where_its_row_is(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text("arm,n\nold,2\n\nnew,1\n")
    units = CountedUnits(open_table(path), "n")
    lines = {arm: units.where(row) for row, arm in enumerate(units.labels("arm"))}
    assert lines == {"old": "line 2", "new": "line 4"}


def test_thousands_are_counts(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text("arm;n;rate\nold;1.200;0,5\nnew;1.234.567;0,7\n")
    with raises(InvalidArgument) as error:
        CountedUnits(open_table(path), "rate")
    assert "rate" in error.value.name
    assert len(CountedUnits(open_table(path), "n").labels("arm")) == 1_235_767


@pytest.mark.parametrize("count", [-1, 1.5, math.inf, None, "many", "", 10**30])
def test_a_count_that_is_no_number_of_units_is_refused_with_its_row(count: object) -> None:
    with raises(InvalidArgument) as error:
        units_of({"arm": ["old", "new"], "n": [3, count]})
    assert "row 1: n" in error.value.name


def test_more_successes_than_units_are_refused_with_their_row() -> None:
    with raises(InvalidArgument) as error:
        units_of({"arm": ["old", "new"], "n": [3, 4], "s": [3, 5]}, "s")
    assert (error.value.name, error.value.given) == ("row 1: s", 5)


@pytest.mark.parametrize("counts", [[0, 0], [6_000_000, 6_000_000]])
def test_no_units_and_too_many_are_refused(counts: list[int]) -> None:
    with raises(InvalidArgument) as error:
        units_of({"arm": ["old", "new"], "n": counts})
    assert error.value.given == sum(counts)


@pytest.mark.parametrize("column", ["arm", "s"])
def test_columns_of_unequal_length_are_refused(column: str) -> None:
    table = {"arm": ["old", "new"], "n": [3, 4], "s": [1, 1]}
    table[column] = table[column][:1]
    with raises(InvalidArgument):
        units_of(table, "s").labels("arm")
