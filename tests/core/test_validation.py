"""Checks of arguments: what passes, what is refused, and what the message names."""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.core.validation import (
    as_exact,
    as_floats,
    check_array,
    check_choice,
    check_exact_integer,
    check_integer,
    check_labels,
    check_number,
    check_probability,
    index_of,
    plain_labels,
    require_each,
    require_shares_or_counts,
)
from fairtrial.errors import InvalidArgument
from tests.messages import raises

NO_NUMBERS = ["1", None, True, [1.0], np.array([1.0]), 1j, math.nan, math.inf, -math.inf]


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_number_refuses_what_is_no_finite_number(value: object) -> None:
    with raises(InvalidArgument, "slack", given=value):
        check_number("slack", value)


@given(st.floats(-10, 10), st.floats(-5, 0), st.floats(0, 5), st.booleans())
def test_number_accepts_exactly_its_range(
    value: float, low: float, high: float, open_low: bool
) -> None:
    inside = low <= value <= high and not (open_low and value == low)
    if inside:
        assert check_number("x", value, low=low, high=high, open_low=open_low) == value
    else:
        with pytest.raises(InvalidArgument) as caught:
            check_number("x", value, low=low, high=high, open_low=open_low)
        assert (caught.value.name, caught.value.given) == ("x", value)


def test_what_no_float_holds_is_refused_and_named() -> None:
    for check in (check_number, check_probability):
        for value in (10**400, -(10**400), np.complex128(0.5)):
            with raises(InvalidArgument, "x", given=value):
                check("x", value)
    with raises(InvalidArgument, "x"):
        as_floats("x", [0.5, 10**400], "must be numbers")


@pytest.mark.parametrize("value", [3, 3.0, np.float32(3), np.int16(3)])
def test_number_returns_a_python_float(value: object) -> None:
    assert type(check_number("x", value)) is float


@pytest.mark.parametrize(
    "limits",
    [
        {"low": 0},
        {"low": 0, "open_low": True},
        {"low": 0, "high": 2},
        {"low": 0, "high": 2, "open_low": True},
    ],
)
def test_number_says_what_is_accepted(limits: dict[str, float]) -> None:
    with raises(InvalidArgument, "x"):
        check_number("x", -1, **limits)


@pytest.mark.parametrize("value", [0, 1, 0.0, 1.0, -0.1, 1.1, math.nan, True, "0.5", None])
def test_probability_refuses_the_ends_and_beyond(value: object) -> None:
    with raises(InvalidArgument, "delta", given=value):
        check_probability("delta", value)


def test_probability_returns_a_python_float() -> None:
    assert type(check_probability("delta", np.float32(0.5))) is float


@pytest.mark.parametrize("value", [0, -1, 1.0, "1", True, None, math.nan, Fraction(2)])
def test_integer_refuses_what_is_none_or_too_small(value: object) -> None:
    with raises(InvalidArgument, "n", given=value):
        check_integer("n", value, low=1)


def test_integer_returns_a_python_int() -> None:
    assert type(check_integer("n", np.int64(4))) is int
    with raises(InvalidArgument, "n", given=1.5):
        check_integer("n", 1.5)


@pytest.mark.parametrize("value", ["MAXIMIZE", 1, None, ["maximize"]])
def test_choice_names_the_choices(value: object) -> None:
    with raises(InvalidArgument, "direction", given=value):
        check_choice("direction", value, ["maximize", "minimize"])


@pytest.mark.parametrize(
    "value", [[], "abc", None, 0, -1, True, {"a"}, 1.5, np.ones((2, 2)), pd.Series([], dtype=str)]
)
def test_labels_refuse_what_is_no_list_of_labels(value: object) -> None:
    with raises(InvalidArgument, "arms", given=value):
        check_labels("arms", value)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (["a", "b", "a"], "arms[2]"),
        (["a", ""], "arms[1]"),
        (["a", None], "arms[1]"),
        (["a", math.nan], "arms[1]"),
        ([1, "1"], "arms[1]"),
    ],
)
def test_labels_name_the_entry_that_is_wrong(value: object, name: str) -> None:
    with raises(InvalidArgument, name):
        check_labels("arms", value)


@pytest.mark.parametrize("kind", [np.array, pd.Series, pd.Index, pd.Categorical])
def test_labels_may_be_a_column(kind: Any) -> None:
    assert check_labels("arms", kind(["b", "a"])) == ("b", "a")


def test_labelled_data_keep_their_labels_and_numbered_ones_count_by_position() -> None:
    assert plain_labels("w", pd.Series([0.4, 0.6])) == [0.4, 0.6]
    assert plain_labels("w", pd.Series([0.4, 0.6], index=[2, 1])) == {"2": 0.4, "1": 0.6}
    table = pd.DataFrame([[1, 2], [3, 4]], columns=["x", "y"])
    assert plain_labels("m", table) == [{"x": 1, "y": 2}, {"x": 3, "y": 4}]
    assert plain_labels("w", {"a": 1, 2: 3}) == {"a": 1, "2": 3}
    for other in ([1, 2], np.ones(2), 3.0, None, "text"):
        assert plain_labels("w", other) is other
    with raises(InvalidArgument, "w: label[1]"):
        plain_labels("w", pd.Series([0.4, 0.6], index=["a", "a"]))


@pytest.mark.parametrize(
    ("value", "name"),
    [([1.0, -2.0], "costs[1]"), ([[1.0, 2.0], [3.0, math.nan]], "costs[1, 1]"), (-1.0, "costs")],
)
def test_the_entry_that_is_wrong_is_named(value: Any, name: str) -> None:
    array = np.array(value)
    with raises(InvalidArgument, name):
        require_each("costs", array, array > 0, "must be greater than 0")


def test_more_labels_than_anybody_has_are_refused_at_once() -> None:
    with raises(InvalidArgument, "arms"):
        check_labels("arms", 10**9)


def test_an_imaginary_part_is_not_dropped_in_silence() -> None:
    with raises(InvalidArgument, "means"):
        check_array("means", np.array([1.0 + 2.0j, 3.0]), (2,))


def test_labels_become_text() -> None:
    assert check_labels("arms", np.array(["a", "b"])) == ("a", "b")
    assert check_labels("arms", (1, 2)) == ("1", "2")
    assert check_labels("arms", np.int64(2)) == ("0", "1")


def test_array_is_a_read_only_copy() -> None:
    given_array = np.ones(3)
    checked = check_array("means", given_array, (3,))
    given_array[0] = 7
    assert checked.tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="read-only"):
        checked[0] = 2


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ([1, 2], "means"),
        ([[1, 2, 3]], "means"),
        ([[1, 2], [3, math.nan]], "means[1, 1]"),
        ([[1, 2], [3]], "means"),
        ([["a", "b"]], "means[0, 0]"),
        ([[0.5, "b"]], "means[0, 1]"),
        ([[0.5, None]], "means[0, 1]"),
    ],
)
def test_array_names_the_shape_or_the_entry(value: object, name: str) -> None:
    with raises(InvalidArgument, name):
        check_array("means", value, (None, 2))


def test_array_says_what_its_axes_count() -> None:
    with raises(InvalidArgument, "means"):
        check_array("means", [[1], [2]], (None, 3), axes=("arms", "groups"))
    with raises(InvalidArgument, "means"):
        check_array("means", [1], (3,))


def test_array_may_hold_infinity_where_a_family_allows_it() -> None:
    assert check_array("floors", [-math.inf], (1,), finite=False).tolist() == [-math.inf]


def test_index_of_names_the_labels() -> None:
    assert index_of("arm", "b", ("a", "b")) == 1
    with raises(InvalidArgument, "arm", given="c"):
        index_of("arm", "c", ("a", "b"))


@pytest.mark.parametrize(
    "value",
    ["0.4", ["0.4", 1.0], True, [True, False], [[1.0, "2"]], np.array(["1"]), [None, "1"]],
    ids=["text", "mixed", "truth", "truths", "nested", "array of text", "none and text"],
)
def test_text_and_truth_values_are_no_numbers(value: object) -> None:
    with raises(InvalidArgument):
        as_floats("floors", value, "must be numbers")


@pytest.mark.parametrize("value", [Fraction(1, 4), [Decimal("0.25")], np.float32(0.25), [[1, 2]]])
def test_every_kind_of_number_is_taken(value: Any) -> None:
    found = as_floats("floors", value, "must be numbers")
    assert np.array_equal(found, np.array(value, dtype=float))


@pytest.mark.parametrize(
    "value", [True, None, "x", "1/0", "", float("nan"), float("inf"), [1], Decimal("0.5"), 1j]
)
def test_what_is_no_number_has_no_exact_value(value: object) -> None:
    with raises(InvalidArgument, "share", given=value):
        as_exact("share", value, "must be a number")


@pytest.mark.parametrize("value", ["1e-100000000", "9" * 401, 10**401, Fraction(1, 10**401)])
def test_a_number_of_too_many_digits_is_not_read(value: object) -> None:
    with raises(InvalidArgument, "share", given=value):
        as_exact("share", value, "must be a number")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_has_the_exact_value_of_its_shortest_decimal(value: float) -> None:
    exact = as_exact("share", value, "must be a number")
    assert exact == Fraction(Decimal(repr(value)))
    assert float(exact) == value


def test_an_integer_of_too_many_digits_is_refused_in_words() -> None:
    with raises(InvalidArgument, "carry"):
        check_exact_integer("carry", 10**5000, low=1)


@pytest.mark.parametrize("given", [2**53 + 1, 10**30, -(10**30), np.int64(2**62)])
def test_a_count_that_no_float_holds_exactly_is_refused_by_name(given: int) -> None:
    assert check_integer("budget", 2**53) == 2**53
    with raises(InvalidArgument) as error:
        check_integer("budget", given)
    assert error.value.name == "budget"
    assert error.value.given is given


def rounded(shares: list[Fraction], digits: int, how: str) -> list[float]:
    unit = Decimal(1).scaleb(-digits)
    exact = (Decimal(share.numerator) / Decimal(share.denominator) for share in shares)
    return [float(share.quantize(unit, rounding=how)) for share in exact]


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.sampled_from([2, 3, 4]))
def test_shares_are_accepted_however_their_last_digit_was_rounded(
    parts: list[int], digits: int
) -> None:
    """Half a unit of the last digit is a tie, which spreadsheets round up."""
    halves = [*parts, 2 * 10**digits - sum(parts)]
    if halves[-1] < 0:
        return
    shares = [Fraction(part, 2 * 10**digits) for part in halves]
    for how in ("ROUND_HALF_UP", "ROUND_HALF_DOWN", "ROUND_HALF_EVEN"):
        written = rounded(shares, digits, how)
        if abs(sum(written) - 1.0) <= 0.02:
            require_shares_or_counts("group_weights", np.array(written))


@pytest.mark.parametrize(
    "shares", [[0.13, 0.88], [0.13, 0.13, 0.38, 0.38], np.array([0.2, 0.3, 0.5], dtype=np.float32)]
)
def test_shares_whose_roundings_are_ties_or_of_single_precision_are_accepted(shares) -> None:
    require_shares_or_counts("group_weights", np.asarray(shares, dtype=np.float64))


@pytest.mark.parametrize("shares", [[0.4, 0.5], [0.13, 0.89], [0.3, 0.3, 0.3], [0.99], [1.5, 2.5]])
def test_numbers_that_are_neither_shares_nor_counts_are_refused(shares: list[float]) -> None:
    with raises(InvalidArgument) as error:
        require_shares_or_counts("group_weights", np.array(shares))
    assert (error.value.name, error.value.given) == ("group_weights", shares)
