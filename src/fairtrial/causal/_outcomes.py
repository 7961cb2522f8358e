"""Rows of named fields: their validation, and the outcome as a number and as scaled for rules."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._roles import Roles
from fairtrial.causal._states import state_label
from fairtrial.causal.errors import ModelError
from fairtrial.core.validation import check_number
from fairtrial.errors import InvalidArgument, InvalidOutcome

Floats = NDArray[np.float64]

LEAST_SIZE, LARGEST_SIZE = 1e-100, 1e100
NO_SUCH_SIZE = (
    f"must be 0 or from {LEAST_SIZE:g} to {LARGEST_SIZE:g} in size where the problem has no "
    "outcome_range: squares are too small or too large beyond"
)


class Outcomes(Roles):
    """The result of a pull: a row of states, including the outcome as a number."""

    outcome: str | tuple[str, Mapping[str, float]]
    outcome_values: dict[str, float] | None
    outcome_range: tuple[float, float] | None
    fairness_bound: float
    direction: str

    # ------------------------------------------------------- what the problem gives

    def _given_values(self) -> dict[str, float] | None:
        node = self.outcome_node
        if not isinstance(self.outcome, str):
            states = self.model.states.get(node, ())
            given = {str(key): value for key, value in self.outcome[1].items()}
            if set(given) != set(states):
                raise ModelError("outcome", f"must give a number for each state {states}", given)
            return {
                state: check_number(f"outcome value of {state}", given[state]) for state in states
            }
        if not self.model.is_discrete(node):
            return None
        try:
            return {state: float(state) for state in self.model.states[node]}
        except ValueError:
            if node in self.carriers:
                raise ModelError(
                    "outcome", f"must give numbers for the states of {node!r}", self.outcome
                ) from None
            return None

    def _check_values_in_range(self) -> None:
        if self.outcome_range is None:
            return
        low, high = self.outcome_range
        for state, number in (self.outcome_values or {}).items():
            if not low <= number <= high:
                raise InvalidArgument(
                    "outcome_range",
                    f"must contain the number {number:g} of {self.outcome_node} = {state!r}",
                    self.outcome_range,
                )

    # ------------------------------------------------------------------------ rows

    @property
    def outcome_fields(self) -> tuple[str, ...]:
        """The names of an outcome's fields, that is, the columns that are read."""
        return self.columns

    def labels_of_field(self, field: str) -> tuple[str, ...]:
        """Return the labels that a field of an outcome can have; empty if it is a number."""
        return tuple(self.model.states.get(field, ()))

    def check_outcome(self, outcome: Any, name: str = "outcome") -> dict[str, Any]:
        """Return a row with the states as labels and the outcome as a number.

        Raises
        ------
        InvalidOutcome
            If the row lacks a column, names an unknown state, or its outcome is not in
            the range.
        """
        if not isinstance(outcome, Mapping):
            fields = ", ".join(self.columns)
            raise InvalidOutcome(name, f"must be a row with the fields {fields}", outcome)
        clean: dict[str, Any] = {}
        for column in self.columns:
            if column not in outcome:
                raise InvalidOutcome(f"{name}: {column}", "is missing", dict(outcome))
            value = outcome[column]
            if column == self.outcome_node:
                clean[column] = self._clean_number(name, value)
            else:
                clean[column] = self._clean_state(name, column, value)
        return clean

    def _clean_state(self, name: str, column: str, value: Any) -> str | float:
        states = self.model.states.get(column)
        if states is None:
            return self._number(f"{name}: {column}", value)
        if isinstance(value, str) and value in states:
            return value
        label = state_label(value)
        if label not in states:
            known = ", ".join(map(repr, states))
            raise InvalidOutcome(f"{name}: {column}", f"must be one of {known}", value)
        return label

    def _number(self, name: str, value: Any) -> float:
        number: float = super().check_outcome(value, name)
        return number

    def _clean_number(self, name: str, value: Any) -> float:
        column = f"{name}: {self.outcome_node}"
        if isinstance(value, str) and self.outcome_values is not None:
            if value not in self.outcome_values:
                known = ", ".join(map(repr, self.outcome_values))
                raise InvalidOutcome(column, f"must be a number or one of {known}", value)
            value = self.outcome_values[value]
        number = self._number(column, value)
        if self.outcome_range is not None:
            low, high = self.outcome_range
            if not low <= number <= high:
                raise InvalidOutcome(column, f"must lie in [{low:g}, {high:g}]", value)
        elif number and not LEAST_SIZE <= abs(number) <= LARGEST_SIZE:
            raise InvalidOutcome(column, NO_SUCH_SIZE, value)
        if self.outcome_node in self.carriers and number not in self.outcome_positions:
            known = ", ".join(f"{known:g}" for known in self.outcome_positions)
            raise InvalidOutcome(column, f"must be one of {known}", value)
        return number

    @cached_property
    def outcome_numbers(self) -> Floats | None:
        """The numbers of the outcome's states, shape (states,), if they are known."""
        return None if self.outcome_values is None else np.array(list(self.outcome_values.values()))

    def numbers_of(self, outcome: NDArray[Any]) -> NDArray[Any]:
        """Return outcomes as numbers, given numbers or positions of states."""
        numbers = self.outcome_numbers
        return outcome if numbers is None else numbers[outcome.astype(np.int64)]

    @cached_property
    def outcome_positions(self) -> dict[float, int]:
        """Position of the outcome's state for every number."""
        numbers = (self.outcome_values or {}).values()
        return {number: position for position, number in enumerate(numbers)}

    # ---------------------------------------------------------------------- scales

    @property
    def width(self) -> float:
        """Width of the outcome's range; 1 if it is not known."""
        return 1.0 if self.outcome_range is None else self.outcome_range[1] - self.outcome_range[0]

    @property
    def bound(self) -> float:
        """The fairness bound for outcomes scaled to [0, 1]."""
        return self.fairness_bound / self.width

    def scaled(self, outcome: Any) -> Any:
        """Return outcomes as the rules see them: from 0 to 1, larger is better."""
        low, high = (0.0, 0.0) if self.outcome_range is None else self.outcome_range
        good = outcome - low if self.direction == "maximize" else high - outcome
        return good / self.width

    def unscaled_mean(self, mean: Any) -> Any:
        """Return means in the outcome's own units."""
        low, high = (0.0, 0.0) if self.outcome_range is None else self.outcome_range
        if self.direction == "maximize":
            return low + self.width * mean
        return high - self.width * mean

    def unscaled_gap(self, gap: Any) -> Any:
        """Return gaps in the outcome's own units."""
        return self.width * gap if self.direction == "maximize" else -self.width * gap
