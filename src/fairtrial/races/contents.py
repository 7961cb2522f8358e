"""Checksums of candidates and items, by which a study refuses to continue with others."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import hashlib
import pathlib
import uuid
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Content", "Contents", "content_of"]

_LENGTH = 32
_SHOWN = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    dt.date,
    dt.time,
    dt.timedelta,
    decimal.Decimal,
    fractions.Fraction,
    pathlib.PurePath,
    uuid.UUID,
)
"""Types whose values are known by what `str` returns."""


class Content(NamedTuple):
    """What is compared of a value.

    Parameters
    ----------
    checksum : str
        The same for equal values, in every process.
    is_whole : bool
        Whether it covers all of the value. Of some objects only the names or types are compared.
    """

    checksum: str
    is_whole: bool


def content_of(value: Any) -> Content:
    """Return a checksum of the whole content of a value, or of what of it can be compared.

    Compared are texts, numbers, dates and paths; lists, sets, mappings, arrays and data frames;
    data classes, models of pydantic, and the parameters of scikit-learn's estimators. Of all other
    objects, functions among them, only the names or types are compared.

    Examples
    --------
    >>> content_of(range(3)) == content_of([0, 1, 2]), content_of(["a", "b"]) == content_of(["ab"])
    (True, False)
    >>> content_of({"prompt": "Answer briefly."}).is_whole, content_of(["a", print]).is_whole
    (True, False)
    """
    parts = _Parts()
    parts.add(value)
    return Content(parts.digest(), parts.is_whole)


class Contents(NamedTuple):
    """What is compared of all that is raced.

    Parameters
    ----------
    candidates : mapping
        The contents of the candidates, by label.
    items : Content
        The content of the items.
    """

    candidates: dict[str, Content]
    items: Content

    @classmethod
    def of(cls, candidates: Mapping[str, Any], items: Sequence[Any]) -> Contents:
        """Return the contents of candidates and items."""
        return cls(
            {label: content_of(given) for label, given in candidates.items()}, content_of(items)
        )

    @property
    def uncompared(self) -> list[str]:
        """The names of what can change unnoticed, because not all of it can be compared.

        Examples
        --------
        >>> Contents.of({"a": min, "b": "text"}, ["question"]).uncompared
        ["'a'"]
        """
        named = {repr(label): content for label, content in self.candidates.items()}
        named["the items"] = self.items
        return [name for name, content in named.items() if not content.is_whole]


class _Parts:
    """The parts of a value as a hash of their kinds, lengths and texts, one after the other."""

    def __init__(self) -> None:
        self.is_whole = True
        self._hash = hashlib.sha256()
        self._within: list[int] = []

    def digest(self) -> str:
        """Return the checksum of all that was added."""
        return self._hash.hexdigest()[:_LENGTH]

    def add(self, value: Any) -> None:
        """Add a value with all its parts."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, enum.Enum):
            self._write(_name(type(value)), value.name.encode())
        elif isinstance(value, _SHOWN):
            self._write(type(value).__name__, str(value).encode(errors="surrogatepass"))
        elif isinstance(value, bytes | bytearray):
            self._write("bytes", bytes(value))
        elif id(value) in self._within:
            self._write("again", str(self._within.index(id(value))).encode())
        else:
            self._within.append(id(value))
            self._add_parts(value)
            self._within.pop()

    def _add_parts(self, value: Any) -> None:
        if isinstance(value, Mapping):
            self._add_pairs(value)
        elif isinstance(value, Sequence):
            self._add_all(value)
        elif isinstance(value, AbstractSet):
            self._write("set", b"")
            self._add_all(sorted(self._apart(one) for one in value))
        elif isinstance(value, np.ndarray):
            self._add_array(value)
        else:
            self._add_object(value)

    def _add_pairs(self, pairs: Mapping[Any, Any]) -> None:
        hashed = [(self._apart(key), one) for key, one in pairs.items()]
        self._write("mapping", str(len(hashed)).encode())
        for key, one in sorted(hashed, key=itemgetter(0)):
            self._write("key", key.encode())
            self.add(one)

    def _apart(self, value: Any) -> str:
        """Return the checksum of a part that has no place among others."""
        checksum, is_whole = content_of(value)
        self.is_whole &= is_whole
        return checksum

    def _add_all(self, values: Sequence[Any]) -> None:
        self._write("list", str(len(values)).encode())
        for one in values:
            self.add(one)

    def _add_array(self, array: np.ndarray[Any, Any]) -> None:
        self._write("array", f"{array.dtype.str} {array.shape}".encode())
        if array.dtype.hasobject:
            self._add_all(array.ravel().tolist())
        else:
            self._write("values", np.ascontiguousarray(array).tobytes())

    def _add_object(self, value: Any) -> None:
        self._write("object", _name(value).encode())
        data = _data_of(value)
        if data is None and not _is_constant(value):
            self.is_whole = False
        else:
            self.add(data)

    def _write(self, kind: str, content: bytes) -> None:
        self._hash.update(f"{kind} {len(content)}:".encode())
        self._hash.update(content)


def _data_of(value: Any) -> Any:
    """Return the content of an object as plain data; None if it has none."""
    if isinstance(value, type):
        return None
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    for method in ("model_dump", "get_params", "to_dict"):
        if callable(found := getattr(value, method, None)):
            try:
                content = found()
            except Exception:  # noqa: BLE001 - somebody else's method of the same name
                return None
            return content if isinstance(content, Mapping | Sequence) else None
    return None


def _is_constant(value: Any) -> bool:
    """Return whether a value is the only one of its name, as the missing value of pandas is."""
    try:
        return not callable(value) and isinstance(value.__reduce__(), str)
    except Exception:  # noqa: BLE001 - the value may be anybody's
        return False


def _name(value: Any) -> str:
    """Return the name of a function or class, or of the type of another object."""
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"
