"""A witness elsewhere: what it records, and what it reveals."""

import sqlite3
import stat
from pathlib import Path

import pytest

from fairtrial import Study
from fairtrial.errors import CorruptLog, InvalidArgument, StorageError
from fairtrial.subpopulations import BlockBetting, Problem
from tests.messages import raises

PROBLEM = Problem(["a", "b"], ["x"], reward_range=(0, 1))


def made(folder: Path, witness: Path | None, pulls: int = 3) -> Path:
    """Make a study with a few results; return its file."""
    file = folder / "trial.db"
    with Study.create(
        PROBLEM, BlockBetting(PROBLEM), storage=file, name="trial", seed=1, witness=witness
    ) as study:
        for _ in range(pulls):
            study.tell(study.ask(), 0.5)
    return file


def test_every_write_is_noted_and_the_log_holds_it(tmp_path):
    witness = tmp_path / "elsewhere" / "heads"
    witness.parent.mkdir()
    file = made(tmp_path, witness)
    lines = witness.read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2", "3", "4", "5", "6"]
    assert stat.S_IMODE(witness.stat().st_mode) == 0o600
    with Study.open(file, "trial", witness=witness) as study:
        assert lines[-1].split()[1] == study.head_hash
        assert study.verify(witness=witness).ok
        study.ask()
    assert len(witness.read_text().splitlines()) == 7


def test_a_study_that_was_made_anew_is_found_out_at_the_opening_and_by_the_audit(tmp_path):
    """An insider writes a whole new log with consistent hashes."""
    witness = tmp_path / "heads"
    made(tmp_path, witness)
    other = tmp_path / "other"
    other.mkdir()
    forged = other / "trial.db"
    with Study.create(
        PROBLEM, BlockBetting(PROBLEM), storage=forged, name="trial", seed=1
    ) as study:
        for _ in range(5):
            study.tell(study.ask(), 1.0)
        assert study.verify().ok
        assert "noted elsewhere" in str(study.verify(witness=witness).first_difference)
    with raises(CorruptLog):
        Study.open(forged, "trial", witness=witness)


def test_a_log_that_lost_its_end_is_found_out(tmp_path):
    witness = tmp_path / "heads"
    file = made(tmp_path, witness)
    shorter = tmp_path / "shorter"
    shorter.mkdir()
    old = made(shorter, None, pulls=1)
    assert old.read_bytes() != file.read_bytes()
    with raises(CorruptLog):
        Study.open(old, "trial", witness=witness)
    # Without the witness it opens, because nothing else can know.
    with Study.open(old, "trial") as study:
        assert study.verify().ok


def test_a_last_line_that_was_torn_off_does_no_harm(tmp_path):
    witness = tmp_path / "heads"
    file = made(tmp_path, witness)
    with witness.open("a") as lines:
        lines.write("7 0123")
    with Study.open(file, "trial", witness=witness) as study:
        assert study.verify(witness=witness).ok


def test_what_is_no_witness_is_refused_by_name(tmp_path):
    witness = tmp_path / "notes"
    witness.write_text("Dear diary\n")
    with raises(StorageError):
        made(tmp_path, witness)
    with raises(StorageError):
        made(tmp_path, tmp_path / "no folder" / "heads")
    with raises(InvalidArgument, "path"):
        made(tmp_path, 3)


def test_an_event_is_kept_where_its_head_cannot_be_noted(tmp_path):
    witness = tmp_path / "heads"
    file = made(tmp_path, witness)
    with Study.open(file, "trial", witness=witness) as study:
        witness.unlink()
        with pytest.warns(
            RuntimeWarning, match="event 7 of study 'trial' was kept, but not recorded"
        ) as caught:
            pull = study.ask()
    assert caught[0].filename == __file__
    with Study.open(file, "trial") as study:
        assert study.outstanding() == [pull]


def test_a_write_that_failed_is_not_noted(tmp_path, monkeypatch):
    witness = tmp_path / "heads"
    file = made(tmp_path, witness)
    with Study.open(file, "trial", witness=witness) as study:
        before = witness.read_text()

        def refuse(*arguments, **options):
            raise sqlite3.OperationalError("disk I/O error")

        monkeypatch.setattr(type(study._session.store), "append", refuse)
        with pytest.raises(sqlite3.OperationalError):
            study.ask()
        assert witness.read_text() == before
