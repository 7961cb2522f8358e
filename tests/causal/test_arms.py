"""Arms from one tidy table, as in a spreadsheet or a DataFrame."""

import numpy as np
import pandas as pd
import pytest

from fairtrial.causal import CausalModel, Problem, chain
from fairtrial.errors import InvalidArgument
from tests.causal.slow import diamond
from tests.messages import raises


def wide_rows(problem):
    """Return a row for every arm and combination of parents, with a column for every state."""
    model, node = problem.model, problem.intervened
    parents = model.parents(node)
    return [
        {
            "arm": arm,
            **{parent: model.states[parent][i] for parent, i in zip(parents, place, strict=True)},
            **dict(zip(model.states[node], table[place], strict=True)),
        }
        for arm, table in problem.arms.items()
        for place in np.ndindex(table.shape[:-1])
    ]


def long_rows(problem):
    """Return a row for every arm, combination of parents and state."""
    node = problem.intervened
    states = problem.model.states[node]
    return [
        {
            **{k: v for k, v in row.items() if k not in states},
            node: state,
            "probability": row[state],
        }
        for row in wide_rows(problem)
        for state in states
    ]


@pytest.mark.parametrize("rows_of", [wide_rows, long_rows])
@pytest.mark.parametrize("form", [list, pd.DataFrame, tuple])
def test_a_table_gives_the_same_problem_as_nested_arrays(rows_of, form):
    problem = diamond(1)
    rows = rows_of(problem)
    assert problem.clone(arms=form(rows)) == problem
    shuffled = [rows[0], *reversed(rows[1:])]
    again = problem.clone(arms=form(shuffled))
    assert {name: table.tolist() for name, table in again.arms.items()} == {
        name: table.tolist() for name, table in problem.arms.items()
    }


def test_numbers_stand_for_labels_and_text_for_numbers():
    problem = diamond(1)
    rows = [{**row, "A": int(row["A"]), "X": float(row["X"])} for row in wide_rows(problem)]
    assert problem.clone(arms=rows) == problem
    text = [{name: str(value) for name, value in row.items()} for row in wide_rows(problem)]
    assert problem.clone(arms=text) == problem


def test_states_without_a_row_have_probability_zero():
    problem, _ = chain(0.4, {"a": [[1.0, 0.0], [0.25, 0.75]]}, [0.1, 0.9], 0.2)
    rows = [row for row in long_rows(problem) if row["probability"] > 0]
    assert len(rows) == 3
    assert problem.clone(arms=rows) == problem


def test_a_node_without_parents_needs_no_column_but_the_arm():
    tables = {"Y": np.full((2, 2, 2), 0.5)}
    model = CausalModel([("S", "Y"), ("V", "Y")], dict.fromkeys("SVY", 2), tables)
    rows = [{"arm": 1, "V": 0, "probability": 0.25}, {"arm": 1, "V": 1, "probability": 0.75}]
    assert Problem(model, "S", "V", "Y", rows, 0.1).arms["1"].tolist() == [0.25, 0.75]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (
            lambda rows: [{**r, "X": "9"} if i == 2 else r for i, r in enumerate(rows)],
            "arms",
        ),
        (
            lambda rows: [{**r, "0": "half"} if i == 2 else r for i, r in enumerate(rows)],
            "arms",
        ),
        (
            lambda rows: [{**r, "0": -0.5} if i == 2 else r for i, r in enumerate(rows)],
            "arms",
        ),
        (
            lambda rows: [{**r, "0": np.nan} if i == 1 else r for i, r in enumerate(rows)],
            "arms",
        ),
        (lambda rows: [*rows, rows[0]], "arms"),
        (lambda rows: rows[:-1], "arms"),
        (
            lambda rows: [{k: v for k, v in r.items() if k != "A"} for r in rows],
            "arms",
        ),
        (
            lambda rows: [{k: v for k, v in r.items() if k != "1"} for r in rows],
            "arms",
        ),
        (lambda rows: [rows[0], {"arm": "arm0"}, *rows[1:]], "arms"),
        (
            lambda rows: [{**r, "0": 0.9} if i == 0 else r for i, r in enumerate(rows)],
            "arm 'arm0', row A=0, X=0",
        ),
        (lambda rows: [], "arms"),
        (lambda rows: pd.DataFrame(rows).iloc[:0], "arms"),
    ],
)
def test_a_mistake_in_a_table_is_named_with_its_row(change, name):
    problem = diamond(1)
    with raises(InvalidArgument, name):
        problem.clone(arms=change(wide_rows(problem)))
