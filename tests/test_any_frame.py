"""Tables of every library count as the same table, wherever one is taken."""

import subprocess
import sys
import warnings
from datetime import UTC, date, datetime
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import fairtrial as ft
from fairtrial.causal import CausalModel, chain
from fairtrial.core.frames import plain_data
from fairtrial.core.tables import open_table, read_table
from fairtrial.errors import InvalidArgument, MissingExtra
from fairtrial.races import race
from tests.messages import raises

Columns = dict[str, list[Any]]

LIBRARIES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "lazy polars": pl.LazyFrame,
    "arrow table": pa.table,
    "arrow batch": pa.RecordBatch.from_pydict,
    "arrow reader": lambda columns: pa.table(columns).to_reader(),
    "duckdb": lambda columns: duckdb.from_arrow(pa.table(columns)),
}


@pytest.fixture(params=LIBRARIES.values(), ids=LIBRARIES)
def made(request: pytest.FixtureRequest) -> Any:
    """A function that makes a table of a library from columns."""
    return request.param


def test_columns_are_read_by_name(made):
    table = plain_data(made({"arm": ["a", "b"], "reward": [1, 0]}))
    assert [list(table["arm"]), list(table["reward"]), "group" in table] == [
        ["a", "b"],
        [1, 0],
        False,
    ]
    with pytest.raises(KeyError):
        table["group"]


def test_a_frame_is_read_as_a_table_of_a_finished_experiment(made):
    table = open_table(made({"arm": ["a", "b", "a"], "gain": [0.5, None, 2]}))
    assert table.labels("arm") == ["a", "b", "a"]
    assert table.numbers("gain") == [0.5, None, 2.0]
    with raises(InvalidArgument, "table"):
        table.labels("group")


@pytest.mark.parametrize("order", ["at", "day"])
def test_a_finished_experiment_is_analysed_in_the_order_of_times_and_dates(made, order):
    days = [3, 0, 2, 1, 5, 4] * 10
    columns = {
        "arm": ["a", "b"] * 30,
        "outcome": [0.1, 0.9] * 30,
        "at": [datetime(2026, 1, 1 + day, tzinfo=UTC) for day in days],
        "day": [date(2026, 1, 1 + day) for day in days],
        "visit": list(range(60)),
    }
    problem = ft.subpopulations.Problem(["a", "b"], ["all"], floors=None, reward_range=(0, 1))
    with warnings.catch_warnings():
        # Days repeat, and rows of a day then keep the order of the table.
        warnings.simplefilter("ignore")
        found = ft.analyse(problem, made(columns), order=order, unit="visit")
        expected = ft.analyse(problem, columns, order=order, unit="visit")
    rows, known = ([(e.kind, e.action, e.value) for e in one.events()] for one in (found, expected))
    assert rows == known
    assert found.recommend().arm == expected.recommend().arm


def test_replays_of_all_families_take_it(made):
    rows = {"arm": ["a", "a", "b"], "group": ["x"] * 3, "reward": [0, 1, 1]}
    groups = ft.subpopulations.Problem(["a", "b"], ["x"], floors=None, reward_range=(0, 1))
    replay = ft.subpopulations.ReplayEnvironment(groups, made(rows))
    assert replay.truth.means.tolist() == [[0.5], [1.0]]
    shares = ft.allocation.Problem(["a", "b"], "1/4")
    assert ft.allocation.ReplayEnvironment(shares, made(rows)).truth.means.tolist() == [0.5, 1.0]
    features = ft.linear.Problem([[1, 0], [0, 1]], arms=["a", "b"], noise_std=1.0)
    assert ft.linear.ReplayEnvironment(features, made(rows)).truth.best == "b"
    late = ft.delayed.Problem(["a", "b"], noise_std=1.0, feedback="refining", reading_std=0.5)
    points = {"arm": ["a", "a", "b"], "curve": [1] * 3, "elapsed": [1, 2, 1], "value": [3, 5, 9]}
    assert ft.delayed.CurveEnvironment(late, made(points)).truth.means.tolist() == [5.0, 9.0]
    fair, _ = chain(0.5, {"a": [[1, 0], [0, 1]]}, [0.0, 1.0], 0.2)
    log = {"arm": ["a"] * 4, "S": ["s", "s", "s'", "s'"], "V": ["0", "0", "1", "1"]}
    replayed = ft.causal.ReplayEnvironment(fair, made({**log, "Y": [0, 0, 0, 1]}))
    assert replayed.truth.means.tolist() == [0.25]


def test_a_log_is_read_and_estimated_as_the_same_columns(made):
    arms = {"a": [[0.5, 0.5], [0.4, 0.6]], "b": [[0.2, 0.8], [0.1, 0.9]]}
    problem, environment = chain(0.4, arms, [0.1, 0.9], fairness_bound=0.2)
    log = environment.table([0, 3] * 40, np.random.default_rng(0))
    expected = ft.causal.estimate(problem, log)
    assert ft.causal.estimate(problem, made(log)).means.tolist() == expected.means.tolist()
    told = ft.causal.read(problem, made(log)).progress().told
    assert told == ft.causal.read(problem, log).progress().told == 80


def test_a_model_is_fitted_and_interventions_are_stated_by_it(made):
    model = CausalModel([("S", "X")], {"S": ["a", "b"], "X": ["no", "yes"]})
    fit = model.fit(made({"S": ["a", "a", "b"], "X": ["no", "yes", "yes"]}))
    assert fit.tables["X"].tolist() == [[0.5, 0.5], [0.25, 0.75]]
    problem, _ = chain(0.4, {"a": [[0.5, 0.5], [0.4, 0.6]]}, [0.1, 0.9], fairness_bound=0.2)
    states = problem.model.states[problem.intervened]
    stated = {"arm": ["c", "c"], "S": ["s", "s'"], states[0]: [0.3, 0.8], states[1]: [0.7, 0.2]}
    again = ft.causal.Problem(
        problem.model,
        intervened=problem.intervened,
        sensitive=problem.sensitive,
        outcome=problem.outcome,
        arms=made(stated),
        fairness_bound=0.2,
    )
    assert again.arm_labels == ("c",)
    assert np.asarray(again.arms["c"]).tolist() == [[0.3, 0.7], [0.8, 0.2]]


def test_features_are_encoded_by_column(made):
    columns = {"dose": [1.0, 2.0, 3.0], "base": ["K", "Cs", "K"], "one": [1, 1, 1]}
    expected = ft.linear.Problem(columns, noise_std=1.0)
    problem = ft.linear.Problem(made(columns), candidates=made(columns), noise_std=1.0)
    assert problem.features.tolist() == expected.features.tolist()
    assert problem.feature_names == expected.feature_names
    assert problem.candidates.tolist() == expected.features.tolist()


def test_means_are_read_by_the_names_of_columns(made):
    problem = ft.subpopulations.Problem(["a", "b"], ["x", "y"], floors=None, reward_range=(0, 1))
    means = made({"y": [0.1, 0.2], "x": [0.3, 0.4]})
    environment = ft.subpopulations.BernoulliEnvironment(problem, means)
    assert environment.truth.means.tolist() == [[0.3, 0.1], [0.4, 0.2]]


def test_a_race_takes_items_and_scores_from_it(made):
    items = made({"subject": ["law", "art"] * 30, "number": list(range(60))})
    seen = []

    def score(candidate: str, item: Any) -> float:
        seen.append(item)
        return float(candidate == "b")

    found = race(["a", "b"], items, score, reward_range=(0, 1))
    assert found.best == "b"
    assert seen[0] == {
        "subject": ("law", "art")[seen[0]["number"] % 2],
        "number": seen[0]["number"],
    }
    scores = made({"b": [0.9] * 60, "a": [0.1] * 60})
    assert race(["a", "b"], range(60), scores, reward_range=(0, 1)).best == "b"


SERIES = {
    "polars": pl.Series,
    "arrow array": pa.array,
    "pandas": pd.Series,
    "arrow": lambda cells: pa.chunked_array([cells]),
}


@pytest.mark.parametrize("column", SERIES.values(), ids=SERIES)
def test_labels_and_categories_may_be_series(column):
    problem = ft.subpopulations.Problem(
        column(["a", "b"]), column(["x", "y"]), floors=None, reward_range=(0, 1)
    )
    assert (problem.arms, problem.groups) == (("a", "b"), ("x", "y"))
    scores = {"a": [0.5] * 60, "b": [0.9] * 60}
    found = race(
        ["a", "b"],
        range(60),
        scores,
        reward_range=(0, 1),
        control="a",
        margin=0.2,
        category=column(["law", "art"] * 30),
    )
    assert found.best == "b"


def test_decimal_numbers_and_categories_of_a_warehouse_are_numbers_and_labels():
    query = "SELECT 0.5::DECIMAL(8, 2) AS reward, 'a'::ENUM ('a', 'b') AS arm"
    table = plain_data(duckdb.sql(query))
    assert (table["reward"], type(table["reward"][0]), table["arm"]) == ([0.5], float, ["a"])
    codes = pa.table({"site": pa.array([7, 8, 7]).dictionary_encode()})
    assert plain_data(codes)["site"] == ["7", "8", "7"]


@pytest.mark.parametrize("name", ["arrow table", "arrow reader"])
def test_columns_of_the_same_name_are_refused(name):
    table = pa.table([[1], [2]], names=["arm", "arm"])
    with raises(InvalidArgument, "table"):
        plain_data(table if name == "arrow table" else table.to_reader())


def test_the_rows_of_a_relation_are_read_in_one_order():
    relation = duckdb.sql("SELECT i AS first, i AS second FROM range(500) t(i) ORDER BY random()")
    table = plain_data(relation)
    assert table["first"] == table["second"]


@pytest.mark.parametrize("value", [None, 3, "a.csv", [1], {"a": [1]}, np.ones(2), pd.Series([1])])
def test_all_other_values_are_left_as_they_are(value):
    assert plain_data(value) is value


def test_tables_are_returned_in_the_library_that_is_named():
    scores = {"a": [0.1] * 60, "b": [0.9] * 60}
    result = race(["a", "b"], range(60), scores, reward_range=(0, 1))
    rows = result.rows()
    assert result.table(library="polars").to_dicts() == rows
    assert result.table(library="pyarrow").to_pylist() == rows
    with raises(InvalidArgument) as caught:
        result.table(library="dask")
    assert caught.value.name == "library"


FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


@pytest.mark.parametrize("library", FRAMES)
def test_tables_come_back_in_the_library_that_came_in(library):
    items = FRAMES[library]({"question": list(range(60))})
    scores = {"a": [0.1] * 60, "b": [0.9] * 60}
    result = race(["a", "b"], items, scores, reward_range=(0, 1))
    assert isinstance(result.table(), type(items))
    problem = ft.subpopulations.Problem(["a", "b"], 1, floors=None, reward_range=(0, 1))
    rows = FRAMES[library]({"arm": ["a", "b"] * 20, "outcome": [0, 1] * 20, "day": range(40)})
    with ft.analyse(problem, rows, order="day") as study:
        assert isinstance(study.history(), type(rows))
        assert isinstance(study.history(library="polars"), pl.DataFrame)


@pytest.mark.parametrize(
    ("missing", "expected"),
    [((), "pandas"), (("pandas",), "polars"), (("pandas", "polars"), "pyarrow")],
)
def test_without_a_frame_tables_come_in_the_first_installed_library(monkeypatch, missing, expected):
    scores = {"a": [0.1] * 60, "b": [0.9] * 60}
    result = race(["a", "b"], range(60), scores, reward_range=(0, 1))
    for library in missing:
        monkeypatch.setitem(sys.modules, library, None)
    assert type(result.table()).__module__.partition(".")[0] == expected


def test_a_library_that_is_missing_is_named(monkeypatch):
    scores = {"a": [0.1] * 60, "b": [0.9] * 60}
    result = race(["a", "b"], range(60), scores, reward_range=(0, 1))
    for library, extra in [("pandas", "data"), ("polars", "polars"), ("pyarrow", "data")]:
        monkeypatch.setitem(sys.modules, library, None)
        with raises(MissingExtra) as caught:
            result.table(library=library)
        assert caught.value.extra == extra


@pytest.mark.parametrize("missing", [["pandas"], ["pandas", "pyarrow"]])
def test_parquet_is_read_and_written_with_one_library(tmp_path, monkeypatch, missing):
    frame = pd.DataFrame({"arm": ["a", "b"], "gain": [0.5, None]}, index=[3, 1])
    frame.to_parquet(tmp_path / "t.parquet")
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    assert read_table(tmp_path / "t.parquet") == {"arm": ["a", "b"], "gain": [0.5, None]}
    (tmp_path / "no.parquet").write_bytes(b"rubbish")
    with raises(InvalidArgument, "path"):
        read_table(tmp_path / "no.parquet")
    problem = ft.allocation.Problem(["a", "b"], "1/4")
    study = ft.Study.create(
        problem, ft.allocation.FairLearn(problem), storage="memory://", name="s"
    )
    study.tell(study.ask(), 0.5)
    path = study.export(tmp_path / "log.parquet")
    assert read_table(path, ["seq", "value"]) == {"seq": [1.0, 2.0], "value": [None, 0.5]}


def test_a_table_in_memory_imports_no_library_of_frames():
    code = (
        "import sys, fairtrial as ft\n"
        "problem = ft.allocation.Problem(['a', 'b'], '1/4')\n"
        "ft.allocation.ReplayEnvironment(problem, {'arm': ['a', 'b'], 'reward': [0, 1]})\n"
        "assert not {'narwhals', 'polars', 'pandas', 'pyarrow'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
