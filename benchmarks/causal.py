"""Cost of the causal family: reading and enumerating a model, a run, estimates from a log."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.measuring import Timing, heading, measure, show
from fairtrial.causal import (
    CausalModel,
    ConstraintSuccessiveRejection,
    NetworkEnvironment,
    PlugIn,
    Problem,
    TwoStageRejection,
    allocate,
    divergences,
    estimate,
)
from fairtrial.core import Policy
from fairtrial.data import hepar2
from papers.causal.instances import HEPAR, TIGHT

RUNS = 10
BUDGET = 10_000
ROWS = 100_000


def run(*, quick: bool) -> None:
    repetitions = 3 if quick else 7
    heading("preparing a problem", "ms")
    show("HEPAR-II file to M and D, 10 arms", measure(_ready, repetitions), 1e3, "100")
    show("and to its first allocation", measure(_allocated, repetitions), 1e3)
    _runs(repetitions, quick)
    _estimates(repetitions)
    _memory()


def _ready() -> Problem:
    """Read the network and compute everything again, without cached results."""
    model = CausalModel.from_bif(hepar2())
    arms = HEPAR.instances[0].make(BUDGET).problem.arms
    outcome = ("carcinoma", {"present": 1.0, "absent": 0.0})
    problem = Problem(model, "sex", "fibrosis", outcome, arms, fairness_bound=0.2)
    divergences(problem)
    return problem


def _allocated() -> None:
    allocate(_ready())


def _runs(repetitions: int, quick: bool) -> None:
    heading(f"a simulated run of {BUDGET:,} rows", "ms")
    rules = [("CSR", ConstraintSuccessiveRejection, "20"), ("plug-in", PlugIn, "")]
    if not quick:
        rules.insert(1, ("two-stage", TwoStageRejection, ""))
    for setting in (TIGHT, HEPAR):
        environment = setting.instances[0].make(BUDGET)
        for name, rule, target in rules:
            what = f"{name}, {setting.name}, {environment.problem.n_arms} arms"
            work = partial(_play, rule(environment.problem, BUDGET), environment)
            work()
            show(what, measure(work, repetitions).per(RUNS), 1e3, target)
            alone = [measure(_prepared(rule, environment), 1) for _ in range(repetitions)]
            wall, cpu = [t.wall[0] for t in alone], [t.cpu[0] for t in alone]
            show(f"{what}, the first one", Timing(wall, cpu), 1e3)


def _prepared(rule: Callable[..., Policy], environment: NetworkEnvironment) -> Callable[[], object]:
    """Return a run whose problem has no cached divergences or allocations."""
    fresh = NetworkEnvironment(Problem.from_dict(environment.problem.to_dict()))
    policy = rule(fresh.problem, BUDGET)
    return partial(policy.compiled_run, fresh, np.random.default_rng(0), None)


def _play(template: Policy, environment: NetworkEnvironment) -> None:
    """Play the same runs each time; later ones use the cached allocations of earlier ones."""
    for seed in range(RUNS):
        assert template.clone().compiled_run(environment, np.random.default_rng(seed), None)


def _estimates(repetitions: int) -> None:
    heading(f"{ROWS:,} logged rows, 30 arms", "ms")
    problem, log = _log(ROWS)
    for estimator in ("sn", "mis", "cell"):
        work = partial(estimate, problem, log, estimator)
        show(f"estimate, {estimator}", measure(work, repetitions), 1e3, "200")


def _log(rows: int) -> tuple[Problem, dict[str, Any]]:
    environment = TIGHT.instances[0].make(BUDGET)
    generator = np.random.default_rng(1)
    actions = generator.integers(environment.problem.n_actions, size=rows)
    return environment.problem, environment.table(actions, generator)


def _memory() -> None:
    print("\npeak memory of `estimate`, MB (without the log itself)")
    for rows in (ROWS // 4, ROWS // 2, ROWS):
        problem, log = _log(rows)
        tracemalloc.start()
        estimate(problem, log)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(f"{rows:>10,} rows{peak / 1e6:10.1f}{1e6 * peak / 1e6 / rows:10.0f} bytes a row")
