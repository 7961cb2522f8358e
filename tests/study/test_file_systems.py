"""Where a study may be kept: on local file systems, unless the user says otherwise."""

from pathlib import Path

import pytest

from fairtrial.errors import StorageError
from fairtrial.study import Study, file_systems
from fairtrial.study.file_systems import OVERRIDE, file_system, require_local
from tests.messages import raises
from tests.study.toys import Serving, ToyProblem

MOUNTS = """\
/dev/vda / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/vdb /home/local ext4 rw 0 0
//server/share /mnt/my\\040share cifs rw 0 0
tmpfs /dev/shm tmpfs rw 0 0
host:/x /data fuse.sshfs rw 0 0
C: /mnt/c 9p rw 0 0
new /cluster fuse.something-new rw 0 0
/dev/vdc /twice ext4 rw 0 0
server:/x /twice nfs rw 0 0
nonsense
"""

PRINTED = """\
/dev/disk3s1s1 on / (apfs, sealed, local, read-only, journaled)
/dev/disk3s5 on /System/Volumes/Data (apfs, local, journaled, nobrowse)
//me@server/share on /Volumes/my share (smbfs, nodev, nosuid, mounted by me)
"""


@pytest.fixture
def mounts(tmp_path, monkeypatch):
    monkeypatch.setattr(file_systems.sys, "platform", "linux")
    listed = tmp_path / "mounts"
    listed.write_text(MOUNTS)
    monkeypatch.setattr(file_systems, "_MOUNTS", listed)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/me/trial.db", "nfs4"),
        ("/home/local/trial.db", "ext4"),
        ("/mnt/my share/a/trial.db", "cifs"),
        ("/data/trial.db", "fuse.sshfs"),
        ("/dev/shm/trial.db", "tmpfs"),
        ("/trial.db", "ext4"),
        ("/homeless/trial.db", "ext4"),
        ("/twice/trial.db", "nfs"),
    ],
)
def test_the_mount_that_holds_a_path_is_found(mounts, path, kind):
    assert file_system(Path(path)) == kind


@pytest.mark.parametrize(
    "path", ["/home/a.db", "/mnt/c/a.db", "/data/a.db", "/cluster/a.db", "/twice/a.db"]
)
def test_what_is_not_known_to_be_local_is_refused_unless_told_otherwise(mounts, monkeypatch, path):
    kind = file_system(Path(path))
    with raises(StorageError):
        require_local(Path(path))
    monkeypatch.setenv(OVERRIDE, "other")
    with raises(StorageError):
        require_local(Path(path))
    monkeypatch.setenv(OVERRIDE, f"other, {kind}")
    require_local(Path(path))


def test_nothing_is_taken_for_local_where_the_system_does_not_say(tmp_path, monkeypatch):
    monkeypatch.setattr(file_systems, "_MOUNTS", tmp_path / "none")
    with raises(StorageError):
        require_local(tmp_path / "trial.db")


def test_a_study_is_not_made_on_a_network_drive(tmp_path, monkeypatch):
    listed = tmp_path / "mounts"
    listed.write_text(f"server:/x {tmp_path.resolve()} nfs rw 0 0\n")
    monkeypatch.setattr(file_systems, "_MOUNTS", listed)
    problem = ToyProblem()
    with raises(StorageError):
        Study.create(problem, Serving(problem), storage=tmp_path / "trial.db", name="a")
    assert not (tmp_path / "trial.db").exists()


def test_what_other_systems_print_is_read(monkeypatch):
    monkeypatch.setattr(file_systems.sys, "platform", "darwin")
    monkeypatch.setattr(file_systems, "_mount_command", lambda: PRINTED)
    assert file_system(Path("/System/Volumes/Data/trial.db")) == "apfs"
    assert file_system(Path("/Volumes/my share/trial.db")) == "smbfs"
    require_local(Path("/trial.db"))
    with raises(StorageError):
        require_local(Path("/Volumes/my share/trial.db"))
