"""Compile missing kernels in another process, while this one goes on in the interpreter."""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
import threading
import time
from contextlib import suppress

from fairtrial.core.compilation import (
    find_kernel,
    kernels,
    seconds_interpreted,
    use_tier,
)
from fairtrial.core.exclusion import try_alone
from fairtrial.core.logs import LogEvent

__all__ = ["start_compiling"]

_STARTED = LogEvent("compilation", "compiling started", logging.INFO, ("kernels",))
_ENDED = LogEvent("compilation", "compiling ended", logging.INFO, ("seconds", "exit_code"))

_CHILD = "from fairtrial.core.background import compile_requested; compile_requested()"

COMPILING_SECONDS = 5.0
"""Seconds in the interpreter after which such a process is started."""

_PATIENCE = 2.0
"""After how many times as many seconds the next one is started, if code is still missing."""


class _Compiler:
    """The process in the background, if there is one."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.next = 0.0
        self._began = 0.0
        self._lock = threading.Lock()

    def start_compiling(self) -> None:
        """Start such a process if it is due; take note if one has ended."""
        if not self._lock.acquire(blocking=False):
            return  # another thread does it
        try:
            if self.process is not None:
                exit_code = self.process.poll()
                if exit_code is not None:
                    seconds = round(time.monotonic() - self._began, 1)
                    _ENDED.log(seconds=seconds, exit_code=exit_code)
                    self.process = None
                    for kernel in kernels():
                        kernel.missing.clear()
            elif seconds_interpreted() >= max(COMPILING_SECONDS, self.next):
                self.next = _PATIENCE * seconds_interpreted()
                self._start()
        finally:
            self._lock.release()

    def _start(self) -> None:
        wanted = [
            (kernel.__module__, kernel.__qualname__, set(kernel.missing))
            for kernel in kernels()
            if kernel.missing and kernel.__module__.startswith("fairtrial.")
        ]
        # -P: modules in the current folder must not take the place of installed ones.
        command = [sys.executable, "-P", "-c", _CHILD]
        nowhere = subprocess.DEVNULL
        self._began = time.monotonic()
        with suppress(OSError):
            self.process = subprocess.Popen(  # noqa: S603 - this interpreter
                command,
                stdin=subprocess.PIPE,
                stdout=nowhere,
                stderr=nowhere,
                start_new_session=True,
            )
            assert self.process.stdin is not None
            with self.process.stdin as stream:
                stream.write(pickle.dumps(wanted))
            _STARTED.log(kernels=len(wanted))


start_compiling = _Compiler().start_compiling
"""Call this when there is no machine code for a kernel.

Once interpreting has cost enough, it starts a process that compiles all missing kernels; when that
has ended, kernels look on disk again.
"""


def compile_requested() -> None:
    """Compile the kernels that the parent process names, unless another process does such work."""
    wanted = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the parent process, by a pipe
    if hasattr(os, "nice"):
        os.nice(10)
    use_tier("compile")
    from fairtrial.core.machine_code import compile_for  # noqa: PLC0415 - it imports numba

    with try_alone("background") as is_alone:
        if is_alone:
            for module, name, signatures in wanted:
                with suppress(LookupError, AttributeError):
                    kernel = find_kernel(module, name)
                    for types in signatures:
                        compile_for(kernel, types)
