"""Cells of tables: numbers as people and spreadsheets write them."""

import datetime as dt
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.core.cells import (
    NotANumber,
    NumberFormat,
    check_decimal,
    is_blank,
    labels_in,
    odd_cells,
)
from fairtrial.errors import InvalidArgument
from tests.messages import raises, warns


def numbers_in(*cells, **options):
    """Return the numbers of a column; None for cells that are refused."""
    written = NumberFormat.of(cells, **options)
    return [written.number(cell) if written.reads(cell) else None for cell in cells]


def refusal(*cells, **options):
    """Return what is said about the last cell of a column."""
    with pytest.raises(NotANumber) as caught:
        NumberFormat.of(cells, **options).number(cells[-1])
    return str(caught.value)


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["740,2", "2.347"], [740.2, 2347.0]),
        (["1,234,567.8", "1,234"], [1234567.8, 1234.0]),
        (["1.234.567,8", "12"], [1234567.8, 12.0]),
        (["1 234,5", "1\u202f234", "1\u00a0234\u00a0567"], [1234.5, 1234.0, 1234567.0]),
        (["1'234.5", "1\u2019234"], [1234.5, 1234.0]),
        (["\u22120,5", "+1,5e-3"], [-0.5, 0.0015]),
        ([".5", "5.", "0.125"], [0.5, 5.0, 0.125]),
        (["1.234", "2.345"], [1.234, 2.345]),
        (["1.234.567", "2.345"], [1234567.0, 2345.0]),
        ([" 7 ", 8, 0.5, True, "false"], [7.0, 8.0, 0.5, 1.0, 0.0]),
    ],
)
def test_a_column_has_the_format_that_its_cells_show(cells, numbers):
    assert numbers_in(*cells) == numbers


@pytest.mark.parametrize("usual", [".", None])
def test_numbers_that_may_have_either_mark_are_refused_with_both_readings(usual):
    said = refusal("12", "1,234", usual=usual)
    assert "1.234" in said
    assert "1234" in said
    assert "decimal" in said
    assert numbers_in("1,234", usual=usual, decimal=",") == [1.234]
    assert numbers_in("1,234", usual=usual, decimal=".") == [1234.0]


def test_a_point_is_refused_as_well_where_a_decimal_comma_is_as_likely():
    assert "2347" in refusal("2.347", usual=None)
    assert numbers_in("2.347", usual=None, decimal=".") == [2.347]
    assert numbers_in("2.347", "0.5", usual=None) == [2.347, 0.5]


def test_numbers_of_another_format_than_the_column_are_refused():
    assert numbers_in("740,2", "3,5", "2.34") == [740.2, 3.5, None]
    assert numbers_in("0.5", "0.25", "0,125") == [0.5, 0.25, None]
    assert numbers_in("1,234.5", "1 234.5", "12,34,567.8") == [1234.5, None, None]
    assert "'740,2'" in refusal("740,2", "3,5", "2.34")


@pytest.mark.parametrize(
    ("cell", "hint"),
    [
        ("72%", "0.72 or 72"),
        ("<1", "missing"),
        ("> 100", "missing"),
        ("\u2264 3,5", "missing"),
        ("5 mg", "unit"),
        ("105 C", "unit"),
        ("\u20ac5", "unit"),
        ("5 \u20ac", "unit"),
        ("\uff11\uff12", "digits 0 to 9"),
        ("\u0663", "digits 0 to 9"),
        ("(5)", "minus"),
        ("#DIV/0!", "error of the spreadsheet"),
        ("2026-11-23", "date"),
        (dt.date(2026, 5, 1), "date"),
        ("1_000", ""),
        ("0x1A", ""),
        ("inf", ""),
        ("-Infinity", ""),
        ("nan", ""),
        ("1e999", "finite"),
        (10**400, "finite"),
        (math.nan, "finite"),
        ("5-", ""),
        ("--5", ""),
        ("1/2", ""),
        ("12:30", ""),
        ("1,,5", ""),
        (".", ""),
        ("", ""),
        (None, ""),
    ],
)
def test_what_is_no_number_is_refused_with_what_may_help(cell, hint):
    assert hint in refusal(cell)


@pytest.mark.parametrize(("decimal", "thousands"), [(".", ","), (",", "."), (",", " "), (".", "'")])
@given(number=st.decimals(-(10**9), 10**9, places=2))
def test_numbers_in_any_format_are_read_as_they_are(decimal, thousands, number):
    """The example beside it shows the format of the column."""
    shown = f"{number:,.2f}".translate({44: thousands, 46: decimal})
    example = f"1{thousands}234{decimal}5"
    assert numbers_in(shown, example) == [float(number), 1234.5]


@given(cells=st.lists(st.text(alphabet="0123456789.,' -+%eE", max_size=9), min_size=1))
def test_any_text_is_a_finite_number_or_refused(cells):
    written = NumberFormat.of(cells)
    for cell in cells:
        assert not written.reads(cell) or math.isfinite(written.number(cell))


@pytest.mark.parametrize("cell", ["", " ", "\u00a0", "NA", "n/a", "NaN", "null", None, math.nan])
def test_missing_values_are_blank(cell):
    assert is_blank(cell)


def test_labels_are_trimmed_with_a_warning_where_that_makes_two_the_same():
    def where(row):
        return f"line {row + 2}"

    assert labels_in([" a", "b\u00a0", 1.0], "arm", where) == ["a", "b", "1"]
    with warns(UserWarning):
        assert labels_in(["B2", "B2 "], "base", where) == ["B2", "B2"]


def test_cells_are_odd_where_most_others_are_numbers():
    assert odd_cells(["90", "105 C", "120"], NumberFormat()) == [1]
    assert odd_cells(["90", "b", "c"], NumberFormat()) == []


def test_a_decimal_separator_is_a_point_or_a_comma():
    with raises(InvalidArgument) as caught:
        check_decimal(";")
    assert (caught.value.name, caught.value.given) == ("decimal", ";")
