"""Independences that a graph implies, compared with the joint distribution itself."""

from itertools import product

import numpy as np
import pytest

from fairtrial.causal import CausalModel, Problem
from fairtrial.causal._separation import ARM, are_separated, predictors, with_arm, without_needless
from tests.causal.slow import confounded, diamond, thin, tiny


def random_graph(seed, nodes=5):
    generator = np.random.default_rng(seed)
    edges = generator.random((nodes, nodes)) < 0.4
    return {node: tuple(p for p in range(node) if edges[p, node]) for node in range(nodes)}


def joint_of(parents, generator):
    """Return a random joint distribution of binary nodes that follows the graph."""
    tables = {n: generator.dirichlet([1, 1], size=[2] * len(p)) for n, p in parents.items()}
    joint = np.empty([2] * len(parents))
    for row in product(range(2), repeat=len(parents)):
        factors = [tables[n][(*(row[q] for q in p), row[n])] for n, p in parents.items()]
        joint[row] = np.prod(factors)
    return joint


def dependence(joint, first, second, given):
    """Return the conditional mutual information of two nodes given others."""
    kept = (*given, first, second)
    others = tuple(axis for axis in range(joint.ndim) if axis not in kept)
    table = np.moveaxis(
        joint.sum(axis=others), [sorted(kept).index(k) for k in kept], range(len(kept))
    )
    both, one = table, table.sum(axis=-1, keepdims=True)
    other, none = table.sum(axis=-2, keepdims=True), table.sum(axis=(-1, -2), keepdims=True)
    return float((both * np.log(both * none / (one * other))).sum())


@pytest.mark.parametrize("seed", range(25))
def test_separation_is_independence_in_a_distribution_that_the_graph_allows(seed):
    parents = random_graph(seed)
    joint = joint_of(parents, np.random.default_rng([seed, 1]))
    for first, second in product(range(5), repeat=2):
        rest = [node for node in range(5) if node not in (first, second)]
        for mask in range(8 if first < second else 0):
            given = [node for place, node in enumerate(rest) if mask >> place & 1]
            # A random distribution shows all dependences of the graph.
            independent = dependence(joint, first, second, given) < 1e-10
            assert are_separated(parents, [first], [second], given) == independent


def test_what_can_be_left_out_is_left_out_unless_it_is_kept():
    chain = {"A": (), "B": ("A",), "C": ("B",), "D": ("C",)}
    assert without_needless(chain, ["A"], ["D"], ["B", "C"]) == ("C",)
    assert without_needless(chain, ["A"], ["D"], ["B", "C"], kept=["B"]) == ("B",)


def test_the_arm_is_a_cause_of_the_intervened_node_alone():
    parents = with_arm(tiny()[0])
    assert [node for node, above in parents.items() if ARM in above] == ["V"]


def test_classes_are_made_of_what_leads_to_the_outcome():
    assert predictors(tiny()[0]) == ("V",)
    assert predictors(diamond(1)) == ("A", "X", "V")
    assert predictors(thin()) == ("B", "X", "V")
    # H is in no cell, and A is informative about it.
    assert predictors(confounded(1)) == ("A", "X", "V")
    edges = [("S", "X"), ("A", "X"), ("A", "V"), ("X", "V"), ("X", "Y"), ("V", "Y")]
    tables = {"X": np.full((2, 2, 2), 0.5)}
    model = CausalModel(edges, dict.fromkeys("SAXVY", 2), tables)
    problem = Problem(model, "S", "V", "Y", {"a": np.full((2, 2, 2), 0.5)}, 0.1)
    assert (problem.cell_nodes, predictors(problem)) == (("A", "X", "V"), ("X", "V"))


def test_an_outcome_that_is_in_the_cell_predicts_itself():
    tables = {"S": [0.5, 0.5], "Y": np.full((2, 2, 2), 0.5)}
    model = CausalModel([("S", "Y"), ("V", "Y")], dict.fromkeys("SVY", 2), tables)
    assert predictors(Problem(model, "S", "V", "Y", {"a": [0.5, 0.5]}, 0.1)) == ("Y",)
