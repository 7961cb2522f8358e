"""Pictures of a simulation, a study or a policy's progress.

Every function draws on its own new `matplotlib.figure.Figure`, or where you tell it to, and
returns the figure: nothing is shown, and no global state of matplotlib is changed. The content
comes from `presentation`. Labels may be in any script: characters that no installed font has are
spelled out.

Without matplotlib, to import or use a function raises `MissingExtra`.
"""

from typing import TYPE_CHECKING

from fairtrial.core.lazy import lazy_names

if TYPE_CHECKING:
    from fairtrial.plots._allocation import allocation
    from fairtrial.plots._causal_graph import causal_graph
    from fairtrial.plots._cost_of_fairness import cost_of_fairness
    from fairtrial.plots._delayed import cost_of_answers, race_over_time, time_ratios
    from fairtrial.plots._error_by_budget import error_by_budget
    from fairtrial.plots._evidence import evidence
    from fairtrial.plots._fair_outcomes import fair_outcomes
    from fairtrial.plots._learning_curves import learning_curves
    from fairtrial.plots._linear import (
        budget_by_dimension,
        design_weights,
        survivors_over_time,
        times_the_bound,
    )
    from fairtrial.plots._means import means
    from fairtrial.plots._over_time import regret_over_time, violation_over_time
    from fairtrial.plots._overview import overview
    from fairtrial.plots._rejections import rejections
    from fairtrial.plots._shares_against_quotas import shares_against_quotas
    from fairtrial.plots._stopping_times import stopping_times

__all__ = [
    "allocation",
    "budget_by_dimension",
    "causal_graph",
    "cost_of_answers",
    "cost_of_fairness",
    "design_weights",
    "error_by_budget",
    "evidence",
    "fair_outcomes",
    "learning_curves",
    "means",
    "overview",
    "race_over_time",
    "regret_over_time",
    "rejections",
    "shares_against_quotas",
    "stopping_times",
    "survivors_over_time",
    "time_ratios",
    "times_the_bound",
    "violation_over_time",
]

# These import matplotlib.
__getattr__, __dir__ = lazy_names(
    __name__,
    [
        "_allocation",
        "_causal_graph",
        "_cost_of_fairness",
        "_delayed",
        "_error_by_budget",
        "_evidence",
        "_fair_outcomes",
        "_learning_curves",
        "_linear",
        "_means",
        "_over_time",
        "_overview",
        "_rejections",
        "_shares_against_quotas",
        "_stopping_times",
    ],
    extra=("plots", "plots"),
)
