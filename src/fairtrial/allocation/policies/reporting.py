"""What a policy of the family says of itself: credits, violations, means and shares."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from fairtrial.allocation._kernels.counting import worst_credit
from fairtrial.allocation._kernels.model import (
    ASLEEP,
    COUNT,
    FORCED,
    GAP,
    INITIAL,
    LAST,
    OVERDUE,
    QUOTA,
    ROUND,
    SUM,
    TOLD,
    UNIT,
)
from fairtrial.allocation.policies.arrays import Floats, Integers, Options
from fairtrial.allocation.problem import Problem
from fairtrial.confidence.bounds import NormalMixture
from fairtrial.core.policy import Policy
from fairtrial.core.recommendation import Estimate, Progress, Recommendation

__all__ = ["ReportingPolicy"]

_LEVEL = 0.05
_NAMED_GAPS = 100


class ReportingPolicy(Policy):
    """A policy that reports from the arrays of quotas and statistics."""

    problem: Problem
    _given: Options
    _control: Integers
    _book: Integers
    _stats: Floats
    _low: float
    _width: float

    _first = 0
    """Number of the first pull of its own: those before were issued in earlier epochs."""

    @property
    def credits(self) -> tuple[Fraction, ...]:
        """What every arm is owed now, in pulls: ``r_i t - N_i``; exact.

        With sleeping arms t counts the rounds in which the arm was awake, and with several plays
        a round those without a failed pull of it; a credit that the arm began with is in it.
        """
        return self._credits(slice(len(self.problem.arms)))

    def _credits(self, nodes: slice) -> tuple[Fraction, ...]:
        """Return what arms and, after them, groups are owed now."""
        unit = self._parts
        rows = zip(
            *(self._book[plane, nodes].tolist() for plane in (QUOTA, INITIAL, ASLEEP, COUNT)),
            strict=True,
        )
        rounds = self._rounds
        return tuple(
            Fraction(initial + quota * (rounds - asleep) - unit * count, unit)
            for quota, initial, asleep, count in rows
        )

    @property
    def _parts(self) -> int:
        """The parts of a pull in which credits are counted: the denominator of them all."""
        return int(self._control[UNIT])

    @property
    def _rounds(self) -> int:
        return int(self._control[ROUND])

    def metrics(self) -> dict[str, float]:
        """Return how well the shares were kept so far.

        Returns
        -------
        dict
            ``violation`` and ``floored_violation``: the largest ``r_i t - N_i`` and
            ``floor(r_i t) - N_i`` of any arm after any round (from t = 0), also one that failed
            since; ``rounds_in_violation``: rounds after which an arm was further behind than the
            tolerance; ``forced_share`` of the pulls; ``longest_gap`` between two pulls of an arm,
            in rounds, over all and (up to 100 arms) by arm; the gap that is still open counts.
        """
        worst, unit = int(worst_credit(self._control, self._book)), self._parts
        gaps = self._gaps()
        found = {
            "violation": float(Fraction(worst, unit)),
            "floored_violation": float(worst // unit),
            "rounds_in_violation": float(self._control[OVERDUE]),
            "forced_share": float(self._control[FORCED]) / max(1, self.asked - self._first),
            "longest_gap": float(max(gaps)),
        }
        if len(gaps) <= _NAMED_GAPS:
            pairs = zip(self.problem.arms, gaps, strict=True)
            found.update({f"longest_gap {arm}": float(gap) for arm, gap in pairs})
        return found

    def _gaps(self) -> list[int]:
        arms = len(self.problem.arms)
        now = (self.asked - self._first) // self.problem.plays
        gaps: list[int] = np.maximum(self._book[GAP, :arms], now - self._book[LAST, :arms]).tolist()
        return gaps

    def recommend(self) -> Recommendation:
        """Return the arm that leads by its mean; serving never ends with an answer."""
        counts, sums = self._totals()
        known = counts > 0
        leader = None
        reason = "no reward has come yet"
        if known.any():
            means = np.where(known, sums / np.maximum(counts, 1.0), -np.inf)
            leader = self.problem.arms[int(np.argmax(means))]
            reason = f"{leader!r} has the best mean so far; serving goes on"
        metrics = self.metrics()
        return Recommendation(
            arm=None,
            status="running",
            leader=leader,
            guarantee=self.guarantee,
            reason=reason,
            evidence={
                "rounds": self._rounds,
                **{
                    name: metrics[name]
                    for name in ("violation", "floored_violation", "forced_share")
                },
            },
        )

    def progress(self) -> Progress:
        """Return means with anytime intervals (95 % each), and shares against quotas."""
        rounds = max(1, self._rounds)
        pulls = self._book[COUNT, : len(self.problem.arms)].tolist()
        shares = [count / rounds for count in pulls]
        arms = tuple(
            Estimate(labels, pulls=count, mean=share, lower_limit=float(quota))
            for labels, count, share, quota in zip(
                self.problem.action_labels, pulls, shares, self.problem.shares, strict=True
            )
        )
        owed = zip(self.problem.arms, self.credits, strict=True)
        return Progress(
            recommendation=self.recommend(),
            asked=self.asked,
            told=self.told,
            outstanding=len(self._outstanding),
            actions=self._estimates(),
            arms=arms,
            details={
                **self.metrics(),
                "credits": {arm: float(credit) for arm, credit in owed},
                **self._groups(),
            },
            quantity="share",
        )

    def _groups(self) -> dict[str, Any]:
        """Return the share of every group, against what its members are owed together."""
        groups = self.problem.groups
        if not groups:
            return {}
        nodes = slice(len(self.problem.arms), None)
        counts, owed = self._book[COUNT, nodes].tolist(), self._credits(nodes)
        return {
            "groups": {
                label: {
                    "pulls": count,
                    "share": count / max(1, self._rounds),
                    "guaranteed": float(share),
                    "credit": float(credit),
                }
                for (label, (share, _)), count, credit in zip(
                    groups.items(), counts, owed, strict=True
                )
            }
        }

    def _totals(self) -> tuple[Floats, Floats]:
        """Return rewards received and their sums by arm, over all contexts."""
        shape = (self._given.contexts, len(self.problem.arms))
        counts: Floats = self._stats[TOLD].reshape(shape).sum(axis=0)
        sums = self._stats[SUM].reshape(shape).sum(axis=0)
        return counts, self._low * counts + self._width * sums

    def _estimates(self) -> tuple[Estimate, ...]:
        counts, sums = self._totals()
        low, high = self.problem.reward_range
        radius = NormalMixture().radius(counts, _LEVEL, 0.5 * self._width)
        estimates = []
        for arm, labels in enumerate(self.problem.action_labels):
            if counts[arm] == 0:
                estimates.append(Estimate(labels, pulls=0))
                continue
            mean = float(sums[arm] / counts[arm])
            estimates.append(
                Estimate(
                    labels,
                    pulls=int(counts[arm]),
                    mean=mean,
                    lower=max(low, mean - float(radius[arm])),
                    upper=min(high, mean + float(radius[arm])),
                )
            )
        return tuple(estimates)
