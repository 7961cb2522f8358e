"""`fairtrial compile`: compile the mathematics before it is needed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Thread

import click

from fairtrial.cli.exits import EPILOG
from fairtrial.cli.output import emit, json_option, say
from fairtrial.core.family import FAMILIES, compile_family, family_module
from fairtrial.errors import FairtrialError

__all__ = ["compile_families", "compile_one"]

_CHILD = "import sys; from fairtrial.cli.commands.compile import compile_one as c; c(sys.argv[1])"


@click.command("compile", epilog=EPILOG)
@click.argument("families", nargs=-1, metavar="[FAMILY]...")
@json_option
def compile_families(families: tuple[str, ...], as_json: bool) -> None:
    """Compile the mathematics of these families (default: all), and keep it on disk.

    Studies decide without compiled code, and use it once it is there. Simulations and plans need
    it: the first one would wait for it, up to a minute. So run this once after an installation or
    an update, as the user who will run the studies, and on the machine that will run them: the
    compiled code is specific to the processor. Families that are already compiled take seconds.
    NUMBA_CACHE_DIR names the folder that keeps the code; by default it is beside the package.
    """
    wanted = families or FAMILIES
    for name in wanted:
        family_module(name)
    seconds: dict[str, float] = {}
    for name, spent in _compiled(wanted):
        seconds[name] = spent
        if not as_json:
            say(f"{name}: ready after {spent:.0f} s")
    if as_json:
        emit({"seconds": seconds})


def _compiled(wanted: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Compile every family in its own process; yield its name and the time when it is done.

    `multiprocessing` is not used: it starts a helper process that outlives this command, and
    systemd reports processes that a command leaves behind.
    """
    processes = min(len(wanted), os.cpu_count() or 1)
    with ThreadPoolExecutor(processes) as pool, _life_line() as line:
        started = [(name, pool.submit(_compile, name, line)) for name in wanted]
        try:
            for name, future in started:
                yield name, future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _life_line() -> Iterator[int]:
    """Yield a descriptor that gives end-of-file when this context or this process ends."""
    reading, writing = os.pipe()
    try:
        yield reading
    finally:
        os.close(writing)
        os.close(reading)


def _compile(name: str, line: int) -> float:
    """Compile a family in a child process; return how long it took."""
    start = time.perf_counter()
    command = [sys.executable, "-c", _CHILD, name]
    # It runs this interpreter, with the name of a family.
    done = subprocess.run(command, stdin=line, stdout=subprocess.DEVNULL, check=False)  # noqa: S603
    if done.returncode != 0:
        raise FairtrialError(f"{name} could not be compiled: status {done.returncode}")
    return time.perf_counter() - start


def compile_one(name: str) -> None:
    """Compile a family in this process; exit at once if the parent process has ended."""
    Thread(target=_end_at_the_end_of_input, daemon=True).start()
    compile_family(name)


def _end_at_the_end_of_input() -> None:
    os.read(0, 1)
    os._exit(1)
