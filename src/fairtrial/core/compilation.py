"""Compile kernels, and keep their machine code on disk without letting it go stale.

numba caches the code of a function under the contents of the *one* source file that holds it.
But the code of every function that it calls is compiled into it: if only one of those other files
changed, in an upgrade for example, the old code would continue to run. Here the cache key also
covers all files of the package that the source imports, directly or through other files.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba as nb
from numba.core import caching

from fairtrial.core.loading import load

PACKAGE = Path(__file__).resolve().parents[1]

_IMPORT = re.compile(r"^\s*(?:from|import)\s+([\w.]+)", re.MULTILINE)

_config: Any = nb.config
_unliteral: Any = nb.types.unliteral


def kernel(function: Any = None, /, *, nogil: bool = True, **options: Any) -> Any:
    """Compile a function by numba when it is first called, and keep the result on disk.

    If no folder can be written (a read-only container), every process compiles it.

    Parameters
    ----------
    function : callable, optional
        The function to compile. Without it, return a decorator.
    nogil : bool
        Whether other threads can run during a call.
    **options
        Further options of `numba.njit`.

    Examples
    --------
    >>> @kernel
    ... def double(x):
    ...     return 2 * x
    >>> double(21)
    42
    """
    if function is None:
        return functools.partial(kernel, nogil=nogil, **options)
    try:
        with _fresh_caches():
            compiled = _without_leftovers(nb.njit(cache=True, nogil=nogil, **options)(function))
    except RuntimeError:
        compiled = nb.njit(nogil=nogil, **options)(function)
    return _loaded_whole(_for_all_values(compiled))


inlined = kernel(forceinline=True, _nrt=False)
"""Decorator for kernels that are called for every result and allocate nothing.

They need no reference counts; counting those of all arrays of a state costs more than the work.
"""

unchecked = kernel(forceinline=True, _nrt=False, error_model="numpy")
"""The same, but a division by zero is no error: for kernels that plans call thousands of times."""


def _for_all_values(compiled: Any) -> Any:
    """Make calls with a constant share the code that is compiled for other values."""
    if _config.DISABLE_JIT:
        return compiled  # it is the plain function
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
    if _config.DISABLE_JIT:
        return compiled  # it is the plain function
    index = compiled._cache._cache_file  # noqa: SLF001 - numba has no public way to it
    read = index._load_index  # noqa: SLF001

    def read_what_is_left() -> Any:
        try:
            return read()
        except (ImportError, AttributeError):
            return {}

    index._load_index = read_what_is_left  # noqa: SLF001
    return compiled


def _loaded_whole(compiled: Any) -> Any:
    """Make a kernel compile, or load from disk, through `load`: completely or not at all."""
    if _config.DISABLE_JIT:
        return compiled  # it is the plain function
    compile_for = compiled._compile_for_args  # noqa: SLF001 - numba's own hook for a first call

    def compile_whole(*arguments: Any) -> Any:
        return load(lambda: compile_for(*arguments))

    compiled._compile_for_args = compile_whole  # noqa: SLF001
    return compiled


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

    def get_source_stamp(self) -> Any:
        return source_stamp(Path(self._py_file).resolve(), PACKAGE)


class UserProvided(_AllSources, caching.UserProvidedCacheLocator):
    """Keep code below NUMBA_CACHE_DIR, if that is set."""


class InTree(_AllSources, caching.InTreeCacheLocator):
    """Keep code beside the source, if that folder can be written."""


class UserWide(_AllSources, caching.UserWideCacheLocator):
    """Keep code in the user's cache folder."""


_PLACES = ",".join(f"{__name__}.{place.__name__}" for place in (UserProvided, InTree, UserWide))


@contextlib.contextmanager
def _fresh_caches() -> Iterator[None]:
    """Let numba use our cache locations for the functions decorated inside this context."""
    before = _config.CACHE_LOCATOR_CLASSES
    _config.CACHE_LOCATOR_CLASSES = _PLACES
    try:
        yield
    finally:
        _config.CACHE_LOCATOR_CLASSES = before
