"""What is found from the results of linear arms: the answer, estimates, and contradictions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.progress_parts import AnswerStatus
from fairtrial.core.recommendation import Estimate, Guarantee, Status
from fairtrial.linear._limits import Requirement
from fairtrial.linear._units import Units
from fairtrial.linear.policies.answers import NOTHING_YET, STARTING, DistinctCandidates
from fairtrial.linear.policies.checks import contradiction
from fairtrial.linear.policies.race import Standing
from fairtrial.linear.policies.values import LinearResults, values_in_range
from fairtrial.linear.problem import Problem

__all__ = ["ILL_CONDITIONED", "Findings"]

Floats = NDArray[np.float64]

ILL_CONDITIONED = 1e12
"""A larger condition number of the Gram matrix (columns scaled) gives a warning."""


_MODEL = "linear in the features of its arm"
"""What every rule's guarantee assumes about mean rewards."""


_HALF_A_RANGE = 1.0
"""In units of the noise, because a reward in a range has the noise of half of it."""


class _Fit(NamedTuple):
    """A least-squares fit to the results that count.

    Attributes
    ----------
    theta : ndarray
        The estimate, in the reduced coordinates.
    centre : ndarray
        The middle of the ellipsoid: the estimate if missing results were in the middle of their
        range.
    root : ndarray
        The whitener of the data.
    prior_root : ndarray
        A root of the precision of the ellipsoid's prior.
    radius : float
        The radius of the ellipsoid; infinite if there is no interval yet.
    counts, missing : ndarray of shape (K,)
        Numbers of pulls in the fit, and of missing results among them.
    blocks : LinearResults or None
        The results of blocks, if intervals also come from these.
    """

    theta: Floats
    centre: Floats
    root: Floats
    prior_root: Floats
    radius: float
    counts: Floats
    missing: Floats
    blocks: LinearResults | None


class _Ends(NamedTuple):
    """Estimates and the ends of their intervals, in users' units."""

    mean: Floats
    lower: Floats
    upper: Floats


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
        The probability with which any of the intervals ever fails.
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
        order = list(map(int, candidates))
        if not self._is_estimable or len(order) < 2:
            return order
        theta, _ = self._solve(self.standing.counts, self.standing.sums)
        rows = self._problem.reduced.candidates
        # "No arm", if it is included, comes last.
        values = np.append(rows @ theta, -math.inf)[order]
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
        event = "came, for reasons assumed to be unrelated to the values"
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
        """Return further facts about a rule: what there is to be warned of."""
        warned = [*self._inaccuracies(), *warnings]
        return {"warnings": warned} if warned else {}

    def rulings(self) -> tuple[AnswerStatus, ...]:
        """Return for each candidate whether it is ruled out."""
        live = frozenset(self.live())
        none = int(self._problem.has_limits)
        labels = self._answers.labels(range(len(self._problem.answer_groups) + none))
        return tuple(
            AnswerStatus(label, rejected=index not in live) for index, label in enumerate(labels)
        )

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

    def estimates(
        self, blocks: LinearResults | None = None
    ) -> tuple[tuple[Estimate, ...], tuple[Estimate, ...]]:
        """Return estimates of all arms and candidates by the linear model.

        Their intervals hold for all of them and at all times at once: half of the error is that of
        one ellipsoid; for rewards in a range, the other half is shared by intervals from blocks.

        Parameters
        ----------
        blocks : LinearResults, optional
            The results of blocks, for rewards in a range.
        """
        fitted = self._fit(blocks)
        return self._arm_estimates(fitted), self._candidate_estimates(fitted)

    def _arm_estimates(self, fitted: _Fit | None) -> tuple[Estimate, ...]:
        problem = self._problem
        unknown = np.full(len(problem.arms), np.nan)
        ends = _Ends(unknown, unknown, unknown)
        if fitted is not None:
            rows, spare = problem.reduced.arms, problem.misspecification
            ends = self._ends(fitted, rows, problem.scale, spare)
        own = self._own_means()
        found = [
            replace(
                self._estimate(labels, int(count), ends, place, in_range=True), own_mean=own[place]
            )
            for place, (labels, count) in enumerate(
                zip(problem.action_labels, self.standing.counts, strict=True)
            )
        ]
        settled = self.standing.settled
        if settled is not None:
            found = [
                replace(one, counted=int(count))
                for one, count in zip(found, settled.counts, strict=True)
            ]
        if problem.candidates is not None:
            return tuple(found)
        in_range = problem.reward_range
        return with_limits(found, problem.sign, problem.floors, problem.ceilings, in_range)

    def limited(self, blocks: LinearResults | None = None) -> tuple[Estimate, ...]:
        """Return the means in limits with their own names, for candidates that have such limits.

        `blocks`: as in `estimates`.
        """
        problem, fitted = self._problem, self._fit(blocks)
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
        fitted: _Fit | None,
        floors: Floats | None,
        ceilings: Floats | None,
    ) -> tuple[Estimate, ...]:
        """Return estimates of the mean in a requirement, by candidate."""
        problem = self._problem
        unknown = np.full(len(one.features), np.nan)
        ends = _Ends(unknown, unknown, unknown)
        if fitted is not None:
            rows = _limited_rows(problem, one)
            ends = self._ends(fitted, rows, float(problem.scale.max()), 0.0)
        results = int(self.standing.counts.sum())
        found = [
            self._estimate({"arm": label, "prediction": name}, results, ends, place, in_range=False)
            for place, label in enumerate(problem.answers)
        ]
        return with_limits(found, problem.sign, floors, ceilings)

    def _candidate_estimates(self, fitted: _Fit | None) -> tuple[Estimate, ...]:
        problem = self._problem
        own = problem.candidates is None
        unknown = np.full(len(problem.answers), np.nan)
        ends = _Ends(unknown, unknown, unknown)
        if fitted is not None:
            rows, measured = problem.geometry.candidate_places
            unit, spare = float(problem.scale.max()), problem.misspecification
            ends = self._ends(fitted, rows, unit, spare)
            ends = ends._replace(mean=np.where(measured, ends.mean, np.nan))
        settled = self.standing.settled
        pulls = self.standing.counts if own else np.zeros(len(problem.answers))
        found = [
            self._estimate({"arm": label}, int(count), ends, place, in_range=own)
            for place, (label, count) in enumerate(zip(problem.answers, pulls, strict=True))
        ]
        if own:
            means = self._own_means()
            found = [replace(one, own_mean=mean) for one, mean in zip(found, means, strict=True)]
        if own and settled is not None:
            found = [
                replace(one, counted=int(count))
                for one, count in zip(found, settled.counts, strict=True)
            ]
        in_range = problem.reward_range if own else None
        return with_limits(found, problem.sign, problem.floors, problem.ceilings, in_range)

    @property
    def theta(self) -> Floats | None:
        """The fit that estimates show, in the reduced coordinates; None while there is none."""
        fitted = self._fit()
        return None if fitted is None else fitted.theta

    def _own_means(self) -> list[float | None]:
        """Return the plain mean of each arm's results that count, or of all if none does yet.

        In users' units; None without any result.
        """
        counts, sums, settled = self.standing.counts, self.standing.sums, self.standing.settled
        if settled is not None:
            counted = settled.counts > 0.0
            counts = np.where(counted, settled.counts, counts)
            sums = np.where(counted, settled.sums, sums)
        unit = self._problem.sign * self._problem.scale
        means = unit * (sums / np.maximum(counts, 1.0))
        return [
            float(mean) if count > 0.0 else None for mean, count in zip(means, counts, strict=True)
        ]

    def _ends(self, fitted: _Fit, rows: Floats, unit: Floats | float, spare: float) -> _Ends:
        """Return what a fit says of the values of rows, in users' units."""
        outward = self._problem.sign * unit
        middle, mean = outward * (rows @ fitted.centre), outward * (rows @ fitted.theta)
        half = unit * self._reach(fitted, rows) + spare
        lower, upper = middle - half, middle + half
        if fitted.blocks is not None:
            own = self._of_blocks(fitted.blocks, rows, unit, spare)
            lower, upper = _common((lower, upper), own)
        return _Ends(np.clip(mean, lower, upper), lower, upper)

    def _of_blocks(
        self, blocks: LinearResults, rows: Floats, unit: Floats | float, spare: float
    ) -> tuple[Floats, Floats]:
        """Return both ends of the intervals of rows from blocks, in users' units."""
        level = self._level_of_kind / self._number_of_rows
        ends = values_in_range(blocks, rows, spare / unit, level)
        lower, upper = np.sort(self._problem.sign * unit * np.stack(ends), axis=0)
        return lower, upper

    @property
    def _level_of_kind(self) -> float:
        """The probability with which the ellipsoid fails, or intervals from blocks in a range."""
        return self._level / (2.0 if self.standing.has_range else 1.0)

    @cached_property
    def _number_of_rows(self) -> int:
        """Number of different rows that have a mean: of arms, candidates and limits.

        It does not depend on results.
        """
        problem = self._problem
        rows = [problem.reduced.arms]
        if problem.candidates is not None:
            rows.append(problem.geometry.candidate_places[0])
        rows += [_limited_rows(problem, one) for one in problem.requirements]
        return len(np.unique(np.concatenate(rows), axis=0))

    def _reach(self, fitted: _Fit, rows: Floats) -> Floats:
        """Return the possible error of estimates of rows.

        It comes from noise, from misspecified means, and from missing results, each of which may be
        anywhere in its range.
        """
        root = fitted.root
        white = rows @ root.T
        lengths = np.hypot(
            np.linalg.norm(white, axis=1),
            np.linalg.norm(white @ root @ fitted.prior_root.T, axis=1),
        )
        reach = np.full(len(rows), fitted.radius)
        np.multiply(reach, lengths, out=reach, where=lengths > 0.0)
        reach[lengths == 0.0] = 0.0
        weights = fitted.missing * _HALF_A_RANGE
        if self._problem.misspecification > 0.0:
            weights = weights + fitted.counts * self._units.deviations
        pulled = np.flatnonzero(weights)
        if pulled.size:
            arms = self._problem.reduced.arms[pulled]
            reach += np.abs(rows @ root.T @ root @ arms.T) @ weights[pulled]
        return reach

    def _estimate(
        self, labels: Mapping[str, Any], pulls: int, ends: _Ends, place: int, in_range: bool
    ) -> Estimate:
        low, high = (self._problem.reward_range if in_range else None) or (-math.inf, math.inf)
        mean, lower, upper = (float(values[place]) for values in ends)
        known = math.isfinite(mean)
        bounded = known and (math.isfinite(lower) or math.isfinite(low))
        lower, upper = min(max(lower, low), high), max(min(upper, high), low)
        return Estimate(
            labels=labels,
            pulls=pulls,
            mean=min(max(mean, lower), upper) if known else None,
            lower=lower if bounded else None,
            upper=upper if bounded else None,
            predicted=True,
        )

    def _fit(self, blocks: LinearResults | None = None) -> _Fit | None:
        """Return the fit to the results that count; None while they leave a direction out.

        If only some of the results count, all of them give an estimate without an interval until
        those that count measure every direction.
        """
        standing, settled = self.standing, self.standing.settled
        if not self._is_estimable:
            return None
        arms = self._problem.reduced.arms
        counts, sums, missing = standing.counts, standing.sums, np.zeros(len(arms))
        if settled is not None:
            if not _spans(arms, settled.counts):
                theta, root = self._solve(counts, sums)
                prior_root = np.zeros((0, arms.shape[1]))
                return _Fit(theta, theta, root, prior_root, math.inf, counts, missing, blocks)
            counts, sums, missing = settled
        theta, root = self._solve(counts, sums)
        centre = theta
        if missing.any():
            # Missing results are taken to be in the middle of the range; `_reach` adds the rest.
            counts, sums = counts + missing, sums + missing * self._middle
            centre, root = self._solve(counts, sums)
        return _Fit(theta, centre, root, *self._ellipsoid(counts), counts, missing, blocks)

    def _solve(self, counts: Floats, sums: Floats) -> tuple[Floats, Floats]:
        """Return theta in the reduced coordinates, and the whitener."""
        arms = self._problem.reduced.arms
        pulled = counts > 0.0
        rows = arms[pulled] * np.sqrt(counts[pulled])[:, np.newaxis]
        triangle: Floats = np.asarray(np.linalg.qr(rows, mode="r"))
        root: Floats = np.asarray(np.linalg.inv(triangle.T))
        theta = root.T @ (root @ (arms.T @ sums))
        theta += root.T @ (root @ (arms.T @ (sums - counts * (arms @ theta))))
        return theta, root

    def _ellipsoid(self, counts: Floats) -> tuple[Floats, float]:
        """Return the root of the mixture's prior, and the level that holds at all times.

        With precision V of the data and prior P, theta is within ``x' (1/V + 1/V P 1/V) x`` times
        the level of its estimate, for all x at once.
        """
        arms, initial = self._problem.reduced.arms, self._initial_counts
        if not _spans(arms, initial):
            return np.zeros((0, arms.shape[1])), math.inf
        # The prior is a part of what the initial pulls tell; it is fixed before all results.
        spread = max(0.2, 1.0 / max(1, self.standing.initial_pulls))
        prior_root = math.sqrt(spread) * arms * np.sqrt(initial)[:, np.newaxis]
        prior, gram = prior_root.T @ prior_root, (arms.T * counts) @ arms
        _, log_det = np.linalg.slogdet(np.eye(len(prior)) + np.linalg.solve(prior, gram))
        level = 2.0 * (0.5 * log_det - math.log(self._level_of_kind)) * self.standing.noise_variance
        if self.standing.settled is not None:
            return prior_root[initial > 0.0], math.sqrt(level)
        if (counts < initial).any():
            return prior_root[:0], math.inf
        # The data contain the initial pulls, so 1/V P 1/V is at most `spread` times 1/V.
        return prior_root[:0], math.sqrt((1.0 + spread) * level)

    @property
    def _middle(self) -> Floats:
        """The middle of the range of rewards by arm, in the units of policies."""
        low, high = self._problem.reward_range or (0.0, 0.0)
        return np.asarray(self._units.factors * (0.5 * low + 0.5 * high))

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


def _common(first: tuple[Floats, Floats], second: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Return the common parts of intervals; the second ones where there are none.

    If two do not overlap, one of them has failed. Their error allows for that.
    """
    lower, upper = np.maximum(first[0], second[0]), np.minimum(first[1], second[1])
    overlap = lower <= upper
    return np.where(overlap, lower, second[0]), np.where(overlap, upper, second[1])


def _spans(arms: Floats, counts: Floats) -> bool:
    """Return whether the pulled arms measure every direction."""
    pulled = arms[counts > 0.0]
    # NumPy before 2.2 has no rank of a matrix without rows.
    return bool(len(pulled) and np.linalg.matrix_rank(pulled) == arms.shape[1])


def _limited_rows(problem: Problem, one: Requirement) -> Floats:
    """Return what a requirement limits, by candidate, in reduced coordinates."""
    rows = one.features - (one.features[one.control] if one.control >= 0 else 0.0)
    return np.asarray(rows @ problem.reduced.basis)


def with_limits(
    estimates: Sequence[Estimate],
    sign: float,
    floors: Floats | None,
    ceilings: Floats | None,
    in_range: tuple[float, float] | None = None,
) -> tuple[Estimate, ...]:
    """Return estimates by candidate with their lower and upper limits.

    Limits that no mean `in_range` can miss are left out.
    """
    lower, upper = (floors, ceilings) if sign > 0 else (ceilings, floors)
    least, most = in_range or (-math.inf, math.inf)

    return tuple(
        replace(
            one,
            lower_limit=_bound(lower, place, above=least),
            upper_limit=_bound(upper, place, below=most),
        )
        for place, one in enumerate(estimates)
    )


def _bound(
    bounds: Floats | None, place: int, above: float = -math.inf, below: float = math.inf
) -> float | None:
    """Return a bound if there is one strictly between the two numbers."""
    bound = math.nan if bounds is None else float(bounds[place])
    return bound if above < bound < below else None
