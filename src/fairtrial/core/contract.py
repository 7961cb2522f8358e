"""Checks that a user's class keeps the contract: its members, and the answers it gives."""

from __future__ import annotations

import inspect
from functools import cached_property, lru_cache, partialmethod
from types import FunctionType
from typing import Any

from fairtrial.core.problem import Problem
from fairtrial.core.recommendation import Recommendation
from fairtrial.core.wording import choices
from fairtrial.errors import InvalidArgument

__all__ = ["check_members", "check_recommendation"]


def check_members(instance: object, base: type, argument: str) -> None:
    """Require that properties of a base class are properties, and methods are methods.

    Without ``@property``, `Policy.stopped` would be a method, which is always true.

    Parameters
    ----------
    instance : object
        The instance of a user's class.
    base : type
        The class of the package that it derives from.
    argument : str
        Name of the argument that holds the instance, for the error.

    Raises
    ------
    InvalidArgument
        If a property was written as a method, or the reverse; the message names it.
    """
    cls: Any = type(instance)  # mypy takes a class for one of its unhashable instances
    accepted = _misplaced_member(cls, base)
    if accepted:
        raise InvalidArgument(argument, accepted, instance)


@lru_cache(maxsize=256)
def _misplaced_member(cls: type, base: type) -> str:
    """Return what is accepted in place of a member of the wrong kind; empty if there is none.

    Every simulated run asks, and looking at all members takes half a millisecond.
    """
    for name in dir(base):
        if name.startswith("_"):
            continue
        stated, own = inspect.getattr_static(base, name), inspect.getattr_static(cls, name)
        if own is stated:
            continue
        if _is_method(own) and not _is_method(stated):
            return f"must have {name} as a property: write @property above its def"
        if _is_method(stated) and isinstance(own, property | cached_property):
            return f"must have {name} as a method, without @property"
    for name in ("delta", "max_pulls"):
        # These are no members of the base class, but are read if a class has them.
        if _is_method(inspect.getattr_static(cls, name, None)):
            return f"must have {name} as a property or an attribute, not as a method"
    return ""


def _is_method(member: object) -> bool:
    return isinstance(member, FunctionType | staticmethod | classmethod | partialmethod)


def check_recommendation(problem: Problem, found: Any, source: str) -> Recommendation:
    """Return a policy's answer if it is a recommendation that names arms of the problem.

    Parameters
    ----------
    problem : Problem
        The policy's problem.
    found : object
        What `recommend` returned.
    source : str
        Who returned it, for the error: ``"TenPulls.recommend"``.

    Raises
    ------
    InvalidArgument
        If it is no `Recommendation`, or its `arm` is not a label or a tuple of labels.
    """
    if not isinstance(found, Recommendation):
        raise InvalidArgument(source, "must return a Recommendation", found)
    if found.arm is None:
        return found
    known = problem.answer_labels
    named = found.arm if isinstance(found.arm, tuple) else (found.arm,)
    if known and not all(label in known for label in named):
        accepted = f"must name an arm of the problem: {choices(known, found.arm)}"
        raise InvalidArgument(source, accepted, found.arm)
    return found
