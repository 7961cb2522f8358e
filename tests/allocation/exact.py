"""Exact reference for shares, by fractions and full scans, with all events of a pull.

It follows the definitions in docs/explanation/fair-shares.md and is independent of the kernels. It
computes which arm is forced in every round, and how far an arm may be behind.
"""

from __future__ import annotations

from fractions import Fraction
from math import lcm

ONE = Fraction(1)


def ceil(value: Fraction) -> int:
    return -(-value // 1)


class ExactShares:
    """The decisions that a `FairLearn` must make, and what it guarantees.

    `credits` are those that the scheduler uses; `owed` are the same without the pulls that `carry`
    forgave. Both have an entry for every arm, followed by one for every group.
    """

    def __init__(self, problem, scheduler="due", mask=False, carry=None, initial=None):
        self.plays, self.unfairness_tolerance = problem.plays, problem.unfairness_tolerance
        self.scheduler, self.mask, self.carry = scheduler, mask, carry
        self.arms = len(problem.arms)
        groups = list((problem.groups or {}).values())
        self.shares = [*problem.shares, *(share for share, _ in groups)]
        self.members = [
            [arm for arm, label in enumerate(problem.arms) if label in inside]
            for _, inside in groups
        ]
        alone = set(range(self.arms)).difference(*self.members)
        self.exhausted = (
            sum(self.shares[arm] for arm in alone) + sum(share for share, _ in groups)
            == problem.plays
        )
        self.initial = self._startable(initial or [Fraction(0)] * len(self.shares))
        self.owed = list(self.initial)
        self.credits = [self._clipped(credit) for credit in self.initial]
        self.t, self.slot, self.taken = 0, 0, set()
        self.missed = [0] * self.arms  # rounds that do not count for a single arm
        self.counts = [0] * self.arms
        self.free_until = self.tight_until = 0
        self.slept = self.any_failed = False
        self.worst, self.rounds_behind = max(self.owed), 0
        self.open = self.since_free = self.earlier = 0

    def _startable(self, initial):
        if self.plays == 1:
            return list(initial)
        pairs = zip(initial, self.shares, strict=True)
        return [share * (credit // share) if share else Fraction(0) for credit, share in pairs]

    def _clipped(self, credit):
        return credit if self.carry is None else max(credit, Fraction(-self.carry))

    def nodes_of(self, arm):
        groups = (self.arms + g for g, inside in enumerate(self.members) if arm in inside)
        return [arm, *groups]

    # ---------------------------------------------------------------- who is forced

    def due_in(self, node, more=1):
        """Return the least h with ``floor(credit + share h) >= tolerance + more``."""
        return ceil((self.unfairness_tolerance + more - self.credits[node]) / self.shares[node])

    def ruling(self, awake=None):
        """Return the forced arm, or else the arms to choose from and whether they are forced."""
        if awake is not None and len(awake) < self.arms:
            return self._among(awake)
        if self.plays > 1:
            return self._pd2()
        found = {"due": self._due, "largest": self._largest, "lazy": self._lazy}[self.scheduler]()
        if found is not None:
            return found
        open_to = [a for a in range(self.arms) if not self.exhausted or self.shares[a] > 0]
        return None, open_to, False

    def _among(self, awake):
        released = [arm for arm in awake if self.credits[arm] > self.unfairness_tolerance]
        if released:
            return min(released, key=lambda arm: (-self.credits[arm], arm)), None, True
        return None, sorted(awake), False

    def _due(self):
        released = [
            n for n, credit in enumerate(self.credits) if credit > self.unfairness_tolerance
        ]
        if not released:
            return None
        node = min(released, key=lambda node: (self.due_in(node), node))
        if node < self.arms:
            return node, None, True
        inside = self.members[node - self.arms]
        owing = [arm for arm in inside if self.shares[arm] > 0]
        if not owing:
            return None, inside, True
        return min(owing, key=lambda arm: (self.due_in(arm), arm)), None, True

    def _largest(self):
        released = [
            n for n, credit in enumerate(self.credits) if credit > self.unfairness_tolerance
        ]
        if not released:
            return None
        return min(released, key=lambda arm: (-self.credits[arm], arm)), None, True

    def _lazy(self):
        owing = [arm for arm in range(self.arms) if self.shares[arm] > 0]
        if not owing or self.t < self.free_until:
            return None
        if self.t >= self.tight_until:
            room, tight = self._slack(owing)
            if room > 0:
                self.free_until = self.t + room
                return None
            if self.mask:
                return None, [arm for arm in owing if self.due_in(arm) <= tight], True
            self.tight_until = self.t + tight
        return min(owing, key=lambda arm: (self.due_in(arm), arm)), None, True

    def _slack(self, owing):
        unit = lcm(*(part.denominator for part in (*self.shares, *self.credits)))
        period = lcm(*(share.denominator for share in self.shares))
        ahead = max(1, max(self.due_in(arm) for arm in owing)) + period
        pairs = [(int(self.credits[a] * unit), int(self.shares[a] * unit)) for a in owing]
        least = (ahead, ahead)
        for rise in range(1, ahead + 1):
            owed = sum(max(0, (c + r * rise) // unit - self.unfairness_tolerance) for c, r in pairs)
            if rise - owed <= 0:
                return 0, rise
            least = min(least, (rise - owed, rise))
        return least

    def _pd2(self):
        released = [
            arm
            for arm in range(self.arms)
            if self.credits[arm] + self.shares[arm] > self.unfairness_tolerance
            and arm not in self.taken
        ]
        if released:
            return min(released, key=lambda arm: (self._pressing(arm), arm)), None, True
        closed = {arm for arm in range(self.arms) if self.exhausted and self.shares[arm] == 0}
        return None, [a for a in range(self.arms) if a not in self.taken | closed], False

    def _pressing(self, arm):
        """Return the key by which PD2 orders subtasks of arms that began in different rounds."""
        share = self.shares[arm]
        begun = -self.initial[arm] / share + self.missed[arm]
        number = self.counts[arm] + 1 + self.unfairness_tolerance
        exact = number / share
        deadline = ceil(exact)
        bit = exact != deadline
        group = _group_deadline(share, number) if bit else 0
        return share != 1, begun + deadline, not bit, -(begun + group) if group else 0

    # --------------------------------------------------------------- what happens

    def pull(self, arm, forced, awake=None):
        for node in self.nodes_of(arm):
            self.credits[node] -= 1
            self.owed[node] -= 1
        self.counts[arm] += 1
        self.taken.add(arm)
        self.slot += 1
        self.open = max(0, self.open - 1)
        if not forced:
            self.open = self.since_free = self.earlier = 0
        sleeping = awake is not None and len(awake) < self.arms
        if self.slot == self.plays:
            self._close(set(awake) if sleeping else set(range(self.arms)))
        if not forced and self.carry is not None:
            self.credits[arm] = self._clipped(self.credits[arm])
        self._look()
        if self.slot == 0:
            self.rounds_behind += any(
                credit // 1 > self.unfairness_tolerance for credit in self.owed
            )

    def _close(self, awake):
        self.slot, self.taken = 0, set()
        self.t += 1
        self._pass_round(1, [n for n in range(len(self.shares)) if n >= self.arms or n in awake])
        if len(awake) < self.arms:
            self.slept = True
            self.free_until = self.tight_until = self.t

    def _pass_round(self, rounds, nodes):
        for node in nodes:
            self.credits[node] += rounds * self.shares[node]
            self.owed[node] += rounds * self.shares[node]

    def fail(self, arm):
        """Take back a pull of this epoch, and its round."""
        for node in self.nodes_of(arm):
            self.credits[node] += 1
            self.owed[node] += 1
        self.counts[arm] -= 1
        if self.plays == 1 and not self.slept:
            self.t -= 1
            self._pass_round(-1, range(len(self.shares)))
        else:
            self.missed[arm] += 1
            self._pass_round(-1, [arm])
        self._cap(arm)
        self.open += 1
        self.since_free += 1
        self.any_failed = True
        self.free_until = self.tight_until = self.t
        self._look()

    def _cap(self, arm):
        """Limit an arm's credits, so that pulls that the carry forgot are not owed again."""
        if self.carry is not None:
            most = max(Fraction(self.unfairness_tolerance), self.owed[arm])
            self.credits[arm] = min(self.credits[arm], most)

    def fail_earlier(self, arm):
        """Raise the initial credits of an arm and its group by one pull, up to the tolerance."""
        for node in self.nodes_of(arm):
            begun = self.initial[node]
            more = min(ONE, self.unfairness_tolerance - begun)
            if self.plays > 1:
                share = self.shares[node]
                more = share * (more // share) if share else more
            self.initial[node] += more
            self.owed[node] += more
            self.credits[node] += more
        self._cap(arm)
        self.earlier += 1
        self.any_failed = True
        self.free_until = self.tight_until = self.t
        self._look()

    def _look(self):
        self.worst = max(self.worst, *self.owed)

    # ------------------------------------------------------------- what is promised

    def behind(self):
        """Return the whole pulls by which all nodes together are behind beyond the tolerance.

        A pull serves its arm and its group at once, so the larger of a group's shortage and its
        members' total shortage counts.
        """
        lacks = [max(0, credit // 1 - self.unfairness_tolerance) for credit in self.credits]
        grouped = {arm for inside in self.members for arm in inside}
        alone = sum(lacks[arm] for arm in range(self.arms) if arm not in grouped)
        together = (
            max(lacks[self.arms + g], sum(lacks[arm] for arm in inside))
            for g, inside in enumerate(self.members)
        )
        return alone + sum(together)

    def promised(self):
        """Return the allowed value of `behind`: failed pulls that are not yet made up for.

        Each round makes up for one. But with the largest-credit rule, and for pulls that failed in
        a later epoch than their own, it can take until the next free round. None if nothing is
        proven.
        """
        if self.slept:
            return None
        if self.plays > 1:
            return None if self.any_failed else 0
        if self.scheduler == "largest":
            some = sum(share > 0 for share in self.shares)
            safe = all(share * some < 1 for share in self.shares)
            return self.since_free + self.earlier if safe else None
        return self.open + self.earlier


def _group_deadline(share, number):
    """Return the group deadline by its definition: walk along windows from subtask `number` on."""
    if share < Fraction(1, 2) or share == 1:
        return 0
    j = number
    while True:
        release, deadline = (j - 1) / share // 1, ceil(j / share)
        if j / share == deadline:
            return deadline
        if deadline - release == 3 and deadline - 1 >= ceil(number / share):
            return deadline - 1
        j += 1
