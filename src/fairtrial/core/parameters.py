"""Objects that remember how they were made: they keep their parameters as given, by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from fairtrial.core.keywords import named_arguments
from fairtrial.core.mistakes import did_you_mean
from fairtrial.core.wording import abridged
from fairtrial.errors import InvalidArgument, NotSupported

__all__ = ["Parametrized", "build", "plain"]

_Built = TypeVar("_Built")


class Parametrized:
    """Base of objects that keep their constructor arguments as attributes with the same names."""

    _not_parameters: ClassVar[frozenset[str]] = frozenset()

    @named_arguments
    def __init__(self) -> None:
        """Take no arguments, unless a subclass takes some."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Let the constructor refuse arguments that it does not take with an error of ours."""
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):
            cls.__init__ = named_arguments(cls.__init__)  # type: ignore[method-assign]

    def get_params(self) -> dict[str, Any]:
        """Return the constructor's arguments by name, as given."""
        names = _parameters_of(type(self).__init__)
        return {
            name: getattr(self, name)
            for name, parameter in names.items()
            if name != "self"
            and name not in self._not_parameters
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        }

    def __repr__(self) -> str:
        signature = _parameters_of(type(self).__init__)
        changed = [
            f"{name}={abridged(value)}"
            for name, value in self.get_params().items()
            if not _same(value, signature[name].default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def clone(self, **changes: Any) -> Self:
        """Return a new object made from the same arguments, with some of them changed."""
        return build(type(self), {**self.get_params(), **changes})


def build(cls: type[_Built], arguments: Mapping[str, Any], **given: Any) -> _Built:
    """Return an object of `cls`, built from named arguments in a file or a log.

    Parameters
    ----------
    cls : type
        The class.
    arguments : mapping of str to object
        The constructor's arguments by name.
    **given
        Arguments that the caller adds; they must not be in `arguments`.

    Raises
    ------
    InvalidArgument
        If an argument is unknown or missing.

    Examples
    --------
    >>> build(Fraction, {"numerator": 1, "denominator": 3})
    Fraction(1, 3)
    """
    parameters = {
        name: parameter
        for name, parameter in _parameters_of(cls).items()  # type: ignore[arg-type] # it has a hash
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }
    accepted = [name for name in parameters if name not in given]
    for name, value in arguments.items():
        if name not in accepted:
            expected = did_you_mean(name, accepted) if accepted else "it takes none"
            raise InvalidArgument(name, f"is not an argument of {cls.__name__}: {expected}", value)
    for name in accepted:
        if parameters[name].default is inspect.Parameter.empty and name not in arguments:
            raise InvalidArgument(name, f"is missing: {cls.__name__} needs it")
    try:
        return cls(**arguments, **given)
    except MemoryError as error:
        raise InvalidArgument(
            cls.__name__, f"does not fit into memory with these arguments ({error})"
        ) from None


@cache
def _parameters_of(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    # A simulation clones its policy for every run; reading the signature takes a third of the time.
    return inspect.signature(function).parameters


_OWN_KINDS = frozenset({type(None), bool, int, float, str})
"""JSON's own types that are not containers."""
_PLAIN_KINDS = "biufU"
"""Kinds of NumPy arrays that become JSON's own types at once: truth values, numbers, texts."""


def plain(value: Any, what: str = "value") -> Any:
    """Return `value` in JSON's own types; a `Parametrized` becomes its name and arguments.

    A fraction becomes text (``"1/3"``), and a set a sorted list.

    Raises
    ------
    NotSupported
        If the value cannot be written as JSON (a function, for example).

    Examples
    --------
    >>> plain(np.arange(3))
    [0, 1, 2]
    """
    if isinstance(value, np.generic | np.ndarray):
        is_plain = value.dtype.kind in _PLAIN_KINDS
        value = value.tolist()
        if is_plain:
            return value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item, f"{what}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        if _OWN_KINDS.issuperset(map(type, value)):
            # A finished experiment has hundreds of thousands of them.
            return list(value)
        return [plain(item, what) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(item, what) for item in value), key=repr)
    if isinstance(value, Parametrized):
        parameters = value.get_params().items()
        return {
            "name": type(value).__name__,
            **{key: plain(item, f"{what}.{key}") for key, item in parameters},
        }
    raise NotSupported(f"{what} cannot be written down as data: {value!r}")


def _same(left: Any, right: Any) -> bool:
    try:
        return np.shape(left) == np.shape(right) and bool(np.all(left == right))
    except (TypeError, ValueError):
        return False
