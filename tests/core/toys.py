"""Toy problems, policies and environments in plain Python: the contract's extremes, one of each.

| policy          | the extreme                                                           |
|-----------------|-----------------------------------------------------------------------|
| `LeadRace`      | stops by itself on immediate rewards, with a proven error rate        |
| `PartialRace`   | many pulls in flight, readings, cancellations, lost and late results  |
| `QuotaKeeper`   | never stops, draws at random, counts a pull when it is issued         |
| `FairChoice`    | outcomes are rows of named fields; fixed budget; may answer "no arm"  |
| `ArrivalBalance`| the environment says which group comes next, the policy chooses the arm     |
| `Halving`       | batches within a fixed budget: waits for a whole batch                |
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np

from fairtrial.core import (
    UNSOLICITED,
    Environment,
    Estimate,
    Guarantee,
    Policy,
    Problem,
    Progress,
    Pull,
    Reading,
    Recommendation,
    TopTruth,
    Trajectory,
    Truth,
)
from fairtrial.core.validation import check_array, check_integer, check_labels, check_number
from fairtrial.errors import InvalidArgument, InvalidOutcome

# -------------------------------------------------------------------------- problems


class ToyProblem(Problem):
    """Arms with Gaussian rewards; which has the largest mean?"""

    family = "toy"

    def __init__(self, arms: Any, noise_std: float = 1.0) -> None:
        self.arms = arms
        self.noise_std = noise_std
        self._labels = check_labels("arms", arms)
        check_number("noise_std", noise_std, low=0, open_low=True)
        self._rows = tuple({"arm": arm} for arm in self._labels)
        self._freeze()

    @property
    def action_labels(self) -> tuple[Mapping[str, Any], ...]:
        return self._rows

    def label(self, arm: int) -> str:
        return self._labels[arm]


class GroupProblem(Problem):
    """Arms given to groups; every pair is an action."""

    family = "toy-groups"

    def __init__(self, arms: Any, groups: Any) -> None:
        self.arms = arms
        self.groups = groups
        self.arm_labels = check_labels("arms", arms)
        self.group_labels = check_labels("groups", groups)
        self._rows = tuple(
            {"arm": arm, "group": group} for arm in self.arm_labels for group in self.group_labels
        )
        self._freeze()

    @property
    def action_labels(self) -> tuple[Mapping[str, Any], ...]:
        return self._rows


class RecordProblem(Problem):
    """Arms observed naturally or with the sensitive value forced; outcomes are records."""

    family = "toy-records"
    schema = 2
    modes = ("natural", "forced 0", "forced 1")

    def __init__(self, arms: Any, bound: float) -> None:
        self.arms = arms
        self.bound = check_number("bound", bound, low=0, open_low=True)
        self.arm_labels = check_labels("arms", arms)
        self._rows = tuple(
            {"arm": arm, "s": mode} for arm in self.arm_labels for mode in self.modes
        )
        self._freeze()

    @property
    def action_labels(self) -> tuple[Mapping[str, Any], ...]:
        return self._rows

    def check_outcome(self, outcome: Any, name: str = "record") -> dict[str, float]:
        if not isinstance(outcome, Mapping) or set(outcome) != {"s", "v", "y"}:
            raise InvalidOutcome(name, "must have the fields s, v and y", outcome)
        row = {key: super(RecordProblem, self).check_outcome(outcome[key], key) for key in "svy"}
        if row["s"] not in (0, 1):
            raise InvalidOutcome("s", "must be 0 or 1", outcome["s"])
        return row


# -------------------------------------------------------------------------- policies


class LeadRace(Policy):
    """Pulls the arms in turn and stops when one certainly leads all others.

    The lead of two means of n pulls errs by x with probability at most
    exp(-n x^2 / 4 sigma^2); a union over n with 1 / n(n+1) and over the other arms
    makes the answer right with probability 1 - delta.
    """

    state_fields = ("sums", "counts", "winner")

    def __init__(self, problem: ToyProblem, delta: float = 0.1, seed: Any = None) -> None:
        super().__init__(problem, seed)
        self.delta = delta
        self.sums = np.zeros(problem.n_actions)
        self.counts = np.zeros(problem.n_actions, dtype=np.int64)
        self.winner = -1

    def choose(self, **context: Any) -> int:
        return self.asked % self.problem.n_actions

    def learn(self, pull: Pull, outcome: float) -> None:
        self.sums[pull.action] += outcome
        self.counts[pull.action] += 1
        if not self.stopped and np.ptp(self.counts) == 0 and self.evidence > self.threshold:
            self.winner = int(np.argmax(self.sums))

    @property
    def evidence(self) -> float:
        second, first = np.sort(self.sums / np.maximum(self.counts, 1))[-2:]
        return float(self.counts[0] * (first - second) ** 2 / (4 * self.problem.noise_std**2))

    @property
    def threshold(self) -> float:
        n = max(int(self.counts[0]), 1)
        return math.log((self.problem.n_actions - 1) * n * (n + 1) / self.delta)

    @property
    def stopped(self) -> bool:
        return self.winner >= 0

    def recommend(self) -> Recommendation:
        leader = self.problem.label(int(np.argmax(self.sums / np.maximum(self.counts, 1))))
        if not self.stopped:
            return Recommendation(None, "running", leader=leader)
        arm = self.problem.label(self.winner)
        return Recommendation(
            arm, "decided", leader=leader, confidence=1 - self.delta, guarantee=self.guarantee
        )

    def progress(self) -> Progress:
        return Progress(
            recommendation=self.recommend(),
            asked=self.asked,
            told=self.told,
            outstanding=len(self.outstanding()),
            evidence=self.evidence,
            threshold=self.threshold,
            actions=tuple(
                Estimate(labels, int(n), float(total / n) if n else None)
                for labels, n, total in zip(
                    self.problem.action_labels, self.counts, self.sums, strict=True
                )
            ),
        )

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee("union bound", True, "right with probability 1 - delta", ("Gaussian",))


class PartialRace(Policy):
    """Finds the k best arms from late results and from readings that come before them.

    At most `max_in_flight` pulls at once and `max_per_arm` of them on one arm. Each pull holds one
    of `max_in_flight` slots (its tag), which keeps its newest reading. An arm is dropped when k
    others are better by `margin` / sqrt(n) on both sides; its pulls are then called back.
    A lost pull's last reading stays until its result comes after all.
    """

    state_fields = ("sums", "counts", "alive", "busy", "newest", "place", "kept", "late", "repeats")

    def __init__(
        self,
        problem: ToyProblem,
        k: int = 1,
        margin: float = 2.0,
        max_in_flight: int = 4,
        max_per_arm: int = 2,
        seed: Any = None,
    ) -> None:
        super().__init__(problem, seed)
        self.k = check_integer("k", k, low=1)
        self.margin = margin
        self.max_in_flight = max_in_flight
        self.max_per_arm = max_per_arm
        self.sums = np.zeros(problem.n_actions)
        self.counts = np.zeros(problem.n_actions, dtype=np.int64)
        self.alive = np.ones(problem.n_actions, dtype=bool)
        self.busy = np.full(max_in_flight, -1)
        self.newest = np.full(max_in_flight, np.nan)
        self.place = np.full(max_in_flight, -1)
        self.kept: list[list[float]] = []
        self.late = 0
        self.repeats = 0

    def choose(self, **context: Any) -> tuple[int, int] | None:
        waiting = np.bincount(self.busy[self.busy >= 0], minlength=self.problem.n_actions)
        open_arms = np.flatnonzero(self.alive & (waiting < self.max_per_arm))
        free = np.flatnonzero(self.busy < 0)
        if not open_arms.size or not free.size:
            return None
        started = self.counts + waiting
        arm, slot = open_arms[np.argmin(started[open_arms])], free[0]
        self.busy[slot], self.newest[slot], self.place[slot] = arm, np.nan, -1
        return arm, slot

    def read(self, pull: Pull, value: float, *, place: int = 0) -> None:
        if self._row_kept(pull) is not None:
            return
        if place == self.place[pull.tag]:
            self.repeats += 1
        elif place > self.place[pull.tag]:
            self.newest[pull.tag], self.place[pull.tag] = value, place
            self._eliminate()

    def read_late(self, pull: Pull, value: float, **details: Any) -> None:
        self.late += 1

    def learn(self, pull: Pull, outcome: float) -> None:
        row = self._row_kept(pull)
        if row is not None:
            self.kept.remove(row)
        elif pull.number != UNSOLICITED:
            self.busy[pull.tag] = -1
        self.sums[pull.action] += outcome
        self.counts[pull.action] += 1
        self._eliminate()

    def on_failure(self, pull: Pull, reason: str) -> None:
        self.kept.append([pull.number, pull.action, float(self.newest[pull.tag])])
        self.busy[pull.tag] = -1
        self._eliminate()

    def _row_kept(self, pull: Pull) -> list[float] | None:
        return next((row for row in self.kept if row[0] == pull.number), None)

    def estimates(self) -> tuple[np.ndarray, np.ndarray]:
        """Return means and counts from results and the newest readings."""
        sums, counts = self.sums.copy(), self.counts.astype(float)
        readings = [(arm, value) for arm, value in zip(self.busy, self.newest, strict=True)]
        readings += [(int(arm), value) for _, arm, value in self.kept]
        for arm, value in readings:
            if arm >= 0 and not math.isnan(value):
                sums[arm] += value
                counts[arm] += 1
        return sums / np.maximum(counts, 1), counts

    def _eliminate(self) -> None:
        if self.stopped:
            return
        means, counts = self.estimates()
        width = np.where(counts > 0, self.margin / np.sqrt(np.maximum(counts, 1)), math.inf)
        lower, upper = means - width, means + width
        kth = np.sort(lower[self.alive])[-self.k]
        self.alive &= ~(upper < kth)

    def to_cancel(self) -> list[Pull]:
        return [p for p in self.outstanding() if self.stopped or not self.alive[p.action]]

    @property
    def stopped(self) -> bool:
        return int(self.alive.sum()) <= self.k

    def recommend(self) -> Recommendation:
        means, _ = self.estimates()
        best = sorted(np.flatnonzero(self.alive), key=lambda arm: -means[arm])[: self.k]
        answer = tuple(self.problem.label(arm) for arm in best)
        if self.stopped:
            return Recommendation(answer, "decided", leader=answer)
        return Recommendation(None, "running", leader=answer)

    def metrics(self) -> dict[str, float]:
        return {"late_readings": float(self.late)}


class QuotaKeeper(Policy):
    """Gives every arm its share of the pulls at every moment, the rest to a greedy learner.

    The credit of an arm after t rounds is shares[arm] t - q N[arm] in whole numbers. An arm with
    positive credit is pulled at once; otherwise the arm with the best mean, or a random arm with
    probability `explore`. A pull counts when it is issued; an abandoned one does not count, unless
    its result comes after all.
    """

    endless = True
    expiry = "reissue"
    state_fields = ("rounds", "issued", "sums", "counts", "forced")

    def __init__(
        self,
        problem: ToyProblem,
        shares: Any,
        whole: int,
        explore: float = 0.1,
        seed: Any = None,
    ) -> None:
        super().__init__(problem, seed)
        self.shares = shares
        self.whole = whole
        self.explore = explore
        self._shares = np.array(shares, dtype=np.int64)
        if self._shares.sum() > whole:
            raise InvalidArgument("shares", f"must add up to at most {whole}", shares)
        self.rounds = 0
        self.issued = np.zeros(problem.n_actions, dtype=np.int64)
        self.sums = np.zeros(problem.n_actions)
        self.counts = np.zeros(problem.n_actions, dtype=np.int64)
        self.forced = 0

    def choose(self, **context: Any) -> np.int64:
        credit = self._shares * self.rounds - self.whole * self.issued
        if credit.max() > 0:
            arm = np.argmax(credit)
            self.forced += 1
        else:
            arm = self._learner()
        self.rounds += 1
        self.issued[arm] += 1
        return arm

    def _learner(self) -> np.int64:
        generator = self.generator()
        if generator.random() < self.explore:
            return generator.integers(self.problem.n_actions)
        return np.argmax(self.sums / np.maximum(self.counts, 1))

    def learn(self, pull: Pull, outcome: float) -> None:
        self.sums[pull.action] += outcome
        self.counts[pull.action] += 1
        if self.is_lost(pull):
            self.rounds += 1
            self.issued[pull.action] += 1

    def on_failure(self, pull: Pull, reason: str) -> None:
        self.rounds -= 1
        self.issued[pull.action] -= 1

    def on_amend(self, pull: Pull, old: float, new: float) -> None:
        self.sums[pull.action] += new - old

    @property
    def stopped(self) -> bool:
        return False

    def recommend(self) -> Recommendation:
        leader = self.problem.label(int(np.argmax(self.sums / np.maximum(self.counts, 1))))
        return Recommendation(None, "running", leader=leader)

    def metrics(self) -> dict[str, float]:
        return {"forced": float(self.forced)}


class FairChoice(Policy):
    """Spends a fixed budget evenly; answers with the best arm whose gap is within the bound."""

    state_fields = ("sums", "counts")

    def __init__(self, problem: RecordProblem, budget: int, seed: Any = None) -> None:
        super().__init__(problem, seed)
        self.budget = budget
        self.sums = np.zeros(problem.n_actions)
        self.counts = np.zeros(problem.n_actions, dtype=np.int64)

    def choose(self, **context: Any) -> int | None:
        return self.asked % self.problem.n_actions if self.asked < self.budget else None

    def learn(self, pull: Pull, outcome: Mapping[str, float]) -> None:
        self.sums[pull.action] += outcome["y"]
        self.counts[pull.action] += 1

    @property
    def stopped(self) -> bool:
        return self.told >= self.budget

    def recommend(self) -> Recommendation:
        means = (self.sums / np.maximum(self.counts, 1)).reshape(-1, 3)
        natural, gap = means[:, 0], np.abs(means[:, 1] - means[:, 2])
        fair = gap < self.problem.bound
        best = int(np.argmax(np.where(fair, natural, -np.inf)))
        leader = self.problem.arm_labels[best] if fair.any() else None
        if not self.stopped:
            return Recommendation(None, "running", leader=leader)
        return Recommendation(leader, "decided", leader=leader, reason="budget spent")


class ArrivalBalance(Policy):
    """Gives whoever arrives the arm that their group has seen least."""

    state_fields = ("sums", "issued", "counts")

    def __init__(self, problem: GroupProblem, per_cell: int = 3, seed: Any = None) -> None:
        super().__init__(problem, seed)
        self.per_cell = per_cell
        shape = (len(problem.arm_labels), len(problem.group_labels))
        self.sums = np.zeros(shape)
        self.issued = np.zeros(shape, dtype=np.int64)
        self.counts = np.zeros(shape, dtype=np.int64)

    def choose(self, *, group: str) -> int:
        labels = self.problem.group_labels
        if group not in labels:
            raise InvalidArgument("group", f"must be one of {', '.join(labels)}", group)
        column = labels.index(group)
        arm = int(np.argmin(self.issued[:, column]))
        self.issued[arm, column] += 1
        return arm * len(labels) + column

    def learn(self, pull: Pull, outcome: float) -> None:
        cell = np.unravel_index(pull.action, self.counts.shape)
        self.sums[cell] += outcome
        self.counts[cell] += 1

    @property
    def stopped(self) -> bool:
        return bool((self.counts >= self.per_cell).all())

    def recommend(self) -> Recommendation:
        means = self.sums / np.maximum(self.counts, 1)
        leader = self.problem.arm_labels[int(np.argmax(means.mean(axis=1)))]
        if not self.stopped:
            return Recommendation(None, "running", leader=leader)
        return Recommendation(leader, "decided", leader=leader)


class Halving(Policy):
    """Sequential halving: equal batches on the survivors; the better half continues."""

    state_fields = ("alive", "plan", "sums", "counts", "due")

    def __init__(self, problem: ToyProblem, batch: int = 8, seed: Any = None) -> None:
        super().__init__(problem, seed)
        self.batch = batch
        self.alive = np.ones(problem.n_actions, dtype=bool)
        self.sums = np.zeros(problem.n_actions)
        self.counts = np.zeros(problem.n_actions, dtype=np.int64)
        self._start_batch()

    def _start_batch(self) -> None:
        survivors = np.flatnonzero(self.alive)
        self.plan = survivors[np.arange(self.batch) % survivors.size]
        self.due = self.batch

    def choose(self, **context: Any) -> int | None:
        if not self.plan.size:
            return None
        action, self.plan = self.plan[0], self.plan[1:]
        return action

    def learn(self, pull: Pull, outcome: float) -> None:
        self.sums[pull.action] += outcome
        self.counts[pull.action] += 1
        if pull.number != UNSOLICITED and not self.is_lost(pull):
            self._advance()

    def on_failure(self, pull: Pull, reason: str) -> None:
        self._advance()

    def _advance(self) -> None:
        self.due -= 1
        if self.due > 0 or self.stopped:
            return
        means = np.where(self.alive, self.sums / np.maximum(self.counts, 1), -np.inf)
        keep = np.argsort(-means, kind="stable")[: (int(self.alive.sum()) + 1) // 2]
        self.alive[:] = False
        self.alive[keep] = True
        if not self.stopped:
            self._start_batch()

    @property
    def stopped(self) -> bool:
        return int(self.alive.sum()) == 1

    def recommend(self) -> Recommendation:
        means = np.where(self.alive, self.sums / np.maximum(self.counts, 1), -np.inf)
        leader = self.problem.label(int(np.argmax(means)))
        if not self.stopped:
            return Recommendation(None, "running", leader=leader)
        return Recommendation(leader, "decided", leader=leader)


# ---------------------------------------------------------------------- environments


class GaussianEnvironment(Environment):
    """Immediate Gaussian rewards with known means."""

    def __init__(self, problem: ToyProblem, means: Any) -> None:
        self.problem = problem
        self.means = means
        self._means = check_array("means", means, (problem.n_actions,))

    def sample(self, pull: Pull, generator: np.random.Generator) -> float:
        return float(generator.normal(self._means[pull.action], self.problem.noise_std))

    @property
    def truth(self) -> Truth:
        best = [self.problem.label(int(i)) for i in np.flatnonzero(self._means == max(self._means))]
        return Truth(best[0], tuple(best), self._means)


class DelayedEnvironment(GaussianEnvironment):
    """Results after 1 to 9 steps, with noisy readings at every step before; some are lost."""

    def __init__(self, problem: ToyProblem, means: Any, k: int = 1, loss: float = 0.1) -> None:
        super().__init__(problem, means)
        self.k = k
        self.loss = loss

    def trajectory(self, pull: Pull, generator: np.random.Generator) -> Trajectory:
        outcome = self.sample(pull, generator)
        delay = int(generator.integers(1, 10))
        readings = tuple(
            Reading(step, outcome + float(generator.normal(0, 1 / step)), {"place": step})
            for step in range(1, delay)
        )
        lost = generator.random() < self.loss
        return Trajectory(None if lost else outcome, delay, readings)

    @property
    def truth(self) -> Truth:
        arms = [self.problem.label(i) for i in range(self.problem.n_actions)]
        best = tuple(arms[i] for i in np.argsort(-self._means, kind="stable")[: self.k])
        bar = self._means[arms.index(best[-1])]
        good = tuple(arm for arm, mean in zip(arms, self._means, strict=True) if mean >= bar)
        return TopTruth(best, (best,), self._means, good=good)


class RecordEnvironment(Environment):
    """Records with y in {0, 1}; the mean of y depends on the arm and the sensitive value."""

    def __init__(self, problem: RecordProblem, means: Any) -> None:
        self.problem = problem
        self.means = means
        self._means = check_array("means", means, (len(problem.arm_labels), 2))

    def sample(self, pull: Pull, generator: np.random.Generator) -> dict[str, float]:
        arm, mode = divmod(pull.action, 3)
        s = int(generator.integers(2)) if mode == 0 else mode - 1
        return {"s": s, "v": arm, "y": float(generator.random() < self._means[arm, s])}

    @property
    def truth(self) -> Truth:
        fair = np.abs(np.diff(self._means, axis=1)[:, 0]) < self.problem.bound
        overall = np.where(fair, self._means.mean(axis=1), -np.inf)
        best = self.problem.arm_labels[int(np.argmax(overall))] if fair.any() else None
        return Truth(best, (best,), overall)


class ArrivalEnvironment(Environment):
    """Patients of a random group arrive one by one; rewards are Gaussian. The truth is hidden."""

    def __init__(self, problem: GroupProblem, means: Any, shares: Any) -> None:
        self.problem = problem
        self.means = means
        self.shares = shares
        shape = (len(problem.arm_labels), len(problem.group_labels))
        self._means = check_array("means", means, shape).ravel()

    def context(self, generator: np.random.Generator) -> dict[str, Any]:
        return {
            "group": self.problem.group_labels[generator.choice(len(self.shares), p=self.shares)]
        }

    def sample(self, pull: Pull, generator: np.random.Generator) -> float:
        return float(generator.normal(self._means[pull.action]))


class UsedUpEnvironment(Environment):
    """Real data, each row used once per run: an environment with memory."""

    def __init__(self, problem: ToyProblem, rows: Any) -> None:
        self.problem = problem
        self.rows = rows
        self._left: list[list[float]] | None = None
        self._repeats = 0
        self._last = -1

    def begin(self, generator: np.random.Generator) -> UsedUpEnvironment:
        environment = copy(self)
        environment._left = [list(generator.permutation(values)) for values in self.rows]
        return environment

    def sample(self, pull: Pull, generator: np.random.Generator) -> float:
        self._repeats += pull.action == self._last
        self._last = pull.action
        return float(self._left[pull.action].pop())

    def metrics(self, pulls: np.ndarray) -> dict[str, float]:
        return {"repeats": float(self._repeats)}
