"""What is found from the results of linear arms: the answer, estimates, and contradictions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.recommendation import Estimate, Guarantee, Status
from fairtrial.linear._limits import Requirement
from fairtrial.linear._units import Units
from fairtrial.linear.policies.answers import NOTHING_YET, STARTING, DistinctCandidates
from fairtrial.linear.policies.checks import contradiction
from fairtrial.linear.policies.race import Standing

__all__ = ["ILL_CONDITIONED", "Findings"]

Floats = NDArray[np.float64]

ILL_CONDITIONED = 1e12
"""A larger condition number of the Gram matrix (columns scaled) gives a warning."""


_MODEL = "linear in the features of its arm"
"""What every rule's guarantee assumes about mean rewards."""


class Findings:
    """What a rule has found so far, from how it stands.

    Parameters
    ----------
    answers : DistinctCandidates
        What users call candidates.
    units : Units
        The problem in the numbers of policies.
    standing : Standing
        How the rule stands.
    level : float
        The probability with which intervals ever fail.
    """

    def __init__(
        self, answers: DistinctCandidates, units: Units, standing: Standing, level: float
    ) -> None:
        self._answers = answers
        self._units = units
        self._problem = units.problem
        self.standing = standing
        self._level = level

    # --------------------------------------------------------------------- answers

    @property
    def answer(self) -> Sequence[int] | None:
        """The answer, or the leaders, as distinct candidates; None if there are none yet."""
        return self.best_first(self.standing.leaders)[: self._problem.top] or None

    @property
    def nothing_yet(self) -> str:
        """Why nothing leads yet."""
        return STARTING if self._units.can_be_fitted(self.standing.counts) else NOTHING_YET

    @property
    def finished(self) -> bool:
        """Whether the best is found, or cannot be."""
        return self.standing.found_best or self.standing.hopeless

    @property
    def decided(self) -> bool:
        """Whether there is an answer."""
        return self.standing.found_best and not self._hides_the_best

    @property
    def _hides_the_best(self) -> bool:
        """Whether candidates of the answer have equal features but may have different values."""
        # Misspecified means of candidates with equal features may differ by twice the bound.
        if 2.0 * self._problem.misspecification <= self._problem.tolerance:
            return False
        groups = self._problem.answer_groups
        return any(len(groups[index]) > 1 for index in self.answer or ())

    @property
    def dead_end(self) -> str | None:
        """Why no more results can decide, if that is so."""
        if not self.standing.hopeless:
            return None
        return f"{self._differing_means} can hide which is the best"

    @property
    def hidden_best(self) -> str | None:
        """Why the best that was found is no answer, if that is so."""
        if not self.standing.found_best or self.decided:
            return None
        twins = ", ".join(map(repr, self._answers.members(self.answer or ())))
        return (
            f"{twins}: {self._differing_means} can hide which of those with equal features is best"
        )

    @property
    def _differing_means(self) -> str:
        return f"means that differ by {self._problem.misspecification:g} from linear ones"

    def live(self) -> Sequence[int]:
        """Return the distinct candidates that are not ruled out."""
        if self.standing.found_best:
            return list(self.answer or ())
        return self.standing.live

    def candidates(self) -> tuple[str, ...] | None:
        """Return the labels of the candidates that are not ruled out, if they are a valid set."""
        found = self.standing.confidence_set
        if found is None:
            return None
        is_answer = self.standing.found_best and not self.standing.keeps_set
        return tuple(self._answers.members(self.live() if self.decided or is_answer else found))

    def more_evidence(self, status: Status) -> dict[str, Any]:
        """Return which answers have equal features; for a rule that failed, what remains."""
        more: dict[str, Any] = {}
        named = [index for index in self.answer or () if index < len(self._problem.answer_groups)]
        groups = [self._problem.answer_groups[index] for index in named]
        if any(len(group) > 1 for group in groups):
            more["identical"] = [
                [self._problem.answers[index] for index in group] for group in groups
            ]
        if status == "undecided":
            more["not_ruled_out"] = self._answers.members(self.live())
        return more

    def best_first(self, candidates: Iterable[int]) -> list[int]:
        """Return candidates in the order of their fitted values; ties in the given order."""
        fitted = self._fit()
        order = list(map(int, candidates))
        if fitted is None or len(order) < 2:
            return order
        rows = self._problem.reduced.candidates
        # "No arm", if it is included, comes last.
        values = np.append(rows @ fitted[0], -math.inf)[order]
        return [order[index] for index in np.argsort(-values, kind="stable")]

    # ----------------------------------------------------------- what results contradict

    def as_it_stands(self, promise: Guarantee, amended: int, told: int) -> Guarantee:
        """Return the guarantee with its assumptions, weakened by the events of the study."""
        problem = self._problem
        model = _MODEL
        if not problem.has_intercept:
            model += ", and 0 where they are all 0"
        if problem.misspecification > 0.0:
            model += f", within {problem.misspecification:g}"
        stated = tuple(text.replace(_MODEL, model) for text in promise.assumptions)
        if problem.geometry.has_rounded_columns:
            stated = (
                *stated,
                "features that depend on others up to rounding depend on them exactly",
            )
        promise = replace(promise, assumptions=stated)
        if problem.floor_tolerance:
            near = f"an answer that misses a limit by at most {problem.floor_tolerance:g} keeps it"
            promise = replace(promise, statement=f"{promise.statement}; {near}")
        if problem.tolerance:
            near = f"an answer within {problem.tolerance:g} of the best is right"
            promise = replace(promise, statement=f"{promise.statement}; {near}")
        if problem.estimates_noise:
            promise = promise.weakened("the estimated noise is the true one, the same for all arms")
        against = contradiction(problem, *self.standing.records)
        if against is not None:
            promise = promise.weakened(against)
        elif self.standing.found_best and told and not self._could_be_tested:
            promise = promise.weakened(
                "mean rewards are linear in the features; too few different arms were pulled to "
                "test that"
            )
        event = "came for reasons unrelated to the values"
        return promise.weakened_by(amended, "correction", event)

    @property
    def _could_be_tested(self) -> bool:
        """Whether enough different arms were pulled to test the fit, or all were."""
        arms = self._problem.distinct_arms
        pulled = int((self.standing.counts[arms] > 0.0).sum())
        return pulled > self._problem.rank or len(arms) <= self._problem.rank

    def warnings(self) -> tuple[str, ...]:
        """Return what the results contradict: the stated noise, or that means are linear."""
        against = contradiction(self._problem, *self.standing.records)
        return () if against is None else (f"the results contradict an assumption: {against}",)

    # ------------------------------------------------------------------- progress

    def details(self, warnings: Iterable[str]) -> dict[str, Any]:
        """Return what a rule adds to its progress: rulings, and what there is to be warned of."""
        warned = [*self._inaccuracies(), *warnings]
        return self._rulings() | ({"warnings": warned} if warned else {})

    def _rulings(self) -> dict[str, Any]:
        """Return the number of candidates that are not ruled out, and whether each one is."""
        live = frozenset(self.live())
        none = int(self._problem.has_limits)
        labels = self._answers.labels(range(len(self._problem.answer_groups) + none))
        answers = [
            {"answer": label, "rejected": index not in live} for index, label in enumerate(labels)
        ]
        return {"live": len(live), "answers": answers}

    def _inaccuracies(self) -> list[str]:
        """Return warnings about the accuracy of numbers."""
        counts = self.standing.counts
        fitted = self._is_estimable
        condition = self._problem.condition(counts) if fitted else 0.0
        if condition <= ILL_CONDITIONED:
            return []
        warning = (
            f"IllConditioned: the features pulled so far are nearly dependent (condition "
            f"{condition:.1e} of their Gram matrix, columns scaled); estimates lose digits"
        )
        return [warning]

    # ------------------------------------------------------------------- estimates

    def estimates(self) -> tuple[tuple[Estimate, ...], tuple[Estimate, ...]]:
        """Return estimates of all arms and candidates by the linear model.

        Their intervals hold for all of them and at all times at once.
        """
        fitted = self._fit()
        return self._arm_estimates(fitted), self._candidate_estimates(fitted)

    def _arm_estimates(self, fitted: tuple[Floats, Floats, float] | None) -> tuple[Estimate, ...]:
        problem = self._problem
        counts = self.standing.counts
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

    def limited(self) -> tuple[Estimate, ...]:
        """Return the means in limits with their own names, for candidates that have such limits."""
        problem, fitted = self._problem, self._fit()
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
        problem = self._problem
        rows = one.features - (one.features[one.control] if one.control >= 0 else 0.0)
        values = half = np.full(len(rows), np.nan)
        results = int(self.standing.counts.sum())
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
        problem = self._problem
        own = problem.candidates is None
        pulls = self.standing.counts if own else np.zeros(len(problem.answers))
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
        if self._problem.misspecification > 0.0:
            weights = self.standing.counts * self._units.deviations
            pulled = np.flatnonzero(weights)
            arms = self._problem.reduced.arms[pulled]
            reach += np.abs(rows @ root.T @ root @ arms.T) @ weights[pulled]
        return reach

    def _estimate(
        self, labels: Mapping[str, Any], pulls: int, mean: float, half: float, in_range: bool
    ) -> Estimate:
        low, high = (self._problem.reward_range if in_range else None) or (-math.inf, math.inf)
        known = math.isfinite(mean)
        bounded = known and (math.isfinite(half) or math.isfinite(low))
        return Estimate(
            labels=labels,
            pulls=pulls,
            mean=float(mean) if known else None,
            lower=float(min(max(mean - half, low), high)) if bounded else None,
            upper=float(max(min(mean + half, high), low)) if bounded else None,
        )

    def _fit(self) -> tuple[Floats, Floats, float] | None:
        """Return theta in the reduced coordinates, the whitener and the radius; None at first."""
        counts, sums = self.standing.counts, self.standing.sums
        if not self._is_estimable:
            return None
        arms = self._problem.reduced.arms
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
        spread = max(0.2, 1.0 / max(1, self.standing.initial_pulls))
        prior = spread * (arms.T * initial) @ arms
        _, log_det = np.linalg.slogdet(np.eye(len(prior)) + np.linalg.solve(prior, gram))
        level = 2.0 * (1.0 + spread) * (0.5 * log_det - math.log(self._level))
        return theta, root, math.sqrt(level * self.standing.noise_variance)

    @property
    def _is_estimable(self) -> bool:
        """Whether the results so far measure every direction."""
        known = self.standing.is_estimable
        return self._units.can_be_fitted(self.standing.counts) if known is None else known

    @property
    def _initial_counts(self) -> Floats:
        """The initial pulls of every arm, at least one for each arm of a basis; shape (K,)."""
        known = self.standing.initial_counts
        if known is not None:
            return known
        counts = np.zeros(len(self._problem.arms))
        counts[self._problem.basis_arms] = max(1, self.standing.initial_pulls)
        return counts


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
