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
        "The plug-in rule spends the budget by one allocation, weighs every row by the mixture "
        "of all rows' sources, and answers by its estimates; CSR-v2 is the better of the paper's "
        "two rules. Same environments, same numbers of rows. `ratio` and verdict are of the "
        "default estimator, which goes by cells where the model allows it; `sn`, which it takes "
        "elsewhere, is shown beside it. Where no arm is fair CSR asks for a margin before it "
        "passes one, and is right sooner.",
        (quarter_table(cache, (TIGHT, HEPAR, OWN, BINDING, *OFFERS)),),
    )
