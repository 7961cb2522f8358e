"""Placeholders in a shell command: where a label may appear, and how it is passed safely.

A label can be any text. It never becomes part of the program that a shell runs: a placeholder is
replaced by a reference to a variable that holds the label. A placeholder is refused where even
this would not give one word: within quotes, or where another shell reads the word again.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

__all__ = ["Misplaced", "filled", "misplaced", "placeholders", "referring", "variable"]

# ${HOME} belongs to the shell, {arm} to us.
_PLACEHOLDER = re.compile(r"(?<!\$)\{(\w+)\}")

_ENDS = {"single quotes": "'", "double quotes": '"', "backquotes": "`", "a substitution": ")"}
_ENDS |= {"an expansion": "}", "arithmetic": "))"}
_OPENS = (
    ("$((", "arithmetic"),
    ("$(", "a substitution"),
    ("${", "an expansion"),
    ("`", "backquotes"),
    ('"', "double quotes"),
    ("'", "single quotes"),
    ("(", "a substitution"),
)
_WITHIN_QUOTES = ("$((", "$(", "${", "`")
_COMMANDS = "a substitution"
_SHELLS = frozenset({"eval", "ssh", "rsh", "su", "xargs"})
_BREAKS = re.compile(r"[;&|\n()]")
_COMMENT = re.compile(r"(?<![^\s;&|(])#")


class Misplaced(NamedTuple):
    """A placeholder, and its wrong place."""

    name: str
    where: str


def variable(name: str) -> str:
    """Return the environment variable that holds the label of this name."""
    return f"FAIRTRIAL_{name.upper()}"


def placeholders(command: str) -> list[str]:
    """Return the names in braces in a command, known or not.

    Examples
    --------
    >>> placeholders("measure {arm} in ${HOME}")
    ['arm']
    """
    return _PLACEHOLDER.findall(command)


def filled(command: str, values: Mapping[str, str]) -> str:
    """Return the command with each known ``{name}`` replaced by its value, for display.

    Examples
    --------
    >>> filled("measure {arm} | awk '{print}'", {"arm": "a b"})
    "measure 'a b' | awk '{print}'"
    """
    return _PLACEHOLDER.sub(
        lambda match: shlex.quote(values[match[1]]) if match[1] in values else match[0], command
    )


def referring(command: str, names: Collection[str]) -> str:
    r"""Return the command with each known ``{name}`` replaced by a reference to its variable.

    Examples
    --------
    >>> referring("measure {arm} | awk '{print}'", ["arm"])
    'measure "${FAIRTRIAL_ARM}" | awk \'{print}\''
    """
    return _PLACEHOLDER.sub(
        lambda match: f'"${{{variable(match[1])}}}"' if match[1] in names else match[0], command
    )


def misplaced(command: str, names: Collection[str]) -> list[Misplaced]:
    """Return the known placeholders that the shell would not read as one word.

    Examples
    --------
    >>> misplaced("echo '{arm}' {arm}", ["arm"])
    [Misplaced(name='arm', where='within single quotes')]
    """
    found = ((match, where) for match, where in _walk(command) if match[1] in names)
    return [
        Misplaced(match[1], where or reread)
        for match, where in found
        if where or (reread := _read_again(command[: match.start()]))
    ]


def _walk(command: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield every placeholder with its place; the place is empty if it is read as one word."""
    nesting: list[str] = []
    is_escaped = here_document = False
    at = 0
    while at < len(command):
        inner = nesting[-1] if nesting else _COMMANDS
        match = _PLACEHOLDER.match(command, at)
        if match is not None:
            yield match, _place(nesting, is_escaped, here_document)
            at, is_escaped = match.end(), False
        elif command[at] == "\\" and inner != "single quotes":
            is_escaped = _PLACEHOLDER.match(command, at + 1) is not None
            at += 1 if is_escaped else 2
        elif nesting and command.startswith(_ENDS[inner], at):
            at += len(_ENDS[nesting.pop()])
        elif inner == _COMMANDS and _COMMENT.match(command, at):
            at = (command + "\n").index("\n", at)
        else:
            here_document |= inner == _COMMANDS and command.startswith("<<", at)
            at += _opened(command, at, inner, nesting)


def _opened(command: str, at: int, inner: str, nesting: list[str]) -> int:
    """Note the construct that a character opens; return the length of the opening."""
    if inner == "single quotes":
        return 1
    for opening, what in _OPENS:
        if command.startswith(opening, at) and (
            inner != "double quotes" or opening in _WITHIN_QUOTES
        ):
            nesting.append(what)
            return len(opening)
    return 1


def _place(nesting: list[str], is_escaped: bool, here_document: bool) -> str:
    """Return the place of a placeholder if the shell would not read it as one word there."""
    if nesting and nesting[-1] != _COMMANDS:
        return f"within {nesting[-1]}"
    for what in ("backquotes", "an expansion", "arithmetic"):
        if what in nesting:
            return f"within {what}"
    if here_document:
        return "after <<, perhaps in a here-document"
    return "after a backslash" if is_escaped else ""


def _read_again(before: str) -> str:
    """Return the command that passes the next word to another shell, if there is one."""
    words = _BREAKS.split(before)[-1].split()
    found = next((word for word in words if word.rpartition("/")[2] in _SHELLS), None)
    return "" if found is None else f"in the arguments of {found}, which reads them again"
