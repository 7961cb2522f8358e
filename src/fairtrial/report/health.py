"""The section on health: whether the log replays, and what went astray."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairtrial.presentation.words import count, ended, number, plural
from fairtrial.report.findings import Findings
from fairtrial.report.html import Markup, bdi, element, section, table

__all__ = ["health"]


def health(found: Findings, *, blinded: bool = False) -> Markup:
    """Return the section; blinded, it says nothing of arms."""
    check = found.verification
    if check.ok:
        said = f"The log replays to the same decisions: {plural(check.events, 'event')} checked."
        verdict = element("p", said)
    else:
        said = f"The log does not replay to the recorded decisions: {check.first_difference}."
        verdict = element("p", element("strong", said), class_="warning")
    values = dict(found.study.health(blinded=blinded))
    warnings = values.pop("warnings", ())
    rows = [(name, bdi(value)) for name, value in _flat(values) if value != count(0)]
    happened = [row for row in rows if row[0] != "expiry"]
    state = (
        table("State of the study", ("What", "Value"), rows)
        if happened
        else element("p", "No pull is open, and none was lost, late, corrected or told twice.")
    )
    doubts = [element("p", element("strong", ended(one)), class_="warning") for one in warnings]
    return section("Health", verdict, *doubts, state)


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for key, value in values.items():
        name = f"{prefix}{str(key).replace('_', ' ')}"
        if isinstance(value, Mapping):
            rows += _flat(value, f"{name}: ")
        elif isinstance(value, float):
            rows.append((name, number(value)))
        elif isinstance(value, bool | None):
            rows.append((name, {True: "yes", False: "no", None: number(None)}[value]))
        elif isinstance(value, int):
            rows.append((name, count(value)))
        else:
            rows.append((name, str(value)))
    return rows
