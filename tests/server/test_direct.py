"""Requests that bypass FastAPI get the answers that FastAPI would give."""

import re

import pytest

from fairtrial.server.routes.writing import _Direct
from fairtrial.server.security import access
from fairtrial.study import Study
from fairtrial.study.memory import MemoryStore
from tests.server.test_pulls import URL
from tests.study.toys import Averaging, ToyProblem

UNLIKE = re.compile(r'"(id|pull|hash|at|lease_until)":"[^"]*"')
"""Values that differ between services."""

REQUESTS = [
    ("ask", "asks", {"n": 2}, {}),
    ("ask without anything", "asks", {}, {}),
    ("ask with a lease", "asks", {"n": 1, "lease": 60.5}, {}),
    ("ask with a key", "asks", {"n": 1}, {"Idempotency-Key": "k"}),
    ("ask with a bad key", "asks", {"n": 1}, {"Idempotency-Key": "k k"}),
    ("ask with a long key", "asks", {"n": 1}, {"Idempotency-Key": "k" * 201}),
    ("ask with the other's field", "asks", {"n": 1, "value": 1}, {}),
    ("ask for too many", "asks", {"n": 1_001}, {}),
    ("ask for what is no number", "asks", {"n": "two", "lease": -1}, {}),
    ("tell and ask", "asks", {"tell": {"pull": "PULL", "value": 0.5}}, {}),
    ("tell", "pulls/PULL/tell", {"value": 0.25}, {}),
    ("tell with a key", "pulls/PULL/tell", {"value": 0.25}, {"Idempotency-Key": "t"}),
    ("tell what is refused", "pulls/PULL/tell", {"value": 7}, {}),
    ("tell of nobody", f"pulls/{'x' * 65}/tell", {"value": 0}, {}),
    ("tell of an unknown pull", "pulls/unknown/tell", {"value": 0}, {}),
    ("tell many", "tells", {"outcomes": [{"pull": "PULL", "value": 0.5}]}, {}),
    ("tell many of nothing", "tells", {"outcomes": []}, {}),
    ("fail", "pulls/PULL/fail", {"reason": "broken"}, {}),
    ("fail without a reason", "pulls/PULL/fail", {"reason": " "}, {}),
    ("extend", "pulls/PULL/heartbeat", {"lease": 10}, {}),
    ("another kind of body", "asks", {"n": 1}, {"Content-Type": "text/plain"}),
    ("a charset", "asks", {"n": 1}, {"Content-Type": "application/json; charset=latin-1"}),
]


@pytest.fixture
def services(serve, monkeypatch):
    """Return two services with the same study; the second has no direct routes."""
    # A fast machine would otherwise reach the limit of requests without a valid token.
    monkeypatch.setattr(access, "_UNKNOWN_PER_SECOND", 1e6)
    made = []
    for store in (MemoryStore(), MemoryStore()):
        problem = ToyProblem()
        Study.create(problem, Averaging(problem), storage=store, name="trial", seed=7)
        made.append(serve(store))
    routes = made[1].app.router.routes
    routes[:] = [route for route in routes if not isinstance(route, _Direct)]
    assert len(made[0].app.router.routes) > len(routes)
    return made


def answer_of(caller, path, body, headers, pull):
    text = str(body).replace("PULL", pull).replace("'", '"')
    answer = caller.client.post(
        f"{URL}/{path.replace('PULL', pull)}",
        content=text,
        headers={"Content-Type": "application/json", **caller.headers, **headers},
    )
    said = UNLIKE.sub("", answer.text).replace(pull, "PULL")
    kept = {name: value for name, value in answer.headers.items() if name != "x-request-id"}
    return answer.status_code, said, kept


@pytest.mark.parametrize("who", ["run", "read", "nobody"])
def test_both_ways_give_the_same_answers(services, who):
    pulls = [service.run.ask()[0]["id"] for service in services]
    for name, path, body, headers in REQUESTS:
        direct, usual = (
            answer_of(getattr(service, who), path, body, headers, pull)
            for service, pull in zip(services, pulls, strict=True)
        )
        assert direct[:2] == usual[:2], name
        # The lengths of ids and times are also the same.
        assert direct[2] == usual[2], name


def test_metrics_know_both_ways_by_the_same_name(services):
    for service in services:
        service.run.ask()
        text = service.admin.get("/metrics").text
        assert 'route="/v1/studies/{study}/asks",status="200"' in text


def test_most_requests_go_directly(services, monkeypatch):
    monkeypatch.setattr(_Direct, "handle", None)
    assert services[0].run.post(f"{URL}/asks", {}).status_code == 500
    assert services[1].run.post(f"{URL}/asks", {}).status_code == 200
    assert services[0].run.get(f"{URL}/pulls").status_code == 200
