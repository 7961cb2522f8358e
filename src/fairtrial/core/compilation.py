"""Kernels in two tiers: their Python source runs at once, and machine code where it pays.

A kernel is a function that numba can compile. Called from Python, its source runs in the
interpreter as long as there is no machine code: a live decision never waits for a compiler. Both
tiers take the same arguments, change the same buffers and make the same decisions, bit for bit.

=============  ==================================================================================
tier           what runs
=============  ==================================================================================
``auto``       simulations and plans: machine code, compiled when it is missing; everything else:
               the source, until that has cost this process some time and machine code is on disk
``interpret``  always the source; numba is not imported
``compile``    always machine code
=============  ==================================================================================

The environment variable ``FAIRTRIAL_KERNELS`` names the tier of a process; the default is ``auto``.
"""

from __future__ import annotations

import functools
import importlib
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Literal

import numpy as np

from fairtrial.core.interpretation import plain
from fairtrial.core.loading import uninterrupted

__all__ = [
    "Apart",
    "Interpreted",
    "Kernel",
    "Tier",
    "apart",
    "compiled",
    "counted",
    "inlined",
    "interpreted",
    "kernel",
    "shared",
    "tier",
    "unchecked",
    "uncounted",
    "use_tier",
]

Tier = Literal["auto", "interpret", "compile"]

TIERS: tuple[Tier, ...] = ("auto", "interpret", "compile")

LOADING_SECONDS = 1.0
"""Seconds in the interpreter after which code on disk is used: importing numba takes as long."""

LOOKING_SECONDS = 0.2
"""Seconds after which a kernel looks again for machine code that was missing."""


class _Thread(threading.local):
    compiles = 0
    """How many `compiled` contexts the thread is in."""


class _Process:
    """The tier of this process, and what it knows about machine code."""

    def __init__(self) -> None:
        self.tier = _tier_of_environment()
        self.interpreted = 0.0
        """Seconds spent in the interpreter."""
        self.kernels: weakref.WeakSet[Kernel] = weakref.WeakSet()
        self.compiling = 0
        """How many kernels are being compiled."""
        self.lock = threading.Lock()


def _tier_of_environment() -> Tier:
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return "interpret"
    return _checked(os.environ.get("FAIRTRIAL_KERNELS") or "auto", "FAIRTRIAL_KERNELS")


def _checked(given: object, name: str) -> Tier:
    for each in TIERS:
        if given == each:
            return each
    raise ValueError(f"{name} must be one of {', '.join(map(repr, TIERS))}, not {given!r}")


_THREAD = _Thread()
_PROCESS: _Process


class _made_once(functools.cached_property[Any]):  # noqa: N801 - read as a decorator
    """A cached property that one thread makes, while others wait.

    Since Python 3.12 `cached_property` has no lock: another thread could get a copy of a kernel
    whose globals are not filled yet.
    """

    def __init__(self, make: Callable[[Any], Any]) -> None:
        super().__init__(make)
        self._lock = threading.RLock()

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        with self._lock:
            return super().__get__(instance, owner)


class NotAtHand(BaseException):
    """There is no machine code for these arguments; no `Exception`, so no policy catches it."""


class Kernel:
    """A function that runs in the interpreter, or as machine code.

    Parameters
    ----------
    function : callable
        Its source.
    options : dict
        Options of `numba.njit`.

    Attributes
    ----------
    py_func, targetoptions
        Both parameters, by the names under which numba looks for them.
    missing : set
        Types of arguments for which there was no machine code on disk.
    """

    __qualname__: str

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self.targetoptions = options
        self.missing: set[Any] = set()
        self._machine: Any = None
        self._looks_at = 0.0
        _PROCESS.kernels.add(self)

    def __call__(self, *arguments: Any) -> Any:
        """Run in the tier that fits now."""
        machine = self._machine
        if machine is None and _wants_machine_code(self._looks_at):
            machine = self._machine = self.dispatcher
        if machine is not None:
            try:
                return machine(*arguments)
            except NotAtHand:
                self._look_later()
        return self._interpret(arguments)

    def _look_later(self) -> None:
        """Do not look for machine code at every call: that may cost more than the call."""
        if not self.dispatcher.signatures:
            self._machine = None
            self._looks_at = perf_counter() + LOOKING_SECONDS

    def _interpret(self, arguments: tuple[Any, ...]) -> Any:
        start = perf_counter()
        try:
            # Ctrl-C does not stop machine code half-way, which computes infinities without warning.
            with uninterrupted(), np.errstate(all="ignore"):
                return self.plain(*arguments)
        finally:
            _PROCESS.interpreted += perf_counter() - start

    @_made_once
    def plain(self) -> Callable[..., Any]:
        """Make the copy for the interpreter; it calls those of other kernels directly."""
        return plain(self.py_func)

    @_made_once
    def dispatcher(self) -> Any:
        """Make what compiles the function, loads it from disk and calls it; this imports numba."""
        from fairtrial.core.machine_code import dispatcher  # noqa: PLC0415 - it imports numba

        return dispatcher(self)

    @_made_once
    def callee(self) -> Any:
        """Make what compiles the function for other kernels; Python cannot call it."""
        from fairtrial.core.machine_code import callee  # noqa: PLC0415 - it imports numba

        return callee(self)

    def forget_machine_code(self) -> None:
        """Decide again at the next call which tier fits."""
        self._machine = None
        self._looks_at = 0.0
        self.missing.clear()

    def __repr__(self) -> str:
        return f"<kernel {self.__module__}.{self.__qualname__}>"

    def __reduce__(self) -> tuple[Callable[..., Kernel], tuple[str, str]]:
        return find_kernel, (self.__module__, self.__qualname__)


def find_kernel(module: str, name: str) -> Kernel:
    """Return the kernel of that name, from its module."""
    found = getattr(importlib.import_module(module), name)
    if not isinstance(found, Kernel):
        raise LookupError(f"{module}.{name} is no kernel")  # noqa: TRY004 - as if it were missing
    return found


_PROCESS = _Process()


# -------------------------------------------------------------------------- decorators


def kernel(function: Any = None, /, *, nogil: bool = True, **options: Any) -> Any:
    """Make a function a kernel.

    Parameters
    ----------
    function : callable, optional
        The function. Without it, return a decorator.
    nogil : bool
        Whether other threads can run during a call of its machine code.
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
    return Kernel(function, {"nogil": nogil, **options})


def interpreted(function: Callable[..., Any]) -> Kernel:
    """Make a function a kernel that Python calls once per study: compiling it would never pay."""
    return Interpreted(function, {})


class Interpreted(Kernel):
    """A kernel that always runs in the interpreter."""

    def __call__(self, *arguments: Any) -> Any:
        """Run in the interpreter."""
        return self._interpret(arguments)


def apart(function: Callable[..., Any]) -> Kernel:
    """Make a function a kernel whose machine code exists once; all that call it share that.

    For what is long and called by several kernels that Python calls: the compiler would otherwise
    copy it into each of them, and optimise every copy. It must be no closure.
    """
    return Apart(function, {"nogil": True, "_nrt": True})


class Apart(Kernel):
    """A kernel that others call by its name."""


def shared(function: Callable[..., Any]) -> Kernel:
    """Make a function a kernel that is `apart`, and `uncounted`."""
    return Apart(function, {"nogil": True, "_nrt": False})


uncounted = kernel(_nrt=False)
"""Decorator for kernels that allocate nothing.

They need no reference counts; counting those of all arrays of a state costs more than the work.
What they call must not return arrays, because nobody would free these, and must not allocate
either, unless it is `counted`. The compiler decides where to inline them: what is long and called
in many places compiles sooner.
"""

counted = kernel(_nrt=True)
"""Decorator for kernels that allocate, and that kernels call which do not count references."""

inlined = uncounted(forceinline=True)
"""The same, but always inlined: for short kernels that are called for every result."""

unchecked = inlined(error_model="numpy")
"""The same, but a division by zero is no error: for kernels that plans call thousands of times."""


# ------------------------------------------------------------------------------- tiers


def tier() -> Tier:
    """Return the tier of this process."""
    return _PROCESS.tier


def use_tier(name: Tier) -> None:
    """Set the tier of this process.

    Parameters
    ----------
    name : {"auto", "interpret", "compile"}
        The tier.

    Raises
    ------
    ValueError
        If it is another name.
    """
    _PROCESS.tier = _checked(name, "name")
    for each in _PROCESS.kernels:
        each.forget_machine_code()


@contextmanager
def compiled() -> Iterator[None]:
    """Within this context this thread compiles the kernels that it calls, if code is missing.

    For simulations and plans, which take long enough to be worth it. It does nothing in the tier
    "interpret".
    """
    _THREAD.compiles += 1
    try:
        yield
    finally:
        _THREAD.compiles -= 1


def may_compile() -> bool:
    """Return whether a kernel that this thread calls is compiled now, if its code is missing."""
    return _PROCESS.tier == "compile" or (_PROCESS.tier == "auto" and _THREAD.compiles > 0)


def _wants_machine_code(not_before: float) -> bool:
    if _PROCESS.tier != "auto":
        return _PROCESS.tier == "compile"
    if _THREAD.compiles > 0:
        return True
    return _PROCESS.interpreted >= LOADING_SECONDS and perf_counter() >= not_before


def kernels() -> list[Kernel]:
    """Return all kernels of this process."""
    return list(_PROCESS.kernels)


@contextmanager
def noting_compilation() -> Iterator[None]:
    """Let `is_compiling` say so meanwhile."""
    with _PROCESS.lock:
        _PROCESS.compiling += 1
    try:
        yield
    finally:
        with _PROCESS.lock:
            _PROCESS.compiling -= 1


def is_compiling() -> bool:
    """Return whether a thread of this process compiles kernels."""
    return _PROCESS.compiling > 0


def seconds_interpreted() -> float:
    """Return how many seconds this process has spent in interpreted kernels."""
    return _PROCESS.interpreted
