"""Kernels that only kernels call get no machine code, and nothing else notices."""

import subprocess
import sys

import numba as nb
import numpy as np
import pytest
from numba.core import config
from numba.core.codegen import JITCodeLibrary
from numba.core.registry import cpu_target

from fairtrial.core import linking
from fairtrial.core.compilation import apart, compiled, kernel


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))


def libraries_of(code):
    return [each.library for each in code.overloads.values()]


def chain():
    """Three kernels, each of which calls the one before."""

    @kernel
    def inner(x, y):
        return x // y

    @kernel
    def middle(x, y):
        return inner(x, y) + 1

    @kernel
    def outer(x, y):
        return middle(x, y) + inner(y, x)

    return inner, middle, outer


def test_only_what_python_calls_has_machine_code():
    inner, middle, outer = chain()
    with compiled():
        assert outer(7, 2) == 4
    (whole,) = libraries_of(outer.dispatcher)
    assert not whole.is_only_linked
    assert len(whole._get_compiled_object()) > 0
    for called in (inner, middle):
        (linked,) = libraries_of(called.callee)
        assert linked.is_only_linked
        assert linked._compiled_object is None


def test_errors_in_what_is_linked_reach_python():
    *_, outer = chain()
    with compiled():
        assert outer(1, 1) == 3
        with pytest.raises(ZeroDivisionError):
            outer(1, 0)
        assert outer(1, 1) == 3


def test_a_linked_kernel_that_python_calls_later_is_compiled_as_a_whole():
    inner, middle, outer = chain()
    with compiled():
        outer(7, 2)
        assert middle(7, 2) == 4
        assert inner(7, 2) == 3
    for called in (inner, middle):
        (whole,) = libraries_of(called.dispatcher)
        assert not whole.is_only_linked


def shared():
    """A kernel that is apart, and two kernels that call it: one directly, one through another."""

    @kernel
    def inner(x, y):
        return x // y

    @apart
    def plan(x, y):
        numbers = np.empty(3)
        numbers[:] = inner(x, y)
        return numbers.sum()

    @kernel
    def between(x, y):
        return plan(x, y) + 1

    @kernel
    def one(x, y):
        return between(x, y)

    @kernel
    def other(x, y):
        return plan(x, y) + plan(y, x)

    return plan, one, other


def test_callers_share_the_machine_code_of_a_kernel_that_is_apart():
    plan, one, other = shared()
    with compiled():
        assert (one(7, 2), other(7, 2)) == (10, 9)
    (code,) = libraries_of(plan.callee)
    assert code.is_apart
    assert len(code._get_compiled_object()) > 0
    for caller in (one, other):
        (whole,) = libraries_of(caller.dispatcher)
        assert whole.parts == {code.entry: code}
        assert whole._final_module.get_function(code.entry).is_declaration


def test_errors_of_a_kernel_that_is_apart_reach_python():
    *_, other = shared()
    with compiled():
        assert other(7, 2) == 9
        with pytest.raises(ZeroDivisionError):
            other(1, 0)
        assert other(7, 2) == 9


def test_python_can_call_a_kernel_that_is_apart():
    plan, one, _ = shared()
    with compiled():
        assert (plan(7, 2), one(7, 2)) == (9, 10)
    assert plan(7, 2) == 9


@pytest.mark.parametrize("first_called_by", ["python", "kernel"])
def test_functions_that_others_compile_can_be_called_by_kernels_and_by_python(first_called_by):
    @nb.njit
    def theirs(x):
        return sum([x, x])

    @kernel
    def ours(x):
        return theirs(x) + sum([x])

    if first_called_by == "python":
        assert theirs(1) == 2
    with compiled():
        assert ours(2) == 6
    assert theirs(3) == 6
    (whole,) = libraries_of(theirs)
    assert not whole.is_only_linked


def test_callbacks_and_array_functions_of_others_work_beside_kernels():
    *_, outer = chain()
    with compiled():
        outer(7, 2)
    callback = nb.cfunc("float64(float64)")(lambda x: 2 * x)
    assert callback.ctypes(3.0) == 6.0
    by_element = nb.vectorize(["int64(int64, int64)"])(lambda x, y: x // y)
    assert list(by_element([7, 9], [2, 3])) == [3, 3]


@pytest.mark.parametrize("first_called_by", ["python", "kernel"])
def test_a_kernel_can_call_a_function_that_calls_an_array_function(first_called_by):
    @nb.vectorize
    def halved(x):
        return x // 2

    @nb.njit
    def theirs(x):
        return halved(x)

    @kernel
    def inner(x):
        return theirs(x)[0] + halved(x)[1]

    @kernel
    def ours(x):
        return inner(x)

    given = np.array([7, 9])
    if first_called_by == "python":
        assert theirs(given).tolist() == [3, 4]
    with compiled():
        assert ours(given) == 7
    assert theirs(given).tolist() == [3, 4]
    assert halved(given).tolist() == [3, 4]


THEIRS = """
import numba

@numba.njit(cache=True)
def theirs(x):
    return 2 * x
"""

OURS = """
from fairtrial.core.compilation import kernel
from theirs import theirs

@kernel
def inner(x):
    return theirs(x) + 1

@kernel
def ours(x):
    return inner(x) + 1
"""


def test_code_that_others_keep_on_disk_can_be_called_after_a_kernel_loaded_it(tmp_path):
    (tmp_path / "theirs.py").write_text(THEIRS)
    (tmp_path / "ours.py").write_text(OURS)

    def run(*lines):
        session = "\n".join((f"import sys; sys.path.insert(0, {str(tmp_path)!r})", *lines))
        command = [sys.executable, "-c", session]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return done.stdout.split()

    assert run("from theirs import theirs", "print(theirs(1))") == ["2"]
    both = (
        "from fairtrial.core.compilation import use_tier",
        "use_tier('compile')",
        "from ours import ours",
        "from theirs import theirs",
        "print(ours(1), theirs(2), sum(theirs.stats.cache_hits.values()))",
    )
    assert run(*both) == ["4", "4", "1"]
    assert run(*both) == ["4", "4", "1"]


SHARED = """
from fairtrial.core.compilation import apart, kernel

@apart
def last(x):
    return 3 * x

@apart
def plan(x):
    return last(x) + 1

@kernel
def one(x):
    return plan(x) + 1

@kernel
def other(x):
    return plan(x) + last(x)
"""


def test_code_that_is_apart_comes_from_disk_with_each_of_its_callers(tmp_path):
    (tmp_path / "shared.py").write_text(SHARED)

    def run(name):
        lines = (
            f"import sys; sys.path.insert(0, {str(tmp_path)!r})",
            "from fairtrial.core.compilation import use_tier",
            "use_tier('compile')",
            "from shared import one, other",
            "from fairtrial.core.linking import _APART",
            name,
        )
        command = [sys.executable, "-c", "\n".join(lines)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return done.stdout.split()

    hits = "sum(one.dispatcher.stats.cache_hits.values())"
    assert run(f"print(one(1), {hits})") == ["5", "0"]
    assert run(f"print(one(1), {hits}, len(_APART))") == ["5", "1", "2"]
    assert run("print(other(1))") == ["7"]
    for own in tmp_path.rglob("*callee*"):
        own.unlink()
    assert run(f"print(one(1), other(1), {hits}, len(_APART))") == ["5", "7", "1", "2"]


def test_a_numba_with_other_libraries_is_left_alone(monkeypatch):
    # As of numba 0.68, a target's libraries are made by its `_library_class`.
    codegen = cpu_target.target_context.codegen()
    monkeypatch.setattr(codegen, "_library_class", JITCodeLibrary)
    monkeypatch.setattr(linking, "_REPLACED", ("something_that_is_gone",))
    environment = codegen.set_env
    linking._install()
    assert codegen._library_class is JITCodeLibrary
    assert codegen.set_env == environment


def test_numba_makes_libraries_of_our_class():
    assert cpu_target.target_context.codegen()._library_class is linking.Library
