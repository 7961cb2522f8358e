"""The drill: back up while results come in, lose everything, restore, audit, continue."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fairtrial.errors import StudyNotFound
from fairtrial.study import Study, list_studies
from fairtrial.subpopulations import BlockBetting, Problem

BACKUP = Path(__file__).parents[2] / "deploy" / "backup.py"


def make(storage):
    problem = Problem(["a", "b"], ["x"], floors=0.0, reward_range=(0, 1))
    policy = BlockBetting(problem, delta=0.05)
    return Study.create(problem, policy, storage=storage, name="trial", seed=7)


def tell(study, number):
    for _ in range(number):
        study.tell(study.ask(), 0.5)


def back_up(storage, folder, environment=None):
    """Run the script; return the copy's path, and its output about the heads."""
    done = subprocess.run(
        [sys.executable, BACKUP, storage, folder],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip()), done.stderr


def while_results_come_in(study, work):
    """Return the result of `work`; tell results until it is there."""
    over, told = threading.Event(), threading.Event()

    def come_in():
        while not over.is_set():
            tell(study, 1)
            told.set()

    thread = threading.Thread(target=come_in)
    thread.start()
    told.wait()
    try:
        return work()
    finally:
        over.set()
        thread.join()


@pytest.mark.slow
def test_a_file_is_backed_up_while_it_is_written_and_restored(tmp_path):
    storage = f"sqlite:///{tmp_path}/live.db"
    with make(storage) as study:
        copy, said = while_results_come_in(study, lambda: back_up(storage, tmp_path / "copies"))
        noted = study.head_hash
        assert "trial: head" in said
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert [path.name for path in copy.parent.iterdir()] == [copy.name]
    # The disk is lost; the copy replaces it, under its own name.
    for path in tmp_path.glob("live.db*"):
        path.unlink()
    restored = f"sqlite:///{copy}"
    with Study.open(restored, "trial") as study:
        assert study.head_hash in said
        assert study.verify().ok
        # Events after the copy are missing, and a head that was noted elsewhere reveals it.
        assert not study.verify([noted]).ok
        tell(study, 3)
        assert study.verify().ok


@pytest.mark.slow
def test_postgresql_is_backed_up_while_it_is_written_and_restored(
    tmp_path, postgresql_server, postgresql_url
):
    programs = postgresql_server.programs
    path = {"PATH": f"{programs}:{os.environ['PATH']}"}
    with make(postgresql_url) as study:
        copy, _ = while_results_come_in(
            study, lambda: back_up(postgresql_url, tmp_path / "copies", path)
        )
        noted = study.head_hash
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with postgresql_server.database() as restored:
        with pytest.raises(StudyNotFound):
            list_studies(restored)
        command = ["pg_restore", "--exit-on-error", f"--dbname={restored}", str(copy)]
        subprocess.run([programs / command[0], *command[1:]], check=True)
        with Study.open(restored, "trial") as study:
            assert study.verify().ok
            assert not study.verify([noted]).ok
            tell(study, 3)
            assert study.verify().ok


def test_a_name_that_is_mistyped_makes_neither_a_database_nor_a_copy(tmp_path):
    command = [sys.executable, BACKUP, f"sqlite:///{tmp_path}/nothing.db", tmp_path / "copies"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert not (tmp_path / "nothing.db").exists()
    assert not list((tmp_path / "copies").glob("*.db"))
