"""Run the simulations, and map the names in the tables to rules."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from fairtrial.causal import (
    ConstraintSuccessiveRejection,
    PlugIn,
    Problem,
    TwoStageRejection,
    UniformSampling,
)
from fairtrial.core import Policy
from fairtrial.simulation import Simulation, simulate
from papers.causal.instances import Instance, Setting
from papers.report import Measured, share

__all__ = ["PAPER_RULES", "PLUG_IN", "PLUG_IN_SN", "RULES", "Errors", "SimulationCache"]

PAPER_RULES = ("CSR-v1", "CSR-v2", "two-stage v1", "two-stage v2")
"""The rules that the paper compares."""

_QUICK_ENVIRONMENTS = 2

PLUG_IN = "plug-in"
"""The recommended rule."""

PLUG_IN_SN = "plug-in, sn"
"""The same rule with normalised weights, its default if cells cannot be fitted."""

_MAKERS: dict[str, Callable[[Problem, int], Policy]] = {
    "CSR-v1": partial(ConstraintSuccessiveRejection, variant=1),
    "CSR-v2": ConstraintSuccessiveRejection,
    "two-stage v1": partial(TwoStageRejection, variant=1),
    "two-stage v2": TwoStageRejection,
    "CSR-v2, one-sided": partial(ConstraintSuccessiveRejection, one_sided=True),
    "uniform": UniformSampling,
    "plug-in, mis": partial(PlugIn, estimator="mis"),
    PLUG_IN_SN: partial(PlugIn, estimator="sn"),
    PLUG_IN: PlugIn,
}

RULES = tuple(_MAKERS)


@dataclass(frozen=True)
class Errors:
    """Number of runs with a wrong answer, and number of all runs.

    Examples
    --------
    >>> str(Errors(29, 100).share), Errors(29, 100) + Errors(1, 100)
    ('0.290 (0.045)', Errors(wrong=30, runs=200))
    """

    wrong: int
    runs: int

    def __add__(self, other: Errors) -> Errors:
        return Errors(self.wrong + other.wrong, self.runs + other.runs)

    @property
    def rate(self) -> float:
        """Share of runs with a wrong answer."""
        return self.wrong / self.runs

    @property
    def share(self) -> Measured:
        """The rate with its standard error, if the runs determine one."""
        return share(self.wrong, self.runs)

    def clearly_below(self, other: Errors) -> bool:
        """Return whether the rate is lower by more than three standard errors of the difference.

        Examples
        --------
        >>> Errors(10, 100).clearly_below(Errors(30, 100)), Errors(10, 100).clearly_below(
        ...     Errors(12, 100))
        (True, False)
        """
        pooled = (self.wrong + other.wrong) / (self.runs + other.runs)
        variance = pooled * (1.0 - pooled) * (1.0 / self.runs + 1.0 / other.runs)
        return other.rate - self.rate > 3.0 * math.sqrt(variance)


class SimulationCache:
    """Run each simulation once, even if several tables show it.

    Parameters
    ----------
    quick : bool
        Whether to use few replications and budgets.
    seed : int
        Source of all randomness: every simulation starts from it.
    """

    def __init__(self, quick: bool, seed: int) -> None:
        self.quick = quick
        self.seed = seed
        self._made: dict[tuple[Instance, str, int, int], Simulation] = {}

    def budgets(self, setting: Setting) -> tuple[int, ...]:
        """Return the numbers of rows to try in a setting."""
        return setting.budgets[self.quick]

    def instances(self, setting: Setting) -> tuple[Instance, ...]:
        """Return the environments to try in a setting."""
        return setting.instances[: _QUICK_ENVIRONMENTS if self.quick else None]

    def simulate(self, instance: Instance, rule: str, budget: int, runs: int) -> Simulation:
        """Return replications of a rule in one environment."""
        key = (instance, rule, budget, runs)
        if key not in self._made:
            environment = instance.make(budget)
            policy = _MAKERS[rule](environment.problem, budget)
            self._made[key] = simulate(
                policy, environment, runs, seed=self.seed, workers=1, progress=False
            )
        return self._made[key]

    def errors(self, setting: Setting, rule: str, budget: int) -> Errors:
        """Return the wrong answers of a rule in all environments of a setting."""
        total = Errors(0, 0)
        for instance in self.instances(setting):
            runs = self.simulate(instance, rule, budget, setting.runs[self.quick])
            assert runs.correct is not None
            total += Errors(int((~runs.correct).sum()), runs.replications)
        return total

    def overall(self, setting: Setting, rule: str) -> Errors:
        """Return the wrong answers of a rule over all budgets of a setting."""
        return sum(
            (self.errors(setting, rule, budget) for budget in self.budgets(setting)), Errors(0, 0)
        )
