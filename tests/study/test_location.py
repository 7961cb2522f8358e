"""Addresses of storages, and places where there can be none."""

from pathlib import Path

import pytest

from fairtrial.errors import InvalidArgument, StorageError
from fairtrial.study import Study, list_studies
from fairtrial.study.location import open_store, parse_storage
from tests.messages import raises
from tests.study.toys import Serving, ToyProblem


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("sqlite:///trial.db", "trial.db"),
        ("sqlite:///folder/trial.db", "folder/trial.db"),
        ("sqlite:////var/trial.db", "/var/trial.db"),
        ("trial.db", "trial.db"),
        (Path("/var/trial.db"), "/var/trial.db"),
        ("/odd name?#%41.db", "/odd name?#%41.db"),
    ],
)
def test_an_address_means_a_file(address, path):
    assert parse_storage(address) == Path(path)


@pytest.mark.parametrize("address", ["memory://", ":memory:", "sqlite:///:memory:"])
def test_an_address_means_memory(address):
    assert parse_storage(address) is None
    assert open_store(address).url == "memory://"


@pytest.mark.parametrize(
    "address",
    ["", "sqlite://", "sqlite:///", "mysql:///x", 7, None, "a\0b"],
)
def test_other_addresses_are_refused(address):
    with raises(InvalidArgument, "storage", given=address):
        open_store(address)


def test_the_url_of_a_store_opens_it_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    problem = ToyProblem()
    study = Study.create(problem, Serving(problem), storage="sqlite:///odd ?#%41 ß.db", name="a")
    url = study._store.url
    assert url == f"sqlite:///{tmp_path}/odd ?#%41 ß.db"
    monkeypatch.chdir("/")
    assert list_studies(url)[0].name == "a"
    assert [item.name for item in tmp_path.iterdir() if item.suffix == ".db"] == ["odd ?#%41 ß.db"]


def test_folders_are_checked(tmp_path):
    with raises(StorageError):
        open_store(tmp_path)
    with raises(StorageError):
        open_store(tmp_path / "missing" / "trial.db")
