"""What is installed into an environment of a place, and what must work in it."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.matrix.places import Place, Unavailable

REPOSITORY = Path(__file__).parents[2]

EXTRAS = (
    *("plots", "data", "polars", "excel", "postgres", "distributed", "sklearn"),
    *("server", "client", "inspect", "openfeature", "mcp"),
)
"""Every extra for users; `dev` holds what only developers need."""
TOOLS = ("pytest", "pytest-timeout", "hypothesis", "mypy")
LIBRARIES = ("numpy", "scipy", "numba", "pandas", "scikit-learn", "pydantic")

_VERSIONS = f"""
import json, platform
from importlib.metadata import version
names = {LIBRARIES}
print(json.dumps([platform.python_version(), *map(version, names)]))
"""

_MODULES = """
import importlib, pkgutil, sys, fairtrial
assert "site-packages" in fairtrial.__file__, fairtrial.__file__
for module in pkgutil.walk_packages(fairtrial.__path__, "fairtrial."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""

_PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
_CODE_OF_PAGE = "tests/test_docs.py::test_the_code_of_a_page_runs_and_prints_what_the_page_says"


@dataclass(frozen=True)
class Check:
    """One call of an environment's Python.

    Attributes
    ----------
    name : str
        What the table calls it.
    arguments : tuple of str
        After the name of the interpreter.
    compiled : bool
        Whether kernels are compiled, which takes minutes.
    """

    name: str
    arguments: tuple[str, ...]
    compiled: bool = False


CHECKS = (
    Check("import", ("-W", "error::DeprecationWarning:fairtrial", "-c", _MODULES)),
    Check("README", (*_PYTEST, f"{_CODE_OF_PAGE}[README.md]")),
    Check("interpreted logs", (*_PYTEST, "tests/golden")),
    Check("qualify", ("-m", "fairtrial", "qualify", "--operator", "matrix", "--reason", "matrix")),
    Check("types", ("-m", "mypy", "--strict", "--no-incremental", "user.py")),
    Check("compiled logs", (*_PYTEST, "tests/golden"), compiled=True),
    Check("contract", (*_PYTEST, "tests/testing"), compiled=True),
)


@dataclass
class Row:
    """What happened in one environment."""

    place: str
    libraries: str
    versions: list[str] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def cells(self) -> Iterator[str]:
        """Yield the cells of the table."""
        yield self.place
        yield self.libraries
        yield from self.versions or ["-"] * (1 + len(LIBRARIES))
        yield ", ".join(self.passed) + "".join(f"; **{name} failed**" for name in self.failed)
        yield f"{self.seconds:.0f}"


HEAD = ("place", "libraries", "Python", *LIBRARIES, "passed", "seconds")


def try_out(place: Place, wheel: Path, *, oldest: bool, short: bool, seconds: float) -> Row:
    """Install the wheel into a new environment of a place, and run the checks.

    Raises
    ------
    Unavailable
        If the registries cannot be reached from the place.
    """
    row = Row(place.name, "oldest" if oldest else "newest")
    begun = time.monotonic()
    folder = place.home / row.libraries
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    python = place.inside(folder / "env/bin/python")
    _install(place, folder, wheel, row, oldest=oldest, seconds=seconds)
    if not row.failed:
        copy_repository(folder, without=("src",))
        shutil.copy(Path(__file__).with_name("user.py"), folder)
        shown = place.run([python, "-c", _VERSIONS], folder, seconds).stdout
        row.versions = json.loads(shown.splitlines()[-1])
        for check in CHECKS:
            if not (short and check.compiled):
                _carry_out(check, place, python, folder, row, seconds)
    row.seconds = time.monotonic() - begun
    return row


def _install(
    place: Place, folder: Path, wheel: Path, row: Row, *, oldest: bool, seconds: float
) -> None:
    python = place.inside(folder / "env/bin/python")
    shutil.copy(wheel, folder)
    _step(place, [place.python, "-m", "venv", place.inside(folder / "env")], folder, seconds)
    pip = [python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
    _step(place, [*pip, *TOOLS, "uv"], folder, seconds)
    if oldest:
        shutil.copy(REPOSITORY / "pyproject.toml", folder)
        lowest = [python, "-m", "uv", "pip", "install", "--only-binary", ":all:"]
        lowest += ["--resolution", "lowest-direct", "-r", "pyproject.toml"]
        lowest += [word for extra in EXTRAS for word in ("--extra", extra)]
        done = _run_in_time(place, lowest, folder, seconds)
        if done.returncode:
            row.failed["install"] = done.stdout
            return
    given = f"{place.inside(folder / wheel.name)}[{','.join(EXTRAS)}]"
    done = _run_in_time(place, [*pip, given], folder, seconds)
    if done.returncode:
        row.failed["install"] = done.stdout


def _run_in_time(
    place: Place, command: list[str], folder: Path, seconds: float
) -> subprocess.CompletedProcess[str]:
    """Run what prepares an environment; a registry that does not answer is no fault of ours."""
    try:
        return place.run(command, folder, seconds)
    except subprocess.TimeoutExpired:
        name = " ".join(command[1:4])
        raise Unavailable(f"{name} was not done after {seconds:.0f} seconds") from None


def _step(place: Place, command: list[str], folder: Path, seconds: float) -> None:
    """Prepare an environment; what fails here does not concern the package."""
    done = _run_in_time(place, command, folder, seconds)
    if done.returncode:
        last = done.stdout.strip().splitlines()[-1:]
        raise Unavailable(f"{' '.join(command[1:4])} failed: {' '.join(last)}")


def _carry_out(
    check: Check, place: Place, python: str, folder: Path, row: Row, seconds: float
) -> None:
    begun = time.monotonic()
    tier = "compile" if check.compiled else "interpret"
    try:
        done = place.run([python, *check.arguments], folder, seconds, FAIRTRIAL_KERNELS=tier)
    except subprocess.TimeoutExpired:
        row.failed[check.name] = f"not done after {seconds:.0f} seconds"
    else:
        if done.returncode == 0:
            row.passed.append(check.name)
        else:
            row.failed[check.name] = done.stdout
    said = "failed" if check.name in row.failed else "passed"
    print(f"  {check.name} {said}, {time.monotonic() - begun:.0f} seconds", flush=True)


def build_wheel(folder: Path, python: str) -> Path:
    """Build the wheel of this repository into an empty folder."""
    if folder.exists():
        shutil.rmtree(folder)
    command = [python, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = folder.glob("*.whl")
    return wheel


def copy_repository(folder: Path, without: tuple[str, ...] = ()) -> None:
    """Copy the files of this repository that git does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True)
    for name in filter(None, done.stdout.split("\0")):
        source = REPOSITORY / name
        if source.is_file() and name.split("/")[0] not in without:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, folder / name)
