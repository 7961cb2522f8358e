"""The flow of units through a finished experiment, by arm: assigned, no outcome, analysed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from fairtrial.presentation.arrivals import Arrivals
from fairtrial.presentation.cuts import cut_by
from fairtrial.presentation.sources import StudyLike, arm_of

__all__ = ["ArmFlow", "Flow", "flow_of"]


@dataclass(frozen=True, slots=True)
class ArmFlow:
    """The flow of the units of one arm, or of all arms.

    Parameters
    ----------
    arm : str
        The arm's label.
    assigned, analysed : int
        Number of assigned units, and of those with an outcome.
    """

    arm: str
    assigned: int
    analysed: int

    @property
    def missing(self) -> int:
        """The number of units without an outcome."""
        return self.assigned - self.analysed


@dataclass(frozen=True, slots=True)
class Flow:
    """The units of a finished experiment.

    Parameters
    ----------
    total : ArmFlow
        The flow of all arms together.
    arms : tuple of ArmFlow
        The flow of each arm that is shown.
    used : int
        Number of units, in the order of assignment, on which the answer is based.
    note : str
        Which arms are not shown; empty if all are shown.
    """

    total: ArmFlow
    arms: tuple[ArmFlow, ...]
    used: int
    note: str = ""


def flow_of(study: StudyLike, arrivals: Arrivals | None = None) -> Flow | None:
    """Return the flow of the assigned units; None for a study that assigned its units itself.

    `arrivals` are those of the whole log, if somebody has read it already.
    """
    assigned = study.policy.get_params().get("assigned")
    if assigned is None:
        return None
    arms = [arm_of(labels) for labels in study.problem.action_labels]
    units = Counter(arms[action] for action in assigned)
    found = Arrivals.of(study.events()) if arrivals is None else arrivals
    told: Counter[str] = Counter()
    # Units after the answer are told without being asked for.
    for action, number in (found.told + found.unsolicited).items():
        told[arms[action]] += number
    flows = {
        # Results that are told later add no units to the experiment.
        arm: ArmFlow(arm, units[arm], min(told[arm], units[arm]))
        for arm in dict.fromkeys(arms)
    }
    cut = cut_by({arm: -units[arm] for arm in flows}, "those with the most units")
    analysed = sum(flow.analysed for flow in flows.values())
    total = ArmFlow("all arms", len(assigned), analysed)
    return Flow(total, tuple(flows[arm] for arm in cut.arms), study.progress().asked, cut.note)
