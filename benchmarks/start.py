"""Start-up time: importing, the command's help, and the first decision of a process.

A first decision is interpreted; a simulation loads the compiled kernels from disk.
"""

from __future__ import annotations

import subprocess
import sys

from benchmarks.measuring import heading, measure_process, show

PROBLEM = "import fairtrial as ft; problem = ft.subpopulations.Problem(3, 3, noise_std=1.0)"
MEANS = "[[2, 2, 2], [1, 1, 1], [-1, -1, -1]]"
RUN = "ft.simulate(policy, environment, 1)"
ENVIRONMENT = f"environment = ft.subpopulations.GaussianEnvironment(problem, {MEANS})"

PROCESSES = (
    ("python, nothing else", ("-c", "pass"), ""),
    ("import fairtrial", ("-c", "import fairtrial"), "200"),
    ("fairtrial --help", ("-m", "fairtrial", "--help"), "250"),
    ("import numpy", ("-c", "import numpy"), ""),
    ("import numba, without fairtrial", ("-c", "import numba"), ""),
    (
        "first decision, BlockBetting",
        ("-c", f"{PROBLEM}; ft.subpopulations.BlockBetting(problem).ask()"),
        "350",
    ),
    (
        "first decision, BalancedTracking",
        ("-c", f"{PROBLEM}; ft.subpopulations.BalancedTracking(problem).ask()"),
        "350",
    ),
    (
        "first simulated run, BlockBetting",
        (
            "-c",
            f"{PROBLEM}; {ENVIRONMENT}; policy = ft.subpopulations.BlockBetting(problem); {RUN}",
        ),
        "",
    ),
)

SPLIT = f"""
import time
marks = [("", time.process_time())]
def mark(name):
    marks.append((name, time.process_time()))
import numpy
mark("import numpy")
import numba
mark("import numba")
import scipy.linalg.cython_blas
mark("import scipy.linalg, which numba does then")
from numba.core.registry import cpu_target
cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
mark("numba fills its tables")
{PROBLEM}
from fairtrial.subpopulations._kernels import runs
mark("import fairtrial's own")
from fairtrial.core.compilation import use_tier
use_tier("compile")
ft.subpopulations.BlockBetting(problem).ask()
mark("load kernels from the disk, decide")
for (_, start), (name, end) in zip(marks, marks[1:]):
    print(f"    {{name:<42}}{{1000 * (end - start):14.2f}}")
"""


def run(*, quick: bool) -> None:
    repetitions = 3 if quick else 9
    heading("start of a process", "ms")
    for what, arguments, target in PROCESSES:
        measure_process(arguments, 1)
        show(what, measure_process(arguments, repetitions), 1e3, target)
    print("parts of a first decision of BlockBetting in compiled code (CPU time, one run):")
    subprocess.run([sys.executable, "-c", SPLIT], check=True)
