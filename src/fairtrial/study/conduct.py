"""What people must state while they carry out a study: chosen when it is created."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from fairtrial.core import Problem
from fairtrial.core.mistakes import did_you_mean
from fairtrial.core.validation import check_flag
from fairtrial.core.wording import choices
from fairtrial.errors import InvalidArgument

__all__ = ["Conduct"]


@dataclass(frozen=True, slots=True)
class Conduct:
    """What every request for pulls of a study must state; it is part of its specification.

    Parameters
    ----------
    require_group : bool
        Whether every request must name the group of the person who is here.
    """

    require_group: bool = False

    @classmethod
    def of(cls, problem: Problem, given: Mapping[str, Any]) -> Self:
        """Return the rules that were given by name; raise if the problem cannot follow one.

        Raises
        ------
        InvalidArgument
            If a rule is unknown or invalid, or groups are required and there are none.
        """
        names = list(cls.__dataclass_fields__)
        for name, value in given.items():
            if name not in names:
                accepted = f"is no rule for carrying out a study: {did_you_mean(name, names)}"
                raise InvalidArgument(name, accepted, value)
        made = cls(**given)
        if check_flag("require_group", made.require_group) and not problem.stated_shares:
            accepted = "must be False: nobody can arrive in a group, because the problem has none"
            raise InvalidArgument("require_group", accepted, True)
        return made

    def to_dict(self) -> dict[str, Any]:
        """Return the rules that differ from the defaults, by name."""
        usual = asdict(type(self)())
        return {name: rule for name, rule in asdict(self).items() if rule != usual[name]}

    def check_context(self, problem: Problem, context: Mapping[str, Any]) -> None:
        """Raise if a request for pulls does not state what it must."""
        if not self.require_group:
            return
        for name, shares in problem.stated_shares.items():
            if context.get(name) is None:
                accepted = f"must be given in every request of this study: {choices(shares)}"
                raise InvalidArgument(name, accepted)
