"""What is left out of numba's work changes nothing that is compiled, and nothing for others."""

import io
import itertools
import operator
import os
import subprocess
import sys

import numba as nb
import numpy as np
import pytest
from numba.core import errors, event, ir, types
from numba.core.base import BaseContext
from numba.core.compiler import run_frontend
from numba.core.registry import cpu_target
from numba.core.types.functions import BaseFunction

from fairtrial.core import machine_code
from fairtrial.core.compilation import compiled, kernel
from fairtrial.core.numba_shortcuts import SHORTCUTS, compiling_kernels, install


def ours_and_theirs(owner, name):
    ours = getattr(owner, name)
    return ours, ours.replaces


@pytest.mark.parametrize(("owner", "name", "make"), SHORTCUTS)
def test_the_locked_numba_has_what_is_replaced(owner, name, make):
    assert machine_code is not None
    assert getattr(owner, name).__qualname__.startswith(make.__name__)
    assert callable(getattr(owner, name).replaces)


def test_nothing_is_replaced_twice():
    before = [getattr(owner, name) for owner, name, _ in SHORTCUTS]
    install()
    assert [getattr(owner, name) for owner, name, _ in SHORTCUTS] == before


def test_what_a_numba_of_another_version_lacks_is_left_out(monkeypatch):
    monkeypatch.delattr(event, "install_timer")
    install()
    assert not hasattr(event, "install_timer")


SESSION = """
import hashlib, math, os
import numba as nb
import numpy as np
from fairtrial.core import machine_code
from fairtrial.core.numba_shortcuts import SHORTCUTS

if os.environ["SHORTCUTS"] == "none":
    for owner, name, _ in SHORTCUTS:
        setattr(owner, name, getattr(owner, name).replaces)

@nb.njit
def called(counts, rates, place):
    best, total = -math.inf, 0
    for row in range(counts.shape[0]):
        value = rates[row, place] * counts[row] / max(1, counts.sum()) - row ** 2
        if value > best and not math.isnan(value):
            best, total = value, total + counts[row] // 2
    return best, total, np.zeros(3), (row, place)

@nb.njit(error_model="numpy")
def calls(counts, rates):
    first = called(counts, rates, 0)
    second = called(counts, rates[:, ::-1].copy(), np.int64(1))
    return min(first[0], second[0]) % 3.0, first[1] & second[1], abs(-first[2][1]) <= 1

calls(np.arange(1, 5), np.ones((4, 2)))
(code,) = calls.inspect_llvm().values()
print(len(code), hashlib.sha256(code.encode()).hexdigest())
"""


def test_the_code_is_the_same_without_shortcuts():
    def code(shortcuts):
        command = [sys.executable, "-c", SESSION]
        environment = {**os.environ, "SHORTCUTS": shortcuts}
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        return done.stdout

    assert code("all") == code("none") != ""


OPERATORS = (operator.add, operator.truediv, operator.lt, operator.eq, operator.and_, operator.pow)
OPERANDS = (
    *(types.int64, types.uint64, types.float64, types.boolean, types.intp),
    *(types.literal(3), types.Tuple((types.int64, types.float64))),
    types.Array(types.float64, 1, "C"),
)


@pytest.mark.parametrize("each", OPERATORS)
def test_operators_have_the_same_types(each):
    ours, theirs = ours_and_theirs(BaseFunction, "get_call_type")
    context = cpu_target.typing_context
    context.refresh()
    function = context.resolve_value_type(each)

    def type_by(method, operands):
        try:
            return method(function, context, operands, {})
        except errors.TypingError:
            return None

    found = []
    for operands in itertools.product(OPERANDS, repeat=2):
        expected = type_by(theirs, operands)
        assert type_by(ours, operands) == expected
        assert type_by(ours, operands) == expected, "the second time"
        found.append(expected is not None)
    assert any(found)


def test_statements_have_the_same_variables():
    ours, theirs = ours_and_theirs(ir.Inst, "_rec_list_vars")

    def statements(x, *others, key=2):
        total, table = 0, {"a": x, "b": [1, x]}
        for each in others:
            if each > x and key:
                total += (each, x, table["a"])[1]
            else:
                raise ValueError(each)
        return total, max(x, total, key=lambda value: -value + key)

    count = 0
    for block in run_frontend(statements).blocks.values():
        for statement in block.body:
            held = statement.__dict__
            assert ours(statement, held) == theirs(statement, held)
            nested = [held, (list(held.values()), 1.5, None)]
            assert ours(statement, nested) == theirs(statement, nested)
            count += len(ours(statement, held))
    assert count > 50


SIZED = (
    types.float64,
    types.boolean,
    types.Array(types.float64, 1, "C"),
    types.Array(types.boolean, 3, "A"),
    types.Tuple((types.int8, types.float64, types.int8)),
    types.UniTuple(types.complex128, 3),
)


@pytest.mark.parametrize("name", ["get_abi_sizeof", "get_abi_alignment"])
def test_types_take_as_many_bytes_when_asked_again(name):
    ours, theirs = ours_and_theirs(BaseContext, name)
    context = cpu_target.target_context
    kinds = [context.get_value_type(each) for each in SIZED]
    expected = [theirs(context, kind) for kind in kinds]
    assert [ours(context, kind) for kind in [*kinds, *kinds]] == expected + expected
    assert len(set(expected)) > 1


MAKERS = """
def zeros_{0}(count):
    return np.zeros(count + {0}, dtype=np.int8)
"""


def made(number):
    names = {"np": np}
    exec(MAKERS.format(number), names)
    return names[f"zeros_{number}"]


def built_for(**options):
    """Return how many functions of numba's are compiled for a call of one of them."""
    with event.install_recorder("numba:compile") as recorder:
        assert nb.njit(**options)(made(next(NUMBERS)))(3).sum() == 0
    return sum(each.is_start for _, each in recorder.buffer) - 1


NUMBERS = itertools.count()


def test_functions_of_numba_are_built_once_for_all_callers_that_get_the_same():
    assert built_for(error_model="numpy", nogil=False) > 0
    assert built_for(error_model="numpy", nogil=True) == 0
    assert built_for(error_model="numpy", forceinline=True) > 0
    assert built_for(error_model="python", fastmath=True) > 0


def test_others_can_call_from_c_and_read_types():
    @nb.njit
    def half(x):
        return x / 2

    @nb.njit
    def twice(function, x):
        return function(function(x))

    @nb.cfunc("float64(float64)")
    def quarter(x):
        return half(half(x))

    half(1.0)
    assert twice(half, 8.0) == 2.0
    assert quarter.ctypes(8.0) == 2.0
    assert ":: float64" in read(half)


def read(compiled):
    """Return what numba shows people of the types of a function."""
    file = io.StringIO()
    compiled.inspect_types(file)
    return file.getvalue()


def test_others_that_listen_or_measure_are_told():
    @nb.njit
    def theirs(x):
        return x + 1

    with event.install_recorder("numba:compile") as recorder:
        assert theirs(1) == 2
    assert len(recorder.buffer) == 2
    (code,) = theirs.overloads.values()
    assert code.metadata["timers"]["llvm_lock"] > 0.0


def test_errors_are_coloured_for_others_only():
    scheme = getattr(errors, "HighlightColorScheme", None)
    if scheme is None:
        pytest.skip("without colorama numba colours no errors")
    colours = scheme()
    assert colours.errmsg("no match") != "no match"
    with compiling_kernels():
        assert colours.errmsg("no match") == "no match"


def test_a_kernel_that_cannot_be_typed_has_its_error():
    @kernel
    def wrong(x):
        return x + "a"

    with compiled(), pytest.raises(errors.TypingError) as error:
        wrong(1)
    assert "unicode_type" in str(error.value)
