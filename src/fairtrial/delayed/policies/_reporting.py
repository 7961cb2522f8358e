"""What a race says of itself: its answer, its estimates, and what its promise stands on."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.pull import UNSOLICITED
from fairtrial.core.recommendation import Estimate, Guarantee, Progress, Recommendation, Status
from fairtrial.core.wording import or_within, plural
from fairtrial.delayed._kernels import books
from fairtrial.delayed.policies._books import BookedPolicy
from fairtrial.delayed.policies._checks import (
    contradicts,
    log_evidence_against_errors,
    log_evidence_of_delays,
    log_evidence_of_losses,
    spread_of_results,
)

__all__ = ["ReportingPolicy"]

Floats = NDArray[np.float64]

_TESTING = 6
"""Results beyond the first of each arm that can show a noise three times as large as stated."""


class ReportingPolicy(BookedPolicy):
    """A policy that reads its answer out of the books."""

    def _best(self) -> tuple[str, ...]:
        """Return the answer, or what it would be now, the best arm first."""
        accepted = self._arms[:, books.STATUS] == books.ACCEPTED
        survives = self._arms[:, books.STATUS] == books.SURVIVES
        known = np.isfinite(self._arms[:, books.VARIANCE])
        means = np.where(known, self._arms[:, books.MEAN], -math.inf)
        # Accepted arms have their place; then by mean, and arms of equal mean in their order.
        order = np.lexsort((-means, ~accepted, ~(accepted | survives)))[: self.problem.top]
        best = sorted(order.tolist(), key=lambda arm: (-means[arm], arm))
        return tuple(self.problem.arms[arm] for arm in best)

    @property
    def _status(self) -> Status:
        return "decided" if self._decided else "undecided" if self.stopped else "running"

    def recommend(self) -> Recommendation:
        """Return the answer now: the top arms, the best first, or none yet (`status`)."""
        leader = self._best()
        evidence, threshold = self._evidence()
        return Recommendation(
            arm=leader if self._decided else None,
            status=self._status,
            leader=leader,
            confidence=1.0 - self.delta,
            guarantee=self.guarantee,
            reason=self._reason(leader),
            evidence={"evidence": evidence, "threshold": threshold, "pulls": self.told},
            candidates=self._candidates(),
        )

    def _candidates(self) -> tuple[str, ...]:
        """Return the arms that may still be among the best k, in the order of the problem."""
        kept = self._arms[:, books.STATUS] != books.REJECTED
        return tuple(arm for arm, stays in zip(self.problem.arms, kept, strict=True) if stays)

    def _reason(self, leader: tuple[str, ...]) -> str:
        names = ", ".join(repr(arm) for arm in leader)
        verb = "leads" if len(leader) == 1 else "lead"
        if self._decided:
            one = len(leader) == 1
            best = "is the best" if one else f"are the best {len(leader)}"
            near = or_within(self.problem.tolerance, "it" if one else "them")
            return f"there is enough evidence: {names} {best}{near}"
        if self._waits_for_decision:
            return (
                "needs a decision: a pull failed, perhaps because of its outcome; tell its outcome,"
                " or say failure='independent' or a failure_value in the problem"
            )
        if self._capped:
            return f"a cap on results, readings or time is reached; {names} {verb} so far"
        if not np.isfinite(self._arms[:, books.VARIANCE]).any():
            return "nothing is known of any arm yet"
        return f"{names} {verb} so far; there is not enough evidence to decide yet"

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
        lower, upper = self._intervals()
        lower, upper = self._unit * lower, self._unit * upper
        if self.problem.sign < 0:
            lower, upper = -upper, -lower
        estimates = []
        for arm, labels in enumerate(self.problem.action_labels):
            known = math.isfinite(self._arms[arm, books.VARIANCE])
            estimates.append(
                Estimate(
                    labels,
                    int(self._arms[arm, books.COMPLETED]),
                    mean=float(self._outward * self._arms[arm, books.MEAN]) if known else None,
                    lower=float(lower[arm]) if math.isfinite(lower[arm]) else None,
                    upper=float(upper[arm]) if math.isfinite(upper[arm]) else None,
                )
            )
        return tuple(estimates)

    def _details(self) -> Mapping[str, Any]:
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
        for finding in self._findings():
            promise = promise.weakened(finding)
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
        if self._clipped:
            common.append(f"means are of clipped outcomes: {self._clipped} were clipped")
        return common

    # ------------------------------------------- what the results say against the assumptions

    def _findings(self) -> list[str]:
        """Return what takes the proof away, by the results so far; each as an assumption."""
        return [*self._found_in_losses(), *self._found_in_results(), *self._found_in_readings()]

    def warnings(self) -> tuple[str, ...]:
        """Return what the guarantee has to assume since the results do not bear it out."""
        return tuple(
            f"the guarantee is not proven, as it has to assume this: {finding}"
            for finding in self._findings()
        )

    def _found_in_losses(self) -> list[str]:
        if not self._dropped:
            return []
        number = len(self._dropped)
        chance = f"{plural(number, 'pull')} got lost for reasons unrelated to outcomes"
        if self.problem.failure != "independent":
            return [chance]
        if contradicts(log_evidence_of_losses(*self._told_and_lost())):
            return [f"{chance}, although some arms lose far more of them than others"]
        return []

    def _told_and_lost(self) -> tuple[Floats, Floats]:
        """Return by arm how many pulls came to an outcome, and how many got lost."""
        rows = [row for row in self._dropped if row >= 0]
        arms = self._pulls[rows, books.ARM].astype(np.int64)
        lost = np.bincount(arms, minlength=len(self.problem.arms)).astype(np.float64)
        return self._arms[:, books.COMPLETED].copy(), lost

    def _found_in_results(self) -> list[str]:
        if not self._arrivals or self.problem.estimates_noise:
            return []
        came = np.array(self._arrivals)
        arms = self._pulls[came[:, 0], books.ARM].astype(np.int64)
        number = len(self.problem.arms)
        scale = self._rules[books.CONSTANTS + arms]
        values = self._pulls[came[:, 0], books.OUTCOME] / scale
        found = []
        spread = spread_of_results(arms, values, number)
        if self.problem.reward_range is None:
            if spread.contradicted:
                found.append("noise_std is as stated, although results spread far more widely")
            elif self._decided and len(arms) - len(set(arms.tolist())) < _TESTING:
                found.append(
                    "noise_std is as stated: too few results repeat an arm to have tested it"
                )
        if self.problem.delay_depends_on_outcome:
            return found
        late, early = came[:, 1], came[:, 2]
        lateness = (late - early) / (late + early + 1.0)
        if contradicts(log_evidence_of_delays(arms, values, lateness, number)):
            found.append("when results come says nothing of them, although late ones differ")
        else:
            found += self._found_in_haste()
        return found

    def _found_in_haste(self) -> list[str]:
        if not self._hasty:
            return []
        untested = self._untested_arms()
        hasty = [repr(self.problem.arms[arm]) for arm in self._hasty if untested[arm]]
        if not hasty:
            return []
        claim = "when results come says nothing of them: most overtaken pulls of "
        return [f"{claim}{', '.join(hasty)} were still open, so that nothing could test it"]

    @abstractmethod
    def _untested_arms(self) -> NDArray[np.bool_]:
        """Return for which arms more overtaken pulls are missing than have come."""

    def _found_in_readings(self) -> list[str]:
        problem, size = self.problem, min(len(self._errors), int(self._control[books.ROWS]))
        if not size or (problem.feedback == "refining" and problem.errors == "unknown"):
            return []
        rows, pieces = self._pulls[:size], problem.feedback == "incremental"
        arms = rows[:, books.ARM].astype(np.int64)
        known = (rows[:, books.STATE] == books.DONE) & ~np.isin(np.arange(size), self._valued)
        scale = self._rules[books.CONSTANTS + arms]
        outcomes = np.where(known & (not pieces), rows[:, books.OUTCOME] / scale, math.nan)
        errors, biased = self._errors[:size], problem.feedback == "biased"
        stated = "pieces spread" if pieces else "readings err"
        if contradicts(log_evidence_against_errors(errors, outcomes, arms, biased)):
            return [f"{stated} as stated, although they are far off"]
        compared = pieces or (known & (errors[:, 0] > 0.0)).any()
        if self._decided and not compared:
            return ["readings err as stated: no reading has been compared with its outcome"]
        return []

    @property
    def _covers_failures(self) -> bool:
        """Whether an outcome may be a failure's: not if it is to be normal, or read beforehand."""
        valued = self.problem.failure_value is not None
        return not (valued and (self.problem.gaussian or self._uses_readings))

    def _unasked(self) -> int:
        """Return the number of results that nobody asked for."""
        rows = self._pulls[: int(self._control[books.ROWS])]
        return int((rows[:, books.NUMBER] == UNSOLICITED).sum())

    def _noise_assumption(self) -> str:
        problem = self.problem
        if problem.reward_range is not None:
            low, high = problem.reward_range
            return f"every outcome lies in [{low:g}, {high:g}]"
        if problem.estimates_noise:
            return (
                "outcomes are about normal; deviations are estimated: calibrated by simulation, "
                "not proven"
            )
        noisy = "outcomes and errors of readings" if self._uses_readings else "outcomes"
        if problem.gaussian:
            return f"{noisy} are normal, at the stated deviations"
        return f"{noisy} are sub-Gaussian at the stated scales"
