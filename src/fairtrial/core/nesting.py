"""How deeply a text is nested, found out before anybody parses it."""

from __future__ import annotations

import re

__all__ = ["is_deeper"]

# A string, with or without its end; what is in it opens nothing.
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_BRACKET = re.compile(r"[\[{\]}]")


def is_deeper(text: str, depth: int) -> bool:
    """Return whether a text of JSON opens more than `depth` lists and objects within each other.

    Parsers of nested data call themselves at every level: a text of a few kilobytes can take them
    beyond what the interpreter allows. This needs time in proportion to the length, and no stack.

    Examples
    --------
    >>> is_deeper('{"a": ["[[["]}', 2), is_deeper("[[[]]]", 2)
    (False, True)
    """
    if text.count("[") + text.count("{") <= depth:
        return False
    level = 0
    for bracket in _BRACKET.findall(_STRING.sub("", text)):
        level += 1 if bracket in "[{" else -1
        if level > depth:
            return True
    return False
