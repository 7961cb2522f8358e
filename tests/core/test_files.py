"""Files that are private, and either complete or not there."""

import os
import stat
from pathlib import Path

import pytest

from fairtrial.core.files import companion, create_private, replacing
from fairtrial.errors import StorageError
from tests.messages import raises


class Broken(Exception):
    pass


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_takes_its_place_when_it_is_whole_and_its_owner_alone_may_read_it(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("old")
    path.chmod(0o644)
    with replacing(path) as part:
        part.write_text("new")
        assert path.read_text() == "old"
        assert (part.parent, part.suffix) == (tmp_path, ".csv")
    assert path.read_text() == "new"
    assert mode(path) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_after_an_error_the_file_is_what_it_was(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("old")

    def fail():
        with replacing(path) as part:
            part.write_text("half")
            raise Broken

    with pytest.raises(Broken):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_that_somebody_laid_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path = tmp_path / "log.csv"
    for name in ("log.csv", "log.csv.part"):
        (tmp_path / name).symlink_to(victim)
    with replacing(path) as part:
        part.write_text("new")
    assert victim.read_text() == "precious"
    assert not path.is_symlink()
    with pytest.raises(OSError, match="symbolic"):
        companion(tmp_path / "log.csv.part", victim)


def test_file_and_folder_are_on_the_disk_before_it_is_said(tmp_path, monkeypatch):
    happened = []
    monkeypatch.setattr(
        os, "fsync", lambda number: happened.append(str(Path(f"/proc/self/fd/{number}").readlink()))
    )
    path = tmp_path / "log.csv"
    with replacing(path) as part:
        part.write_text("new")
        wanted = [str(part), str(tmp_path)]
    assert happened == wanted


def test_a_folder_that_is_not_there_is_said(tmp_path):
    with raises(StorageError), replacing(tmp_path / "a" / "b"):
        pass


def test_a_private_file_is_made_once(tmp_path):
    assert create_private(tmp_path / "a")
    assert mode(tmp_path / "a") == 0o600
    assert not create_private(tmp_path / "a")


def test_a_companion_is_as_open_as_what_it_belongs_to(tmp_path):
    (tmp_path / "a").touch()
    (tmp_path / "a").chmod(0o664)
    for _ in range(2):
        os.close(companion(tmp_path / "a-head", tmp_path / "a"))
    assert mode(tmp_path / "a-head") == 0o664
