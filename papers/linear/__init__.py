"""Best-arm identification in linear bandits (Soare, Lazaric, Munos).

The published figures and ours, and all rules on the same environments. Every environment is defined
once, in `instances`, and every comparison once, in the module of its section.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from papers.linear.betting import block_betting
from papers.linear.cache import SimulationCache
from papers.linear.complexities import complexities
from papers.linear.dimensions import dimensions
from papers.linear.figures import write_figures
from papers.linear.instances import COMMON, Instance
from papers.linear.nulls import nulls
from papers.linear.published import constant_level, published
from papers.linear.rules import compared
from papers.paper import Paper
from papers.report import Section

__all__ = ["PAPER", "shortened"]


def _sections(cache: SimulationCache) -> Iterator[Section]:
    yield complexities()
    yield dimensions(cache)
    yield published(cache)
    yield constant_level(cache)
    yield block_betting(cache)
    yield compared(cache)
    yield nulls(cache)


PAPER = Paper(
    "Best-arm identification in linear bandits: published and our results",
    SimulationCache,
    _sections,
    write_figures,
)


def shortened(most_runs: int, environments: Sequence[Instance] = COMMON) -> Paper[SimulationCache]:
    """Return the paper with at most `most_runs` replications of every simulation.

    All rules are compared in these `environments` only.
    """
    cache = partial(SimulationCache, most_runs=most_runs, environments=environments)
    return replace(PAPER, cache=cache)
