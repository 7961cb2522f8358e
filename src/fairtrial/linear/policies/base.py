"""What all policies of the family share: caps, estimates, and reports."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.fixed_confidence import FixedConfidencePolicy
from fairtrial.core.policy import Choice
from fairtrial.core.pull import Pull
from fairtrial.core.recommendation import PREDICTABLE, Estimate, Guarantee, Status
from fairtrial.core.validation import check_instance
from fairtrial.errors import InvalidArgument
from fairtrial.linear._limits import Requirement
from fairtrial.linear._units import Units
from fairtrial.linear.environments import ArmEnvironment
from fairtrial.linear.policies.answers import DistinctCandidates
from fairtrial.linear.policies.checks import contradiction
from fairtrial.linear.policies.race import Race
from fairtrial.linear.problem import Problem

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


ILL_CONDITIONED = 1e12
"""A larger condition number of the Gram matrix (columns scaled) gives a warning."""


_MODEL = "linear in the features of its arm"
"""What every rule's guarantee assumes about mean rewards."""


class LinearPolicy(FixedConfidencePolicy):
    """What all policies of the family share: the problem as arrays, and the reports."""

    version = 3
    problem: Problem
    environments = ArmEnvironment
    _nothing_yet = "not every direction has been measured yet"

    _takes_limits: ClassVar[bool] = False
    """Whether the rule is proven if candidates must keep limits."""

    _answers: DistinctCandidates

    _race: Race
    """The state of the rule, made by its constructor; block betting keeps its own instead."""

    def __init__(
        self,
        problem: Problem,
        delta: float | None,
        max_pulls: int | None,
        seed: int | np.random.Generator | None,
    ) -> None:
        check_instance("problem", problem, Problem)
        if problem.has_limits and not self._takes_limits:
            accepted = "must have no floors, ceilings, margin, superiority or limits: only "
            raise InvalidArgument("problem", f"{accepted}BlockBetting takes them")
        super().__init__(problem, delta, max_pulls, seed)
        self._answers = DistinctCandidates(problem)
        self._units = Units(problem)
        # Misspecified means of candidates with equal features may differ by twice the bound.
        self._twins_may_differ = 2.0 * problem.misspecification > problem.tolerance

    # ------------------------------------------------------------------- contract

    def choose(self) -> Choice:
        """Return the next pull that the rule wants; None if it needs results first."""
        return self._race.choose()

    def learn(self, pull: Pull, outcome: float) -> None:
        """Take one reward, and test whether the evidence is sufficient."""
        reward = self._units.reward(pull.action, outcome)
        in_flight = pull.number in self._outstanding
        self._race.learn(pull, reward, in_flight, was_lost=self.is_lost(pull))

    def on_failure(self, pull: Pull, reason: str) -> None:
        """Free the pull's place: the rule pulls it again if it still wants it."""
        self._race.lose(pull)

    def on_amend(self, pull: Pull, old: float, new: float) -> None:
        """Correct a reward; the evidence is then computed from the corrected data."""
        before, after = (self._units.reward(pull.action, value) for value in (old, new))
        self._race.amend(pull, before, after)
        self._amended += 1

    def _simulate(
        self, environment: ArmEnvironment, generator: np.random.Generator, horizon: int
    ) -> Floats:
        self._race.run(environment, generator, horizon)
        counts = self._data[0]
        self.told = self.asked = int(counts.sum())
        return counts

    def metrics(self) -> dict[str, float]:
        """Return metrics of a run besides its result."""
        return self._race.metrics

    # ---------------------------------------------------- the state of the race

    @property
    def _found_best(self) -> bool:
        """Whether the rule has found the best of the distinct candidates."""
        return self._race.found_best

    @property
    def _hopeless(self) -> bool:
        """Whether the rule has found that misspecified means can hide the best."""
        return self._race.hopeless

    @property
    def _answer(self) -> Sequence[int] | None:
        """The answer, or the leaders, as distinct candidates; None if there are none yet."""
        return self._best_first(self._race.leaders)[: self.problem.top] or None

    def _live(self) -> Sequence[int]:
        """Return the distinct candidates that are not ruled out."""
        return list(self._answer or ()) if self._found_best else self._race.live

    def _confidence_set(self) -> Sequence[int] | None:
        """Return candidates that include the best at all times; None if there is no such set."""
        known = self._race.confidence_set
        return self._live() if known is not None and self._found_best else known

    def _evidence(self) -> tuple[float | None, float | None]:
        return self._race.evidence

    @property
    def _data(self) -> tuple[Floats, Floats]:
        """Counts and sums by arm, shape (K,), of rewards to be maximised, in units of the noise."""
        return self._race.counts, self._race.sums

    @property
    def _records(self) -> tuple[Floats, Floats]:
        """The records of rewards by arm: now, and when theta could first be estimated."""
        return self._race.records

    @property
    def _initial(self) -> int:
        """Pulls of every arm of the basis that come before all others."""
        return self._race.initial_pulls

    @property
    def _noise_variance(self) -> float:
        """Variance of a reward relative to the stated one; infinite while it is unknown."""
        return self._race.noise_variance

    @property
    def guarantee(self) -> Guarantee:
        """The rule's guarantee, weakened if the data no longer fit its assumptions."""
        promise = self._race.promise
        if self._race.follows_results:
            promise = promise.assuming(PREDICTABLE)
        return self._race.weakened(self._as_it_stands(promise), len(self._lost))

    # --------------------------------------------------------------------- shared

    @property
    def _finished(self) -> bool:
        return self._found_best or self._hopeless

    @property
    def _decided(self) -> bool:
        return self._found_best and not self._hides_the_best

    @property
    def _hides_the_best(self) -> bool:
        """Whether candidates of the answer have equal features but may have different values."""
        if not self._twins_may_differ:
            return False
        groups = self.problem.answer_groups
        return any(len(groups[index]) > 1 for index in self._answer or ())

    @property
    def _ending(self) -> str:
        if not self._hopeless:
            return super()._ending
        return f"{self._differing_means} can hide which is the best"

    @property
    def _differing_means(self) -> str:
        return f"means that differ by {self.problem.misspecification:g} from linear ones"

    def _reason(self, status: Status, answer: Sequence[int] | None) -> str:
        if not (self._found_best and status == "undecided") or answer is None:
            return super()._reason(status, answer)
        twins = ", ".join(map(repr, self._answers.members(answer)))
        return (
            f"{twins}: {self._differing_means} can hide which of those with equal features is best"
        )

    def _candidates(self) -> tuple[str, ...] | None:
        """Return the labels of the candidates that are not ruled out, if they are a valid set."""
        found = self._confidence_set()
        if found is None:
            return None
        return tuple(self._answers.members((self._answer or ()) if self._decided else found))

    def _more_evidence(self) -> dict[str, Any]:
        """Return which answers have equal features; for a rule that failed, what remains."""
        more: dict[str, Any] = {}
        named = [index for index in self._answer or () if index < len(self.problem.answer_groups)]
        groups = [self.problem.answer_groups[index] for index in named]
        if any(len(group) > 1 for group in groups):
            more["identical"] = [
                [self.problem.answers[index] for index in group] for group in groups
            ]
        if self._status == "undecided":
            more["not_ruled_out"] = self._answers.members(self._live())
        return more

    def _best_first(self, candidates: Iterable[int]) -> list[int]:
        """Return candidates in the order of their fitted values; ties in the given order."""
        fitted = self._fit()
        order = list(map(int, candidates))
        if fitted is None or len(order) < 2:
            return order
        rows = self.problem.reduced.candidates
        # "No arm", if it is included, comes last.
        values = np.append(rows @ fitted[0], -math.inf)[order]
        return [order[index] for index in np.argsort(-values, kind="stable")]

    def _as_it_stands(self, promise: Guarantee) -> Guarantee:
        """Return the guarantee with its assumptions, weakened by the events of the study."""
        problem = self.problem
        model = _MODEL
        if not problem.has_intercept:
            model += ", and 0 where they are all 0"
        if problem.misspecification > 0.0:
            model += f", within {problem.misspecification:g}"
        stated = tuple(text.replace(_MODEL, model) for text in promise.assumptions)
        if problem.geometry.has_rounded_columns:
            stated = (*stated, "features that depend on others up to rounding are meant to")
        promise = replace(promise, assumptions=stated)
        if problem.floor_tolerance:
            near = f"an answer that misses a limit by at most {problem.floor_tolerance:g} keeps it"
            promise = replace(promise, statement=f"{promise.statement}; {near}")
        if problem.tolerance:
            near = f"an answer within {problem.tolerance:g} of the best is right"
            promise = replace(promise, statement=f"{promise.statement}; {near}")
        if problem.estimates_noise:
            promise = promise.weakened("the estimated noise is the true one, the same for all arms")
        against = contradiction(problem, *self._records)
        if against is not None:
            promise = promise.weakened(against)
        elif self._found_best and not self._could_be_tested:
            promise = promise.weakened(
                "mean rewards are linear in the features; too few different arms were pulled to "
                "test that"
            )
        event = "came for reasons unrelated to the values"
        return promise.weakened_by(self._amended, "correction", event)

    @property
    def _could_be_tested(self) -> bool:
        """Whether enough different arms were pulled to test the fit, or all were."""
        arms = self.problem.distinct_arms
        pulled = int((self._data[0][arms] > 0.0).sum())
        return pulled > self.problem.rank or len(arms) <= self.problem.rank or not self.told

    # ------------------------------------------------------------------- progress

    def _details(self) -> dict[str, Any]:
        details = self._rulings()
        if warnings := self._warnings():
            details["warnings"] = warnings
        return {**details, **self._rule_details()}

    def _rule_details(self) -> dict[str, Any]:
        """Return details that only rules in phases, or with eliminations, have."""
        details: dict[str, Any] = {}
        if self._race.phase is not None:
            details["phase"] = self._race.phase
        if self._race.survivors is not None:
            details["survivors"] = self._answers.labels(self._race.survivors)
        return details

    def _rulings(self) -> dict[str, Any]:
        """Return the number of candidates that are not ruled out, and whether each one is."""
        live = frozenset(self._live())
        none = int(self.problem.has_limits)
        labels = self._answers.labels(range(len(self.problem.answer_groups) + none))
        answers = [
            {"answer": label, "rejected": index not in live} for index, label in enumerate(labels)
        ]
        return {"live": len(live), "answers": answers}

    def warnings(self) -> tuple[str, ...]:
        """Return what the results contradict: the stated noise, or that means are linear."""
        against = contradiction(self.problem, *self._records)
        return () if against is None else (f"the results contradict an assumption: {against}",)

    def _warnings(self) -> list[str]:
        """Return all warnings: about the accuracy of numbers, and about contradictions."""
        warnings = []
        counts = self._data[0]
        fitted = self._is_estimable
        condition = self.problem.condition(counts) if fitted else 0.0
        if condition > ILL_CONDITIONED:
            warnings.append(
                f"IllConditioned: the features pulled so far are nearly dependent (condition "
                f"{condition:.1e} of their Gram matrix, columns scaled); estimates lose digits"
            )
        return [*warnings, *self.warnings()]

    def _fit(self) -> tuple[Floats, Floats, float] | None:
        """Return theta in the reduced coordinates, the whitener and the radius; None at first."""
        counts, sums = self._data
        if not self._is_estimable:
            return None
        arms = self.problem.reduced.arms
        gram = (arms.T * counts) @ arms
        pulled = counts > 0.0
        rows = arms[pulled] * np.sqrt(counts[pulled])[:, np.newaxis]
        triangle: Floats = np.asarray(np.linalg.qr(rows, mode="r"))
        root: Floats = np.asarray(np.linalg.inv(triangle.T))
        theta = root.T @ (root @ (arms.T @ sums))
        theta += root.T @ (root @ (arms.T @ (sums - counts * (arms @ theta))))
        initial = self._initial_counts
        if (counts < initial).any() or np.linalg.matrix_rank(arms[initial > 0.0]) < arms.shape[1]:
            return theta, root, math.inf
        # The mixture level: its prior is a part of the initial pulls, which are in the data.
        spread = max(0.2, 1.0 / max(1, self._initial))
        prior = spread * (arms.T * initial) @ arms
        _, log_det = np.linalg.slogdet(np.eye(len(prior)) + np.linalg.solve(prior, gram))
        level = 2.0 * (1.0 + spread) * (0.5 * log_det - math.log(self._interval_level))
        return theta, root, math.sqrt(level * self._noise_variance)

    @property
    def _is_estimable(self) -> bool:
        """Whether the results so far measure every direction."""
        return self._units.can_be_fitted(self._data[0])

    @property
    def _initial_counts(self) -> Floats:
        """The initial pulls of every arm, at least one for each arm of a basis; shape (K,)."""
        counts = np.zeros(len(self.problem.arms))
        counts[self.problem.basis_arms] = max(1, self._initial)
        return counts

    @property
    def _interval_level(self) -> float:
        return self.delta

    def _estimates(self) -> tuple[tuple[Estimate, ...], tuple[Estimate, ...]]:
        """Return estimates of all arms and candidates by the linear model.

        Their intervals hold for all of them and at all times at once.
        """
        fitted = self._fit()
        return self._arm_estimates(fitted), self._candidate_estimates(fitted)

    def _arm_estimates(self, fitted: tuple[Floats, Floats, float] | None) -> tuple[Estimate, ...]:
        problem = self.problem
        counts, _ = self._data
        means = half = np.full(len(problem.arms), np.nan)
        if fitted is not None:
            theta, root, radius = fitted
            rows = problem.reduced.arms
            means = problem.sign * problem.scale * (rows @ theta)
            half = problem.scale * self._reach(rows, root, radius) + problem.misspecification
        found = [
            self._estimate(labels, int(count), mean, reach, in_range=True)
            for labels, count, mean, reach in zip(
                problem.action_labels, counts, means, half, strict=True
            )
        ]
        if problem.candidates is not None:
            return tuple(found)
        return with_limits(found, problem.sign, problem.floors, problem.ceilings)

    def _limited(self) -> tuple[Estimate, ...]:
        """Return the means in limits with their own names, for candidates that have such limits."""
        problem, fitted = self.problem, self._fit()
        found: list[Estimate] = []
        for name, limit in problem.limits.items():
            rows = [one for one in problem.requirements if one.name.startswith(f"limits[{name!r}]")]
            means = [one for one in rows if one.control < 0]
            differences = [one for one in rows if one.control >= 0]
            if means:
                bounds = limit.get("floors"), limit.get("ceilings")
                found += self._limited_estimates(name, means[0], fitted, *bounds)
            for one in differences:
                against = f"{name}, against {problem.control}"
                # The margin is a floor of the difference.
                floors = -problem.sign * limit["margin"]
                found += self._limited_estimates(against, one, fitted, floors, None)
        return tuple(one for one in found if not one.lower_limit is one.upper_limit is None)

    def _limited_estimates(
        self,
        name: str,
        one: Requirement,
        fitted: tuple[Floats, Floats, float] | None,
        floors: Floats | None,
        ceilings: Floats | None,
    ) -> tuple[Estimate, ...]:
        """Return estimates of the mean in a requirement, by candidate."""
        problem = self.problem
        rows = one.features - (one.features[one.control] if one.control >= 0 else 0.0)
        values = half = np.full(len(rows), np.nan)
        results = int(self._data[0].sum())
        if fitted is not None:
            theta, root, radius = fitted
            unit = float(problem.scale.max())
            places = rows @ problem.reduced.basis
            values = problem.sign * unit * (places @ theta)
            half = unit * self._reach(places, root, radius)
        found = [
            self._estimate(
                {"arm": label, "prediction": name}, results, value, reach, in_range=False
            )
            for label, value, reach in zip(problem.answers, values, half, strict=True)
        ]
        return with_limits(found, problem.sign, floors, ceilings)

    def _candidate_estimates(
        self, fitted: tuple[Floats, Floats, float] | None
    ) -> tuple[Estimate, ...]:
        problem = self.problem
        own = problem.candidates is None
        pulls = self._data[0] if own else np.zeros(len(problem.answers))
        values = half = np.full(len(problem.answers), np.nan)
        if fitted is not None:
            theta, root, radius = fitted
            rows, measured = problem.geometry.candidate_places
            unit = float(problem.scale.max())
            values = problem.sign * unit * (rows @ theta)
            half = unit * self._reach(rows, root, radius) + problem.misspecification
            values = np.where(measured, values, np.nan)
        found = [
            self._estimate({"arm": label}, int(count), value, reach, in_range=own)
            for label, count, value, reach in zip(problem.answers, pulls, values, half, strict=True)
        ]
        return with_limits(found, problem.sign, problem.floors, problem.ceilings)

    def _reach(self, rows: Floats, root: Floats, radius: float) -> Floats:
        """Return the possible error of estimates of rows, from noise and misspecified means."""
        lengths = np.linalg.norm(rows @ root.T, axis=1)
        reach = np.full(len(rows), radius)
        np.multiply(reach, lengths, out=reach, where=lengths > 0.0)
        reach[lengths == 0.0] = 0.0
        if self.problem.misspecification > 0.0:
            weights = self._data[0] * self._units.deviations
            pulled = np.flatnonzero(weights)
            arms = self.problem.reduced.arms[pulled]
            reach += np.abs(rows @ root.T @ root @ arms.T) @ weights[pulled]
        return reach

    def _estimate(
        self, labels: Mapping[str, Any], pulls: int, mean: float, half: float, in_range: bool
    ) -> Estimate:
        low, high = (self.problem.reward_range if in_range else None) or (-math.inf, math.inf)
        known = math.isfinite(mean)
        bounded = known and (math.isfinite(half) or math.isfinite(low))
        return Estimate(
            labels=labels,
            pulls=pulls,
            mean=float(mean) if known else None,
            lower=float(min(max(mean - half, low), high)) if bounded else None,
            upper=float(max(min(mean + half, high), low)) if bounded else None,
        )


def with_limits(
    estimates: Sequence[Estimate], sign: float, floors: Floats | None, ceilings: Floats | None
) -> tuple[Estimate, ...]:
    """Return estimates by candidate with their lower and upper limits."""
    lower, upper = (floors, ceilings) if sign > 0 else (ceilings, floors)
    return tuple(
        replace(one, lower_limit=_bound(lower, place), upper_limit=_bound(upper, place))
        for place, one in enumerate(estimates)
    )


def _bound(bounds: Floats | None, place: int) -> float | None:
    if bounds is None or not math.isfinite(bounds[place]):
        return None
    return float(bounds[place])


def refuse_several_answers(problem: Problem, policy: str) -> None:
    """Refuse a problem that wants more than one answer if the rule eliminates."""
    if problem.top > 1:
        raise InvalidArgument(
            "problem", f"must want one answer for {policy}; LinGapE gives several", problem.top
        )
