"""Compare the proven rule, which stops by itself, with the paper's better rule."""

from __future__ import annotations

import numpy as np

from fairtrial.causal import BlockBetting
from fairtrial.simulation import Simulation, simulate
from papers.causal.cache import Errors, SimulationCache
from papers.causal.instances import BINDING, HEPAR, OFFERS, OWN, TIGHT, Instance, Setting
from papers.report import AGREES, Measured, Row, Section, Table

__all__ = ["proven"]

_DELTA = 0.1
_MOST_ROWS = 200_000
_OUTCOMES = (0.0, 1.0)


def proven(cache: SimulationCache) -> Section:
    """Compare block betting with CSR-v2 with a budget of the same number of rows, or more."""
    return Section(
        "proven",
        "A proven stop",
        "Block betting stops by itself, with a proven error probability of at most .1. `rows` "
        "counts the rows until it stops; where rows have costs, it keeps the mean budget of the "
        "largest T. CSR-v2 has no guarantee. Its share of errors is shown at the smallest T of "
        "the tables above that is not below these rows, or otherwise at the largest T. A row "
        "agrees if at most a tenth of block betting's runs are wrong.",
        (Table(tuple(_row(cache, one) for one in (TIGHT, HEPAR, OWN, BINDING, *OFFERS))),),
    )


def _row(cache: SimulationCache, setting: Setting) -> Row:
    runs = [_simulated(cache, setting, instance) for instance in cache.instances(setting)]
    times = np.concatenate([found.stopping_time for found in runs])
    undecided = sum(round(found.undecided_rate * found.replications) for found in runs)
    wrong = sum(round(found.error_rate * found.replications) for found in runs)
    budget = _budget_for(cache, setting, float(times.mean()))
    errors = Errors(wrong, len(times))
    return {
        "instances": setting.name,
        "runs": len(times),
        "rows": Measured.of(times),
        "wrong": errors.share,
        "undecided": undecided,
        "CSR-v2 at T": budget,
        "its errors": cache.errors(setting, "CSR-v2", budget).share,
        AGREES: errors.rate <= _DELTA,
    }


def _simulated(cache: SimulationCache, setting: Setting, instance: Instance) -> Simulation:
    environment = instance.make(cache.budgets(setting)[-1])
    if environment.problem.outcome_range is None:
        problem = environment.problem.clone(outcome_range=_OUTCOMES)
        environment = environment.clone(problem=problem)
    policy = BlockBetting(environment.problem, delta=_DELTA)
    runs = setting.runs[cache.quick]
    return simulate(policy, environment, runs, seed=cache.seed, horizon=_MOST_ROWS, progress=False)


def _budget_for(cache: SimulationCache, setting: Setting, rows: float) -> int:
    budgets = cache.budgets(setting)
    return next((budget for budget in budgets if budget >= rows), budgets[-1])
