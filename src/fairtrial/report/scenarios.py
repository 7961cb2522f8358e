"""The section on scenarios: what may be true, and why each scenario was chosen."""

from __future__ import annotations

import numpy as np

from fairtrial.core.scenario import Scenario
from fairtrial.presentation.sources import Grid
from fairtrial.presentation.words import decimals, ended, fixed
from fairtrial.report.html import Markup, bdi, folded, label, section, table
from fairtrial.simulation import OperatingCharacteristics

__all__ = ["scenarios"]

_MOST_ARMS = 12


def scenarios(found: OperatingCharacteristics) -> Markup:
    """Return the section on scenarios."""
    rows = {row.scenario.name: row for row in found}
    grid = [
        (label(name), bdi(ended(row.scenario.why)), label(row.right_answer))
        for name, row in rows.items()
    ]
    heads = ("Scenario", "Why", "Right answer")
    means = _means([row.scenario for row in rows.values()])
    return section(
        "Scenarios",
        table("What may be true", heads, grid),
        folded(f"The true means in each of {len(rows)} scenarios", means, 1000),
    )


def _means(shown: list[Scenario]) -> Markup:
    problem = shown[0].environment.problem
    groups = Grid.of(problem.action_labels).groups
    heads = ("Scenario", "Arm", *(label(group or "mean") for group in groups))
    every = [np.ravel(scenario.environment.truth.means).tolist() for scenario in shown]
    places = decimals((value for means in every for value in means), 3)
    rows = []
    for scenario, means in zip(shown, every, strict=True):
        panels = dict(Grid.of(problem.action_labels).panels(means))
        for place, arm in enumerate(Grid.of(problem.action_labels).arms[:_MOST_ARMS]):
            values = (panels[group][place] for group in groups)
            rows.append((label(scenario.name), label(arm), *(fixed(v, places) for v in values)))
    more = len(Grid.of(problem.action_labels).arms) - _MOST_ARMS
    note = f", of the first {_MOST_ARMS} arms" if more > 0 else ""
    return table(f"True means{note}", heads, rows, words={0, 1})
