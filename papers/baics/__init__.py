"""Best arm identification with fairness constraints on subpopulations (Wu, Zheng, Zhu).

The published tables, those of a reference implementation, and ours. Every environment is defined
once, in `instances`, and every comparison once, in the module of its section.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from papers.baics.betting import block_betting, bounded_rewards
from papers.baics.cache import SimulationCache
from papers.baics.complexities import complexities
from papers.baics.figures import write_figures
from papers.baics.instances import Instance
from papers.baics.instances import email as load_email
from papers.baics.published import published
from papers.baics.robustness import broken_rule, hard_nulls
from papers.baics.stopping_times import stopping_times
from papers.paper import Paper
from papers.report import Section

__all__ = ["PAPER", "with_email"]


def _sections(cache: SimulationCache, email: Instance | None) -> Iterator[Section]:
    yield complexities(email)
    yield stopping_times(cache)
    yield published(cache)
    yield broken_rule(cache)
    yield block_betting(cache)
    yield bounded_rewards(cache, email)
    yield hard_nulls(cache)


PAPER = Paper(
    "Best arm identification with fairness constraints on subpopulations: published and our "
    "results",
    SimulationCache,
    partial(_sections, email=None),
    write_figures,
)


def with_email(table: str | Path) -> Paper[SimulationCache]:
    """Return the paper with Hillstrom's e-mail campaign, whose table cannot be shipped.

    Raises
    ------
    InvalidArgument
        If the table cannot be read.
    """
    return replace(PAPER, sections=partial(_sections, email=load_email(table)))
