"""Documents without what is too long to be read: tables of numbers, and most of many arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairtrial.core.recommendation import Progress
from fairtrial.presentation.cuts import MOST_ARMS, cut_of_arms
from fairtrial.presentation.sources import arm_of

__all__ = ["short_form"]

_MOST = MOST_ARMS
"""Largest number of values that a list of a short form has."""


def short_form(
    document: Mapping[str, Any], progress: Progress, *, minimize: bool
) -> dict[str, Any]:
    """Return a document of a study that is short enough to be read, with what was left out.

    Tables of numbers become their shapes, longer lists keep their first values, and of many arms
    those are kept that pages and commands show.

    Parameters
    ----------
    document : mapping of str to object
        The document, in JSON's own types.
    progress : Progress
        The progress of the study, whose arms are ranked.
    minimize : bool
        Whether smaller means are better.

    Returns
    -------
    dict
        The document, and under ``left_out`` a text for each place that was shortened, by its keys.
        There is no ``left_out`` if the document is whole.

    Examples
    --------
    >>> from fairtrial.core import Recommendation
    >>> progress = Progress(Recommendation(None, "running"), 0, 0, 0)
    >>> tables = {"x": [[0.25, 0.75]] * 100}
    >>> short_form({"name": "m", "tables": tables}, progress, minimize=False)
    {'name': 'm', 'tables': {'x': '100 x 2 numbers'}, 'left_out': {'tables.x': '100 x 2 numbers'}}
    """
    cut = cut_of_arms(progress, minimize)
    estimates = (*progress.arms, *progress.actions)
    arms = {arm_of(one.labels) for one in estimates}
    shortened = _Shortened(frozenset(arms), frozenset(arms - set(cut.arms)))
    found = {name: shortened.whole(value, name) for name, value in document.items()}
    if shortened.hidden:
        shortened.left_out["arms"] = f"{len(shortened.hidden):,} of {len(arms):,}, everywhere"
    return found | ({"left_out": shortened.left_out} if shortened.left_out else {})


class _Shortened:
    """Shortens the parts of a document, and keeps what it leaves out."""

    def __init__(self, arms: frozenset[str], hidden: frozenset[str]) -> None:
        self.arms = arms
        self.hidden = hidden
        self.left_out: dict[str, str] = {}

    def whole(self, value: Any, place: str) -> Any:
        """Return a value without what is too long; `place` is its keys."""
        if isinstance(value, Mapping):
            # Only keys that all name arms are arms: one of them may be called "status".
            hidden = self.hidden if self.arms.issuperset(value) else ()
            kept = {name: of for name, of in value.items() if name not in hidden}
            return {name: self.whole(of, f"{place}.{name}") for name, of in kept.items()}
        if isinstance(value, list):
            return self._list(value, place)
        return value

    def _list(self, values: list[Any], place: str) -> Any:
        shape = _shape_of_numbers(values)
        if shape is not None and _size(shape) > _MOST:
            said = f"{' x '.join(f'{length:,}' for length in shape)} numbers"
            self.left_out[place] = said
            return said
        kept = [one for one in values if not self._is_hidden(one)]
        if len(kept) > _MOST:
            self.left_out[place] = f"{len(kept) - _MOST:,} of {len(kept):,}"
        return [self.whole(one, place) for one in kept[:_MOST]]

    def _is_hidden(self, value: Any) -> bool:
        """Return whether a value is a hidden arm, or a row about one."""
        if isinstance(value, Mapping):
            return any(str(value.get(name)) in self.hidden for name in ("arm", "answer"))
        return isinstance(value, str) and value in self.hidden


def _size(shape: Sequence[int]) -> int:
    return shape[0] * _size(shape[1:]) if shape else 1


def _shape_of_numbers(value: Any) -> tuple[int, ...] | None:
    """Return the shape of nested lists of numbers; None if they are anything else."""
    if isinstance(value, int | float):
        return ()
    if not isinstance(value, list) or not value:
        return None
    inner = {_shape_of_numbers(one) for one in value}
    shape = inner.pop()
    return None if inner or shape is None else (len(value), *shape)
