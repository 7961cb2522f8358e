"""A service in this process, with tokens of several people."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import pytest

with warnings.catch_warnings():
    # It recommends a successor of httpx that is not one of our dependencies.
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

from fairtrial.server import Settings, create_app
from fairtrial.study import Study, Tokens
from fairtrial.study.memory import MemoryStore
from fairtrial.subpopulations import BlockBetting, Problem
from tests.study.tools import Clock
from tests.study.toys import OWN

PROBLEM = Problem(["a", "b"], ["x"], reward_range=(0, 1))
POLICY = BlockBetting(PROBLEM, delta=0.05)


class Caller:
    """A person who calls the service with one token."""

    def __init__(self, client, secret):
        self.client = client
        self.secret = secret
        self.headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}

    def get(self, path, **options):
        return self.client.get(path, headers=self.headers | options.pop("headers", {}), **options)

    def post(self, path, body=None, key=None, **options):
        headers = self.headers | options.pop("headers", {})
        if key is not None:
            headers["Idempotency-Key"] = key
        if body is not None:
            options["json"] = body
        return self.client.post(path, headers=headers, **options)

    def ask(self, n=1, study="trial", **more):
        return self.post(f"/v1/studies/{study}/asks", {"n": n, **more}).json()["pulls"]

    def create(self, name="trial", seed=7):
        body = {
            "name": name,
            "problem": PROBLEM.to_dict(),
            "policy": POLICY.to_dict(),
            "seed": seed,
        }
        return self.post("/v1/studies", body)


class Service(SimpleNamespace):
    """An application, its data, and the people who may call it."""

    def caller(self, name, scopes, studies=None, **options):
        with Tokens(self.store) as tokens:
            _, secret = tokens.create(name, scopes, studies=studies, **options)
        return Caller(self.client, secret)

    def study(self, name="trial"):
        return Study.open(self.store, name, **OWN)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def serve(request):
    """Return a function that starts a service of a store."""
    with_clients = []

    def start(store=None, **settings):
        made = MemoryStore() if store is None else store
        app = create_app(
            made,
            settings=Settings(**settings),
            policies=OWN["policies"],
            problems=OWN["problems"],
        )
        client = TestClient(app, base_url="http://localhost", raise_server_exceptions=False)
        client.__enter__()
        with_clients.append(client)
        service = Service(app=app, store=made, client=client)
        service.admin = service.caller("boss", ["admin"])
        service.run = service.caller("ward 3", ["run"])
        service.read = service.caller("reader", ["read"])
        service.nobody = Caller(client, None)
        return service

    yield start
    for client in with_clients:
        client.__exit__(None, None, None)


@pytest.fixture
def service(serve):
    """A service with one study, called trial."""
    made = serve()
    assert made.admin.create().status_code == 201
    return made
