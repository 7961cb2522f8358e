"""People who recruit or treat learn nothing about results that others told."""

import hashlib
import re
from pathlib import Path

import pytest

from fairtrial.delayed import InformationRacing
from fairtrial.delayed import Problem as DelayedProblem
from fairtrial.server.blinding import seal
from fairtrial.study import Study
from fairtrial.study.memory import MemoryStore
from fairtrial.subpopulations import BlockBetting, Problem
from tests.server.conftest import POLICY, PROBLEM
from tests.study.tools import Clock

URL = "/v1/studies/trial"
REFERENCE = Path(__file__).parents[2] / "docs/reference/server.md"
_ROUTE = re.compile(r"^\| `(GET|POST) (/\S+?)` \| ([^|]+) \|", re.MULTILINE)
_VARIES = re.compile(r"[0-9a-f]{16,}|\d{4}-\d\d-\d\d[T ][\d:.]+|trial-\d")
TABLE = {"name": "plate.csv", "rows": [{"place": 0, "line": "line 2", "result": 0.5}]}
BODIES = {
    "tell_table": {"table": TABLE},
    "amend_table": {"table": TABLE, "reason": "typing error"},
    "asks": {"n": 1},
    "tells": {"outcomes": [{"arm": "a", "group": "x", "value": 0.5}]},
    "tell": {"value": 0.5},
    "known": {"values": {"reward": 0.5}},
    "report": {"value": 0.5},
    "fail": {"reason": "lost"},
    "cancel": {"reason": "lost"},
    "amend": {"value": 0.5, "reason": "typing error"},
    "heartbeat": {"lease": 60},
    "kit": {"kit": "K0001"},
    "supply": {"number": 1},
    "unmask": {"reason": "overdose"},
    "stop": {"reason": "recalled"},
    "close": {"group": "x", "reason": "recalled"},
    "studies": {"name": "new", "problem": PROBLEM.to_dict(), "policy": POLICY.to_dict()},
}


@pytest.fixture
def wards(service):
    """Two people who recruit."""
    return service.run, service.caller("ward 4", ["run"])


def told(caller, value):
    """Return a pull whose result another person has told."""
    pull = caller.ask()[0]["id"]
    assert caller.post(f"{URL}/pulls/{pull}/tell", {"value": value}).status_code == 200
    return pull


def writes(pull, value):
    """Return every request that tells a pull's result again."""
    row = {"place": 0, "line": "line 2", "pull": pull, "result": value}
    table = {"name": "plate.csv", "rows": [row]}
    return [
        (f"{URL}/pulls/{pull}/tell", {"value": value}),
        (f"{URL}/tells", {"outcomes": [{"pull": pull, "value": value}]}),
        (f"{URL}/asks", {"n": 1, "tell": {"pull": pull, "value": value}}),
        (f"{URL}/pulls/{pull}/amend", {"value": value, "reason": "typing error"}),
        (f"{URL}/tell_table", {"table": table}),
        (f"{URL}/amend_table", {"table": table, "reason": "typing error"}),
        (f"{URL}/amend_table", {"table": table, "reason": "typing error", "preview": True}),
    ]


def routes():
    """Return method, path and scope of every route, as the documentation lists them."""
    return [(*found[:2], found[2].strip()) for found in _ROUTE.findall(REFERENCE.read_text())]


def call(caller, method, path, pull):
    """Return the answer to a sensible request to a route."""
    where = path.replace("{study}", "trial").replace("{pull}", pull)
    if method == "GET":
        return caller.get(where)
    body = BODIES[path.rpartition("/")[2]]
    if "table" in body:
        rows = [{**row, "pull": pull} for row in body["table"]["rows"]]
        body = {**body, "table": {**body["table"], "rows": rows}}
    of_many = path.endswith("{study}/known")
    return caller.post(where, {"outcomes": [{"pull": pull, **body}]} if of_many else body)


def test_the_documentation_lists_every_route(service):
    documented = {(method, path) for method, path, _ in routes()}
    declared = {
        (method.upper(), path)
        for path, methods in service.app.openapi()["paths"].items()
        for method in methods
    }
    assert declared == documented


@pytest.mark.parametrize(("method", "path", "scope"), routes())
def test_a_route_is_for_the_scopes_that_the_documentation_says(service, method, path, scope):
    pull = service.run.ask()[0]["id"]
    may = {
        "nobody": scope == "none",
        "run": scope in ("none", "any", "run or read") or scope.startswith("run"),
        "read": scope in ("none", "any", "run or read") or scope.startswith("read"),
    }
    for name, allowed in may.items():
        answer = call(getattr(service, name), method, path, pull)
        assert (answer.status_code not in (401, 403)) == allowed, (name, answer.text)
    assert call(service.admin, method, path, pull).status_code not in (401, 403)


def a_study_whose_results_are(store, value):
    """Make a study with some results, all with the given value."""
    with Study.create(PROBLEM, POLICY, storage=store, name="trial", seed=7, secret="s") as study:
        pulls = study.ask(6, worker="ward 4")
        study.fail(pulls[5], "lost", actor="ward 4")
        for pull in pulls[:4]:
            study.tell(pull, value, actor="ward 4")
        return pulls[0].id, pulls[4].id


def seen_by_somebody_who_recruits(service, told, still_open):
    """Return everything that a token of the scope ``run`` receives, except what is random."""
    answers = {}
    for method, path, _ in routes():
        for place, pull in enumerate((told, still_open)):
            answer = call(service.run, method, path, pull)
            answers[method, path, place] = answer.status_code, answer.text
    answers["health"] = 0, service.run.get(f"{URL}/health?blinded=true").text
    service.client.post("/login", data={"token": service.run.secret})
    for page in (
        "recruitment",
        "health",
        "pulls",
        "entered",
        f"pulls/{told}",
        f"pulls/{still_open}",
        "log",
    ):
        answer = service.client.get(f"/studies/trial/{page}")
        answers[page.partition("/")[0], page == f"pulls/{told}"] = answer.status_code, answer.text
    return {name: (status, _VARIES.sub("*", text)) for name, (status, text) in answers.items()}


def test_every_route_is_either_refused_to_those_who_recruit_or_says_nothing_of_results(serve):
    views = []
    for value in (0.25, 0.75):
        # Its clock stands still, so that results take the same time in both.
        store = MemoryStore(clock=Clock())
        pulls = a_study_whose_results_are(store, value)
        views.append(seen_by_somebody_who_recruits(serve(store), *pulls))
    assert views[0].keys() == views[1].keys()
    for name, seen in views[0].items():
        assert seen == views[1][name], name


def test_whoever_guesses_somebody_elses_result_learns_nothing(service, wards):
    mine, theirs = wards
    pull = told(theirs, 1)
    before = service.study().head_hash, service.store.find_study("trial").duplicates
    for (path, right), (_, wrong) in zip(writes(pull, 1), writes(pull, 0), strict=True):
        answers = mine.post(path, right), mine.post(path, wrong)
        assert {answer.status_code for answer in answers} <= {403, 409, 422}
        assert answers[0].content == answers[1].content
    assert (service.study().head_hash, service.store.find_study("trial").duplicates) == before


def test_ones_own_result_may_be_told_again_and_corrected(wards):
    mine, _ = wards
    pull = told(mine, 1)
    assert [mine.post(path, body).status_code for path, body in writes(pull, 1)] == [200] * 7
    amended = mine.post(f"{URL}/pulls/{pull}/amend", {"value": 0, "reason": "typing error"})
    assert amended.json()["kind"] == "amend"


def test_whoever_may_read_corrects_what_others_told(service, wards):
    _, theirs = wards
    pull = told(theirs, 1)
    monitor = service.caller("data manager", ["run", "read"])
    answers = [monitor.post(path, body) for path, body in writes(pull, 1)]
    assert [answer.status_code for answer in answers] == [200] * 7
    conflict = monitor.post(f"{URL}/pulls/{pull}/tell", {"value": 0})
    assert "1.0" in conflict.json()["detail"]


def test_no_answer_holds_what_a_result_could_be_found_by(service, wards):
    mine, theirs = wards
    own = mine.ask()[0]["id"]
    told(theirs, 1)
    answers = [
        mine.post(f"{URL}/pulls/{own}/heartbeat", {"lease": 60}),
        mine.get(URL),
        mine.get(f"{URL}/recruitment"),
        mine.get(f"{URL}/pulls"),
        mine.post(f"{URL}/pulls/{own}/tell", {"value": 0.5}),
        mine.post(f"{URL}/tells", {"outcomes": [{"pull": own, "value": 0.5}]}),
    ]
    hashes = {event.hash for event in service.study().events()}
    for answer in answers:
        assert answer.status_code == 200
        text = answer.text + str(answer.headers)
        assert not [one for one in hashes if one[:8] in text]


def test_a_seal_is_another_one_for_another_state_and_no_plain_hash():
    assert seal("1-0-abc") == seal("1-0-abc") != seal("2-0-abc")
    plain = hashlib.blake2b(b"1-0-abc", digest_size=16).hexdigest()
    assert seal("1-0-abc") != plain


def test_probabilities_of_arms_are_for_those_who_may_see_who_leads(service, wards):
    mine, _ = wards
    asked = mine.ask(3)
    listed = mine.get(f"{URL}/pulls").json()["pulls"]
    one = mine.get(f"{URL}/pulls/{asked[0]['id']}").json()
    assert {pull["propensity"] for pull in [*asked, *listed, one]} == {None}
    # At the end of a block, its last pulls could be guessed.
    assert {pull["tag"] for pull in [*asked, *listed, one]} == {None}
    seen = service.read.get(f"{URL}/pulls").json()["pulls"]
    assert all(pull["propensity"] is not None for pull in seen)


def test_nobody_gets_the_pull_of_somebody_else_by_their_key(service, wards):
    mine, theirs = wards
    first = theirs.post(f"{URL}/asks", {}, key="job-1").json()["pulls"]
    for caller in (mine, service.admin):
        answer = caller.post(f"{URL}/asks", {}, key="job-1")
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["name"] == "Idempotency-Key"
        assert first[0]["id"] not in answer.text
    assert theirs.post(f"{URL}/asks", {}, key="job-1").json()["pulls"] == first


def test_no_unsolicited_result_is_taken_for_that_of_somebody_else(service, wards):
    mine, theirs = wards
    body = {"outcomes": [{"arm": "a", "group": "x", "value": 1}]}
    assert theirs.post(f"{URL}/tells", body, key="k").status_code == 200
    for caller in (mine, service.admin):
        assert caller.post(f"{URL}/tells", body, key="k").status_code == 422
    assert theirs.post(f"{URL}/tells", body, key="k").status_code == 200


def test_why_others_gave_a_pull_up_is_not_told(wards):
    mine, theirs = wards
    pull = theirs.ask()[0]["id"]
    theirs.post(f"{URL}/pulls/{pull}/fail", {"reason": "died of arm b"})
    answer = mine.post(f"{URL}/pulls/{pull}/fail", {"reason": "lost"})
    assert answer.status_code == 403
    assert "died" not in answer.text


def test_a_guess_at_measures_that_others_told_is_answered_alike_right_or_wrong(service, wards):
    mine, theirs = wards
    problem = Problem(["a", "b"], 1, measures={"cd4": (0, 1), "safe": (0, 1)}, objective="cd4")
    Study.create(problem, BlockBetting(problem), storage=service.store, name="measured").close()
    pull = theirs.ask(study="measured")[0]["id"]
    url = "/v1/studies/measured"
    values = {"cd4": 0.8125, "safe": 1}
    assert theirs.post(f"{url}/pulls/{pull}/known", {"values": values}).status_code == 200
    for path in (f"{url}/known", f"{url}/pulls/{pull}/known"):
        answers = []
        for guess in (values, values | {"cd4": 0.5}):
            one = {"values": guess}
            body = one if path.endswith(f"{pull}/known") else {"outcomes": [{"pull": pull} | one]}
            answers.append(mine.post(path, body))
        right, wrong = answers
        assert right.status_code == wrong.status_code == 403
        assert right.json()["detail"] == wrong.json()["detail"]


def test_measures_that_others_reported_are_not_told(service, wards):
    mine, theirs = wards
    problem = Problem(["a", "b"], 1, measures={"cd4": (0, 1), "safe": (0, 1)}, objective="cd4")
    Study.create(problem, BlockBetting(problem), storage=service.store, name="measured").close()
    pull = theirs.ask(study="measured")[0]["id"]
    many, url = "/v1/studies/measured/known", f"/v1/studies/measured/pulls/{pull}"
    assert theirs.post(f"{url}/known", {"values": {"cd4": 0.8125}}).status_code == 200
    answers = [
        mine.post(f"{url}/known", {"values": {"cd4": 0.5}}),
        mine.post(f"{url}/known", {"values": {"safe": 1}}),
        mine.post(f"{url}/known", {"values": {"safe": 0}}),
        mine.post(many, {"outcomes": [{"pull": pull, "values": {"cd4": 0.5}}]}),
        mine.get(url),
    ]
    assert {answer.status_code for answer in answers} == {403}
    assert not [answer for answer in answers if "0.8125" in answer.text]
    assert theirs.post(f"{url}/known", {"values": {"safe": 1}}).status_code == 200
    assert "0.8125" in service.read.get(url).text


def test_those_who_told_a_measure_are_not_told_that_only_somebody_else_can_have(service, wards):
    mine, _ = wards
    problem = Problem(["a", "b"], 1, measures={"cd4": (0, 1), "safe": (0, 1)}, objective="cd4")
    Study.create(problem, BlockBetting(problem), storage=service.store, name="measured").close()
    pull = mine.ask(study="measured")[0]["id"]
    url = f"/v1/studies/measured/pulls/{pull}/known"
    assert mine.post(url, {"values": {"safe": 0}}).status_code == 200
    refused = mine.post(url, {"values": {"safe": 1}})
    assert refused.status_code == 409
    assert "was told before, perhaps by somebody else" in refused.text


@pytest.fixture
def measured(service, wards):
    """Two people who recruit, one who may read, and a pull of a study of two measures."""
    mine, _ = wards
    problem = Problem(["a", "b"], 1, measures={"cd4": (0, 1), "safe": (0, 1)}, objective="cd4")
    Study.create(problem, BlockBetting(problem), storage=service.store, name="measured").close()
    return mine, service.caller("laboratory", ["run", "read"]), mine.ask(study="measured")[0]["id"]


def guesses(pull, values):
    """Return every request that gives measures to a pull."""
    url = "/v1/studies/measured"
    return [
        (f"{url}/pulls/{pull}/known", {"values": values}),
        (f"{url}/pulls/{pull}/report", {"value": values}),
        (f"{url}/pulls/{pull}/tell", {"value": values}),
        (f"{url}/known", {"outcomes": [{"pull": pull, "values": values}]}),
        (f"{url}/tells", {"outcomes": [{"pull": pull, "value": values}]}),
        (f"{url}/asks", {"n": 1, "tell": {"pull": pull, "value": values}}),
    ]


@pytest.mark.parametrize("rest", [{}, {"safe": 1}], ids=["part", "whole"])
def test_a_guess_at_a_measure_that_another_person_reported_learns_nothing(service, measured, rest):
    mine, laboratory, pull = measured
    path, body = guesses(pull, {"cd4": 0.8125})[0]
    assert laboratory.post(path, body).status_code == 200
    before = service.study("measured").head_hash
    right, wrong = guesses(pull, {"cd4": 0.8125, **rest}), guesses(pull, {"cd4": 0.5, **rest})
    for (path, guess), (_, other) in zip(right, wrong, strict=True):
        answers = mine.post(path, guess), mine.post(path, other)
        assert [answer.status_code for answer in answers] == [409, 409], path
        assert answers[0].content == answers[1].content
        assert answers[0].json()["type"].endswith(":conflicting-outcome")
    assert service.study("measured").head_hash == before


def by_table(pull, values, *, amend=False, **more):
    """Return the request that tells or corrects measures of a pull by a table."""
    row = {"place": 0, "line": "line 2", "pull": pull, "result": values, **more}
    table = {"name": "plate.csv", "rows": [row]}
    verb, reason = ("amend_table", {"reason": "slip"}) if amend else ("tell_table", {})
    return f"/v1/studies/measured/{verb}", {"table": table, **reason}


def test_a_table_says_nothing_about_measures_of_others(service, measured):
    mine, laboratory, pull = measured
    path, body = guesses(pull, {"cd4": 0.8125})[0]
    assert laboratory.post(path, body).status_code == 200
    assert mine.post(*by_table(pull, {"safe": 1})).status_code == 200
    before = service.study("measured").head_hash
    for amend in (False, True):
        for rest in ({}, {"safe": 1}):
            right = mine.post(*by_table(pull, {"cd4": 0.8125, **rest}, amend=amend))
            wrong = mine.post(*by_table(pull, {"cd4": 0.5, **rest}, amend=amend))
            assert (right.status_code, right.content) == (422, wrong.content)
    assert service.study("measured").head_hash == before


def test_a_correction_by_table_shows_only_the_measures_that_it_gives(measured):
    mine, laboratory, pull = measured
    path, body = guesses(pull, {"cd4": 0.8125})[0]
    assert laboratory.post(path, body).status_code == 200
    early = mine.ask(study="measured")[0]["id"]
    assert mine.post(*by_table(early, {"safe": 1})).status_code == 200
    assert laboratory.post(guesses(early, {"cd4": 0.5})[0][0], body).status_code == 200
    answer = mine.post(*by_table(early, {"safe": 0}, amend=True))
    assert answer.status_code == 422, "the laboratory completed the outcome"
    assert mine.post(*by_table(pull, {"safe": 1})).status_code == 200
    answer = mine.post(*by_table(pull, {"safe": 0}, amend=True)).json()
    assert answer["corrections"] == [
        {"pull": pull, "before": {"safe": 1.0}, "after": {"safe": 0.0}, "participant": None}
    ]
    assert answer["first_results"] == 0


def test_one_person_reports_some_measures_and_another_one_the_others(measured):
    mine, laboratory, pull = measured
    (path, theirs), (_, others) = guesses(pull, {"cd4": 0.8125})[0], guesses(pull, {"safe": 1})[0]
    assert laboratory.post(path, theirs).status_code == 200
    assert [event["kind"] for event in mine.post(path, others).json()["events"]] == ["tell"]
    assert mine.post(path, others).status_code == 200
    # Telling the outcome does not give a second chance to guess what others reported.
    for guess in (0.8125, 0.5):
        for path, body in guesses(pull, {"cd4": guess}):
            assert mine.post(path, body).status_code == 409, path
        amended = {"value": {"cd4": guess}, "reason": "typing error"}
        url = f"/v1/studies/measured/pulls/{pull}/amend"
        assert mine.post(url, amended).status_code == 403
    assert mine.post(url, {"value": {"safe": 0}, "reason": "typing error"}).status_code == 200


def test_a_guess_at_a_correction_of_another_person_learns_nothing(service, wards):
    mine, _ = wards
    pull = told(mine, 1)
    monitor = service.caller("data manager", ["run", "read"])
    amended = {"value": 0.25, "reason": "typing error"}
    assert monitor.post(f"{URL}/pulls/{pull}/amend", amended).status_code == 200
    for (path, right), (_, wrong) in zip(writes(pull, 0.25), writes(pull, 0), strict=True):
        answers = mine.post(path, right), mine.post(path, wrong)
        assert {answer.status_code for answer in answers} <= {403, 409, 422}
        assert answers[0].content == answers[1].content


def test_a_guess_at_a_reading_of_another_person_learns_nothing(serve):
    service = serve()
    problem = DelayedProblem(["a", "b"], noise_std=0.1, feedback="unbiased", reading_std=0.5)
    policy = InformationRacing(problem)
    Study.create(problem, policy, storage=service.store, name="race").close()
    pull = service.run.ask(study="race")[0]["id"]
    url = f"/v1/studies/race/pulls/{pull}"
    monitor = service.caller("data manager", ["run", "read"])
    reading = {"value": 0.25, "stage": 1}
    assert monitor.post(f"{url}/report", reading).status_code == 200
    answers = [service.run.post(f"{url}/report", reading | {"value": v}) for v in (0.25, 0.5)]
    assert [answer.status_code for answer in answers] == [409, 409]
    assert answers[0].content == answers[1].content
    assert service.run.post(f"{url}/tell", {"value": 0.3}).status_code == 200


# ------------------------------------------------------------------- pulls of others


def arms_in(text):
    """Return whether a text names an arm or an action, apart from what is true of all arms."""
    return bool(re.search(r'"(arm|action)":|<bdi>[ab]</bdi>', text))


def test_open_pulls_of_others_are_not_listed(service, wards):
    mine, theirs = wards
    theirs.ask(30)
    own = {pull["id"] for pull in mine.ask(3)}
    listed = mine.get(f"{URL}/pulls?limit=1000").json()
    assert {pull["id"] for pull in listed["pulls"]} == own
    assert mine.get(f"{URL}/pulls?limit=1").json()["next"] is not None
    assert len(service.read.get(f"{URL}/pulls").json()["pulls"]) == 33
    service.client.post("/login", data={"token": mine.secret})
    page = service.client.get("/studies/trial/pulls").text
    assert "3 pulls have no result yet" in page
    assert page.count("Tell the result<") == 3


def test_of_an_open_pull_of_somebody_else_nothing_is_shown_or_changed(service, wards):
    mine, theirs = wards
    pull = theirs.ask()[0]["id"]
    before = service.study().head_hash
    for method, path, _ in routes():
        if "{pull}" not in path:
            continue
        answer = call(mine, method, path, pull)
        assert answer.status_code == 403, path
        assert not arms_in(answer.text)
    for path, body in writes(pull, 1):
        answer = mine.post(path, body)
        # Of a table, all rows that are refused are named.
        assert answer.status_code == (422 if "table" in body else 403), path
        assert not arms_in(answer.text)
    body = {"outcomes": [{"pull": pull, "values": {"reward": 0.5}}]}
    assert mine.post(f"{URL}/known", body).status_code == 403
    assert service.study().head_hash == before


def test_the_pages_of_somebody_elses_pull_show_and_change_nothing(service, wards):
    mine, theirs = wards
    pull = theirs.ask()[0]["id"]
    before = service.study().head_hash
    service.client.post("/login", data={"token": mine.secret})
    shown = service.client.get(f"/studies/trial/pulls/{pull}")
    assert shown.status_code == 403
    assert not arms_in(shown.text)
    own = mine.ask()[0]["id"]
    form = service.client.get(f"/studies/trial/pulls/{own}").text
    csrf = re.search(r'name="csrf" value="([^"]+)"', form)[1]
    asked = service.study().head_hash
    for name, fields in {
        "tell": {"value": "1"},
        "fail": {"reason": "lost"},
        "amend": {"value": "1", "reason": "typing error"},
    }.items():
        data = {"csrf": csrf, "pull": pull, "key": name, "seen": "", **fields}
        answer = service.client.post(f"/studies/trial/forms/{name}", data=data)
        assert answer.status_code == 403, name
        assert not arms_in(answer.text)
    assert asked != before
    assert service.study().head_hash == asked


def test_what_an_event_of_somebody_else_was_is_not_told(service, wards):
    mine, theirs = wards
    pull = told(theirs, 1)
    service.client.post("/login", data={"token": mine.secret})
    seq = service.study().n_events
    assert (
        "result is recorded"
        not in service.client.get(f"/studies/trial/pulls?done=event-{seq}").text
    )
    assert pull


def test_only_ones_own_pulls_are_named_as_no_longer_needed(service, wards):
    mine, theirs = wards
    theirs.ask(5)
    own = mine.ask()[0]["id"]
    service.admin.post(f"{URL}/stop", {"reason": "recalled"})
    found = mine.get(f"{URL}/to_cancel").json()["pulls"]
    assert [pull["id"] for pull in found] == [own]
    assert len(service.admin.get(f"{URL}/to_cancel").json()["pulls"]) == 6


def test_whoever_may_read_tells_the_pulls_of_others(service, wards):
    _, theirs = wards
    pull = theirs.ask()[0]["id"]
    manager = service.caller("data manager", ["run", "read"])
    assert manager.post(f"{URL}/pulls/{pull}/tell", {"value": 1}).status_code == 200


# ------------------------------------------------------- what people entered themselves


def seen(caller, pull):
    """Return what a caller is shown of the values of a pull, by every route that shows them."""
    url = "/v1/studies/measured/pulls"
    one = caller.get(f"{url}/{pull}").json()
    listed = [each for each in caller.get(f"{url}?state=all").json()["pulls"] if each["id"] == pull]
    assert [each["entered"] for each in listed] == [one["entered"]]
    return one["entered"], one.get("outcome")


def test_everybody_sees_the_measures_that_they_entered_and_no_others(service, measured):
    mine, laboratory, pull = measured
    url = f"/v1/studies/measured/pulls/{pull}"
    assert seen(mine, pull) == (None, None)
    assert laboratory.post(f"{url}/known", {"values": {"cd4": 0.8125}}).status_code == 200
    assert seen(mine, pull) == (None, None)
    assert seen(service.admin, pull) == ({"cd4": 0.8125}, None)
    assert mine.post(f"{url}/known", {"values": {"safe": 1}}).status_code == 200
    assert seen(mine, pull) == ({"safe": 1.0}, None)
    whole = {"cd4": 0.8125, "safe": 1.0}
    assert seen(service.admin, pull) == (whole, whole)
    corrected = {"value": {"safe": 0}, "reason": "typing error"}
    assert mine.post(f"{url}/amend", corrected).status_code == 200
    assert seen(mine, pull) == ({"safe": 0.0}, None)


def test_a_correction_by_somebody_else_is_not_shown_to_whoever_entered_the_value(measured):
    mine, laboratory, pull = measured
    url = f"/v1/studies/measured/pulls/{pull}"
    entered = {"cd4": 0.25, "safe": 1.0}
    assert mine.post(f"{url}/known", {"values": entered}).status_code == 200
    assert seen(mine, pull) == (entered, entered)
    corrected = {"value": {"cd4": 0.8125}, "reason": "laboratory"}
    assert laboratory.post(f"{url}/amend", corrected).status_code == 200
    assert seen(mine, pull) == (entered, None)
    assert seen(laboratory, pull)[0]["cd4"] == 0.8125


def test_a_measure_that_was_told_early_is_corrected_by_whoever_told_it(service, measured):
    mine, laboratory, pull = measured
    url = f"/v1/studies/measured/pulls/{pull}"
    amend = f"{url}/amend"
    assert mine.post(f"{url}/known", {"values": {"safe": 1}}).status_code == 200
    answer = mine.post(amend, {"value": {"safe": 0}, "reason": "wrong line"})
    assert (answer.status_code, answer.json()["kind"]) == (200, "amend")
    assert not {"old", "outcome"} & {*answer.json()["body"]}
    assert seen(mine, pull) == ({"safe": 0.0}, None)
    # What is not known yet is told, not corrected.
    assert mine.post(amend, {"value": {"cd4": 0.5}, "reason": "wrong line"}).status_code == 422
    assert mine.post(amend, {"value": {"safe": 1}, "reason": "right before"}).status_code == 200
    assert laboratory.post(f"{url}/known", {"values": {"cd4": 0.25}}).status_code == 200
    assert seen(mine, pull) == ({"safe": 1.0}, None)
    whole = {"cd4": 0.25, "safe": 1.0}
    assert seen(laboratory, pull) == (whole, whole)


def test_a_guess_at_an_early_measure_of_somebody_else_is_no_correction(service, measured):
    mine, laboratory, pull = measured
    url = f"/v1/studies/measured/pulls/{pull}"
    assert laboratory.post(f"{url}/known", {"values": {"cd4": 0.8125}}).status_code == 200
    before = service.study("measured").head_hash
    answers = [
        mine.post(f"{url}/amend", {"value": {"cd4": guess}, "reason": "typing error"})
        for guess in (0.8125, 0.5)
    ]
    assert [answer.status_code for answer in answers] == [403, 403]
    assert answers[0].content == answers[1].content
    assert service.study("measured").head_hash == before


def test_an_early_correction_by_somebody_else_is_not_shown_to_whoever_told_the_value(
    service, measured
):
    mine, laboratory, pull = measured
    url = f"/v1/studies/measured/pulls/{pull}"
    assert mine.post(f"{url}/known", {"values": {"cd4": 0.25}}).status_code == 200
    corrected = {"value": {"cd4": 0.8125}, "reason": "laboratory"}
    assert laboratory.post(f"{url}/amend", corrected).status_code == 200
    assert seen(mine, pull) == ({"cd4": 0.25}, None)
    before = service.study("measured").head_hash
    for guess in (0.8125, 0.25, 0.5):
        typed = {"value": {"cd4": guess}, "reason": "typing error"}
        assert mine.post(f"{url}/amend", typed).status_code == 403
        for path, body in guesses(pull, {"cd4": guess, "safe": 1}):
            assert mine.post(path, body).status_code == 409, path
    assert service.study("measured").head_hash == before
    # Nor is it after the ward has told the last measure.
    told = mine.post(f"{url}/known", {"values": {"safe": 1}})
    assert "0.8125" not in told.text
    assert seen(mine, pull) == ({"cd4": 0.25, "safe": 1.0}, None)
    assert seen(laboratory, pull)[1] == {"cd4": 0.8125, "safe": 1.0}
    for guess in (0.8125, 0.25):
        typed = {"value": {"cd4": guess}, "reason": "typing error"}
        assert mine.post(f"{url}/amend", typed).status_code == 403
    assert mine.post(f"{url}/amend", {"value": {"safe": 0}, "reason": "x"}).status_code == 200
    assert seen(mine, pull) == ({"cd4": 0.25, "safe": 0.0}, None)


@pytest.mark.parametrize("by_laboratory", [True, False])
def test_a_value_that_was_taken_back_is_told_again_by_whoever_knows_it(
    service, measured, by_laboratory
):
    mine, laboratory, pull = measured
    url = f"/v1/studies/measured/pulls/{pull}"
    assert mine.post(f"{url}/known", {"values": {"cd4": 0.25}}).status_code == 200
    back = {"value": {"cd4": None}, "reason": "another patient"}
    assert (laboratory if by_laboratory else mine).post(f"{url}/amend", back).status_code == 200
    assert seen(mine, pull) == (None, None)
    assert mine.post(f"{url}/known", {"values": {"cd4": 0.5}}).status_code == 200
    assert seen(mine, pull) == ({"cd4": 0.5}, None)
    assert mine.post(f"{url}/amend", back).status_code == 200
    assert laboratory.post(f"{url}/known", {"values": {"cd4": 0.75}}).status_code == 200
    assert seen(mine, pull) == (None, None)
    assert mine.post(f"{url}/amend", back).status_code == 403
    assert mine.post(f"{url}/known", {"values": {"safe": 1}}).status_code == 200
    assert seen(mine, pull) == ({"safe": 1.0}, None)


# ---------------------------------------------------------------- participants and kits


@pytest.fixture
def numbered(service, wards):
    """Two wards of a study whose participants and kits have numbers."""
    problem = Problem(["a", "b"], ["x"], reward_range=(0, 1))
    rules = {"participants": "W#-###", "kits": "K####"}
    Study.create(problem, BlockBetting(problem), storage=service.store, name="n", **rules).close()
    return wards


def test_a_ward_finds_its_own_participants_and_nobody_elses(service, numbered):
    mine, theirs = numbered
    url = "/v1/studies/n"
    [pull] = theirs.ask(study="n", participant="W1-001")
    assert pull["participant"] == "W1-001"
    assert theirs.ask(study="n", participant="W1-001")[0]["id"] == pull["id"]
    found = f"{url}/pulls?state=all&participant=W1-001"
    assert [one["id"] for one in theirs.get(found).json()["pulls"]] == [pull["id"]]
    assert mine.get(found).json()["pulls"] == []
    assert service.read.get(found).json()["pulls"][0]["id"] == pull["id"]
    # Neither the arm nor the pull of the participant is told to somebody else who asks for it.
    refused = mine.post(f"{url}/asks", {"n": 1, "participant": "W1-001"})
    assert (refused.status_code, refused.json()["errors"][0]["name"]) == (422, "participant")
    assert pull["id"] not in refused.text
    assert theirs.post(f"{url}/pulls/{pull['id']}/kit", {"kit": "K0001"}).status_code == 200
    assert theirs.get(f"{url}/pulls/{pull['id']}").json()["kits"] == ["K0001"]
    assert mine.post(f"{url}/pulls/{pull['id']}/kit", {"kit": "K0002"}).status_code == 403


def test_what_may_be_personal_is_not_repeated_in_an_answer(numbered):
    mine, _ = numbered
    refused = mine.post("/v1/studies/n/asks", {"n": 1, "participant": "Anna Smith"})
    assert refused.status_code == 422
    assert "Anna" not in refused.text
    assert "never a name" in refused.text
