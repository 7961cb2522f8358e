"""`fairtrial compile`: compile the mathematics before it is needed."""

from __future__ import annotations

import os
import time

import click

from fairtrial.cli.exits import EPILOG
from fairtrial.cli.output import emit, json_option, say

__all__ = ["compile_families"]


@click.command("compile", epilog=EPILOG, short_help="Compile the mathematics before it is needed.")
@click.argument("families", nargs=-1, metavar="[FAMILY]...")
@json_option
def compile_families(families: tuple[str, ...], as_json: bool) -> None:
    """Compile the mathematics of these families, all if none is named, and keep it on the disk.

    Otherwise the first study that needs a part waits for it: a minute or more. So run this once
    after an installation or an update, as the user who will run the studies, and on the machine
    that will run them: the compiled code is for its processor. What is compiled already takes
    seconds. NUMBA_CACHE_DIR names the folder that keeps it; it is beside the package otherwise.
    """
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from fairtrial.core.family import FAMILIES, family_module

    wanted = families or FAMILIES
    for name in wanted:
        family_module(name)
    processes = min(len(wanted), os.cpu_count() or 1)
    seconds: dict[str, float] = {}
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        started = [(name, pool.submit(_compile, name)) for name in wanted]
        for name, future in started:
            seconds[name] = future.result()
            if not as_json:
                say(f"{name}: ready after {seconds[name]:.0f} s")
    if as_json:
        emit({"seconds": seconds})


def _compile(name: str) -> float:
    """Compile a family in a process of its own; return how long it took."""
    from fairtrial.core.family import family_of

    start = time.perf_counter()
    family_of(name).compile_kernels()
    return time.perf_counter() - start
