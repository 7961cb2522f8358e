"""Best arm identification with delayed feedback (Grover and others): theirs and ours.

The paper's figures and the results of its public code, the cost of its mistakes, the error rates of
proven rules, and races on recorded learning curves. Every environment is defined once, in
`instances`, and every comparison once, in the module of its section.
"""

from __future__ import annotations

from collections.abc import Iterator

from papers.delayed.cache import SimulationCache
from papers.delayed.figures import write_figures
from papers.delayed.learning import learning
from papers.delayed.mistakes import mistakes
from papers.delayed.promises import promises
from papers.delayed.reference import exact, mean_times
from papers.delayed.savings import savings
from papers.paper import Paper
from papers.report import Section

__all__ = ["PAPER"]


def _sections(cache: SimulationCache) -> Iterator[Section]:
    yield exact()
    yield mean_times(cache)
    yield savings(cache)
    yield mistakes(cache)
    yield promises(cache)
    yield learning(cache)


PAPER = Paper(
    "Best arm identification in bandits with delayed feedback: published and our results",
    SimulationCache,
    _sections,
    write_figures,
)
