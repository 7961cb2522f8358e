"""Fields of forms: what was typed, what is wrong with it, and what it says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairtrial.core import Problem
from fairtrial.core.sheets import number_or_text

__all__ = [
    "Field",
    "Fields",
    "duration_of",
    "number_typed",
    "outcome_fields",
    "outcome_of",
    "units",
]

_SECONDS = {"minutes": 60.0, "hours": 3_600.0, "days": 86_400.0}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a form.

    Parameters
    ----------
    name, label : str
        By what the server and people call it.
    hint : str
        What is to be typed.
    value : str
        What was typed.
    error : str
        What is wrong with that; empty if nothing is.
    options : sequence of (str, str)
        Values to choose among, with their labels; none of a field to be typed in.
    required : bool
        Whether it must be filled in.
    lines : int
        Lines of text; numbers and names have one.
    is_number : bool
        Whether a keyboard for numbers is wanted.
    """

    name: str
    label: str
    hint: str = ""
    value: str = ""
    error: str = ""
    options: Sequence[tuple[str, str]] = ()
    required: bool = True
    lines: int = 1
    is_number: bool = False


class Fields:
    """The fields of one form, in their order.

    Parameters
    ----------
    fields : iterable of Field
        As they are at first.
    general : str
        What is wrong with none of them in particular.
    """

    def __init__(self, fields: Iterable[Field], general: str = "") -> None:
        self._fields = {one.name: one for one in fields}
        self.general = general

    def __iter__(self) -> Any:
        return iter(self._fields.values())

    def __getitem__(self, name: str) -> str:
        return self._fields[name].value.strip()

    @property
    def errors(self) -> list[Field]:
        """The fields with something wrong."""
        return [one for one in self._fields.values() if one.error]

    def filled(self, given: Mapping[str, Any]) -> Fields:
        """Return the fields with what was typed, and with what is missing named."""
        return Fields(_filled(one, given.get(one.name)) for one in self._fields.values())

    def refuse(self, name: str, message: str) -> None:
        """Put a mistake beside its field; if there is no such field, above them all."""
        field = self._fields.get(name)
        if field is None:
            self.general = message
        elif not field.error:
            self._fields[name] = replace(field, error=message)


def _filled(field: Field, given: Any) -> Field:
    value = given if isinstance(given, str) else ""
    if field.options and not value and field.value:
        return field
    if field.required and not value.strip():
        return replace(field, value=value, error=f"{field.label}: please fill this in.")
    if field.options and value not in [option for option, _ in field.options]:
        return replace(field, value="", error=f"{field.label}: please choose one of the list.")
    return replace(field, value=value)


# --------------------------------------------------------------------------- outcomes

_MEASURE_HINT = "A number; or the word missing, if it will never be known."


def outcome_fields(problem: Problem) -> list[Field]:
    """Return the fields that a result is typed into."""
    if problem.outcome_fields:
        hint = _MEASURE_HINT if problem.measures else "A number, or one of the known values."
        return [
            Field(f"outcome_{name}", f"Result: {name}", hint) for name in problem.outcome_fields
        ]
    return [Field("value", "Result", _range_in_words(problem), is_number=True)]


def _range_in_words(problem: Problem) -> str:
    if problem.reward_range is None:
        return "A number, such as 0.5."
    low, high = problem.reward_range
    return f"A number from {low:g} to {high:g}."


def outcome_of(problem: Problem, fields: Fields) -> Any:
    """Return the result that was typed; None if it is none, which the fields then say."""
    if problem.outcome_fields:
        typed = {name: fields[f"outcome_{name}"] for name in problem.outcome_fields}
        known = {name: number_or_text(text) for name, text in typed.items()}
        if problem.measures:
            return {name: None if value == "missing" else value for name, value in known.items()}
        return known
    return number_typed(fields, "value")


def number_typed(fields: Fields, name: str) -> float | None:
    """Return the number in a field; None if it is none, which the field then says."""
    text = fields[name]
    # In much of the world people type a decimal comma; no number here has thousands apart.
    value = number_or_text(text.replace(",", ".") if text.count(",") == 1 else text)
    if isinstance(value, float):
        return value
    if text:
        fields.refuse(name, f"This must be a number, such as 0.5; you typed “{text}”.")
    return None


def duration_of(fields: Fields) -> float | None:
    """Return the seconds of the fields `lease` and `unit`; None if the first is blank."""
    if not fields["lease"]:
        return None
    number = number_typed(fields, "lease")
    return None if number is None else number * _SECONDS[fields["unit"]]


def units() -> list[tuple[str, str]]:
    """Return the units of time that may be chosen."""
    return [(unit, unit) for unit in _SECONDS]
