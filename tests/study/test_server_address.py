"""Addresses of PostgreSQL databases: what is shown of them, and never the password."""

import traceback

import pytest

from fairtrial.errors import InvalidArgument
from fairtrial.study import Study
from fairtrial.study.location import parse_storage
from fairtrial.study.server_address import ServerAddress
from tests.messages import raises
from tests.study.toys import Serving, ToyProblem


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://db.example/trials", "postgresql://db.example/trials"),
        ("postgres://ana@db.example/trials", "postgresql://ana@db.example/trials"),
        ("postgresql://ana:s%40crets:9@h:5433/t", "postgresql://ana@h:5433/t"),
        ("postgresql://:secrets@h/t", "postgresql://@h/t"),
        ("postgresql:///t?host=/run/pg&user=ana", "postgresql:///t?host=/run/pg&user=ana"),
        ("postgresql://h/t?password=secrets&sslmode=require", "postgresql://h/t?sslmode=require"),
        ("postgresql://h/t?pass%77ord=secrets", "postgresql://h/t"),
        ("postgresql://h/t?PASSWORD=secrets", "postgresql://h/t"),
        ("postgresql://h/t?PassWord=secrets&a=b", "postgresql://h/t?a=b"),
        ("postgresql://h/t?SSLpassword=secrets", "postgresql://h/t"),
        ("postgresql://ana:secrets@[::1]:5432/t", "postgresql://ana@[::1]:5432/t"),
        ("postgresql://ana:secrets@h1:1,h2:2/t", "postgresql://ana@h1:1,h2:2/t"),
    ],
)
def test_an_address_is_shown_without_its_password(address, shown):
    found = parse_storage(address)
    assert isinstance(found, ServerAddress)
    assert (found.shown, repr(found)) == (shown, shown)
    assert "secrets" not in str(vars(parse_storage(shown)))


def test_the_password_is_given_to_the_client_library():
    parameters = ServerAddress("postgresql://ana:s%40crets@h:5433/t?sslmode=require").parameters()
    expected = {"user": "ana", "password": "s@crets", "host": "h", "port": "5433"}
    assert parameters == {**expected, "dbname": "t", "sslmode": "require"}


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ana:sec@rets@h/t",
        "postgresql://ana:sec/rets@h/t",
        "postgresql://ana:sec?rets@h/t",
        "postgresql://ana:sec#rets@h/t",
        "postgresql:/ana:secrets@h/t",
        "postgres:/ana:secrets@h/t",
        "postgresql+psycopg2://ana:secrets@h/t",
        "mysql://ana:sec@rets@h/t",
        "mysql://h/t?password=secrets",
        "postgresql://ana:secrets@h\0/t",
        "mysql://h/t?PASSWORD=secrets",
        "mysql://h/t?pass%77ord=secrets",
        "host=h dbname=t password=secrets",
        "dbname=t password = 'my secrets'",
        "password=secrets",
        "HOST=h PASSWORD=secrets",
        "POSTGRESQL://ana:secrets@h/t",
        "postgresql:ana:secrets@h/t",
        "ana:secrets@h/t",
        "sqlite:///host=h password=secrets",
    ],
)
def test_a_refused_address_keeps_its_password_to_itself(address):
    with raises(InvalidArgument, "storage") as caught:
        parse_storage(address)
    assert "rets" not in f"{caught.value} {caught.value!r} {caught.value.given}"
    assert caught.value.__cause__ is None


def test_what_the_client_library_refuses_is_told_in_our_words():
    address = ServerAddress("postgresql://ana:secrets@h/t?colour=green")
    with raises(InvalidArgument, "storage", given="postgresql://ana@h/t?colour=green") as caught:
        address.parameters()
    assert "secrets" not in f"{caught.value!r}"


@pytest.mark.parametrize("text", ["trial.db", "a=b.db", "x@y.db", "C:\\data@home.db", "my host.db"])
def test_names_of_files_are_not_taken_for_addresses(text):
    assert str(parse_storage(text)) == text


def test_a_text_of_the_client_library_is_no_name_of_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    problem = ToyProblem()
    # Tracebacks show the lines of a call, so the password stands before it.
    storage = "host=h dbname=t password=secrets"
    with raises(InvalidArgument) as caught:
        Study.create(problem, Serving(problem), storage=storage, name="a", seed=1)
    assert caught.value.name == "storage"
    assert "secrets" not in "".join(traceback.format_exception(caught.value))
    assert not list(tmp_path.iterdir())
