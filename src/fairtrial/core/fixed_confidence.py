"""The base of policies that stop by themselves: their answers, reports and runs, written once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.environment import Environment
from fairtrial.core.policy import Policy
from fairtrial.core.problem import Problem
from fairtrial.core.progress_parts import Parts
from fairtrial.core.recommendation import Effect, Estimate, Progress, Recommendation, Status
from fairtrial.core.replications import UNDECIDED, Replications
from fairtrial.core.run import Run
from fairtrial.core.runs import Runs
from fairtrial.core.validation import check_error_probability, check_optional_integer

__all__ = ["Answers", "FixedConfidencePolicy"]

NO_CAP = 2**62
"""The most results of a run without any limit."""


class Answers(ABC):
    """The answers to a problem, as users know them.

    A policy has answers in a form of its own, an index say. Users see labels.
    """

    def label(self, answer: Any) -> Any:
        """Return what users call an answer: a label, a tuple of labels, or None for "no arm"."""
        return answer

    @property
    def no_arm(self) -> str:
        """In words, why no arm leads, if "no arm" can be an answer."""
        return "no arm will do"

    @abstractmethod
    def finding(self, label: Any) -> str:
        """Return in words what there is enough evidence for: "'a' is the best"."""


class FixedConfidencePolicy(Policy):
    """Base of the policies that stop with an answer, wrong with probability at most `delta`.

    It defines `stopped`, `recommend`, `progress` and `compiled_run` once. A family defines:

    ====================  ======================================================================
    `_finished`           whether the rule has ended by itself
    `_answer`             the answer, or the leader, in the family's own form; None at first
    `_answers`            what users call an answer, and how it is put in words
    `_evidence`           the evidence for the leader, and the threshold that it must exceed
    `_estimates`          an estimate for each action, and one for each arm
    `_simulate`           a whole run in compiled code, in one of the family's `environments`
    ====================  ======================================================================

    and where it differs from the common case:

    ====================  ======================================================================
    `_decided`            whether it has an answer: a rule may end without one
    `_capped`, `_ending`  whether `max_pulls` ends it undecided, and how that is said
    `_nothing_yet`        the reason given while `_answer` is None
    `_candidates`         the answers that are not ruled out, if they are a confidence set
    `_more_evidence`      further numbers behind the reason
    `_remaining`          a forecast of the pulls still needed
    `_remaining_at_most`  a bound on them, if there is one
    `_no_forecast`        why nothing can be forecast now
    `_parts`              the typed parts that the family adds to its progress
    `_details`            further facts for people
    `_why_approximate`    why the intervals of its estimates do not hold at all times
    `_settled`            how many results its evidence counts, if not all
    `_effects`            a function that computes the differences between arms when needed
    `_limited`            further means with limits
    `_overall_measures`   the means of every measure of an arm over all groups
    ====================  ======================================================================

    `_amended` counts the corrections that the answer does not include; `Guarantee.weakened_by` adds
    them and the lost pulls to the guarantee.

    Parameters
    ----------
    problem : Problem
        What is known and wanted.
    delta : float
        Accepted probability of a wrong answer.
    max_pulls : int, optional
        Stop undecided after this many results.
    seed : None, int or numpy.random.Generator
        Source of the policy's own randomness, if it has any.
    """

    delta: float

    _has_delta: ClassVar[bool] = True
    """Whether the rule promises a probability of a wrong answer; False for a fixed budget."""

    _evidence_scale: ClassVar[Literal["statistic", "log_e_value"]] = "statistic"
    """What the evidence is: a statistic of the rule, or the logarithm of an e-value."""

    _forecasts: ClassVar[bool] = True
    """Whether the rule forecasts the pulls still needed."""

    _nothing_yet: ClassVar[str] = "nothing is known about any arm yet"

    _answers: Answers
    """What users call answers, made by the constructor of a family."""

    def __init__(
        self,
        problem: Problem,
        delta: float | None,
        max_pulls: int | None,
        seed: int | np.random.Generator | None,
    ) -> None:
        super().__init__(problem, seed)
        if self._has_delta:
            self.delta = check_error_probability("delta", delta)
        self.max_pulls = check_optional_integer("max_pulls", max_pulls, low=1)
        self._amended = 0

    # -------------------------------------------------- what a family defines

    @property
    @abstractmethod
    def _finished(self) -> bool:
        """Whether the rule has ended by itself."""

    @property
    @abstractmethod
    def _answer(self) -> Any:
        """The answer, or the leader so far, in the family's own form; None if there is none yet."""

    @abstractmethod
    def _evidence(self) -> tuple[float | None, float | None]:
        """Return the evidence for the leader, and the threshold that it must exceed."""

    @abstractmethod
    def _estimates(self) -> tuple[tuple[Estimate, ...], tuple[Estimate, ...]]:
        """Return an estimate for each action, and one for each arm."""

    def _simulate(
        self, environment: Any, generator: np.random.Generator, horizon: int
    ) -> NDArray[Any]:
        """Run until the stop or `horizon` results, and return the numbers of pulls by action.

        Afterwards `asked` and `told` have the totals.
        """
        raise NotImplementedError

    # ------------------------------------------------ where it differs from others

    @property
    def _decided(self) -> bool:
        """Whether the rule has ended with an answer."""
        return self._finished

    @property
    def _capped(self) -> bool:
        """Whether `max_pulls` ends the policy without an answer."""
        return self.max_pulls is not None and self.told >= self.max_pulls

    @property
    def _ending(self) -> str:
        """The reason why the policy has stopped without an answer."""
        return f"the maximum of {self.max_pulls} pulls is reached"

    @property
    def _is_reopened(self) -> bool:
        """Whether an earlier answer was withdrawn: a result was corrected, or came late."""
        return False

    def _candidates(self) -> tuple[Any, ...] | None:
        """Return the answers that are not ruled out; None if the rule has no such set."""
        return None

    def _more_evidence(self) -> Mapping[str, Any]:
        """Return further numbers behind the reason, besides evidence and threshold."""
        return {}

    def _remaining(self, evidence: float | None, threshold: float | None) -> float | None:
        """Return a forecast of the pulls still needed; evidence grows in proportion to pulls."""
        if evidence is None or threshold is None or evidence <= 0.0:
            return None
        return self.told * max(0.0, threshold / evidence - 1.0)

    @property
    def _remaining_at_most(self) -> int | None:
        """A bound on the results that are still needed; None if none is known."""
        return None

    @property
    def _no_forecast(self) -> str:
        """Why nothing can be forecast before the policy stops; empty if something can."""
        return ""

    def _left(self, evidence: float | None, threshold: float | None) -> float | None:
        return 0.0 if self.stopped else self._remaining(evidence, threshold)

    def _parts(self) -> Parts:
        """Return the typed parts that the family adds to its progress."""
        return {}

    def _details(self) -> Mapping[str, Any]:
        """Return further facts for people."""
        return {}

    def _effects(self) -> Callable[[], tuple[Effect, ...]]:
        """Return a function that computes, from the current data, how much better arms are."""
        return tuple

    def _limited(self) -> tuple[Estimate, ...]:
        """Return further means for which an answer has limits."""
        return ()

    def _overall_measures(self) -> tuple[Estimate, ...]:
        """Return the mean of every measure of every arm over all groups."""
        return ()

    @property
    def _intervals(self) -> str:
        """The kind of intervals as long as nothing makes them approximate; "none" without any."""
        return "anytime"

    @property
    def _why_approximate(self) -> str:
        """Why intervals are only approximate; empty if they hold at all times.

        By default intervals use all results that were told, as if their values did not influence
        whether and when they are told.
        """
        return "; ".join(self.guarantee.doubts) or self._doubt_about_order

    @property
    def _settled(self) -> int | None:
        """Number of results that the evidence counts; None if all."""
        return None

    @property
    def _decided_after(self) -> int | None:
        """Number of results when the policy decided; None before, or if it is not recorded."""
        return None

    @property
    def _never_counted(self) -> Mapping[str, int]:
        """How many results the evidence will never count, by the reason."""
        return {}

    @property
    def _assigned_units(self) -> int | None:
        """Number of units of the finished experiment that is read; None if none is."""
        return None

    # -------------------------------------------------------------------- report

    @property
    def stopped(self) -> bool:
        """Whether the rule has ended by itself, or `max_pulls` is reached."""
        return self._finished or self._capped

    @property
    def decided(self) -> bool:
        """Whether the rule has ended with an answer."""
        return self._decided

    @property
    def _confidence(self) -> float | None:
        """1 minus the promised bound on the probability of a wrong answer; None without one."""
        return 1.0 - self.delta if self._has_delta else None

    @property
    def _status(self) -> Status:
        return "decided" if self._decided else "undecided" if self.stopped else "running"

    def recommend(self) -> Recommendation:
        """Return the current answer, or none yet: `status` tells which."""
        status, answer = self._status, self._answer
        label = None if answer is None else self._answers.label(answer)
        evidence, threshold = self._evidence()
        return Recommendation(
            arm=label if status == "decided" else None,
            status=status,
            leader=label,
            confidence=self._confidence,
            guarantee=self.guarantee,
            reason=self._reason(status, answer),
            evidence={
                "evidence": evidence,
                "threshold": threshold,
                "pulls": self.told,
                **self._more_evidence(),
            },
            candidates=self._candidates(),
        )

    def _reason(self, status: Status, answer: Any) -> str:
        """Return why the policy stopped, or what is missing; the leader is stated elsewhere."""
        if answer is None:
            return self._nothing_yet
        label = self._answers.label(answer)
        if status == "decided":
            return f"there is enough evidence: {self._answers.finding(label)}"
        said = [self._ending] if status == "undecided" else []
        if self._is_reopened:
            said.append(
                "a correction or a late result took back the evidence for an earlier answer"
            )
        if label is None:
            said.append(f"{self._answers.no_arm} so far")
        if status == "running":
            said += [
                "there is not enough evidence to decide yet",
                *filter(None, [self.why_no_pull()]),
            ]
        return "; ".join(said)

    def progress(self) -> Progress:
        """Return estimates with intervals, the evidence, and a forecast of what is left."""
        recommendation = self.recommend()
        evidence, threshold = (recommendation.evidence[key] for key in ("evidence", "threshold"))
        actions, arms = self._estimates()
        no_forecast = "" if self.stopped else self._no_forecast
        forecasts = self._forecasts and not no_forecast
        intervals = self._intervals
        doubt = self._why_approximate if intervals == "anytime" else ""
        return Progress(
            recommendation=recommendation,
            asked=self.asked,
            told=self.told,
            outstanding=len(self._outstanding),
            evidence=evidence,
            threshold=threshold,
            remaining=self._left(evidence, threshold) if forecasts else None,
            remaining_at_most=self._remaining_at_most,
            no_forecast=no_forecast,
            actions=actions,
            arms=arms,
            details=self._details(),
            intervals="approximate" if doubt else intervals,
            why_approximate=doubt,
            settled=self._settled,
            decided_after=self._decided_after,
            never_counted=self._never_counted,
            assigned=self._assigned_units,
            evidence_scale=self._evidence_scale,
            find_effects=self._effects(),
            limited=self._limited(),
            overall_measures=self._overall_measures(),
            **self._parts(),
        )

    # ------------------------------------------------------------------ whole runs

    def _run(
        self, environment: Any, generator: np.random.Generator, horizon: int | None, parallel: int
    ) -> Run:
        pulls = self._simulate(environment, generator, self._most(horizon))
        return self._finished_run(environment, pulls, elapsed=float(self.told))

    def _most(self, horizon: int | None) -> int:
        """Return the most pulls of a run."""
        caps = [cap for cap in (horizon, self.max_pulls) if cap is not None]
        return min(caps, default=NO_CAP)

    def _finished_run(
        self, environment: Environment, pulls: NDArray[Any], elapsed: float, cancelled: int = 0
    ) -> Run:
        """Return the run that compiled code has carried to its end with this policy."""
        status = self._status
        by_action = pulls.ravel().astype(np.int64)
        return Run(
            answer=self._answers.label(self._answer) if status == "decided" else None,
            status=status,
            stopping_time=self.told,
            pulls=by_action,
            elapsed=elapsed,
            metrics={**self.metrics(), **environment.metrics(by_action)},
            cancelled=cancelled,
        )

    def _finished_runs(
        self, environment: Environment, made: Replications, metrics: Sequence[Mapping[str, float]]
    ) -> Runs:
        """Return the runs that compiled code has made of clones of this policy.

        `metrics`: those of the policy, for each run.
        """
        labels = {
            int(one): self._answers.label(int(one))
            for one in np.unique(made.answers)
            if one != UNDECIDED
        }
        capped = self.max_pulls is not None and made.stopping_time >= self.max_pulls
        unfinished = np.where(capped, "undecided", "running")
        status = np.where(made.answers == UNDECIDED, unfinished, "decided")
        answers = [labels.get(answer) for answer in made.answers.tolist()]
        each = [
            {**own, **environment.metrics(pulls)}
            for own, pulls in zip(metrics, made.pulls, strict=True)
        ]
        return Runs.immediate(answers, status, made.stopping_time, made.pulls, each)
