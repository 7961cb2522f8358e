"""Machine code of kernels: compiled by numba, kept on disk, and never stale.

numba caches the code of a function under the contents of the *one* source file that holds it.
But the code of every function that it calls is compiled into it: if only one of those other files
changed, in an upgrade for example, the old code would continue to run. Here the cache key also
covers all files of the package that the source imports, directly or through other files.

numba gives every function wrappers by which Python and C can call it. For arguments that hold
dozens of arrays, these took nearly half of the time to compile. So only kernels that Python calls
have such a wrapper (`dispatcher`); for other kernels a kernel is compiled without (`callee`). What
is only called by kernels gets no machine code of its own, either, unless it is `apart` (`linking`).

Most of that time is that of numba's own Python code: `numba_shortcuts` leaves out what it repeats.
Searching for garbage in what the compiler allocates took a seventh, and found next to nothing.

Only this module, `linking`, `numba_shortcuts` and `references` import numba, and only a kernel's
`dispatcher` and `callee` import this module.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba as nb
from numba.core import caching
from numba.extending import typeof_impl

from fairtrial.core.background import start_compiling
from fairtrial.core.collection import collecting_rarely
from fairtrial.core.compilation import Apart, Kernel, NotAtHand, may_compile, noting_compilation
from fairtrial.core.exclusion import alone
from fairtrial.core.linking import linking_what_kernels_call
from fairtrial.core.loading import load
from fairtrial.core.numba_shortcuts import compiling_kernels
from fairtrial.core.numba_shortcuts import install as install_shortcuts
from fairtrial.core.references import refuse_to_return

PACKAGE = Path(__file__).resolve().parents[1]

_IMPORT = re.compile(r"^\s*(?:from|import)\s+([\w.]+)", re.MULTILINE)

_config: Any = nb.config
_unliteral: Any = nb.types.unliteral

install_shortcuts()


class _Thread(threading.local):
    compiles = True
    """Whether code that is not on disk is compiled now."""
    suffix = ""
    """What is added to the names of files, so that code with and without wrappers is kept apart."""


_THREAD = _Thread()


@typeof_impl.register(Kernel)
def _type_of(kernel: Kernel, _context: Any) -> Any:
    """Return the type of a kernel that another one calls."""
    return nb.types.Dispatcher(kernel.callee)


def dispatcher(kernel: Kernel) -> Any:
    """Return what compiles a kernel when Python first calls it, and keeps the result on disk."""
    return _dispatcher(kernel, "", no_cfunc_wrapper=True)


def callee(kernel: Kernel) -> Any:
    """Return what compiles a kernel when another one calls it, and keeps the result on disk.

    Calling it from Python would crash.
    """
    return _dispatcher(kernel, "callee", no_cfunc_wrapper=True, no_cpython_wrapper=True)


def _dispatcher(kernel: Kernel, suffix: str, **wrappers: bool) -> Any:
    """Return what compiles a kernel when it is first called, and keeps the result on disk.

    If no folder can be written (a read-only container), every process compiles it.
    """
    options = {**kernel.targetoptions, **wrappers}
    try:
        with _fresh_caches(suffix):
            compiled = _without_leftovers(nb.njit(cache=True, **options)(kernel.py_func))
    except RuntimeError:
        compiled = nb.njit(**options)(kernel.py_func)
    return _compiling_when_allowed(_for_all_values(compiled), kernel)


def _for_all_values(compiled: Any) -> Any:
    """Make calls with a constant share the code that is compiled for other values."""
    template_for = compiled.get_call_template

    def template_for_all(arguments: Any, keywords: Any) -> Any:
        keywords = {name: _unliteral(kind) for name, kind in keywords.items()}
        return template_for(tuple(map(_unliteral, arguments)), keywords)

    compiled.get_call_template = template_for_all
    return compiled


def _without_leftovers(compiled: Any) -> Any:
    """Treat a kernel's index on disk as empty if it names a class that no longer exists.

    Earlier versions of the sources leave such indexes behind, and numba reads the whole index
    before it looks at the stamp.
    """
    index = compiled._cache._cache_file  # noqa: SLF001 - numba has no public way to it
    read = index._load_index  # noqa: SLF001

    def read_what_is_left() -> Any:
        try:
            return read()
        except (ImportError, AttributeError):
            return {}

    index._load_index = read_what_is_left  # noqa: SLF001
    return compiled


def _compiling_when_allowed(compiled: Any, kernel: Kernel) -> Any:
    """Make first calls with new types load code from disk, and compile it only if that is allowed.

    Loading goes through `load`: completely or not at all.
    """
    # numba's own hooks for a first call, and for code that is not on disk.
    find, compile_types = compiled._compile_for_args, compiled._compiler.compile  # noqa: SLF001

    def find_whole(*arguments: Any) -> Any:
        if may_compile():
            return load(lambda: _find_alone(kernel, lambda: find(*arguments)))
        types = tuple(map(compiled.typeof_pyval, arguments))
        if types in kernel.missing:
            start_compiling()
            raise NotAtHand
        found = load(lambda: find_on_disk(arguments, types))
        if found is None:
            raise NotAtHand
        return found

    def find_on_disk(arguments: tuple[Any, ...], types: tuple[Any, ...]) -> Any:
        _THREAD.compiles = False
        try:
            return find(*arguments)
        except NotAtHand:
            kernel.missing.add(types)
            return None
        finally:
            _THREAD.compiles = True

    def compile_if_allowed(*arguments: Any) -> Any:
        if not _THREAD.compiles:
            raise NotAtHand
        _announce()
        apart = kernel.py_func.__qualname__ if isinstance(kernel, Apart) else ""
        with noting_compilation(), collecting_rarely, linking_what_kernels_call(apart=apart):
            code = compile_types(*arguments)
        refuse_to_return(code.signature.return_type)
        return code

    compiled._compile_for_args = find_whole  # noqa: SLF001
    compiled._compiler.compile = compile_if_allowed  # noqa: SLF001
    return compiled


@functools.cache
def _announce() -> None:
    """Tell somebody at a terminal, once per process, why it takes so long."""
    if sys.stderr is not None and sys.stderr.isatty():
        sys.stderr.write("Compiling (only once on this machine; it takes up to a minute) ...\n")


def _find_alone(kernel: Kernel, find: Callable[[], Any]) -> Any:
    """Load or compile a kernel while no other process compiles it for the same folder."""
    name = f"{kernel.__module__}.{kernel.__qualname__} {_config.CACHE_DIR}"
    with alone(name), compiling_kernels():
        return find()


def compile_for(kernel: Kernel, types: tuple[Any, ...]) -> None:
    """Compile a kernel for these types of arguments, if its code is not on disk."""
    load(lambda: _find_alone(kernel, lambda: kernel.dispatcher.compile(types)))


@functools.cache
def source_stamp(source: Path, package: Path) -> str:
    """Return a checksum of a source and of all it imports from its package, directly or not."""
    checksum = hashlib.sha256()
    for path in sorted(_reached_from(source, package)):
        content = path.read_bytes()
        checksum.update(f"{os.path.relpath(path, package)} {len(content)}\n".encode())
        checksum.update(content)
    return checksum.hexdigest()


def _reached_from(source: Path, package: Path) -> set[Path]:
    reached: set[Path] = set()
    waiting = [source]
    while waiting:
        path = waiting.pop()
        if path not in reached:
            reached.add(path)
            waiting.extend(_imported_by(path, package))
    return reached


@functools.cache
def _imported_by(source: Path, package: Path) -> list[Path]:
    modules = set(_IMPORT.findall(source.read_text(encoding="utf-8")))
    return [path for module in modules for path in _sources_of(module, package)]


def _sources_of(module: str, package: Path) -> list[Path]:
    """Return the source of a module of the package, or all sources that the import may mean."""
    root, *names = module.split(".")
    if root == package.name:
        place = package.joinpath(*names)
        file = place.with_suffix(".py")
        return [file] if file.is_file() else list(place.rglob("*.py"))
    is_relative = not root
    return list(package.rglob("*.py")) if is_relative else []


class _AllSources:
    """Make the stamp of a kernel cover everything that it imports from the package."""

    _py_file: str
    _lineno: int

    def get_source_stamp(self) -> Any:
        return source_stamp(Path(self._py_file).resolve(), PACKAGE)

    def get_disambiguator(self) -> str:
        return f"{self._lineno}{_THREAD.suffix}"


class UserProvided(_AllSources, caching.UserProvidedCacheLocator):
    """Keep code below NUMBA_CACHE_DIR, if that is set."""


class InTree(_AllSources, caching.InTreeCacheLocator):
    """Keep code beside the source, if that folder can be written."""


class UserWide(_AllSources, caching.UserWideCacheLocator):
    """Keep code in the user's cache folder."""


_PLACES = ",".join(f"{__name__}.{place.__name__}" for place in (UserProvided, InTree, UserWide))


@contextlib.contextmanager
def _fresh_caches(suffix: str) -> Iterator[None]:
    """Let numba use our cache locations for the functions decorated inside this context."""
    before = _config.CACHE_LOCATOR_CLASSES
    _config.CACHE_LOCATOR_CLASSES, _THREAD.suffix = _PLACES, suffix
    try:
        yield
    finally:
        _config.CACHE_LOCATOR_CLASSES, _THREAD.suffix = before, ""
