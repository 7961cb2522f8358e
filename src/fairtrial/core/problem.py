"""What the experimenter knows and wants; it contains no truth about the means."""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from fairtrial.core.measures import Measures
from fairtrial.core.notebooks import ShownInNotebooks
from fairtrial.core.parameters import Parametrized, build, plain
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.wording import choices
from fairtrial.errors import InvalidArgument, InvalidOutcome

__all__ = ["Outcome", "Problem"]

Outcome = float | Mapping[str, Any]
"""One result: a number, or a row of named fields."""


class Problem(ShownInNotebooks, Parametrized, ABC):
    """Base of every family's problem: frozen, validated on construction, written as JSON.

    A subclass sets `family` and `schema`, keeps its arguments as attributes with the
    same names, ends its constructor with ``self._freeze()``, and defines its actions.
    """

    family: ClassVar[str]
    schema: ClassVar[int] = 1

    default_policy: ClassVar[str] = ""
    """Name of the policy that is used if a configuration names none."""

    # What callers that serve every family need from a problem; a family sets what differs.

    direction: str = "maximize"
    """Whether large outcomes are good ("maximize"), or small ones ("minimize")."""

    reward_range: tuple[float, float] | None = None
    """The range that contains all rewards, if they are bounded."""

    tolerance: float = 0.0
    """How much worse than the best is acceptable."""

    floor_tolerance: float = 0.0
    """How far beyond its limits an acceptable mean may be."""

    plays: int = 1
    """How many different arms are pulled in each round."""

    measured: Measures | None = None
    """The measures of one pull, if it has several; an outcome then has a value for each."""

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of the measures of a pull; empty if an outcome is a single value."""
        return () if self.measured is None else self.measured.names

    @property
    def answer_labels(self) -> Sequence[Any]:
        """The labels that an answer may name: the arms, if actions have labels of that name."""
        labels = (action.get("arm") for action in self.action_labels)
        return [*dict.fromkeys(label for label in labels if label is not None)]

    @property
    def outcome_fields(self) -> Sequence[str]:
        """The names of an outcome's fields, if it is a row; empty if it is a number."""
        return self.measures

    def labels_of_field(self, field: str) -> Sequence[str]:
        """Return the labels that a field of an outcome can have; empty if it is a number."""
        return ()

    @property
    def guaranteed_shares(self) -> Sequence[float | Fraction] | None:
        """The share of the rounds that each arm is guaranteed; None where nothing is."""
        return None

    @property
    def estimates_noise(self) -> bool:
        """Whether the noise must be estimated."""
        return False

    @property
    def comes_late(self) -> bool:
        """Whether results come late, so that a failure may depend on them."""
        return False

    @property
    def has_readings(self) -> bool:
        """Whether pulls have readings before their results."""
        return False

    @property
    def is_costly(self) -> bool:
        """Whether interpreting one plan may take a second: its kernels are compiled at once."""
        return False

    @property
    def stated_shares(self) -> Mapping[str, Mapping[str, float]]:
        """The stated shares of those who arrive, by keyword of `Policy.ask`."""
        return {}

    def in_words(self) -> Mapping[str, str]:
        """Return the question in words, by topic: the first rows of a report."""
        return {}

    def clone(self, **changes: Any) -> Self:
        """Return a new problem made from the same arguments, with some of them changed.

        A known noise and a known range exclude each other: setting one removes the other.
        """
        arguments = self.get_params()
        for name, other in (("noise_std", "reward_range"), ("reward_range", "noise_std")):
            stated = changes.get(name) is not None and other not in changes
            if stated and name in arguments and other in arguments:
                changes[other] = None
        return super().clone(**changes)

    # ------------------------------------------------------------------ actions

    @property
    @abstractmethod
    def action_labels(self) -> Sequence[Mapping[str, Any]]:
        """The labels of every action, in order: ``({"arm": "a", "group": "x"}, ...)``."""

    @property
    def n_actions(self) -> int:
        """The number of different pulls that can be chosen."""
        return len(self.action_labels)

    def labels(self, action: int) -> Mapping[str, Any]:
        """Return the labels of one action."""
        return self.action_labels[action]

    def conditions(self, action: int) -> Mapping[str, Any]:
        """Return the conditions of an action by name; carrying it out may require them."""
        return {}

    def action(self, **labels: Any) -> int:
        """Return the action that has exactly these labels; a number stands for its text.

        Raises
        ------
        InvalidArgument
            If no action has them.
        """
        try:
            known_as = self._actions_by_label
            given = frozenset(labels.items())
            if given not in known_as:
                given = frozenset((name, str(label)) for name, label in labels.items())
            return known_as[given]
        except (KeyError, TypeError):
            known = "; ".join(
                f"{name} in {choices((row[name] for row in self.action_labels), labels.get(name))}"
                for name in self.action_labels[0]
            )
            raise InvalidArgument("labels", f"must name one action: {known}", labels) from None

    @cached_property
    def _actions_by_label(self) -> dict[frozenset[tuple[str, Any]], int]:
        return {frozenset(row.items()): index for index, row in enumerate(self.action_labels)}

    def pull(self, **labels: Any) -> Pull:
        """Return an unsolicited pull, to tell a policy data that it did not request."""
        action = self.action(**labels)
        return Pull(UNSOLICITED, action, self.labels(action))

    def check_ask(self, n: int, context: Mapping[str, Any]) -> None:
        """Raise if a request for `n` pulls, all with this context, makes no sense.

        By default every request does.
        """

    # ----------------------------------------------------------------- outcomes

    def check_outcome(self, outcome: Any, name: str = "reward") -> Any:
        """Return the outcome in its clean form: a real number, unless a family overrides this.

        With `measured` it is a mapping of every measure to its value, or to None if that will never
        be known. It is returned as an array of shape (M,) with NaN for None.

        Raises
        ------
        InvalidOutcome
            If it is not a number, or not finite.
        """
        if self.measured is not None:
            return self.measured.complete(outcome)
        return _finite(outcome, name)

    def check_reading(self, value: Any) -> Any:
        """Return a partial reading in its clean form: a real number, whatever an outcome is.

        With `measured` it is a mapping of the measures known so far to their values. It is returned
        as an array of shape (M,) with NaN for the others.

        Raises
        ------
        InvalidOutcome
            If it is not a number, or not finite.
        """
        if self.measured is not None:
            return self.measured.partial(value)
        return _finite(value, "reading")

    # --------------------------------------------------------------------- JSON

    def to_dict(self) -> dict[str, Any]:
        """Return the problem as JSON's own types; `from_dict` reads it back."""
        return {
            "family": self.family,
            "schema": self.schema,
            **{name: plain(value, name) for name, value in self.get_params().items()},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the problem that `to_dict` wrote.

        Raises
        ------
        InvalidArgument
            If the data belong to another family or a newer schema, or if an argument is unknown or
            missing.
        """
        arguments = dict(data)
        family = arguments.pop("family", cls.family)
        schema = arguments.pop("schema", cls.schema)
        if family != cls.family:
            raise InvalidArgument("family", f"must be {cls.family!r}", family)
        if not isinstance(schema, int) or not 1 <= schema <= cls.schema:
            raise InvalidArgument("schema", f"must be an integer from 1 to {cls.schema}", schema)
        return build(cls, arguments)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON: two problems are equal if and only if theirs are.

        In it 0 and 0.0 are the same, as for a reader of the file. The order of a mapping counts,
        because it may be the order of the actions.
        """
        text = json.dumps(_canonical(self.to_dict()), separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Problem):
            return NotImplemented
        return type(self) is type(other) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __setattr__(self, name: str, value: object) -> None:
        if getattr(self, "_frozen", False):
            raise AttributeError(f"{type(self).__name__} is frozen; make a new one with clone()")
        object.__setattr__(self, name, value)

    def _freeze(self) -> None:
        object.__setattr__(self, "_frozen", True)

    def __repr__(self) -> str:
        return Parametrized.__repr__(self)


def _finite(value: Any, name: str) -> float:
    if type(value) is float and math.isfinite(value):
        return value
    if not isinstance(value, int | float | np.integer | np.floating | np.bool_):
        raise InvalidOutcome(name, "must be a number", value)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidOutcome(name, "must be finite", value)
    return number


def _canonical(data: Any) -> Any:
    """Return JSON data in which every number has only one spelling."""
    if isinstance(data, dict):
        return {key: _canonical(item) for key, item in data.items()}
    if isinstance(data, list):
        return [_canonical(item) for item in data]
    if isinstance(data, float) and data.is_integer():
        return int(data)
    return data
