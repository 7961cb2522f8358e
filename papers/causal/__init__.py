"""Identifying best fair intervention (Gao, Feng).

The published claims and our results. Every environment is defined once, in `instances`, and every
comparison once, in the module of its section.
"""

from __future__ import annotations

from collections.abc import Iterator

from papers.causal.cache import SimulationCache
from papers.causal.chains import chains
from papers.causal.default import recommended
from papers.causal.figures import write_figures
from papers.causal.liver_network import liver_errors, liver_model
from papers.causal.offer_rules import offers
from papers.causal.proven import proven
from papers.paper import Paper
from papers.report import Section

__all__ = ["PAPER"]


def _sections(cache: SimulationCache) -> Iterator[Section]:
    yield chains(cache)
    yield liver_model()
    yield liver_errors(cache)
    yield offers(cache)
    yield recommended(cache)
    yield proven(cache)


PAPER = Paper(
    "Identifying best fair intervention: published and our results",
    SimulationCache,
    _sections,
    write_figures,
)
