"""Several measures of one pull: their names, their ranges, and values that come one by one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.sizes import check_size
from fairtrial.core.validation import check_labels, check_range
from fairtrial.core.wording import listed
from fairtrial.errors import ConflictingOutcome, InvalidArgument, InvalidOutcome

__all__ = ["Measures"]

Floats = NDArray[np.float64]
Range = tuple[float, float]

LARGEST = 1e140
"""The largest accepted value: a float can hold its square."""

_SMALLEST = 1e-140

_COIN = (0.0, 1.0)


@dataclass(frozen=True)
class Measures:
    """The measures of one pull: an outcome is then a mapping of their names to numbers.

    Internally an outcome is an array of shape (M,) in the order of the names. NaN is a value that
    will never be known.

    Parameters
    ----------
    names : tuple of str
        The names of the M measures.
    ranges : tuple of (float, float), optional
        The range that contains the values of each measure, if that is what is known.

    Examples
    --------
    >>> measures = Measures.given({"cd4": (-1, 1), "event_free": (0, 1)})
    >>> measures.complete({"cd4": 0.31, "event_free": None})
    array([0.31,  nan])
    """

    names: tuple[str, ...]
    ranges: tuple[Range, ...] | None = None

    @classmethod
    def given(cls, measures: Mapping[str, Any] | Sequence[str]) -> Measures:
        """Return the measures of a mapping of names to ranges, or of a list of names.

        Raises
        ------
        InvalidArgument
            If there is no measure, a name is empty, not text or given twice, or a range is not
            valid.
        """
        accepted = "must be a mapping of names to ranges, or a list of names with their noise given"
        is_list = isinstance(measures, Sequence) and not isinstance(measures, str | bytes)
        if not (isinstance(measures, Mapping) or is_list) or not measures:
            raise InvalidArgument("measures", f"{accepted}, at least one", measures)
        names = list(measures)
        for place, name in enumerate(names):
            if not isinstance(name, str):
                raise InvalidArgument(f"measures[{place}]", "must be a name", name)
        check_size("measures", "measures", len(names))
        labels = check_labels("measures", names)
        if not isinstance(measures, Mapping):
            return cls(labels)
        return cls(labels, tuple(_checked_range(name, measures[name]) for name in labels))

    @property
    def as_given(self) -> dict[str, Range] | list[str]:
        """The names and their ranges, or the names alone, in the form that `given` accepts."""
        if self.ranges is None:
            return list(self.names)
        return dict(zip(self.names, self.ranges, strict=True))

    def index(self, name: object, argument: str) -> int:
        """Return the position of a measure.

        Raises
        ------
        InvalidArgument
            If no measure has that name.
        """
        if name not in self.names:
            raise InvalidArgument(argument, f"must name a measure of {list(self.names)}", name)
        return self.names.index(str(name))

    # ------------------------------------------------------------- outcomes and readings

    def complete(self, outcome: Any, reported: Floats | None = None) -> Floats:
        """Return the values of a pull that is complete, including those reported before.

        Raises
        ------
        InvalidOutcome
            If a measure is unknown, a value is not acceptable, or a measure is missing.
        ConflictingOutcome
            If a value differs from the one that was reported before.
        """
        given = self._given(outcome)
        found = np.full(len(self.names), math.nan) if reported is None else reported.copy()
        for place, name in enumerate(self.names):
            if name in given:
                self._require_same(name, found[place], given[name])
                found[place] = given[name]
            elif math.isnan(found[place]):
                accepted = "must be given: None if it will never be known"
                raise InvalidOutcome(f"outcome: {name}", accepted)
        return found

    def partial(self, reading: Any) -> Floats:
        """Return what is already known of a pull in flight: NaN for values not known yet.

        Raises
        ------
        InvalidOutcome
            If a measure is unknown, a value is not acceptable, or the reading is empty.
        """
        given = self._given(reading, "reading")
        found = np.full(len(self.names), math.nan)
        for name, value in given.items():
            if math.isnan(value):
                accepted = "must be a number; tell None with the rest if it will never be known"
                raise InvalidOutcome(f"reading: {name}", accepted, None)
            found[self.names.index(name)] = value
        if not given:
            accepted = f"must have a value of at least one of {listed(self.names)}"
            raise InvalidOutcome("reading", accepted, reading)
        return found

    def new_in(self, reading: Floats, reported: Floats | None) -> Floats:
        """Return what a reading adds to the values that were reported before: NaN for the rest.

        Raises
        ------
        ConflictingOutcome
            If its value of a measure differs from the one that was reported before.
        """
        if reported is None:
            return reading
        for name, old, new in zip(self.names, reported, reading, strict=True):
            if not math.isnan(new):
                self._require_same(name, old, new)
        return np.where(np.isnan(reported), reading, math.nan)

    def corrected(self, reported: Floats, old: Any, new: Any) -> Floats:
        """Return the values that replace those that were reported; NaN for one that is withdrawn.

        Raises
        ------
        ConflictingOutcome
            If the old values are not those that were reported.
        InvalidOutcome
            If a value is not acceptable, or a measure was not reported, or is left out: None
            withdraws it.
        """
        before, given = self.partial(old), self._given(new, "reading")
        if not np.array_equal(before, reported, equal_nan=True):
            raise ConflictingOutcome(f"{self.as_row(reported)} was reported; got {old} as old")
        for name, was in zip(self.names, before, strict=True):
            if math.isnan(was) == (name in given):
                accepted = "must be given in a correction if it was reported, and not otherwise"
                raise InvalidOutcome(f"reading: {name}", accepted)
        return np.array([given.get(name, math.nan) for name in self.names])

    def named(self, outcome: Any, what: str = "outcome") -> dict[str, float | None]:
        """Return the checked values by name, in the form in which they are stored.

        Not every measure must be given; None is a value that will never be known.

        Raises
        ------
        InvalidOutcome
            If a measure is unknown, or a value is not acceptable.
        """
        given = self._given(outcome, what).items()
        # A database does not keep the sign of zero.
        return {name: None if math.isnan(value) else value + 0.0 for name, value in given}

    def as_row(self, values: Floats) -> dict[str, float | None]:
        """Return values by name, in their stored form: None for a value never known.

        Examples
        --------
        >>> Measures(("a", "b")).as_row(np.array([1.5, np.nan]))
        {'a': 1.5, 'b': None}
        """
        numbers = zip(self.names, values.tolist(), strict=True)
        return {name: None if math.isnan(value) else value for name, value in numbers}

    def _given(self, outcome: Any, what: str = "outcome") -> dict[str, float]:
        """Return the checked values by name; NaN for None."""
        if not isinstance(outcome, Mapping):
            if len(self.names) > 1:
                accepted = f"must give a value for each measure by its name: {listed(self.names)}"
                raise InvalidOutcome(what, accepted, outcome)
            outcome = {self.names[0]: outcome}
        for name in outcome:
            if name not in self.names:
                accepted = f"must have only measures of {list(self.names)}"
                raise InvalidOutcome(what, accepted, name)
        return {
            name: self._number(f"{what}: {name}", name, value) for name, value in outcome.items()
        }

    def _number(self, argument: str, name: str, value: Any) -> float:
        if value is None:
            return math.nan
        own = None if self.ranges is None else self.ranges[self.names.index(name)]
        is_truth = isinstance(value, bool | np.bool_)
        if not isinstance(value, int | float | np.integer | np.floating | np.bool_):
            raise InvalidOutcome(argument, "must be a number, or None", value)
        if is_truth and own != _COIN:
            raise InvalidOutcome(argument, "must be a number, not a truth value", value)
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        low, high = own or (-LARGEST, LARGEST)
        if not math.isfinite(number):
            raise InvalidOutcome(argument, "must be finite", value)
        if not low <= number <= high:
            raise InvalidOutcome(argument, f"must be in [{low:g}, {high:g}]", value)
        return number

    @staticmethod
    def _require_same(name: str, old: float, new: float) -> None:
        if not math.isnan(old) and old != new:
            told = "None" if math.isnan(new) else f"{new:.12g}"
            raise ConflictingOutcome(f"{name} was reported as {old:.12g}; got {told}")


def _checked_range(name: str, given: Any) -> Range:
    low, high = check_range(f"measures[{name}]", given)
    if high - low < _SMALLEST or max(abs(low), abs(high)) > LARGEST:
        accepted = f"must be at least {_SMALLEST:g} wide, within {LARGEST:g} of 0: use other units"
        raise InvalidArgument(f"measures[{name}]", accepted, given)
    return low, high
