"""Conditional independence of nodes by the graph alone (d-separation)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from fairtrial.causal.model import ancestors_in
from fairtrial.causal.problem import Problem

ARM = "\0arm"
"""The node that represents the choice of the arm: a parent of the intervened node."""


def with_arm(problem: Problem) -> dict[str, tuple[str, ...]]:
    """Return every node's parents in the graph with an additional node for the arm."""
    parents = {node: problem.model.parents(node) for node in problem.model.nodes}
    chosen = (*parents[problem.intervened], ARM)
    return {**parents, problem.intervened: chosen, ARM: ()}


def are_separated(
    parents: Mapping[str, Sequence[str]],
    first: Iterable[str],
    second: Iterable[str],
    given: Iterable[str],
) -> bool:
    """Return whether the graph makes two sets of nodes independent given a third.

    By Lauritzen et al. 1990: they are independent if the third set cuts every path between them in
    the moral graph of all their ancestors, in which parents of a common child are joined and arrows
    become edges.
    """
    start, goal, cut = set(first), set(second), set(given)
    neighbours: dict[str, set[str]] = {
        node: set() for node in ancestors_in(parents, [*start, *goal, *cut])
    }
    for node in neighbours:
        family = (node, *parents[node])
        for one, other in combinations(family, 2):
            neighbours[one].add(other)
            neighbours[other].add(one)
    reached: set[str] = set()
    frontier = list(start - cut)
    while frontier:
        node = frontier.pop()
        if node in reached:
            continue
        reached.add(node)
        frontier += neighbours[node] - cut
    return not reached & goal


def without_needless(
    parents: Mapping[str, Sequence[str]],
    first: Iterable[str],
    second: Iterable[str],
    given: Sequence[str],
    kept: Iterable[str] = (),
) -> tuple[str, ...]:
    """Return a minimal subset of `given` that still separates."""
    first, second, fixed = list(first), list(second), set(kept)
    left = list(given)
    for node in given:
        rest = [other for other in left if other != node]
        if node not in fixed and are_separated(parents, first, second, rest):
            left = rest
    return tuple(left)


def predictors(problem: Problem) -> tuple[str, ...]:
    """Return nodes of a cell that predict Y as well as the cell, the arm and the attribute.

    If the attribute has parents, this holds within each of its values.
    """
    outcome, cell = problem.outcome_node, problem.cell_nodes
    if outcome in cell:
        return (outcome,)
    parents = with_arm(problem)
    attributes = list(problem.attributes)
    design = [ARM, *attributes] if problem.is_root else [ARM]
    fixed = [] if problem.is_root else attributes
    left = list(cell)
    for node in cell:
        rest = [other for other in left if other != node]
        told = [*design, *(other for other in cell if other not in rest)]
        if are_separated(parents, [outcome], told, [*rest, *fixed]):
            left = rest
    return tuple(left)
