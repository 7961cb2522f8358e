"""What happens to requests when the storage is shared, busy, gone, or full."""

import asyncio
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest

from fairtrial.server import Settings, create_app
from fairtrial.study import Study, list_studies
from fairtrial.study.postgresql import PostgreSQLStore
from fairtrial.study.server_address import ServerAddress
from fairtrial.study.sqlite import SQLiteStore
from tests.server.conftest import Caller
from tests.server.pages.people import Person
from tests.study.relay import frozen_on_demand
from tests.study.tools import PATIENCE, Failing, connect, end_sessions_of
from tests.study.toys import OWN, Serving, ToyProblem

URL = "/v1/studies/trial"


class UnluckyStore(Failing, SQLiteStore):
    """A store in a file whose writes fail on request."""


def make(store):
    problem = ToyProblem()
    Study.create(problem, Serving(problem), storage=store, name="trial", seed=7)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "studies.db"


# ------------------------------------------------------------------ several services


@pytest.fixture(params=["file", "postgresql"])
def two(request, tmp_path):
    """Two services of one storage, and callers of both with the same token."""

    def opened():
        if request.param == "file":
            return SQLiteStore(tmp_path / "studies.db", "process")
        url = request.getfixturevalue("postgresql_url")
        return PostgreSQLStore(ServerAddress(url), "process")

    first_store, second_store = opened(), opened()
    make(first_store)
    # After the database, which is removed when both have ended.
    serve = request.getfixturevalue("serve")
    first = serve(first_store, longest_wait=PATIENCE)
    admins = first.caller("sibling", ["admin"])
    from fairtrial.server import Settings, create_app
    from tests.server.conftest import TestClient

    app = create_app(
        second_store,
        settings=Settings(longest_wait=PATIENCE),
        policies=OWN["policies"],
        problems=OWN["problems"],
    )
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        yield admins, Caller(client, admins.secret)


def test_two_services_of_one_storage_know_the_same(two):
    first, second = two
    numbers = [caller.ask()[0]["number"] for caller in (first, second, second, first)]
    assert numbers == [0, 1, 2, 3]
    tags = [caller.get(URL).headers["etag"] for caller in two]
    assert tags[0] == tags[1]
    assert second.get(f"{URL}/verify").json()["ok"]


def test_a_retry_at_another_service_gets_the_first_answer(two):
    first, second = two
    answer = first.post(f"{URL}/asks", {"n": 2}, key="k")
    assert second.post(f"{URL}/asks", {"n": 2}, key="k").content == answer.content
    assert first.get(URL).json()["head_seq"] == 2


def test_one_request_that_comes_to_two_services_at_once_is_carried_out_once(two):
    with ThreadPoolExecutor(8) as threads:
        for turn in range(5):
            answers = list(
                threads.map(
                    lambda place, turn=turn: two[place % 2].post(
                        f"{URL}/asks", {"n": 2}, key=f"k{turn}"
                    ),
                    range(8),
                )
            )
            assert {answer.status_code for answer in answers} == {200}
            assert len({answer.content for answer in answers}) == 1
    assert two[0].get(URL).json()["head_seq"] == 10
    assert two[0].get(f"{URL}/verify").json()["ok"]


def test_many_clients_of_two_services_lose_and_double_nothing(two):
    def client(place):
        pulls = [two[place % 2].ask()[0] for _ in range(5)]
        for pull in pulls:
            told = two[(place + 1) % 2].post(f"{URL}/pulls/{pull['id']}/tell", {"value": 0.5})
            assert told.status_code == 200
        return [pull["number"] for pull in pulls]

    with ThreadPoolExecutor(6) as threads:
        numbers = [number for found in threads.map(client, range(6)) for number in found]
    assert sorted(numbers) == list(range(30))
    found = two[0].get(f"{URL}/verify").json()
    assert (found["ok"], found["events"]) == (True, 60)


def test_who_waits_at_one_is_woken_by_the_other(two):
    first, second = two
    found = []
    path = f"{URL}/events?after=0&wait={PATIENCE}"
    thread = threading.Thread(target=lambda: found.append(first.get(path).json()))
    thread.start()
    second.ask()
    thread.join()
    assert [event["kind"] for event in found[0]["events"]] == ["ask"]


# ----------------------------------------------------------------------------- mishaps


def test_a_storage_that_is_held_by_another_program_is_busy(serve, path):
    store = SQLiteStore(path, "process", busy_timeout=0.1)
    make(store)
    service = serve(store)
    service.run.ask()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        answer = service.run.post(f"{URL}/asks", {})
        assert answer.status_code == 503
        assert answer.json()["type"] == "urn:fairtrial:problem:storage-busy"
        assert int(answer.headers["retry-after"]) >= 1
        assert str(path.parent) not in answer.text
        # Reading is still possible.
        assert service.read.get(f"{URL}/recommendation").status_code == 200
        other.execute("ROLLBACK")
    assert len(service.run.ask()) == 1


@pytest.mark.parametrize("altered", ["{", "[]", "null", '{"problem": 1}', '{"problem": {}}'])
def test_an_altered_specification_hides_no_other_study(serve, path, altered):
    store = SQLiteStore(path, "process")
    make(store)
    problem = ToyProblem()
    Study.create(problem, Serving(problem), storage=store, name="altered", seed=7)
    with closing(sqlite3.connect(path)) as other:
        other.execute("DROP TRIGGER study_is_never_changed")
        other.execute("UPDATE study SET spec_json = ? WHERE name = 'altered'", (altered,))
        other.commit()
    service = serve(store)
    found = service.read.get("/v1/studies")
    assert found.status_code == 200
    families = {study["name"]: study["family"] for study in found.json()["studies"]}
    assert families == {"trial": "study-toy", "altered": "unreadable"}
    assert [study.family for study in list_studies(store)] == ["study-toy", "unreadable"]
    person = Person(service.client, service.admin.secret)
    assert "altered" in person.get("/").text
    answer = service.read.get("/v1/studies/altered")
    assert answer.json()["type"] == "urn:fairtrial:problem:corrupt-log"
    assert service.run.ask() != []


def test_a_form_that_meets_a_busy_storage_is_told_so_without_the_place(serve, path):
    store = SQLiteStore(path, "process", busy_timeout=0.1)
    make(store)
    service = serve(store)
    person = Person(service.client, service.admin.secret)
    person.send("/studies/trial/pulls", "/studies/trial/forms/ask", n="1")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        answer = person.send("/studies/trial/pulls", "/studies/trial/forms/ask", n="1")
        other.execute("ROLLBACK")
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 1
    assert str(path.parent) not in answer.text


def test_a_limit_on_statements_is_a_passing_fault(postgresql_server, postgresql_url, serve):
    name = postgresql_url.rpartition("/")[2]
    make(PostgreSQLStore(ServerAddress(postgresql_url), "process"))
    with postgresql_server.administrator() as connection:
        connection.execute(f"ALTER DATABASE {name} SET statement_timeout = '200ms'")
    service = serve(PostgreSQLStore(ServerAddress(postgresql_url), "process"))
    service.run.ask()
    with psycopg.connect(postgresql_url) as other:
        other.execute("SELECT * FROM fairtrial.study FOR UPDATE")
        answer = service.run.post(f"{URL}/asks", {})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json()["type"] == "urn:fairtrial:problem:storage-busy"
    assert len(service.run.ask()) == 1


def test_a_write_that_fails_is_told_without_the_place_and_the_next_one_works(serve, path):
    store = UnluckyStore(path, "process")
    make(store)
    service = serve(store)
    service.run.ask()
    store.fail_at = "before commit"
    # The event was already written: the whole transaction is undone, and carried out again.
    assert service.run.post(f"{URL}/asks", {}).status_code == 200
    assert service.read.get(URL).json()["head_seq"] == 2
    store._path.rename(path.with_name("gone"))
    answer = service.run.post(f"{URL}/asks", {})
    assert answer.status_code == 500
    assert answer.json()["type"] == "urn:fairtrial:problem:storage-error"
    assert str(path.parent) not in answer.text
    path.with_name("gone").rename(path)
    assert service.run.post(f"{URL}/asks", {}).status_code == 200


def test_a_full_disk_is_told_without_the_place_and_the_same_request_counts_once(serve, path):
    store = SQLiteStore(path, "process")
    make(store)
    service = serve(store)
    connection = store._connection
    [pages] = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    asked = 0
    while (answer := service.run.post(f"{URL}/asks", {}, key=f"ask-{asked}")).status_code == 200:
        asked += 1
    assert answer.status_code == 507
    assert answer.json()["type"] == "urn:fairtrial:problem:storage-full"
    assert answer.json()["title"] == "Insufficient storage"
    assert str(path.parent) not in answer.text
    assert service.read.get(URL).json()["head_seq"] == asked
    connection.execute("PRAGMA max_page_count = 1000000")
    for _ in range(2):
        assert service.run.post(f"{URL}/asks", {}, key=f"ask-{asked}").status_code == 200
    assert service.read.get(URL).json()["head_seq"] == asked + 1


def test_a_service_is_ready_as_long_as_it_can_write(serve, path):
    store = SQLiteStore(path, "process")
    service = serve(store)
    for probe in ("live", "ready"):
        answer = service.client.get(f"/health/{probe}")
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    service.app.state.service.writer.close()
    assert service.client.get("/health/live").status_code == 200
    answer = service.client.get("/health/ready")
    assert answer.status_code == 503
    assert "retry-after" in answer.headers


def test_a_server_that_drops_its_connections_is_met_by_new_ones(postgresql_url, serve):
    store = PostgreSQLStore(ServerAddress(postgresql_url), "process")
    make(store)
    service = serve(store)
    for number in range(3):
        [pull] = service.run.ask()
        assert pull["number"] == number
        end_sessions_of(postgresql_url)
        assert service.read.get(f"{URL}/events").status_code == 200
    assert service.read.get(f"{URL}/verify").json()["ok"]


def test_a_request_that_takes_too_long_is_given_up_and_may_be_given_again(serve, path):
    store = SQLiteStore(path, "process")
    make(store)
    service = serve(store, timeout=1.0, longest_wait=0.1)
    may_end = threading.Event()
    writer = service.app.state.service.writer
    holder = threading.Thread(
        target=lambda: asyncio.run(writer.run_on_store(lambda _: may_end.wait()))
    )
    holder.start()
    answer = service.run.post(f"{URL}/asks", {}, key="k")
    assert answer.status_code == 503
    assert answer.json()["type"] == "urn:fairtrial:problem:storage-unreachable"
    assert "not known whether" in answer.json()["detail"]
    may_end.set()
    holder.join()
    again = service.run.post(f"{URL}/asks", {}, key="k")
    assert [pull["number"] for pull in again.json()["pulls"]] == [0]
    assert service.read.get(URL).json()["head_seq"] == 1


def test_a_long_log_is_replayed_by_a_reader_before_the_writer_opens_it(serve, path):
    store = SQLiteStore(path, "process")
    make(store)
    with Study.open(store, "trial", **OWN) as study:
        study.ask(2_500)
        store.transact(lambda: store._change(("DELETE FROM snapshot", [()])))
    service = serve(store)
    snapshots = []
    writer = service.app.state.service.writer
    opened = writer._opened

    def noted(name):
        snapshots.extend(snapshot.seq for snapshot in store.snapshots(1))
        return opened(name)

    writer._opened = noted
    assert [pull["number"] for pull in service.run.ask()] == [2_500]
    assert snapshots == [2_500]


def test_a_service_whose_database_is_gone_is_alive_and_not_ready(postgresql_url, serve):
    store = PostgreSQLStore(ServerAddress(postgresql_url), "process", busy_timeout=0.1)
    make(store)
    service = serve(store)
    service.run.ask()
    store._parameters = {**store._parameters, "port": "1"}
    end_sessions_of(postgresql_url)
    assert service.client.get("/health/live").status_code == 200
    assert service.client.get("/health/ready").status_code == 503
    for answer in (service.run.post(f"{URL}/asks", {}), service.read.get(f"{URL}/events")):
        assert answer.status_code == 503
        assert answer.json()["type"] == "urn:fairtrial:problem:storage-unreachable"
        assert int(answer.headers["retry-after"]) >= 1
        assert "127.0.0.1" not in answer.text


@pytest.mark.timeout(60)
def test_a_database_that_accepts_and_never_answers_is_waited_for_no_longer_than_set(
    postgresql_url, serve
):
    with frozen_on_demand(postgresql_url) as (url, freeze):
        make(PostgreSQLStore(ServerAddress(postgresql_url), "process"))
        app_store = PostgreSQLStore(ServerAddress(url), "process", busy_timeout=0.5)
        service = serve(app_store)
        service.run.ask()
        freeze()
        # The first waits on its own connection, others for a new one.
        for key in ("first", "second"):
            answer = service.run.post(f"{URL}/asks", {}, key=key)
            assert answer.status_code == 503
            assert answer.json()["type"] == "urn:fairtrial:problem:storage-unreachable"
            assert int(answer.headers["retry-after"]) >= 1
        freeze(over=True)
        assert service.run.post(f"{URL}/asks", {}, key="first").status_code == 200
        assert service.run.post(f"{URL}/asks", {}, key="first").status_code == 200
        assert service.read.get(URL).json()["head_seq"] == 2
        app_store.close()


def test_a_service_opens_its_database_with_the_limit_of_its_settings(postgresql_url):
    app = create_app(postgresql_url, settings=Settings(server_timeout=1.5), **OWN)
    stores = app.state.service.stores
    assert len(stores) > 1
    assert {store._busy_timeout for store in stores} == {1.5}
    app.state.service.close()


def test_a_read_that_takes_too_long_is_not_blamed_on_a_body_that_it_has_not(serve, path):
    store = SQLiteStore(path, "process")
    make(store)
    service = serve(store, timeout=0.3, longest_wait=0.1)
    assert service.read.get(URL).status_code == 200
    may_end = threading.Event()
    threads = service.app.state.service.readers._threads
    for _ in range(4):
        threads.submit(may_end.wait)
    answer = service.read.get(URL)
    may_end.set()
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")


# ------------------------------------------------------ what others do to the storage


def test_a_study_that_another_process_locks_keeps_no_other_study_waiting(postgresql_url, serve):
    make(PostgreSQLStore(ServerAddress(postgresql_url), "process"))
    app_store = PostgreSQLStore(ServerAddress(postgresql_url), "process")
    service = serve(app_store, server_timeout=20.0)
    for name in ("other", "third"):
        assert service.admin.create(name).status_code == 201
        service.run.ask(study=name)
    service.run.ask()
    answers = []
    with psycopg.connect(postgresql_url) as other:
        other.execute("SELECT id FROM fairtrial.study WHERE name = 'trial' FOR UPDATE")
        waiting = [
            threading.Thread(
                target=lambda: answers.append(service.run.post(f"{URL}/asks", {}).status_code)
            )
            for _ in range(3)
        ]
        for thread in waiting:
            thread.start()
        began = time.monotonic()
        for name in ("other", "third") * 10:
            assert len(service.run.ask(study=name)) == 1
        # Far less than the patience with the locked study; many times the need.
        assert time.monotonic() - began < 10
        assert not answers
        other.rollback()
        for thread in waiting:
            thread.join()
    assert answers == [200] * 3


def test_a_study_that_stays_locked_is_given_up_in_time(postgresql_url, serve):
    make(PostgreSQLStore(ServerAddress(postgresql_url), "process"))
    service = serve(PostgreSQLStore(ServerAddress(postgresql_url), "process"), server_timeout=0.5)
    service.run.ask()
    with psycopg.connect(postgresql_url) as other:
        other.execute("SELECT id FROM fairtrial.study WHERE name = 'trial' FOR UPDATE")
        answer = service.run.post(f"{URL}/asks", {})
        assert answer.status_code == 503
        assert answer.json()["type"] == "urn:fairtrial:problem:storage-busy"
        other.rollback()
    assert len(service.run.ask()) == 1


def test_a_service_whose_storage_was_upgraded_writes_nothing_more(serve, path):
    store = SQLiteStore(path, "process")
    make(store)
    service = serve(store)
    service.run.ask()
    with closing(connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    answer = service.run.post(f"{URL}/asks", {})
    assert answer.status_code == 500
    assert service.client.get("/health/ready").status_code == 503
    assert service.read.get(URL).json()["head_seq"] == 1


def test_a_service_whose_server_was_upgraded_writes_nothing_more(postgresql_url, serve):
    make(PostgreSQLStore(ServerAddress(postgresql_url), "process"))
    service = serve(PostgreSQLStore(ServerAddress(postgresql_url), "process"))
    service.run.ask()
    with psycopg.connect(postgresql_url, autocommit=True) as other:
        other.execute("UPDATE fairtrial.meta SET value = '99' WHERE key = 'schema'")
    assert service.run.post(f"{URL}/asks", {}).status_code == 500
    assert service.client.get("/health/ready").status_code == 503
    assert service.read.get(URL).json()["head_seq"] == 1
