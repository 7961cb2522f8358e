"""Objects that remember how they were made: parameters stored as given, by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from fairtrial.errors import NotSupported

__all__ = ["Parametrized", "plain"]


class Parametrized:
    """Base of objects whose constructor arguments are kept as attributes of the same name."""

    _not_parameters: ClassVar[frozenset[str]] = frozenset()

    def get_params(self) -> dict[str, Any]:
        """Return the constructor's arguments by name, as they were given."""
        names = inspect.signature(type(self).__init__).parameters
        return {
            name: getattr(self, name)
            for name, parameter in names.items()
            if name != "self"
            and name not in self._not_parameters
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        }

    def __repr__(self) -> str:
        signature = inspect.signature(type(self).__init__).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if not _same(value, signature[name].default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def clone(self, **changes: Any) -> Self:
        """Return a new object made from the same arguments, some of them changed."""
        return type(self)(**{**self.get_params(), **changes})


def plain(value: Any, what: str = "value") -> Any:
    """Return `value` in JSON's own types; a `Parametrized` becomes its name and arguments.

    Raises
    ------
    NotSupported
        If the value cannot be written down (a function, say).

    Examples
    --------
    >>> plain(np.arange(3))
    [0, 1, 2]
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(item, f"{what}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item, what) for item in value]
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
