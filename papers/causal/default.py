"""Compare the recommended rule with the paper's better one, with the same budgets."""

from __future__ import annotations

from papers.causal.cache import SimulationCache
from papers.causal.instances import BINDING, HEPAR, OFFERS, OWN, TIGHT
from papers.causal.tables import quarter_table
from papers.report import Section

__all__ = ["recommended"]


def recommended(cache: SimulationCache) -> Section:
    """Compare the plug-in rule with CSR-v2, and with a quarter of its error."""
    return Section(
        "recommended",
        "The recommended rule",
        "The plug-in rule divides the budget by one allocation, weights every row by the mixture "
        "of all sources, and answers by its estimates. CSR-v2 is the better of the paper's two "
        "rules. Environments and numbers of rows are the same. The columns `ratio` and `agrees` "
        "are for the default estimator, which works by cells where the model allows it. The "
        "estimator `sn`, used elsewhere, is also shown. If no arm is fair, CSR has an advantage: "
        "it requires a margin before it accepts an arm as fair.",
        (quarter_table(cache, (TIGHT, HEPAR, OWN, BINDING, *OFFERS)),),
    )
