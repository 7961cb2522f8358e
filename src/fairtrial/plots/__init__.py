"""Pictures of a simulation, a study or a policy's progress, and a report on one page.

Every function draws on a `matplotlib.figure.Figure` of its own, or where you tell it to,
and returns the figure: nothing is shown, and no global state of matplotlib is touched.
`write_report` needs no matplotlib.
"""

from fairtrial.plots._allocation import allocation
from fairtrial.plots._causal import causal_graph, error_by_budget, fair_outcomes, rejections
from fairtrial.plots._evidence import evidence
from fairtrial.plots._fairness import (
    cost_of_fairness,
    regret_over_time,
    shares_against_quotas,
    violation_over_time,
)
from fairtrial.plots._means import means
from fairtrial.plots._overview import overview
from fairtrial.plots._page.report import write_report
from fairtrial.plots._stopping_times import stopping_times

__all__ = [
    "allocation",
    "causal_graph",
    "cost_of_fairness",
    "error_by_budget",
    "evidence",
    "fair_outcomes",
    "means",
    "overview",
    "regret_over_time",
    "rejections",
    "shares_against_quotas",
    "stopping_times",
    "violation_over_time",
    "write_report",
]
