"""What is raced: candidates, items, and what an evaluation costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairtrial.core.frames import plain_data, rows_of
from fairtrial.core.validation import check_labels, check_number
from fairtrial.errors import InvalidArgument

__all__ = ["categories_of", "costs_of", "items_of", "named_candidates"]


def named_candidates(candidates: Any) -> dict[str, Any]:
    """Return what the score function gets for each candidate, by label.

    Parameters
    ----------
    candidates : mapping, or sequence of str
        Objects by label, or labels only: the score function then gets the label.

    Raises
    ------
    InvalidArgument
        If there are fewer than two candidates, or labels are not distinct texts.

    Examples
    --------
    >>> named_candidates(["a", "b"])
    {'a': 'a', 'b': 'b'}
    """
    labels = check_labels("candidates", list(candidates))
    if len(labels) < 2:
        raise InvalidArgument("candidates", "must be at least two", candidates)
    given = candidates.values() if isinstance(candidates, Mapping) else labels
    return dict(zip(labels, given, strict=True))


def items_of(items: Any) -> Sequence[Any]:
    """Return items as a sequence; a data frame has a mapping by column for each row.

    Raises
    ------
    InvalidArgument
        If there are no items, or they are not a sequence.

    Examples
    --------
    >>> import pandas as pd
    >>> items_of(pd.DataFrame({"question": ["1+1?"], "answer": [2]}))
    [{'question': '1+1?', 'answer': 2}]
    """
    plain = plain_data(items)
    if plain is not items:
        items = rows_of(plain) if isinstance(plain, Mapping) else plain
    elif hasattr(items, "to_dict") and hasattr(items, "columns"):
        items = items.to_dict("records")
    elif not isinstance(items, Sequence) and isinstance(items, Iterable):
        items = list(items)
    if not isinstance(items, Sequence) or isinstance(items, str) or not len(items):
        raise InvalidArgument("items", "must be a sequence or a data frame, not empty", items)
    return items


def costs_of(cost: Any, labels: Sequence[str]) -> dict[str, float]:
    """Return the cost of an evaluation of each candidate.

    Raises
    ------
    InvalidArgument
        If the costs are not one number, or one for each candidate.

    Examples
    --------
    >>> costs_of({"a": 0.03, "b": 1}, ["a", "b"]), costs_of(2, ["a"])
    ({'a': 0.03, 'b': 1.0}, {'a': 2.0})
    """
    if not isinstance(cost, Mapping):
        return dict.fromkeys(labels, check_number("cost", cost, low=0.0))
    if set(cost) != set(labels):
        raise InvalidArgument("cost", f"must have one entry for each of {list(labels)}", cost)
    return {label: check_number("cost", cost[label], low=0.0) for label in labels}


def categories_of(category: Any, items: Sequence[Any]) -> list[str]:
    """Return the category of each item as text.

    Parameters
    ----------
    category : str, or sequence
        The key of the items that holds the category, or the categories.

    Raises
    ------
    InvalidArgument
        If an item has no such key, or there is not one category for each item.

    Examples
    --------
    >>> categories_of("subject", [{"subject": "law"}, {"subject": "art"}])
    ['law', 'art']
    """
    if isinstance(category, str):
        lacking = [at for at, item in enumerate(items) if category not in _keys(item)]
        if lacking:
            raise InvalidArgument(
                "category", f"must be a column of the items; item {lacking[0]} has none", category
            )
        return [str(item[category]) for item in items]
    labels = [str(label) for label in plain_data(category)]
    if len(labels) != len(items):
        raise InvalidArgument("category", f"must have {len(items)} entries", len(labels))
    return labels


def _keys(item: Any) -> Any:
    return item if isinstance(item, Mapping) else ()
