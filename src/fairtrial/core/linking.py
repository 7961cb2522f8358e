"""What numba keeps of a kernel that only other kernels call: code to link, not machine code.

numba optimises every function together with all that it calls, and makes machine code of it, even
if nobody ever calls it but a kernel that contains a copy of it and is optimised as a whole. For
kernels that call each other many levels deep, this took more than half of the time to compile.
Here such functions stay as they were translated, until the kernel that Python calls has them all.
The machine code of that kernel, and so every decision, is the same function of its arguments:
without `fastmath`, the compiler may not change what is computed.

A kernel that is `apart` is the opposite: it has machine code, once, which all kernels that call it
share. Only its name is linked. On disk, the code of every caller comes with a copy of it.
"""

# mypy: allow-untyped-calls, allow-subclassing-any
from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from llvmlite.binding import Linkage, parse_bitcode  # type: ignore[import-untyped]
from numba.core.codegen import JITCodeLibrary
from numba.core.registry import cpu_target
from numba.core.targetconfig import ConfigStack

__all__ = ["linking_what_kernels_call"]

_ONLY_LINKED = "only linked"
"""The kind of library in files on disk, beside numba's own kinds."""

_WITH_PARTS = "with parts"
"""The kind of any library that calls code that is apart."""

_LEVEL_BEFORE_LINKING = 1
"""How far a function is optimised before it is linked: with 0 what is linked becomes too large."""

_REPLACED = (
    "_optimize_functions",
    "_optimize_final_module",
    "_finalize_final_module",
    "_finalize_dynamic_globals",
    "_verify_declare_only_symbols",
    "_get_module_for_linking",
    "_unserialize",
    "add_linking_library",
)
"""What `Library` replaces or uses of numba's class, without a promise that it stays."""


class _Thread(threading.local):
    compiles_kernel = False
    apart = ""
    """The name of the kernel that is compiled now, if it is apart."""


_THREAD = _Thread()


@contextlib.contextmanager
def linking_what_kernels_call(wanted: bool = True, apart: str = "") -> Iterator[None]:
    """Within this context, make no machine code of functions that Python does not call.

    Parameters
    ----------
    wanted : bool
        Whether to do so; otherwise do what numba does by itself.
    apart : str
        The name of a function that gets machine code nevertheless, which its callers share.
    """
    before = _THREAD.compiles_kernel, _THREAD.apart
    _THREAD.compiles_kernel, _THREAD.apart = wanted, apart
    try:
        yield
    finally:
        _THREAD.compiles_kernel, _THREAD.apart = before


def _is_for_kernels() -> bool:
    """Return whether the function that this thread compiles for a kernel is not for Python."""
    flags: Any = ConfigStack.top_or_none()
    return _THREAD.compiles_kernel and flags is not None and bool(flags.no_cpython_wrapper)


class Library(JITCodeLibrary):
    """The compiled code of a function, or what others link of it.

    The methods replace those of numba's class.
    """

    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(codegen, name)
        is_for_kernels = _is_for_kernels()
        self.is_apart = is_for_kernels and name == _THREAD.apart
        self.is_only_linked = is_for_kernels and not self.is_apart
        self.entry = ""
        """The name of the function that other libraries call, if this one is apart."""
        self.parts: dict[str, Library] = {}
        """The libraries that are apart and that this one calls, by their entries."""
        self.kept: tuple[str, str, Any] | None = None
        """What is kept on disk of this library, if it is apart: it goes to several files."""

    def get_pointer_to_function(self, name: str) -> int:
        """Return the address of a function; 0 if there is none."""
        if not self.is_only_linked:
            return int(super().get_pointer_to_function(name))
        self._ensure_finalized()
        return 0

    def add_linking_library(self, library: Any) -> None:
        """Link a library; if it is apart, only its name."""
        if getattr(library, "is_apart", False):
            library._ensure_finalized()  # noqa: SLF001 - as numba's own method does
            self.parts[library.entry] = library
            return
        super().add_linking_library(library)
        self.parts.update(getattr(library, "parts", {}))

    def _optimize_functions(self, module: Any) -> None:
        """Make functions smaller before they are linked; the whole is optimised later."""
        if not self.is_only_linked:
            super()._optimize_functions(module)
            return
        codegen: Any = self._codegen
        module.data_layout = codegen._data_layout  # noqa: SLF001 - as numba's own method does
        make_passes = codegen._function_pass_manager  # noqa: SLF001 - numba has no public way to it
        passes, builder = make_passes(opt=_LEVEL_BEFORE_LINKING)
        for function in module.functions:
            if not function.is_declaration:
                passes.run(function, builder)

    def _optimize_final_module(self) -> None:
        if not self.is_only_linked:
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        if not self.is_only_linked:
            if self.is_apart:
                self.entry = _only_exported(self._final_module.functions)
                _APART[self.entry] = self
            super()._finalize_final_module()
            return
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def serialize_using_object_code(self) -> tuple[str, str, Any]:
        """Return what is kept on disk."""
        if self.kept is not None:
            return self.kept
        if self.is_only_linked:
            kept = self.name, _ONLY_LINKED, self._get_module_for_linking().as_bitcode()
        else:
            kept = super().serialize_using_object_code()
        if self.parts or self.is_apart:
            parts = [each.serialize_using_object_code() for each in self.parts.values()]
            kept = self.name, _WITH_PARTS, (self.entry, kept, parts)
        if self.is_apart:
            self.kept = kept
        return kept

    @classmethod
    def _unserialize(cls, codegen: Any, kept: tuple[str, str, Any]) -> Any:
        name, kind, data = kept
        if kind == _WITH_PARTS:
            return cls._with_parts(codegen, kept)
        with linking_what_kernels_call(False):
            if kind != _ONLY_LINKED:
                return super()._unserialize(codegen, kept)
            library = cls(codegen, name)
        library.is_only_linked = True
        library._final_module = library._shared_module = parse_bitcode(data)
        library._finalize_final_module()
        return library

    @classmethod
    def _with_parts(cls, codegen: Any, kept: tuple[str, str, Any]) -> Any:
        """Return a library after those that it calls; of code that is apart, always the same."""
        entry, own, others = kept[2]
        if entry in _APART:
            return _APART[entry]
        parts = [cls._unserialize(codegen, each) for each in others]
        library = cls._unserialize(codegen, own)
        library.parts = {each.entry: each for each in parts}
        if entry:
            library.entry, library.is_apart, library.kept = entry, True, kept
            _APART[entry] = library
        return library


_APART: dict[str, Library] = {}
"""What this process has of code that is apart, by its entry."""


def _only_exported(functions: Iterable[Any]) -> str:
    """Return the name of the function that others can call: all others were linked."""
    defined = [each for each in functions if not each.is_declaration]
    (name,) = [each.name for each in defined if each.linkage == Linkage.external]
    return str(name)


def _is_as_known() -> bool:
    return all(hasattr(JITCodeLibrary, name) for name in _REPLACED)


def _install() -> None:
    """Let numba make libraries of our class, unless it has others than the one that we know."""
    codegen: Any = cpu_target.target_context.codegen()
    if codegen._library_class is not JITCodeLibrary or not _is_as_known():  # noqa: SLF001
        return
    codegen._library_class = Library  # noqa: SLF001
    set_environment = codegen.set_env

    def set_environment_of_code(name: str, environment: Any) -> None:
        # What is only linked has no variable yet that could hold its environment.
        if codegen._engine.is_symbol_defined(name):  # noqa: SLF001
            set_environment(name, environment)

    codegen.set_env = set_environment_of_code


_install()
