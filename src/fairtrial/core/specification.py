"""From data to objects: the one place where a name in a file or a log becomes a class."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from fairtrial.core.environment import Environment
from fairtrial.core.family import FAMILIES, family_module
from fairtrial.core.parameters import Parametrized, build
from fairtrial.core.policy import Policy
from fairtrial.core.problem import Problem
from fairtrial.errors import InvalidArgument

__all__ = ["policy_class", "policy_from_dict", "problem_from_dict"]


def problem_from_dict(data: Mapping[str, Any], problems: Sequence[type[Problem]] = ()) -> Problem:
    """Return the problem that `Problem.to_dict` wrote.

    Parameters
    ----------
    data : mapping
        With the key ``family``.
    problems : sequence of type
        The caller's own problem classes, found by their `family`.
    """
    family = data.get("family")
    for own in problems:
        if own.family == family:
            return own.from_dict(data)
    problem: Problem = family_module(str(family)).Problem.from_dict(data)
    return problem


def policy_class(
    name: str, problem: Problem, policies: Sequence[type[Parametrized]] = ()
) -> type[Policy]:
    """Return the class of that name: one of `policies`, or one of the problem's family."""
    own_policies = [own for own in policies if issubclass(own, Policy)]
    for own in own_policies:
        if own.__name__ == name:
            return own
    known = {}
    if problem.family in FAMILIES:
        module = family_module(problem.family)
        # `dir` also lists names that the family has not imported yet.
        names = {key: getattr(module, key) for key in dir(module)}
        known = {
            key: value
            for key, value in names.items()
            if inspect.isclass(value)
            and issubclass(value, Policy)
            and not inspect.isabstract(value)
        }
    if name not in known:
        own_names = [own.__name__ for own in own_policies]
        accepted = ", ".join(sorted([*known, *own_names])) or "a class given as policies=[...]"
        raise InvalidArgument("policy", f"must be one of {accepted}", name)
    return known[name]


def policy_from_dict(
    data: Mapping[str, Any],
    problem: Problem,
    seed: int | None,
    policies: Sequence[type[Parametrized]] = (),
) -> Policy:
    """Return a fresh policy from the name and parameters that `Policy.to_dict` wrote.

    `policies` may include classes of parts of policies, such as the caller's own learner.
    """
    arguments = dict(data)
    cls = policy_class(str(arguments.pop("name", "")), problem, policies)
    parameters = {
        name: _named_component(name, value, problem, policies) for name, value in arguments.items()
    }
    return build(cls, parameters, problem=problem, seed=seed)


def _named_component(
    name: str, value: Any, problem: Problem, policies: Sequence[type[Parametrized]]
) -> Any:
    try:
        return _component(value, problem, policies)
    except InvalidArgument as error:
        raise error.within(name) from None


def _component(value: Any, problem: Problem, policies: Sequence[type[Parametrized]]) -> Any:
    """Return the object (a learner, a threshold) for a name or for a mapping with a name."""
    if isinstance(value, str) and _is_part(value, problem.family):
        value = {"name": value}
    if not isinstance(value, Mapping) or "name" not in value:
        return value
    arguments = dict(value)
    name = str(arguments.pop("name"))
    for own in policies:
        if own.__name__ == name and not issubclass(own, Policy):
            return build(own, arguments)
    if problem.family not in FAMILIES:
        return value
    cls = _part(name, problem.family)
    if cls is None:
        raise InvalidArgument("name", f"must be a part of {problem.family} or confidence", name)
    return build(cls, arguments)


def _is_part(name: str, family: str) -> bool:
    """Return whether a family has a class of that name for parts of policies."""
    return family in FAMILIES and _public_part(name, family_module(family)) is not None


def _part(name: str, family: str) -> type[Parametrized] | None:
    confidence = importlib.import_module("fairtrial.confidence")
    return _public_part(name, family_module(family)) or _public_part(name, confidence)


def _public_part(name: str, module: Any) -> type[Parametrized] | None:
    """Return a public class for parts of policies: no policy, environment or problem.

    A file must not be able to name any class: some classes read other files in their constructor.
    """
    cls = None if name.startswith("_") else getattr(module, name, None)
    if not inspect.isclass(cls) or not issubclass(cls, Parametrized):
        return None
    return None if issubclass(cls, Policy | Problem | Environment) else cls
