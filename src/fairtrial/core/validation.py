"""Checks of arguments: each returns the clean value or raises `InvalidArgument`."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.frames import plain_data, rows_of
from fairtrial.core.sizes import check_size
from fairtrial.core.wording import choices
from fairtrial.errors import InvalidArgument

__all__ = [
    "LARGEST_COUNT",
    "as_exact",
    "as_floats",
    "check_array",
    "check_choice",
    "check_confidence",
    "check_error_probability",
    "check_exact_integer",
    "check_flag",
    "check_instance",
    "check_integer",
    "check_labels",
    "check_number",
    "check_numbers",
    "check_optional_integer",
    "check_optional_label",
    "check_optional_number",
    "check_probability",
    "check_range",
    "index_of",
    "plain_labels",
    "require_each",
    "require_shares_or_counts",
]

Floats = NDArray[np.float64]

LARGEST_COUNT = 2**53
"""The largest count; kernels compute with counts as floats, which hold each of them exactly."""

_LONGEST_LABEL = 1_000
_NOT_STORABLE = re.compile("[\0\ud800-\udfff]")

_FEWEST_ROUNDED = 2
"""The fewest decimals of shares that were rounded: nobody rounds shares to tenths."""

_MOST_ROUNDING = 0.02
"""How far the sum of rounded shares may be from 1, however many there are."""

_SINGLE_PRECISION = 1e-6
"""How far shares that are kept in single precision may sum from 1."""

_LONGEST_NUMBER = 400
"""The most characters of a text, digits of an integer, or size of an exponent in a number."""


def check_number(
    name: str,
    value: object,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
) -> float:
    """Return `value` as a finite float in [low, high] (or (low, high] if `open_low`).

    Examples
    --------
    >>> check_number("tolerance", 0.5, low=0)
    0.5
    """
    number = _as_float(value)
    too_low = number <= low if open_low else number < low
    if not math.isfinite(number) or too_low or number > high:
        raise InvalidArgument(name, _accepted_range(low, high, open_low), value)
    return number


def check_probability(name: str, value: object) -> float:
    """Return `value` as a float strictly between 0 and 1.

    Examples
    --------
    >>> check_probability("delta", 0.05)
    0.05
    """
    number = _as_float(value)
    if not 0.0 < number < 1.0:
        raise InvalidArgument(name, "must be a number strictly between 0 and 1", value)
    return number


def check_error_probability(name: str, value: object) -> float:
    """Return `value`, an accepted probability of being wrong, as a float between 0 and 0.5.

    Whoever gives more has given a confidence in its place: nobody wants an answer that may be wrong
    more often than not.

    Examples
    --------
    >>> check_error_probability("delta", 0.05)
    0.05
    >>> check_error_probability("delta", 0.95)
    Traceback (most recent call last):
    fairtrial.errors.InvalidArgument: delta must be less than 0.5: it is the accepted probability
    of being wrong, not the confidence. Did you mean 0.05?; got 0.95
    """
    number = check_probability(name, value)
    if number >= 0.5:
        meaning = "it is the accepted probability of being wrong, not the confidence"
        meant = f"{1.0 - number:.12g}" if number > 0.5 else "0.05"
        accepted = f"must be less than 0.5: {meaning}. Did you mean {meant}?"
        raise InvalidArgument(name, accepted, value)
    return number


def check_confidence(name: str, value: object) -> float:
    """Return `value`, the confidence of an interval, as a float from 0.5 to 1.

    Examples
    --------
    >>> check_confidence("level", 0.95)
    0.95
    """
    number = check_probability(name, value)
    if number < 0.5:
        accepted = "must be at least 0.5: it is the confidence of the intervals. Did you mean"
        raise InvalidArgument(name, f"{accepted} {1.0 - number:.12g}?", value)
    return number


def _as_float(value: object) -> float:
    """Return a real number as float: NaN if it is not a number, infinity if it is too large."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def as_exact(name: str, value: object, accepted: str) -> Fraction:
    """Return a number as the exact fraction that was written.

    A float is read by its shortest decimal: its binary value is not what was meant. Text that would
    take long to read, such as ``"1e-100000000"``, is refused first.

    Examples
    --------
    >>> as_exact("share", "1/3", "must be a number"), as_exact("share", 0.07, "must be a number")
    (Fraction(1, 3), Fraction(7, 100))
    """
    if isinstance(value, bool) or not isinstance(
        value, Fraction | str | int | float | np.integer | np.floating
    ):
        raise InvalidArgument(name, accepted, value)
    if isinstance(value, Fraction | int):
        exact = Fraction(value)
        if _is_too_long(exact.numerator) or _is_too_long(exact.denominator):
            raise InvalidArgument(name, f"{accepted}, of at most {_LONGEST_NUMBER} digits", value)
        return exact
    text = str(value)
    exponent = re.search(r"[eE][-+]?0*([0-9_]+)", text)
    too_long = exponent is not None and len(exponent[1]) > 3
    if len(text) > _LONGEST_NUMBER or too_long:
        raise InvalidArgument(name, f"{accepted}, of at most {_LONGEST_NUMBER} digits", value)
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise InvalidArgument(name, accepted, value) from None


def check_range(name: str, value: Any) -> tuple[float, float]:
    """Return `value` as two finite floats, the first below the second.

    Examples
    --------
    >>> check_range("reward_range", [0, 1])
    (0.0, 1.0)
    """
    try:
        low, high = (check_number(name, end) for end in value)
    except (TypeError, ValueError):
        low = high = math.nan
    if not low < high:
        raise InvalidArgument(name, "must be two finite numbers, low < high", value)
    return low, high


def check_integer(
    name: str, value: object, *, low: int | None = None, high: int = LARGEST_COUNT
) -> int:
    """Return `value` as an int that is at least `low`, and at most `high`.

    Examples
    --------
    >>> check_integer("replications", 3, low=1)
    3
    """
    accepted = "must be an integer" if low is None else f"must be an integer of at least {low}"
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InvalidArgument(name, accepted, value)
    if low is not None and value < low:
        raise InvalidArgument(name, accepted, value)
    if abs(int(value)) > high:
        limit = f"{high:,}" if high == LARGEST_COUNT else f"{_LONGEST_NUMBER} digits"
        raise InvalidArgument(name, f"{accepted}, and of at most {limit}", value)
    return int(value)


def check_exact_integer(name: str, value: object, *, low: int | None = None) -> int:
    """Return `value` as an int that is at least `low`, also if no float has its value.

    Examples
    --------
    >>> check_exact_integer("denominator", 10**30) == 10**30
    True
    """
    return check_integer(name, value, low=low, high=10**_LONGEST_NUMBER)


def check_optional_integer(name: str, value: object, *, low: int | None = None) -> int | None:
    """Return `value` as an int that is at least `low`, or None unchanged.

    Examples
    --------
    >>> check_optional_integer("max_pulls", None, low=1) is None
    True
    """
    return None if value is None else check_integer(name, value, low=low)


def check_optional_number(name: str, value: object, *, low: float = -math.inf) -> float | None:
    """Return `value` as a finite float that is at least `low`, or None unchanged.

    Examples
    --------
    >>> check_optional_number("exploration", 1, low=0.0)
    1.0
    """
    return None if value is None else check_number(name, value, low=low)


def _is_too_long(number: int) -> bool:
    return number.bit_length() > _LONGEST_NUMBER * math.log2(10)


def check_flag(name: str, value: object) -> bool:
    """Return `value` if it is True or False.

    Examples
    --------
    >>> check_flag("clip", np.True_)
    True
    """
    if not isinstance(value, bool | np.bool_):
        raise InvalidArgument(name, "must be True or False", value)
    return bool(value)


def check_choice(name: str, value: object, choices: Sequence[str]) -> str:
    """Return `value` if it is one of `choices`.

    Examples
    --------
    >>> check_choice("direction", "maximize", ["maximize", "minimize"])
    'maximize'
    """
    if not isinstance(value, str) or value not in choices:
        raise InvalidArgument(name, f"must be one of {', '.join(map(repr, choices))}", value)
    return value


def check_instance(name: str, value: object, base: type[Any]) -> Any:
    """Return `value` if it is an instance of one of our classes.

    Examples
    --------
    >>> from fairtrial.core import Policy
    >>> check_instance("policy", None, Policy)
    Traceback (most recent call last):
    fairtrial.errors.InvalidArgument: policy must be a fairtrial.Policy; got None
    """
    if isinstance(value, base):
        return value
    accepted = f"must be a {_public_name(base)}"
    if isinstance(value, type) and issubclass(value, base):
        accepted = f"must be an object, not its class: {value.__name__}(...)"
    raise InvalidArgument(name, accepted, value)


def _public_name(cls: type) -> str:
    package, _, rest = cls.__module__.partition(".")
    family = rest.partition(".")[0]
    return ".".join([package, *([] if family == "core" else [family]), cls.__name__])


def check_labels(name: str, value: object) -> tuple[str, ...]:
    """Return labels as a tuple of distinct, non-empty strings; an int n means 0 .. n-1.

    Examples
    --------
    >>> check_labels("arms", 3)
    ('0', '1', '2')
    """
    accepted = "must be a non-empty list of distinct labels, or their number"
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        check_size(name, "actions", check_integer(name, value, low=1))
        return tuple(map(str, range(value)))
    given: Any = plain_data(value)
    if _is_column(given):
        given = given.tolist()
    if isinstance(given, str | bytes) or not isinstance(given, Sequence) or not len(given):
        raise InvalidArgument(name, accepted, value)
    places: dict[str, int] = {}
    for place, label in enumerate(given):
        text = "" if _is_missing(label) else str(label)
        if not text:
            raise InvalidArgument(f"{name}[{place}]", "must be a label that is not empty", label)
        if text in places:
            distinct = f"must differ from {name}[{places[text]}]: labels are distinct"
            raise InvalidArgument(f"{name}[{place}]", distinct, label)
        # Files and other programs accept neither a NUL nor half of a surrogate pair.
        if len(text) > _LONGEST_LABEL or _NOT_STORABLE.search(text):
            limit = f"must have at most {_LONGEST_LABEL:,} characters, all of them encodable"
            raise InvalidArgument(f"{name}[{place}]", limit, label)
        places[text] = place
    return tuple(places)


def _is_column(value: object) -> bool:
    """Return whether a value is one-dimensional data of NumPy, pandas or Arrow."""
    return getattr(value, "ndim", 1) == 1 and hasattr(value, "tolist")


def _is_missing(label: object) -> bool:
    return label is None or (isinstance(label, float) and math.isnan(label))


def plain_labels(name: str, value: Any) -> Any:
    """Return a Series or DataFrame as mappings by label, and labels of mappings as text.

    An index that pandas numbered by itself is not a label: such rows are read by position, as are
    those of all other libraries.

    Raises
    ------
    InvalidArgument
        If two labels are the same.

    Examples
    --------
    >>> import pandas as pd
    >>> plain_labels("weights", pd.Series({"young": 0.4, "old": 0.6}))
    {'young': 0.4, 'old': 0.6}
    >>> plain_labels("means", pd.DataFrame({"young": [1, 2]}, index=["a", "b"]))
    {'a': {'young': 1}, 'b': {'young': 2}}
    """
    if isinstance(value, Mapping):
        check_labels(f"{name}: label", list(value))
        return {str(label): entry for label, entry in value.items()}
    plain = plain_data(value)
    if plain is not value:
        return rows_of(plain) if isinstance(plain, Mapping) else plain
    index = getattr(value, "index", None)
    if index is None or callable(index) or not hasattr(value, "to_numpy"):
        return value
    rows: list[Any] = value.to_numpy().tolist()
    if hasattr(value, "columns"):
        rows = [_by_label(name, value.columns, row) for row in rows]
    return _by_label(name, index, rows)


def _by_label(name: str, index: Any, values: list[Any]) -> Any:
    if type(index).__name__ == "RangeIndex":
        return values
    labels = [str(label) for label in index]
    check_labels(f"{name}: label", labels)
    return dict(zip(labels, values, strict=True))


def check_array(
    name: str,
    value: ArrayLike,
    shape: tuple[int | None, ...],
    *,
    finite: bool = True,
    axes: tuple[str, ...] = (),
) -> Floats:
    """Return a read-only float copy of `value` with that shape; ``None`` matches any size.

    `axes` names what each axis counts (``("arms", "groups")``), for the error message.

    Examples
    --------
    >>> check_array("means", [[1, 2], [3, 4]], (2, 2))
    array([[1., 2.],
           [3., 4.]])
    """
    array = as_floats(name, value, "must be an array of numbers")
    fits = array.ndim == len(shape) and all(
        wanted is None or wanted == size for wanted, size in zip(shape, array.shape, strict=True)
    )
    if not fits:
        raise InvalidArgument(
            name, f"must have shape {_shape_in_words(shape, axes)}; got shape {array.shape}"
        )
    if finite:
        require_each(name, array, np.isfinite(array), "must be finite")
    array.setflags(write=False)
    return array


def _shape_in_words(shape: tuple[int | None, ...], axes: tuple[str, ...]) -> str:
    sizes = ["any" if size is None else str(size) for size in shape]
    if axes:
        return f"({', '.join(map(' '.join, zip(sizes, axes, strict=True)))})"
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def as_floats(name: str, value: ArrayLike | None, accepted: str) -> Floats:
    """Return a float copy of numbers of any shape; text and truth values are refused.

    Examples
    --------
    >>> as_floats("means", [1, 2], "must be an array of numbers")
    array([1., 2.])
    """
    try:
        given = np.asarray(value)
        # A cast, not a conversion: NumPy would silently drop an imaginary part.
        array = given.astype(
            np.float64, casting="unsafe" if given.dtype.kind in "OUS" else "same_kind"
        )
    except (TypeError, ValueError, OverflowError):
        _refuse_first_text(name, value)
        raise InvalidArgument(name, accepted, value) from None
    if given.dtype.kind in "OUSb":
        _refuse_first_text(name, value)
        if given.dtype.kind in "USb" or any(
            isinstance(entry, bool | str | bytes) for entry in given.ravel().tolist()
        ):
            raise InvalidArgument(name, accepted, value)
    return array


def _refuse_first_text(name: str, value: object, place: tuple[int, ...] = ()) -> None:
    """Refuse the first entry of a list, at any depth, that is not a number; name its place."""
    if isinstance(value, list | tuple):
        for index, entry in enumerate(value):
            _refuse_first_text(name, entry, (*place, index))
    elif place and not _is_number(value):
        raise InvalidArgument(_entry(name, place), "must be a number", value)


def _is_number(value: object) -> bool:
    if isinstance(value, bool | np.bool_ | str | bytes):
        return False
    return hasattr(value, "__float__") or hasattr(value, "__array__")


def require_each(
    name: str,
    array: ArrayLike,
    fine: ArrayLike,
    accepted: str,
    axes: Sequence[Sequence[str]] = (),
) -> None:
    """Raise an error that names the first entry of an array that is not `fine`, if there is one.

    `axes` are the labels along each axis; without them the error names the entry by position.

    Examples
    --------
    >>> costs = np.array([1.0, -2.0])
    >>> require_each("costs", costs, costs > 0, "must be greater than 0", [["a", "b"]])
    Traceback (most recent call last):
    fairtrial.errors.InvalidArgument: costs[b] must be greater than 0; got -2.0
    """
    if np.all(fine):
        return
    given = np.asarray(array, dtype=np.float64)
    place = tuple(map(int, np.argwhere(~np.broadcast_to(fine, given.shape))[0]))
    named = [labels[at] for labels, at in zip(axes, place, strict=True)] if axes else place
    raise InvalidArgument(_entry(name, named), accepted, float(given[place]))


def require_shares_or_counts(name: str, weights: Floats) -> None:
    """Raise an error unless weights are shares that sum to 1, or counts.

    Counts are whole numbers. The last digit of a share may be rounded, if there are at least two:
    rounding n shares to d digits changes their sum by at most n / 2 units of digit d. It does so
    by n / 2 if all are ties that are rounded up: 12.5 % and 87.5 % become 0.13 and 0.88.

    Examples
    --------
    >>> require_shares_or_counts("group_weights", np.array([0.33, 0.33, 0.33]))
    >>> require_shares_or_counts("group_weights", np.array([414.0, 192.0, 394.0]))
    >>> require_shares_or_counts("group_weights", np.array([0.4, 0.5]))
    Traceback (most recent call last):
    fairtrial.errors.InvalidArgument: group_weights must be shares that sum to 1, or counts (whole
    numbers); these sum to 0.9; got [0.4, 0.5]
    """
    total = float(weights.sum())
    if (weights == np.floor(weights)).all():
        return
    digits = max(_decimals(weight) for weight in weights.tolist())
    units = weights.size // 2 if digits >= _FEWEST_ROUNDED else 0
    rounding = min(units * 10.0**-digits, _MOST_ROUNDING)
    if abs(total - 1.0) > rounding + _SINGLE_PRECISION:
        accepted = "must be shares that sum to 1, or counts (whole numbers)"
        raise InvalidArgument(name, f"{accepted}; these sum to {total:.12g}", weights.tolist())


def _decimals(number: float) -> int:
    """Return the number of decimals with which a number is written."""
    exponent = Decimal(repr(number)).as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _entry(name: str, place: Sequence[object]) -> str:
    return f"{name}[{', '.join(map(str, place))}]" if place else name


def check_numbers(name: str, value: ArrayLike, *, low: float = -math.inf) -> Floats:
    """Return numbers of any shape as floats, each finite and at least `low`.

    Examples
    --------
    >>> check_numbers("pulls", [1, 2], low=0)
    array([1., 2.])
    """
    limit = "" if low == -math.inf else f" of at least {low:g}"
    array = as_floats(name, value, f"must be finite numbers{limit}")
    allowed = np.isfinite(array) & (array >= low)
    require_each(name, array, allowed, f"must be a finite number{limit}")
    return array


def index_of(name: str, label: Hashable, labels: Sequence[Any]) -> int:
    """Return the position of `label` in `labels`; a number stands for its text.

    Examples
    --------
    >>> index_of("arm", 2, ["1", "2"])
    1
    """
    known = list(labels)
    try:
        return known.index(label if label in known else str(label))
    except ValueError:
        raise InvalidArgument(name, f"must be one of {choices(labels, label)}", label) from None


def check_optional_label(name: str, label: Any, labels: Sequence[Any]) -> Any:
    """Return `label` if it is one of `labels`, or None unchanged.

    Examples
    --------
    >>> check_optional_label("control", "a", ["a", "b"])
    'a'
    """
    return None if label is None else labels[index_of(name, label, labels)]


def _accepted_range(low: float, high: float, open_low: bool) -> str:
    if low == -math.inf and high == math.inf:
        return "must be a finite number"
    if high == math.inf:
        return f"must be a finite number {'greater than' if open_low else 'of at least'} {low:g}"
    return f"must be a number in {'(' if open_low else '['}{low:g}, {high:g}]"
