"""One declaration of named arrays that kernels share; their sizes and views follow from it.

A policy keeps its arrays in two buffers, one of floats and one of integers: passing an array to
compiled code costs more than most decisions, and two arrays are easy to save. A `NamedTuple`
declares the contents: names, types and shapes, in order. The lengths of the buffers follow from
it, and so does a function that opens the buffers as that named tuple, in compiled code and Python.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.compilation import kernel, shared

__all__ = ["Array", "Layout", "opener"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

State = TypeVar("State")

_NAME = re.compile(r"[A-Za-z_]\w*")

_ARRAYS: dict[Any, type] = {Floats: float, Integers: int}
"""Accepted types of arrays. They are compared, because NumPy's versions build them differently."""

_SCALARS = {bool: "{} != 0.0", int: "int({})", float: "{}"}
"""How a scalar is read from the buffer of floats."""


@dataclass(frozen=True)
class Array:
    """One declared array, or a scalar, which has no shape."""

    path: str
    """Its name; ``outer.inner`` in a nested declaration."""

    kind: type
    """`float` or `int`; a scalar may also be `bool`."""

    shape: tuple[str, ...] | None
    """For each axis the name of a dimension, a number, or sums and products (``groups+1``)."""

    @property
    def buffer(self) -> str:
        """The buffer that holds it."""
        return "integers" if self.shape is not None and self.kind is int else "floats"


class Layout(Generic[State]):
    """Arrays with names: each is a view of its own into one buffer of floats or of integers.

    `Records` declares tables of rows instead, for kernels that pass their state on at every call.

    Parameters
    ----------
    declaration : type
        A `NamedTuple`. Each field is one of: an array, ``Annotated[NDArray[np.float64], "arms
        groups"]`` (or ``np.int64``), whose shape consists of names of dimensions and numbers; a
        scalar (`float`, `int` or `bool`), which is read when the buffers are opened and which
        kernels do not write; another such declaration.
    compiler : callable
        The decorator that compiles the function `open`.

    Attributes
    ----------
    open : callable
        The kernel that returns the named views of the buffers, or of the one buffer if the
        declaration has no integer arrays. Kernels call it by a global name of their module:
        ``open_state = STATE.open``.
    view : callable
        The same function in plain Python.
    arrays : tuple of Array
        What is in the buffers, in order.
    dimensions : tuple of str
        Names of all dimensions. Their values are the first entries of a buffer, so that they need
        not be passed along.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> class Totals(NamedTuple):
    ...     counts: Annotated[NDArray[np.int64], "arms"]
    ...     sums: Annotated[NDArray[np.float64], "arms groups"]
    >>> layout = Layout(Totals)
    >>> floats, integers = layout.allocate(arms=3, groups=2)
    >>> layout.view(floats, integers).sums.shape
    (3, 2)
    """

    def __init__(self, declaration: type[State], compiler: Callable[[Any], Any] = kernel) -> None:
        self.declaration = declaration
        self.arrays = tuple(_arrays_of(declaration))
        self.dimensions = _dimensions_of(self.arrays)
        buffers = {array.buffer for array in self.arrays}
        self._buffers = tuple(name for name in ("floats", "integers") if name in buffers)
        # Every run of a simulation allocates a state of the same dimensions.
        self._sizes_of = functools.lru_cache(maxsize=256)(self._sum_up)
        self.view: Callable[..., State] = self._compose("open", "", "return {}")
        self.open: Callable[..., State] = compiler(self.view)

    # ------------------------------------------------------------------ allocating

    def sizes(self, **dimensions: int) -> tuple[int, int]:
        """Return the lengths of the buffer of floats and of the buffer of integers.

        Parameters
        ----------
        **dimensions
            The value of every dimension.
        """
        return self._sizes_of(*(dimensions[name] for name in self.dimensions))

    def _sum_up(self, *lengths_of_dimensions: int) -> tuple[int, int]:
        dimensions = dict(zip(self.dimensions, lengths_of_dimensions, strict=True))
        lengths = {"floats": 0, "integers": 0}
        lengths[self._buffers[-1]] += len(self.dimensions)
        for array in self.arrays:
            lengths[array.buffer] += _length(array, dimensions)
        return lengths["floats"], lengths["integers"]

    def allocate(self, **dimensions: int) -> tuple[Floats, Integers]:
        """Return buffers full of zeros for a state of these dimensions.

        Parameters
        ----------
        **dimensions
            The value of every dimension.
        """
        floats, integers = self.sizes(**dimensions)
        buffers = np.zeros(floats), np.zeros(integers, dtype=np.int64)
        last = buffers[len(self._buffers) - 1]
        last[: len(self.dimensions)] = [dimensions[name] for name in self.dimensions]
        return buffers

    def pack(self, state: State) -> tuple[Floats, Integers]:
        """Return buffers with a copy of a state, including its scalars.

        Parameters
        ----------
        state : NamedTuple
            Arrays may have any type and memory order; the dimensions are taken from their shapes.

        Raises
        ------
        ValueError
            If arrays disagree about a dimension.
        """
        leaves = self.leaves(state)
        buffers = self.allocate(**self._dimensions_in(leaves))
        filled = {"floats": 0, "integers": 0}
        filled[self._buffers[-1]] = len(self.dimensions)
        for array, leaf in zip(self.arrays, leaves, strict=True):
            flat = np.ravel(leaf)
            buffer = buffers[array.buffer == "integers"]
            buffer[filled[array.buffer] : filled[array.buffer] + flat.size] = flat
            filled[array.buffer] += flat.size
        return buffers

    def leaves(self, state: State) -> list[Any]:
        """Return the arrays and scalars of a state, including nested ones, in order."""
        return [_leaf(state, array.path) for array in self.arrays]

    def lengths(self, *buffers: NDArray[Any]) -> dict[str, int]:
        """Return the value of every dimension, read from the buffers."""
        return dict(zip(self.dimensions, map(int, buffers[-1]), strict=False))

    def _dimensions_in(self, leaves: list[Any]) -> dict[str, int]:
        found: dict[str, int] = {}
        for array, leaf in zip(self.arrays, leaves, strict=True):
            for name, length in zip(array.shape or (), np.shape(leaf), strict=True):
                if name in self.dimensions:
                    found.setdefault(name, length)
        for array, leaf in zip(self.arrays, leaves, strict=True):
            expected = _shape(array, found)
            if np.shape(leaf) != expected:
                raise ValueError(f"{array.path} has shape {np.shape(leaf)}, not {expected}")
        return found

    # --------------------------------------------------------------------- opening

    def into_room(self) -> Callable[..., None]:
        """Return the kernel that opens the buffers into a room; its machine code exists once."""
        filler: Callable[..., None] = shared(self._compose("fill", "room, ", "put(room, {})"))
        return filler

    def _compose(self, verb: str, first: str, last: str) -> Callable[..., Any]:
        """Return a function that opens the buffers; it is compiled from generated source.

        `first` is what it takes before the buffers, and `last` what it does with the opened tuple.
        """
        declaration = self.declaration
        module = sys.modules[declaration.__module__]
        types: dict[str, type] = {}
        head = self._buffers[-1]
        own_name = f"{verb}_{declaration.__name__}"
        lines = [f"def {own_name}({first}{', '.join(self._buffers)}):"]
        lines += [f"    {name} = int({head}[{i}])" for i, name in enumerate(self.dimensions)]
        lines += [f"    at_{name} = 0" for name in self._buffers[:-1]]
        lines += [f"    at_{head} = {len(self.dimensions)}"]
        opened: dict[str, str] = {}
        for buffer in self._buffers:
            mine = [array for array in self.arrays if array.buffer == buffer]
            for shape, alike in itertools.groupby(mine, key=lambda array: array.shape):
                lines += _opening(buffer, shape, list(alike), opened)
        lines.append(f"    {last.format(_construction(declaration, '', opened, types))}")
        source = "\n".join(lines) + "\n"
        # numba keeps the compiled code beside the module that holds the declaration.
        namespace: dict[str, Any] = {**types, "put": put, "__name__": declaration.__module__}
        exec(compile(source, str(module.__file__), "exec"), namespace)  # noqa: S102
        function: Callable[..., Any] = namespace[own_name]
        return function


def room_for(_declaration: type) -> list[Any]:
    """Return a place for an opened tuple; in machine code, on the stack (`core.references`)."""
    return []


def put(room: list[Any], opened: Any) -> None:
    """Put an opened tuple into its room."""
    room.append(opened)


def opened_in(room: list[Any]) -> Any:
    """Return what is in a room; in machine code, a pointer to it."""
    return room[0]


def each_opened_in(room: list[Any]) -> Any:
    """Return what is in a room; in machine code, its fields, by pointers if they are tuples."""
    return room[0]


def opener(constants: Layout[Any], state: Layout[Any]) -> Callable[[Any], Any]:
    """Return the kernel that opens a tuple: packed constants, then the two buffers of a state.

    It becomes part of every kernel that calls it. In machine code it gives pointers to what lies on
    the stack of that kernel, which therefore must not return them. The buffers must be arguments of
    the kernel, so that they exist until its end.

    Parameters
    ----------
    constants, state : Layout
        The layouts of the buffers. The kernel returns what is declared in them, in this order.
    """
    fill_constants, fill_state = constants.into_room(), state.into_room()
    declared_constants, declared_state = constants.declaration, state.declaration

    @kernel(inline="always")
    def opened(arrays: Any) -> Any:
        room_of_constants = room_for(declared_constants)
        fill_constants(room_of_constants, arrays[0])
        room_of_state = room_for(declared_state)
        fill_state(room_of_state, arrays[1], arrays[2])
        return each_opened_in(room_of_constants), opened_in(room_of_state)

    opens: Callable[[Any], Any] = opened
    return opens


def kind_of(array: Any) -> type:
    """Return what the numbers of a declared array are: `float` or `int`."""
    return _ARRAYS[array]


def _arrays_of(declaration: Any, prefix: str = "") -> Iterator[Array]:
    for name, hint in get_type_hints(declaration, include_extras=True).items():
        path = prefix + name
        if get_origin(hint) is Annotated:
            base, shape = get_args(hint)
            if base not in _ARRAYS:
                raise TypeError(f"{path} must be an array of np.float64 or np.int64: {base}")
            yield Array(path, _ARRAYS[base], tuple(shape.split()))
        elif hint in _SCALARS:
            yield Array(path, hint, None)
        elif hasattr(hint, "_fields"):
            yield from _arrays_of(hint, f"{path}.")
        else:
            raise TypeError(f"{path} must be an annotated array, a scalar or a declaration: {hint}")


def _dimensions_of(arrays: tuple[Array, ...]) -> tuple[str, ...]:
    names = (_NAME.findall(" ".join(array.shape or ())) for array in arrays)
    return tuple(dict.fromkeys(itertools.chain.from_iterable(names)))


def _shape(array: Array, dimensions: Mapping[str, int]) -> tuple[int, ...]:
    values = dict(dimensions)
    return tuple(int(eval(_parsed(axis), {}, values)) for axis in array.shape or ())  # noqa: S307


@functools.cache
def _parsed(axis: str) -> CodeType:
    return compile(axis, axis, "eval")


def _length(array: Array, dimensions: Mapping[str, int]) -> int:
    return math.prod(_shape(array, dimensions))


def _leaf(state: Any, path: str) -> Any:
    for name in path.split("."):
        state = getattr(state, name)
    return state


def _opening(
    buffer: str, shape: tuple[str, ...] | None, alike: list[Array], opened: dict[str, str]
) -> Iterator[str]:
    """Yield the lines that open arrays of one shape; enter each one's expression in `opened`."""
    at = f"at_{buffer}"
    if shape is None or len(shape) < 2:
        for array in alike:
            name = opened[array.path] = f"array_{array.path.replace('.', '_')}"
            if shape is None:
                yield f"    {name} = {_SCALARS[array.kind].format(f'{buffer}[{at}]')}"
                yield f"    {at} += 1"
            else:
                yield f"    {name} = {buffer}[{at} : {at} + {shape[0]}]"
                yield f"    {at} += {shape[0]}"
        return
    # Each reshape is a call, so arrays of one shape share it.
    name = f"arrays_{alike[0].path.replace('.', '_')}"
    whole = (str(len(alike)), *shape)
    length = " * ".join(f"({axis})" for axis in whole)
    yield f"    {name} = {buffer}[{at} : {at} + {length}].reshape(({', '.join(whole)}))"
    yield f"    {at} += {length}"
    opened.update({array.path: f"{name}[{i}]" for i, array in enumerate(alike)})


def _construction(
    declaration: Any, prefix: str, opened: Mapping[str, str], types: dict[str, type]
) -> str:
    """Return the expression that builds a declared tuple; enter its types in `types`."""
    types[declaration.__name__] = declaration
    hints = get_type_hints(declaration)
    parts = [
        opened[prefix + name]
        if prefix + name in opened
        else _construction(hints[name], f"{prefix}{name}.", opened, types)
        for name in declaration._fields
    ]
    return f"{declaration.__name__}({', '.join(parts)})"
