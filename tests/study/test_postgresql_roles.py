"""The rights that the how-to grants are enough for what it says, and for no more."""

import re
from pathlib import Path

import psycopg
import pytest

from fairtrial.allocation import FairLearn, LocalAllocator, Problem
from fairtrial.server import Settings, create_app
from fairtrial.study import SharedStatistics, Study, Tokens, list_studies
from tests.messages import raises
from tests.server.conftest import Caller, TestClient
from tests.study.toys import OWN, Racing, ToyProblem

PAGE = Path(__file__).parents[2] / "docs/how-to/use-postgresql.md"
GRANTS = [
    block
    for block in re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    if "CREATE ROLE" in block
]
SHARES = Problem(["a", "b"], "1/4")


@pytest.fixture
def role(postgresql_server, postgresql_url):
    """Return a function that logs in with the rights of one of the how-to's roles."""
    name = postgresql_url.rpartition("/")[2]

    def address(which):
        [grants] = [block for block in GRANTS if f"CREATE ROLE {which};" in block]
        with postgresql_server.administrator(name) as connection:
            for statement in filter(None, map(str.strip, grants.split(";"))):
                connection.execute(statement)
            connection.execute(f"ALTER ROLE {which} LOGIN PASSWORD 'n'")
        return postgresql_server.url(name, which, "n")

    problem = ToyProblem()
    Study.create(problem, Racing(problem, slots=5), storage=postgresql_url, name="toy", seed=7)
    Study.create(SHARES, FairLearn(SHARES), storage=postgresql_url, name="shop", seed=7)
    return address


pytestmark = pytest.mark.filterwarnings("ignore:.*fsync = off")


def test_those_who_run_studies_can_do_all_that_a_study_does(role, postgresql_url):
    url = role("clinics")
    problem = ToyProblem()
    Study.create(problem, Racing(problem), storage=url, name="another", seed=1).close()
    with Study.open(url, "toy", **OWN) as study:
        first, second, third, *_ = study.ask(5, worker="w", request_id="r")
        study.report(first, 0.5, stage=1)
        study.tell(first, 1.0)
        study.amend(first, 0.5, "typing error")
        study.cancel(second)
        study.fail(third, "lost")
        study.extend(study.ask(), 60.0) if study.policy.asked < 5 else None
        study.snapshot()
        study.stop("enough")
        assert study.verify().ok
        assert study.health() is not None
    with (
        Study.open(url, "shop") as study,
        LocalAllocator(study.policy, SharedStatistics(study), interval=None) as local,
    ):
        local.tell(local.ask(), 1.0)
        local.exchange()
        assert (local.overall().processes, local.last_error) == (1, None)
    assert [found.name for found in list_studies(url)] == ["toy", "shop", "another"]


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TRIGGER event_is_never_removed ON fairtrial.event",
        "TRUNCATE fairtrial.event",
        "DELETE FROM fairtrial.study",
        "DELETE FROM fairtrial.pull",
        "SELECT * FROM fairtrial.token",
    ],
)
def test_those_who_run_studies_can_do_no_more(role, statement):
    url = role("clinics")
    with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(statement)


def test_the_service_has_all_the_rights_that_it_needs(role, postgresql_url):
    url = role("service")
    with Tokens(url) as tokens:
        _, secret = tokens.create("boss", ["admin"])
    app = create_app(url, settings=Settings(), **OWN)
    with TestClient(app, base_url="http://localhost") as client:
        boss = Caller(client, secret)
        [pull] = boss.post("/v1/studies/toy/asks", {"n": 1}, key="k").json()["pulls"]
        told = boss.post(f"/v1/studies/toy/pulls/{pull['id']}/tell", {"value": 0.5}, key="l")
        assert told.status_code == 200
        assert boss.get("/v1/studies/toy/verify").json()["ok"]
        login = client.post("/login", data={"token": secret}, follow_redirects=False)
        assert login.status_code == 303
        assert client.get("/studies/toy/log").status_code == 200
        assert client.post("/logout", follow_redirects=False).status_code in (303, 403)
        store = app.state.service.stores[0]
        store.transact(lambda: store.save_notice(1, "stopped", 1))
        store.transact(lambda: store.drop_answers(2**62, 2**62))
    with Tokens(url) as tokens:
        tokens.revoke("boss")
    with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("DELETE FROM fairtrial.event")


def test_those_who_read_can_read_everything_and_write_nothing(role):
    url = role("readers")
    assert [found.name for found in list_studies(url)] == ["toy", "shop"]
    with Study.open(url, "toy", **OWN) as study:
        assert study.recommend() is not None
        assert study.progress() is not None
        assert study.verify().ok
        assert list(study.events()) == []
        with raises(OSError):
            study.ask()
