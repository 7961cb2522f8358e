"""What was told of pulls before their outcomes, and corrections of it, as the log has them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from fairtrial.study.log import PullRow, Record, outcome_of
from fairtrial.study.store import Store

__all__ = ["early_records", "early_values"]


def early_records(store: Store, study_id: int, rows: Sequence[PullRow]) -> list[Record]:
    """Return the reports of some pulls, and the corrections before their outcomes, in order."""
    if not rows:
        return []
    told = {row.pull_id: row.told_seq for row in rows}
    corrections = [
        one
        for one in store.all_of(study_id, "amend", after=min(row.asked_seq for row in rows))
        if one.pull_id in told and _is_before(one.seq, told[str(one.pull_id)])
    ]
    return sorted([*store.reports(study_id, rows), *corrections], key=attrgetter("seq"))


def _is_before(seq: int, told_seq: int | None) -> bool:
    return told_seq is None or seq < told_seq


def early_values(record: Record) -> Mapping[str, Any]:
    """Return the measures that an event reports or corrects, by name; empty for other events."""
    found = outcome_of(record.value, record.body)
    if record.kind not in ("report", "amend") or not isinstance(found, Mapping):
        return {}
    if record.kind == "report":
        return found
    old = json.loads(str(record.body))["old"]
    return {name: value for name, value in found.items() if old.get(name) != value}
