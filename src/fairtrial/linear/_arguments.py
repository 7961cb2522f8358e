"""Arguments of a problem: rows of features, labels, numbers by arm, a range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.validation import check_array, check_labels
from fairtrial.errors import InvalidArgument

Floats = NDArray[np.float64]

_LARGEST = 1e200
"""The largest size of a feature; the smallest is its inverse, except for 0."""


def is_frame(value: Any) -> bool:
    """Return whether a table names its rows and columns."""
    return all(hasattr(value, name) for name in ("index", "columns", "to_numpy"))


def column_names(value: Any, number: int) -> tuple[str, ...]:
    """Return the names of features: the table's, or numbers."""
    return tuple(map(str, value.columns if is_frame(value) else range(number)))


def rows_of(
    name: str, value: Any, width: int | None = None, names: Sequence[str] | None = None
) -> Floats:
    """Return features as read-only floats of shape (n, width), in sizes that can be scaled.

    `names` are those of the features, for errors; by default those of a table, or numbers.
    """
    numbers = _numbers_of(value) if is_frame(value) else _without_booleans(value)
    rows = check_array(name, numbers, (None, width), axes=("rows", "features"))
    if not rows.size:
        raise InvalidArgument(name, f"must have rows and columns; got shape {rows.shape}")
    sizes = np.abs(rows).max(axis=0)
    wrong = np.flatnonzero((sizes > _LARGEST) | ((sizes > 0.0) & (sizes < 1.0 / _LARGEST)))
    if wrong.size:
        column = int(wrong[0])
        feature = (names or column_names(value, rows.shape[1]))[column]
        accepted = f"must be from {1.0 / _LARGEST:g} to {_LARGEST:g} in size: change its unit"
        raise InvalidArgument(f"{name}: feature {feature!r}", accepted, float(sizes[column]))
    return rows


def _numbers_of(frame: Any) -> Any:
    """Return the numbers of a table; truth values, as from `pandas.get_dummies`, are 0 and 1."""
    return frame.to_numpy(dtype=np.float64, na_value=np.nan)


def _without_booleans(value: Any) -> Any:
    """Return an array of truth values as numbers; anything else unchanged."""
    is_boolean = isinstance(value, np.ndarray) and value.dtype.kind == "b"
    return value.astype(np.float64) if is_boolean else value


def in_the_order_of(candidates: Any, features: Any) -> Any:
    """Return the candidates' columns in the order of the features', by name."""
    wanted, given = list(features.columns), list(candidates.columns)
    if len(wanted) != len(given) or set(wanted) != set(given):
        raise InvalidArgument("candidates", f"must have the columns of features, {wanted}", given)
    return candidates[wanted]


def labels_of(name: str, labels: Any, rows: Any, number: int) -> tuple[str, ...]:
    """Return labels for that many rows: the given ones, or the table's, or numbers."""
    if labels is None:
        labels = list(rows.index) if is_frame(rows) else number
    clean = check_labels(name, labels)
    if len(clean) != number:
        raise InvalidArgument(name, f"must be {number} labels, one per row; got {len(clean)}")
    return clean


def by_arm(name: str, value: ArrayLike, arms: int) -> Floats:
    """Return one number, or one for each arm, as an array of shape (K,)."""
    if np.ndim(value) == 0:
        return np.broadcast_to(check_array(name, value, ()), arms)
    return check_array(name, value, (arms,), axes=("arms",))
