"""Studies behind PgBouncer, which shares few connections to a PostgreSQL server."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg
import pytest

from fairtrial.errors import StorageError
from fairtrial.study import Study
from tests import effort
from tests.messages import raises
from tests.study.pooler import pooled
from tests.study.toys import OWN, Serving, ToyProblem

_PAIRS = effort.runs(8, whole=20)
_SCRIPT = """
import sys
from fairtrial.study import Study
from tests.study.toys import OWN
with Study.open(sys.argv[1], "toy", **OWN, durability="process") as study:
    for _ in range(int(sys.argv[2])):
        study.tell(study.ask(), 0.5)
"""


@pytest.fixture
def folder():
    """Return a folder that another user can reach, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def make(storage):
    problem = ToyProblem()
    more = {"seed": 7, "durability": "process"}
    return Study.create(problem, Serving(problem), storage=storage, name="toy", **more)


def test_processes_share_a_study_behind_a_pooler_of_sessions(
    postgresql_server, postgresql_url, folder
):
    with pooled(postgresql_url, folder, "session") as url, make(url) as study:
        command = [sys.executable, "-c", _SCRIPT, url, str(_PAIRS)]
        root = Path(__file__).parents[2]
        others = [
            subprocess.Popen(command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)})
            for _ in range(2)
        ]
        for _ in range(_PAIRS):
            study.tell(study.ask(), 0.5)
        assert [other.wait() for other in others] == [0, 0]
        assert study.progress().told == 3 * _PAIRS
        postgresql_server.restart()
        study.tell(study.ask(), 0.5)
        assert study.verify().ok
    with Study.open(postgresql_url, "toy", **OWN) as study:
        assert study.progress().told == 3 * _PAIRS + 1


def test_a_pooler_of_transactions_is_named_when_it_mixes_sessions(postgresql_url, folder):
    with (
        pooled(postgresql_url, folder, "transaction") as url,
        make(url) as study,
        psycopg.connect(url) as other,
    ):
        # It takes the server's session that was set up for the study.
        other.execute("SELECT 1")
        with raises(StorageError):
            study.tell(study.ask(), 0.5)
