"""Logs put into another store: the same study, or nothing at all."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairtrial.errors import (
    CorruptLog,
    FairtrialError,
    InvalidArgument,
    StorageError,
    StudyExists,
)
from fairtrial.study import Study, list_studies
from fairtrial.study.sqlite import SQLiteStore
from tests import effort
from tests.messages import raises
from tests.study.tools import replayed, same_state
from tests.study.toys import (
    OWN,
    Arrivals,
    Averaging,
    GroupProblem,
    Racing,
    RecordProblem,
    Serving,
)


def imported(path, storage="memory://", **more):
    return Study.import_log(path, storage=storage, **OWN, **more)


def edited(source, target, edit):
    """Write the log again with its lines, as data, changed by `edit`."""
    lines = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    edit(lines)
    target.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return target


# ------------------------------------------------------------------------ export, import


def test_a_log_that_was_moved_has_the_same_head(study, tmp_path):
    path = study.export(tmp_path / "log.jsonl")
    copy = imported(path, tmp_path / "copy.db")
    assert copy.head_hash == study.head_hash
    assert list(copy.events()) == list(study.events())
    assert list(copy._store.pulls(1)) == list(study._store.pulls(1))
    assert copy.verify().ok
    assert same_state(copy.policy, replayed(study))
    assert copy.export(tmp_path / "again.jsonl").read_bytes() == path.read_bytes()


def test_a_moved_study_goes_on(study, tmp_path):
    copy = imported(study.export(tmp_path / "log.jsonl"), tmp_path / "copy.db", name="copy")
    mine, theirs = study.ask(2), copy.ask(2)
    assert [pull.action for pull in mine] == [pull.action for pull in theirs]
    copy.tell(study.outstanding()[0].id, 1.0)
    assert [item.name for item in list_studies(tmp_path / "copy.db")] == ["copy"]
    assert copy.verify().ok


def test_long_logs_are_moved_in_parts(make_study, tmp_path, monkeypatch):
    monkeypatch.setattr("fairtrial.study.log_file._BATCH", 7)
    study = make_study(Serving)
    study.tell_many([(pull, 0.5) for pull in study.ask(20)])
    copy = imported(study.export(tmp_path / "log.jsonl"))
    assert (copy.head_hash, copy.verify().ok) == (study.head_hash, True)


def test_records_and_contexts_are_moved(make_study, tmp_path):
    records = make_study(Averaging, RecordProblem(), name="records")
    records.tell(records.ask(), {"s": 1, "y": 0.1})
    groups = make_study(Arrivals, GroupProblem(), name="groups")
    groups.ask(group="y")
    for study in (records, groups):
        copy = imported(study.export(tmp_path / f"{study.name}.jsonl"))
        assert (copy.head_hash, copy.verify().ok) == (study.head_hash, True)


def test_an_empty_study_can_be_moved(make_study, tmp_path):
    study = make_study()
    copy = imported(study.export(tmp_path / "log.jsonl"))
    assert (copy.seed, copy.head_hash) == (study.seed, study.head_hash)
    assert copy.ask().action == study.ask().action


def test_a_stopped_study_keeps_its_status(make_study, tmp_path):
    study = make_study(Racing, budget=1)
    study.tell(study.ask(), 1.0)
    store = SQLiteStore()
    imported(study.export(tmp_path / "log.jsonl"), store)
    assert list_studies(store)[0].status == "decided"


def test_a_name_that_is_taken_is_refused(study, tmp_path):
    path = study.export(tmp_path / "log.jsonl")
    with raises(StudyExists):
        imported(path, study._store)
    assert imported(path, study._store, name="other").name == "other"


def test_the_classes_needed_are_named(study, tmp_path):
    path = study.export(tmp_path / "log.jsonl")
    with raises(InvalidArgument, "problems"):
        Study.import_log(path, storage="memory://")


# --------------------------------------------------------------------------- bad files


@pytest.mark.parametrize(
    "edit",
    [
        lambda lines: lines.pop(0),
        lambda lines: lines[0].update(fairtrial_log=3),
        lambda lines: lines[0].pop("name"),
        lambda lines: lines[0]["specification"].pop("seed"),
        lambda lines: lines[0].update(events=True),
        lambda lines: lines[3].update(value="1"),
        lambda lines: lines[3].update(value=9e999),
        lambda lines: lines[3].update(stage=2**63),
        lambda lines: lines[3].update(actor="\ud800"),
        lambda lines: lines[3].update(extra=1),
        lambda lines: lines[3].update(kind="guess"),
        lambda lines: lines[3].update(body={"x": float("nan")}),
        lambda lines: lines[3].pop("hash"),
        lambda lines: lines[3].update(action=2),
        lambda lines: lines[8].update(value=0.0),
        lambda lines: lines.pop(4),
        lambda lines: lines.pop(),
        lambda lines: lines.insert(2, lines[1]),
        lambda lines: lines[0]["specification"].update(seed=8),
        lambda lines: lines[0].update(head_hash="00"),
    ],
)
@pytest.mark.parametrize("store", effort.first(1, ["file", "memory", "postgresql"]), indirect=True)
def test_a_changed_file_is_refused_and_nothing_is_kept(study, tmp_path, edit):
    path = edited(study.export(tmp_path / "log.jsonl"), tmp_path / "bad.jsonl", edit)
    storage = SQLiteStore(tmp_path / "copy.db")
    with raises(CorruptLog):
        imported(path, storage)
    assert storage.studies() == []


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"[]\n", b"{}\n", b"\xff\xfe", b"{" * 100_000, b'{"fairtrial_log": 1}']
)
def test_a_file_that_is_no_log_is_refused(tmp_path, content):
    path = tmp_path / "log.jsonl"
    path.write_bytes(content)
    with raises(CorruptLog):
        imported(path)


def test_a_missing_file_is_named(tmp_path):
    with raises(StorageError):
        imported(tmp_path / "none.jsonl")


@settings(
    max_examples=effort.runs(60, whole=150),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_no_garbled_file_is_taken_or_breaks_anything(study, tmp_path, data):
    path = tmp_path / "log.jsonl"
    whole = study.export(path).read_bytes()
    start = data.draw(st.integers(0, len(whole) - 1))
    end = data.draw(st.integers(start, min(len(whole), start + 40)))
    garbage = data.draw(
        st.one_of(
            st.binary(max_size=6),
            st.sampled_from([b"null", b"-1", b"1e999", b"{}", b'""', b"\n", b"[[", b"9" * 30]),
        )
    )
    path.write_bytes(whole[:start] + garbage + whole[end:])
    try:
        copy = imported(path)
    except FairtrialError:
        return
    # What is not sealed may differ: the layout of the file, and who created it when.
    assert copy.head_hash == study.head_hash


def test_a_file_whose_policy_cannot_be_made_is_no_log(study, tmp_path):
    path = study.export(tmp_path / "log.jsonl")
    text = path.read_text()
    assert '"slots": 5' in text
    path.write_text(text.replace('"slots": 5', '"slots": -5'))
    with raises(CorruptLog):
        imported(path)
