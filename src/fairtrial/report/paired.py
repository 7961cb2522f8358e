"""The section on a race over shared blocks: who is in it, and where arms differ."""

from __future__ import annotations

from fairtrial.core.progress_parts import ArmStatus
from fairtrial.presentation.words import NOTHING, count, number, percent
from fairtrial.report.findings import Findings
from fairtrial.report.html import Markup, element, label, section, table

__all__ = ["paired"]

_EXPLANATION = (
    "Arms are compared with the leader on the blocks that both have: items, instances or splits. "
    "Means over different numbers of blocks are not comparable."
)
_STATES = {
    "set aside": "better than the leader by at most the tolerance",
    "waiting": "out as soon as the leader is known to keep its limits, and not tried until then",
}


def paired(found: Findings) -> Markup | None:
    """Return the section, if the arms share blocks."""
    states = [one for one in found.progress.arm_states if one.compared is not None]
    if not states:
        return None
    present = {one.status for one in states}
    said = [f"{state}: {text}." for state, text in _STATES.items() if state in present]
    explained = element("p", " ".join([_EXPLANATION, *map(str.capitalize, said)]))
    return section("Race", explained, _standings(found, states), _disputed(found))


def _standings(found: Findings, states: list[ArmStatus]) -> Markup:
    leader = found.progress.recommendation.leader
    ranked = sorted(states, key=lambda one: (one.arm != leader, -(one.compared or 0)))
    rows = [
        (
            label(one.arm),
            "leads" if one.arm == leader else one.status,
            count(one.compared or 0),
            NOTHING if one.behind is None or one.arm == leader else number(one.behind),
            NOTHING if one.arm == leader else _share(one),
        )
        for one in ranked
    ]
    heads = ("Arm", "State", "Blocks", "Behind the leader on them", "Blocks that differ")
    return table("Arms against the leader", heads, rows, words={0, 1})


def _share(one: ArmStatus) -> str:
    if not one.compared or one.differ is None:
        return NOTHING
    return f"{count(one.differ)} ({percent(one.differ / one.compared)})"


def _disputed(found: Findings) -> Markup | None:
    blocks = found.progress.details.get("disputed_blocks")
    if not blocks:
        return None
    arms = [one.arm for one in found.progress.arm_states]
    has_category = "category" in blocks[0]
    rows = [
        (
            str(one["block"]),
            *([label(one["category"])] if has_category else []),
            *(NOTHING if value is None else number(value) for value in one["results"]),
        )
        for one in blocks
    ]
    caption = "Blocks on which results differ most, by their number in the list (the first is 0)"
    heads = ("Block", *(["Category"] if has_category else []), *map(label, arms))
    return table(caption, heads, rows, words={1} if has_category else ())
