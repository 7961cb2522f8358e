"""The kits of a masked study: numbers without a pattern, and the kit that each pull gets."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import prod
from typing import Any, Self

from fairtrial.core import Problem
from fairtrial.core.wording import plural
from fairtrial.errors import InvalidArgument
from fairtrial.study.conduct import KINDS_OF_LETTERS, Conduct
from fairtrial.study.log import Record

__all__ = ["Supply", "arm_of", "arms_of", "drawn_kits", "said_of_few_kits"]

_FEWEST = 5
_SHARE_OF_USED = 0.2


def arms_of(problem: Problem) -> list[str]:
    """Return the arms of a problem, as text, in its order."""
    return list(dict.fromkeys(str(labels["arm"]) for labels in problem.action_labels))


def arm_of(problem: Problem, action: int) -> str:
    """Return the arm of an action, as text."""
    return str(problem.labels(action)["arm"])


class Supply:
    """The kits that a masked study has not handed out yet.

    Parameters
    ----------
    problem : Problem
        The study's problem.

    Attributes
    ----------
    numbers : set of str
        The numbers of all kits, also of those that were handed out.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.numbers: set[str] = set()
        self._free: dict[str, dict[str, None]] = {arm: {} for arm in arms_of(problem)}
        self._used: Counter[str] = Counter()

    @classmethod
    def of(cls, problem: Problem, supplied: Iterable[Record], handed_out: Iterable[Record]) -> Self:
        """Return the kits that are left after some events of both kinds."""
        found = cls(problem)
        for event in supplied:
            found.add(event.body)
        for event in handed_out:
            found.remove(int(event.action or 0), event.body)
        return found

    def add(self, body: str | None) -> None:
        """Add the kits in the body of an event."""
        for arm, kits in _said(body)["kits"].items():
            self.numbers.update(kits)
            self._free[arm].update(dict.fromkeys(kits))

    def remove(self, action: int, body: str | None) -> None:
        """Note that the kit in the body of an event was handed out."""
        arm = arm_of(self._problem, action)
        if self._free[arm].pop(_said(body)["kit"], "unknown") is None:
            self._used[arm] += 1

    @property
    def left(self) -> dict[str, int]:
        """How many kits of each arm were not handed out."""
        return {arm: len(kits) for arm, kits in self._free.items()}

    @property
    def used(self) -> Mapping[str, int]:
        """How many kits of each arm were handed out."""
        return self._used

    @property
    def least(self) -> int:
        """How many pulls can get a kit, whatever their arms are.

        It does not depend on which arm is asked for next: a refusal shows nothing about it.
        """
        return min(map(len, self._free.values()))

    def choose(self, action: int) -> str:
        """Return a kit of an action's arm: any of those that were not handed out."""
        return secrets.choice(list(self._free[arm_of(self._problem, action)]))


def said_of_few_kits(supply: Supply, closed: Collection[str] = ()) -> list[str]:
    """Return a warning for each open arm of which few kits are left.

    These are fewer than 5, or than a fifth of those that the arm has used so far. Only readers who
    see the codes of arms may know it.
    """
    return [
        f"few kits of {arm} are left: {left:,}, after {plural(supply.used[arm], 'kit')} of it "
        "were handed out; `fairtrial study supply` adds more"
        for arm, left in supply.left.items()
        if arm not in closed and left < max(_FEWEST, _SHARE_OF_USED * supply.used[arm])
    ]


def drawn_kits(
    conduct: Conduct, arms: Sequence[str], number: int, taken: Iterable[str]
) -> dict[str, list[str]]:
    """Return that many new kit numbers for each arm, drawn at random.

    So neither a number nor the order of numbers shows an arm.

    Raises
    ------
    InvalidArgument
        If the form has too few numbers: half of them stay free.
    """
    form, used = str(conduct.kits), set(taken)
    possible = prod(len(KINDS_OF_LETTERS.get(one, one)) for one in form)
    wanted = number * len(arms)
    if len(used) + wanted > possible // 2:
        left = max(possible // 2 - len(used), 0) // len(arms)
        accepted = f"must be at most {left:,} for each arm: kit numbers have the form {form}"
        raise InvalidArgument("number", f"{accepted}, and half of them stay free", number)
    drawn: list[str] = []
    while len(drawn) < wanted:
        kit = "".join(secrets.choice(KINDS_OF_LETTERS.get(one, one)) for one in form)
        if kit not in used and conduct.is_number("kits", kit):
            used.add(kit)
            drawn.append(kit)
    # In the order of their numbers: the order in which they were drawn is not shown either.
    return {
        arm: sorted(drawn[place * number : (place + 1) * number]) for place, arm in enumerate(arms)
    }


def _said(body: str | None) -> Mapping[str, Any]:
    said: Mapping[str, Any] = json.loads(body or "{}")
    return said
