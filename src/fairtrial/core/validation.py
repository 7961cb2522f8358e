"""Checks of arguments: each returns the clean value or raises `InvalidArgument`."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.wording import choices
from fairtrial.errors import InvalidArgument

__all__ = [
    "as_floats",
    "check_array",
    "check_choice",
    "check_instance",
    "check_integer",
    "check_labels",
    "check_number",
    "check_numbers",
    "check_probability",
    "check_range",
    "index_of",
]

Floats = NDArray[np.float64]

_MOST_LABELS = 1_000_000


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
    >>> check_number("slack", 0.5, low=0)
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


def _as_float(value: object) -> float:
    """Return a real number; NaN for what is none, infinity for one that no float holds."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


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


def check_integer(name: str, value: object, *, low: int | None = None) -> int:
    """Return `value` as an int that is at least `low`.

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
    return int(value)


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
    """Return `value` if it is an object of one of our classes.

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
        if check_integer(name, value, low=1) > _MOST_LABELS:
            raise InvalidArgument(name, f"must be at most {_MOST_LABELS:,}", value)
        return tuple(map(str, range(value)))
    if isinstance(value, str | bytes) or not isinstance(value, Sequence | np.ndarray):
        raise InvalidArgument(name, accepted, value)
    labels = tuple("" if label is None else str(label) for label in value)
    if not labels or not all(labels) or len(set(labels)) != len(labels):
        raise InvalidArgument(name, accepted, value)
    return labels


def check_array(
    name: str,
    value: ArrayLike,
    shape: tuple[int | None, ...],
    *,
    finite: bool = True,
    axes: tuple[str, ...] = (),
) -> Floats:
    """Return a read-only float copy of `value` whose shape matches; ``None`` matches any size.

    `axes` says what is counted along each axis (``("arms", "groups")``), for the message.

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
    if finite and not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        place = "[" + ", ".join(map(str, where)) + "]"
        raise InvalidArgument(f"{name}{place}", "must be finite", float(array[where]))
    array.setflags(write=False)
    return array


def _shape_in_words(shape: tuple[int | None, ...], axes: tuple[str, ...]) -> str:
    sizes = ["any" if size is None else str(size) for size in shape]
    if axes:
        return f"({', '.join(map(' '.join, zip(sizes, axes, strict=True)))})"
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def as_floats(name: str, value: ArrayLike | None, accepted: str) -> Floats:
    """Return a float copy of numbers of any shape; text and truth values are no numbers.

    Examples
    --------
    >>> as_floats("means", [1, 2], "must be an array of numbers")
    array([1., 2.])
    """
    try:
        given = np.asarray(value)
        # Casting, not converting: numpy would drop an imaginary part.
        array = given.astype(
            np.float64, casting="unsafe" if given.dtype.kind in "OUS" else "same_kind"
        )
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(name, accepted, value) from None
    if given.dtype.kind in "OUSb" and any(
        isinstance(entry, bool | str | bytes) for entry in given.ravel().tolist()
    ):
        raise InvalidArgument(name, accepted, value)
    return array


def check_numbers(name: str, value: ArrayLike, *, low: float) -> Floats:
    """Return numbers of any shape as floats, each finite and at least `low`.

    Examples
    --------
    >>> check_numbers("pulls", [1, 2], low=0)
    array([1., 2.])
    """
    accepted = f"must be finite numbers of at least {low:g}"
    array = as_floats(name, value, accepted)
    if not (np.isfinite(array) & (array >= low)).all():
        raise InvalidArgument(name, accepted, value)
    return array


def index_of(name: str, label: Hashable, labels: Sequence[Any]) -> int:
    """Return the position of `label` in `labels`."""
    try:
        return list(labels).index(label)
    except ValueError:
        raise InvalidArgument(name, f"must be one of {choices(labels, label)}", label) from None


def _accepted_range(low: float, high: float, open_low: bool) -> str:
    if low == -math.inf and high == math.inf:
        return "must be a finite number"
    if high == math.inf:
        return f"must be a finite number {'greater than' if open_low else 'of at least'} {low:g}"
    return f"must be a number in {'(' if open_low else '['}{low:g}, {high:g}]"
