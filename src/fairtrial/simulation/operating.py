"""Runs of a policy in several scenarios, and their summary."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairtrial.core import Environment, Policy, Problem, Truth
from fairtrial.core.accrual import SteadyAccrual, in_flight_at_most
from fairtrial.core.documentation import documented_by
from fairtrial.core.family import FAMILIES, family_of
from fairtrial.core.keywords import named_arguments
from fairtrial.core.scenario import Scenario
from fairtrial.core.seeds import as_seed
from fairtrial.core.validation import (
    check_confidence,
    check_instance,
    check_integer,
    check_number,
)
from fairtrial.errors import InvalidArgument
from fairtrial.simulation._ends import ending_after
from fairtrial.simulation._kept_runs import KeptRuns
from fairtrial.simulation.calendar import calendar_of, looks_of
from fairtrial.simulation.characteristics import (
    POWERS,
    Characteristics,
    OperatingCharacteristics,
)
from fairtrial.simulation.claims import claims_of, exposure_of, false_claims, harmful_answers
from fairtrial.simulation.comparators import Comparator, comparators_of
from fairtrial.simulation.proportions import Proportion
from fairtrial.simulation.replicate import check_pair, simulate
from fairtrial.simulation.results import NO_ARM, Simulation, name_of_answer
from fairtrial.simulation.summary import TAILS, Statistics

__all__ = ["ROWS_ARE_MOVED", "Interrupted", "operating_characteristics"]

ROWS_ARE_MOVED = "In scenarios with other means, the rows are shifted to these means."

_MOST_NAMED = 12
"""With more arms, only those that a run named are listed."""


@documented_by(simulate)
@named_arguments
def operating_characteristics(
    policy: Policy,
    scenarios: Iterable[Scenario],
    max_pulls: int | Sequence[int],
    replications: int = 1000,
    seed: int | np.random.Generator | None = 0,
    *,
    pulls_per_day: float | None = None,
    level: float = 0.95,
    parallel: int = 1,
    delay_days: float | None = None,
    looks: Sequence[float] = (),
    executor: Executor | None = None,
    workers: int | None = None,
    progress: bool = True,
    keep: str | os.PathLike[str] | None = None,
) -> OperatingCharacteristics:
    """Return the behaviour of a policy in every scenario, with every limit of pulls.

    Every scenario is simulated with the same seed, so `simulate` with that seed repeats its runs.

    Parameters
    ----------
    scenarios : sequence of Scenario
        What may be true, each for the policy's problem; see `default_scenarios`.
    max_pulls : int or sequence of int
        Pulls after which a run ends undecided: the number that the study can afford, or several.
    replications : int
        Runs for each scenario and number of pulls.
    pulls_per_day : float, optional
        Pulls that the study will make in a day; adds times in days. Not allowed if results come
        late, because time is then part of the scenario.
    level : float
        Confidence of the intervals.
    delay_days : float, optional
        Days from a pull to its result. With `pulls_per_day` it decides how many pulls are in
        flight, so `parallel` must be left out; adds a calendar.
    looks : sequence of float
        Days of interim looks, counted from the first pull; they need `delay_days`.
    keep : str or path, optional
        A folder in which finished runs are kept: after an interruption, the same call continues.
        Runs are made again if anything differs on which they depend, also the version of fairtrial.

    Raises
    ------
    InvalidArgument
        If an argument is not acceptable; then nothing has run.
    Interrupted
        If it is interrupted (Ctrl-C) when some scenarios are finished; the error holds them.

    Examples
    --------
    >>> from fairtrial.simulation import default_scenarios
    >>> from fairtrial.subpopulations import BlockBetting, GaussianEnvironment, Problem
    >>> problem = Problem(["old", "new"], 1, floors=None, noise_std=1.0)
    >>> scenarios = default_scenarios(GaussianEnvironment(problem, [[0.0], [1.0]]))
    >>> found = operating_characteristics(BlockBetting(problem), scenarios, 200, replications=50)
    >>> [row.scenario.name for row in found]
    ['null', 'half', 'full']
    >>> found.row("null").wrong.rate < 0.2, found.row("full").right.rate > 0.8
    (True, True)
    """
    chosen = _checked(policy, scenarios)
    budgets = _budgets(max_pulls)
    per_day = _per_day(policy, pulls_per_day)
    delay, days = _delay(per_day, delay_days, parallel), _days(looks, delay_days)
    if delay is not None and per_day is not None:
        parallel = in_flight_at_most(per_day, delay)
    level = check_confidence("level", level)
    replications = check_integer("replications", replications, low=1)
    number = as_seed(seed)

    run = partial(
        simulate,
        replications=replications,
        seed=number,
        executor=executor,
        workers=workers,
        parallel=parallel,
        estimates=True,
    )
    folder = None if keep is None else Path(keep)
    finished_runs = KeptRuns(folder, number, replications, parallel)
    found: list[list[Simulation]] = []
    kept = _Kept(level, per_day, delay, days, _assumed(chosen), number)

    def finished() -> OperatingCharacteristics:
        """Return the characteristics in the scenarios that are finished."""
        return OperatingCharacteristics(
            rows=tuple(_rows(policy, chosen[: len(found)], found, kept, budgets)),
            policy=policy.clone(),
            replications=replications,
            seed=number,
            parallel=parallel,
            level=level,
            pulls_per_day=per_day,
            about=_about(chosen),
            delay_days=delay,
        )

    try:
        for scenario in chosen:
            runs = [
                finished_runs.of(
                    *(ending_after(most, policy), kept.simulated(scenario)),
                    policy.horizon_for(most),
                    partial(run, progress=progress and name),
                )
                for most, name in _named(scenario, budgets)
            ]
            found.append(runs)
    except KeyboardInterrupt:
        if not found:
            raise
        raise Interrupted(finished()) from None
    return finished()


@dataclass(frozen=True)
class _Kept:
    """What every row is made with."""

    level: float
    per_day: float | None
    delay: float | None
    looks: Sequence[float]
    assumed: Scenario
    seed: int

    def simulated(self, scenario: Scenario) -> Environment:
        """Return the scenario's environment, with accrual and delay if they are known."""
        if self.per_day is None or self.delay is None:
            return scenario.environment
        return SteadyAccrual(scenario.environment, self.per_day, self.delay)


class Interrupted(KeyboardInterrupt):
    """Some scenarios were finished when the simulation was interrupted.

    Attributes
    ----------
    finished : OperatingCharacteristics
        The results in these scenarios.
    """

    def __init__(self, finished: OperatingCharacteristics) -> None:
        super().__init__("interrupted")
        self.finished = finished


def _named(scenario: Scenario, budgets: Sequence[int]) -> Iterator[tuple[int, str]]:
    """Yield each limit of pulls with a name for the runs that it ends."""
    for most in budgets:
        limit = f", at most {most:,} pulls" if len(budgets) > 1 else ""
        yield most, f"scenario {scenario.name}{limit}"


def _checked(policy: Policy, scenarios: Iterable[Scenario]) -> list[Scenario]:
    check_instance("policy", policy, Policy)
    if not isinstance(scenarios, Iterable):
        raise InvalidArgument("scenarios", "must be a sequence of Scenario", scenarios)
    chosen = [check_instance("scenarios", scenario, Scenario) for scenario in scenarios]
    if not chosen:
        raise InvalidArgument("scenarios", "must have at least one scenario", chosen)
    for scenario in chosen:
        check_pair(policy, scenario.environment)
        _ = scenario.environment.truth
    doubled = [name for name, n in Counter(s.name for s in chosen).items() if n > 1]
    if doubled:
        raise InvalidArgument("scenarios", "must have different names", doubled[0])
    return chosen


def _rows(
    policy: Policy,
    scenarios: Sequence[Scenario],
    found: Sequence[Sequence[Simulation]],
    kept: _Kept,
    budgets: Sequence[int],
) -> Iterator[Characteristics]:
    """Yield the results in every scenario, with every number of pulls."""
    names = _names(policy, found)
    for scenario, simulations in zip(scenarios, found, strict=True):
        bound = _lower_bound(policy, scenario, simulations[-1])
        fixed_sample = _fixed_sample(policy, scenario)
        usual = comparators_of(scenario, kept.assumed, policy.delta, kept.level, kept.seed)
        for most, simulation in zip(budgets, simulations, strict=True):
            row = _row(scenario, simulation, names, kept, bound, fixed_sample, usual)
            yield replace(row, max_pulls=most)


def _about(scenarios: Sequence[Scenario]) -> str | None:
    """Return that recorded rows are sampled, and shifted if a scenario has other means."""
    abouts = {scenario.name: scenario.environment.about for scenario in scenarios}
    about = abouts.get("full", next(iter(abouts.values())))
    return about if about is None or len(abouts) == 1 else f"{about} {ROWS_ARE_MOVED}"


def _budgets(max_pulls: int | Sequence[int]) -> list[int]:
    given = [*max_pulls] if isinstance(max_pulls, Sequence | np.ndarray) else [max_pulls]
    if not given:
        raise InvalidArgument("max_pulls", "must have at least one number", max_pulls)
    return sorted({check_integer("max_pulls", one, low=1) for one in given})


def _per_day(policy: Policy, pulls_per_day: float | None) -> float | None:
    if pulls_per_day is None:
        return None
    if policy.problem.comes_late:
        accepted = "must be left out: results come late, and how long a run takes follows from that"
        raise InvalidArgument("pulls_per_day", accepted, pulls_per_day)
    return check_number("pulls_per_day", pulls_per_day, low=0.0, open_low=True)


def _delay(per_day: float | None, delay_days: float | None, parallel: int) -> float | None:
    """Return the days from a pull to its result, which need a rate and exclude `parallel`."""
    if delay_days is None:
        return None
    if per_day is None:
        raise InvalidArgument("delay_days", "needs pulls_per_day", delay_days)
    if parallel != 1:
        accepted = "must be left out with delay_days, which says how many pulls are in flight"
        raise InvalidArgument("parallel", accepted, parallel)
    return check_number("delay_days", delay_days, low=0.0)


def _days(looks: Sequence[float], delay_days: float | None) -> list[float]:
    if len(looks) and delay_days is None:
        raise InvalidArgument(
            "looks", "needs delay_days, the days from a pull to its result", looks
        )
    return [check_number("looks", day, low=0.0) for day in looks]


def _assumed(scenarios: Sequence[Scenario]) -> Scenario:
    """Return the scenario that the usual designs are planned for."""
    return next((one for one in scenarios if one.name == "full"), scenarios[0])


def _names(policy: Policy, found: Sequence[Sequence[Simulation]]) -> list[str]:
    """Return the answers to list: every arm, or of many those that were named or are right."""
    every = [simulation for simulations in found for simulation in simulations]
    known = {name_of_answer(answer) for one in every for answer in one.answer[one.decided]}
    known |= {name_of_answer(one.truth.best) for one in every if one.truth is not None}
    arms = list(dict.fromkeys(str(labels["arm"]) for labels in policy.problem.action_labels))
    listed_arms = arms if len(arms) <= _MOST_NAMED and known & {*arms} else []
    others = known.difference(listed_arms, {NO_ARM})
    return [*listed_arms, *sorted(others), *([NO_ARM] if NO_ARM in known else [])]


def _in_days(pulls: Statistics, per_day: float | None) -> Statistics | None:
    if per_day is None:
        return None
    error = pulls.standard_error
    return Statistics(
        mean=pulls.mean / per_day,
        standard_error=None if error is None else error / per_day,
        median=pulls.median / per_day,
        quantiles={p: value / per_day for p, value in pulls.quantiles.items()},
    )


def _worse_share(found: Simulation, truth: Truth) -> float | None:
    """Return the share of the pulls on arms that no right answer names."""
    right = set(truth.interchangeable)
    if not right and truth.best is not None:
        right = {*truth.best} if isinstance(truth.best, tuple) else {truth.best}
    arms = [labels.get("arm") for labels in found.problem.action_labels]
    if not right <= {*arms}:
        return None
    worse = np.array([arm not in right for arm in arms])
    return float(found.pulls[:, worse].sum() / found.pulls.sum())


def _errors(scenario: Scenario, found: Simulation) -> NDArray[np.float64]:
    """Return by run the error of the estimated mean of its answer; NaN if there is no estimate."""
    true = _true_values(scenario)
    values = [true.get(name_of_answer(answer), math.nan) for answer in found.answer]
    return np.asarray(found.estimate - np.array(values))


def _errors_of_differences(scenario: Scenario, found: Simulation) -> NDArray[np.float64]:
    """Return by run the error of its answer's difference from the control; NaN without one."""
    true = _true_values(scenario)
    control = true.get(str(found.problem.get_params().get("control")), math.nan)
    values = [true.get(name_of_answer(answer), math.nan) for answer in found.answer]
    return np.asarray(found.difference - (np.array(values) - control))


def _true_values(scenario: Scenario) -> Mapping[str, float]:
    problem = scenario.environment.problem
    return family_of(problem.family).values(scenario.environment) if _is_known(problem) else {}


def _bias_and_rmse(errors: NDArray[np.float64]) -> tuple[float | None, float | None]:
    """Return the mean and the root mean square of the known errors."""
    known = errors[~np.isnan(errors)]
    if not known.size:
        return None, None
    return float(known.mean()), math.sqrt(float((known**2).mean()))


def _within(errors: NDArray[np.float64], found: Simulation) -> NDArray[np.bool_]:
    """Return whether the true mean is in its interval, for every run that has one."""
    low, high = (found.interval - found.estimate[:, np.newaxis]).T
    known = ~(np.isnan(errors) | np.isnan(low) | np.isnan(high))
    rounding = 1e-12 * np.abs(found.estimate[known])
    within = (low[known] - rounding <= -errors[known]) & (-errors[known] <= high[known] + rounding)
    return np.asarray(within)


def _lower_bound(policy: Policy, scenario: Scenario, found: Simulation) -> float | None:
    """Return the lower bound for all rules, if every run decided and so can be compared with it.

    It is not computed otherwise, because it may take seconds.
    """
    problem, delta = policy.problem, policy.delta
    if delta is None or not _is_plain(scenario) or not found.decided.all():
        return None
    family = family_of(problem.family)
    environment = scenario.environment
    if not family.has_bound(environment):
        return None
    bound = family.complexity(environment).lower_bound(delta)
    return bound if math.isfinite(bound) else None


def _fixed_sample(policy: Policy, scenario: Scenario) -> dict[float, int | None]:
    """Return the pulls by power of the usual experiment with the policy's error probability."""
    problem, delta = policy.problem, policy.delta
    if delta is None or not _is_plain(scenario):
        return {}
    design = family_of(problem.family).fixed_design(scenario.environment)
    return {} if design is None else {power: design.size(delta, power) for power in POWERS}


def _is_plain(scenario: Scenario) -> bool:
    """Return whether the bound and the usual design are known: not with losses or drift."""
    environment = scenario.environment
    return _is_known(environment.problem) and environment.keeps_assumptions


def _is_known(problem: Problem) -> bool:
    return problem.family in FAMILIES


def _row(
    scenario: Scenario,
    found: Simulation,
    names: Sequence[str],
    kept: _Kept,
    bound: float | None,
    fixed_sample: Mapping[float, int | None],
    usual: tuple[Comparator, ...],
) -> Characteristics:
    runs, truth = found.replications, scenario.environment.truth
    counts = Counter(map(name_of_answer, found.answer[found.decided]))
    errors = _errors(scenario, found)
    within = _within(errors, found)
    bias, rmse = _bias_and_rmse(errors)
    effect_bias, effect_rmse = _bias_and_rmse(_errors_of_differences(scenario, found))
    pulls = Statistics.of(found.pulls.sum(axis=1), TAILS)
    correct = 0 if found.correct is None else int(found.correct.sum())

    level, per_day, delay = kept.level, kept.per_day, kept.delay

    def proportion(count: int) -> Proportion:
        return Proportion.of(count, runs, level)

    calendar = None
    if per_day is not None and delay is not None:
        calendar = calendar_of(found, per_day, delay)
    return Characteristics(
        scenario=scenario,
        max_pulls=found.horizon or 0,
        answers={name: proportion(counts[name]) for name in names},
        undecided=proportion(int((~found.decided).sum())),
        wrong=proportion(int(found.wrong.sum())),
        right=None if truth.tied else proportion(correct),
        pulls=pulls,
        days=_in_days(pulls, per_day) if calendar is None else calendar.decision,
        elapsed=Statistics.of(found.elapsed, TAILS) if found.problem.comes_late else None,
        by_action=dict(zip(found.action_names, found.pulls.mean(axis=0).tolist(), strict=True)),
        worse_share=_worse_share(found, truth),
        estimated=int((~np.isnan(errors)).sum()),
        bias=bias,
        rmse=rmse,
        effect_bias=effect_bias,
        effect_rmse=effect_rmse,
        coverage=Proportion.of(int(within.sum()), within.size, level) if within.size else None,
        lower_bound=bound if found.decided.all() else None,
        fixed_sample=fixed_sample,
        claims=claims_of(scenario, found, proportion),
        false_claims=false_claims(scenario, found, proportion),
        harmful=harmful_answers(scenario, found, proportion),
        exposure=exposure_of(scenario, found),
        comparators=usual,
        calendar=calendar,
        looks=() if per_day is None or delay is None else looks_of(found, kept.looks, level),
        environment=kept.simulated(scenario),
        simulation=found,
    )
