"""Every text and number that a caller can choose, on every route and store: never our own fault."""

import copy
import json
import random
import re
from urllib.parse import quote, unquote

import pytest

from fairtrial.study.memory import MemoryStore
from fairtrial.study.postgresql import PostgreSQLStore
from fairtrial.study.server_address import ServerAddress
from fairtrial.study.sqlite import SQLiteStore
from tests import effort
from tests.server.conftest import POLICY, PROBLEM
from tests.server.pages.people import Person, forms_of
from tests.server.test_blinding import BODIES, routes

TEXTS = [
    "a\0b",
    "\ud800",
    "line\nline\r\n\tx",
    "\x1f\x7f\x1b[31m",
    "臨床 试验",
    "‮override😀é",
    "'\"`;-- ) OR 1=1 \\",
    "=1+1",
    "\uff1d1+1",
    "<script>alert(1)</script>&amp;",
    "{{7*7}} ${x} %s %00 {0.__class__}",
    "..",
    ".",
    "../../etc/passwd",
    "x" * 100_000,
    " ",
    "",
    "a,b;c\u2028d",
]
NUMBERS = [2**31, 2**63, -(2**63) - 1, 2**64, 10**30, 10**400, -1, 1e308, -0.0, 5e-324, True, None]
NAMES = ["trial", "臨床", "a'\"b;=\\c", "..x", "=1+1", "<b>&", "x/../y", "%2e%2e", "é" * 200, "‮rtl"]
NAMES = [name for name in NAMES if name.isprintable()]
STORES = ["memory", "file", "postgresql"]


def on_stores(number):
    """Return a decorator: the test runs on that many kinds of stores, the strictest first."""
    return pytest.mark.parametrize("service", effort.first(number, STORES[::-1]), indirect=True)


@pytest.fixture(params=STORES)
def service(request, tmp_path):
    """A service of every kind of store with one study."""
    if request.param == "memory":
        store = MemoryStore()
    elif request.param == "file":
        store = SQLiteStore(tmp_path / "studies.db", "process")
    else:
        url = request.getfixturevalue("postgresql_url")
        store = PostgreSQLStore(ServerAddress(url), "process")
    made = request.getfixturevalue("serve")(store, rate=1e9)
    assert made.admin.create().status_code == 201
    yield made
    store.close()


def some(items, number):
    """Return that many of the items, or all of them in a long run; the same ones in every run."""
    items = list(items)
    chosen = effort.runs(number, whole=len(items))
    return random.Random(len(items)).sample(items, min(chosen, len(items)))


def variants(body):
    """Yield the body with each of its values, and each of its names, replaced by something odd."""
    for path in list(paths(body)):
        for odd in (*TEXTS, *NUMBERS):
            yield replaced(body, path, odd)
        for text in TEXTS:
            yield replaced(body, path, {text: text})
    for text in TEXTS:
        yield {**body, text: text}


def paths(part, before=()):
    yield before
    if isinstance(part, dict):
        for name, value in part.items():
            # Problems and policies have a test of their own.
            if name not in ("problem", "policy"):
                yield from paths(value, (*before, name))
    if isinstance(part, list):
        for place, value in enumerate(part):
            yield from paths(value, (*before, place))


def replaced(body, path, value):
    made = copy.deepcopy(body)
    if not path:
        return value
    part = made
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    return made


def with_nul(bodies):
    """Yield each body with a NUL in each place."""
    return [replaced(body, path, "a\0b") for body in bodies for path in paths(body)]


def bodies(path, pull):
    """Return sensible bodies of a route."""
    body = BODIES[path.rpartition("/")[2]]
    if path.endswith("{study}/known"):
        return [{"outcomes": [{"pull": pull, **body}]}]
    if path.endswith("/tells"):
        return [body, {"outcomes": [{"pull": pull, "value": 0.5}]}]
    if path.endswith("/asks"):
        more = {"n": 1, "lease": 9.5, "context": {"group": "x"}}
        return [body, {**more, "tell": {"pull": pull, "value": 0.5}}]
    return [body]


def require_no_fault(answer, what):
    assert answer.status_code < 500, (what, answer.status_code, answer.text[:300])


def post(service, path, body):
    # As httpx would refuse to send it.
    content = json.dumps(body).encode("ascii")
    headers = {"Content-Type": "application/json"}
    return service.admin.client.post(path, headers=service.admin.headers | headers, content=content)


POSTS = [path for method, path, _ in routes() if method == "POST"]
GETS = [path for method, path, _ in routes() if method == "GET"]
TABS = ["", "/decision", "/arms", "/fairness", "/health", "/log", "/pulls"]


@on_stores(2)
def test_no_body_is_a_fault_of_the_service(service):
    for path in POSTS:
        pull = service.run.ask()[0]["id"] if path != "/v1/studies" else "p"
        if path.endswith("/stop"):
            continue
        where = path.replace("{study}", "trial").replace("{pull}", pull)
        odd_ones = (odd for one in bodies(path, pull) for odd in variants(one))
        for body in [*with_nul(bodies(path, pull)), *some(odd_ones, 10)]:
            require_no_fault(post(service, where, body), (path, str(body)[:200]))
    for odd in some(variants(BODIES["stop"]), 10):
        require_no_fault(post(service, "/v1/studies/trial/stop", odd), odd)
    assert service.read.get("/v1/studies/trial/verify").json()["ok"]


@on_stores(1)
def test_no_name_in_an_address_is_a_fault_of_the_service(service):
    texts = [text for text in TEXTS if len(text) < 1_000 and text != "\ud800"] + ["%ED%A0%80"]
    for path in (*GETS, *POSTS):
        if "{" not in path:
            continue
        for text in some(texts, 4):
            known = text if text.startswith("%ED") else quote(text, safe="")
            for study, pull in ((known, "p"), ("trial", known)):
                where = path.replace("{study}", study).replace("{pull}", pull)
                if path in GETS:
                    answer = service.admin.get(where)
                else:
                    body = bodies(path, "p")[0]
                    answer = service.admin.post(where, {} if path.endswith("stop") else body)
                require_no_fault(answer, (path, text))


@on_stores(1)
def test_no_query_and_no_header_is_a_fault_of_the_service(service):
    document = service.app.openapi()["paths"]
    odd = [quote(text[:300], safe="") for text in TEXTS if text != "\ud800"]
    odd += ["%ED%A0%80", *(str(number) for number in NUMBERS), "9" * 5_000, "nan", "inf"]
    for path in GETS:
        where = path.replace("{study}", "trial").replace("{pull}", service.run.ask()[0]["id"])
        parameters = document[path]["get"].get("parameters", [])
        for name in [one["name"] for one in parameters if one["in"] == "query"]:
            for value in some(odd, 4):
                extra = "&after=0" if name == "wait" and "events" not in path else ""
                if name == "wait" and value.replace("+", "").isdigit():
                    continue
                answer = service.admin.get(f"{where}?{name}={value}{extra}")
                require_no_fault(answer, (path, name, value[:50]))
        for header in ("If-None-Match", "Accept", "X-Request-Id", "Idempotency-Key", "Cookie"):
            for value in some(("\xff\xfe", '"', "=;=,", "x" * 5_000, "*"), 1):
                answer = service.admin.get(where, headers={header: value.encode("latin-1")})
                require_no_fault(answer, (path, header, value[:50]))


@pytest.mark.parametrize(("name", "service"), effort.pairs(NAMES, STORES), indirect=["service"])
def test_a_study_of_any_accepted_name_is_served_on_every_route_and_page(service, name):
    assert service.admin.create(name).status_code in (200, 201)
    where = f"/v1/studies/{quote(name, safe='')}"
    pull = service.admin.post(f"{where}/asks", {"n": 2}).json()["pulls"][0]["id"]
    assert service.admin.post(f"{where}/pulls/{pull}/tell", {"value": 0.5}).status_code == 200
    for path in GETS:
        answer = service.admin.get(
            path.replace("/v1/studies/{study}", where).replace("{pull}", pull)
        )
        # A check of a study that takes long goes on after its first answer.
        expected = (200, 202) if path.endswith("/verify") else (200,)
        assert answer.status_code in expected, (path, answer.text[:300])
    for kind in ("jsonl", "csv", "parquet"):
        answer = service.admin.get(f"{where}/export?format={kind}")
        assert answer.status_code == 200, answer.text
        file = file_name(answer.headers["content-disposition"])
        assert file.endswith(f".{kind}")
        assert not re.search(r'[\\/:*?"<>|\x00-\x1f]', file)
        assert not file.startswith(".")
    person = Person(service.client, service.admin.secret)
    page = f"/studies/{quote(name, safe='')}"
    for tab in TABS:
        answer = person.get(page + tab)
        assert answer.status_code in (200, 303, 404), (tab, answer.text)
        if answer.status_code == 303:
            assert person.get(answer.headers["location"]).status_code == 200
    assert quote(name, safe="") in person.get("/").text


def file_name(disposition):
    """Return the file name in a header, as browsers read it."""
    [name] = re.findall(r"filename\*=UTF-8''([!-~]+)$", disposition)
    return unquote(name)


def test_a_file_keeps_the_name_of_its_study(service):
    assert service.admin.create("臨床").status_code == 201
    answer = service.admin.get(f"/v1/studies/{quote('臨床')}/export?format=csv")
    assert file_name(answer.headers["content-disposition"]) == "臨床.csv"
    assert answer.headers["content-disposition"].isascii()


@pytest.mark.parametrize("name", [".", "..", "\u202e", "a\0b", "a\nb", "", " ", "x" * 201])
@on_stores(1)
def test_a_name_that_could_not_be_addressed_is_refused_with_the_reason(service, name):
    body = {"name": name, "problem": PROBLEM.to_dict(), "policy": POLICY.to_dict()}
    answer = post(service, "/v1/studies", body)
    assert answer.status_code == 422
    assert [mistake["name"] for mistake in answer.json()["errors"]] == ["name"]


@on_stores(1)
def test_no_form_is_a_fault_of_the_service(service):
    person = Person(service.client, service.admin.secret)
    pulls = "/studies/trial/pulls"
    person.send(pulls, "/studies/trial/forms/ask", n="3")
    pull = service.run.ask()[0]["id"]
    for name in ("ask", "tell", "report", "fail", "amend", "stop"):
        for field in ("pull", "value", "reason", "n", "lease", "unit", "key", "stage", "seen"):
            odd = [*TEXTS, *(str(number) for number in NUMBERS)]
            for text in [TEXTS[0], *some(odd, 2)]:
                if text == "\ud800" or (name == "stop" and field == "reason" and text.strip()):
                    continue
                typed = {"pull": pull, "value": "0.5", "reason": "r", "n": "1", field: text}
                answer = send(person, f"/studies/trial/forms/{name}", typed)
                require_no_fault(answer, (name, field, text[:50]))


def send(person, path, typed):
    if not hasattr(person, "csrf"):
        forms = forms_of(person.get("/studies/trial/pulls").text)
        person.csrf = next(form["csrf"] for form in forms.values() if "csrf" in form)
    return person.client.post(path, data={**typed, "csrf": person.csrf})
