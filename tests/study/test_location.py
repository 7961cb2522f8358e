"""Addresses of storages, and where none can be."""

from pathlib import Path

import pytest

from fairtrial.errors import InvalidArgument, StorageError
from fairtrial.study import Study, list_studies, location
from fairtrial.study.location import network_file_system, open_store, parse_storage
from tests.study.toys import Serving, ToyProblem

MOUNTS = """\
/dev/vda / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/vdb /home/local ext4 rw 0 0
//server/share /mnt/my\\040share cifs rw 0 0
tmpfs /dev/shm tmpfs rw 0 0
host:/x /data fuse.sshfs rw 0 0
nonsense
"""


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
    ["", "sqlite://", "sqlite:///", "postgresql://host/db", "mysql:///x", 7, None, "a\0b"],
)
def test_other_addresses_are_refused(address):
    with pytest.raises(InvalidArgument, match=r"storage must be .*, a path, or"):
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
    with pytest.raises(StorageError, match="is a folder"):
        open_store(tmp_path)
    with pytest.raises(StorageError, match=r"the folder .*missing does not exist"):
        open_store(tmp_path / "missing" / "trial.db")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/me/trial.db", "nfs4"),
        ("/home/local/trial.db", None),
        ("/mnt/my share/a/trial.db", "cifs"),
        ("/data/trial.db", "fuse.sshfs"),
        ("/dev/shm/trial.db", None),
        ("/trial.db", None),
        ("/homeless/trial.db", None),
    ],
)
def test_network_drives_are_detected(tmp_path, monkeypatch, path, kind):
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    monkeypatch.setattr(location, "_MOUNTS", mounts)
    assert network_file_system(Path(path)) == kind


def test_network_drives_are_refused_with_the_reason(tmp_path, monkeypatch):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"server:/x {tmp_path.resolve()} nfs rw 0 0\n")
    monkeypatch.setattr(location, "_MOUNTS", mounts)
    problem = ToyProblem()
    with pytest.raises(
        StorageError, match=r"network drive \(nfs\), where the locks .* use a local"
    ):
        Study.create(problem, Serving(problem), storage=tmp_path / "trial.db", name="a")
    assert not (tmp_path / "trial.db").exists()


def test_nothing_is_detected_where_mounts_are_not_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(location, "_MOUNTS", tmp_path / "none")
    assert network_file_system(tmp_path) is None
