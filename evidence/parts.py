"""The parts of the evidence: each is measured in a process of its own, case by case."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from evidence.growth import GROWTHS, measure_growth
from evidence.peers import PEERS, measure_peer
from evidence.policies import POLICIES, measure_bounds, measure_labels, measure_policy, slug
from evidence.published import PAPERS, measure_paper
from evidence.questions import QUESTIONS
from evidence.scaling import SCALINGS, measure_scaling

__all__ = ["PARTS", "Part"]

Measure = Callable[[set[str], float, int], Iterator[dict[str, Any]]]


@dataclass(frozen=True)
class Part:
    """Cases that one process measures.

    Parameters
    ----------
    cases : tuple of str
        Names of the cases, in the order in which they are measured.
    measure : callable
        ``measure(skip, effort, seed)`` yields the figures of every case that is not skipped.
    seconds : float
        Wall time after which a case is given up, besides the effort.
    alone : bool
        Whether it needs all cores, so that nothing else is measured at the same time.
    """

    cases: tuple[str, ...]
    measure: Measure
    seconds: float = 60.0
    alone: bool = False


def _parts() -> dict[str, Part]:
    parts = {}
    for family, questions in QUESTIONS.items():
        bounded = tuple(one.name for one in questions if one.bounded)
        if family != "allocation":
            parts[f"bounds/{family}"] = Part(bounded, partial(measure_bounds, family), 120.0)
        if any(one.broken for one in questions):
            measured = partial(measure_labels, family)
            parts[f"labels/{family}"] = Part(tuple(POLICIES[family]), measured)
        names = tuple(one.name for one in questions)
        for policy in POLICIES[family]:
            parts[f"policies/{family}.{slug(policy)}"] = Part(
                names, partial(measure_policy, family, policy)
            )
    for name, growth in GROWTHS.items():
        sizes = tuple(map(str, growth.sizes))
        parts[f"growth/{name}"] = Part(sizes, partial(measure_growth, name), 1_000.0)
    for name, scaled in SCALINGS.items():
        parts[f"workers/{name}"] = Part(
            tuple(map(str, scaled.workers)), partial(measure_scaling, name), 300.0, alone=True
        )
    for job, peers in PEERS.items():
        parts[f"peers/{job}"] = Part(tuple(peers), partial(measure_peer, job), 900.0)
    for paper in PAPERS:
        parts[f"papers/{paper}"] = Part(("all",), partial(measure_paper, paper), 1_800.0)
    return parts


PARTS: dict[str, Part] = _parts()
"""Every part by its name, in the order in which they are measured."""
