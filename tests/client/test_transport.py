import itertools
import random
import socket
import time
from types import SimpleNamespace

import pytest

import fairtrial as ft
from fairtrial import errors
from fairtrial.client.address import ServiceAddress
from fairtrial.client.transport import Transport
from tests.client.scripted import CERTIFICATES, Answer, problem, scripted
from tests.messages import raises

TOKEN = "ft_" + 43 * "x"


@pytest.fixture
def pauses(monkeypatch):
    """Let pauses take no time; return their lengths."""
    taken = []
    began = time.monotonic()
    standing = SimpleNamespace(
        **{
            **vars(time),
            "monotonic": lambda: began + sum(taken),
            "sleep": taken.append,
        }
    )
    monkeypatch.setattr("fairtrial.client.transport.time", standing)
    return taken


def transport(url, patience=60.0, timeout=5.0):
    return Transport(ServiceAddress(url, is_encrypted=False), TOKEN, timeout, patience, True)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_a_document_comes_with_the_token_in_a_header_only(pauses):
    with scripted(Answer(body={"a": 1})) as script:
        assert transport(script.url).get("/v1/x", after=None, limit=3) == {"a": 1}
    (request,) = script.requests
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert request.path == "/v1/x?limit=3"
    assert pauses == []


@pytest.mark.parametrize(
    "trouble",
    [
        Answer(status=None),
        problem(503, "service-busy", "full"),
        problem(429, "service-busy", "too many"),
        Answer(502, "<html>bad gateway</html>", kind="text/html"),
        Answer(504, "", kind="text/html"),
        Answer(200, "{", length=100),
    ],
    ids=["dropped", "503", "429", "502", "504", "broken off"],
)
def test_a_write_is_sent_again_with_the_same_key(pauses, trouble):
    with scripted(trouble, trouble, Answer(body={"seq": 4})) as script:
        assert transport(script.url).post("/v1/x", {"value": 0.1}) == {"seq": 4}
    first, second, third = script.requests
    assert first.body == second.body == third.body == {"value": 0.1}
    keys = {request.headers["idempotency-key"] for request in script.requests}
    assert len(keys) == 1
    assert len(pauses) == 2


def test_every_write_has_a_key_of_its_own_or_the_callers(pauses):
    with scripted(Answer()) as script:
        way = transport(script.url)
        way.post("/v1/x", {})
        way.post("/v1/x", {})
        way.post("/v1/x", {}, "mine")
    first, second, third = (r.headers["idempotency-key"] for r in script.requests)
    assert first != second
    assert third == "mine"


def test_pauses_grow_are_random_and_end_with_the_patience(pauses, monkeypatch):
    monkeypatch.setattr("fairtrial.client.transport.random", random.Random(5))
    with (
        scripted(problem(503, "service-busy", "queue full")) as script,
        raises(errors.ServiceBusy),
    ):
        transport(script.url, patience=60).post("/v1/x", {})
    assert 50 < sum(pauses) <= 60
    assert max(pauses) <= 10
    assert len(set(pauses)) == len(pauses)
    assert all(second > first for first, second in itertools.pairwise(pauses[:5:2]))


def test_the_service_says_how_long_it_wants_to_be_left_alone(pauses):
    busy = problem(429, "service-busy", "slow down", headers={"Retry-After": "7"})
    with scripted(busy, Answer()) as script:
        transport(script.url).get("/v1/x")
    assert pauses == [7.0]


def test_a_wait_beyond_the_patience_is_not_begun(pauses):
    busy = problem(503, "storage-busy", "locked", headers={"Retry-After": "3600"})
    with scripted(busy) as script, raises(errors.StorageBusy):
        transport(script.url).get("/v1/x")
    assert pauses == []
    assert len(script.requests) == 1


@pytest.mark.parametrize("given", ["soon", "-1", "1e99", "Wed, 21 Oct 2015 07:28:00 GMT", "९"])
def test_a_strange_retry_after_is_no_reason_to_fail(pauses, given):
    busy = problem(503, "storage-busy", "locked", headers={"Retry-After": given})
    busy.headers = {"Retry-After": given.encode().decode("latin-1")}
    with scripted(busy, Answer(body=[])) as script:
        assert transport(script.url).get("/v1/x") == []


def test_a_write_that_never_arrived_is_known_to_have_changed_nothing(pauses):
    with raises(errors.StorageUnreachable) as caught:
        transport(f"http://127.0.0.1:{free_port()}").post("/v1/x", {})
    assert "127.0.0.1" in str(caught.value)


def test_a_write_without_an_answer_is_not_known_to_have_changed_nothing(pauses):
    with (
        scripted(Answer(status=None)) as script,
        raises(errors.StorageUnreachable),
    ):
        transport(script.url).post("/v1/x", {})


BUSY = problem(503, "storage-busy", "nothing of this request was kept")


@pytest.mark.parametrize(
    "first",
    [
        Answer(status=None),
        problem(503, "storage-unreachable", "it is not known whether this request was kept"),
        Answer(504, "<html>gateway time-out</html>", kind="text/html"),
        Answer(503, "{", length=100),
    ],
    ids=["no answer", "not known", "by a proxy", "broken off"],
)
def test_a_service_that_is_busy_in_the_end_does_not_clear_up_a_doubt(pauses, first):
    with (
        scripted(first, BUSY) as script,
        raises(errors.StorageUnreachable) as caught,
    ):
        transport(script.url).post("/v1/x", {})
    assert "nothing of" not in str(caught.value)
    assert len(script.requests) > 2


def test_of_a_write_that_the_service_was_always_too_busy_for_nothing_was_kept(pauses):
    lost = problem(503, "connection-lost", "nothing of this request was kept")
    with (
        scripted(lost, problem(429, "service-busy", "slow down"), BUSY) as script,
        raises(errors.StorageBusy),
    ):
        transport(script.url).post("/v1/x", {})


def test_a_doubt_is_no_matter_where_nothing_is_written(pauses):
    with scripted(Answer(status=None), BUSY) as script, raises(errors.StorageBusy):
        transport(script.url).get("/v1/x")


def test_other_refusals_are_not_sent_again(pauses):
    with (
        scripted(problem(409, "conflicting-outcome", "told 1.0 before")) as script,
        raises(errors.ConflictingOutcome),
    ):
        transport(script.url).post("/v1/x", {})
    assert len(script.requests) == 1


def test_a_redirection_is_not_followed_because_the_token_would_be(pauses):
    elsewhere = Answer(307, "", {"Location": "http://192.0.2.1/"}, "text/html")
    with scripted(elsewhere) as script, raises(errors.StorageError):
        transport(script.url).post("/v1/x", {})
    assert len(script.requests) == 1


def test_a_proxy_of_the_environment_gets_no_unencrypted_token(pauses, monkeypatch):
    with scripted(Answer(body={"by": "proxy"})) as proxy, scripted(Answer()) as script:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("http_proxy", proxy.url)
        assert transport(script.url).get("/v1/x") == {}
    assert not proxy.requests


@pytest.fixture
def encrypted():
    """A service over https, with a certificate that no public authority has signed."""
    with scripted(Answer(body={"studies": [], "next": None}), certificate=True) as script:
        yield script


def test_a_certificate_that_does_not_verify_ends_the_call_at_once(encrypted, pauses):
    with (
        ft.connect(encrypted.url, TOKEN) as connection,
        raises(errors.StorageUnreachable),
    ):
        connection.studies()
    assert pauses == []
    assert not encrypted.requests


def test_a_certificate_of_an_authority_of_ones_own_is_accepted_if_named(encrypted):
    with ft.connect(encrypted.url, TOKEN, ca_file=CERTIFICATES / "server.pem") as connection:
        assert connection.studies() == []


def test_a_certificate_for_another_name_is_not_accepted(encrypted, pauses):
    url = encrypted.url.replace("127.0.0.1", "localhost")
    with (
        ft.connect(url, TOKEN, ca_file=CERTIFICATES / "server.pem") as connection,
        raises(errors.StorageUnreachable),
    ):
        connection.studies()


@pytest.mark.parametrize("file", ["missing.pem", "server.key"])
def test_a_file_that_holds_no_certificate_is_refused(file):
    with raises(errors.InvalidArgument, "ca_file"):
        ft.connect("https://127.0.0.1", TOKEN, ca_file=CERTIFICATES / file)


def test_an_answer_that_is_not_from_a_service_is_said_to_be_so(pauses):
    with (
        scripted(Answer(200, "<html>Welcome</html>", kind="text/html")) as script,
        raises(errors.StorageError),
    ):
        transport(script.url).get("/v1/x")
    with (
        scripted(Answer(404, "nothing here", kind="text/plain")) as script,
        raises(errors.StorageError) as caught,
    ):
        transport(script.url).get("/v1/x")
    assert not isinstance(caught.value, errors.StudyNotFound)


def test_deeply_nested_json_is_refused(pauses):
    with scripted(Answer(200, "[" * 100_000)) as script, raises(errors.StorageError):
        transport(script.url).get("/v1/x")


def test_a_stream_that_breaks_off_is_said_to(pauses):
    stream = Answer(200, '{"seq": 1}\n', kind="application/x-ndjson", length=1000)
    with scripted(stream) as script:
        lines = transport(script.url).lines("/v1/x")
        assert next(lines) == {"seq": 1}
        with raises(errors.StorageUnreachable):
            next(lines)


def test_a_download_that_breaks_off_leaves_the_file_as_it_was(pauses, tmp_path):
    target = tmp_path / "log.csv"
    target.write_text("before")
    with (
        scripted(Answer(200, "seq,at\n", kind="text/csv", length=1000)) as script,
        raises(errors.StorageUnreachable),
    ):
        transport(script.url).download("/v1/x", target)
    assert target.read_text() == "before"
    assert list(tmp_path.iterdir()) == [target]


def test_a_download_is_readable_by_its_owner_only(pauses, tmp_path):
    target = tmp_path / "log.csv"
    with scripted(Answer(200, "seq,at\n", kind="text/csv")) as script:
        transport(script.url).download("/v1/x", target)
    assert target.read_text() == "seq,at\n"
    assert target.stat().st_mode & 0o077 == 0


def test_a_connection_that_was_closed_says_so(pauses):
    with scripted(Answer()) as script:
        way = transport(script.url)
        way.get("/v1/x")
        way.close()
        for call in (lambda: way.get("/v1/x"), lambda: way.post("/v1/x", {})):
            with raises(errors.StorageError):
                call()


def test_nothing_is_sent_before_the_connection_is_used():
    with scripted(Answer()) as script:
        ft.connect(script.url, TOKEN).close()
    assert not script.requests
