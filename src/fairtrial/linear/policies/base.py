"""What all policies of the family share: caps, estimates, and what they report."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.environment import Environment
from fairtrial.core.policy import Policy
from fairtrial.core.recommendation import (
    Estimate,
    Guarantee,
    Progress,
    Recommendation,
    Status,
)
from fairtrial.core.run import Run
from fairtrial.core.seeds import seed_key
from fairtrial.core.validation import check_choice, check_instance, check_integer, check_probability
from fairtrial.core.wording import or_within, plural
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


class LinearPolicy(Policy):
    """What all policies of the family share: the problem in arrays, and what they report."""

    version = 2
    problem: Problem
    _has_level: ClassVar[bool] = True
    """Whether there is a `delta`: a probability of a wrong answer that is accepted."""

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
        super().__init__(problem, seed)
        if self._has_level:
            self.delta = check_probability("delta", delta)
        self.max_pulls = None if max_pulls is None else check_integer("max_pulls", max_pulls, low=1)
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
        self._amended = 0

    def _pack(self, rules: Floats) -> Floats:
        """Return the problem and the numbers that the kernels test by, in one array."""
        arms, candidates, _, rest, _ = self.problem.reduced
        start = self.problem.start_arms
        rows = ([start.size], arms.ravel(), candidates.ravel(), rest.ravel(), start)
        return np.concatenate((*rows, self._slack, rules), dtype=np.float64)

    # ---------------------------------------------------------- what each rule says

    @property
    @abstractmethod
    def _finished(self) -> bool:
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
    def _evidence(self) -> tuple[float | None, float | None]:
        """Evidence for the leader and what it is held against."""

    @abstractmethod
    def _live(self) -> Sequence[int]:
        """Distinct candidates that are not ruled out."""

    # --------------------------------------------------------------------- shared

    @property
    def stopped(self) -> bool:
        """Whether there is an answer, or will be none, or the cap on pulls is reached."""
        return self._finished or self._hopeless or self._capped

    @property
    def _decided(self) -> bool:
        """Whether the rule has stopped with an answer."""
        return self._finished and not self._hides_the_best

    @property
    def _hides_the_best(self) -> bool:
        """Whether candidates of the answer have equal features, and perhaps different values."""
        if not self._twins_may_differ:
            return False
        groups = self.problem.answer_groups
        return any(len(groups[index]) > 1 for index in self._answer or ())

    @property
    def _capped(self) -> bool:
        return self.max_pulls is not None and self.told >= self.max_pulls

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

    def _label(self, candidates: Sequence[int] | None) -> Any:
        """Return what is recommended: a label, or a tuple of labels if several are wanted."""
        if candidates is None:
            return None
        labels = self._labels(candidates)
        return labels[0] if self.problem.top == 1 else tuple(labels)

    def recommend(self) -> Recommendation:
        """Return the answer now, or none yet (`status`); `evidence` lists what is identical."""
        status: Status = "decided" if self._decided else "undecided" if self.stopped else "running"
        answer = self._answer
        leader = self._label(answer)
        return Recommendation(
            arm=leader if status == "decided" else None,
            status=status,
            leader=leader,
            confidence=self._confidence,
            guarantee=self.guarantee,
            reason=self._reason(status, leader),
            evidence=self._evidence_fields(status, answer),
            candidates=self._candidates(status, answer),
        )

    def _candidates(self, status: Status, answer: Sequence[int] | None) -> tuple[str, ...] | None:
        """Return the labels of the candidates that are not ruled out, if that is a valid set."""
        found = self._confidence_set()
        if found is None:
            return None
        return tuple(self._members((answer or ()) if status == "decided" else found))

    @property
    def _confidence(self) -> float | None:
        return 1.0 - self.delta

    def _evidence_fields(self, status: Status, answer: Sequence[int] | None) -> dict[str, Any]:
        evidence, threshold = self._evidence()
        fields: dict[str, Any] = {
            "evidence": evidence,
            "threshold": threshold,
            "pulls": self.told,
        }
        groups = [self.problem.answer_groups[index] for index in answer or ()]
        if any(len(group) > 1 for group in groups):
            fields["identical"] = [
                [self.problem.answers[index] for index in group] for group in groups
            ]
        if status == "undecided":
            fields["not_ruled_out"] = self._members(self._live())
        return fields

    def _reason(self, status: Status, leader: Any) -> str:
        if leader is None:
            return "not every direction has been measured yet"
        one = isinstance(leader, str)
        name = repr(leader) if one else ", ".join(map(repr, leader))
        if status == "decided":
            best = "is the best" if one else f"are the best {len(leader)}"
            near = or_within(self.problem.tolerance, "it" if one else "them")
            return f"there is enough evidence: {name} {best}{near}"
        verb = "leads" if one else "lead"
        if self._finished and status == "undecided":
            twins = self._members(self._answer or ())
            return (
                f"{', '.join(map(repr, twins))}: means that differ by "
                f"{self.problem.misspecification:g} from linear ones can hide which of those with "
                "equal features is best"
            )
        if self._hopeless:
            return (
                f"means that differ by {self.problem.misspecification:g} from linear ones can hide "
                f"which is the best; {name} {verb} so far"
            )
        if status == "undecided":
            return f"the cap of {self.max_pulls} pulls is reached; {name} {verb} so far"
        return f"{name} {verb} so far; there is not enough evidence to decide yet"

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
        elif self._finished and not self._could_be_tested:
            promise = promise.weakened(
                "mean rewards are linear in the features; too few different arms were pulled to "
                "test that"
            )
        if self._amended:
            promise = promise.weakened(
                f"{plural(self._amended, 'correction')} came for reasons unrelated to the values"
            )
        return promise

    @property
    def _could_be_tested(self) -> bool:
        """Whether enough different arms were pulled to test the fit, or there are no more."""
        arms = self.problem.distinct_arms
        pulled = int((self._data[0][arms] > 0.0).sum())
        return pulled > self.problem.rank or len(arms) <= self.problem.rank or not self.told

    @staticmethod
    def _without(promise: Guarantee, lost: int) -> Guarantee:
        """Return the guarantee when that many lost pulls are left out."""
        if not lost:
            return promise
        return promise.weakened(f"{plural(lost, 'pull')} got lost for reasons unrelated to rewards")

    # ------------------------------------------------------------------- progress

    def progress(self) -> Progress:
        """Return fitted means with anytime intervals, evidence, and a forecast of what is left.

        Estimates of the arms and candidates are those of the linear model; the intervals hold
        for all of them and at all times at once.
        """
        evidence, threshold = self._evidence()
        fitted = self._fit()
        return Progress(
            recommendation=self.recommend(),
            asked=self.asked,
            told=self.told,
            outstanding=len(self._outstanding),
            evidence=evidence,
            threshold=threshold,
            remaining=self._remaining(),
            actions=self._arm_estimates(fitted),
            arms=self._candidate_estimates(fitted),
            details={**self._rulings(), **self._warnings(fitted), **self._details()},
        )

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

    def _warnings(self, fitted: tuple[Floats, Floats, float] | None) -> dict[str, Any]:
        """Return all that there is to be warned of: the numbers' accuracy, and contradictions."""
        warnings = []
        condition = 0.0 if fitted is None else self.problem.condition(self._data[0])
        if condition > ILL_CONDITIONED:
            warnings.append(
                f"IllConditioned: the features pulled so far are nearly dependent (condition "
                f"{condition:.1e} of their Gram matrix, columns scaled); estimates lose digits"
            )
        warnings.extend(self.warnings())
        return {"warnings": warnings} if warnings else {}

    def _remaining(self) -> float | None:
        evidence, threshold = self._evidence()
        if self.stopped:
            return 0.0
        if evidence is None or threshold is None or evidence <= 0.0:
            return None
        return self.told * max(0.0, threshold / evidence - 1.0)

    def _details(self) -> Mapping[str, Any]:
        return {}

    def _noise(self) -> float:
        """Variance of a reward in the units of the data: one if it is known, else infinite."""
        return math.inf if self.problem.estimates_noise else 1.0

    def _fit(self) -> tuple[Floats, Floats, float] | None:
        """Return theta in the reduced coordinates, the whitener and the radius; None before."""
        counts, sums = self._data
        arms, basis = self.problem.reduced.arms, self.problem.basis_arms
        if not len(basis) or (counts[basis] < 1.0).any():
            return None
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

    # ------------------------------------------------------------------ whole runs

    def _most(self, horizon: int | None) -> int:
        caps = [cap for cap in (horizon, self.max_pulls) if cap is not None]
        return min(caps, default=2**62)

    def _run(self, environment: ArmEnvironment, counts: Floats) -> Run:
        """Return the finished compiled run of this policy."""
        answer = self.recommend()
        pulls = counts.astype(np.int64)
        return Run(
            answer=answer.arm,
            status=answer.status,
            stopping_time=self.told,
            pulls=pulls,
            elapsed=float(self.told),
            metrics={**self.metrics(), **environment.metrics(pulls)},
        )

    def _can_compile(self, environment: Environment) -> bool:
        return isinstance(environment, ArmEnvironment) and self.asked == self.told == 0
