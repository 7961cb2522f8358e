"""Achieving fairness in the stochastic multi-armed bandit problem (Patil, Ghalme, Nair, Narahari).

The published figures and ours, and a study on real headline tests. Every environment is defined
once, in `instances`, and every comparison once, in the module of its section.
"""

from __future__ import annotations

from collections.abc import Iterator

from papers.fair_mab.cache import SimulationCache
from papers.fair_mab.cost import cost
from papers.fair_mab.figures import write_figures
from papers.fair_mab.headlines import headlines
from papers.fair_mab.regret import regret
from papers.fair_mab.violations import violations
from papers.paper import Paper
from papers.report import Section

__all__ = ["PAPER"]


def _sections(cache: SimulationCache) -> Iterator[Section]:
    yield cost(cache)
    yield regret(cache)
    yield violations(cache)
    yield headlines(cache)


PAPER = Paper(
    "Achieving fairness in the stochastic multi-armed bandit problem: published and our results",
    SimulationCache,
    _sections,
    write_figures,
)
