"""What people must state while they carry out a study: chosen when it is created."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from fairtrial.core import Problem
from fairtrial.core.mistakes import did_you_mean
from fairtrial.core.validation import check_flag
from fairtrial.core.wording import choices
from fairtrial.errors import InvalidArgument

__all__ = ["KINDS_OF_LETTERS", "Conduct", "example"]


@dataclass(frozen=True, slots=True)
class Conduct:
    """What every request for pulls of a study must state; it is part of its specification.

    Parameters
    ----------
    require_group : bool
        Whether every request must name the group of the person who is here.
    participants : str, optional
        The form of participant numbers, in which ``#`` is a digit and ``@`` a capital letter:
        ``"W#-###"``. Every request is then for one participant, who is named by such a number and
        gets one pull.
    kits : str, optional
        The form of kit numbers, as above.
    masked : bool
        Whether those who recruit or treat see kits instead of arms: each pull gets a kit of its
        arm, whose number shows nothing.
    """

    require_group: bool = False
    participants: str | None = None
    kits: str | None = None
    masked: bool = False

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
        for name in ("participants", "kits"):
            form = getattr(made, name)
            if form is not None:
                _check_form(name, form)
        if check_flag("masked", made.masked):
            _check_maskable(problem, made.kits)
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

    def check_participant(self, number: object, pulls: int) -> str | None:
        """Return a participant number; raise if it is invalid, missing, or not expected."""
        if self.participants is None:
            _refuse_unexpected("participant", "participants", number)
            return None
        if pulls != 1:
            raise InvalidArgument("n", "must be 1: each participant gets one pull", pulls)
        if number is None:
            accepted = "must be given in every request of this study: a number such as "
            raise InvalidArgument("participant", accepted + example(self.participants))
        return _checked("participant", self.participants, number)

    def check_kit(self, number: object) -> str | None:
        """Return a kit number; raise if it is invalid, or not expected.

        In a masked study, None stands for a kit that the study chooses.
        """
        if self.kits is None:
            _refuse_unexpected("kit", "kits", number)
            raise InvalidArgument("kit", "must be a number")
        if number is None and self.masked:
            return None
        return _checked("kit", self.kits, number)

    def is_number(self, rule: str, number: str) -> bool:
        """Return whether a number is one of participants or kits, and no date."""
        try:
            _checked(rule, getattr(self, rule), number)
        except InvalidArgument:
            return False
        return True

    def shown_labels(self, problem: Problem, action: int, *, sees_arms: bool) -> dict[str, Any]:
        """Return the labels of an action; to those who must not see arms, the group only."""
        labels = problem.labels(action)
        if sees_arms or not self.masked:
            return dict(labels)
        return {name: label for name, label in labels.items() if name in problem.stated_shares}


KINDS_OF_LETTERS = {"#": string.digits, "@": string.ascii_uppercase}
_LONGEST_FORM = 40
_DATE = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}")
_EIGHT_DIGITS = re.compile(r"\d{8}")
_YEARS = range(1900, 2040)


def example(form: str) -> str:
    """Return a number of a form.

    Examples
    --------
    >>> example("W#-@##")
    'W1-A11'
    """
    return "".join({"#": "1", "@": "A"}.get(one, one) for one in form)


def _check_maskable(problem: Problem, kits: str | None) -> None:
    if kits is None:
        accepted = "must be False without 'kits', the form of the numbers that are shown instead"
        raise InvalidArgument("masked", accepted, True)
    if "arm" not in problem.action_labels[0]:
        accepted = "must be False: the actions of this problem have no arms that could be masked"
        raise InvalidArgument("masked", accepted, True)


def _check_form(name: str, form: object) -> None:
    accepted = "must be a form such as 'W#-###', in which # is a digit and @ a capital letter"
    if not isinstance(form, str) or not 0 < len(form) <= _LONGEST_FORM or "#" not in form:
        raise InvalidArgument(name, f"{accepted}; at least one digit, no spaces", form)
    if not (form.isascii() and form.isprintable()) or " " in form:
        raise InvalidArgument(name, f"{accepted}; no spaces", form)
    if _DATE.search(form.replace("#", "1")):
        accepted = "must not be the form of a date: never use a person's date of birth"
        raise InvalidArgument(name, accepted, form)


def _refuse_unexpected(name: str, rule: str, number: object) -> None:
    if number is not None:
        # What was given may be anything, also personal data.
        accepted = f"must be left out: the study was created without {rule!r}, the form of numbers"
        raise InvalidArgument(name, accepted)


def _checked(name: str, form: str, number: object) -> str:
    """Return a number of a form; the error does not repeat it: it may be personal data."""
    accepted = f"must be a number such as {example(form)}: never a name or a date of birth"
    is_text = isinstance(number, str) and len(number) == len(form)
    if not is_text or not all(map(_fits, form, str(number))):
        raise InvalidArgument(name, accepted)
    if any(map(_is_date, _EIGHT_DIGITS.findall(str(number)))):
        raise InvalidArgument(name, f"looks like a date; {accepted}")
    return str(number)


def _fits(kind: str, letter: str) -> bool:
    return letter in KINDS_OF_LETTERS.get(kind, kind)


def _is_date(digits: str) -> bool:
    """Return whether eight digits are a date of the last hundred years, in a usual order."""
    for year, month, day in (
        (digits[:4], digits[4:6], digits[6:]),
        (digits[4:], digits[2:4], digits[:2]),
        (digits[4:], digits[:2], digits[2:4]),
    ):
        if int(year) in _YEARS and 1 <= int(month) <= 12 and 1 <= int(day) <= 31:
            return True
    return False
