"""From sections to objects: the problem and the policy, with all mistakes listed."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fairtrial.core import Policy, Problem
from fairtrial.core.family import FAMILIES, Family, family_module, family_of
from fairtrial.core.mistakes import REFUSALS, did_you_mean, in_words
from fairtrial.core.specification import policy_class, policy_from_dict
from fairtrial.errors import InvalidArgument

__all__ = ["build_policy", "build_problem"]

Built = TypeVar("Built")

_ANY_BUDGET = 10**6


def build_problem(
    section: Mapping[str, Any], mistakes: list[str], doubtful: set[str]
) -> Problem | None:
    """Return the problem, or None after a mistake that makes further checks impossible.

    An argument with a mistake is replaced by a stand-in, so that mistakes in the others are found,
    too. Its name is added to `doubtful`, and contradictions to it do not count as mistakes. Callers
    must look at `mistakes` before they use the problem.
    """
    arguments = dict(section)
    family = arguments.pop("family", None)
    if not isinstance(family, str):
        mistakes.append(f"problem.family: is required: one of {', '.join(FAMILIES)}")
        return None
    try:
        cls: type[Problem] = family_module(family).Problem
    except InvalidArgument as error:
        mistakes.append(in_words("problem", error))
        return None
    accepted = _parameters(cls)
    _drop_unknown("problem", arguments, accepted, mistakes)
    assembly = _Assembly(family_of(family), "problem", arguments, accepted, mistakes, doubtful)
    return _build(lambda kept: cls(**kept), assembly)


def build_policy(
    section: Mapping[str, Any],
    problem: Problem,
    seed: int | None,
    mistakes: list[str],
    doubtful: set[str],
) -> Policy | None:
    """Return the policy in the way of `build_problem`; `doubtful` has the problem's doubts."""
    arguments = dict(section)
    name = arguments.pop("name", problem.default_policy)
    try:
        cls = policy_class(str(name), problem)
    except InvalidArgument as error:
        mistakes.append(f"policy.name: {error.accepted}; got {name!r}")
        return None
    accepted = {
        key: value for key, value in _parameters(cls).items() if key not in ("problem", "seed")
    }
    _drop_unknown("policy", arguments, accepted, mistakes)
    _drop_unknown_learner(arguments, problem, mistakes, doubtful)

    def make(kept: Mapping[str, Any]) -> Policy:
        return policy_from_dict({"name": name, **kept}, problem, seed)

    family = family_of(problem.family)
    assembly = _Assembly(family, "policy", arguments, accepted, mistakes, doubtful)
    return _build(make, assembly)


def _drop_unknown_learner(
    arguments: dict[str, Any], problem: Problem, mistakes: list[str], doubtful: set[str]
) -> None:
    """Note a learner that the family does not have, and how to write one in a file."""
    given = arguments.get("learner")
    name = given.get("name") if isinstance(given, Mapping) else given
    if name is None and not isinstance(given, Mapping):
        return
    known = family_of(problem.family).learners
    if name in known:
        return
    path = "policy.learner.name" if isinstance(given, Mapping) else "policy.learner"
    mistakes.append(
        f"{path}: must be a learner's name, alone or with its arguments as in "
        '{ name = "EpsilonGreedy", epsilon = 0.1 }; '
        f"{did_you_mean(str(name), known)}; got {name!r}"
    )
    doubtful.add("learner")
    del arguments["learner"]


def _parameters(cls: type) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(cls).parameters)


def _drop_unknown(
    section: str, arguments: dict[str, Any], accepted: Mapping[str, Any], mistakes: list[str]
) -> None:
    for key in [key for key in arguments if key not in accepted]:
        mistakes.append(f"{section}.{key[:200]}: is not a key here; {did_you_mean(key, accepted)}")
        del arguments[key]


def _build(make: Callable[[Mapping[str, Any]], Built], assembly: _Assembly) -> Built | None:
    assembly.fill_in()
    while assembly.is_complete:
        try:
            with warnings.catch_warnings():
                if assembly.doubtful:
                    # Warnings about a stand-in are of no use.
                    warnings.simplefilter("ignore")
                return make(assembly.arguments)
        except InvalidArgument as error:
            if not assembly.repair(error):
                return None
        except MemoryError as error:
            assembly.mistakes.append(f"{assembly.section}: does not fit into memory ({error})")
            return None
        except REFUSALS as error:
            if not assembly.doubtful:
                assembly.mistakes.append(in_words(assembly.section, error))
            return None
    return None


class _Assembly:
    """Arguments in which a stand-in replaces each one that is missing or refused.

    Parameters
    ----------
    family : Family
        Provides harmless values for its arguments.
    section : str
        Path of the section in the file.
    arguments : dict of str to object
        The arguments in the file; changed.
    accepted : mapping of str to inspect.Parameter
        The arguments that the constructor takes.
    mistakes : list of str
        The list that mistakes are added to.
    doubtful : set of str
        The set that names of arguments with a mistake are added to.
    """

    def __init__(
        self,
        family: Family,
        section: str,
        arguments: dict[str, Any],
        accepted: Mapping[str, inspect.Parameter],
        mistakes: list[str],
        doubtful: set[str],
    ) -> None:
        self._family = family
        self.section = section
        self.arguments = arguments
        self._accepted = accepted
        self.mistakes = mistakes
        self.doubtful = doubtful
        self._required = [
            name for name, parameter in accepted.items() if parameter.default is parameter.empty
        ]
        self._replaced: set[str] = set()

    @property
    def is_complete(self) -> bool:
        """Whether no required argument is missing."""
        return self.arguments.keys() >= set(self._required)

    def fill_in(self) -> None:
        """Note which arguments are missing."""
        for name in self._required:
            if name in self.arguments:
                continue
            if name not in self.doubtful:
                self.mistakes.append(f"{self.section}.{name}: is required")
            self._stand_in(name)

    def repair(self, error: InvalidArgument) -> bool:
        """Note a refusal; return False if there is nothing left to replace the argument with."""
        name = re.split(r"\W", error.name, maxsplit=1)[0]
        if name == "group_weights" and name not in self.arguments:
            name = "groups"  # its mapping gave them
        if name in self._replaced:
            return False
        if not _is_due_to(self.doubtful, error):
            self.mistakes.append(in_words(self.section, error))
        return self._stand_in(name)

    def _stand_in(self, name: str) -> bool:
        self._replaced.add(name)
        self.doubtful.add(name)
        return _replace(self._family, name, self.arguments, self._accepted)


def _is_due_to(doubtful: set[str], error: InvalidArgument) -> bool:
    """Return whether the error may be caused by a known mistake in another argument."""
    words = set(re.findall(r"\w+", error.accepted))
    return bool(words & doubtful)


def _replace(
    family: Family, name: str, arguments: dict[str, Any], accepted: Mapping[str, Any]
) -> bool:
    """Replace a refused argument by something harmless, or remove it; return if it was known.

    A required argument without a stand-in is then missing.
    """
    if name not in accepted:
        return False
    given = arguments.pop(name, None)
    size = max(len(given), 1) if isinstance(given, list | dict) else 2
    if name in ("noise_std", "reward_range") and "noise_std" in accepted:
        arguments.pop("reward_range", None)
        arguments["noise_std"] = 1.0
    elif name in ("arms", "groups") and accepted[name].default is not None:
        arguments[name] = size
    elif name in family.stand_ins:
        arguments[name] = family.stand_ins[name](size)
    elif name == "budget":
        arguments[name] = _ANY_BUDGET
    return True
