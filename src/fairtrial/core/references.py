"""Opened states are passed by reference in machine code.

A state is a tuple of dozens of arrays. numba passes a tuple to a function as all the numbers that
describe its arrays, one by one, and counts the references to each array: two thirds of the code to
compile. `Reference` is the type of a pointer to such a tuple, which lies on the stack of the kernel
that opened it. Its fields are read where they are used. Nobody counts references to them meanwhile,
because Python holds the buffers during the whole call.

The tuple is written to the stack by one function, which all kernels share: a copy of it would be
three quarters of the code of a kernel that only takes a result.
"""

# mypy: allow-untyped-calls, allow-untyped-decorators, allow-subclassing-any
from __future__ import annotations

from typing import Annotated, Any, get_args, get_origin, get_type_hints

from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.core.imputils import impl_ret_borrowed, lower_builtin, lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import register_model, type_callable

from fairtrial.core.layout import each_opened_in, kind_of, opened_in, put, room_for


class Reference(types.Type):
    """A pointer to a tuple with names, on the stack of a caller."""

    def __init__(self, target: Any) -> None:
        self.target = target
        super().__init__(f"reference({target.name})")


@register_model(Reference)
class _ReferenceModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Reference) -> None:
        pointer = manager[kind.target].get_value_type().as_pointer()
        super().__init__(manager, kind, pointer)


def refuse_to_return(kind: Any) -> None:
    """Raise TypeError if a kernel returns a pointer, which its caller could use for too long."""
    if isinstance(kind, Reference):
        raise TypeError(f"a kernel must not return an opened state: {kind}")
    for each in getattr(kind, "types", ()):
        refuse_to_return(each)


def _shared(kind: Any) -> Any:
    """Return the type by which a kernel gets a field: that of a pointer, if it is a tuple."""
    return Reference(kind) if isinstance(kind, types.BaseNamedTuple) else kind


@infer_getattr
class _Fields(AttributeTemplate):
    key = Reference

    def generic_resolve(self, reference: Reference, name: str) -> Any:  # type: ignore[override]
        fields = reference.target.fields
        return _shared(reference.target[fields.index(name)]) if name in fields else None


@lower_getattr_generic(Reference)
def _read_field(context: Any, builder: Any, kind: Reference, pointer: Any, name: str) -> Any:
    return _field(context, builder, kind.target, pointer, kind.target.fields.index(name))


def _field(context: Any, builder: Any, kind: Any, pointer: Any, index: int) -> Any:
    """Return a field, or a pointer to it if it is a tuple with names itself."""
    place = cgutils.gep_inbounds(builder, pointer, 0, index)
    if isinstance(_shared(kind[index]), Reference):
        return place
    return impl_ret_borrowed(context, builder, kind[index], builder.load(place))


def type_of(declaration: Any) -> Any:
    """Return the type of the tuple that a layout of this declaration opens."""
    hints = get_type_hints(declaration, include_extras=True)
    fields = [_type_of_field(hints[name]) for name in declaration._fields]
    return types.BaseTuple.from_types(fields, declaration)


def _type_of_field(hint: Any) -> Any:
    if get_origin(hint) is Annotated:
        base, shape = get_args(hint)
        return types.Array(_NUMBERS[kind_of(base)], len(shape.split()), "C")
    return _NUMBERS[hint] if hint in _NUMBERS else type_of(hint)


_NUMBERS = {float: types.float64, int: types.int64, bool: types.boolean}


@type_callable(room_for)
def _type_room(_context: Any) -> Any:
    return lambda declaration: Reference(type_of(declaration.instance_class))


@lower_builtin(room_for, types.NamedTupleClass)
def _make_room(context: Any, builder: Any, signature: Any, _arguments: Any) -> Any:
    return cgutils.alloca_once(builder, context.get_value_type(signature.return_type.target))


@type_callable(put)
def _type_put(_context: Any) -> Any:
    return lambda room, opened: types.none if room.target == opened else None


@lower_builtin(put, Reference, types.BaseNamedTuple)
def _put(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
    room, opened = arguments
    builder.store(opened, room)
    return context.get_dummy_value()


@type_callable(opened_in)
def _type_opened(_context: Any) -> Any:
    return lambda room: room


@lower_builtin(opened_in, Reference)
def _opened(_context: Any, _builder: Any, _signature: Any, arguments: Any) -> Any:
    return arguments[0]


@type_callable(each_opened_in)
def _type_each_opened(_context: Any) -> Any:
    return lambda room: types.Tuple(tuple(map(_shared, room.target.types)))


@lower_builtin(each_opened_in, Reference)
def _each_opened(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kind = signature.args[0].target
    fields = [_field(context, builder, kind, arguments[0], i) for i in range(len(kind))]
    return context.make_tuple(builder, signature.return_type, fields)
