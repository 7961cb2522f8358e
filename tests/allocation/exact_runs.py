"""Random runs of `FairLearn`; every call is checked with exact fractions.

The runs include groups, several plays, initial credits, carries, adversarial learners, sleeping
arms, single and mass failures, and epochs. A second policy runs in parallel and is saved and
restored after every call.
"""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np

from fairtrial.allocation import FairLearn, Problem
from tests.allocation.exact import ExactShares

KINDS = ("plain", "plain", "plain", "groups", "plays", "sleep")


class Free:
    """The learner of both policies: take the run's choice, and check the allowed arms."""

    def __init__(self):
        self.arm, self.open_to = None, None

    def __call__(self, t, counts, sums, allowed):
        assert allowed.tolist() == self.open_to
        return self.arm


class ExactRun:
    """One random run; `play` runs it and asserts after every call."""

    def __init__(self, seed, steps=40):
        self.rng = np.random.default_rng(seed)
        self.steps = steps
        self.kind = KINDS[int(self.rng.integers(len(KINDS)))]
        self.scheduler, self.mask = "due", False
        if self.kind in ("plain", "sleep"):
            self.scheduler = str(self.rng.choice(["due", "due", "largest", "lazy"]))
            self.mask = self.scheduler == "lazy" and self.rng.random() < 0.5
        self.free = Free()
        self.failing, self.bursts = self.rng.choice([0, 0.1, 0.4]), self.rng.random() < 0.3
        problem = self._problem(list("abcdef")[: int(self.rng.integers(1, 6))])
        self.carry = self._carry()
        initial = self._initial(problem)
        self.exact = ExactShares(problem, self.scheduler, self.mask, self.carry, initial)
        self.straight = FairLearn(
            problem, self.free, self.scheduler, self.carry, self.mask, True, initial_credits=initial
        )
        self.restored = self.straight.clone()
        self.flying, self.first = [], 0
        self.most_behind = self.failed = 0

    # ----------------------------------------------------------------- what is drawn

    def _problem(self, arms):
        rng, unfairness_tolerance = self.rng, int(self.rng.choice([0, 0, 0, 1, 2]))
        plays = 1
        if self.kind == "plays":
            arms = list("abcdef")[: max(3, len(arms))]
            plays = int(rng.integers(2, len(arms)))
        unit = int(rng.choice([4, 6, 10, 12]))
        full = self.kind != "groups" and rng.random() < 0.3
        parts = self._parts(len(arms), plays * unit - (0 if full else 1), unit, full)
        groups = None
        if self.kind == "groups" and len(arms) > 1:
            inside = [str(arm) for arm in arms[: int(rng.integers(1, len(arms) + 1))]]
            own = sum(parts[: len(inside)])
            more = int(rng.integers(0, unit - sum(parts)))
            groups = {"g": (Fraction(own + more, unit), inside)}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "the shares take every pull")
            return Problem(
                arms,
                [Fraction(p, unit) for p in parts],
                unfairness_tolerance,
                groups=groups,
                plays=plays,
            )

    def _parts(self, arms, left, most, full):
        """Return parts that sum to `left` if `full` and possible, otherwise to at most `left`."""
        parts = [0] * arms
        for arm in self.rng.permutation(arms).tolist():
            parts[arm] = int(self.rng.integers(0, min(most, left) + 1))
            left -= parts[arm]
        for arm in range(arms):
            more = min(most - parts[arm], left) if full else 0
            parts[arm] += more
            left -= more
        return parts

    def _carry(self):
        if self.scheduler == "lazy" or self.kind in ("groups", "plays"):
            return None
        return self.rng.choice([None, 1, 2, 5]) if self.rng.random() < 0.7 else None

    def _initial(self, problem):
        nodes = len(problem.arms) + len(problem.groups or {})
        if self.rng.random() < 0.4:
            return None
        low = int(self.rng.choice([-2, -20]))
        parts = self.rng.integers(low * 12, problem.unfairness_tolerance * 12 + 1, nodes)
        return [Fraction(int(part), 12) for part in parts]

    def _pick(self, open_to):
        """Choose like an adversarial learner, or at random."""
        by_credit = sorted(open_to, key=lambda arm: (self.exact.credits[arm], arm))
        return by_credit[0 if self.rng.random() < 0.5 else int(self.rng.integers(len(open_to)))]

    # ------------------------------------------------------------------ what happens

    def play(self):
        for step in range(self.steps):
            self._ask()
            self._after(step)
            if self.rng.random() < self.failing:
                for _ in range(int(self.rng.integers(1, 9)) if self.bursts else 1):
                    self._fail()
                    self._after(step)
            if self.rng.random() < 0.05 and self.exact.slot == 0:
                self._next_epoch()
                self._after(step)
        self._compare_reports()
        return self

    def _ask(self):
        awake = None
        if self.kind == "sleep" and self.rng.random() < 0.5:
            arms = range(self.exact.arms)
            awake = [arm for arm in arms if self.rng.random() < 0.6] or [0]
        arm, open_to, forced = self.exact.ruling(awake)
        if arm is None:
            arm = self._pick(open_to)
        self.free.arm, self.free.open_to = arm, open_to
        labels = self.straight.problem.arms
        given = {} if awake is None else {"awake": [labels[each] for each in awake]}
        pull, other = self.straight.ask(**given), self.restored.ask(**given)
        assert pull.action == arm
        assert other.action == arm
        self.exact.pull(arm, forced, awake)
        self.flying.append(pull)
        if self.rng.random() < 0.2:
            self._tell(self.flying.pop(int(self.rng.integers(len(self.flying)))))

    def _tell(self, pull):
        for policy in (self.straight, self.restored):
            policy.tell(pull, 1.0)

    def _fail(self):
        if not self.flying:
            return
        pull = self.flying.pop(self._unlucky())
        for policy in (self.straight, self.restored):
            policy.fail(pull)
        labels = self.straight.problem.arms
        if pull.number >= self.first:
            self.exact.fail(pull.action)
        elif pull.arm in labels:
            self.exact.fail_earlier(labels.index(pull.arm))
        self.failed += 1

    def _unlucky(self):
        """Return the index of a pull in flight: any, or one on the arm that is owed the most."""
        if self.rng.random() < 0.4:
            return int(self.rng.integers(len(self.flying)))
        credit = dict(zip(self.straight.problem.arms, self.exact.credits, strict=False))
        return max(range(len(self.flying)), key=lambda i: credit.get(self.flying[i].arm, -99))

    def _next_epoch(self):
        before = self.straight.problem
        stays = before.arms[: int(self.rng.integers(0, len(before.arms) + 1))]
        comes = [arm for arm in "uvwxyz" if arm not in stays][: max(0, 4 - len(stays))]
        problem = self._problem([str(arm) for arm in self.rng.permutation([*stays, *comes])])
        self.carry = self._carry()
        groups = lambda given: [f"group {group}" for group in given.groups or {}]  # noqa: E731
        owed = dict(zip([*before.arms, *groups(before)], self.exact.credits, strict=True))
        initial = [
            min(owed.get(node, Fraction(0)), Fraction(problem.unfairness_tolerance))
            for node in [*problem.arms, *groups(problem)]
        ]
        self.exact = ExactShares(problem, self.scheduler, self.mask, self.carry, initial)
        self.straight = self.straight.next_epoch(problem, carry=self.carry)
        self.restored = self.restored.next_epoch(problem, carry=self.carry)
        self.first = self.straight.asked

    # -------------------------------------------------------------------- the judge

    def _after(self, step):
        if step % 8 == 0:
            fresh = self.restored.clone()
            fresh.set_state(self.restored.get_state())
            self.restored = fresh
        else:
            self.restored.set_state(self.restored.get_state())
        assert self.straight.credits == tuple(self.exact.owed[: self.exact.arms])
        promised, behind = self.exact.promised(), self.exact.behind()
        if promised is not None and self.exact.slot == 0:
            assert behind <= promised
            self.most_behind = max(self.most_behind, behind)

    def _compare_reports(self):
        metrics, worst = self.straight.metrics(), self.exact.worst
        assert metrics == self.restored.metrics()
        assert metrics["floored_violation"] == worst // 1
        assert metrics["rounds_in_violation"] == self.exact.rounds_behind
        mine, other = self.straight.get_state(), self.restored.get_state()
        for name, value in mine.items():
            np.testing.assert_array_equal(value, other[name], err_msg=name)
