"""Mistakes in a section of a file, as lines that begin with a key path."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, TypeVar

from fairtrial.errors import FairtrialError, InvalidArgument

__all__ = ["REFUSALS", "Mistakes", "did_you_mean", "in_words", "without_python"]

Built = TypeVar("Built")

REFUSALS = (FairtrialError, TypeError, ValueError, ArithmeticError)
"""Errors that a constructor may raise for a value of the wrong kind, such as a huge integer."""

_LONGEST_NAME = 200

_PYTHON = re.compile(r"(?<!\w)'[^']*'|\"[^\"]*\"|\b(?:None(?! of )|True|False)\b")
"""Words of Python, and what is quoted, which is not changed."""

_SYNONYMS = {
    "alpha": "delta",
    "significance": "delta",
    "epsilon": "tolerance",
    "slack": "tolerance",
    "std": "noise_std",
    "sigma": "noise_std",
    "stratum": "group",
    "segment": "group",
    "strata": "groups",
    "segments": "groups",
    "weights": "group_weights",
    "treatment": "arm",
    "variant": "arm",
    "treatments": "arms",
    "variants": "arms",
    "limit": "max_pulls",
}
"""What the words of other fields and packages are called here."""


def in_words(prefix: str, error: Exception) -> str:
    """Return a mistake as one line that begins with its key path."""
    if isinstance(error, InvalidArgument):
        rest = str(error).removeprefix(error.name).lstrip()
        return f"{prefix}.{error.name}: {rest}"
    return f"{prefix}: {error}"


def did_you_mean(given: str, accepted: Iterable[str]) -> str:
    """Return a remark on a name that is not accepted.

    Examples
    --------
    >>> did_you_mean("tabel", ["table", "arm"])
    "did you mean 'table'? accepted: arm, table"
    >>> did_you_mean("stratum", ["group"])
    "did you mean 'group'? accepted: group"
    """
    names = sorted(accepted)
    start = given[:_LONGEST_NAME]
    # Upper and lower case make texts very different for difflib.
    close = [name for name in names if name.casefold() == start.casefold()]
    close = close or get_close_matches(start, names, n=1)
    if _SYNONYMS.get(given) in names:
        close = [_SYNONYMS[given]]
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}accepted: {', '.join(names)}"


def without_python(text: str, none: str) -> str:
    """Return a message for people who do not use Python; quoted names stay as they are.

    Parameters
    ----------
    text : str
        The message.
    none : str
        What they write where Python has None.

    Examples
    --------
    >>> without_python("mask must be True or False; got None", "null")
    'mask must be true or false; got null'
    >>> without_python("the arm 'None' must have a number, None, or inf", "missing")
    "the arm 'None' must have a number, missing, or inf"
    """
    words = {"None": none, "True": "true", "False": "false"}
    return _PYTHON.sub(lambda found: words.get(found[0], found[0]), text)


class Mistakes:
    """The mistakes of one section; true if there is any.

    Parameters
    ----------
    section : str
        Path of the section in the file.
    lines : list of str
        The list that mistakes are added to.

    Examples
    --------
    >>> mistakes = Mistakes("plan", [])
    >>> mistakes.add("std", "must be positive")
    >>> bool(mistakes), mistakes.lines
    (True, ['plan.std: must be positive'])
    """

    def __init__(self, section: str, lines: list[str]) -> None:
        self.section = section
        self.lines = lines
        self._before = len(lines)

    def __bool__(self) -> bool:
        return len(self.lines) > self._before

    def add(self, key: str, text: str) -> None:
        """Add a mistake in a key, or in the section as a whole if the key is empty."""
        self.lines.append(f"{self.section}{key and '.'}{key}: {text}")

    def build(
        self, make: Callable[..., Built], *arguments: Any, key: str = "", **keywords: Any
    ) -> Built | None:
        """Return the object built from the arguments, or None after adding why they are refused.

        If the problem itself, or its reward range, is refused, the mistake belongs to the section
        [problem].
        """
        try:
            return make(*arguments, **keywords)
        except REFUSALS as error:
            prefix = f"{self.section}{key and '.'}{key}"
            self.lines.append(_about_problem(error) or in_words(prefix, error))
            return None


def _about_problem(error: Exception) -> str:
    if not isinstance(error, InvalidArgument):
        return ""
    if error.name == "problem":
        return f"problem: {error.accepted}"
    if error.name.startswith("reward_range"):
        return f"problem.reward_range: {error.accepted}, for a reward of 0 or 1"
    return ""
