"""Cost of the first call on a machine: compiling the kernels into an empty cache."""

from __future__ import annotations

import tempfile

from benchmarks.measuring import heading, measure_process, show
from benchmarks.start import ENVIRONMENT, PROBLEM

CASES = {
    "ask and tell, BlockBetting": (
        "p = ft.subpopulations.BlockBetting(problem); p.tell(p.ask(), 0.5)"
    ),
    "ask and tell, BalancedTracking": (
        "p = ft.subpopulations.BalancedTracking(problem); p.tell(p.ask(), 0.5)"
    ),
    "simulated run, BlockBetting": (
        f"{ENVIRONMENT}; ft.simulate(ft.subpopulations.BlockBetting(problem), environment, 1)"
    ),
    "simulated run, BalancedTracking": (
        f"{ENVIRONMENT}; ft.simulate(ft.subpopulations.BalancedTracking(problem), environment, 1)"
    ),
    "complexity": f"{ENVIRONMENT}; ft.subpopulations.complexity(environment)",
}


def run(*, quick: bool) -> None:
    heading("first call ever, nothing compiled", "s")
    for what, code in list(CASES.items())[: 1 if quick else None]:
        with tempfile.TemporaryDirectory() as cache:
            arguments = ("-c", f"{PROBLEM}; {code}")
            show(what, measure_process(arguments, 1, {"NUMBA_CACHE_DIR": cache}), 1.0)
