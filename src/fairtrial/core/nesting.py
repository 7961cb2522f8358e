"""How deeply a text is nested, found before it is parsed."""

from __future__ import annotations

import re

__all__ = ["is_deeper"]

# A string, with or without its closing quote; brackets inside it do not count.
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_BRACKET = re.compile(r"[\[{\]}]")


def is_deeper(text: str, depth: int) -> bool:
    """Return whether a JSON text opens more than `depth` lists and objects inside each other.

    Parsers call themselves at every level, so a text of a few kilobytes can exceed the
    interpreter's limit. This check takes time in proportion to the length, and does not use the
    stack.

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
