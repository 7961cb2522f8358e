"""Kernels as plain Python: copies of their functions that call each other without detours.

A copy sees the globals of its module, in which every kernel is replaced by its own copy, and `math`
by functions that answer as machine code does: with infinity or NaN where Python would raise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import CellType, FunctionType, SimpleNamespace
from typing import Any

__all__ = ["plain"]

Function = Callable[..., Any]

_GLOBALS: dict[int, dict[str, Any]] = {}
"""The globals of copies, by the identity of the globals of their module."""


def _log(x: float) -> float:
    if x > 0.0:
        return math.log(x)
    return -math.inf if x == 0.0 else math.nan


def _log1p(x: float) -> float:
    if x > -1.0:
        return math.log1p(x)
    return -math.inf if x == -1.0 else math.nan


def _sqrt(x: float) -> float:
    return math.sqrt(x) if x >= 0.0 else math.nan


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


_MATH = SimpleNamespace(**{**vars(math), "log": _log, "log1p": _log1p, "sqrt": _sqrt, "exp": _exp})


def plain(function: Function) -> Function:
    """Return a copy of a kernel's function that runs in the interpreter alone.

    Parameters
    ----------
    function : function
        The function of a kernel; its module must have been imported whole.
    """
    if not isinstance(function, FunctionType):
        return function
    closure = function.__closure__ and tuple(
        CellType(_replaced(cell.cell_contents)) for cell in function.__closure__
    )
    copy = FunctionType(
        function.__code__,
        _globals_of(function),
        function.__name__,
        function.__defaults__,
        closure,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _globals_of(function: FunctionType) -> dict[str, Any]:
    """Return the globals for copies of functions of one module."""
    own = function.__globals__
    found = _GLOBALS.get(id(own))
    if found is None:
        # Entered before it is filled, because kernels of two modules may know each other.
        found = _GLOBALS[id(own)] = {}
        found.update({name: _replaced(value) for name, value in own.items()})
    return found


def _replaced(value: Any) -> Any:
    if value is math:
        return _MATH
    copy = getattr(type(value), "plain", None)
    return value if copy is None else value.plain
