"""What a race says of itself: its answer, its estimates, and what its promise stands on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fairtrial.core.pull import UNSOLICITED
from fairtrial.core.recommendation import Estimate, Guarantee, Progress, Recommendation, Status
from fairtrial.core.wording import or_within, plural
from fairtrial.delayed.policies._books import BookedPolicy

__all__ = ["ReportingPolicy"]


class ReportingPolicy(BookedPolicy):
    """A policy that reads its answer out of the books."""

    def _best(self) -> tuple[str, ...]:
        """Return the answer, or what it would be by the data so far, the best arm first."""
        from fairtrial.delayed._kernels import books

        accepted = self._arms[:, books.STATUS] == books.ACCEPTED
        survives = self._arms[:, books.STATUS] == books.SURVIVES
        known = np.isfinite(self._arms[:, books.VARIANCE])
        means = np.where(known, self._arms[:, books.MEAN], -math.inf)
        # Accepted arms have their place; then by mean, and arms of equal mean in their order.
        order = np.lexsort((-means, ~accepted, ~(accepted | survives)))[: self.problem.top]
        best = sorted(order.tolist(), key=lambda arm: (-means[arm], arm))
        return tuple(self.problem.arms[arm] for arm in best)

    def recommend(self) -> Recommendation:
        """Return the answer now: the top arms, the best first, or none yet (`status`)."""
        status: Status = "decided" if self._decided else "undecided" if self.stopped else "running"
        leader = self._best()
        evidence, threshold = self._evidence()
        return Recommendation(
            arm=leader if self._decided else None,
            status=status,
            leader=leader,
            confidence=1.0 - self.delta,
            guarantee=self.guarantee,
            reason=self._reason(leader),
            evidence={"evidence": evidence, "threshold": threshold, "pulls": self.told},
        )

    def _reason(self, leader: tuple[str, ...]) -> str:
        from fairtrial.delayed._kernels import books

        names = ", ".join(repr(arm) for arm in leader)
        verb = "leads" if len(leader) == 1 else "lead"
        if self._decided:
            one = len(leader) == 1
            best = "is the best" if one else f"are the best {len(leader)}"
            near = or_within(self.problem.tolerance, "it" if one else "them")
            return f"the evidence suffices: {names} {best}{near}"
        if self._waits_for_decision:
            return (
                "needs a decision: a pull failed, perhaps because of its outcome; tell its outcome,"
                " or say failure='independent' or a failure_value in the problem"
            )
        if self._capped:
            return (
                f"a cap on results, readings or time is reached; by the data so far {names} {verb}"
            )
        if not np.isfinite(self._arms[:, books.VARIANCE]).any():
            return "nothing is known of any arm yet"
        return f"by the data so far {names} {verb}; the evidence does not suffice yet"

    def _evidence(self) -> tuple[float | None, float | None]:
        """Return the evidence for the leaders, and what would stop the policy."""
        return None, None

    def progress(self) -> Progress:
        """Return estimates with intervals that hold at all times, and the state of every arm."""
        evidence, threshold = self._evidence()
        estimates = self._estimates()
        return Progress(
            recommendation=self.recommend(),
            asked=self.asked,
            told=self.told,
            outstanding=len(self._outstanding),
            evidence=evidence,
            threshold=threshold,
            actions=estimates,
            arms=estimates,
            details=self._details(),
        )

    def _estimates(self) -> tuple[Estimate, ...]:
        from fairtrial.delayed._kernels import books

        lower, upper = self._intervals()
        if self._sign < 0:
            lower, upper = -upper, -lower
        estimates = []
        for arm, labels in enumerate(self.problem.action_labels):
            known = math.isfinite(self._arms[arm, books.VARIANCE])
            estimates.append(
                Estimate(
                    labels,
                    int(self._arms[arm, books.COMPLETED]),
                    mean=float(self._sign * self._arms[arm, books.MEAN]) if known else None,
                    lower=float(lower[arm]) if math.isfinite(lower[arm]) else None,
                    upper=float(upper[arm]) if math.isfinite(upper[arm]) else None,
                )
            )
        return tuple(estimates)

    def _details(self) -> Mapping[str, Any]:
        from fairtrial.delayed._kernels import books

        names = ("undecided", "accepted", "rejected")
        status = self._arms[:, books.STATUS].astype(int).tolist()
        return {
            "arms": {arm: names[code] for arm, code in zip(self.problem.arms, status, strict=True)},
            "answers": [
                {"answer": arm, "accepted": code == 1, "rejected": code == 2, "worse_than": better}
                for arm, code, better in zip(
                    self.problem.arms, status, self._declared_better(), strict=True
                )
            ],
            "readings": int(self._control[books.READINGS]),
            "duplicates": self.duplicates,
            "truncate": None if self._cut_at == math.inf else int(self._cut_at),
        }

    def _declared_better(self) -> list[list[str]]:
        """Return for every arm who was declared better, as many as put it out; by pairs only."""
        arms = self.problem.arms
        if self._declared.shape != (len(arms), len(arms)):
            return [[] for _ in arms]
        return [
            [arms[better] for better in np.flatnonzero(worse)[: self.problem.top].tolist()]
            for worse in self._declared.T
        ]

    def metrics(self) -> dict[str, float]:
        """Return the number of readings that were used."""
        from fairtrial.delayed._kernels import books

        return {"readings": float(self._control[books.READINGS])}

    # ------------------------------------------------------------------- guarantee

    def _promise(self, name: str, proven: bool, assumptions: list[str], source: str) -> Guarantee:
        """Return a rule's guarantee, with what all of the family stand on."""
        problem = self.problem
        near = f", within {problem.tolerance:g}" if problem.tolerance else ""
        one = problem.top == 1
        wrong = (
            "an arm that is not the best" if one else f"a set that is not the best {problem.top}"
        )
        promise = Guarantee(
            name=name,
            proven=proven and self._covers_failures,
            statement=(
                f"the probability that this study ever gives {wrong}{near} is at most "
                f"{self.delta:g}"
            ),
            assumptions=(*assumptions, *self._common_assumptions()),
            source=source,
        )
        if self._amended:
            promise = promise.weakened(
                f"{plural(self._amended, 'correction')} came after decisions had used the outcomes"
            )
        if self._not_nested and self._uses_readings:
            promise = promise.weakened(
                f"{self._not_nested} readings differ from one before at the same deviation, which "
                "nested errors cannot"
            )
        return promise

    def _common_assumptions(self) -> list[str]:
        problem = self.problem
        if problem.delay_depends_on_outcome:
            common = ["delays may depend on outcomes: only runs of complete pulls count"]
        else:
            common = ["when results and readings come says nothing of the outcome"]
        common.append("a pull is stopped on the strength of logged data only")
        if problem.failure_value is not None:
            unforeseen = "" if self._covers_failures else (
                ", which normal noise and readings do not foresee (not proven)"
            )  # fmt: skip
            common.append(
                f"a pull that fails has the outcome {problem.failure_value:g}{unforeseen}"
            )
        if self._returned:
            common.append(
                f"{self._returned} pulls had failed when their outcomes came: that they came says "
                "nothing of them"
            )
        if unasked := self._unasked():
            common.append(f"{unasked} results came unasked: none was held back for its value")
        if self._dropped:
            common.append(
                f"{plural(self._dropped, 'pull')} got lost for reasons unrelated to outcomes"
            )
        if self._clipped:
            common.append(f"means are of clipped outcomes: {self._clipped} were clipped")
        return common

    @property
    def _covers_failures(self) -> bool:
        """Whether an outcome may be a failure's: not if it is to be normal, or read beforehand."""
        valued = self.problem.failure_value is not None
        return not (valued and (self.problem.gaussian or self._uses_readings))

    def _unasked(self) -> int:
        """Return the number of results that nobody asked for."""
        from fairtrial.delayed._kernels import books

        rows = self._pulls[: int(self._control[books.ROWS])]
        return int((rows[:, books.NUMBER] == UNSOLICITED).sum())

    def _noise_assumption(self) -> str:
        problem = self.problem
        if problem.reward_range is not None:
            low, high = problem.reward_range
            return f"every outcome lies in [{low:g}, {high:g}]"
        if problem.noise == "estimated":
            return (
                "outcomes are about normal; deviations are estimated: calibrated by simulation, "
                "not proven"
            )
        noisy = "outcomes and errors of readings" if self._uses_readings else "outcomes"
        if problem.gaussian:
            return f"{noisy} are normal, at the stated deviations"
        return f"{noisy} are sub-Gaussian at the stated scales"
