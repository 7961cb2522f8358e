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
    """Return the problem; None after a mistake that leaves nothing to check the rest against.

    An argument with a mistake is replaced by a stand-in, so that mistakes in the others are
    found too, and its name is added to `doubtful`: what contradicts it is no mistake. Whoever
    calls looks at `mistakes` before using what is returned.
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
    """Return the policy as `build_problem` does the problem, whose `doubtful` are known."""
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
    """Note a learner that the family does not have, and how one is written in a file."""
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
                    # Of a stand-in nobody wants to hear.
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
    """Arguments in which a stand-in takes the place of each one that is missing or refused.

    Parameters
    ----------
    family : Family
        It knows harmless values of its arguments.
    section : str
        Where they stand in the file.
    arguments : dict of str to object
        Those of the file; changed.
    accepted : mapping of str to inspect.Parameter
        Those that the constructor takes.
    mistakes : list of str
        Takes what is wrong.
    doubtful : set of str
        Takes the names of arguments with a mistake.
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
        """Whether no argument is missing that has to be there."""
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
        """Note a refusal; return False if there is nothing left to put in the argument's place."""
        name = re.split(r"\W", error.name, maxsplit=1)[0]
        if name == "group_weights" and name not in self.arguments:
            name = "groups"  # whose mapping gave them
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
    """Return whether the mistake may lie in another argument, of which a mistake is known."""
    words = set(re.findall(r"\w+", error.accepted))
    return bool(words & doubtful)


def _replace(
    family: Family, name: str, arguments: dict[str, Any], accepted: Mapping[str, Any]
) -> bool:
    """Put something harmless in the place of a refused argument, or nothing; say if it was known.

    An argument that is required and has no stand-in is missing then.
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
