"""Killing a service or its database: what it acknowledged is there, once."""

import random
import resource
import time

import pytest

from tests import effort
from tests.server.histories import is_linearizable
from tests.server.load import (
    PATIENCE,
    Client,
    make_study,
    make_token,
    note,
    press,
    require_all_kept,
    require_same_again,
    service,
)

CLIENTS = 8


def after_answers(seen, number, over):
    """Wait until clients had that many more answers."""
    before = sum(len(each.operations) for each in seen)
    deadline = time.monotonic() + PATIENCE
    while sum(len(each.operations) for each in seen) < before + number:
        assert time.monotonic() < deadline, "no answers come"
        assert not over.is_set(), "a client has failed"
        time.sleep(0.005)


def require_history(storage, seen):
    operations = [operation for each in seen for operation in each.operations]
    require_all_kept(storage, "trial", seen)
    assert is_linearizable(operations)
    return operations


@pytest.mark.slow
@pytest.mark.timeout(effort.runs(900, whole=7_200))
def test_a_service_killed_under_load_loses_and_doubles_nothing(tmp_path, record_property):
    storage = f"sqlite:///{tmp_path}/studies.db"
    make_study(storage)
    token = make_token(storage)
    choice, kills = random.Random(5), effort.runs(2, whole=200)
    with service(storage) as running:

        def kill_and_start(over, seen):
            for _ in range(kills):
                after_answers(seen, choice.randint(1, 40), over)
                running.kill()
                running.start()
            after_answers(seen, 20, over)

        [seen] = press(running.port, token, CLIENTS, ["trial"], kill_and_start)
        record_property("kills", kills)
        note(record_property, seen)
        operations = require_history(storage, seen)
        again = [each for each in operations if each.kind != "look"]
        require_same_again(Client(running.port, token), "trial", choice.sample(again, 50))
    assert sum(each.repeated for each in seen) > 0
    require_all_kept(storage, "trial", seen)


@pytest.mark.slow
@pytest.mark.timeout(effort.runs(900, whole=7_200))
def test_a_database_killed_under_load_loses_and_doubles_nothing(
    postgresql_server, postgresql_url, record_property
):
    """A commit may be kept although its answer never came: the retry gets the first answer."""
    make_study(postgresql_url)
    token = make_token(postgresql_url)
    choice, crashes = random.Random(6), effort.runs(2, whole=40)
    with service(postgresql_url) as running:

        def crash_and_start(over, seen):
            for _ in range(crashes):
                after_answers(seen, choice.randint(5, 40), over)
                postgresql_server.restart("immediate")
            after_answers(seen, 20, over)

        [seen] = press(running.port, token, CLIENTS, ["trial"], crash_and_start)
        record_property("crashes", crashes)
        note(record_property, seen)
        operations = require_history(postgresql_url, seen)
        again = [each for each in operations if each.kind != "look"]
        require_same_again(Client(running.port, token), "trial", choice.sample(again, 50))
        assert running.process.poll() is None


@pytest.mark.slow
def test_a_disk_that_takes_no_more_refuses_writes_and_later_they_go_on(tmp_path):
    """The size of a file is limited from outside: for SQLite the disk fails, and is not full."""
    storage = f"sqlite:///{tmp_path}/studies.db"
    make_study(storage)
    token = make_token(storage)
    with service(storage) as running:
        client = Client(running.port, token)
        status, first = client.surely("POST", "/v1/studies/trial/asks", {"n": 1}, "a")
        assert status == 200
        used = max(path.stat().st_size for path in tmp_path.glob("studies.db*"))
        endless = resource.RLIM_INFINITY
        resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (used + 20_000, endless))
        answers = [
            client.once("POST", "/v1/studies/trial/asks", {"n": 100}, f"b{n}") for n in range(5)
        ]
        refused = [answer for status, answer in answers if status != 200]
        assert {answer["type"] for answer in refused} <= {"urn:fairtrial:problem:storage-error"}
        assert refused
        # Everything readable can still be read, and the service continues.
        assert client.once("GET", "/v1/studies/trial")[0] == 200
        assert client.once("GET", "/health/live")[0] == 200
        assert client.once("GET", "/health/ready")[0] == 503
        resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (endless, endless))
        pull = first["pulls"][0]["id"]
        told = client.surely("POST", f"/v1/studies/trial/pulls/{pull}/tell", {"value": 1.0}, "c")
        assert told[0] == 200
        assert client.once("GET", "/health/ready")[0] == 200
        status, answer = client.surely("POST", "/v1/studies/trial/asks", {"n": 100}, "b4")
        assert status == 200
        status, answer = client.surely("GET", "/v1/studies/trial/verify")
        assert answer["ok"] is True
