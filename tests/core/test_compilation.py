"""Kernels are compiled once, and code from older sources never runs."""

import contextlib
import gc
import subprocess
import sys
from pathlib import Path

import numba as nb
import pytest
from numba.core import config
from numba.core.compiler import Flags

from fairtrial.core import machine_code
from fairtrial.core.collection import collecting_rarely
from fairtrial.core.compilation import compiled, kernel
from fairtrial.core.machine_code import PACKAGE, _imported_by, _reached_from, source_stamp

CALLEE = """
from fairtrial.core.compilation import kernel

@kernel
def inner(x):
    return x + {addend}
"""

CALLER = """
from fairtrial.core.compilation import kernel
from toy.callee import inner

@kernel
def outer(x):
    return 10 * inner(x)
"""

SESSION = """
import sys
from pathlib import Path
from fairtrial.core import machine_code

machine_code.PACKAGE = Path(sys.argv[1])
sys.path.insert(0, str(machine_code.PACKAGE.parent))
from toy.caller import outer

print(outer(1), sum(outer.dispatcher.stats.cache_hits.values()))
"""


def session(package: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Import the toy package in a new process; return its answer and its number of cache hits."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(package.parent / "cache"))
    monkeypatch.setenv("FAIRTRIAL_KERNELS", "compile")
    # Without Python's own bytecode files, which tell sources apart only by size and second.
    command = [sys.executable, "-B", "-c", SESSION, str(package)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    answer, hits = done.stdout.split()
    return int(answer), int(hits)


@pytest.fixture
def toy(tmp_path):
    """A package of two kernels, one calling the other, and a module that neither imports."""
    package = tmp_path / "toy"
    package.mkdir()
    (package / "caller.py").write_text(CALLER)
    (package / "callee.py").write_text(CALLEE.format(addend=1))
    (package / "stranger.py").write_text("x = 1")
    return package


def test_code_is_kept_until_a_source_changes_that_it_depends_on(toy, monkeypatch):
    assert session(toy, monkeypatch) == (20, 0)
    assert session(toy, monkeypatch) == (20, 1)

    (toy / "callee.py").write_text(CALLEE.format(addend=2))
    assert session(toy, monkeypatch) == (30, 0)

    (toy / "stranger.py").write_text("x = 2")
    assert session(toy, monkeypatch) == (30, 1)


def test_code_of_a_called_kernel_is_loaded_into_callers_that_are_new(toy, monkeypatch):
    of_inner = "from toy.callee import inner\nprint(outer(1), len(inner.callee.stats.cache_hits))"
    changed = SESSION[: SESSION.index("print(")] + of_inner
    monkeypatch.setattr(sys.modules[__name__], "SESSION", changed)
    assert session(toy, monkeypatch) == (20, 0)
    (toy / "caller.py").write_text(CALLER.replace("10", "30"))
    assert session(toy, monkeypatch) == (60, 1)


INLINED = """
from fairtrial.core.compilation import kernel

@kernel(inline="always")
def twice(function, x):
    return function(function(x))
"""

CALLER_OF_INLINED = """
from fairtrial.core.compilation import kernel
from toy.callee import inner
from toy.inlined import twice

@kernel
def outer(x):
    return twice(inner, x)
"""


def test_code_is_kept_of_a_kernel_that_hands_another_to_an_inlined_one(toy, monkeypatch):
    (toy / "inlined.py").write_text(INLINED)
    (toy / "caller.py").write_text(CALLER_OF_INLINED)
    assert session(toy, monkeypatch) == (3, 0)
    assert session(toy, monkeypatch) == (3, 1)

    (toy / "callee.py").write_text(CALLEE.format(addend=2))
    assert session(toy, monkeypatch) == (5, 0)


WITH_A_CLASS = """
from typing import NamedTuple
from fairtrial.core.compilation import kernel
from toy.callee import inner

class {name}(NamedTuple):
    x: int

@kernel
def take(pair):
    return 10 * inner(pair.x)

@kernel
def outer(x):
    return take({name}(x))
"""


def test_code_for_a_class_that_is_gone_is_compiled_again(toy, monkeypatch):
    for name in ("Before", "After"):
        (toy / "caller.py").write_text(WITH_A_CLASS.format(name=name))
        assert session(toy, monkeypatch) == (20, 0)
    assert session(toy, monkeypatch) == (20, 1)


@pytest.mark.parametrize(
    "line",
    [
        "from toy.deep.b import x",
        "from toy.deep.b import (\n    x,\n)",
        "import toy.deep.b as b",
        "from toy.deep import b",
        "from toy import deep",
        "import toy",
        "from .deep import b",
        "from . import deep",
        "def later():\n    from toy.deep.b import x",
        "from toy.between import x",
    ],
)
def test_the_stamp_counts_every_way_to_import_a_source(tmp_path, line):
    package = tmp_path / "toy"
    (package / "deep").mkdir(parents=True)
    (package / "a.py").write_text(f"import numpy\n{line}\n")
    (package / "between.py").write_text("from toy.deep.b import x")
    stamps = set()
    for content in ("x = 1", "x = 2"):
        (package / "deep" / "b.py").write_text(content)
        stamps.add(stamp_of(package))
    assert len(stamps) == 2


def stamp_of(package: Path) -> str:
    """Return the stamp of a package's first source, read again."""
    _imported_by.cache_clear()
    source_stamp.cache_clear()
    return source_stamp(package / "a.py", package)


def test_the_stamp_counts_names_contents_and_where_one_file_ends(tmp_path):
    contents = [
        {"a.py": "import toy", "b.py": "y"},
        {"a.py": "import toy\n", "b.py": "y"},
        {"a.py": "import toy\ny", "b.py": ""},
        {"a.py": "import toy", "c.py": "y"},
        {"a.py": "import toy", "deep/b.py": "y"},
        {"a.py": "import toy"},
    ]
    stamps = set()
    for number, files in enumerate(contents):
        package = tmp_path / str(number) / "toy"
        for name, text in files.items():
            path = package / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        stamps.add(stamp_of(package))
    assert len(stamps) == len(contents)


def test_the_stamp_does_not_depend_on_where_the_package_is(tmp_path):
    for name in ("here", "there"):
        package = tmp_path / name / "toy"
        package.mkdir(parents=True)
        (package / "a.py").write_text("x")
    assert stamp_of(tmp_path / "here" / "toy") == stamp_of(tmp_path / "there" / "toy")


def test_functions_of_others_are_filed_as_ever():
    before = config.CACHE_LOCATOR_CLASSES
    assert kernel(lambda x: x).dispatcher is not None
    assert before == config.CACHE_LOCATOR_CLASSES


def test_a_kernel_outside_the_package_counts_what_it_imports_from_it(tmp_path):
    package = tmp_path / "toy"
    package.mkdir()
    outside = tmp_path / "outside.py"
    outside.write_text("from toy.a import f")
    stamps = set()
    for text in ("x = 1", "x = 2"):
        (package / "a.py").write_text(text)
        machine_code._imported_by.cache_clear()
        machine_code.source_stamp.cache_clear()
        stamps.add(machine_code.source_stamp(outside, package))
    assert len(stamps) == 2


class Nowhere:
    """A location where nothing can be stored."""

    @classmethod
    def from_function(cls, py_func, py_file):
        """Return no location."""


def test_without_a_folder_to_write_it_compiles_all_the_same(monkeypatch):
    monkeypatch.setattr(machine_code, "Nowhere", Nowhere, raising=False)
    monkeypatch.setattr(machine_code, "_PLACES", "fairtrial.core.machine_code.Nowhere")

    @kernel
    def double(x):
        return 2 * x

    with compiled():
        assert double(4) == 8
    assert len(double.dispatcher.signatures) == 1


def test_a_call_with_a_constant_compiles_nothing_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))

    @kernel
    def times(x, factor):
        return x * factor

    @kernel
    def times_in_every_way(x, factor):
        return times(x, 2) + times(x, factor=3) + times(x, factor)

    with compiled():
        assert times_in_every_way(1, 4) == 9
    assert len(times.callee.signatures) == 1


@pytest.mark.parametrize("first_called_by", ["python", "kernel"])
def test_a_kernel_that_kernels_call_has_no_wrapper_but_python_can_call_it(
    tmp_path, monkeypatch, first_called_by
):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))

    @kernel
    def halved(x):
        return x / 2

    @kernel
    def quartered(x):
        return halved(x) / 2

    with compiled():
        if first_called_by == "python":
            assert halved(4.0) == 2.0
        assert quartered(4.0) == 1.0
        assert halved(4.0) == 2.0
    for code, has_wrapper in [(halved.callee, False), (halved.dispatcher, True)]:
        (assembly,) = code.inspect_asm().values()
        assert ("cpython" in assembly) == has_wrapper
        assert "cfunc" not in assembly


def test_options_are_those_of_numba():
    @kernel(nogil=False, error_model="numpy")
    def ratio(x, y):
        return x / y

    with compiled():
        assert ratio(1.0, 0.0) == float("inf")
    assert isinstance(ratio.dispatcher, nb.core.dispatcher.Dispatcher)
    assert ratio.dispatcher.targetoptions["nogil"] is False


def test_nothing_else_in_the_package_compiles():
    sources = [path for path in PACKAGE.rglob("*.py") if "import numba" in path.read_text()]
    assert sources == [Path(machine_code.__file__).resolve()]


def test_no_kernel_counts_what_is_not_for_kernels():
    """Otherwise an edit of a message would compile kernels again, for half a minute."""
    sources = [path for path in PACKAGE.rglob("*.py") if "@kernel" in path.read_text()]
    for path in sources:
        reached = {str(source.relative_to(PACKAGE)) for source in _reached_from(path, PACKAGE)}
        assert not reached & {"errors.py", "core/validation.py", "core/wording.py"}, path


def test_options_of_a_compilation_are_those_that_numba_looks_up_one_by_one():
    # As of numba 0.68, `TargetConfig` keeps what was set in `_values`, and defaults in `options`.
    flags, unchanged = Flags(), Flags()
    flags.release_gil = True
    flags.error_model = "numpy"
    flags.fastmath = {"nnan"}
    for each in (flags, unchanged):
        assert list(each.values().items()) == [
            (name, getattr(each, name)) for name in Flags.options
        ]
    copy = flags.copy()
    assert copy == flags
    assert hash(copy) == hash(flags)
    copy.release_gil = False
    assert (copy == flags) is False  # numba defines `!=` apart
    copy.discard("release_gil")
    assert copy.values()["release_gil"] == unchanged.release_gil


def test_python_seldom_looks_for_unused_objects_while_it_compiles(monkeypatch):
    seen = []

    @contextlib.contextmanager
    def noting(**_):
        seen.append(gc.get_threshold())
        yield

    monkeypatch.setattr(machine_code, "linking_what_kernels_call", noting)
    before = gc.get_threshold()
    with compiled():
        assert kernel(lambda x: x + 1)(1) == 2
    assert seen == [collecting_rarely.thresholds]
    assert gc.get_threshold() == before


def test_a_process_waits_only_for_those_that_keep_code_in_the_same_folder(monkeypatch, tmp_path):
    locks = []

    @contextlib.contextmanager
    def alone(name):
        locks.append(name)
        yield

    monkeypatch.setattr(machine_code, "alone", alone)
    for folder in (tmp_path / "a", tmp_path / "b", tmp_path / "a"):
        monkeypatch.setattr(config, "CACHE_DIR", str(folder))
        with compiled():
            machine_code.compile_for(one, ())
    assert locks[0] != locks[1]
    assert locks[0] == locks[2]


@kernel
def one():
    return 1
