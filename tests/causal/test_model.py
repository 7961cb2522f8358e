import json

import numpy as np
import pytest

from fairtrial.causal import CausalModel, Density, ModelError
from fairtrial.core.parameters import plain
from fairtrial.errors import InvalidArgument
from tests.messages import raises

EDGES = [("S", "V"), ("A", "V"), ("V", "Y")]
STATES = {"S": ["s", "t"], "A": 2, "V": 2, "Y": 2}


def test_nodes_come_after_their_parents_and_relations_are_those_of_the_graph():
    model = CausalModel(EDGES, STATES)
    assert model.nodes.index("V") > max(model.nodes.index("S"), model.nodes.index("A"))
    assert model.parents("V") == ("S", "A")
    assert model.children("S") == ("V",)
    assert model.ancestors(["V"]) == {"S", "A", "V"}
    assert model.descendants("A") == {"A", "V", "Y"}
    assert not model.is_known("V")


def test_a_graph_object_and_its_edges_give_the_same_model():
    class Graph:
        edges = EDGES

    class Callable:
        def edges(self):
            return EDGES

    for graph in (Graph(), Callable()):
        assert CausalModel(graph, STATES).edges == CausalModel(EDGES, STATES).edges


def test_a_model_is_written_down_and_read_back():
    tables = {"S": [0.1 + 0.2, 0.7], "V": np.full((2, 2, 2), 0.5)}
    model = CausalModel(EDGES, STATES, tables)
    data = json.loads(json.dumps(plain(model)))
    assert data.pop("name") == "CausalModel"
    assert plain(CausalModel(**data)) == plain(model)


def test_reading_back_changes_no_digit():
    generator = np.random.default_rng(0)
    for _ in range(200):
        table = generator.dirichlet(np.ones(7)).round(7)
        first = CausalModel([], {"X": 7}, {"X": table / table.sum() * (1 + 5e-7)}).tables["X"]
        second = CausalModel([], {"X": 7}, {"X": first.tolist()}).tables["X"]
        assert (first == second).all()


@pytest.mark.parametrize(
    ("edges", "tables", "name"),
    [
        ([("a", "b"), ("b", "a")], {}, "edges"),
        ([("a", "a")], {}, "edges"),
        ([("a", "b"), ("a", "b")], {}, "edges"),
        ([("a", "b", "c")], {}, "edges"),
        (3, {}, "edges"),
        ([("a", "b")], {"c": [1.0]}, "tables"),
        ([("a", "b")], {"a": [0.5, 0.6]}, "table of a"),
        ([("a", "b")], {"b": [[0.5, 0.5], [1.5, -0.5]]}, "table of b, row a=1"),
        ([("a", "b")], {"b": [[0.5, 0.5], [np.nan, 1]]}, "table of b, row a=1"),
        ([("a", "b")], {"b": [0.5, 0.5]}, "table of b"),
        ([("a", "b")], {"b": "half"}, "table of b"),
        ([("a", "b")], 3, "tables"),
        ([("c", "b")], {"b": [[0.5, 0.5]]}, "table of b"),
    ],
)
def test_models_that_contradict_themselves_are_refused(edges, tables, name):
    with raises(ModelError, name):
        CausalModel(edges, {"a": 2, "b": 2}, tables)


def test_a_density_of_an_unknown_node_adds_it():
    density = Density(lambda x, parents: -x)
    assert CausalModel([], {"a": 2}, densities={"x": density}).nodes == ("a", "x")
    with raises(InvalidArgument, "densities[x]"):
        CausalModel([], {"a": 2}, densities={"x": max})
    with raises(InvalidArgument):
        CausalModel([], {"a": ["same", "same"]})


# -------------------------------------------------------------------------------- fit


def test_fitted_tables_are_smoothed_frequencies():
    generator = np.random.default_rng(1)
    columns = {node: generator.integers(0, 2, 500) for node in "SAVY"}
    table = {"S": [["s", "t"][x] for x in columns["S"]], "A": columns["A"], "V": columns["V"]}
    model = CausalModel(EDGES, STATES).fit(table)
    assert set(model.tables) == {"S", "A", "V"}
    assert model.fitted
    for s in range(2):
        for a in range(2):
            rows = (columns["S"] == s) & (columns["A"] == a)
            ones = (columns["V"][rows] == 1).sum()
            expected = (ones + 0.5) / (rows.sum() + 1.0)
            assert model.tables["V"][s, a, 1] == pytest.approx(expected)
    assert model.thin_rows == ()


def test_thin_rows_are_flagged_with_their_counts():
    model = CausalModel(EDGES, STATES).fit({"A": [0] * 19}, smoothing=1)
    assert [(row.node, row.parents, row.observations) for row in model.thin_rows] == [("A", {}, 19)]
    assert model.tables["A"].tolist() == [20 / 21, 1 / 21]


def test_known_tables_are_kept_unless_they_are_named():
    model = CausalModel(EDGES, STATES, {"A": [0.9, 0.1]})
    assert model.fit({"A": [0, 1]}).tables["A"].tolist() == [0.9, 0.1]
    assert model.fit({"A": [0, 1]}, nodes=["A"]).tables["A"].tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("table", "options", "name"),
    [
        ({"S": ["s"]}, {"nodes": ["V"]}, "table"),
        ({"S": ["s", "q"]}, {}, "row 1: S"),
        ({"S": ["s"]}, {"nodes": ["Q"]}, "node"),
        ({"S": ["s"], "A": [0], "V": [0]}, {"smoothing": 0}, "V"),
        (["s", "t"], {}, "table"),
    ],
)
def test_bad_data_are_refused(table, options, name):
    with raises(ModelError, name):
        CausalModel(EDGES, STATES).fit(table, **options)


# ------------------------------------------------------------------------------ pgmpy


class Cpd:
    def __init__(self, variables, values, state_names):
        self.variables, self.state_names = variables, state_names
        self.values = np.array(values)


class Network:
    """A stand-in for a pgmpy network, with the node's own states on the first axis."""

    def __init__(self, *cpds):
        self.cpds = {cpd.variables[0]: cpd for cpd in cpds}

    def nodes(self):
        return list(self.cpds)

    def get_cpds(self, node):
        return self.cpds[node]


def test_a_pgmpy_network_is_read_by_its_state_names():
    names = {"S": ["s", "t"], "V": ["no", "yes", "maybe"]}
    root = Cpd(["S"], [0.4, 0.6], {"S": names["S"]})
    # The parent's states are in another order than in its own distribution.
    child = Cpd(
        ["V", "S"],
        [[0.1, 0.5], [0.2, 0.3], [0.7, 0.2]],
        {"V": names["V"], "S": ["t", "s"]},
    )
    model = CausalModel.from_pgmpy(Network(child, root))
    assert model.states == {"V": ("no", "yes", "maybe"), "S": ("s", "t")}
    assert model.tables["V"] == pytest.approx(np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]))


def test_a_pgmpy_network_without_a_distribution_is_refused():
    network = Network(Cpd(["S"], [0.4, 0.6], {"S": ["s", "t"]}))
    network.cpds["V"] = None
    with raises(ModelError, "V"):
        CausalModel.from_pgmpy(network)


# ---------------------------------------------------------------------------- networkx


def test_a_networkx_graph_gives_the_model_of_its_edges():
    nx = pytest.importorskip("networkx")
    graph = nx.DiGraph(EDGES)
    graph.add_node("alone")
    graph.edges["S", "V"]["weight"] = 2.0
    model = CausalModel(graph, {**STATES, "alone": 2})
    assert set(model.edges) == set(EDGES)
    assert set(model.nodes) == set(graph.nodes)
    assert list(model.nodes).index("V") < list(model.nodes).index("Y")
    for node in graph.nodes:
        assert model.ancestors([node]) == nx.ancestors(graph, node) | {node}
        assert model.descendants(node) == nx.descendants(graph, node) | {node}


@pytest.mark.parametrize("seed", range(5))
def test_relations_in_random_graphs_are_those_that_networkx_finds(seed):
    nx = pytest.importorskip("networkx")
    generator = np.random.default_rng(seed)
    graph = nx.DiGraph()
    graph.add_nodes_from(range(12))
    graph.add_edges_from((a, b) for a in range(12) for b in range(a) if generator.random() < 0.25)
    model = CausalModel(graph, {str(node): 2 for node in graph})
    order = {node: place for place, node in enumerate(model.nodes)}
    assert all(order[str(a)] < order[str(b)] for a, b in graph.edges)
    for node in graph:
        found = {int(other) for other in model.ancestors([str(node)])}
        assert found == nx.ancestors(graph, node) | {node}


def test_networkx_graphs_that_are_no_directed_acyclic_ones_are_refused():
    nx = pytest.importorskip("networkx")
    with raises(ModelError, "edges"):
        CausalModel(nx.DiGraph([("S", "V"), ("V", "S")]), STATES)
    with raises(ModelError, "edges"):
        CausalModel(nx.Graph(EDGES), STATES)


def test_numbers_and_booleans_stand_for_numbered_states():
    model = CausalModel([("S", "X")], {"S": ["a", "b"], "X": 3})
    given = [0, "1", 2.0, True, False, np.True_, np.float64(1.0), np.int64(2)]
    assert model.encode("X", given).tolist() == [0, 1, 2, 1, 0, 1, 1, 2]
    with raises(ModelError, "row 1: X", given=0.5):
        model.encode("X", [1, 0.5])
