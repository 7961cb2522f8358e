"""The section on the flow of units through a finished experiment."""

from __future__ import annotations

from collections.abc import Iterator

from fairtrial.presentation.flow import ArmFlow, Flow, flow_of
from fairtrial.presentation.words import count, plural
from fairtrial.report.charts import figure
from fairtrial.report.findings import Findings
from fairtrial.report.html import Markup, element, folded, label, section, table

__all__ = ["flow"]

_HEADS = ("Assigned", "No outcome", "Analysed")


def flow(found: Findings) -> Markup | None:
    """Return the section on units; None for a study that assigned its units itself."""
    units = flow_of(found.study, found.arrivals)
    if units is None:
        return None
    rows = [
        (label(one.arm), count(one.assigned), count(one.missing), count(one.analysed))
        for one in (units.total, *units.arms)
    ]
    data = folded(
        f"The numbers: {plural(len(units.arms), 'arm')}",
        table("Units by arm", ("Arm", *_HEADS), rows, words={0}),
        len(rows),
    )
    return section("Units of the experiment", figure(_diagram(units), [], _caption(units), data))


def _caption(units: Flow) -> str:
    total = units.total
    said = (
        f"{plural(total.assigned, 'unit')} assigned, {count(total.missing)} of them without an "
        f"outcome, {count(total.analysed)} analysed. The answer rests on the first "
        f"{count(units.used)} in the order of assignment"
    )
    rest = total.assigned - units.used
    said += f"; the other {count(rest)} count for the estimates." if rest else "."
    return f"{said} {units.note}".strip()


def _diagram(units: Flow) -> Markup:
    """Return a row of boxes and arrows for all arms together, and one for each arm."""
    rows = [element("div", *_boxes(units.total), class_="flow total")]
    rows += [element("div", *_boxes(one), class_="flow") for one in units.arms]
    return element("div", *rows, class_="flows")


def _boxes(one: ArmFlow) -> Iterator[Markup]:
    """Yield an arm's name, boxes and arrow; missing outcomes are noted at the arrow."""
    yield element("span", label(one.arm), class_="name")
    yield _box(one.assigned, "assigned")
    lost = f"{count(one.missing)} without outcome" if one.missing else None
    yield element("span", lost, _arrow(), class_="passage")
    yield _box(one.analysed, "analysed")


def _box(number: int, what: str) -> Markup:
    return element("span", element("strong", count(number)), f" {what}", class_="box")


def _arrow() -> Markup:
    """Return an arrow to the right that fills its cell."""
    line = element("line", x1="0", x2="100%", y1="50%", y2="50%", class_="change")
    # The inner picture has its position in per cent, the path its size in pixels.
    head = element("svg", element("path", d="M-6,-4L0,0L-6,4z", class_="tip"), x="100%", y="50%")
    return element("svg", line, head, class_="arrow", aria_hidden="true")
