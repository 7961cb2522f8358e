"""The settings to race: from grids, from distributions, or given one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import ParameterGrid, ParameterSampler

from fairtrial.core.validation import check_integer
from fairtrial.errors import InvalidArgument

__all__ = ["HOW_TO_RACE_MODELS", "settings_of"]

HOW_TO_RACE_MODELS = (
    "; models are raced as settings of a step: Pipeline([('model', A())]), {'model': [A(), B()]}"
)


def settings_of(candidates: Any, number: int | None, random: Any) -> list[dict[str, Any]]:
    """Return the settings that `candidates` describes, in order.

    Examples
    --------
    >>> settings_of([{"C": [1, 10]}, {"C": 3.0, "kernel": "linear"}], None, None)
    [{'C': 1}, {'C': 10}, {'C': 3.0, 'kernel': 'linear'}]
    """
    given = [candidates] if isinstance(candidates, Mapping) else candidates
    is_listed = isinstance(given, Sequence | ParameterGrid | ParameterSampler)
    if isinstance(given, str) or not is_listed or not len(given):
        raise InvalidArgument("candidates", _accepted([candidates]), candidates)
    settings: list[dict[str, Any]] = []
    for space in given:
        if not isinstance(space, Mapping):
            raise InvalidArgument("candidates", _accepted(given), candidates)
        settings += _expanded(space, number, random)
    return settings


def _accepted(given: Sequence[Any]) -> str:
    parts = [part for item in given for part in (item if isinstance(item, tuple) else [item])]
    hint = HOW_TO_RACE_MODELS if any(hasattr(part, "fit") for part in parts) else ""
    return f"must be a dict of settings, lists or distributions, or a sequence of such dicts{hint}"


def _expanded(space: Mapping[str, Any], number: int | None, random: Any) -> list[dict[str, Any]]:
    ranges = [_is_list(values) for values in space.values()]
    drawn = any(hasattr(values, "rvs") for values in space.values())
    if drawn or (number is not None and all(ranges)):
        if number is None:
            raise InvalidArgument("n_candidates", "must be given to draw from distributions", None)
        wanted = check_integer("n_candidates", number, low=1)
        return list(ParameterSampler(dict(space), wanted, random_state=random))
    if all(ranges):
        return list(ParameterGrid(dict(space)))
    if any(isinstance(values, list) for values in space.values()):
        raise InvalidArgument(
            "candidates", "must have lists of values only, or none: wrap single values", space
        )
    return [dict(space)]


def _is_list(values: Any) -> bool:
    return isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
