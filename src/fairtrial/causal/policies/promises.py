"""The guarantee of block betting on interventions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairtrial.core.recommendation import Guarantee
from fairtrial.core.wording import listed

if TYPE_CHECKING:
    from fairtrial.causal._functionals import Knowledge
    from fairtrial.causal.problem import Problem

_SOURCE = "docs/explanation/fair-interventions.md"


def promise(problem: Problem, delta: float, knowledge: Knowledge) -> Guarantee:
    """Return the guarantee of block betting, before losses and corrections.

    Parameters
    ----------
    problem : Problem
        The problem; its outcomes have a range.
    delta : float
        Probability of a wrong answer that is accepted.
    knowledge : {"cells", "covariates", "ratios"}
        Which part of the model the evidence uses.
    """
    if problem.model.fitted:
        return Guarantee(
            "none",
            proven=False,
            statement="no error probability is claimed: tables were estimated from data; the "
            "evidence is shown as if they were exact",
            source=_SOURCE,
        )
    assert problem.outcome_range is not None
    low, high = problem.outcome_range
    sensitive = ", ".join(problem.attributes)
    cells = listed(problem.cell_nodes)
    return Guarantee(
        name="block betting on interventions",
        proven=True,
        statement=(
            f"the probability that this study ever gives a wrong answer is at most {delta:g}, "
            "whatever the mean outcomes are"
        ),
        assumptions=(
            f"every outcome lies in [{low:g}, {high:g}]",
            f"the distributions of {_changed(problem)} and of {sensitive} are right",
            f"the graph is right: given {cells} the mean outcome depends neither on the arm nor on "
            f"{sensitive}"
            if problem.is_root and not problem.acts_directly
            else f"the graph is right: given {cells} and {sensitive} the mean outcome does not "
            "depend on the arm",
            "these means do not change during the study",
            *_of_others(problem, knowledge),
        ),
        source=_SOURCE,
    )


def _changed(problem: Problem) -> str:
    """Return the nodes whose distributions the arms or the sensitive attribute change."""
    own = {problem.intervened, *problem.carriers}
    return listed([node for node in problem.model.nodes if node in own])


def _of_others(problem: Problem, knowledge: Knowledge) -> tuple[str, ...]:
    """Return the assumptions about the cells' other nodes, if there are any."""
    if not problem.outside_nodes:
        return ()
    others = listed(problem.outside_nodes)
    if knowledge == "cells":
        return (f"the distribution of {others} is the stated one",)
    if knowledge == "covariates":
        return (
            f"neither the arm nor the sensitive attribute influences {others}",
            f"the distribution of {others} does not change; it need not be known",
        )
    return (f"the distribution of {others} does not change; it need not be known",)
