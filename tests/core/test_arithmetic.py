"""Kernels decide the same whether they are compiled or interpreted."""

from __future__ import annotations

import ast
import functools
import math
import types
from collections.abc import Callable, Iterator
from operator import add
from pathlib import Path

import numpy as np
import pytest

import fairtrial
from fairtrial.core.arithmetic import cube, square, sum_of
from fairtrial.core.compilation import kernel
from fairtrial.core.philox import philox_uniform

PACKAGE = Path(fairtrial.__file__).parent

_DECORATORS = {
    *("kernel", "apart", "inlined", "unchecked", "uncounted", "counted"),
    *("live", "live_inlined"),
}

_OF_ARRAYS = {"sum", "mean", "var", "std", "prod", "cumsum", "dot", "matmul", "trace", "inner"}
"""Methods and functions that add many numbers: in pairs by NumPy, in order by numba."""

_TRANSCENDENTAL = {"exp", "log", "log1p", "expm1", "sin", "cos", "tan", "tanh", "power", "sqrt"}
"""Functions whose versions for arrays are not those for numbers: use those of `math`."""

EXACT_OR_UNDECISIVE = {
    "sum of whole numbers": {
        ("confidence/block_betting/blocks.py", "planned.sum()"),
        ("linear/_kernels/planning.py", "counts.sum()"),
        ("causal/_kernels/betting.py", "state.rows.sum()"),
        ("causal/_kernels/betting_bets.py", "state.blocks.planned[slot].sum()"),
        ("causal/_kernels/betting_bets.py", "state.counts.sum()"),
        ("causal/_kernels/betting_bets.py", "state.rows.sum()"),
        ("causal/_kernels/betting_bets.py", "usable.sum()"),
        ("causal/_kernels/betting_plans.py", "number.sum()"),
        ("causal/_kernels/betting_plans.py", "state.counts.sum()"),
        ("causal/_kernels/betting_plans.py", "counts.sum()"),
        ("linear/_kernels/testing.py", "(counts > 0.0).sum()"),
    },
    "only its sign or its being finite counts": {
        ("subpopulations/_kernels/block_plans.py", "shares.sum()"),
        ("linear/_kernels/solvers.py", "matrix.sum()"),
        ("linear/_kernels/solvers.py", "right.sum()"),
    },
    "by BLAS or LAPACK, whose last digits differ between processors anyway": {
        ("linear/_kernels/solvers.py", "np.dot(images[start:stop], images[other:end].T)"),
        ("linear/_kernels/solvers.py", "np.linalg.solve(matrix, right)"),
        ("linear/_kernels/solvers.py", "np.dot(left, right.T)"),
        ("linear/_kernels/solvers.py", "np.dot(weighted, weighted.T, first)"),
        ("linear/_kernels/solvers.py", "np.dot(weighted, squared.T, second)"),
        ("linear/_kernels/limited_planning.py", "metric.root.T @ (metric.root @ directions[item])"),
        ("linear/_kernels/limited_planning.py", "metric.root @ directions[item]"),
        ("linear/_kernels/matrices.py", "np.linalg.eigh(matrix)"),
        ("causal/_kernels/betting_bets.py", "np.linalg.inv(matrix)"),
    },
    "no two of these numbers are equal": {
        ("delayed/_kernels/block_runs.py", "np.argsort(slots[found, ROW])"),
    },
    "a design that is computed to a stated tolerance": {
        ("linear/_kernels/solvers.py", "fastmath={'reassoc', 'contract'}"),
    },
}
"""Operations that look like a hazard, with the reason why no decision hangs on the last digit."""

_ALLOWED = {found for places in EXACT_OR_UNDECISIVE.values() for found in places}


def kernels() -> Iterator[tuple[str, ast.FunctionDef]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and _DECORATORS & set(
                map(_called, node.decorator_list)
            ):
                yield name, node


def _called(decorator: ast.expr) -> str:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return function.id if isinstance(function, ast.Name) else ""


def hazards(function: ast.FunctionDef) -> Iterator[str]:
    """Yield the expressions of a kernel that the interpreter may compute differently."""
    for node in ast.walk(function):
        match node:
            case ast.BinOp(op=ast.Pow(), right=exponent) if _is_whole(exponent):
                yield ast.unparse(node)  # use square and cube
            case ast.Call() if _is_hazard(node):
                yield ast.unparse(node)
            case (
                ast.BinOp(op=ast.MatMult())
                | ast.keyword(arg="fastmath" | "parallel")
                | ast.Name(id="prange")
            ):
                yield ast.unparse(node)


def _is_whole(exponent: ast.expr) -> bool:
    """Return whether numba may multiply: unless the exponent is a floating-point number."""
    if isinstance(exponent, ast.UnaryOp):
        exponent = exponent.operand
    if isinstance(exponent, ast.Constant):
        return isinstance(exponent.value, int)
    is_float = isinstance(exponent, ast.Call) and ast.unparse(exponent.func) == "float"
    return not (is_float or isinstance(exponent, ast.Subscript))


def _is_hazard(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    first, _, last = name.rpartition(".")
    if first == "np":
        unstable = last == "argsort" and not any(word.arg == "kind" for word in call.keywords)
        return last in _OF_ARRAYS | _TRANSCENDENTAL | {"sort", "median"} or unstable
    if first in ("np.random", "np.linalg"):
        return True
    return name == "math.hypot" or name == "sum" or (first != "" and last in _OF_ARRAYS)


def test_no_kernel_contains_what_the_interpreter_computes_differently() -> None:
    found = {(name, hazard) for name, function in kernels() for hazard in hazards(function)}
    assert found - _ALLOWED == set()
    assert _ALLOWED - found == set(), "no longer there: shorten the list"


@pytest.mark.parametrize(
    "body",
    ["x ** 2", "x ** k", "x.sum()", "np.sum(x)", "np.exp(x)", "math.hypot(x, x)",
     "np.random.random()", "x @ x", "np.argsort(x)", "np.linalg.inv(x)", "sum(x)"],
)  # fmt: skip
def test_a_hazard_is_recognised(body: str) -> None:
    function = ast.parse(f"def f(x, k):\n    return {body}").body[0]
    assert isinstance(function, ast.FunctionDef)
    assert list(hazards(function)) == [body]


# ------------------------------------------------------------- functions, digit by digit

_RANDOM = np.random.default_rng(1)
_NUMBERS = _RANDOM.normal(size=3_000) * 10.0 ** _RANDOM.integers(-4, 2, 3_000)

_PLAIN: dict[str, Callable[[float], float]] = {
    "square": lambda x: square(x),
    "cube": lambda x: cube(x),
    "log": lambda x: math.log(abs(x)),
    "log1p": lambda x: math.log1p(abs(x)),
    "exp": lambda x: math.exp(-abs(x)),
    "sin": lambda x: math.sin(x),
    "cos": lambda x: math.cos(x),
    "erfc": lambda x: math.erfc(x),
    "power": lambda x: abs(x) ** (-0.9),
    "length": lambda x: np.hypot(x, 0.7),
}


@pytest.mark.parametrize("name", _PLAIN)
def test_a_function_has_the_same_digits_compiled_and_interpreted(name: str) -> None:
    compiled = kernel(_PLAIN[name])
    assert [compiled(x) for x in _NUMBERS] == [interpreted(_PLAIN[name], x) for x in _NUMBERS]


def interpreted(function: Callable[[float], float], x: float) -> float:
    """Return the function's value without machine code."""
    plain = {"square": square.py_func, "cube": cube.py_func}
    return types.FunctionType(function.__code__, globals() | plain)(x)


def test_a_sum_has_the_same_digits_compiled_and_interpreted() -> None:
    table = _NUMBERS.reshape(60, 50)
    for array in (_NUMBERS, table, table[:, 7], table[::2]):
        assert sum_of(array) == sum_of.py_func(array) == functools.reduce(add, array.ravel(), 0.0)


@pytest.mark.parametrize("counter", [0, 5, -1, -7, 2**40])
def test_a_draw_by_address_is_the_same_compiled_and_interpreted(counter: int) -> None:
    numbers = philox_uniform.py_func.__globals__
    plain = {name: getattr(item, "py_func", item) for name, item in numbers.items()}
    plain["_block"] = types.FunctionType(numbers["_block"].py_func.__code__, plain)
    with np.errstate(over="ignore"):
        drawn = types.FunctionType(philox_uniform.py_func.__code__, plain)(3, 4, counter, 1)
    assert philox_uniform(3, 4, counter, 1) == drawn


def test_generators_draw_the_same_numbers_compiled_and_interpreted() -> None:
    def draws(generator: np.random.Generator) -> tuple[float, ...]:
        return (
            generator.random(),
            generator.standard_normal(),
            generator.chisquare(3.5),
            generator.chisquare(1),
            generator.binomial(7, 0.3),
            generator.binomial(4000, 0.97),
            generator.beta(0.4, 0.7),
            generator.beta(2.0, 3.0),
        )

    compiled, ours, numpys = kernel(draws), np.random.default_rng(1), np.random.default_rng(1)
    assert [compiled(ours) for _ in range(500)] == [draws(numpys) for _ in range(500)]
