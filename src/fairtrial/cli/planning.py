"""How many pulls an experiment will take: the lower bound for all rules, and this policy's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fairtrial.cli.config import Configuration
from fairtrial.cli.output import say, shown_number
from fairtrial.core import Environment, Policy, Problem, Truth
from fairtrial.core.accrual import SteadyAccrual
from fairtrial.core.family import Family, family_of
from fairtrial.core.wording import IGNORES_PREDICTIONS, plural
from fairtrial.errors import InvalidArgument
from fairtrial.simulation import (
    Comparator,
    Scenario,
    Simulation,
    SmallestEffect,
    at_effect,
    simulate,
    smallest_effects,
)
from fairtrial.simulation.comparators import ASSUMPTIONS, comparators_of

if TYPE_CHECKING:
    from fairtrial.confidence.complexity import Complexity

__all__ = [
    "HORIZON_OF_TIES",
    "FoundWith",
    "Plan",
    "accrued",
    "complexity_in",
    "find_effects",
    "make_plan",
    "pulls_in",
    "simulate_configuration",
]

_HORIZON_IN_BOUNDS = 100
_HORIZON_IN_STARTS = 100
HORIZON_OF_TIES = 10_000
_REPLICATIONS = 200
_REPLICATIONS_OF_EFFECTS = 400
_SMALLEST_SPREAD = 1e-6
_WIDER_AT_LITTLE_COST = 1.5

_CERTIFYING_ASSUMES = (
    "the best allocation of rows to arms for this model, and outcomes exactly as it says"
)

_ABOUT_LOSSES = (
    "the plan assumes that every result is told. One that is never told counts as its worst value. "
    "If rewards are 0 or 1, a share of them as large as the difference between the best arms "
    "prevents a decision, and half of this share takes several times as many pulls."
)
_HOW_TO_PLAN_LOSSES = (
    " To plan for 3 %, add a [[scenario]] with a name and loss = { rate = 0.03 } to the file and "
    "use `fairtrial simulate FILE --scenarios`"
)

_LEVEL = 0.95
"""Confidence of the intervals of what usual designs do."""

_PULL_CAPS = ("max_pulls", "budget")
"""Limits of the number of pulls of a policy."""
_CAPS = (*_PULL_CAPS, "max_time")
"""Limits that end a run of a policy that has not decided."""


@dataclass(frozen=True)
class End:
    """What ends a study.

    Parameters
    ----------
    pulls : int
        The number of pulls after which it ends the study.
    name : str
        The option or key that states it.
    weeks : float or None
        The weeks that give these pulls, if weeks are stated.
    later : End or None
        The end that would come next, if there is another one.
    """

    pulls: int
    name: str
    weeks: float | None = None
    later: End | None = None

    @property
    def in_words(self) -> str:
        """Why this end and not the later one; empty if there is only one.

        Examples
        --------
        >>> End(70, "--weeks", 4.0, End(500, "policy.max_pulls")).in_words
        '--weeks; policy.max_pulls would be 500'
        >>> End(50, "policy.max_pulls", None, End(70, "--weeks", 4.0)).in_words
        'policy.max_pulls; 4 weeks give 70 pulls'
        """
        if self.later is None:
            return ""
        if self.later.weeks is None:
            return f"{self.name}; {self.later.name} would be {self.later.pulls:,}"
        weeks = f"{self.later.weeks:g} week{'' if self.later.weeks == 1 else 's'}"
        return f"{self.name}; {weeks} give {plural(self.later.pulls, 'pull')}"


@dataclass(frozen=True)
class FoundWith:
    """The smallest effects that are found with a given number of pulls.

    Parameters
    ----------
    pulls : int
        The number of pulls.
    effects : tuple of SmallestEffect
        One for each power.
    values : tuple of mapping of str to float
        The true values at each of these effects, by label; empty if there is no such effect.
    end : End
        What ends the study after that many pulls.
    """

    pulls: int
    effects: tuple[SmallestEffect, ...]
    values: tuple[Mapping[str, float], ...]
    end: End

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON's own types."""
        pairs = zip(self.effects, self.values, strict=True)
        effects = [{**effect.to_dict(), "values": dict(values)} for effect, values in pairs]
        return {"pulls": self.pulls, "ends_by": self.end.name, "effects": effects}


@dataclass(frozen=True)
class Plan:
    """What an experiment will take, if the environment is as assumed.

    Parameters
    ----------
    problem : Problem
        The problem planned for.
    delta : float or None
        Accepted probability of a wrong answer; None if nothing depends on it.
    truth : Truth
        The truth in the assumed environment: the right answer, and others that are equally right.
    complexity : Complexity or None
        T* with certified bounds on both sides, and the optimal allocation; None in a family
        without T*.
    certifying : mapping of str to int or None
        By arm, for a fixed budget: the number of rows at which its verdict is expected to be
        certain; None if no number is enough, or in a family without fixed budgets.
    simulation : Simulation
        Runs of the policy in that environment; up to 10,000 pulls if no number of pulls is enough
        and `max_pulls` is not set.
    range_warning : str or None
        The cost of a reward range that is wider than necessary, if it exceeds the cost of the
        rewards' spread.
    about : str or None
        What a reader must know about a plan that is based on the rows of a table.
    found_with : FoundWith or None
        The effects that are found with a given number of pulls, if this was requested.
    about_losses : str or None
        What the plan leaves out if each result that is never told counts as its worst value, and
        how to plan for it; None otherwise.
    comparators : tuple of Comparator
        The usual designs for the same means; empty if there are none.
    """

    problem: Problem
    delta: float | None
    truth: Truth
    complexity: Complexity | None
    certifying: Mapping[str, int | None] | None
    simulation: Simulation
    range_warning: str | None = None
    about: str | None = None
    found_with: FoundWith | None = None
    about_losses: str | None = None
    comparators: tuple[Comparator, ...] = ()

    @property
    def answer(self) -> Any:
        """The right answer in the assumed environment; None for "no arm"."""
        return self.truth.best

    @property
    def right(self) -> tuple[str, ...]:
        """Labels that a right answer may name, if several answers are right; otherwise empty."""
        labels = self.truth.interchangeable
        return tuple("no arm" if label is None else str(label) for label in labels)

    @property
    def assumes(self) -> str | None:
        """Assumptions of the bound, or of the rows for certain verdicts; None without either."""
        if self.certifying is not None:
            return _CERTIFYING_ASSUMES
        if self.complexity is None or self.complexity.allocation is None or self.delta is None:
            return None
        errors = (
            f"a rule that is wrong with probability at most {self.delta:g}, whatever the means are"
        )
        return f"{errors}, and {self.complexity.assumes}"

    @property
    def rules_bounded(self) -> str:
        """The rules that cannot beat the bound, in words: all, or those that give the answer."""
        if self.complexity is not None and IGNORES_PREDICTIONS in self.complexity.assumes:
            return "for rules that ignore predictions"
        allows = _allows_several(self.problem)
        return "whatever the rule" + (", if it gives this answer" if allows else "")

    @property
    def lower_bound(self) -> float | None:
        """The mean number of pulls that every rule needs at least; None in a family without T*."""
        if self.complexity is None or self.delta is None:
            return None
        return self.complexity.lower_bound(self.delta)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON's own types."""
        return {
            "about": self.about,
            "delta": self.delta,
            "answer": self.answer,
            "right": list(self.right),
            "tied": self.truth.tied,
            "assumes": self.assumes,
            **({} if self.complexity is None else self._of(self.complexity)),
            **({} if self.certifying is None else {"certifying_budget": dict(self.certifying)}),
            "range_warning": self.range_warning,
            "about_losses": self.about_losses,
            "simulated": self.simulation.summary().to_dict(),
            **self._of_comparators(),
            **({} if self.found_with is None else {"found_with": self.found_with.to_dict()}),
        }

    def _of_comparators(self) -> dict[str, Any]:
        if not self.comparators:
            return {}
        designs = [one.to_dict() for one in self.comparators]
        return {"comparators": designs, "comparators_assume": ASSUMPTIONS}

    def _of(self, complexity: Complexity) -> dict[str, Any]:
        return {
            "complexity": complexity.value,
            "complexity_lower": complexity.lower,
            "complexity_upper": complexity.upper,
            "reason": complexity.reason,
            "lower_bound": self.lower_bound,
            "allocation": self._allocation(complexity),
        }

    def _allocation(self, complexity: Complexity) -> list[dict[str, Any]] | None:
        if complexity.allocation is None:
            return None
        shares = np.ravel(complexity.allocation).tolist()
        rows = zip(self.problem.action_labels, shares, strict=True)
        return [{**labels, "share": share} for labels, share in rows]


def make_plan(configuration: Configuration, delta: float | None = None) -> Plan:
    """Return the plan of a configuration; `delta` replaces the configured one.

    Raises
    ------
    InvalidArgument
        If a delta is given, but neither the policy nor a bound depends on one.
    """
    environment = configuration.planned
    given = configuration.plan.delta if delta is None else delta
    delta = _delta(configuration) if delta is None else delta
    family, own = family_of(configuration.problem.family), configuration.policy.delta is not None
    complexity = complexity_for(configuration.policy, environment)
    certifying = family.certifying_budgets(environment, delta) if complexity is None else None
    has_delta = own or complexity is not None or certifying is not None
    if given is not None and not has_delta:
        name = type(configuration.policy).__name__
        raise InvalidArgument("delta", f"must be left out: {name} has none", given)
    simulation = simulate_configuration(
        configuration, delta=delta, seed=configuration.study.seed or 0, complexity=complexity
    )
    return Plan(
        configuration.problem,
        delta if has_delta else None,
        environment.truth,
        complexity,
        certifying,
        simulation,
        range_warning(environment, complexity.allocation)
        if complexity is not None and family.offers(Family.stds)
        else None,
        configuration.about,
        about_losses=_about_losses(configuration),
        comparators=_usual_designs(configuration, delta if own else None),
    )


def _usual_designs(configuration: Configuration, delta: float | None) -> tuple[Comparator, ...]:
    """Return the usual designs, if the means are as assumed."""
    assumed = Scenario("full", configuration.planned)
    return comparators_of(assumed, assumed, delta, _LEVEL, configuration.study.seed or 0)


def _about_losses(configuration: Configuration) -> str | None:
    """Return how to plan for results that are never told, if each counts as its worst value."""
    problem = configuration.problem
    ranges = ("reward_range", "measure_ranges", "outcome_range")
    is_bounded = any(getattr(problem, name, None) is not None for name in ranges)
    stated = configuration.policy.get_params().get("losses")
    if stated != "informative" or not is_bounded:
        return None
    has_scenarios = family_of(problem.family).offers(Family.at_effect)
    return _ABOUT_LOSSES + (_HOW_TO_PLAN_LOSSES if has_scenarios else "")


def find_effects(configuration: Configuration, end: End, delta: float | None = None) -> FoundWith:
    """Return the smallest effects that the configured policy finds until that end."""
    policy, environment, plan = configuration.policy, configuration.planned, configuration.plan
    pulls = end.pulls
    delta = _delta(configuration) if delta is None else delta
    number = plan.replications or _REPLICATIONS_OF_EFFECTS
    runs = plural(number, "run")
    say(f"Looking for the effect that {pulls:,} pulls can detect, {runs} at a time ...", err=True)
    found = smallest_effects(
        policy.clone(delta=delta) if delta != _own_delta(policy, delta) else policy,
        environment,
        pulls,
        replications=number,
        seed=configuration.study.seed or 0,
        control=plan.control,
        parallel=plan.in_flight,
        progress=True,
    )
    true_values = family_of(environment.problem.family).values
    values = [
        {}
        if one.effect is None
        else true_values(at_effect(environment, one.effect, plan.control).environment)
        for one in found
    ]
    return FoundWith(pulls, tuple(found), tuple(values), end)


def end_of(
    configuration: Configuration, pulls: int | None = None, weeks: float | None = None
) -> End | None:
    """Return what ends a study first: given pulls or weeks, or a limit of its file.

    A given number of pulls replaces `plan.max_pulls`, but not the limit of the policy. None if
    neither is given.

    Raises
    ------
    InvalidArgument
        As `pulls_in`.
    """
    if weeks is not None:
        given = End(pulls_in(configuration, weeks), "--weeks", weeks)
    elif pulls is not None:
        given = End(pulls, "--pulls")
    else:
        return None
    own, planned = configuration.policy.get_params(), configuration.plan.longest
    ends = [given]
    ends += [End(own[name], f"policy.{name}") for name in _PULL_CAPS if own.get(name) is not None]
    if weeks is not None and planned is not None:
        ends.append(End(planned, "plan.max_pulls"))
    first, *later = sorted(ends, key=lambda end: end.pulls)
    return replace(first, later=later[0]) if later else first


def pulls_in(configuration: Configuration, weeks: float) -> int:
    """Return the number of pulls in that many weeks.

    Raises
    ------
    InvalidArgument
        If the file does not state the pulls per day, or there would be no pull.
    """
    per_day = configuration.plan.pulls_per_day
    if per_day is None:
        raise InvalidArgument("plan.pulls_per_day", "is required with --weeks")
    pulls = math.floor(7 * per_day * weeks)
    if not 1 <= pulls < 2**62:
        raise InvalidArgument(
            "--weeks", f"must have at least one pull, at {per_day:g} a day", weeks
        )
    return pulls


def _reason_for_a_cap(configuration: Configuration, complexity: Complexity | None) -> str | None:
    """Return why runs might never end without a limit; None if they will."""
    policy = configuration.policy
    if configuration.plan.longest is not None or policy.endless:
        return None
    if any(policy.get_params().get(name) is not None for name in _CAPS):
        return None
    if complexity is not None:
        return complexity.reason or None
    tied = configuration.planned.truth.interchangeable
    if not tied or _allows_several(configuration.problem):
        return None
    return f"{' and '.join(map(repr, tied))} tie for best"


def _allows_several(problem: Problem) -> bool:
    """Return whether a tolerance makes several answers right."""
    return problem.tolerance > 0.0 or problem.floor_tolerance > 0.0


def range_warning(environment: Any, weights: Any) -> str | None:
    """Return the cost of a range that is too wide for the assumed means; None if it is small.

    A unit of evidence takes as many results as the larger of two terms, one for the rewards' spread
    and one for the range: see `EvidencePrice`. A range cannot be narrower than the distance between
    the rewards.
    """
    stated = environment.problem.reward_range
    if stated is None or weights is None:
        return None
    price, (low, high) = environment.evidence_price(weights), environment.reward_span
    width = stated[1] - stated[0]
    if not 0.0 < price.reach < math.inf:
        return None
    enough = max(high - low, price.cheap_width)
    if width <= enough * _WIDER_AT_LITTLE_COST:
        return None
    return (
        f"the range is {shown_number(width)} wide: a unit of evidence then takes about "
        f"{_rounded(price.of_range(width))} results; the spread of the rewards alone requires "
        f"only {_rounded(price.spread)}. A range no wider than {shown_number(enough, 3)} would "
        "cost little, if it contains every possible reward"
    )


def _rounded(number: float) -> str:
    """Return a number with two significant digits, as an estimate deserves."""
    return shown_number(float(f"{number:.2g}"))


def simulate_configuration(
    configuration: Configuration,
    *,
    seed: int,
    delta: float | None = None,
    replications: int | None = None,
    complexity: Complexity | None = None,
) -> Simulation:
    """Return runs of the configuration's policy in its assumed environment.

    If the file has no `max_pulls`, a run ends after 100 times the lower bound for all rules (for
    the noise that the policy assumes, if that is larger); if no number of pulls is enough, after
    10,000; but never before 100 times its first pulls.
    """
    if delta is None:
        delta = _delta(configuration)
    environment, plan, policy = configuration.planned, configuration.plan, configuration.policy
    if complexity is None:
        complexity = complexity_for(policy, environment)
    bound = _finite_bound(complexity, delta)
    horizon = plan.longest
    if horizon is None and (reason := _reason_for_a_cap(configuration, complexity)):
        horizon = max(HORIZON_OF_TIES, _HORIZON_IN_STARTS * _first_pulls(environment, policy))
        say(f"{reason}: each run ends after {plural(horizon, 'pull')}, unless it decides", err=True)
    elif horizon is None and bound is not None:
        horizon = _cap(bound, environment, policy)
    if horizon is not None:
        horizon = policy.horizon_for(horizon)
    number = replications or plan.replications or _REPLICATIONS
    runs = plural(number, "run")
    say(f"Simulating {runs} of {type(policy).__name__} ...", err=True)
    found = simulate(
        policy.clone(delta=delta) if delta != _own_delta(policy, delta) else policy,
        accrued(configuration),
        replications=number,
        seed=seed,
        horizon=horizon,
        parallel=plan.in_flight,
        progress=True,
        lower_bound=bound,
    )
    unit = "" if plan.days_to_result is None or plan.pulls_per_day is None else "days"
    return replace(found, about=configuration.about, time_unit=unit)


def accrued(configuration: Configuration) -> Environment:
    """Return the environment to simulate in: with accrual and delay if the plan has both."""
    environment, plan = configuration.planned, configuration.plan
    if plan.days_to_result is None or plan.pulls_per_day is None:
        return environment
    return SteadyAccrual(environment, plan.pulls_per_day, plan.days_to_result)


def _cap(bound: float, environment: Environment, policy: Policy) -> int:
    """Return the length limit of a run: far more pulls than a policy that can decide needs."""
    reckoned = _HORIZON_IN_BOUNDS * bound * _noise_reckoned_with(environment)
    return max(math.ceil(reckoned), _HORIZON_IN_STARTS * _first_pulls(environment, policy))


def _first_pulls(environment: Environment, policy: Policy) -> int:
    """Return how many pulls a policy makes before it can learn anything."""
    given = policy.get_params()
    every_action = environment.problem.n_actions * (given.get("initial_pulls") or 1)
    return int(every_action + (given.get("batch") or 0))


def _noise_reckoned_with(environment: Any) -> float:
    """Return the ratio of the problem's variance to the environment's, at least 1."""
    family = family_of(environment.problem.family)
    if environment.problem.estimates_noise or not family.offers(Family.stds):
        return 1.0
    stds = np.maximum(family.stds(environment), _SMALLEST_SPREAD)
    return max(1.0, float(np.max(environment.problem.scale) ** 2 / np.mean(stds**2)))


def complexity_for(policy: Policy, environment: Environment) -> Complexity | None:
    """Return the complexity to compare a policy's pulls with; None if there is none."""
    family = family_of(environment.problem.family)
    if family.offers(Family.certifying_budgets) and policy.delta is None:
        return None
    return complexity_in(environment)


def complexity_in(environment: Environment) -> Complexity | None:
    """Return the complexity of finding the answer in an environment; None in a family without."""
    family = family_of(environment.problem.family)
    if not family.has_bound(environment):
        return None
    say("Computing the lower bound for all rules ...", err=True)
    return family.complexity(environment)


def _finite_bound(complexity: Complexity | None, delta: float) -> float | None:
    bound = math.inf if complexity is None else complexity.lower_bound(delta)
    return bound if math.isfinite(bound) and bound > 0 else None


def _delta(configuration: Configuration) -> float:
    own = _own_delta(configuration.policy, 0.05)
    return own if configuration.plan.delta is None else configuration.plan.delta


def _own_delta(policy: Policy, otherwise: float) -> float:
    return otherwise if policy.delta is None else policy.delta
