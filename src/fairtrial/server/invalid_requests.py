"""What is wrong with a request's body, in one sentence for each place."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["mistakes_of"]

_KINDS: Mapping[str, str] = {
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "an object with named values",
    "model_type": "an object with named values",
    "model_attributes_type": "an object with named values",
}
"""What a value should have been, by pydantic's type of error; it lists each alternative alone."""

_SENTENCES: Mapping[str, str] = {
    "missing": "is required",
    "extra_forbidden": "is not known here",
}

_ALTERNATIVES = ("int", "float", "told", "unsolicited")
"""What pydantic adds to a place to say which alternative it tried."""

_LONGEST = 120


def mistakes_of(errors: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return each place that is wrong, in the usual notation, with one sentence about it.

    Examples
    --------
    >>> mistakes_of([
    ...     {"loc": ("body", "value", "int"), "type": "int_type", "msg": "", "input": True},
    ...     {"loc": ("body", "value", "float"), "type": "float_type", "msg": "", "input": True},
    ... ])
    [('value', 'must be a number; got true')]
    """
    kinds: dict[tuple[Any, ...], list[str]] = {}
    found: dict[tuple[Any, ...], str] = {}
    for error in errors:
        place, kind = _place(error), _KINDS.get(str(error["type"]))
        if kind is not None:
            kinds.setdefault(place, []).append(kind)
            found[place] = f"must be {_one_of(kinds[place])}; got {_short(error.get('input'))}"
        else:
            found.setdefault(place, _sentence(error))
    # A mistake inside of a value explains why it is none of the alternatives.
    return [
        (_written(place), text)
        for place, text in found.items()
        if not (place in kinds and any(_is_inside(other, place) for other in found))
    ]


def _place(error: Mapping[str, Any]) -> tuple[Any, ...]:
    location = tuple(error["loc"])
    if location and location[0] in ("body", "query", "path", "header"):
        location = location[1:]
    if error["type"] in _KINDS and location and location[-1] in _ALTERNATIVES:
        location = location[:-1]
    return tuple(
        part
        for at, part in enumerate(location)
        if not (isinstance(part, str) and part.startswith("dict["))
        and not (part in _ALTERNATIVES and at > 0 and isinstance(location[at - 1], int))
    )


def _one_of(kinds: Sequence[str]) -> str:
    names = list(dict.fromkeys(kinds))
    if "a number" in names and "a whole number" in names:
        names.remove("a whole number")
    return " or ".join(names)


def _sentence(error: Mapping[str, Any]) -> str:
    text = _SENTENCES.get(str(error["type"]), str(error["msg"]))
    return text.replace("Input should", "must").replace("Value error, ", "")


def _is_inside(place: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return len(place) > len(other) and place[: len(other)] == other


def _written(place: Sequence[Any]) -> str:
    """Return a place in the usual notation: ``outcomes[3].value``."""
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _short(given: Any) -> str:
    text = json.dumps(given, default=str, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
