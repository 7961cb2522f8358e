import io
import json
import logging

import pytest
from fastapi import FastAPI, Request
from starlette.testclient import TestClient

from fairtrial.errors import StorageUnreachable
from fairtrial.server.telemetry import Telemetry, configure_logs, request_id_of


@pytest.fixture
def log():
    """The log lines, as a growing list of documents."""
    names = ("fairtrial.server", "uvicorn", "uvicorn.error", "uvicorn.access")
    before = {
        name: (list(logging.getLogger(name).handlers), logging.getLogger(name).propagate)
        for name in names
    }
    stream = io.StringIO()
    configure_logs(stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    for name, (handlers, propagate) in before.items():
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate, logger.disabled = handlers, propagate, False


class Copying:
    """Middleware that passes on a copy of the scope, which is allowed."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        await self.app({**scope}, receive, send)


@pytest.fixture
def telemetry():
    return Telemetry(studies=lambda: {"running": 2, "decided": 1}, queue=lambda: 7)


@pytest.fixture
def client(telemetry):
    app = FastAPI()

    @app.get("/studies/{study}")
    def show(study: str, request: Request):
        return {"id": request_id_of(request.scope)}

    @app.post("/fail")
    def fail():
        raise ValueError("outcome 0.31 of patient 17")

    app.add_middleware(Copying)
    telemetry.watch(app)
    return TestClient(app, raise_server_exceptions=False)


def lines_of(telemetry, name):
    text = telemetry.metrics()[0].decode()
    return [line for line in text.splitlines() if line.startswith(name)]


def test_requests_are_counted_by_the_route_and_not_by_what_the_client_wrote(client, telemetry):
    for study in ("a", "b", "c"):
        client.get(f"/studies/{study}?token=secret")
    for number in range(50):
        client.get(f"/nonsense/{number}")
        client.request(f"VERB{number}", "/studies/a")
    counts = lines_of(telemetry, "fairtrial_requests_total")
    assert sorted(counts) == [
        'fairtrial_requests_total{method="GET",route="/studies/{study}",status="200"} 3.0',
        'fairtrial_requests_total{method="GET",route="none",status="404"} 50.0',
        'fairtrial_requests_total{method="other",route="/studies/{study}",status="405"} 50.0',
    ]
    assert len(lines_of(telemetry, "fairtrial_request_seconds_count")) == 3
    assert lines_of(telemetry, "fairtrial_requests_in_flight") == [
        "fairtrial_requests_in_flight 0.0"
    ]


def test_a_failure_counts_and_its_log_says_where_and_not_what(client, telemetry, log):
    assert client.post("/fail").status_code == 500
    (count,) = lines_of(telemetry, "fairtrial_requests_total")
    assert 'route="/fail",status="500"' in count
    logging.getLogger("uvicorn.error").error(
        "Exception in ASGI application\n", exc_info=_error("patient 17")
    )
    request, failure = log()
    assert request["status"] == 500
    assert failure["error"] == "ValueError"
    assert "test_telemetry.py" in failure["trace"][-1]
    assert "patient" not in json.dumps(log())


def _error(message):
    try:
        float(message)
    except ValueError as error:
        return error


def test_a_request_has_one_id_everywhere(client, log):
    answer = client.get("/studies/a", headers={"X-Request-ID": "trace-1.2"})
    assert answer.headers["X-Request-ID"] == answer.json()["id"] == "trace-1.2"
    assert log()[0]["request"] == "trace-1.2"


@pytest.mark.parametrize("given", ["", "a b", 'x"y', "x" * 65, "ü", "a{b}"])
def test_an_id_that_could_harm_a_log_is_replaced(client, given, log):
    answer = client.get("/studies/a", headers={"X-Request-ID": given.encode("latin-1")})
    assert answer.headers["X-Request-ID"] != given
    assert answer.headers["X-Request-ID"] == log()[0]["request"]


def test_two_requests_have_different_ids(client):
    first, second = (client.get("/studies/a").headers["X-Request-ID"] for _ in range(2))
    assert first != second


def test_the_log_holds_neither_names_of_studies_nor_queries(client, log):
    client.get("/studies/heart-study?token=ft_secret", headers={"User-Agent": "Ana's browser"})
    (line,) = log()
    assert line["route"] == "/studies/{study}"
    assert not {"heart", "ft_secret", "Ana"} & set(json.dumps(line).replace("'", " ").split())
    assert "heart" not in json.dumps(line)
    assert set(line) == {
        *("at", "level", "event", "request", "method", "route", "status", "seconds")
    }


def test_a_refusal_is_logged_with_the_name_of_the_token_and_the_reason(telemetry, log):
    telemetry.refused("ward 3", "scope", "r1")
    telemetry.refused(None, "no token")
    telemetry.refused("ward 3", "made up by somebody")
    first, second, third = log()
    assert (first["token"], first["reason"], first["request"]) == ("ward 3", "scope", "r1")
    assert "token" not in second
    assert third["reason"] == "other"
    assert len(lines_of(telemetry, "fairtrial_refusals_total")) == 3


def test_commits_queue_studies_and_webhooks_are_counted(telemetry):
    telemetry.committed(operations=30, seconds=0.006)
    telemetry.committed(operations=1, seconds=0.002)
    telemetry.notified(delivered=True)
    telemetry.notified(delivered=False)
    assert lines_of(telemetry, "fairtrial_commit_seconds_count") == [
        "fairtrial_commit_seconds_count 2.0"
    ]
    assert lines_of(telemetry, "fairtrial_commit_operations_sum") == [
        "fairtrial_commit_operations_sum 31.0"
    ]
    assert lines_of(telemetry, "fairtrial_queue") == ["fairtrial_queue 7.0"]
    assert lines_of(telemetry, "fairtrial_studies") == [
        'fairtrial_studies{status="running"} 2.0',
        'fairtrial_studies{status="decided"} 1.0',
        'fairtrial_studies{status="undecided"} 0.0',
    ]
    assert len(lines_of(telemetry, "fairtrial_webhooks_total")) == 2


def test_metrics_are_told_while_the_storage_is_not_reached():
    def count():
        raise StorageUnreachable("gone")

    telemetry = Telemetry(studies=count)
    assert lines_of(telemetry, "fairtrial_studies") == []
    assert lines_of(telemetry, "fairtrial_queue") == ["fairtrial_queue 0.0"]


def test_two_services_in_a_process_do_not_share_their_counts():
    first, second = Telemetry(), Telemetry()
    first.notified(delivered=True)
    assert lines_of(second, "fairtrial_webhooks_total") == []


def test_the_metrics_are_in_the_format_of_prometheus(telemetry):
    from prometheus_client.parser import text_string_to_metric_families

    text, kind = telemetry.metrics()
    assert kind.startswith("text/plain; version=")
    names = {family.name for family in text_string_to_metric_families(text.decode())}
    assert {"fairtrial_requests", "fairtrial_commit_seconds", "fairtrial_studies"} <= names
