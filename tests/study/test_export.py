"""Logs as tables and files."""

import csv
import sys

import pandas as pd
import pytest

from fairtrial.errors import (
    InvalidArgument,
    MissingExtra,
    StorageError,
)
from fairtrial.study import Study
from tests.messages import raises
from tests.study.toys import (
    Averaging,
    RecordProblem,
    Serving,
    ToyProblem,
)


def test_history_is_one_row_per_event(study):
    frame = study.history()
    assert frame.index.tolist() == [event.seq for event in study.events()]
    assert frame["kind"].tolist() == [event.kind for event in study.events()]
    told = frame[frame.kind == "tell"]
    assert told["value"].tolist() == [1 / 3]
    assert set(told["arm"]) <= {"a", "b", 'ß, "c"'}
    assert str(frame["at"].dtype) == "datetime64[us, UTC]"
    assert frame.loc[frame.kind == "amend", "reason"].tolist() == ['said "oops"']
    assert frame.loc[frame.kind == "report", "stage"].tolist() == [1]


def test_the_fields_of_outcomes_are_columns(make_study):
    study = make_study(Averaging, RecordProblem())
    study.tell(study.ask(), {"s": 1, "y": 0.5})
    frame = study.history()
    assert frame["outcome_y"].tolist()[1] == 0.5
    assert pd.isna(frame["outcome_s"].iloc[0])


def test_an_empty_history_has_its_columns(make_study):
    frame = make_study().history()
    assert len(frame) == 0
    assert {"kind", "arm", "value"} <= set(frame.columns)


def test_a_label_with_the_name_of_a_column_gets_another(make_study):
    class Awkward(ToyProblem):
        family = "awkward"

        @property
        def action_labels(self):
            return [{"value": name} for name in self.names]

    study = make_study(Serving, Awkward(["x"]))
    study.ask()
    assert study.history()["label_value"].tolist() == ["x"]


def test_csv_holds_what_history_shows(study, tmp_path):
    path = study.export(tmp_path / "log.csv")
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    frame = study.history()
    assert [int(row["seq"]) for row in rows] == frame.index.tolist()
    assert [row["arm"] or None for row in rows] == [
        None if pd.isna(arm) else arm for arm in frame["arm"]
    ]
    assert [float(row["value"]) for row in rows if row["kind"] == "tell"] == [1 / 3]
    assert "nurse\n2" in [row["actor"] for row in rows]


def test_parquet_holds_what_history_shows(study, tmp_path):
    path = study.export(tmp_path / "log.parquet")
    found = pd.read_parquet(path).set_index("seq")
    pd.testing.assert_frame_equal(found, study.history(), check_dtype=False)


def test_history_is_the_same_in_every_library(study):
    rows = study.history(library="pyarrow").to_pylist()
    assert study.history(library="polars").to_dicts() == rows
    assert [row["seq"] for row in rows] == study.history().index.tolist()
    assert [row["at"] for row in rows] == study.history()["at"].tolist()
    told = [row["value"] for row in rows if row["kind"] == "tell"]
    assert told == [1 / 3]


@pytest.mark.parametrize("name", ["log.txt", "log", "log.json"])
def test_an_unknown_ending_is_refused(study, tmp_path, name):
    with raises(InvalidArgument, "path"):
        study.export(tmp_path / name)
    assert not (tmp_path / name).exists()


def test_a_file_that_cannot_be_written_is_named(study, tmp_path):
    with raises(StorageError):
        study.export(tmp_path / "no folder" / "log.csv")
    (tmp_path / "folder.csv").mkdir()
    with raises(StorageError):
        study.export(tmp_path / "folder.csv")
    (tmp_path / "file").touch()
    with raises(StorageError):
        study.export(tmp_path / "file" / "log.csv")


@pytest.mark.parametrize("bad", [None, 3, "a\0.csv"])
def test_what_is_no_path_is_refused(study, bad):
    with raises(InvalidArgument, "path", given=bad):
        study.export(bad)
    with raises(InvalidArgument, "path", given=bad):
        Study.import_log(bad, storage="memory://")


def test_an_export_that_fails_leaves_the_old_file(study, tmp_path, monkeypatch):
    path = study.export(tmp_path / "log.jsonl")
    before = path.read_bytes()
    study.ask()

    def broken(record):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fairtrial.study.export._line", broken)
    with raises(StorageError):
        study.export(path)
    assert path.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir() if "part" in item.name] == []


def test_missing_packages_are_named(study, tmp_path, monkeypatch):
    for library in ("pandas", "polars", "pyarrow"):
        monkeypatch.setitem(sys.modules, library, None)
    with raises(MissingExtra, extra="data"):
        study.history()
    with raises(MissingExtra, extra="data"):
        study.export(tmp_path / "log.parquet")
    assert study.export(tmp_path / "log.csv").exists()


def test_a_table_is_the_same_whether_it_is_made_at_once_or_in_parts(study, monkeypatch):
    whole = study.history()
    for size in (1, 4, 7):
        monkeypatch.setattr("fairtrial.study.export._BATCH", size)
        pd.testing.assert_frame_equal(study.history(), whole)


def test_the_table_of_an_empty_log_has_the_same_columns(make_study, study):
    empty = make_study(name="empty").history()
    assert len(empty) == 0
    assert list(empty.columns) == list(study.history().columns)
    assert empty.dtypes["at"] == study.history().dtypes["at"]


def test_a_workbook_holds_what_history_shows(study, tmp_path):
    frame = pd.read_excel(study.export(tmp_path / "log.xlsx"))
    history = study.history()
    assert frame["seq"].tolist() == history.index.tolist()
    assert frame.loc[frame.kind == "tell", "value"].tolist() == [1 / 3]
    assert pd.to_datetime(frame["at"]).tolist() == history["at"].tolist()


@pytest.mark.parametrize(("limit", "value"), [("_MOST_ROWS", 3), ("_LONGEST_CELL", 5)])
def test_a_log_that_no_sheet_can_hold_is_refused(study, tmp_path, monkeypatch, limit, value):
    monkeypatch.setattr(f"fairtrial.study.export.{limit}", value)
    with raises(InvalidArgument) as error:
        study.export(tmp_path / "log.xlsx")
    assert error.value.name == "path"
    assert list(tmp_path.glob("*.xlsx")) == []


def test_no_text_of_a_workbook_is_a_formula(make_study, tmp_path):
    study = make_study(Serving, ToyProblem(["=1+1"]))
    study.ask()
    frame = pd.read_excel(study.export(tmp_path / "log.xlsx"))
    assert frame["arm"].tolist() == ["'=1+1"]
