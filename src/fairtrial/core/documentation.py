"""Docstrings of classes that share parameters: each parameter is described in one place."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["documented_by"]

_Documented = TypeVar("_Documented", bound=Callable[..., Any])

_TITLE = "Parameters\n----------\n"


def documented_by(*sources: Callable[..., Any]) -> Callable[[_Documented], _Documented]:
    """Complete a docstring: take descriptions of parameters that it leaves out from `sources`.

    The section "Parameters" then has all parameters, in the order of the signature. The object's
    own description takes precedence over the sources, and an earlier source over a later one.

    Parameters
    ----------
    *sources
        Classes or functions whose docstrings describe parameters with the same names.

    Returns
    -------
    callable
        A decorator of classes and functions.

    Raises
    ------
    TypeError
        If no docstring describes a parameter.

    Examples
    --------
    >>> def spend(budget):
    ...     '''Spend a budget.
    ...
    ...     Parameters
    ...     ----------
    ...     budget : int
    ...         Number of pulls.
    ...     '''
    >>> @documented_by(spend)
    ... def save(budget):
    ...     '''Save a budget.'''
    >>> save.__doc__.splitlines()[-2:]
    ['budget : int', '    Number of pulls.']
    """

    def complete(documented: _Documented) -> _Documented:
        """Return the class or function with its docstring completed."""
        if documented.__doc__ is None:  # `python -OO` strips docstrings
            return documented
        entries: dict[str, str] = {}
        for source in (*reversed(sources), documented):
            entries |= _entries(source)
        wanted = list(inspect.signature(documented).parameters)
        if missing := [name for name in wanted if name not in entries]:
            raise TypeError(f"{documented.__name__}: nothing describes {', '.join(missing)}")
        # One entry may describe several parameters.
        described = dict.fromkeys(entries[name] for name in wanted)
        summary, *sections = _sections(documented)
        others = [section for section in sections if not section.startswith(_TITLE)]
        documented.__doc__ = "\n\n".join([summary, _TITLE + "\n".join(described), *others])
        return documented

    return complete


def _sections(documented: Callable[..., Any]) -> list[str]:
    """Return a docstring in parts: the text before sections, and each section with title."""
    return re.split(r"\n\n(?=[A-Z]\w+\n---)", inspect.cleandoc(documented.__doc__ or ""))


def _entries(documented: Callable[..., Any]) -> dict[str, str]:
    """Return the entries of a docstring's section "Parameters", by parameter."""
    for section in _sections(documented):
        if section.startswith(_TITLE):
            found = re.split(r"\n(?=\S)", section.removeprefix(_TITLE))
            return {name: entry for entry in found for name in entry.split(" : ")[0].split(", ")}
    return {}
