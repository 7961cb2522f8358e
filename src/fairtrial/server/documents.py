"""Convert studies, pulls and events to documents for JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fairtrial.core import Problem
from fairtrial.study import Event
from fairtrial.study.log import Lease, PullRow, Record, as_time
from fairtrial.study.specification import family_and_policy
from fairtrial.study.store import StudyRow

__all__ = [
    "event_document",
    "lease_document",
    "pull_document",
    "spelled",
    "study_document",
    "to_text",
]

_WORDS = {math.inf: "Infinity", -math.inf: "-Infinity"}
_KEPT_BACK = ("secret_sha256",)
_BLINDED = (*_KEPT_BACK, "old", "propensity")


def to_text(document: Any) -> str:
    """Return JSON; infinities and NaN, which JSON cannot represent, become strings.

    Examples
    --------
    >>> to_text({"lower": -math.inf})
    '{"lower":"-Infinity"}'
    """
    try:
        return json.dumps(document, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(spelled(document), separators=(",", ":"), allow_nan=False)


def spelled(value: Any) -> Any:
    """Return data with infinities and NaN replaced by strings."""
    if isinstance(value, float) and not math.isfinite(value):
        return _WORDS.get(value, "NaN")
    if isinstance(value, Mapping):
        return {name: spelled(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [spelled(part) for part in value]
    return value


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="microseconds")


def study_document(row: StudyRow, *, unblinded: bool) -> dict[str, Any]:
    """Return a study as an item of a list.

    People who recruit or treat learn whether a study runs, but not whether it found an answer.
    """
    family, policy = family_and_policy(row.spec_json)
    status = row.status if unblinded or row.status == "running" else "stopped"
    return {
        "name": row.name,
        "status": status,
        "stopped": row.status != "running",
        "events": row.head_seq,
        "family": family,
        "policy": policy,
        "seed": int(row.seed) if unblinded else None,
        "created_at": _iso(as_time(row.created_at)),
    }


def pull_document(
    row: PullRow, problem: Problem, *, unblinded: bool, has_blocks: bool
) -> dict[str, Any]:
    """Return a pull as a document; with its block, if the policy compares results by blocks.

    People who recruit or treat do not see probabilities, because leading arms have larger ones.
    Nor do they see the tag of a randomised pull: it shows where a block ends, and the last pulls
    of a block can be guessed.
    """
    is_random = row.propensity is not None
    return {
        "id": row.pull_id,
        "number": row.number,
        "labels": dict(problem.labels(row.action)),
        "action": row.action,
        "tag": row.tag if unblinded or not is_random else None,
        "block": row.tag if has_blocks else None,
        "state": row.state,
        "propensity": row.propensity if unblinded else None,
        "lease_until": None if row.lease_until is None else _iso(as_time(row.lease_until)),
        "worker": row.worker,
    }


def lease_document(lease: Lease) -> dict[str, Any]:
    """Return a lease as a document."""
    return {"pull": lease.pull_id, "number": lease.number, "lease_until": _iso(lease.until)}


def event_document(source: Event | Record, *, unblinded: bool = True) -> dict[str, Any]:
    """Return an event of the log as a document.

    People who recruit or treat see no outcomes but their own, and no hash, from which they could
    find others' outcomes. As with pulls, they do not see the tag.
    """
    event = source if isinstance(source, Event) else Event.of(source)
    kept_back = _KEPT_BACK if unblinded else _BLINDED
    body = {name: part for name, part in event.body.items() if name not in kept_back}
    return {
        "seq": event.seq,
        "kind": event.kind,
        "at": _iso(event.at),
        "pull": event.pull_id,
        "number": event.number,
        "action": event.action,
        "tag": event.tag if unblinded else None,
        "value": event.value,
        "stage": event.stage,
        "lease_until": _iso(event.lease_until),
        "actor": event.actor,
        "request_id": event.request_id,
        "reason": body.get("reason"),
        "body": body,
        "hash": event.hash if unblinded else None,
    }
