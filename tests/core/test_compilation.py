"""Kernels are compiled once, and never run code of former sources."""

import subprocess
import sys
from pathlib import Path

import numba as nb
import pytest
from numba.core import config

from fairtrial.core import compilation
from fairtrial.core.compilation import kernel, package_stamp

CALLEE = """
from fairtrial.core.compilation import kernel

@kernel
def inner(x):
    return x + {addend}
"""

CALLER = """
from fairtrial.core.compilation import kernel
from callee import inner

@kernel
def outer(x):
    return 10 * inner(x)
"""

SESSION = """
import sys
from pathlib import Path
from fairtrial.core import compilation

compilation.PACKAGE = Path(sys.argv[1])
sys.path.insert(0, sys.argv[1])
from caller import outer

print(outer(1), sum(outer.stats.cache_hits.values()))
"""


def session(package: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Import the toy package in a new process; return its answer and how often its cache served."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(package.parent / "cache"))
    command = [sys.executable, "-c", SESSION, str(package)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    answer, hits = done.stdout.split()
    return int(answer), int(hits)


def test_code_is_kept_until_any_source_of_the_package_changes(tmp_path, monkeypatch):
    package = tmp_path / "toy"
    package.mkdir()
    (package / "caller.py").write_text(CALLER)
    (package / "callee.py").write_text(CALLEE.format(addend=1))
    assert session(package, monkeypatch) == (20, 0)
    assert session(package, monkeypatch) == (20, 1)

    (package / "callee.py").write_text(CALLEE.format(addend=2))
    assert session(package, monkeypatch) == (30, 0)
    assert session(package, monkeypatch) == (30, 1)


def test_the_stamp_counts_names_contents_and_where_one_file_ends(tmp_path):
    contents = [
        {"a.py": "x", "b.py": "y"},
        {"a.py": "y", "b.py": "x"},
        {"a.py": "xy", "b.py": ""},
        {"a.py": "x", "c.py": "y"},
        {"a.py": "x", "deep/b.py": "y"},
        {"a.py": "x"},
    ]
    stamps = set()
    for number, files in enumerate(contents):
        package = tmp_path / str(number)
        for name, text in files.items():
            path = package / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        stamps.add(package_stamp(package))
    assert len(stamps) == len(contents)


def test_the_stamp_does_not_depend_on_where_the_package_is(tmp_path):
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text("x")
    assert package_stamp(tmp_path / "here") == package_stamp(tmp_path / "there")


def test_functions_of_others_are_filed_as_ever():
    before = config.CACHE_LOCATOR_CLASSES
    kernel(lambda x: x)
    assert before == config.CACHE_LOCATOR_CLASSES
    locator = compilation.InTree(test_functions_of_others_are_filed_as_ever, __file__)
    assert locator.get_source_stamp() != package_stamp(compilation.PACKAGE)


class Nowhere:
    """A place where nothing can be kept."""

    @classmethod
    def from_function(cls, py_func, py_file):
        """Return no place."""


def test_without_a_folder_to_write_it_compiles_all_the_same(monkeypatch):
    monkeypatch.setattr(compilation, "Nowhere", Nowhere, raising=False)
    monkeypatch.setattr(compilation, "_PLACES", "fairtrial.core.compilation.Nowhere")

    @kernel
    def double(x):
        return 2 * x

    assert double(4) == 8


def test_options_are_those_of_numba():
    @kernel(nogil=False, error_model="numpy")
    def ratio(x, y):
        return x / y

    assert ratio(1.0, 0.0) == float("inf")
    assert isinstance(ratio, nb.core.dispatcher.Dispatcher)
    assert ratio.targetoptions["nogil"] is False


def test_nothing_else_in_the_package_compiles():
    sources = [path for path in compilation.PACKAGE.rglob("*.py") if "njit" in path.read_text()]
    assert sources == [Path(compilation.__file__).resolve()]
