"""Studies over HTTP: made once, listed page by page, shown, stopped."""

import re

import pytest

from fairtrial.study.sqlite import SQLiteStore
from fairtrial.study.store import NewStudy
from fairtrial.subpopulations import Problem
from tests.server.conftest import POLICY, PROBLEM


def body(**changes):
    made = {"name": "t", "problem": PROBLEM.to_dict(), "policy": POLICY.to_dict(), "seed": 7}
    return made | changes


def test_a_study_is_made_once_and_found_afterwards(service):
    first = service.admin.post("/v1/studies", body())
    again = service.admin.post("/v1/studies", body())
    unseeded = service.admin.post("/v1/studies", body(seed=None))
    assert [first.status_code, again.status_code, unseeded.status_code] == [201, 200, 200]
    assert first.json() == again.json()
    assert first.json()["problem"] == PROBLEM.to_dict()
    assert first.json()["policy_spec"] == POLICY.to_dict()


@pytest.mark.parametrize(
    "change", [{"seed": 8}, {"policy": {**POLICY.to_dict(), "delta": 0.1}}], ids=["seed", "delta"]
)
def test_another_study_of_that_name_is_a_conflict(service, change):
    service.admin.post("/v1/studies", body())
    answer = service.admin.post("/v1/studies", body(**change))
    assert answer.status_code == 409
    assert answer.json()["type"] == "urn:fairtrial:problem:study-exists"
    assert answer.json()["detail"].startswith("a study 't' with another specification")
    assert "memory" not in answer.text


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"problem": {**PROBLEM.to_dict(), "family": "os"}}, "family"),
        ({"problem": {}}, "family"),
        ({"problem": {**PROBLEM.to_dict(), "arms": []}}, "arms"),
        ({"problem": {**PROBLEM.to_dict(), "arms": 10**9}}, "arms"),
        ({"policy": {"name": "system"}}, "name"),
        ({"policy": {}}, "name"),
        ({"policy": {**POLICY.to_dict(), "delta": 5}}, "delta"),
        ({"policy": {**POLICY.to_dict(), "delta": {"a": []}}}, "delta"),
        ({"policy": {**POLICY.to_dict(), "colour": "red"}}, "colour"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**200}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "a\r\nSet-Cookie: x=1"}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"name": ".."}, "name"),
        ({"name": 5}, "name"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_what_is_no_study_is_refused(service, change, name):
    answer = service.admin.post("/v1/studies", body(**change))
    assert answer.status_code == 422, answer.text
    assert name in answer.text
    assert len(service.store.studies()) == 1


def test_all_mistakes_are_named_at_once(service):
    answer = service.admin.post("/v1/studies", {"name": 5, "seed": "x", "colour": 1})
    assert answer.status_code == 422
    names = {item["name"] for item in answer.json()["errors"]}
    assert {"name", "problem", "policy", "seed", "colour"} <= names


def test_studies_are_listed_page_by_page(service):
    for number in range(5):
        assert service.admin.create(f"s{number}").status_code == 201
    first = service.read.get("/v1/studies?limit=4").json()
    assert [study["name"] for study in first["studies"]] == ["s0", "s1", "s2", "s3"]
    rest = service.read.get("/v1/studies", params={"limit": 4, "after": first["next"]}).json()
    assert [study["name"] for study in rest["studies"]] == ["s4", "trial"]
    assert rest["next"] is None


@pytest.mark.parametrize(
    "name", ["a/b", "../a", "%2f", "a b", "ß 漢字", "a?b#c", "a;b", "'\"<>&", "*"]
)
def test_a_study_of_any_name_has_an_address(service, name):
    from urllib.parse import quote

    assert service.admin.create(name).status_code == 201
    path = f"/v1/studies/{quote(name, safe='')}"
    assert service.run.get(path).json()["name"] == name
    pull = service.run.post(f"{path}/asks", {}).json()["pulls"][0]["id"]
    assert service.run.post(f"{path}/pulls/{pull}/tell", {"value": 0.5}).status_code == 200
    assert service.read.get(f"{path}/events").json()["events"][-1]["value"] == 0.5


@pytest.mark.parametrize(
    "path",
    [
        "/v1/studies/nothing",
        "/v1/studies/trial%00",
        "/v1/studies/trial%1fx",
        "/v1/studies/%ff",
        "/v1/studies//events",
        "/v1/studies/trial/",
        "/v1/studies/trial/pulls/%2e%2e/tell",
        "/V1/studies",
        "/v1",
    ],
)
def test_no_path_leads_anywhere_else(service, path):
    assert service.client.get(path, headers=service.admin.headers).status_code in (404, 405)


def test_a_study_tells_its_runners_nothing_about_its_answer(service):
    shown = service.run.get("/v1/studies/trial").json()
    assert shown["status"] == "running"
    assert [shown[name] for name in ("seed", "head_hash", "policy_spec")] == [None] * 3
    service.admin.post("/v1/studies/trial/stop", {"reason": "over"})
    assert service.run.get("/v1/studies/trial").json()["status"] == "stopped"
    assert service.run.get("/v1/studies").json()["studies"][0]["status"] == "stopped"
    assert service.read.get("/v1/studies/trial").json()["status"] == "undecided"


def test_an_admin_stops_a_study_and_says_why(service):
    [pull] = service.run.ask()
    answer = service.admin.post("/v1/studies/trial/stop", {"reason": "the drug was recalled"})
    assert answer.status_code == 200
    event = answer.json()
    assert (event["kind"], event["actor"], event["reason"]) == (
        "stop",
        "boss",
        "the drug was recalled",
    )
    asked = service.run.post("/v1/studies/trial/asks", {}).json()
    assert asked == {"pulls": [], "stopped": True}
    told = service.run.post(f"/v1/studies/trial/pulls/{pull['id']}/tell", {"value": 0.5})
    assert told.status_code == 200
    answer = service.read.get("/v1/studies/trial/recommendation").json()
    assert answer["status"] == "undecided"
    assert "the drug was recalled" in answer["reason"]
    for reason in ({}, {"reason": ""}, {"reason": " "}, {"reason": 5}):
        assert service.admin.post("/v1/studies/trial/stop", reason).status_code == 422


def test_the_secret_of_the_order_is_never_told(service):
    service.run.ask()
    secret = service.study().secret
    assert secret
    paths = ["", "/events", "/export", "/export?format=csv", "/progress", "/health"]
    for path in paths:
        assert secret not in service.admin.get(f"/v1/studies/trial{path}").text, path
    whole = service.admin.get("/v1/studies/trial/export?secret=true")
    assert secret in whole.text
    assert service.read.get("/v1/studies/trial/export?secret=true").status_code == 403


def test_a_study_that_its_reader_knows_is_not_sent_again(service):
    for path in ("", "/recommendation", "/progress", "/events", "/trace?points=3"):
        url = f"/v1/studies/trial{path}"
        tag = service.read.get(url).headers["etag"]
        again = service.read.get(url, headers={"If-None-Match": f'"x", W/{tag}'})
        assert (again.status_code, again.content) == (304, b"")
    service.run.ask()
    assert service.read.get(url, headers={"If-None-Match": tag}).status_code == 200


def test_what_one_scope_sees_is_not_what_another_one_knows(service):
    tag = service.run.get("/v1/studies/trial").headers["etag"]
    shown = service.read.get("/v1/studies/trial", headers={"If-None-Match": tag})
    assert shown.status_code == 200
    assert "Authorization" in shown.headers["vary"]


# --------------------------------------------------------------------- many studies


def insert_many(service, names):
    """Add studies like the first in everything but the name."""
    same = service.store.find_study("trial")[2 : len(NewStudy._fields) + 1]

    def insert():
        for name in names:
            service.store.insert_study(NewStudy(name, *same))

    service.store.transact(insert)


def listed(caller):
    """Return the names that a caller sees, page by page."""
    found, options = [], {"limit": 7}
    while True:
        page = caller.get("/v1/studies", params=options).json()
        found += [study["name"] for study in page["studies"]]
        if page["next"] is None:
            return found
        options["after"] = page["next"]


def test_lists_of_many_studies_come_in_pages_to_all_and_to_some(service, monkeypatch):
    monkeypatch.setattr("fairtrial.server.routes.studies._NAMES", 5)
    monkeypatch.setattr("fairtrial.server.pages.routes._NAMES", 5)
    monkeypatch.setattr("fairtrial.server.pages.routes._STUDIES", 6)
    names = [f"{kind}-{number:02d}" for number in range(12) for kind in ("heart", "lung")]
    insert_many(service, names)
    some = service.caller("some", ["run"], studies=["heart-*", "none"])
    assert listed(service.admin) == sorted([*names, "trial"])
    assert listed(some) == [name for name in sorted(names) if name.startswith("heart")]
    for caller, expected in ((service.admin, ["trial", *names]), (some, names[::2])):
        service.client.cookies.clear()
        service.client.post("/login", data={"token": caller.secret})
        seen, path = [], "/"
        while path is not None:
            page = service.client.get(path).text
            assert f"{len(expected)} studies, the newest first" in page
            seen += re.findall(r"<bdi>((?:heart|lung)-\d\d|trial)</bdi></a>", page)
            older = re.search(r'href="(/\?before=\d+)"', page)
            path = None if older is None else older[1]
        assert seen == expected[::-1]


def test_no_list_reads_all_studies_or_all_open_pulls(serve, tmp_path, monkeypatch):
    def refuse(*_):
        raise AssertionError("everything was read")

    service = serve(SQLiteStore(tmp_path / "studies.db", "process"))
    service.admin.create()
    service.admin.ask(3)
    service.client.post("/login", data={"token": service.admin.secret})
    lists = ["/", "/studies/trial/pulls", "/v1/studies", "/metrics"]
    lists += [f"/v1/studies/trial/{what}" for what in ("pulls", "pulls?state=all")]
    # The first look at a page reads its log.
    assert {service.client.get(path).status_code for path in lists[:2]} == {200}
    for name in ("studies", "open_pulls", "pulls"):
        monkeypatch.setattr(service.store, name, refuse)
    assert [service.admin.get(path).status_code for path in lists] == [200] * len(lists)


def test_a_study_that_requires_a_group_refuses_requests_without_one(service):
    body = {"name": "ward", "problem": PROBLEM.to_dict(), "policy": POLICY.to_dict(), "seed": 1}
    made = service.admin.post("/v1/studies", body | {"conduct": {"require_group": True}})
    assert (made.status_code, made.json()["conduct"]) == (201, {"require_group": True})
    refused = service.run.post("/v1/studies/ward/asks", {"n": 1})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["name"] == "group"
    assert len(service.run.ask(2, "ward", context={"group": "x"})) == 2


def test_an_unknown_rule_for_requests_is_refused(service):
    body = {"name": "ward", "problem": PROBLEM.to_dict(), "policy": POLICY.to_dict()}
    refused = service.admin.post("/v1/studies", body | {"conduct": {"require_grup": True}})
    assert (refused.status_code, refused.json()["errors"][0]["name"]) == (422, "require_grup")


def test_an_arm_and_a_group_are_closed_by_those_who_may_with_their_names(service):
    problem = Problem(["a", "b", "c"], ["x", "y"], reward_range=(0, 1))
    body = {"name": "ward", "problem": problem.to_dict(), "policy": POLICY.to_dict(), "seed": 1}
    assert service.admin.post("/v1/studies", body).status_code == 201
    url = "/v1/studies/ward"
    for part in ({"arm": "c"}, {"group": "y"}):
        closing = part | {"reason": "two deaths"}
        for caller in (service.run, service.read):
            assert caller.post(f"{url}/close", closing).status_code == 403
        event = service.admin.post(f"{url}/close", closing).json()
        assert (event["kind"], event["actor"], event["reason"]) == ("close", "boss", "two deaths")
        assert service.admin.post(f"{url}/close", closing).json() == event
    refused = service.run.post(f"{url}/asks", {"n": 1})
    assert refused.status_code == 422
    # Why it was closed could reveal results.
    assert "deaths" not in refused.text
    pulls = service.run.ask(20, "ward", context={"group": "x"})
    assert {pull["labels"]["arm"] for pull in pulls} == {"a", "b"}
    answer = service.read.get(f"{url}/recommendation").json()
    assert answer["confidence"] == pytest.approx(0.9)
    assert "two deaths" in answer["reason"]


@pytest.mark.parametrize("part", [{}, {"arm": "a", "group": "x"}, {"arm": "z"}, {"arm": 1}])
def test_a_closing_that_names_nothing_or_too_much_is_refused(service, part):
    assert service.admin.post("/v1/studies/trial/close", part | {"reason": "x"}).status_code == 422
