"""Databases of other schemas: older ones are migrated after a copy, newer ones refused."""

import shutil
from pathlib import Path

import pytest

from fairtrial.errors import StorageError
from fairtrial.study import Study, Tokens, list_studies, schema
from tests.messages import raises
from tests.study.tools import connect
from tests.study.toys import OWN, Serving, ToyProblem

FIXTURES = Path(__file__).parent / "fixtures"
HEADS = {
    1: ("7609a5d567ef912fc56d92c6e2ce41a981d678ef5e4cc0310900f537ab89e3b6", 17),
    2: ("1d98c9297c1c136f5d09f9e77fed4ed0005cb7a6d08c5ff152639d80c94f597d", 17),
    3: ("b124f0c164af7830e6b9f5ea9b9d01fc5a2b5ec2c2624bb98443f7c09628ec85", 17),
    4: ("e9fdd59eeae3a71918d5b9b84847dcda46bd302cffe44c22fbb407c8ac208c77", 17),
    5: ("0ff1699c9abb68cea3e189827bf1b4a36da244eacfa7b8d113ea0ba912dfac4c", 16),
}
"""Head hash and length of the study in the fixture of every released schema."""

NEXT = ("ALTER TABLE study ADD COLUMN colour TEXT", "UPDATE study SET colour = 'green'")
BROKEN = ("ALTER TABLE study ADD COLUMN colour TEXT", "ALTER TABLE nowhere ADD COLUMN x TEXT")


@pytest.fixture(params=sorted(HEADS))
def released(request, path):
    """A database as a released version left it, and the facts known about it."""
    shutil.copy(FIXTURES / f"schema_{request.param}.db", path)
    return path, *HEADS[request.param]


def test_there_is_a_fixture_of_every_schema():
    assert sorted(HEADS) == list(range(1, len(schema.STEPS) + 1))


def test_every_released_schema_opens_verifies_and_goes_on(released):
    path, head, length = released
    with Study.open(path, "released", **OWN) as study:
        assert study.head_hash == head
        found = study.verify()
        assert (found.ok, found.events) == (True, length)
        study.tell(study.ask(), 0.5)
        assert study.verify().ok
        assert len(study.history()) == length + 2


def tables(path):
    statement = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"
    return {name: " ".join(sql.split()) for name, sql in connect(path).execute(statement)}


def test_an_old_database_ends_with_the_tables_of_a_new_one(released, tmp_path):
    path, *_ = released
    list_studies(path)
    new = tmp_path / "new.db"
    problem = ToyProblem()
    Study.create(problem, Serving(problem), storage=new, name="a").close()
    assert tables(path).keys() == tables(new).keys()
    with Tokens(path) as tokens:
        _, secret = tokens.create("ward 3", ["run"])
        assert tokens.find(secret) is not None


def test_the_newest_schema_needs_no_copy(released):
    path, *_ = released
    if connect(path).execute("PRAGMA user_version").fetchone()[0] == len(schema.STEPS):
        list_studies(path)
        assert not list(path.parent.glob("*.bak"))


def test_a_database_says_whose_it_is_and_which_schema_it_has(path):
    problem = ToyProblem()
    Study.create(problem, Serving(problem), storage=path, name="a").close()
    connection = connect(path)
    assert connection.execute("PRAGMA user_version").fetchone()[0] == len(schema.STEPS)
    assert connection.execute("PRAGMA application_id").fetchone()[0] == schema.APPLICATION_ID
    meta = dict(connection.execute("SELECT * FROM meta"))
    assert meta["schema"] == str(len(schema.STEPS))
    assert meta["created_with"]


def test_a_newer_schema_is_refused_in_one_sentence_with_both_numbers(path):
    problem = ToyProblem()
    Study.create(problem, Serving(problem), storage=path, name="a").close()
    connect(path).execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    for call in (
        lambda: list_studies(path),
        lambda: Study.open(path, "a", **OWN),
        lambda: Study.create(problem, Serving(problem), storage=path, name="b"),
    ):
        with raises(StorageError) as caught:
            call()
        assert "\n" not in str(caught.value)
    assert path.read_bytes() == before


def test_an_older_schema_is_brought_forward_after_a_copy(released, monkeypatch):
    path, head, _ = released
    before = connect(path).execute("PRAGMA user_version").fetchone()[0]
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, NEXT))
    with Study.open(path, "released", **OWN) as study:
        assert study.head_hash == head
        assert study.verify().ok
    assert connect(path).execute("SELECT colour FROM study").fetchone() == ("green",)
    assert connect(path).execute("PRAGMA user_version").fetchone()[0] == len(schema.STEPS)
    copy = path.with_name(f"trial.db.schema-{before}.bak")
    monkeypatch.undo()
    with Study.open(copy, "released", **OWN) as study:
        assert study.head_hash == head


def test_a_copy_never_takes_the_place_of_another(released, monkeypatch):
    path, *_ = released
    before = connect(path).execute("PRAGMA user_version").fetchone()[0]
    taken = path.with_name(f"trial.db.schema-{before}.bak")
    taken.write_text("precious")
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, NEXT))
    list_studies(path)
    assert taken.read_text() == "precious"
    assert path.with_name(f"{taken.name}.2").exists()


def test_a_step_that_fails_leaves_the_database_as_it_was(released, monkeypatch):
    path, head, _ = released
    before = connect(path).execute("PRAGMA user_version").fetchone()[0]
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, BROKEN))
    with raises(StorageError):
        list_studies(path)
    monkeypatch.undo()
    assert connect(path).execute("PRAGMA user_version").fetchone()[0] == before
    with Study.open(path, "released", **OWN) as study:
        assert study.head_hash == head
