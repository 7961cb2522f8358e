"""Compile kernels, and keep their machine code on disk without its ever going stale.

numba files the code of a function under the contents of the *one* source file that holds it.
But the code of every function that it calls is compiled into it: were only one of those files to
change, as in an upgrade, the old code would go on running. Here the contents of all files of the
package count.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba as nb
from numba.core import caching

PACKAGE = Path(__file__).resolve().parents[1]

_config: Any = nb.config


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
            return nb.njit(cache=True, nogil=nogil, **options)(function)
    except RuntimeError:
        return nb.njit(nogil=nogil, **options)(function)


@functools.cache
def package_stamp(package: Path) -> str:
    """Return a checksum of all sources of a package."""
    checksum = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        content = path.read_bytes()
        checksum.update(f"{path.relative_to(package)} {len(content)}\n".encode())
        checksum.update(content)
    return checksum.hexdigest()


class _WholePackage:
    """The stamp of a kernel is that of the package; other people's functions keep theirs."""

    _py_file: str

    def get_source_stamp(self) -> Any:
        if Path(self._py_file).resolve().is_relative_to(PACKAGE):
            return package_stamp(PACKAGE)
        return super().get_source_stamp()  # type: ignore[misc]  # the other parent has it


class UserProvided(_WholePackage, caching.UserProvidedCacheLocator):
    """Code is kept below NUMBA_CACHE_DIR, if that is set."""


class InTree(_WholePackage, caching.InTreeCacheLocator):
    """Code is kept beside the source, if that can be written."""


class UserWide(_WholePackage, caching.UserWideCacheLocator):
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
