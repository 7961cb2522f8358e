"""Many clients at once: nothing is lost, doubled or out of order, whatever they do."""

import signal

import pytest

from tests import effort
from tests.server.histories import is_linearizable
from tests.server.load import make_study, make_token, note, press, require_all_kept, service

SECONDS = effort.runs(1, whole=60)


KINDS = ["sqlite", "postgresql"]


@pytest.fixture
def storage(request, tmp_path):
    """The address of an empty storage of the kind in a test's parameter."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgresql_url")
    return f"sqlite:///{tmp_path}/studies.db"


def require_history(storage, study, seen):
    """Fail if the clients of a study saw something impossible, or something not in the log."""
    require_all_kept(storage, study, seen)
    assert is_linearizable(each for one in seen for each in one.operations)
    assert {status for one in seen for status in one.statuses} <= {200, 409}
    assert all(one.operations for one in seen)


@pytest.mark.slow
@pytest.mark.parametrize("storage", effort.first(1, KINDS), indirect=True)
@pytest.mark.parametrize("number", effort.first(1, [1, 16]))
def test_32_clients_lose_and_double_nothing(storage, number, record_property):
    studies = [f"trial-{each}" for each in range(number)]
    for study in studies:
        make_study(storage, study)
    token = make_token(storage)
    with service(storage) as running:
        seen = press(running.port, token, 32, studies, lambda over, _: over.wait(SECONDS))
        # The server ends normally, and then as if by the signal.
        assert running.stop() in (0, -signal.SIGTERM)
    note(record_property, [one for those in seen for one in those])
    for study, those in zip(studies, seen, strict=True):
        require_history(storage, study, those)


@pytest.mark.slow
@pytest.mark.parametrize("storage", effort.first(1, KINDS[::-1]), indirect=True)
def test_two_services_of_one_storage_are_as_one(storage, record_property):
    studies = ["trial-0", "trial-1"]
    for study in studies:
        make_study(storage, study)
    token = make_token(storage)
    with service(storage) as first, service(storage) as second:
        ports = [first.port, second.port]
        seen = press(ports, token, 16, studies, lambda over, _: over.wait(SECONDS))
    note(record_property, [one for those in seen for one in those])
    for study, those in zip(studies, seen, strict=True):
        require_history(storage, study, those)
