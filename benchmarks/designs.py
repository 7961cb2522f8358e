"""Cost of optimal designs: G-optimal and XY-optimal, for random arms."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.measuring import heading, measure, show
from fairtrial.data import direct_arylation
from fairtrial.linear import (
    Problem,
    complexity,
    g_optimal_design,
    oracle_design,
    xy_optimal_design,
)

CASES = (
    (g_optimal_design, 10_000, 50, 1e-3, "1"),
    (xy_optimal_design, 1_000, 20, 5e-3, "1.5"),
    (xy_optimal_design, 10_000, 50, 5e-2, "60"),
    (g_optimal_design, 100_000, 20, 1e-3, ""),
    (xy_optimal_design, 100_000, 20, 5e-2, ""),
)


def run(*, quick: bool) -> None:
    heading("a design to a certified gap", "s")
    small = np.random.default_rng(0).normal(size=(6, 5))
    _warm_up(Problem(small, noise_std=1.0))
    for function, arms, dimension, tol, target in CASES[: 2 if quick else None]:
        problem = Problem(_on_the_sphere(arms, dimension), noise_std=1.0)
        timing = measure(partial(function, problem, tol=tol), 1 if arms > 1_000 else 3)
        what = f"{function.__name__}, {arms:,} x {dimension}, {tol:g}"
        show(what, timing, 1.0, target)
    problem = Problem(_on_the_sphere(1_000, 20), noise_std=1.0)
    work = partial(oracle_design, problem, np.arange(20.0))
    show("oracle_design, 1,000 x 20, 1e-6", measure(work, 3), 1.0)
    table = direct_arylation()
    problem = Problem(table["features"], arms=table["arm"], noise_std=1.0)
    theta = np.linalg.lstsq(problem.features, np.array(table["reward"]), rcond=None)[0]
    work = partial(complexity, problem, theta)
    show("complexity, 1,728 reactions x 20, 1e-6", measure(work, 3), 1.0, "1")


def _warm_up(problem: Problem) -> None:
    g_optimal_design(problem)
    xy_optimal_design(problem)


def _on_the_sphere(arms: int, dimension: int) -> np.ndarray:
    """Return isotropic random directions, so that most arms matter."""
    rows = np.random.default_rng(1).normal(size=(arms, dimension))
    return rows / np.linalg.norm(rows, axis=1)[:, np.newaxis]
