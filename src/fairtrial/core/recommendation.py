"""What a policy reports: its answer with the guarantee behind it, and its progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from fairtrial.core.notebooks import ShownInNotebooks
from fairtrial.core.parameters import plain
from fairtrial.core.progress_parts import (
    AnswerStatus,
    ArmStatus,
    Losses,
    MeasureLimit,
    MeasureValues,
    Predictions,
    ShareOfPulls,
    ValueLimit,
)
from fairtrial.core.wording import plural

__all__ = [
    "PREDICTABLE",
    "Decision",
    "Effect",
    "Estimate",
    "Guarantee",
    "Progress",
    "Recommendation",
    "Status",
]

Status = Literal["running", "decided", "undecided"]
"""`decided`: stopped with an answer (which may be "no arm"); `undecided`: stopped without."""

PREDICTABLE = (
    "nobody's guess of the next pull changes an outcome: the order of pulls is not random, and can "
    "be predicted from the results"
)
"""The assumption of a rule without randomness about the people who see its results."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A named promise: what it states, what it assumes, and whether it is proven.

    Parameters
    ----------
    name : str
        The bound or rule that gives the promise.
    proven : bool
        False for a rule without a proof, however well it works in practice.
    statement : str
        What is promised, in one sentence.
    assumptions : tuple of str
        What must be true for the promise to hold.
    source : str
        Paper and theorem, or the page of the documentation with the proof.
    calibrated : bool
        For a rule without a proof: whether its source reports measured error rates that were within
        the promise.
    doubts : tuple of str
        Why the guarantee is weaker than the rule's own: assumptions that events of the study make
        necessary, or what contradicts an assumption.

    Examples
    --------
    >>> Guarantee("stylised", False, "none").label
    'heuristic'
    >>> Guarantee("student-mixture", False, "none", calibrated=True).label
    'calibrated'
    """

    name: str
    proven: bool
    statement: str
    assumptions: tuple[str, ...] = ()
    source: str = ""
    calibrated: bool = False
    doubts: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """``"proven"``, ``"calibrated"`` (errors were measured, not proven) or ``"heuristic"``."""
        if self.proven:
            return "proven"
        return "calibrated" if self.calibrated else "heuristic"

    def weakened(self, assumption: str, doubt: str = "") -> Guarantee:
        """Return the same guarantee with one more assumption, and no longer proven.

        Parameters
        ----------
        assumption : str
            What must now be true for the promise to hold.
        doubt : str
            Why that is not certain; by default the assumption itself.
        """
        return replace(
            self,
            proven=False,
            calibrated=False,
            assumptions=(*self.assumptions, assumption),
            doubts=(*self.doubts, doubt or assumption),
        )

    def weakened_by(self, number: int, noun: str, event: str) -> Guarantee:
        """Return the guarantee, weakened if an event happened `number` times, more than 0.

        Examples
        --------
        >>> Guarantee("mixture", True, "").weakened_by(2, "pull", "got lost by chance").assumptions
        ('2 pulls got lost by chance',)
        """
        return self.weakened(f"{plural(number, noun)} {event}") if number else self

    def assuming(self, *assumptions: str) -> Guarantee:
        """Return the same guarantee, just as proven, with further assumptions."""
        return replace(self, assumptions=(*self.assumptions, *assumptions))

    def to_dict(self) -> dict[str, Any]:
        """Return the guarantee as JSON's own types."""
        return {
            "name": self.name,
            "proven": self.proven,
            "label": self.label,
            "statement": self.statement,
            "assumptions": list(self.assumptions),
            "source": self.source,
            "doubts": list(self.doubts),
        }


@dataclass(frozen=True, slots=True)
class Decision:
    """When a study decided: the event of its log that brought the answer.

    Parameters
    ----------
    event : int
        The number of the event.
    at : datetime
        Its time.
    withdrawn_by : int or None
        The number of the event that took the answer back, such as a correction.
    withdrawn_at : datetime or None
        Its time.

    Examples
    --------
    >>> from datetime import UTC
    >>> Decision(12, datetime(2027, 3, 1, tzinfo=UTC)).stands
    True
    """

    event: int
    at: datetime
    withdrawn_by: int | None = None
    withdrawn_at: datetime | None = None

    @property
    def stands(self) -> bool:
        """Whether the answer was not taken back."""
        return self.withdrawn_by is None

    def to_dict(self) -> dict[str, Any]:
        """Return the decision as JSON's own types."""
        return {
            "event": self.event,
            "at": self.at.isoformat(),
            "withdrawn_by": self.withdrawn_by,
            "withdrawn_at": None if self.withdrawn_at is None else self.withdrawn_at.isoformat(),
        }


@dataclass(frozen=True, slots=True)
class Recommendation(ShownInNotebooks):
    """The answer of an experiment, or the state of knowledge while it runs.

    Parameters
    ----------
    arm : object
        The answer's label (a tuple of labels for a top-k problem); None when there is
        no acceptable arm, or no answer yet: `status` tells which.
    status : {"running", "decided", "undecided"}
        Whether the policy has stopped, and if so with an answer.
    leader : object
        The label of the best so far; None for "no acceptable arm".
    confidence : float or None
        1 minus an upper bound on the probability that a study like this one ever gives a wrong
        answer; known from the start and the same at all times, unless people close arms. It is a
        property of the rule, not the probability that this answer is right. None if no such
        probability is promised. If `guarantee` is not proven, it is the value that the rule aims
        at.
    guarantee : Guarantee or None
        What is promised, under which assumptions, and whether it is proven.
    reason : str
        Why the policy stopped, or what it still waits for, in one sentence without the leader.
    evidence : mapping of str to object
        The numbers behind the reason.
    candidates : tuple of object, or None
        The answers that are not ruled out: labels of arms (in a top-k problem, the arms that may be
        among the k best), and None for "no acceptable arm" if that is a possible answer. They are a
        confidence set that is valid at all times: the probability that the right answer is ever
        missing from it is at most 1 - `confidence`. None if the policy has no such set.
    decisions : tuple of Decision
        When a study decided, in order: all but the last were withdrawn by corrections, and the last
        one, too, unless `decided`. A policy without a study has none, as it knows no events. Equal
        answers may have been given at different times.

    Examples
    --------
    >>> running = Recommendation(
    ...     arm=None, status="running", leader="b", confidence=0.95, candidates=("b", "c")
    ... )
    >>> running.decided
    False
    """

    arm: Any
    status: Status
    leader: Any = None
    confidence: float | None = None
    guarantee: Guarantee | None = None
    reason: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    candidates: tuple[Any, ...] | None = None
    decisions: tuple[Decision, ...] = field(default=(), compare=False)

    @property
    def decided(self) -> bool:
        """Whether the policy has stopped with an answer (which may be "no arm")."""
        return self.status == "decided"

    def to_dict(self) -> dict[str, Any]:
        """Return the recommendation as JSON's own types."""
        return {
            "arm": plain(self.arm),
            "status": self.status,
            "leader": plain(self.leader),
            "confidence": self.confidence,
            "guarantee": None if self.guarantee is None else self.guarantee.to_dict(),
            "reason": self.reason,
            "evidence": plain(self.evidence),
            "candidates": None if self.candidates is None else plain(list(self.candidates)),
            "decisions": [one.to_dict() for one in self.decisions],
        }


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is known about one quantity: an action's mean, or an arm's overall quality.

    Parameters
    ----------
    labels : mapping of str to object
        Which mean it is: ``{"arm": "zdv", "group": "naive"}``.
    pulls : int
        Number of results.
    mean, lower, upper : float or None
        Estimate and the ends of an interval; `Progress.intervals` states its kind.
    lower_limit : float or None
        What the quantity must not fall below: a floor, or a guaranteed share.
    upper_limit : float or None
        What the quantity must not exceed: a ceiling.
    counted : int or None
        Number of these results that mean and interval count, as effects and evidence do; None if
        all. If it is 0, the mean is that of results which do not count yet, without an interval.
    predicted : bool
        Whether `mean` is the prediction of a model that all results inform, also those of others.
    own_mean : float or None
        Beside a prediction, the plain mean of the counted results; of all, if none counts yet.
    mean_of_all : float or None
        The plain mean of all results so far, also of those that do not count; None if the rule
        does not say.
    """

    labels: Mapping[str, Any]
    pulls: int
    mean: float | None = None
    lower: float | None = None
    upper: float | None = None
    lower_limit: float | None = None
    upper_limit: float | None = None
    counted: int | None = None
    predicted: bool = False
    own_mean: float | None = None
    mean_of_all: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as JSON's own types."""
        return {
            **plain(self.labels),
            "pulls": self.pulls,
            "mean": self.mean,
            "lower": self.lower,
            "upper": self.upper,
            "lower_limit": self.lower_limit,
            "upper_limit": self.upper_limit,
            "counted": self.counted,
            "predicted": self.predicted,
            "own_mean": self.own_mean,
            "mean_of_all": self.mean_of_all,
        }


@dataclass(frozen=True, slots=True)
class Effect:
    """The difference between the means of two arms: arm minus reference.

    Parameters
    ----------
    arm, reference : str
        The two arms.
    group : str or None
        The group in which they are compared; None for their overall means.
    difference, lower, upper : float or None
        Estimate and the ends of an interval; `Progress.intervals` states its kind. None if nothing
        is known yet.
    lower_limit, upper_limit : float or None
        Limits of the true difference, if the arm has any.

    Examples
    --------
    >>> Effect("zdv_ddi", "zdv", difference=0.2, lower=0.1, upper=0.3).to_dict()["group"] is None
    True
    """

    arm: Any
    reference: Any
    group: str | None = None
    difference: float | None = None
    lower: float | None = None
    upper: float | None = None
    lower_limit: float | None = None
    upper_limit: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the effect as JSON's own types."""
        return {
            "arm": plain(self.arm),
            "reference": plain(self.reference),
            "group": self.group,
            "difference": self.difference,
            "lower": self.lower,
            "upper": self.upper,
            "lower_limit": self.lower_limit,
            "upper_limit": self.upper_limit,
        }


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of an experiment: everything that a plot or a page shows.

    Parameters
    ----------
    recommendation : Recommendation
        The current answer.
    asked, told, outstanding : int
        Pulls issued, results received, pulls in flight.
    evidence, threshold : float or None
        Evidence for the leader, and the value that stops the policy, in the same units.
    remaining : float or None
        A rough forecast of the pulls still needed.
    actions : tuple of Estimate
        One per action.
    arms : tuple of Estimate
        One per arm: its overall quality, if the family has such a thing.
    details : mapping of str to object
        Free-form facts that a family adds for people; nothing in the package reads them.
    intervals : str
        The kind of the intervals: "anytime" if they hold at all times at once, "approximate",
        or "none".
    evidence_scale : {"statistic", "log_e_value"}
        What evidence and threshold are: a statistic of the rule, or logarithms of e-values, which
        are shown to readers as e-values.
    quantity : str
        What is estimated for each of `arms`: its mean, or its share of the pulls.
    find_effects : callable
        Returns `effects`; called only when they are needed.
    limited : tuple of Estimate
        Further means for which an answer has limits; their labels name the ``arm`` and the
        ``prediction``.
    no_forecast : str
        Why nothing can be forecast now, although the policy makes forecasts; empty if it can.
    why_approximate : str
        Why intervals are only "approximate", if there is more to say than that the rule gives no
        others.
    settled : int or None
        Number of results that the evidence counts, if not all do: those whose turn has come, in
        the order of pulls or of complete blocks. Estimates and effects count the same results,
        unless `Estimate.counted` says that they count all.
    decided_after : int or None
        Number of results when the policy decided, if it has and the rule records it. Later results
        (the overrun) do not change the answer; `Estimate.mean_of_all` includes them.
    never_counted : mapping of str to int
        How many results the evidence will never count, by the reason in words: "not asked for by
        the study". Empty if there are none, or the rule does not record them.
    assigned : int or None
        Number of units of a finished experiment, if the rule reads one: `asked` of them were used
        for the answer. None for a study that makes its own pulls.
    answers : tuple of AnswerStatus
        The possible answers, if the rule tests them one by one.
    measure_limits : tuple of MeasureLimit
        The limits of every arm, if a pull gives several measures.
    value_limits : tuple of ValueLimit
        Limits on something other than a mean.
    measures : tuple of MeasureValues
        How many values of every measure of an action are known.
    overall_measures : tuple of Estimate
        The mean of every measure of every arm over all groups, by the weights of the groups, if a
        pull gives several measures and there are several groups.
    losses : Losses or None
        What lost results count as, if the rule says so.
    predictions : Predictions or None
        What predictions that are known before the arm did, if the problem has them.
    shares : tuple of ShareOfPulls
        The guaranteed shares of the pulls: those of all arms, then those of groups of arms.
    largest_shortfall : float or None
        The most pulls that an arm ever was behind its guaranteed share.
    arm_states : tuple of ArmStatus
        What a race has decided about each arm.
    readings : int or None
        Number of partial readings, if the rule uses them.
    live : tuple of str, or None
        The arms that are still in question, if the rule eliminates arms without testing answers.
    chance_to_decide : float or None
        The probability of a decision by the planned end, given the estimates and how uncertain they
        are, if an end is planned. It is approximate.
    remaining_at_most : int or None
        A bound on the results that can still come or be needed, if the rule knows one: a race over
        a list ends at its end.
    closed : mapping of str to tuple of str
        What people have closed by hand: labels under ``"arm"`` and ``"group"``.
    """

    recommendation: Recommendation
    asked: int
    told: int
    outstanding: int
    evidence: float | None = None
    threshold: float | None = None
    remaining: float | None = None
    actions: tuple[Estimate, ...] = ()
    arms: tuple[Estimate, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    intervals: str = "anytime"
    evidence_scale: Literal["statistic", "log_e_value"] = "statistic"
    quantity: str = "mean"
    find_effects: Callable[[], tuple[Effect, ...]] = field(default=tuple, repr=False, compare=False)
    limited: tuple[Estimate, ...] = ()
    no_forecast: str = ""
    why_approximate: str = ""
    settled: int | None = None
    decided_after: int | None = None
    answers: tuple[AnswerStatus, ...] = ()
    measure_limits: tuple[MeasureLimit, ...] = ()
    value_limits: tuple[ValueLimit, ...] = ()
    measures: tuple[MeasureValues, ...] = ()
    overall_measures: tuple[Estimate, ...] = ()
    losses: Losses | None = None
    predictions: Predictions | None = None
    shares: tuple[ShareOfPulls, ...] = ()
    largest_shortfall: float | None = None
    arm_states: tuple[ArmStatus, ...] = ()
    readings: int | None = None
    live: tuple[str, ...] | None = None
    chance_to_decide: float | None = None
    remaining_at_most: int | None = None
    closed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    never_counted: Mapping[str, int] = field(default_factory=dict)
    assigned: int | None = None

    @property
    def effects(self) -> tuple[Effect, ...]:
        """Every arm against the control, or else the leader; overall first, then by group.

        The probability that the interval of an arm ever fails is at most 1 - confidence. Without a
        control the interval is wider, because it holds whichever arm leads. Empty if the policy has
        none.
        """
        return self.find_effects()

    def to_dict(self) -> dict[str, Any]:
        """Return the progress as JSON's own types."""
        return {
            "recommendation": self.recommendation.to_dict(),
            "asked": self.asked,
            "told": self.told,
            "outstanding": self.outstanding,
            "evidence": self.evidence,
            "threshold": self.threshold,
            "evidence_scale": self.evidence_scale,
            "remaining": self.remaining,
            "remaining_at_most": self.remaining_at_most,
            "no_forecast": self.no_forecast,
            "actions": [estimate.to_dict() for estimate in self.actions],
            "arms": [estimate.to_dict() for estimate in self.arms],
            "effects": [effect.to_dict() for effect in self.effects],
            "limited": [estimate.to_dict() for estimate in self.limited],
            "details": plain(self.details),
            "intervals": self.intervals,
            "why_approximate": self.why_approximate,
            "settled": self.settled,
            "decided_after": self.decided_after,
            "never_counted": dict(self.never_counted),
            "assigned": self.assigned,
            "quantity": self.quantity,
            "answers": [one.to_dict() for one in self.answers],
            "measure_limits": [one.to_dict() for one in self.measure_limits],
            "value_limits": [one.to_dict() for one in self.value_limits],
            "measures": [one.to_dict() for one in self.measures],
            "overall_measures": [estimate.to_dict() for estimate in self.overall_measures],
            "losses": None if self.losses is None else self.losses.to_dict(),
            "predictions": None if self.predictions is None else self.predictions.to_dict(),
            "shares": [one.to_dict() for one in self.shares],
            "largest_shortfall": self.largest_shortfall,
            "arm_states": [one.to_dict() for one in self.arm_states],
            "readings": self.readings,
            "live": None if self.live is None else list(self.live),
            "chance_to_decide": self.chance_to_decide,
            **({"closed": plain(self.closed)} if self.closed else {}),
        }
