"""Slow and obvious reference for the kernels: the same rules by fractions and full scans."""

from fractions import Fraction
from itertools import count
from math import lcm


class SlowQuotas:
    """Credits as fractions; every decision scans all arms, every metric all rounds."""

    def __init__(self, shares, unfairness_tolerance=0, carry=None, initial=None):
        self.shares = [Fraction(share) for share in shares]
        self.unfairness_tolerance, self.carry = unfairness_tolerance, carry
        self.t = 0
        self.counts = [0] * len(self.shares)
        self.initial = [Fraction(credit) for credit in initial or [0] * len(self.shares)]
        least = min(self.initial) if carry is None else Fraction(-carry)
        self.credits = [max(least, credit) for credit in self.initial]
        self.forced = 0
        self.worst = max(self.initial)
        self.overdue = 0

    def released(self):
        return [
            arm for arm, credit in enumerate(self.credits) if credit > self.unfairness_tolerance
        ]

    def due(self, arm, owed=1):
        """Return the first round d after which `owed` more pulls would be missing."""
        needed = self.unfairness_tolerance + owed - self.credits[arm] + self.shares[arm] * self.t
        return -((-needed) // self.shares[arm])

    def allowed(self):
        if sum(self.shares) == 1:
            return [arm for arm, share in enumerate(self.shares) if share > 0]
        return list(range(len(self.shares)))

    def pull(self, arm, forced):
        self.t += 1
        self.forced += forced
        self.counts[arm] += 1
        for i, share in enumerate(self.shares):
            self.credits[i] += share
        self.credits[arm] -= 1
        if self.carry is not None and not forced:
            self.credits[arm] = max(self.credits[arm], Fraction(-self.carry))
        behind = max(
            c + r * self.t - n
            for c, r, n in zip(self.initial, self.shares, self.counts, strict=True)
        )
        self.worst = max(self.worst, behind)
        self.overdue += any(credit // 1 > self.unfairness_tolerance for credit in self.credits)

    def pull_awake(self, awake, learner):
        """Make a round in which some arms sleep and get no credit; return the pulled arm."""
        owed = [arm for arm in awake if self.credits[arm] > self.unfairness_tolerance]
        arm = min(owed, key=lambda arm: (-self.credits[arm], arm)) if owed else learner(awake)
        self.pull(arm, bool(owed))
        for other in set(range(len(self.shares))) - set(awake):
            self.credits[other] -= self.shares[other]
        return arm

    def take_back(self, arm, slept):
        """Take back a failed pull and its round; only for its own arm if arms have slept."""
        self.credits[arm] += 1
        self.t -= not slept
        for other in [arm] if slept else range(len(self.shares)):
            self.credits[other] -= self.shares[other]

    def step(self, scheduler, learner):
        """Make one round, in which `learner(allowed)` picks a free arm; return the pulled arm."""
        forced = getattr(self, scheduler)()
        if forced is None:
            arm, was_forced = learner(self.allowed()), False
        elif isinstance(forced, list):
            arm, was_forced = learner(forced), True
        else:
            arm, was_forced = forced, True
        self.pull(arm, was_forced)
        return arm

    def due_first(self):
        return min(self.released(), key=lambda arm: (self.due(arm), arm), default=None)

    def largest(self):
        return min(self.released(), key=lambda arm: (-self.credits[arm], arm), default=None)

    def owed(self, ahead):
        """Return the numbers of pulls that are due within 1, 2, ... rounds from now."""
        unit = lcm(*(part.denominator for part in (*self.shares, *self.initial, *self.credits)))
        pairs = [
            (int(c * unit), int(r * unit)) for c, r in zip(self.credits, self.shares, strict=False)
        ]
        return [
            sum(max(0, (c + r * rise) // unit - self.unfairness_tolerance) for c, r in pairs)
            for rise in range(1, ahead + 1)
        ]

    def slack(self, ahead):
        """Return the smallest slack before any of the next rounds, and the first such round."""
        rooms = [rise - owed for rise, owed in enumerate(self.owed(ahead), start=1)]
        return min(rooms), self.t + 1 + rooms.index(min(rooms))

    def waste(self, ahead):
        """Return how many rounds can be wasted now, that is, without an owed pull."""
        return min(rise - owed for rise, owed in enumerate(self.owed(ahead), start=1) if owed)

    free_until = tight_until = 0

    def lazy(self, ahead=300, mask=False):
        owing = [arm for arm, share in enumerate(self.shares) if share > 0]
        if self.t < self.free_until or not owing:
            return None
        if self.t >= self.tight_until:
            room, date = self.slack(ahead)
            if room > 0:
                self.free_until = self.t + room
                return None
            if mask:
                return [arm for arm in owing if self.due(arm) <= date]
            self.tight_until = date
        return min(owing, key=lambda arm: (self.due(arm), arm))

    def rechecked(self, ahead=300):
        """Return what `lazy` forces if the slack is computed again in every round."""
        owing = [arm for arm, share in enumerate(self.shares) if share > 0]
        if not owing or self.slack(ahead)[0] > 0:
            return None
        return min(owing, key=lambda arm: (self.due(arm), arm))

    def masked(self):
        return self.lazy(mask=True)


def float_rule(share, rounds):
    """Return the pulls of two arms, the second owed `share`, with (inexact) floats."""
    pulls, counts = [], [0, 0]
    for t in count(1):
        if t > rounds:
            return pulls
        arm = 1 if share * (t - 1) - counts[1] > 0 else 0
        counts[arm] += 1
        pulls.append(arm)
    return None


def solve_fractions(rows):
    """Return the solution of square linear equations, each with its right side last."""
    rows = [list(row) for row in rows]
    for column in range(len(rows)):
        pivot = next((i for i in range(column, len(rows)) if rows[i][column]), None)
        if pivot is None:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for i, row in enumerate(rows):
            if i != column and row[column]:
                factor = row[column] / rows[column][column]
                rows[i] = [a - factor * b for a, b in zip(row, rows[column], strict=True)]
    return [row[-1] / row[i] for i, row in enumerate(rows)]
