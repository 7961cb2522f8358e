"""Cost of first calls on a machine with an empty cache: decisions, and what has to be compiled."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from benchmarks.measuring import heading, measure_process, show
from benchmarks.start import ENVIRONMENT, PROBLEM

_ARMS = '{"a": [[0.5, 0.5], [0.4, 0.6]], "b": [[0.2, 0.8], [0.1, 0.9]]}'
_OUTCOME = "environment.sample(pull, np.random.default_rng(0))"

DECISIONS = {
    "subpopulations": f"{PROBLEM}; p = ft.subpopulations.BlockBetting(problem)",
    "subpopulations, measures": (
        "import fairtrial as ft; problem = ft.subpopulations.Problem(3, 1, "
        'measures={"y": (0, 1), "z": (0, 1)}, objective="y", ceilings={"z": 0.5}); '
        "p = ft.subpopulations.BlockBetting(problem)"
    ),
    "linear": (
        "import fairtrial as ft; "
        "p = ft.linear.BlockBetting(ft.linear.Problem([[1, 0], [0, 1], [1, 1]], noise_std=1.0))"
    ),
    "delayed": (
        "import fairtrial as ft; p = ft.delayed.BlockBetting(ft.delayed.Problem(3, noise_std=1.0))"
    ),
    "causal": (
        "import fairtrial as ft, numpy as np; "
        f"problem, environment = ft.causal.chain(0.4, {_ARMS}, [0.1, 0.9], 0.2); "
        "p = ft.causal.BlockBetting(problem)"
    ),
    "allocation": (
        "import fairtrial as ft; p = ft.allocation.FairLearn(ft.allocation.Problem(3, 0.25))"
    ),
}
OUTCOMES = {
    "subpopulations, measures": '{"y": 1.0, "z": 0.0}',
    "causal": _OUTCOME,
}

SIMULATIONS = {
    "simulated run, BlockBetting": (
        f"{ENVIRONMENT}; ft.simulate(ft.subpopulations.BlockBetting(problem), environment, 1)"
    ),
    "simulated run, BalancedTracking": (
        f"{ENVIRONMENT}; ft.simulate(ft.subpopulations.BalancedTracking(problem), environment, 1)"
    ),
    "complexity": f"{ENVIRONMENT}; ft.subpopulations.complexity(environment)",
}

COUNT = """
from collections import Counter
from numba.core import event
with event.install_recorder("numba:compile") as recorder:
    run()
translated = (each.data["dispatcher"] for _, each in recorder.buffer if each.is_start)
owners = Counter(each.py_func.__module__.split(".")[0] for each in translated)
said = ", ".join(f"{owners[name]} of {name}" for name in owners)
print("    functions translated:", said or "none, it is interpreted")
"""


def run(*, quick: bool) -> None:
    heading("first ask and tell ever, nothing compiled", "s")
    for family, policy in DECISIONS.items():
        outcome = OUTCOMES.get(family, "0.5")
        _show(family, f"{policy}; pull = p.ask(); p.tell(pull, {outcome})", "1.5")
    heading("first simulation ever, nothing compiled", "s")
    for what, code in list(SIMULATIONS.items())[: 1 if quick else None]:
        _show(what, f"{PROBLEM}; {code}", "25")
        _count(f"{PROBLEM}\ndef run():\n    {code}\n{COUNT}")


def _count(code: str) -> None:
    """Print how many functions numba translates to machine code, its own included."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def _show(what: str, code: str, target: str) -> None:
    with tempfile.TemporaryDirectory() as cache:
        seconds = measure_process(("-c", code), 1, {"NUMBA_CACHE_DIR": cache})
        show(what, seconds, 1.0, target)
