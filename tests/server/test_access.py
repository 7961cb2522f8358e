"""Who may do what: tokens, scopes, tenants, sessions, hosts, origins, rates."""

import html
import re
import time
from datetime import UTC, datetime, timedelta

import pytest

from fairtrial.errors import InvalidArgument
from fairtrial.server.problems import Refusal
from fairtrial.server.security.rate import Rate
from fairtrial.server.settings import Settings
from fairtrial.study import Tokens
from tests.messages import raises
from tests.server.conftest import POLICY, PROBLEM, Caller
from tests.server.load import Client, in_thread, make_study
from tests.study.tools import Clock

URL = "/v1/studies/trial"
PULL = f"{URL}/pulls/{'0' * 32}"

READS = [
    f"{URL}/{what}"
    for what in (
        *("recommendation", "progress", "health", "trace", "weighted_means", "events"),
        *("export", "verify", "pulls?state=all"),
    )
]
RUNS = [
    (f"{URL}/asks", {}),
    (f"{URL}/tells", {"outcomes": [{"arm": "a", "group": "x", "value": 1}]}),
    (f"{PULL}/tell", {"value": 0.5}),
    (f"{PULL}/report", {"value": 0.5}),
    (f"{PULL}/fail", {"reason": "x"}),
    (f"{PULL}/cancel", {"reason": "x"}),
    (f"{PULL}/amend", {"value": 0.5, "reason": "x"}),
    (f"{PULL}/heartbeat", {"lease": 5}),
]
STUDY = {"name": "new", "problem": PROBLEM.to_dict(), "policy": POLICY.to_dict(), "seed": 1}
ADMINS = [("/v1/studies", STUDY), (f"{URL}/stop", {"reason": "x"})]


def later(test):
    """Wait until the facts about a token are looked up again."""
    deadline = time.monotonic() + 30
    while not test():
        assert time.monotonic() < deadline
        time.sleep(0.05)


# ------------------------------------------------------------------------------ tokens


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer x",
        "Bearer ft_" + "a" * 43,
        "Basic ft_" + "a" * 43,
        "Bearer ft_" + "a" * 10_000,
        "Bearer \x00",
    ],
)
def test_without_a_valid_token_nothing_is_told(service, header):
    headers = {} if header is None else {"Authorization": header}
    for path in ("/v1/studies", URL, "/v1/studies/nothing", f"{URL}/events"):
        answer = service.client.get(path, headers=headers)
        assert answer.status_code in (401, 429)
        assert answer.headers["content-type"] == "application/problem+json"
        assert "'trial'" not in answer.text
        if answer.status_code == 401:
            assert answer.headers["www-authenticate"] == "Bearer"


def test_nothing_that_a_stranger_sends_is_read(service):
    for body in ("{", '{"n": 1, "n": 1}', ""):
        answer = service.nobody.post(f"{URL}/asks", content=body)
        assert answer.status_code == 401


def test_a_token_in_an_address_is_none(service):
    answer = service.client.get(f"/v1/studies?token={service.admin.secret}")
    assert answer.status_code == 401


def test_a_revoked_token_is_refused_within_a_second(service):
    caller = service.caller("leaving", ["read"])
    assert caller.get(URL).status_code == 200
    Tokens(service.store).revoke("leaving")
    later(lambda: caller.get(URL).status_code == 401)


def test_an_expired_token_is_refused(serve):
    service = serve()
    ends = datetime.now(UTC) + timedelta(seconds=1.5)
    caller = service.caller("guest", ["read"], expires_at=ends)
    assert caller.get("/v1/studies").status_code == 200
    later(lambda: caller.get("/v1/studies").status_code == 401)
    assert datetime.now(UTC) >= ends


def test_a_use_is_noted(service):
    service.read.get(URL)
    later(lambda: all_of(service)["reader"].last_used_at is not None)


def all_of(service):
    return {token.name: token for token in Tokens(service.store).all()}


# ------------------------------------------------------------------------------ scopes


@pytest.mark.parametrize("path", [path for path in READS if "pulls" not in path])
def test_results_are_for_readers(service, path):
    assert service.run.get(path).status_code == 403
    assert service.read.get(path).status_code == 200
    assert service.admin.get(path).status_code == 200


@pytest.mark.parametrize(("path", "body"), RUNS)
def test_readers_write_nothing(service, path, body):
    head = service.study().head_hash
    answer = service.read.post(path, body)
    assert answer.status_code == 403
    assert answer.json()["type"] == "urn:fairtrial:problem:access-refused"
    assert service.study().head_hash == head
    assert service.run.post(path, body).status_code in (200, 404, 422)


@pytest.mark.parametrize(("path", "body"), ADMINS)
def test_only_admins_make_and_stop_studies(service, path, body):
    for caller in (service.run, service.read):
        assert caller.post(path, body).status_code == 403
    assert service.admin.post(path, body).status_code in (200, 201)


def test_runners_see_a_blinded_health_only(service):
    assert service.run.get(f"{URL}/health?blinded=true").status_code == 200
    assert service.run.get(f"{URL}/health?blinded=false").status_code == 403
    assert service.read.get(f"{URL}/health?blinded=true").status_code == 200


# ----------------------------------------------------------------------------- tenants


def test_a_study_of_others_does_not_exist(service):
    service.admin.create("heart-1")
    theirs = service.caller("lung team", ["admin"], studies=["lung-*"])
    for path in (*READS, URL, f"{URL}/to_cancel", f"{URL}/pulls", PULL):
        found = theirs.get(path)
        missing = theirs.get(path.replace("trial", "lung-x"))
        assert (found.status_code, missing.status_code) == (404, 404)
        assert found.text.replace("'trial'", "'lung-x'") == missing.text
        assert set(found.headers) == set(missing.headers)
    for path, body in RUNS:
        found = theirs.post(path, body)
        missing = theirs.post(path.replace("trial", "lung-x"), body)
        assert (found.status_code, missing.status_code) == (404, 404)
        assert found.text.replace("'trial'", "'lung-x'") == missing.text
    assert theirs.get("/v1/studies").json() == {"studies": [], "next": None}


def test_an_admin_of_some_studies_makes_no_other(service):
    theirs = service.caller("lung team", ["admin"], studies=["lung-*"])
    assert theirs.create("lung-1").status_code == 201
    taken, free = theirs.create("trial"), theirs.create("free")
    assert (taken.status_code, free.status_code) == (403, 403)
    assert taken.text == free.text
    assert [row.name for row in service.store.studies()] == ["trial", "lung-1"]
    assert [study["name"] for study in theirs.get("/v1/studies").json()["studies"]] == ["lung-1"]


def test_a_key_of_one_is_no_key_of_another(service):
    first = service.run.post(f"{URL}/asks", {}, key="k").json()
    second = service.caller("ward 4", ["run"]).post(f"{URL}/asks", {}, key="k2").json()
    assert first != second


# ------------------------------------------------------------------- hosts and origins


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.2", "", "[::2]"]
)
def test_a_server_is_called_by_its_names_only(service, host):
    answer = service.client.get(URL, headers={**service.read.headers, "Host": host})
    assert answer.status_code == 421
    assert answer.json()["type"] == "urn:fairtrial:problem:unknown-host"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:8000"])
def test_a_machine_is_known_by_its_own_names(service, host):
    answer = service.client.get(URL, headers={**service.read.headers, "Host": host})
    assert answer.status_code == 200


def test_further_names_are_given(serve):
    service = serve(hosts=("trials.example.org",))
    headers = {**service.read.headers, "Host": "trials.example.org"}
    assert service.client.get("/v1/studies", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost:81", "x", "http://[", ""]
)
def test_a_page_of_another_site_changes_nothing(service, origin):
    answer = service.run.post(f"{URL}/asks", {}, headers={"Origin": origin})
    assert answer.status_code == 403
    assert service.study().n_events == 0


def test_a_request_of_two_origins_changes_nothing(service):
    headers = [("Origin", "https://evil.example"), ("Origin", "http://localhost")]
    headers += service.run.headers.items()
    answer = service.client.post(f"{URL}/asks", json={}, headers=headers)
    assert answer.status_code == 403
    assert service.study().n_events == 0


def test_our_own_origin_may(service):
    answer = service.run.post(f"{URL}/asks", {}, headers={"Origin": "http://localhost"})
    assert answer.status_code == 200


def test_no_other_origin_is_invited(service):
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    answer = service.client.options(f"{URL}/asks", headers={**headers, **service.run.headers})
    assert answer.status_code in (403, 405)
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_every_answer_has_headers_of_security(service):
    for answer in (
        service.read.get(URL),
        service.nobody.get(URL),
        service.read.get("/nothing"),
        service.client.get(URL, headers={"Host": "evil.example"}),
        service.client.get("/health/live"),
    ):
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert "server" not in answer.headers


# ---------------------------------------------------------------------------- sessions


@pytest.fixture
def browser(service):
    """The cookies of a browser that has logged in with the page's form."""
    answer = service.client.post(
        "/login", data={"token": service.run.secret}, follow_redirects=False
    )
    assert answer.status_code in (200, 302, 303), answer.text
    service.client.cookies.clear()
    return answer


def test_a_cookie_is_for_this_server_alone(browser, service):
    cookie = browser.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "path=/" in cookie
    assert "domain" not in cookie
    assert service.run.secret.lower() not in cookie


def cookies_of(answer):
    name, value = answer.headers["set-cookie"].partition(";")[0].split("=", 1)
    return {"Cookie": f"{name}={value}"}


def test_a_session_reads_and_changes_nothing_without_the_token_of_its_forms(browser, service):
    from fairtrial.server.security.access import _csrf_token

    cookie = cookies_of(browser)
    assert service.client.get(URL, headers=cookie).status_code == 200
    for given in ({}, {"X-CSRF-Token": ""}, {"X-CSRF-Token": "x" * 64}, {"X-CSRF-Token": "\xe9"}):
        headers = [(name.encode(), value.encode("latin-1")) for name, value in given.items()]
        headers.append((b"Cookie", cookie["Cookie"].encode()))
        answer = service.client.post(f"{URL}/asks", headers=headers, json={})
        assert answer.status_code == 403
    assert service.study().n_events == 0
    token = _csrf_token(cookie["Cookie"].partition("=")[2])
    answer = service.client.post(f"{URL}/asks", headers={**cookie, "X-CSRF-Token": token}, json={})
    assert answer.status_code == 200
    assert answer.json()["pulls"][0]["worker"] == "ward 3"


def test_a_session_ends_with_its_token(browser, service):
    cookie = cookies_of(browser)
    assert service.client.get(URL, headers=cookie).status_code == 200
    Tokens(service.store).revoke("ward 3")
    later(lambda: service.client.get(URL, headers=cookie).status_code in (401, 429))


def test_a_made_up_cookie_is_nobody(service):
    for value in ("", "x", "a" * 43, "a" * 10_000):
        answer = service.client.get(URL, headers={"Cookie": f"fairtrial={value}"})
        assert answer.status_code in (401, 429)


# ------------------------------------------------------------------------------- rates


def test_a_token_has_a_rate_of_its_own(serve):
    service = serve(rate=1.0)
    answers = [service.read.get("/v1/studies") for _ in range(5)]
    assert [answer.status_code for answer in answers][:2] == [200, 200]
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.json()["type"] == "urn:fairtrial:problem:service-busy"
    assert service.run.get("/v1/studies").status_code == 200


def test_a_rate_is_regained_with_time():
    clock = Clock()
    rate = Rate(2.0, clock)
    for _ in range(4):
        rate.take("a")
    with pytest.raises(Refusal):
        rate.take("a")
    rate.take("b")
    clock.advance(0.5)
    rate.take("a")
    with pytest.raises(Refusal):
        rate.take("a")
    clock.advance(1e6)
    for _ in range(4):
        rate.take("a")
    with pytest.raises(Refusal):
        rate.take("a")


def test_names_that_are_made_up_take_no_memory():
    rate = Rate(2.0, Clock())
    for number in range(20_000):
        rate.take(str(number))
    assert len(rate._left) <= 10_000


def test_guessing_is_slowed_down(service):
    statuses = {
        Caller(service.client, f"ft_{number:043d}").get(URL).status_code for number in range(60)
    }
    assert statuses == {401, 429}
    assert service.read.get(URL).status_code == 200


# ---------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    "arguments",
    [
        {"hosts": "a.example"},
        {"hosts": ("a.example:80",)},
        {"hosts": ("",)},
        {"hosts": (5,)},
        {"rate": 0},
        {"rate": float("nan")},
        {"queue": 0},
        {"timeout": -1},
        {"body_limit": 1.5},
    ],
)
def test_what_is_no_setting_is_refused(arguments):
    from fairtrial.errors import InvalidArgument

    with raises(InvalidArgument, next(iter(arguments))):
        Settings(**arguments)


def test_what_is_counted_over_all_studies_is_for_those_who_may_see_all(service):
    assert service.read.get("/metrics").status_code == 200
    tenant = service.caller("tenant", ["read"], studies=["other-*"])
    assert tenant.get("/metrics").status_code == 403
    assert service.run.get("/metrics").status_code == 403
    assert service.nobody.get("/metrics").status_code == 401


# --------------------------------------------------------- guesses on pages, and proxies


@pytest.mark.parametrize("path", ["/", "/studies/trial/decision", "/login"])
@pytest.mark.parametrize("how", ["header", "cookie"])
def test_guessing_through_pages_is_slowed_down(service, path, how):
    statuses = set()
    for number in range(60):
        guess = f"ft_{number:043d}"
        headers = {
            "header": {"Authorization": f"Bearer {guess}"},
            "cookie": {"Cookie": f"fairtrial={guess}"},
        }[how]
        answer = service.client.get(path, headers=headers, follow_redirects=False)
        statuses.add(answer.status_code)
    assert 429 in statuses
    assert service.read.get(URL).status_code == 200
    # Whoever shows nothing guesses nothing.
    assert service.client.get("/login").status_code == 200


def test_guessing_through_the_form_is_slowed_down(service):
    statuses = {
        service.client.post("/login", data={"token": f"ft_{number:043d}"}).status_code
        for number in range(60)
    }
    assert statuses == {403, 429}


@pytest.mark.parametrize(
    ("trusted", "believed"), [((), False), (("192.0.2.0/24",), False), (("127.0.0.1",), True)]
)
def test_only_a_proxy_that_is_named_is_believed(tmp_path, trusted, believed):
    address = f"sqlite:///{tmp_path}/studies.db"
    make_study(address)
    with in_thread(address, trusted_proxies=trusted) as port:
        statuses = set()
        for number in range(60):
            client = Client(port, f"ft_{number:043d}")
            client._headers["X-Forwarded-For"] = f"198.51.100.{number}"
            statuses.add(client.once("GET", "/v1/studies")[0])
            client.close()
    assert (429 not in statuses) == believed


# ------------------------------------------------------------- behind a path of a proxy


@pytest.mark.parametrize("root", ["trials", "/trials/", "/a b", "//", '/"', "/é", None, 5])
def test_a_root_path_that_is_none_is_refused(root):
    with raises(InvalidArgument) as error:
        Settings(root_path=root)
    assert error.value.name == "root_path"


@pytest.mark.parametrize("kept", ["", "/trials"])
def test_under_the_path_of_a_proxy_every_link_leads_to_a_page(serve, kept):
    service = serve(root_path="/trials")
    service.admin.create()
    service.admin.ask(2)

    def get(path):
        """Return what a browser gets from a proxy that removes or keeps the path."""
        assert path.startswith("/trials/"), path
        return service.client.get(kept + path.removeprefix("/trials"), follow_redirects=False)

    login = service.client.post(
        f"{kept}/login", data={"token": service.admin.secret}, follow_redirects=False
    )
    assert (login.status_code, login.headers["location"]) == (303, "/trials/")
    seen, todo = set(), {"/trials/", "/trials/studies/trial"}
    while todo:
        path = todo.pop()
        seen.add(path)
        answer = get(path)
        assert answer.status_code in (200, 303), path
        if answer.status_code == 303:
            todo.add(answer.headers["location"])
        if answer.headers.get("content-type", "").startswith("text/html"):
            found = re.findall(r'(?:href|src)="(/[^"#]*)', answer.text)
            assert all(link.startswith("/trials/") for link in found)
            actions = re.findall(r'action="([^"#]*)', answer.text)
            assert all(action.startswith("/trials/") for action in actions)
            todo |= {html.unescape(link) for link in found} - seen
    assert len(seen) > 10
    back = service.client.post(
        f"{kept}/colours",
        data={"theme": "dark", "back": "/trials/studies/trial/arms"},
        follow_redirects=False,
    )
    assert back.headers["location"] == "/trials/studies/trial/arms"
    assert service.admin.get(f"{kept}{URL}").status_code == 200
    document = service.client.get(f"{kept}/v1/openapi.json").json()
    assert document["servers"] == [{"url": "/trials"}]


def test_health_is_asked_for_by_head_too(service):
    for path in ("/health/live", "/health/ready"):
        answer = service.client.head(path)
        assert answer.status_code == 200
