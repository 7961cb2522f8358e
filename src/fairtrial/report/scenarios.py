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
    """Return a table of the true means: a column for each group, and each measure of a pull."""
    problem = shown[0].environment.problem
    grid = Grid.of(problem.action_labels)
    measures = problem.measures or ("",)
    columns = [(group, place) for group in grid.groups for place in range(len(measures))]
    names = [", ".join(filter(None, (group, measures[place]))) for group, place in columns]
    every = [
        np.reshape(scenario.environment.truth.means, (problem.n_actions, len(measures)))
        for scenario in shown
    ]
    places = decimals((value for means in every for value in means.ravel().tolist()), 3)
    rows = []
    for scenario, means in zip(shown, every, strict=True):
        panels = [dict(grid.panels(one.tolist())) for one in means.T]
        for row, arm in enumerate(grid.arms[:_MOST_ARMS]):
            values = (panels[place][group][row] for group, place in columns)
            rows.append((label(scenario.name), label(arm), *(fixed(v, places) for v in values)))
    more = len(grid.arms) - _MOST_ARMS
    note = f", of the first {_MOST_ARMS} arms" if more > 0 else ""
    heads = ("Scenario", "Arm", *(label(name or "mean") for name in names))
    return table(f"True means{note}", heads, rows, words={0, 1})
