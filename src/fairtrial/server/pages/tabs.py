"""The tabs of a study: which users may see them, and what they show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairtrial.report.arms import arms
from fairtrial.report.decision import decision
from fairtrial.report.fairness import fairness
from fairtrial.report.findings import Findings
from fairtrial.report.flow import flow
from fairtrial.report.health import health
from fairtrial.report.paired import paired
from fairtrial.report.recruitment import recruited
from fairtrial.report.statements import question

if TYPE_CHECKING:
    from fairtrial.report.html import Markup
    from fairtrial.server.security.access import Caller

__all__ = ["PULLS", "TABS", "Tab", "tabs_of"]


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab of a study's page.

    Parameters
    ----------
    name, title : str
        Names in addresses and for people.
    sections : callable, optional
        Returns the tab's sections; None for tabs with their own handlers.
    follows : bool
        Whether its content depends on the whole history of the study.
    zooms : bool
        Whether it has charts over time that can be zoomed.
    """

    name: str
    title: str
    sections: Callable[[Findings], Sequence[Markup | None]] | None = None
    follows: bool = True
    zooms: bool = False


TABS = (
    Tab(
        "decision",
        "Decision",
        lambda found: [
            decision(found, {}),
            question(found.study.problem, found.study.notes),
        ],
        zooms=True,
    ),
    Tab("arms", "Arms", lambda found: [flow(found), arms(found), paired(found)]),
    Tab("fairness", "Fairness", lambda found: [fairness(found)], zooms=True),
    Tab("health", "Health", lambda found: [health(found)]),
    Tab("log", "Log"),
)
PULLS = Tab("pulls", "Pulls")
_BLINDED = (
    Tab(
        "recruitment",
        "Recruitment",
        lambda found: [recruited(found), question(found.study.problem)],
        follows=False,
    ),
    Tab("health", "Health", lambda found: [health(found, blinded=True)]),
)


def tabs_of(viewer: Caller) -> tuple[Tab, ...]:
    """Return the tabs that a user may see; fewer without the scope `read`.

    Whoever only reads gets the list of open pulls without forms.
    """
    shown = TABS if viewer.can("read") else _BLINDED
    return (*shown, PULLS)
