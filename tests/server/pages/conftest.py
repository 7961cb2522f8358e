"""A service and a browser, one of each per test process; or a service for one test."""

import pytest

from fairtrial.study import Study
from fairtrial.study.memory import MemoryStore
from tests.server.pages import browser as browsers
from tests.server.pages import sites
from tests.server.pages.people import visited


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """Yield a service that no test changes in a way that another test would notice."""
    with sites.running(tmp_path_factory.mktemp("site")) as running:
        yield running


@pytest.fixture(scope="module")
def browser():
    """Yield a browser; while it runs, no test of the process can start an event loop."""
    with browsers.started() as started:
        yield started


@pytest.fixture
def own_site(tmp_path):
    """Yield a service with one study, `wards`, for a single test."""
    storage = f"sqlite:///{tmp_path}/own.db"
    policy, environment = sites.wards()
    with Study.create(
        policy.problem, policy, storage=storage, name="wards", seed=5, durability="process"
    ) as study:
        sites.carry_on(study, environment, 30)
    made = sites.Site(storage)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def storage():
    """Return a storage with the study `wards`, which has twenty results."""
    store = MemoryStore()
    policy, environment = sites.wards()
    study = Study.create(policy.problem, policy, storage=store, name="wards", seed=5)
    sites.carry_on(study, environment, 20)
    return store


@pytest.fixture
def people(storage):
    """Return by name the users of a service, without a browser."""
    with visited(storage) as found:
        yield found
