"""Toy problems and policies for studies: the contract's extremes, one of each.

| policy        | the extreme                                                               |
|---------------|---------------------------------------------------------------------------|
| `Elimination` | deterministic, stops by itself on immediate rewards                       |
| `Racing`      | many pulls in flight, readings, cancellations, losses and late results    |
| `Timed`       | ended by the clock                                                        |
| `Serving`     | never stops, draws at random, counts at issue, hands lost pulls out again |
| `Averaging`   | outcomes are rows of named fields                                         |
| `Arrivals`    | the environment says which group comes next                                     |
| `Blocks`      | needs a pull, then does not, then needs it again                          |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fairtrial.core import Policy, Problem, Pull, Recommendation
from fairtrial.core.validation import check_labels
from fairtrial.errors import InvalidArgument, InvalidOutcome


class ToyProblem(Problem):
    family = "study-toy"

    def __init__(self, arms: Any = 3) -> None:
        self.arms = arms
        self.names = check_labels("arms", arms)
        self._rows = tuple({"arm": name} for name in self.names)
        self._freeze()

    @property
    def action_labels(self):
        return self._rows


class GroupProblem(Problem):
    family = "study-groups"

    def __init__(self, arms: Any = 2, groups: Any = ("x", "y")) -> None:
        self.arms = arms
        self.groups = groups
        self._groups = check_labels("groups", groups)
        self._rows = tuple(
            {"arm": arm, "group": group}
            for arm in check_labels("arms", arms)
            for group in self._groups
        )
        self._freeze()

    @property
    def action_labels(self):
        return self._rows


class RecordProblem(ToyProblem):
    family = "study-records"

    def check_outcome(self, outcome: Any, name: str = "record") -> dict[str, float]:
        if not isinstance(outcome, Mapping) or set(outcome) != {"s", "y"}:
            raise InvalidOutcome(name, "must have the fields s and y", outcome)
        return {key: super(RecordProblem, self).check_outcome(outcome[key], key) for key in "sy"}


class _Means(Policy):
    """Sums and counts by action; the answer is the best mean."""

    state_fields = ("sums", "counts")

    def __init__(self, problem: Problem, seed: Any = None) -> None:
        super().__init__(problem, seed)
        self.sums = np.zeros(problem.n_actions)
        self.counts = np.zeros(problem.n_actions, dtype=np.int64)

    @property
    def means(self) -> np.ndarray:
        return self.sums / np.maximum(self.counts, 1)

    def learn(self, pull: Pull, outcome: Any) -> None:
        self.sums[pull.action] += outcome
        self.counts[pull.action] += 1

    def on_amend(self, pull: Pull, old: Any, new: Any) -> None:
        self.sums[pull.action] += new - old

    @property
    def stopped(self) -> bool:
        return False

    def recommend(self) -> Recommendation:
        leader = self.problem.labels(int(np.argmax(self.means)))
        answer = " ".join(leader.values())
        if self.stopped:
            return Recommendation(answer, "decided", leader=answer)
        return Recommendation(None, "running", leader=answer)


class Elimination(_Means):
    """Pulls the surviving arms in turn; after each round much worse arms are dropped."""

    state_fields = ("sums", "counts", "alive", "started")

    def __init__(self, problem: ToyProblem, width: float = 2.0, seed: Any = None) -> None:
        super().__init__(problem, seed)
        self.width = width
        self.alive = np.ones(problem.n_actions, dtype=bool)
        self.started = np.zeros(problem.n_actions, dtype=np.int64)

    def choose(self, **context: Any) -> int:
        arm = int(np.argmin(np.where(self.alive, self.started, np.iinfo(np.int64).max)))
        self.started[arm] += 1
        return arm

    def learn(self, pull: Pull, outcome: float) -> None:
        super().learn(pull, outcome)
        if not self.stopped and self.counts[self.alive].min() > 0:
            reach = self.width / np.sqrt(np.maximum(self.counts, 1))
            best = (self.means - reach)[self.alive].max()
            self.alive &= self.means + reach >= best

    @property
    def stopped(self) -> bool:
        return int(self.alive.sum()) == 1


class Racing(_Means):
    """At most `slots` pulls in flight; the newest reading of each counts until its result."""

    state_fields = ("sums", "counts", "busy", "readings", "stages", "given_up", "asked_for_nothing")

    def __init__(
        self, problem: ToyProblem, slots: int = 3, budget: int = 40, seed: Any = None
    ) -> None:
        super().__init__(problem, seed)
        self.slots = slots
        self.budget = budget
        self.busy = np.full(slots, -1)
        self.readings = np.zeros(slots)
        self.stages = np.full(slots, -1)
        self.given_up = np.zeros(problem.n_actions, dtype=np.int64)
        self.asked_for_nothing = 0

    def choose(self, **context: Any) -> tuple[int, int] | None:
        free = np.flatnonzero(self.busy < 0)
        if not free.size:
            # An ask without a pull may still change the state: a study must replay it.
            self.asked_for_nothing += 1
            return None
        slot = int(free[0])
        arm = int(self.generator().integers(self.problem.n_actions))
        arm = (arm + self.asked_for_nothing) % self.problem.n_actions
        self.busy[slot], self.readings[slot], self.stages[slot] = arm, 0.0, -1
        return arm, slot

    def read(self, pull: Pull, value: float, *, stage: int = 0, note: str = "") -> None:
        if not self.is_lost(pull) and stage > self.stages[pull.tag]:
            self.readings[pull.tag], self.stages[pull.tag] = value, stage

    def learn(self, pull: Pull, outcome: float) -> None:
        super().learn(pull, outcome)
        if self.is_lost(pull):
            self.given_up[pull.action] -= 1
        elif pull.number >= 0:
            self.busy[pull.tag] = -1

    def on_failure(self, pull: Pull, reason: str) -> None:
        self.given_up[pull.action] += 1
        self.busy[pull.tag] = -1

    def to_cancel(self) -> list[Pull]:
        bad = (self.stages >= 0) & (self.readings < -1)
        return [pull for pull in self.outstanding() if self.stopped or bad[pull.tag]]

    @property
    def stopped(self) -> bool:
        return int(self.counts.sum()) >= self.budget


class Timed(Racing):
    """A race that the clock ends."""

    state_fields = (*Racing.state_fields, "time")

    def __init__(
        self, problem: ToyProblem, slots: int = 3, max_time: float = 150.0, seed: Any = None
    ) -> None:
        super().__init__(problem, slots, seed=seed)
        self.max_time = max_time
        self.time = 0.0

    def pass_time(self, now: float) -> None:
        self.time = max(self.time, now)

    @property
    def stopped(self) -> bool:
        return self.time >= self.max_time or super().stopped

    def recommend(self) -> Recommendation:
        if self.time >= self.max_time:
            return Recommendation(None, "undecided", leader=super().recommend().leader)
        return super().recommend()


class Serving(_Means):
    """Explores with probability 0.3; a pull counts when it is issued."""

    endless = True
    expiry = "reissue"
    state_fields = ("sums", "counts", "issued")

    def __init__(self, problem: Problem, explore: float = 0.3, seed: Any = None) -> None:
        super().__init__(problem, seed)
        self.explore = explore
        self.issued = np.zeros(problem.n_actions, dtype=np.int64)

    def choose(self, **context: Any) -> int:
        generator = self.generator()
        n = self.problem.n_actions
        chosen = generator.integers(n) if generator.random() < self.explore else self.means.argmax()
        self.issued[chosen] += 1
        return int(chosen)


class Averaging(_Means):
    """Takes the field y of every record; cannot correct one."""

    def choose(self, **context: Any) -> int:
        return self.asked % self.problem.n_actions

    def learn(self, pull: Pull, outcome: Mapping[str, float]) -> None:
        super().learn(pull, outcome["y"])

    def on_amend(self, pull: Pull, old: Any, new: Any) -> None:
        super().on_amend(pull, old["y"], new["y"])


class Arrivals(_Means):
    """Gives whoever arrives the arm that their group had least; issues lost pulls again."""

    expiry = "reissue"
    state_fields = ("sums", "counts", "issued")

    def __init__(self, problem: GroupProblem, seed: Any = None) -> None:
        super().__init__(problem, seed)
        self.issued = np.zeros(problem.n_actions, dtype=np.int64)

    def choose(self, *, group: str) -> int:
        mine = [i for i, row in enumerate(self.problem.action_labels) if row["group"] == group]
        if not mine:
            self.issued += 1  # a policy that damages its own state before it refuses
            raise InvalidArgument("group", "must be one of the problem's groups", group)
        action = min(mine, key=lambda index: self.issued[index])
        self.issued[action] += 1
        return action


POLICIES = (Elimination, Racing, Timed, Serving, Averaging, Arrivals)
PROBLEMS = (ToyProblem, GroupProblem, RecordProblem)
OWN = {"policies": POLICIES, "problems": PROBLEMS}
"""The classes that `Study.open` needs to know."""


class Blocks(_Means):
    """Needs each of three blocks once, but not the first one while it knows exactly one other."""

    has_shared_blocks = True
    state_fields = ("sums", "counts", "in_flight", "known")

    def __init__(self, problem: ToyProblem, seed: Any = None) -> None:
        super().__init__(problem, seed)
        self.in_flight = np.zeros(3, dtype=bool)
        self.known = np.zeros(3, dtype=bool)

    @property
    def needed(self) -> np.ndarray:
        needed = ~self.known
        needed[0] &= self.known.sum() != 1
        return needed

    def choose(self, **context: Any) -> tuple[int, int] | None:
        free = np.flatnonzero(self.needed & ~self.in_flight)
        if not free.size:
            return None
        self.in_flight[free[0]] = True
        return 0, int(free[0])

    def learn(self, pull: Pull, outcome: float) -> None:
        super().learn(pull, outcome)
        self.known[pull.tag] = True

    def on_failure(self, pull: Pull, reason: str) -> None:
        self.in_flight[pull.tag] = False

    def to_cancel(self) -> list[Pull]:
        return [pull for pull in self.outstanding() if not self.needed[pull.tag]]

    @property
    def stopped(self) -> bool:
        return bool(self.known.all())
