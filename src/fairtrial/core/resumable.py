"""Save a policy, replay it, and continue it as if it had never paused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.parameters import Parametrized, build, plain
from fairtrial.core.problem import Problem
from fairtrial.core.seeds import as_seed, seed_key
from fairtrial.core.validation import check_instance
from fairtrial.errors import InvalidArgument, NotSupported

__all__ = ["Resumable", "State"]

State = dict[str, NDArray[Any]]
"""A policy's state: named NumPy arrays, never arrays of Python objects."""


class Resumable(Parametrized):
    """A problem, a seed, the pulls asked and told, and everything else that makes up a state.

    Parameters
    ----------
    problem : Problem
        What is known and wanted.
    seed : None, int or numpy.random.Generator
        Source of the policy's own randomness, if it has any.
    """

    state_fields: ClassVar[tuple[str, ...]] = ()
    """Attributes that make up the state: arrays, numbers, booleans, lists of numbers.

    ``"_part.counts"`` names the attribute `counts` of the attribute `_part`.
    """

    version: ClassVar[int] = 1
    """Version; increased when the meaning of a saved state, or any decision, changes."""

    _not_parameters = frozenset({"problem", "seed"})

    def __init__(self, problem: Problem, seed: int | np.random.Generator | None = None) -> None:
        self.problem = check_instance("problem", problem, Problem)
        self.seed = as_seed(seed)
        self.asked = 0
        self.told = 0
        self._outstanding: dict[int, tuple[int, int]] = {}
        self._lost: dict[int, tuple[int, int]] = {}
        self._values_so_far: dict[int, NDArray[np.float64]] = {}
        """With measures: known values of pulls that were not told yet; NaN for the rest."""

    @property
    def _saved_fields(self) -> tuple[str, ...]:
        """All fields of the state: a subclass adds those that only some problems need."""
        return self.state_fields

    def generator(self) -> np.random.Generator:
        """Return random numbers for the current decision.

        They depend only on the seed and on the numbers of pulls asked and told: a policy that is
        restored or replayed decides like one that never paused.
        """
        counter = np.array([0, 0, self.told, self.asked], dtype=np.uint64)
        return np.random.Generator(np.random.Philox(key=self._key, counter=counter))

    @cached_property
    def _key(self) -> NDArray[np.uint64]:
        return seed_key(self.seed)

    def get_state(self) -> State:
        """Return the whole state as named arrays; `set_state` continues from it.

        Raises
        ------
        NotSupported
            If one of `state_fields` holds something other than numbers, booleans or text.
        """
        state: State = {
            "made_from": np.array(self._made_from),
            "asked": np.array(self.asked),
            "told": np.array(self.told),
            "outstanding": _as_rows(self._outstanding),
            "lost": _as_rows(self._lost),
        }
        if self.problem.measured is not None:
            state["reported_pulls"] = np.array([*self._values_so_far], dtype=np.int64)
            values = np.array([*self._values_so_far.values()], dtype=np.float64)
            state["reported_values"] = values.reshape(-1, len(self.problem.measures))
        for name in self._saved_fields:
            state[name] = self._as_array(name)
        return state

    @cached_property
    def _made_from(self) -> str:
        """A fingerprint of class, problem and parameters, as far as they can be written as data."""
        parameters = {name: _written(value) for name, value in self.get_params().items()}
        parts = [type(self).__name__, self.version, self.problem.digest, parameters]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def _as_array(self, name: str) -> NDArray[Any]:
        try:
            array = np.array(attrgetter(name)(self))
        except ValueError:
            array = np.array(None)
        if array.dtype.hasobject:
            message = f"{type(self).__name__}.{name} cannot be saved: it is not an array of numbers"
            raise NotSupported(message)
        return array

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from a state that a policy with the same problem, parameters and seed returned.

        Raises
        ------
        InvalidArgument
            If the state is another policy's, or a part is missing; then nothing has changed.
        """
        self._check_state(state)
        self.asked = int(state["asked"])
        self.told = int(state["told"])
        self._outstanding = _from_rows(state["outstanding"])
        self._lost = _from_rows(state["lost"])
        if self.problem.measured is not None:
            numbers, values = state["reported_pulls"], state["reported_values"]
            pairs = zip(numbers.tolist(), np.array(values), strict=True)
            self._values_so_far = {number: row.copy() for number, row in pairs}
        for name in self._saved_fields:
            owner, own = self._place_of(name)
            is_list = isinstance(getattr(owner, own, None), list)
            value = state[name]
            setattr(owner, own, value.tolist() if is_list or value.ndim == 0 else np.array(value))

    def _place_of(self, field: str) -> tuple[Any, str]:
        """Return the object that holds a field of the state, and the field's name in it."""
        *path, own = field.split(".")
        return (attrgetter(".".join(path))(self) if path else self), own

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        """Restore the attributes of a copied or unpickled policy.

        Views come out as separate arrays. Assigning the state again lets the policy take its views
        from the copied arrays.
        """
        vars(self).update(attributes)
        for field in self._saved_fields:
            owner, own = self._place_of(field)
            if hasattr(owner, own):
                setattr(owner, own, getattr(owner, own))

    def _check_state(self, state: object) -> None:
        if not isinstance(state, Mapping):
            raise InvalidArgument("state", "must be what get_state returned", state)
        if str(state.get("made_from", self._made_from)) != self._made_from:
            raise InvalidArgument(
                "state",
                f"must be of a {type(self).__name__} with the same problem, parameters and seed; "
                "it belongs to another policy: save the policy's to_dict() with its state",
            )
        own = ("made_from", "asked", "told", "outstanding", "lost")
        values = () if self.problem.measured is None else ("reported_pulls", "reported_values")
        for name in (*own, *values, *self._saved_fields):
            if name not in state:
                raise InvalidArgument("state", f"must have the field {name!r}", sorted(state))

    def clone(self, **changes: Any) -> Self:
        """Return a fresh policy; ``seed=`` gives it another seed."""
        start = {"problem": self.problem, "seed": self.seed, **self.get_params()}
        return build(type(self), {**start, **changes})

    def to_dict(self) -> dict[str, Any]:
        """Return the policy's name and parameters as JSON's own types."""
        parameters = self.get_params().items()
        return {
            "name": type(self).__name__,
            **{name: plain(value, name) for name, value in parameters},
        }


def _written(value: Any) -> Any:
    """Return a parameter as data, or its class if it cannot be written as data."""
    try:
        return plain(value)
    except NotSupported:
        return type(value).__qualname__


def _as_rows(pulls: Mapping[int, tuple[int, int]]) -> NDArray[np.int64]:
    rows = [(number, action, tag) for number, (action, tag) in pulls.items()]
    return np.array(rows, dtype=np.int64).reshape(len(rows), 3)


def _from_rows(rows: NDArray[Any]) -> dict[int, tuple[int, int]]:
    return {int(number): (int(action), int(tag)) for number, action, tag in rows}
