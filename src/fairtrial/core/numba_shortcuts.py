"""What numba does thousands of times while it compiles, done once or not at all.

Most of the time to compile a kernel is not LLVM's but that of numba's own Python code. Some of it
is repeated for every operation of every kernel, always with the same result:

- All implementations of an operator, dozens, are tried for the types of its operands.
- Each implementation that does not fit makes an error message, with colours for a terminal.
- All timers of the kernels that wait for their callees are told of every call of LLVM.
- The lists of variables of every statement are searched with the most general function.
- All options of a compilation are looked up by a property, wherever options are compared.
- Its own functions are compiled again for callers whose options differ in what they do not inherit.
- They get a wrapper by which C could call them.
- To learn how many bytes a type takes, a module with a variable of it is written and parsed.
- The source of each function is stored with the types of its variables, for people to read.

The replacements here give the same results, so the same machine code. What others may want is left
out only for kernels (`compiling_kernels`): timers, colours, wrappers for C, and types to read.
Where a numba of another version lacks what is replaced here, it only takes longer.
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
from numba.core.annotations.type_annotations import TypeAnnotation
from numba.core.base import BaseContext
from numba.core.lowering import BaseLower
from numba.core.targetconfig import ConfigStack, TargetConfig
from numba.core.types.functions import BaseFunction
from numba.core.typing import templates

__all__ = ["SHORTCUTS", "compiling_kernels", "install"]

_Method = Callable[..., Any]

_COLOURS: Any = getattr(errors, "HighlightColorScheme", None)
"""Only where the package colorama is installed."""

_FUNCTIONS_OF_NUMBA: Any = getattr(templates, "_OverloadFunctionTemplate", None)


class _Thread(threading.local):
    compiles_kernels = False


_THREAD = _Thread()


@contextlib.contextmanager
def compiling_kernels() -> Iterator[None]:
    """Within this context this thread compiles kernels, and leaves out what only others want."""
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
        case = (self, context, tuple(args), tuple(kws.items()), _inherited())
        if case not in known:
            known[case] = theirs(self, context, args, kws)
        return known[case]

    return get_call_type


_INHERITED = ("nrt", "fastmath", "error_model", "forceinline", "boundscheck", "debuginfo")
"""The options of a caller on which the code of numba's own functions can depend."""


def _inherited() -> Any:
    """Return what numba's own functions inherit of the options of their caller."""
    options: Any = ConfigStack.top_or_none()
    return options and tuple(str(getattr(options, name)) for name in _INHERITED)


def _built_once(_theirs: _Method) -> _Method:
    """Return a method that builds a function of numba's once for all callers that get the same."""

    def _get_impl(self: Any, args: Any, kws: Any) -> Any:
        case = (self.context, tuple(args), tuple(kws.items()), _inherited())
        return self._impl_cache.get(case) or self._build_impl(case, args, kws)

    return _get_impl


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


def _without_wrapper(theirs: _Method) -> _Method:
    """Return a method that adds no wrapper for C while kernels are compiled."""

    def create_cfunc_wrapper(self: Any) -> None:
        if not _THREAD.compiles_kernels:
            theirs(self)

    return create_cfunc_wrapper


def _without_annotation(theirs: _Method) -> _Method:
    """Return a method that describes no variables while kernels are compiled."""

    def __str__(self: Any) -> str:  # noqa: N807 - replaces a method of this name
        return "" if _THREAD.compiles_kernels else str(theirs(self))

    return __str__


def _measured_once(theirs: _Method) -> _Method:
    """Return a method that remembers the size or the alignment of a type."""
    known: dict[Any, int] = {}

    def get_abi(self: Any, kind: Any) -> int:
        case = (self.target_data, str(kind))
        if case not in known:
            known[case] = theirs(self, kind)
        return known[case]

    return get_abi


def _variables_found_quickly(theirs: _Method) -> _Method:
    """Return a method that lists variables, and first looks at what a statement mostly holds."""
    holds_none = {
        *(str, int, float, bool, NoneType, FunctionType, BuiltinFunctionType),
        ir.Loc,
    }

    def _rec_list_vars(self: Any, value: Any) -> list[Any]:
        kind = type(value)
        if kind is dict:
            value = value.values()
        elif kind is not list and kind is not tuple:
            others: list[Any] = theirs(self, value)
            return others
        found: list[Any] = []
        for part in value:
            kind = type(part)
            if kind is ir.Var:
                found.append(part)
            elif kind not in holds_none:
                found += _rec_list_vars(self, part)
        return found

    return _rec_list_vars


SHORTCUTS: tuple[tuple[Any, str, Callable[[_Method], _Method]], ...] = (
    (TargetConfig, "values", _all_options),
    (BaseFunction, "get_call_type", _resolved_once),
    (event, "install_timer", _without_timer),
    (event, "start_event", _if_anybody_listens),
    (event, "end_event", _if_anybody_listens),
    (ir.Inst, "_rec_list_vars", _variables_found_quickly),
    (_FUNCTIONS_OF_NUMBA, "_get_impl", _built_once),
    (BaseLower, "create_cfunc_wrapper", _without_wrapper),
    (TypeAnnotation, "__str__", _without_annotation),
    (BaseContext, "get_abi_sizeof", _measured_once),
    (BaseContext, "get_abi_alignment", _measured_once),
    *([] if _COLOURS is None else [(_COLOURS, "_markup", _without_colour)]),
)
"""What is replaced: the owner, the name, and what makes the replacement of it."""
