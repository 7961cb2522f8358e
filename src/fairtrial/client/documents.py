"""Convert a service's documents into the objects that a local study returns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from fairtrial.core import (
    AnswerStatus,
    ArmStatus,
    Decision,
    Effect,
    Estimate,
    GroupPredictions,
    Guarantee,
    Losses,
    MeasureLimit,
    MeasureValues,
    Predictions,
    Progress,
    Recommendation,
    ShareOfPulls,
    ValueLimit,
)
from fairtrial.study import Event, Lease, StudySummary, Verification
from fairtrial.study.log import Record, as_microseconds, canonical

__all__ = [
    "event_of",
    "lease_of",
    "progress_of",
    "recommendation_of",
    "record_of",
    "summary_of",
    "verification_of",
]

_OF_AN_ESTIMATE = (
    *("pulls", "mean", "own_mean", "mean_of_all", "lower", "upper"),
    *("lower_limit", "upper_limit", "counted"),
)
_MET = "met"
"""Whether a limit is met, which follows from the rest of a progress."""
_NUMBERS_OF_EVIDENCE = ("evidence", "threshold")
_NUMBERS_OF_PARTS = frozenset(
    [
        *("bound", "estimate", "lower", "upper", "mean", "value", "share", "guaranteed", "behind"),
        *("log_evidence", "log_wealth", "needed"),
    ]
)
_Document = Mapping[str, Any]
_Kind = TypeVar("_Kind")


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _label(value: Any) -> Any:
    """Return a label; lists stand for tuples, which JSON does not have."""
    return tuple(map(_label, value)) if isinstance(value, list) else value


_WORDS = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}


def _number(value: Any) -> Any:
    """Return the value of a numeric field, converting the strings for infinities and NaN.

    Other fields can hold these words as text: an arm may be called "NaN".
    """
    return _WORDS.get(value, value) if isinstance(value, str) else value


# ----------------------------------------------------------------------------- the log


def event_of(document: _Document) -> Event:
    """Return an event of a study's log."""
    lease = document["lease_until"]
    return Event(
        seq=document["seq"],
        kind=document["kind"],
        at=_moment(document["at"]),
        pull_id=document["pull"],
        number=document["number"],
        action=document["action"],
        tag=document["tag"],
        value=document["value"],
        stage=document["stage"],
        lease_until=None if lease is None else _moment(lease),
        actor=document["actor"],
        request_id=document["request_id"],
        # The service omits it if the token may not see results.
        hash=document["hash"] or "",
        body=document["body"],
    )


def lease_of(document: _Document) -> Lease:
    """Return a lease that was extended."""
    return Lease(document["pull"], document["number"], _moment(document["lease_until"]))


def record_of(event: Event) -> Record:
    """Return an event in the form in which a store keeps it."""
    return Record(
        seq=event.seq,
        kind=event.kind,
        pull_id=event.pull_id,
        number=event.number,
        action=event.action,
        tag=event.tag,
        value=event.value,
        stage=event.stage,
        lease_until=None if event.lease_until is None else as_microseconds(event.lease_until),
        at=as_microseconds(event.at),
        actor=event.actor,
        request_id=event.request_id,
        body=canonical(event.body) if event.body else None,
        hash=event.hash,
    )


def summary_of(document: _Document) -> StudySummary:
    """Return a study of a list."""
    return StudySummary(
        name=document["name"],
        status=document["status"],
        events=document["events"],
        family=document["family"],
        policy=document["policy"],
        seed=document["seed"],
        created_at=_moment(document["created_at"]),
    )


def verification_of(document: _Document) -> Verification:
    """Return the result of an audit."""
    return Verification(
        document["ok"], document["events"], document["first_difference"], document["skipped"]
    )


# ----------------------------------------------------------------------------- answers


def recommendation_of(document: _Document) -> Recommendation:
    """Return the recommendation from the output of `Recommendation.to_dict`."""
    guarantee, candidates = document["guarantee"], document["candidates"]
    return Recommendation(
        arm=_label(document["arm"]),
        status=document["status"],
        leader=_label(document["leader"]),
        confidence=_number(document["confidence"]),
        guarantee=None if guarantee is None else _guarantee(guarantee),
        reason=document["reason"],
        evidence={
            name: _number(value) if name in _NUMBERS_OF_EVIDENCE else value
            for name, value in document["evidence"].items()
        },
        candidates=None if candidates is None else tuple(map(_label, candidates)),
        decisions=tuple(map(_decision, document["decisions"])),
    )


def _decision(document: _Document) -> Decision:
    withdrawn_at = document["withdrawn_at"]
    return Decision(
        event=document["event"],
        at=_moment(document["at"]),
        withdrawn_by=document["withdrawn_by"],
        withdrawn_at=None if withdrawn_at is None else _moment(withdrawn_at),
    )


def _guarantee(document: _Document) -> Guarantee:
    return Guarantee(
        name=document["name"],
        proven=document["proven"],
        statement=document["statement"],
        assumptions=tuple(document["assumptions"]),
        source=document["source"],
        calibrated=document["label"] == "calibrated",
        doubts=tuple(document["doubts"]),
    )


def progress_of(document: _Document) -> Progress:
    """Return the progress from the output of `Progress.to_dict`."""
    effects = tuple(map(_effect, document["effects"]))
    return Progress(
        recommendation=recommendation_of(document["recommendation"]),
        asked=document["asked"],
        told=document["told"],
        outstanding=document["outstanding"],
        evidence=_number(document["evidence"]),
        threshold=_number(document["threshold"]),
        remaining=_number(document["remaining"]),
        remaining_at_most=document["remaining_at_most"],
        no_forecast=document["no_forecast"],
        actions=_estimates(document["actions"]),
        arms=_estimates(document["arms"]),
        details=document["details"],
        intervals=document["intervals"],
        why_approximate=document["why_approximate"],
        settled=document["settled"],
        decided_after=document["decided_after"],
        never_counted=document["never_counted"],
        assigned=document["assigned"],
        evidence_scale=document["evidence_scale"],
        quantity=document["quantity"],
        find_effects=lambda: effects,
        limited=_estimates(document["limited"]),
        answers=tuple(map(_answer, document["answers"])),
        measure_limits=tuple(_part(MeasureLimit, one) for one in document["measure_limits"]),
        value_limits=tuple(_part(ValueLimit, one) for one in document["value_limits"]),
        measures=tuple(_part(MeasureValues, one) for one in document["measures"]),
        overall_measures=_estimates(document["overall_measures"]),
        losses=None if document["losses"] is None else _part(Losses, document["losses"]),
        predictions=_predictions(document["predictions"]),
        shares=tuple(_part(ShareOfPulls, one) for one in document["shares"]),
        largest_shortfall=_number(document["largest_shortfall"]),
        chance_to_decide=_number(document["chance_to_decide"]),
        closed={name: tuple(labels) for name, labels in document.get("closed", {}).items()},
        arm_states=tuple(_part(ArmStatus, one) for one in document["arm_states"]),
        readings=document["readings"],
        live=None if document["live"] is None else tuple(document["live"]),
    )


def _predictions(document: _Document | None) -> Predictions | None:
    if document is None:
        return None
    known = {name: own for name, own in document.items() if name != "depend_on_arm"}
    groups = tuple(_part(GroupPredictions, one) for one in document["groups"])
    return Predictions(**{**known, "groups": groups})


def _answer(document: _Document) -> AnswerStatus:
    return AnswerStatus(
        answer=_label(document["answer"]),
        rejected=document["rejected"],
        accepted=document["accepted"],
        log_wealth=_number(document["log_wealth"]),
        worse_than=tuple(document["worse_than"]),
    )


def _part(kind: type[_Kind], document: _Document) -> _Kind:
    """Return a part of a progress from the output of its `to_dict`."""
    return kind(
        **{
            name: _number(value) if name in _NUMBERS_OF_PARTS else value
            for name, value in document.items()
            if name != _MET
        }
    )


def _estimates(documents: Sequence[_Document]) -> tuple[Estimate, ...]:
    return tuple(map(_estimate, documents))


def _estimate(document: _Document) -> Estimate:
    labels = {
        name: value
        for name, value in document.items()
        if name not in (*_OF_AN_ESTIMATE, "predicted", _MET)
    }
    known = {name: _number(document[name]) for name in _OF_AN_ESTIMATE}
    return Estimate(labels, **known, predicted=document["predicted"])


def _effect(document: _Document) -> Effect:
    return Effect(
        arm=_label(document["arm"]),
        reference=_label(document["reference"]),
        group=document["group"],
        difference=_number(document["difference"]),
        lower=_number(document["lower"]),
        upper=_number(document["upper"]),
        lower_limit=_number(document["lower_limit"]),
        upper_limit=_number(document["upper_limit"]),
    )
