"""What all policies of the family share: caps, estimates, and what they report."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.fixed_confidence import FixedConfidencePolicy
from fairtrial.core.recommendation import Estimate, Guarantee, Status
from fairtrial.core.seeds import seed_key
from fairtrial.core.validation import check_choice, check_instance
from fairtrial.core.wording import is_best
from fairtrial.linear.environments import ArmEnvironment
from fairtrial.linear.policies.checks import contradiction
from fairtrial.linear.problem import Problem

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


ILL_CONDITIONED = 1e12
"""Condition of the Gram matrix, its columns scaled, from which on there is a warning."""


def tie_key(ties: str, seed: int) -> int:
    """Return the key of the numbers that break ties, small enough for a float; -1 for the first.

    Raises
    ------
    InvalidArgument
        If `ties` is neither "first" nor "random".
    """
    if check_choice("ties", ties, ["first", "random"]) == "first":
        return -1
    return int(seed_key(seed)[0] >> np.uint64(12))


_LARGEST = 1e100
"""What tolerances count as at most, in the units of the reduced problem."""


def _in_units(value: float, unit: float) -> float:
    """Return a number as a multiple of a unit, which may be too small or large for a float."""
    if value == 0.0:
        return 0.0
    return min(value / unit, _LARGEST) if unit > value / _LARGEST else _LARGEST


_MODEL = "linear in the features of its arm"
"""What every rule's guarantee says of mean rewards."""


class LinearPolicy(FixedConfidencePolicy):
    """What all policies of the family share: the problem in arrays, and what they report."""

    version = 2
    problem: Problem
    environments = ArmEnvironment
    _nothing_yet = "not every direction has been measured yet"

    _shape: tuple[int, int, int]
    """Arms, distinct candidates, and rank."""

    def __init__(
        self,
        problem: Problem,
        delta: float | None,
        max_pulls: int | None,
        seed: int | np.random.Generator | None,
    ) -> None:
        check_instance("problem", problem, Problem)
        super().__init__(problem, delta, max_pulls, seed)
        reduced = problem.reduced
        self._shape = (len(reduced.arms), len(reduced.candidates), reduced.arms.shape[1])
        self._factors = problem.sign / problem.scale
        # In the units of the reduced problem, and within what products of floats can hold.
        with np.errstate(over="ignore"):
            self._slack = np.minimum(problem.misspecification / problem.scale, _LARGEST)
        self._tolerance = _in_units(problem.tolerance, reduced.unit)
        self._misspecification = _in_units(problem.misspecification, reduced.unit)
        # Misspecified means of candidates with equal features may differ by twice the bound.
        self._twins_may_differ = 2.0 * problem.misspecification > problem.tolerance

    def _pack(self, rules: Floats) -> Floats:
        """Return the problem and the numbers that the kernels test by, in one array."""
        arms, candidates, _, rest, _ = self.problem.reduced
        start = self.problem.start_arms
        rows = ([start.size], arms.ravel(), candidates.ravel(), rest.ravel(), start)
        return np.concatenate((*rows, self._slack, rules), dtype=np.float64)

    # ---------------------------------------------------------- what each rule says

    @property
    @abstractmethod
    def _found_best(self) -> bool:
        """Whether the rule has found the best of the distinct candidates."""

    @property
    def _hopeless(self) -> bool:
        """Whether the rule has found that misspecified means can hide what it looks for."""
        return False

    @property
    @abstractmethod
    def _answer(self) -> Sequence[int] | None:
        """The answer, or the leaders, as distinct candidates; None before there are any."""

    @property
    @abstractmethod
    def _data(self) -> tuple[Floats, Floats]:
        """Counts and sums by arm, shape (K,), rewards as maximised, in units of the noise."""

    @property
    @abstractmethod
    def _initial(self) -> int:
        """Pulls of every arm of the basis that come before everything else."""

    @property
    @abstractmethod
    def _records(self) -> tuple[Floats, Floats]:
        """The record of all rewards by arm, and what it was when theta could first be estimated."""

    def _confidence_set(self) -> Sequence[int] | None:
        """Distinct candidates among which the best is at all times; None if the rule cannot say."""
        return None

    @abstractmethod
    def _live(self) -> Sequence[int]:
        """Distinct candidates that are not ruled out."""

    # --------------------------------------------------------------------- shared

    @property
    def _finished(self) -> bool:
        return self._found_best or self._hopeless

    @property
    def _decided(self) -> bool:
        return self._found_best and not self._hides_the_best

    @property
    def _hides_the_best(self) -> bool:
        """Whether candidates of the answer have equal features, and perhaps different values."""
        if not self._twins_may_differ:
            return False
        groups = self.problem.answer_groups
        return any(len(groups[index]) > 1 for index in self._answer or ())

    def _reduced(self, action: int, reward: float) -> float:
        """Return a reward as it is maximised, in units of the noise."""
        return float(self._factors[action]) * reward

    def _labels(self, candidates: Sequence[int]) -> list[str]:
        groups = self.problem.answer_groups
        return [self.problem.answers[groups[index][0]] for index in candidates]

    def _members(self, candidates: Sequence[int]) -> list[str]:
        """Return the labels of all candidates of some groups."""
        groups = self.problem.answer_groups
        return [self.problem.answers[member] for index in candidates for member in groups[index]]

    def _label(self, answer: Sequence[int]) -> Any:
        labels = self._labels(answer)
        return labels[0] if self.problem.top == 1 else tuple(labels)

    def _finding(self, label: Any) -> str:
        return is_best(label, self.problem.tolerance)

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
        twins = ", ".join(map(repr, self._members(answer)))
        return (
            f"{twins}: {self._differing_means} can hide which of those with equal features is best"
        )

    def _candidates(self) -> tuple[str, ...] | None:
        """Return the labels of the candidates that are not ruled out, if that is a valid set."""
        found = self._confidence_set()
        if found is None:
            return None
        return tuple(self._members((self._answer or ()) if self._decided else found))

    def _more_evidence(self) -> dict[str, Any]:
        """Return what in the answer has equal features; of a rule that failed, what it left."""
        more: dict[str, Any] = {}
        groups = [self.problem.answer_groups[index] for index in self._answer or ()]
        if any(len(group) > 1 for group in groups):
            more["identical"] = [
                [self.problem.answers[index] for index in group] for group in groups
            ]
        if self._status == "undecided":
            more["not_ruled_out"] = self._members(self._live())
        return more

    def _best_first(self, candidates: Iterable[int]) -> list[int]:
        """Return candidates in the order of their fitted values; ties in the order given."""
        fitted = self._fit()
        order = list(map(int, candidates))
        if fitted is None or len(order) < 2:
            return order
        values = self.problem.reduced.candidates[order] @ fitted[0]
        return [order[index] for index in np.argsort(-values, kind="stable")]

    def _as_it_stands(self, promise: Guarantee) -> Guarantee:
        """Return the guarantee with what is stated of the world, and weakened by what happened."""
        problem = self.problem
        model = _MODEL
        if not problem.has_intercept:
            model += ", and 0 where they are all 0"
        if problem.misspecification > 0.0:
            model += f", within {problem.misspecification:g}"
        stated = tuple(text.replace(_MODEL, model) for text in promise.assumptions)
        if problem.has_rounded_columns:
            stated = (*stated, "features that depend on others up to rounding are meant to")
        promise = replace(promise, assumptions=stated)
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
        """Whether enough different arms were pulled to test the fit, or there are no more."""
        arms = self.problem.distinct_arms
        pulled = int((self._data[0][arms] > 0.0).sum())
        return pulled > self.problem.rank or len(arms) <= self.problem.rank or not self.told

    @staticmethod
    def _without(promise: Guarantee, lost: int) -> Guarantee:
        """Return the guarantee when that many lost pulls are left out."""
        return promise.weakened_by(lost, "pull", "got lost for reasons unrelated to rewards")

    # ------------------------------------------------------------------- progress

    def _details(self) -> dict[str, Any]:
        warnings = self._warnings()
        return {**self._rulings(), **({"warnings": warnings} if warnings else {})}

    def _rulings(self) -> dict[str, Any]:
        """Return how many candidates are not ruled out, and of each whether it is."""
        live = frozenset(self._live())
        labels = self._labels(range(len(self.problem.answer_groups)))
        answers = [
            {"answer": label, "rejected": index not in live} for index, label in enumerate(labels)
        ]
        return {"live": len(live), "answers": answers}

    def warnings(self) -> tuple[str, ...]:
        """Return what the results contradict: the stated noise, or that means are linear."""
        against = contradiction(self.problem, *self._records)
        return () if against is None else (f"the results contradict an assumption: {against}",)

    def _warnings(self) -> list[str]:
        """Return all that there is to be warned of: the numbers' accuracy, and contradictions."""
        warnings = []
        condition = self.problem.condition(self._data[0]) if self._can_be_fitted else 0.0
        if condition > ILL_CONDITIONED:
            warnings.append(
                f"IllConditioned: the features pulled so far are nearly dependent (condition "
                f"{condition:.1e} of their Gram matrix, columns scaled); estimates lose digits"
            )
        return [*warnings, *self.warnings()]

    def _noise(self) -> float:
        """Variance of a reward in the units of the data: one if it is known, else infinite."""
        return math.inf if self.problem.estimates_noise else 1.0

    @property
    def _can_be_fitted(self) -> bool:
        """Whether every arm of a basis has a result."""
        basis = self.problem.basis_arms
        return len(basis) > 0 and bool((self._data[0][basis] >= 1.0).all())

    def _fit(self) -> tuple[Floats, Floats, float] | None:
        """Return theta in the reduced coordinates, the whitener and the radius; None before."""
        if not self._can_be_fitted:
            return None
        counts, sums = self._data
        arms, basis = self.problem.reduced.arms, self.problem.basis_arms
        gram = (arms.T * counts) @ arms
        pulled = counts > 0.0
        rows = arms[pulled] * np.sqrt(counts[pulled])[:, np.newaxis]
        triangle: Floats = np.asarray(np.linalg.qr(rows, mode="r"))
        root: Floats = np.asarray(np.linalg.inv(triangle.T))
        theta = root.T @ (root @ (arms.T @ sums))
        theta += root.T @ (root @ (arms.T @ (sums - counts * (arms @ theta))))
        initial = float(min(counts[basis].min(), max(1, self._initial)))
        if initial < self._initial:
            return theta, root, math.inf
        # The mixture level: its prior is `spread` initial pulls of the basis.
        spread = max(0.2, 1.0 / initial)
        prior = spread * initial * arms[basis].T @ arms[basis]
        _, log_det = np.linalg.slogdet(np.eye(len(basis)) + np.linalg.solve(prior, gram))
        level = 2.0 * (1.0 + spread) * (0.5 * log_det - math.log(self._interval_level))
        return theta, root, math.sqrt(level * self._noise())

    @property
    def _interval_level(self) -> float:
        return self.delta

    def _estimates(self) -> tuple[tuple[Estimate, ...], tuple[Estimate, ...]]:
        """Return estimates by the linear model of all arms and candidates.

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
        return tuple(
            self._estimate(labels, int(count), mean, reach, in_range=True)
            for labels, count, mean, reach in zip(
                problem.action_labels, counts, means, half, strict=True
            )
        )

    def _candidate_estimates(
        self, fitted: tuple[Floats, Floats, float] | None
    ) -> tuple[Estimate, ...]:
        problem = self.problem
        own = problem.candidates is None
        pulls = self._data[0] if own else np.zeros(len(problem.answers))
        values = half = np.full(len(problem.answers), np.nan)
        if fitted is not None:
            theta, root, radius = fitted
            rows, measured = problem.candidate_places
            unit = float(problem.scale.max())
            values = problem.sign * unit * (rows @ theta)
            half = unit * self._reach(rows, root, radius) + problem.misspecification
            values = np.where(measured, values, np.nan)
        return tuple(
            self._estimate({"arm": label}, int(count), value, reach, in_range=own)
            for label, count, value, reach in zip(problem.answers, pulls, values, half, strict=True)
        )

    def _reach(self, rows: Floats, root: Floats, radius: float) -> Floats:
        """Return how far the estimates of rows can be off, by noise and misspecified means."""
        lengths = np.linalg.norm(rows @ root.T, axis=1)
        reach = np.full(len(rows), radius)
        np.multiply(reach, lengths, out=reach, where=lengths > 0.0)
        reach[lengths == 0.0] = 0.0
        if self.problem.misspecification > 0.0:
            weights = self._data[0] * self._slack
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
