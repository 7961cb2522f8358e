"""A policy in every scenario: how often it is right, how long it takes, whom it costs."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core import Environment, Policy
from fairtrial.core.frames import Library
from fairtrial.core.parameters import plain
from fairtrial.core.scenario import Scenario
from fairtrial.core.tables import as_frame, without_formula
from fairtrial.core.validation import check_probability
from fairtrial.core.wording import listed
from fairtrial.errors import InvalidArgument
from fairtrial.simulation.calendar import Calendar, Look
from fairtrial.simulation.claims import Claim
from fairtrial.simulation.comparators import ASSUMPTIONS, Comparator
from fairtrial.simulation.proportions import Proportion
from fairtrial.simulation.results import Simulation, name_of_answer
from fairtrial.simulation.summary import Statistics

if TYPE_CHECKING:
    pass

__all__ = ["Characteristics", "OperatingCharacteristics"]

POWERS = (0.8, 0.9)
_MOST_TIED = 3


@dataclass(frozen=True, eq=False)
class Characteristics:
    """The operating characteristics in one scenario, with one limit of pulls.

    Parameters
    ----------
    scenario : Scenario
        The scenario that is true.
    max_pulls : int
        Pulls after which a run ends undecided.
    answers : mapping of str to Proportion
        Runs that named each answer, including "no arm".
    undecided : Proportion
        Runs that ended without an answer.
    wrong : Proportion
        Runs that named an answer that is not right: the type I error. If the best arms are equal,
        this is every run that named an arm.
    right : Proportion or None
        Runs that named a right answer: the power. None if there is no right answer because the best
        arms are equal.
    pulls : Statistics
        Pulls until the end, with the quantiles at 5 and 95 %.
    days : Statistics or None
        Time until the end, in days; None unless `pulls_per_day` is known.
    elapsed : Statistics or None
        Time until the end, in the unit of the delays; None unless results come late.
    by_action : mapping of str to float
        Mean pulls by action: arm and group.
    worse_share : float or None
        Share of all pulls on arms that are no right answer: worse, or not acceptable; None if the
        things pulled are not the possible answers.
    estimated : int
        Runs whose answer has an estimated mean.
    bias, rmse : float or None
        Mean error and root mean square error of that mean.
    effect_bias, effect_rmse : float or None
        The same for the difference between the named arm and the problem's control; None without a
        control.
    coverage : Proportion or None
        Among runs with an interval for the answer's mean, those whose interval contains the true
        mean; None if there are none.
    lower_bound : float or None
        The mean number of pulls that no rule beats if it decides in every run; None if a run was
        cut off, or no bound is known.
    fixed_sample : mapping of float to int or None
        By power: the pulls of the usual experiment of fixed size with the same error probability:
        equal allocation, normal tests, Bonferroni. None if no number is enough; empty if no answer
        is right.
    claims : tuple of Claim
        For every arm against the problem's control: how often it was named, and shown to be better.
    false_claims : Proportion or None
        Runs with a wrong answer or at least one false claim: the family-wise type I error. None
        without a control.
    harmful : Proportion or None
        Runs that named an arm that is beyond a limit; None if that is not known.
    exposure : mapping of str to float
        Mean pulls on inferior arms: beyond a limit, worse than the best acceptable arm, and worse
        than the control.
    comparators : tuple of Comparator
        The usual designs, for the comparison with the control and for the limits.
    calendar : Calendar or None
        When things happen; None unless pulls per day and delay are known.
    looks : tuple of Look
        What interim looks find on the days that were stated.
    environment : Environment
        The environment of the runs: the scenario's, with accrual and delay if they are known.
    simulation : Simulation
        The runs.
    """

    scenario: Scenario
    max_pulls: int
    answers: Mapping[str, Proportion]
    undecided: Proportion
    wrong: Proportion
    right: Proportion | None
    pulls: Statistics
    days: Statistics | None
    elapsed: Statistics | None
    by_action: Mapping[str, float]
    worse_share: float | None
    estimated: int
    bias: float | None
    rmse: float | None
    effect_bias: float | None
    effect_rmse: float | None
    coverage: Proportion | None
    lower_bound: float | None
    fixed_sample: Mapping[float, int | None]
    claims: tuple[Claim, ...]
    false_claims: Proportion | None
    harmful: Proportion | None
    exposure: Mapping[str, float]
    comparators: tuple[Comparator, ...]
    calendar: Calendar | None
    looks: tuple[Look, ...]
    environment: Environment
    simulation: Simulation = field(repr=False)

    def pulls_for(self, power: float) -> int | None:
        """Return the number of pulls after which that share of the runs had named a right answer.

        It is the limit of pulls needed for that power; None if the power was not reached.
        """
        power = check_probability("power", power)
        if self.right is None or self.simulation.correct is None:
            return None
        needed = math.ceil(power * self.right.runs)
        times = np.sort(self.pulls_of_runs[self.simulation.correct])
        return int(times[needed - 1]) if needed <= times.size else None

    @property
    def pulls_of_runs(self) -> NDArray[np.int64]:
        """The number of pulls of every run, including pulls without a result."""
        return np.asarray(self.simulation.pulls.sum(axis=1))

    @property
    def right_answer(self) -> str:
        """The right answer in words."""
        truth = self.simulation.truth
        assert truth is not None, "scenarios without a truth are refused"
        labels = truth.interchangeable or (truth.best,)
        names = list(map(name_of_answer, labels))
        if not truth.tied:
            return listed(names)
        return f"none: {listed(names) if len(names) <= _MOST_TIED else len(names)} are equal"

    def to_dict(self) -> dict[str, Any]:
        """Return the results as JSON's own types."""
        return {
            "scenario": self.scenario.name,
            "why": self.scenario.why,
            "means": plain(self.scenario.environment.truth.means),
            "right_answer": self.right_answer,
            "max_pulls": self.max_pulls,
            "answers": {name: found.to_dict() for name, found in self.answers.items()},
            "undecided": self.undecided.to_dict(),
            "wrong": self.wrong.to_dict(),
            "right": None if self.right is None else self.right.to_dict(),
            "pulls": self.pulls.to_dict(),
            "days": None if self.days is None else self.days.to_dict(),
            "elapsed": None if self.elapsed is None else self.elapsed.to_dict(),
            "pulls_by_action": dict(self.by_action),
            "share_on_worse_arms": self.worse_share,
            "runs_with_an_estimate": self.estimated,
            "bias": self.bias,
            "rmse": self.rmse,
            "effect_bias": self.effect_bias,
            "effect_rmse": self.effect_rmse,
            "coverage": None if self.coverage is None else self.coverage.to_dict(),
            "lower_bound": self.lower_bound,
            "pulls_for_power": {f"{power:g}": self.pulls_for(power) for power in POWERS},
            "fixed_sample": {f"{power:g}": size for power, size in self.fixed_sample.items()},
            "claims": [claim.to_dict() for claim in self.claims],
            "false_claims": None if self.false_claims is None else self.false_claims.to_dict(),
            "harmful": None if self.harmful is None else self.harmful.to_dict(),
            "exposure": dict(self.exposure),
            "comparators": [one.to_dict() for one in self.comparators],
            "calendar": None if self.calendar is None else self.calendar.to_dict(),
            "looks": [look.to_dict() for look in self.looks],
        }

    def columns(self) -> dict[str, Any]:
        """Return the results by the names of columns, for a table with one row each."""
        found: dict[str, Any] = {
            "scenario": self.scenario.name,
            "right answer": self.right_answer,
            "max_pulls": self.max_pulls,
            "runs": self.wrong.runs,
        }
        proportions = {
            "right": self.right,
            "wrong": self.wrong,
            "undecided": self.undecided,
            **{f"names {name}": proportion for name, proportion in self.answers.items()},
        }
        for name, proportion in proportions.items():
            found |= _proportion_columns(name, proportion)
        units = {"pulls": self.pulls, "days": self.days, "elapsed": self.elapsed}
        for unit, statistics in units.items():
            found |= {} if statistics is None else _statistics_columns(unit, statistics)
        return {
            **found,
            "share on worse arms": self.worse_share,
            "bias": self.bias,
            "rmse": self.rmse,
            "effect bias": self.effect_bias,
            "effect rmse": self.effect_rmse,
            **_proportion_columns("coverage", self.coverage),
            **_proportion_columns("any false claim", self.false_claims),
            **{f"pulls on arms {sense}": mean for sense, mean in self.exposure.items()},
            "lower bound": self.lower_bound,
            **{f"pulls for power {power:g}": self.pulls_for(power) for power in POWERS},
            **{
                f"fixed sample for power {power:g}": self.fixed_sample.get(power)
                for power in POWERS
            },
            **{f"pulls {name}": mean for name, mean in self.by_action.items()},
        }


@dataclass(frozen=True, eq=False)
class OperatingCharacteristics(Sequence[Characteristics]):
    """The behaviour of a policy in several scenarios, each with every number of `max_pulls`.

    A sequence of `Characteristics`, scenario by scenario.

    Parameters
    ----------
    rows : tuple of Characteristics
        The results.
    policy : Policy
        The policy, fresh.
    replications : int
        Runs in each scenario.
    seed : int
        Source of all randomness, the same in every scenario.
    parallel : int
        Most pulls in flight at once.
    level : float
        Confidence of the intervals.
    pulls_per_day : float or None
        The number that converts pulls to days.
    about : str or None
        What a reader must know: that recorded rows were sampled repeatedly.
    delay_days : float or None
        Days from a pull to its result, if they were stated.
    """

    rows: tuple[Characteristics, ...]
    policy: Policy
    replications: int
    seed: int
    parallel: int
    level: float
    pulls_per_day: float | None
    about: str | None = None
    delay_days: float | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def row(self, scenario: str, max_pulls: int | None = None) -> Characteristics:
        """Return the results of one scenario; by default those with the most pulls.

        Raises
        ------
        InvalidArgument
            If there is no such row.
        """
        found = [row for row in self.rows if row.scenario.name == scenario]
        if not found:
            names = list(dict.fromkeys(row.scenario.name for row in self.rows))
            raise InvalidArgument("scenario", f"must be one of {names}", scenario)
        if max_pulls is None:
            return found[-1]
        for row in found:
            if row.max_pulls == max_pulls:
                return row
        budgets = [row.max_pulls for row in found]
        raise InvalidArgument("max_pulls", f"must be one of {budgets}", max_pulls)

    def monte_carlo_error(self, probability: float = 0.5) -> float:
        """Return the standard error of a probability that these runs estimate."""
        return math.sqrt(probability * (1.0 - probability) / self.replications)

    def to_frame(self, library: Library | None = None) -> Any:
        """Return a table with one row for each scenario and number of pulls.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}, optional
            The library of the table; by default the first of these that is installed.

        Raises
        ------
        MissingExtra
            If the library is not installed.
        """
        names, rows = self._cells()
        columns = {name: [row.get(name) for row in rows] for name in names}
        return as_frame(columns, "to_frame", library)

    def to_csv(self) -> str:
        """Return the same table as text; no cell can be read as a formula."""
        names, rows = self._cells()
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(map(without_formula, names))
        for row in rows:
            writer.writerow([without_formula(row.get(name)) for name in names])
        return text.getvalue()

    def _cells(self) -> tuple[list[str], list[dict[str, Any]]]:
        """Return the names of all columns, and the rows; a row may lack columns of others."""
        rows = [row.columns() for row in self.rows]
        return list(dict.fromkeys(name for row in rows for name in row)), rows

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON's own types."""
        return {
            "about": self.about,
            "policy": repr(self.policy),
            "replications": self.replications,
            "seed": self.seed,
            "parallel": self.parallel,
            "level": self.level,
            "monte_carlo_error": self.monte_carlo_error(),
            "pulls_per_day": self.pulls_per_day,
            "delay_days": self.delay_days,
            "comparators_assume": ASSUMPTIONS,
            "rows": [row.to_dict() for row in self.rows],
        }


def _proportion_columns(name: str, found: Proportion | None) -> dict[str, float | None]:
    ends = (None, None, None) if found is None else (found.rate, found.lower, found.upper)
    return dict(zip((name, f"{name} lower", f"{name} upper"), ends, strict=True))


def _statistics_columns(unit: str, found: Statistics) -> dict[str, float | None]:
    return {
        f"{unit} mean": found.mean,
        f"{unit} standard error": found.standard_error,
        f"{unit} median": found.median,
        **{f"{unit} {100 * p:g} %": value for p, value in found.quantiles.items()},
    }
