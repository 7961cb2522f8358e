"""States and their labels: which values of a column mean which label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def state_label(value: Any) -> str:
    """Return the label of a value in a table; 1.0 means "1"."""
    if isinstance(value, bool | np.bool_):
        return str(int(value))
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def positions_of(values: Sequence[Any], labels: Sequence[str]) -> NDArray[np.int64]:
    """Return the position of each value among labels, shape (n,); -1 if it is not a label."""
    positions = {label: position for position, label in enumerate(labels)}
    try:
        return np.array([positions[value] for value in values], dtype=np.int64)
    except (KeyError, TypeError):
        # Some value is not a label itself, but it can be a number that means one.
        found = [positions.get(state_label(value), -1) for value in values]
        return np.array(found, dtype=np.int64)
