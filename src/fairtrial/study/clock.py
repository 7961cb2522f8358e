"""What the clock alone causes in a study: expired leases, and the end of its time."""

from __future__ import annotations

from fairtrial.core import Policy
from fairtrial.errors import StorageError
from fairtrial.study.log import PullRow
from fairtrial.study.store import Store

__all__ = ["leases_over", "microseconds", "seconds_until_due", "time_over"]

_END_OF_TIME = 253_402_300_800.0
"""Seconds from 1970 to the end of the year 9999, the last year that dates can represent."""


def microseconds(seconds: float) -> int:
    """Return the time of a store's clock in microseconds since 1970 (UTC).

    Raises
    ------
    StorageError
        If the clock does not show a valid time.
    """
    if not 0 <= seconds < _END_OF_TIME:
        raise StorageError(f"the clock must give seconds since 1970; it gives {seconds!r}")
    return round(seconds * 1e6)


def leases_over(store: Store, study_id: int, policy: Policy, now: int) -> list[PullRow]:
    """Return the pulls to give up because their leases have expired."""
    return store.open_pulls(study_id, due_by=now) if policy.expiry == "drop" else []


def time_over(store: Store, study_id: int, policy: Policy, now: int) -> float | None:
    """Return the seconds since the first event if `max_time` is over and this is not recorded."""
    if policy.max_time is None or policy.stopped:
        return None
    first = next(iter(store.records(study_id, until=1)), None)
    seconds = 0.0 if first is None else (now - first.at) / 1e6
    is_news = seconds >= policy.max_time and not store.counts(study_id).get("time")
    return seconds if is_news else None


def seconds_until_due(store: Store, study_id: int, policy: Policy, now: int) -> float | None:
    """Return the seconds until the clock alone causes something; None if it never does."""
    moments = []
    if policy.expiry == "drop":
        leases = [row.lease_until for row in store.open_pulls(study_id)]
        moments += [lease for lease in leases if lease is not None]
    if policy.max_time is not None and not policy.stopped:
        first = next(iter(store.records(study_id, until=1)), None)
        if first is not None:
            moments.append(first.at + round(policy.max_time * 1e6))
    return max(0.0, (min(moments) - now) / 1e6) if moments else None
