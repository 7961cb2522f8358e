"""Compile kernels, and keep their machine code on disk without its ever going stale.

numba files the code of a function under the contents of the *one* source file that holds it.
But the code of every function that it calls is compiled into it: were only one of those files to
change, as in an upgrade, the old code would go on running. Here the contents of all files that the
source imports from the package count too, and of those that these import.
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

    Where no folder can be written (a read-only container) it is compiled in every process.

    Parameters
    ----------
    function : callable, optional
        What to compile. Without it the decorator that does so is returned.
    nogil : bool
        Whether other threads run during a call.
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
"""Compiler of what is called for every result, and allocates nothing.

So it needs no reference counts: those of all the arrays of a state cost more than the work.
"""

unchecked = kernel(forceinline=True, _nrt=False, error_model="numpy")
"""The same, where a division by zero is no error: for what a plan calls thousands of times."""


def _for_all_values(compiled: Any) -> Any:
    """Let kernels that call this one with a constant share what is compiled for other values."""
    if _config.DISABLE_JIT:
        return compiled  # it is the plain function
    template_for = compiled.get_call_template

    def template_for_all(arguments: Any, keywords: Any) -> Any:
        keywords = {name: _unliteral(kind) for name, kind in keywords.items()}
        return template_for(tuple(map(_unliteral, arguments)), keywords)

    compiled.get_call_template = template_for_all
    return compiled


def _without_leftovers(compiled: Any) -> Any:
    """Let a kernel's index on disk count as empty where it names a class that is gone.

    That is what former sources leave behind: numba reads an index whole before it looks at the
    stamp.
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
    """Let a kernel be compiled, or loaded from disk, as `load` says: never in part."""
    if _config.DISABLE_JIT:
        return compiled  # it is the plain function
    compile_for = compiled._compile_for_args  # noqa: SLF001 - numba's own hook for a first call

    def compile_whole(*arguments: Any) -> Any:
        return load(lambda: compile_for(*arguments))

    compiled._compile_for_args = compile_whole  # noqa: SLF001
    return compiled


@functools.cache
def source_stamp(source: Path, package: Path) -> str:
    """Return a checksum of a source and of all it imports, also through others, of its package."""
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
    """Return the source of a module of the package, and all that may be meant by less than that."""
    root, *names = module.split(".")
    if root == package.name:
        place = package.joinpath(*names)
        file = place.with_suffix(".py")
        return [file] if file.is_file() else list(place.rglob("*.py"))
    is_relative = not root
    return list(package.rglob("*.py")) if is_relative else []


class _AllSources:
    """The stamp of a kernel counts what it imports from the package, wherever it stands."""

    _py_file: str

    def get_source_stamp(self) -> Any:
        return source_stamp(Path(self._py_file).resolve(), PACKAGE)


class UserProvided(_AllSources, caching.UserProvidedCacheLocator):
    """Code is kept below NUMBA_CACHE_DIR, if that is set."""


class InTree(_AllSources, caching.InTreeCacheLocator):
    """Code is kept beside the source, if that can be written."""


class UserWide(_AllSources, caching.UserWideCacheLocator):
    """Code is kept in the user's cache folder."""


_PLACES = ",".join(f"{__name__}.{place.__name__}" for place in (UserProvided, InTree, UserWide))


@contextlib.contextmanager
def _fresh_caches() -> Iterator[None]:
    """Let numba take our places for the functions decorated within."""
    before = _config.CACHE_LOCATOR_CLASSES
    _config.CACHE_LOCATOR_CLASSES = _PLACES
    try:
        yield
    finally:
        _config.CACHE_LOCATOR_CLASSES = before
