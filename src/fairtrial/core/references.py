"""Opened states are passed by reference in machine code.

A state is a tuple of dozens of arrays. numba passes a tuple to a function as all the numbers that
describe its arrays, one by one, and counts the references to each array: two thirds of the code to
compile. `Reference` is the type of a pointer to such a tuple, which lies on the stack of the kernel
that opened it. Its fields are read where they are used. Nobody counts references to them meanwhile,
because Python holds the buffers during the whole call.
"""

# mypy: allow-untyped-calls, allow-untyped-decorators, allow-subclassing-any
from __future__ import annotations

from typing import Any

from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.core.imputils import impl_ret_borrowed, lower_builtin, lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import register_model, type_callable

from fairtrial.core.layout import by_reference, each_by_reference


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


@type_callable(by_reference)
def _type_by_reference(_context: Any) -> Any:
    return lambda opened: Reference(opened)


@lower_builtin(by_reference, types.BaseNamedTuple)
def _put_on_stack(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
    return cgutils.alloca_once_value(builder, arguments[0])


@type_callable(each_by_reference)
def _type_each_by_reference(_context: Any) -> Any:
    return lambda opened: types.Tuple(tuple(map(_shared, opened.types)))


@lower_builtin(each_by_reference, types.BaseNamedTuple)
def _put_each_on_stack(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    (kind,) = signature.args
    pointer = cgutils.alloca_once_value(builder, arguments[0])
    fields = [_field(context, builder, kind, pointer, i) for i in range(len(kind))]
    return context.make_tuple(builder, signature.return_type, fields)
