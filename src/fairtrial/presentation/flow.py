"""A finished experiment as a flow of units: assigned, without an outcome, analysed, by arm."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from fairtrial.presentation.cuts import cut_by
from fairtrial.presentation.sources import StudyLike, arm_of

__all__ = ["ArmFlow", "Flow", "flow_of"]


_RESULTS = ("tell", "late_tell", "unsolicited")
"""Kinds of events that bring an outcome; after the answer nobody asks for the rest of the units."""


@dataclass(frozen=True, slots=True)
class ArmFlow:
    """What became of the units of an arm, or of all arms.

    Parameters
    ----------
    arm : str
        The label.
    assigned, analysed : int
        Units that were assigned, and those of them that have an outcome.
    """

    arm: str
    assigned: int
    analysed: int

    @property
    def missing(self) -> int:
        """Units without an outcome."""
        return self.assigned - self.analysed


@dataclass(frozen=True, slots=True)
class Flow:
    """The units of a finished experiment.

    Parameters
    ----------
    total : ArmFlow
        Those of all arms together.
    arms : tuple of ArmFlow
        Those of each arm that is shown.
    used : int
        Units, in the order of assignment, that the answer rests on.
    note : str
        Which arms are not shown; empty if all are.
    """

    total: ArmFlow
    arms: tuple[ArmFlow, ...]
    used: int
    note: str = ""


def flow_of(study: StudyLike) -> Flow | None:
    """Return what became of the units that were assigned; None of a study that assigned its own."""
    assigned = study.policy.get_params().get("assigned")
    if assigned is None:
        return None
    arms = [arm_of(labels) for labels in study.problem.action_labels]
    units = Counter(arms[action] for action in assigned)
    told = Counter(
        arms[event.action]
        for event in study.events()
        if event.kind in _RESULTS and event.action is not None
    )
    flows = {
        # Whoever tells the study more afterwards adds no unit to the experiment.
        arm: ArmFlow(arm, units[arm], min(told[arm], units[arm]))
        for arm in dict.fromkeys(arms)
    }
    cut = cut_by({arm: -units[arm] for arm in flows}, "those with the most units")
    analysed = sum(flow.analysed for flow in flows.values())
    total = ArmFlow("all arms", len(assigned), analysed)
    return Flow(total, tuple(flows[arm] for arm in cut.arms), study.progress().asked, cut.note)
