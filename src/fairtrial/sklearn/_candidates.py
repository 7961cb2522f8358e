"""The settings to race: of grids, of distributions, or as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import ParameterGrid, ParameterSampler

from fairtrial.core.validation import check_integer
from fairtrial.errors import InvalidArgument

__all__ = ["settings_of"]


def settings_of(candidates: Any, number: int | None, random: Any) -> list[dict[str, Any]]:
    """Return the settings that `candidates` stands for, in order.

    Examples
    --------
    >>> settings_of([{"C": [1, 10]}, {"C": 3.0, "kernel": "linear"}], None, None)
    [{'C': 1}, {'C': 10}, {'C': 3.0, 'kernel': 'linear'}]
    """
    accepted = "must be a dict of settings, lists or distributions, or a sequence of such"
    given = [candidates] if isinstance(candidates, Mapping) else candidates
    if isinstance(given, str) or not isinstance(given, Sequence | ParameterGrid) or not len(given):
        raise InvalidArgument("candidates", accepted, candidates)
    settings: list[dict[str, Any]] = []
    for space in given:
        if not isinstance(space, Mapping):
            raise InvalidArgument("candidates", accepted, candidates)
        settings += _expanded(space, number, random)
    return settings


def _expanded(space: Mapping[str, Any], number: int | None, random: Any) -> list[dict[str, Any]]:
    drawn = any(hasattr(values, "rvs") for values in space.values())
    if drawn or (number is not None and all(map(_is_list, space.values()))):
        if number is None:
            raise InvalidArgument("n_candidates", "must be given to draw from distributions", None)
        wanted = check_integer("n_candidates", number, low=1)
        return list(ParameterSampler(dict(space), wanted, random_state=random))
    if all(map(_is_list, space.values())):
        return list(ParameterGrid(dict(space)))
    return [dict(space)]


def _is_list(values: Any) -> bool:
    return isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
