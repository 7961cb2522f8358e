"""What numba does thousands of times while it compiles, done once or not at all.

Most of the time to compile a kernel is not LLVM's but that of numba's own Python code. Some of it
is repeated for every operation of every kernel, always with the same result:

- All implementations of an operator, dozens, are tried for the types of its operands.
- Each implementation that does not fit makes an error message, with colours for a terminal.
- All timers of the kernels that wait for their callees are told of every call of LLVM.
- The lists of variables of every statement are searched with the most general function.
- All options of a compilation are looked up by a property, wherever options are compared.

The replacements here give the same results, so the same machine code. Timers and colours are left
out only for kernels (`without_timers_and_colours`): others may want them. Where a numba of another
version lacks what is replaced here, it only takes longer.
"""

# mypy: allow-untyped-calls
from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, FunctionType, NoneType
from typing import Any

from numba.core import errors, event, ir
from numba.core.targetconfig import ConfigStack, TargetConfig
from numba.core.types.functions import BaseFunction

__all__ = ["SHORTCUTS", "install", "without_timers_and_colours"]

_Method = Callable[..., Any]

_COLOURS: Any = getattr(errors, "HighlightColorScheme", None)
"""Only where the package colorama is installed."""


class _Thread(threading.local):
    compiles_kernels = False


_THREAD = _Thread()


@contextlib.contextmanager
def without_timers_and_colours() -> Iterator[None]:
    """Within this context this thread compiles kernels: nobody reads timers or errors of numba."""
    before = _THREAD.compiles_kernels
    _THREAD.compiles_kernels = True
    try:
        yield
    finally:
        _THREAD.compiles_kernels = before


def install() -> None:
    """Replace what exists; a second call does nothing."""
    for owner, name, make in SHORTCUTS:
        theirs = getattr(owner, name, None)
        if theirs is not None and not hasattr(theirs, "replaces"):
            ours: Any = make(theirs)
            ours.replaces = theirs
            setattr(owner, name, ours)


def _all_options(_theirs: _Method) -> _Method:
    """Return a method that reads all options at once: the defaults, and what has been set."""

    @functools.cache
    def defaults(kind: Any) -> dict[str, Any]:
        return {name: option.default for name, option in kind.options.items()}

    def values(self: Any) -> dict[str, Any]:
        kind: Any = type(self)
        return {**defaults(kind), **self._values}

    return values


def _resolved_once(theirs: _Method) -> _Method:
    """Return a method that remembers which implementation of an operator fits which types.

    The options of the compilation count, too: numba compiles its own functions once for each.
    """
    known: dict[Any, Any] = {}

    def get_call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
        options = ConfigStack.top_or_none()
        case = (self, context, tuple(args), tuple(kws.items()), options)
        if case not in known:
            known[case] = theirs(self, context, args, kws)
        return known[case]

    return get_call_type


def _without_timer(theirs: _Method) -> _Method:
    """Return a context manager that measures nothing while kernels are compiled."""

    @contextlib.contextmanager
    def install_timer(kind: str, callback: Callable[[float], None]) -> Iterator[None]:
        if _THREAD.compiles_kernels:
            yield
            return
        with theirs(kind, callback):
            yield

    return install_timer


def _if_anybody_listens(theirs: _Method) -> _Method:
    """Return a function that makes an event only if somebody has registered for it."""
    registered: Any = event._registered  # noqa: SLF001 - numba's own storage

    def make_event(kind: str, *arguments: Any, **named: Any) -> None:
        if registered[kind]:
            theirs(kind, *arguments, **named)

    return make_event


def _without_colour(theirs: _Method) -> _Method:
    """Return a method that leaves a message as it is while kernels are compiled."""

    def _markup(self: Any, message: str, *colour: Any, **style: Any) -> str:
        if _THREAD.compiles_kernels:
            return message
        marked: str = theirs(self, message, *colour, **style)
        return marked

    return _markup


def _variables_found_quickly(theirs: _Method) -> _Method:
    """Return a method that lists variables, and first looks at what a statement mostly holds."""
    holds_none = {
        *(str, int, float, bool, NoneType, FunctionType, BuiltinFunctionType),
        ir.Loc,
    }

    def _rec_list_vars(self: Any, value: Any) -> list[Any]:
        kind = type(value)
        if kind is ir.Var:
            return [value]
        if kind in holds_none:
            return []
        if kind is dict:
            value = value.values()
        elif kind is not list and kind is not tuple:
            others: list[Any] = theirs(self, value)
            return others
        return [each for part in value for each in _rec_list_vars(self, part)]

    return _rec_list_vars


SHORTCUTS: tuple[tuple[Any, str, Callable[[_Method], _Method]], ...] = (
    (TargetConfig, "values", _all_options),
    (BaseFunction, "get_call_type", _resolved_once),
    (event, "install_timer", _without_timer),
    (event, "start_event", _if_anybody_listens),
    (event, "end_event", _if_anybody_listens),
    (ir.Inst, "_rec_list_vars", _variables_found_quickly),
    *([] if _COLOURS is None else [(_COLOURS, "_markup", _without_colour)]),
)
"""What is replaced: the owner, the name, and what makes the replacement of it."""
