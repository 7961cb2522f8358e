"""Fields of forms: what a user typed, what is wrong with it, and its value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairtrial.core import Problem
from fairtrial.core.cells import NotANumber, NumberFormat, number_or_text

__all__ = [
    "Field",
    "Fields",
    "correction_fields",
    "duration_of",
    "field_name",
    "number_typed",
    "outcome_of",
    "tell_fields",
    "units",
]

_SECONDS = {"minutes": 60.0, "hours": 3_600.0, "days": 86_400.0}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a form.

    Parameters
    ----------
    name, label : str
        Names for the server and for people.
    hint : str
        What to type.
    value : str
        What the user typed.
    error : str
        What is wrong with the value; empty if nothing is.
    options : sequence of (str, str)
        Values to choose from, with their labels; empty for a text field.
    required : bool
        Whether the field must be filled in.
    lines : int
        Number of lines of the text field.
    is_number : bool
        Whether to show a keyboard for numbers.
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
    """The fields of one form, in order.

    Parameters
    ----------
    fields : iterable of Field
        The fields in their initial state.
    general : str
        A mistake that belongs to no particular field.
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
        """The fields with mistakes."""
        return [one for one in self._fields.values() if one.error]

    def filled(self, given: Mapping[str, Any]) -> Fields:
        """Return the fields with the user's values, and with errors for missing ones."""
        return Fields(_filled(one, given.get(one.name)) for one in self._fields.values())

    def refuse(self, name: str, message: str) -> None:
        """Attach a mistake to its field; if there is no such field, to the whole form."""
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
        return replace(field, value="", error=f"{field.label}: please choose from the list.")
    return replace(field, value=value)


# --------------------------------------------------------------------------- outcomes

_MEASURE = "A number; or the word missing, if it will never be known."
_TAKEN_BACK = "A number; or the word missing, if it is not known after all."
_LATER = f"{_MEASURE} Leave it blank if it is not known yet."
_RIGHT = "Leave it blank if the value on record is right."
_LABEL = "A number, or one of the known values."


def field_name(name: str) -> str:
    """Return the name of the form's field for a field of an outcome."""
    return f"outcome_{name}"


def tell_fields(problem: Problem, shown: Sequence[str]) -> list[Field]:
    """Return the fields for a result: of several measures only those shown, each optional."""
    if not problem.measures:
        return _outcome_fields(problem)
    if len(problem.measures) == 1:
        return _fields_of(shown, _MEASURE)
    return _fields_of(shown, _LATER, required=False)


def correction_fields(
    problem: Problem, shown: Sequence[str], *, is_told: bool = True
) -> list[Field]:
    """Return the fields for a corrected result: of measures only those shown, each optional.

    `is_told` says whether the pull has its outcome: only then a missing measure is so for good.
    """
    if not problem.measures:
        return _outcome_fields(problem)
    hint = f"{_MEASURE if is_told else _TAKEN_BACK} {_RIGHT}"
    return _fields_of(shown, hint, required=False)


def _outcome_fields(problem: Problem) -> list[Field]:
    if problem.outcome_fields:
        return _fields_of(problem.outcome_fields, _LABEL)
    return [Field("value", "Result", _range_in_words(problem), is_number=True)]


def _fields_of(names: Sequence[str], hint: str, *, required: bool = True) -> list[Field]:
    return [Field(field_name(name), f"Result: {name}", hint, required=required) for name in names]


def _range_in_words(problem: Problem) -> str:
    if problem.reward_range is None:
        return "A number, such as 0.5."
    low, high = problem.reward_range
    return f"A number from {low:g} to {high:g}."


def outcome_of(problem: Problem, fields: Fields) -> Any:
    """Return the result that the user typed; None if invalid, with the error in the fields."""
    if problem.outcome_fields:
        names = {field_name(name): name for name in problem.outcome_fields}
        shown = [one.name for one in fields if one.name in names]
        typed = [name for name in shown if fields[name]]
        if problem.measures and not typed and not fields.errors:
            fields.refuse(next(iter(shown), ""), "Please fill in a value.")
        return {
            names[name]: _measure_typed(fields, name)
            if problem.measures
            else number_or_text(fields[name])
            for name in typed
        }
    return number_typed(fields, "value")


def _measure_typed(fields: Fields, name: str) -> float | None:
    """Return the measure in a field; None if it will never be known, or is invalid."""
    return None if fields[name].casefold() == "missing" else number_typed(fields, name)


def number_typed(fields: Fields, name: str) -> float | None:
    """Return the number in a field; None if invalid, with the error in the field."""
    text = fields[name]
    try:
        # Many people type a decimal comma.
        return NumberFormat.of([text]).number(text)
    except NotANumber:
        if text:
            fields.refuse(name, f"This must be a number, such as 0.5; you typed “{text}”.")
    return None


def duration_of(fields: Fields) -> float | None:
    """Return the duration in seconds from the fields `lease` and `unit`; None if blank."""
    if not fields["lease"]:
        return None
    number = number_typed(fields, "lease")
    return None if number is None else number * _SECONDS[fields["unit"]]


def units() -> list[tuple[str, str]]:
    """Return the units of time to choose from."""
    return [(unit, unit) for unit in _SECONDS]
