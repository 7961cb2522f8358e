"""Pulls over HTTP: asked, told, reported, failed, corrected, each once."""

import math
import re
import time

import pytest

from fairtrial import subpopulations
from fairtrial.errors import ConflictingOutcome
from fairtrial.server.problems import slug_of
from fairtrial.study import Study
from fairtrial.study.memory import MemoryStore
from tests.study.toys import (
    Arrivals,
    Averaging,
    GroupProblem,
    Racing,
    RecordProblem,
    Serving,
    ToyProblem,
)

URL = "/v1/studies/trial"


def kinds(service):
    return [event.kind for event in service.study().events()]


@pytest.fixture
def race(serve, clock):
    """A service whose study takes readings, and whose clock is set by hand."""
    store = MemoryStore(clock=clock)
    problem = ToyProblem()
    Study.create(problem, Racing(problem, slots=5), storage=store, name="trial", seed=7)
    return serve(store)


def pull_url(pull, what):
    return f"{URL}/pulls/{pull['id']}/{what}"


def test_pulls_are_issued_to_whoever_asks(service):
    answer = service.run.post(f"{URL}/asks", {"n": 3, "lease": 60})
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    pulls = answer.json()["pulls"]
    assert [pull["number"] for pull in pulls] == [0, 1, 2]
    assert {pull["worker"] for pull in pulls} == {"ward 3"}
    assert set(pulls[0]["labels"]) == {"arm", "group"}
    assert pulls[0]["state"] == "open"
    assert pulls[0]["lease_until"].endswith("+00:00")


def test_an_empty_answer_near_a_planned_end_says_why_to_whoever_asked(serve):
    store = MemoryStore()
    problem = subpopulations.Problem(["a", "b"], ["x", "y"], reward_range=(0, 1))
    policy = subpopulations.BlockBetting(problem, max_pulls=60, planned_end=True)
    study = Study.create(problem, policy, storage=store, name="trial", seed=7)
    service = serve(store)
    told = study.ask(60)
    assert len(told) == 60
    answer = service.run.post(f"{URL}/asks", {"n": 1}).json()
    why = (
        "all pulls until the planned end have been handed out; 60 results are still open: "
        "whoever comes now has no place in the study"
    )
    assert answer == {"pulls": [], "stopped": False, "reason": why}
    for pull in told:
        study.tell(pull, 0.5)
    assert service.run.post(f"{URL}/asks", {"n": 1}).json() == {"pulls": [], "stopped": True}


def test_an_outcome_is_told_once_and_has_an_actor(service):
    [pull] = service.run.ask()
    first = service.run.post(pull_url(pull, "tell"), {"value": 0.5})
    again = service.run.post(pull_url(pull, "tell"), {"value": 0.5})
    other = service.run.post(pull_url(pull, "tell"), {"value": 0.75})
    assert first.status_code == 200
    assert first.json()["actor"] == "ward 3"
    assert again.json() == first.json()
    assert other.status_code == 409
    assert other.json()["type"].endswith(slug_of(ConflictingOutcome))


def test_a_conflict_does_not_tell_a_runner_what_another_one_told(service):
    [pull] = service.run.ask()
    service.admin.post(pull_url(pull, "tell"), {"value": 0.8125})
    refused = service.run.post(pull_url(pull, "tell"), {"value": 0.25})
    assert refused.status_code == 409
    assert "0.8125" not in refused.text
    assert "0.8125" in service.admin.post(pull_url(pull, "tell"), {"value": 0.25}).text


def test_a_runner_does_not_correct_what_another_one_told(service):
    [pull] = service.run.ask()
    service.admin.post(pull_url(pull, "tell"), {"value": 0.8125})
    amended = service.run.post(pull_url(pull, "amend"), {"value": 0.25, "reason": "sign"})
    assert amended.status_code == 403
    assert "0.8125" not in amended.text
    assert kinds(service)[-1] == "tell"


def test_an_outcome_and_the_next_ask_are_one_write(service):
    [pull] = service.run.ask()
    told = {"pull": pull["id"], "value": 0.5}
    answer = service.run.post(f"{URL}/asks", {"n": 2, "tell": told}).json()
    assert [pull["number"] for pull in answer["pulls"]] == [1, 2]
    assert kinds(service) == ["ask", "tell", "ask", "ask"]
    refused = service.run.post(f"{URL}/asks", {"n": 2, "tell": {**told, "value": 7}})
    assert refused.status_code == 422
    assert len(kinds(service)) == 4


def test_many_outcomes_are_taken_or_none(service):
    first, second = service.run.ask(2)
    good = [{"pull": first["id"], "value": 0.5}, {"arm": "a", "group": "x", "value": 1}]
    bad = [*good, {"pull": second["id"], "value": 2}, {"arm": "c", "group": "x", "value": 1}]
    refused = service.run.post(f"{URL}/tells", {"outcomes": bad})
    assert refused.status_code == 422
    assert [item["name"] for item in refused.json()["errors"]] == ["outcomes[2]", "outcomes[3]"]
    assert kinds(service) == ["ask", "ask"]
    taken = service.run.post(f"{URL}/tells", {"outcomes": good})
    assert [event["kind"] for event in taken.json()["events"]] == ["tell", "unsolicited"]
    assert {event["actor"] for event in taken.json()["events"]} == {"ward 3"}


def test_a_batch_has_a_limit(serve):
    service = serve(batch_limit=3)
    service.admin.create()
    assert service.run.post(f"{URL}/asks", {"n": 4}).status_code == 413
    outcomes = [{"arm": "a", "group": "x", "value": 1}] * 4
    assert service.run.post(f"{URL}/tells", {"outcomes": outcomes}).status_code == 413
    assert service.run.post(f"{URL}/tells", {"outcomes": outcomes[:3]}).status_code == 200
    assert len(service.run.ask(3)) == 3


def test_readings_say_whether_the_pull_still_matters(race):
    [pull] = race.run.ask()
    answer = race.run.post(pull_url(pull, "report"), {"value": 0.5, "stage": 1, "note": "early"})
    assert answer.status_code == 200
    event = answer.json()
    assert (event["kind"], event["value"], event["stage"]) == ("report", 0.5, 1)
    assert event["body"]["details"] == {"note": "early"}
    assert event["should_stop"] is False
    race.admin.post(f"{URL}/stop", {"reason": "over"})
    again = race.run.post(pull_url(pull, "report"), {"value": 0.5, "stage": 2}).json()
    assert again["should_stop"] is True
    assert [row["id"] for row in race.run.get(f"{URL}/to_cancel").json()["pulls"]] == [pull["id"]]


def test_a_heartbeat_extends_a_lease_until_the_pull_is_given_up(race, clock):
    [pull] = race.run.ask(lease=10)
    clock.advance(9)
    extended = race.run.post(pull_url(pull, "heartbeat"), {"lease": 10}).json()
    assert extended.pop("should_stop") is False
    shown = race.run.get(f"{URL}/pulls/{pull['id']}").json()
    assert extended == {
        "pull": pull["id"],
        "number": pull["number"],
        "lease_until": shown["lease_until"],
    }
    assert shown["lease_until"] > pull["lease_until"]
    assert kinds(race) == ["ask"]
    clock.advance(9)
    assert race.run.post(pull_url(pull, "heartbeat"), {"lease": 10}).status_code == 200
    clock.advance(11)
    gone = race.run.post(pull_url(pull, "heartbeat"), {"lease": 10})
    assert gone.status_code == 410
    assert gone.json()["type"] == "urn:fairtrial:problem:pull-closed"
    late = race.run.post(pull_url(pull, "tell"), {"value": 0.5})
    assert late.json()["kind"] == "late_tell"
    told = race.run.post(pull_url(pull, "heartbeat"), {"lease": 10})
    assert (told.status_code, told.json()["type"]) == (409, "urn:fairtrial:problem:already-told")


def test_health_sees_a_heartbeat(race, clock):
    [pull] = race.run.ask(lease=10)
    race.run.post(pull_url(pull, "heartbeat"), {"lease": 20})
    clock.advance(11)
    assert race.read.get(f"{URL}/health").json()["overdue"] == 0
    clock.advance(10)
    assert race.read.get(f"{URL}/health").json()["overdue"] == 1


def test_a_heartbeat_sent_twice_is_harmless(race, clock):
    [pull] = race.run.ask(lease=10)
    first = race.run.post(pull_url(pull, "heartbeat"), {"lease": 10}, key="h")
    clock.advance(5)
    again = race.run.post(pull_url(pull, "heartbeat"), {"lease": 10}, key="h")
    assert again.json()["lease_until"] > first.json()["lease_until"]
    clock.advance(6)
    race.run.post(pull_url(pull, "tell"), {"value": 0.5})
    late = race.run.post(pull_url(pull, "heartbeat"), {"lease": 10}, key="h")
    assert late.status_code == 409
    assert kinds(race) == ["ask", "tell"]


def test_a_worker_cannot_extend_a_pull_that_the_service_handed_to_another(serve, clock):
    store = MemoryStore(clock=clock)
    problem = ToyProblem()
    Study.create(problem, Serving(problem), storage=store, name="trial", seed=7)
    service = serve(store)
    one, two = service.caller("one", ["run", "read"]), service.caller("two", ["run", "read"])
    [pull] = one.ask(lease=10)
    clock.advance(11)
    assert two.ask(lease=10)[0]["id"] == pull["id"]
    refused = one.post(pull_url(pull, "heartbeat"), {"lease": 10})
    assert (refused.status_code, refused.json()["type"]) == (
        410,
        "urn:fairtrial:problem:pull-closed",
    )
    assert two.post(pull_url(pull, "heartbeat"), {"lease": 10}).status_code == 200


@pytest.mark.parametrize("what", ["fail", "cancel"])
def test_a_pull_is_given_up_with_a_reason_once(service, what):
    [pull] = service.run.ask()
    for body in ({}, {"reason": ""}, {"reason": " \n"}, {"reason": 1}):
        assert service.run.post(pull_url(pull, what), body).status_code == 422
    first = service.run.post(pull_url(pull, what), {"reason": "the vial broke"})
    again = service.run.post(pull_url(pull, what), {"reason": "another"})
    assert (first.json()["kind"], first.json()["reason"]) == (what, "the vial broke")
    assert again.json() == first.json()


def test_an_outcome_is_corrected_with_a_reason(service):
    [pull] = service.run.ask()
    unknown = service.run.post(pull_url(pull, "amend"), {"value": 0.5, "reason": "sign"})
    assert unknown.status_code == 404
    service.run.post(pull_url(pull, "tell"), {"value": 0.5})
    assert service.run.post(pull_url(pull, "amend"), {"value": 0.25}).status_code == 422
    event = service.run.post(pull_url(pull, "amend"), {"value": 0.25, "reason": "sign"}).json()
    assert (event["value"], event["reason"], event["actor"]) == (0.25, "sign", "ward 3")
    event = service.admin.post(pull_url(pull, "amend"), {"value": 0.75, "reason": "no"}).json()
    assert (event["value"], event["body"]["old"]) == (0.75, 0.25)


def test_outcomes_of_named_fields_travel_whole(serve):
    store = MemoryStore()
    problem = RecordProblem()
    Study.create(problem, Averaging(problem), storage=store, name="trial", seed=7)
    service = serve(store)
    [pull] = service.run.ask()
    event = service.run.post(pull_url(pull, "tell"), {"value": {"s": 0.5, "y": 1}}).json()
    assert event["value"] is None
    assert event["body"]["outcome"] == {"s": 0.5, "y": 1.0}
    assert service.run.post(pull_url(pull, "tell"), {"value": {"s": 1}}).status_code == 422


def test_a_context_is_what_the_family_knows(serve):
    store = MemoryStore()
    problem = GroupProblem()
    Study.create(problem, Arrivals(problem), storage=store, name="trial", seed=7)
    service = serve(store)
    [pull] = service.run.ask(context={"group": "y"})
    assert pull["labels"]["group"] == "y"
    for context in ({"colour": "red"}, {"n": 5}, {"a b": 1}, {"worker": "x"}, {"self": 1}, {"": 1}):
        refused = service.run.post(f"{URL}/asks", {"context": context})
        assert refused.status_code == 422, refused.text
        assert "context" in refused.text
    missing = service.run.post(f"{URL}/asks", {})
    assert missing.status_code == 422, missing.text
    assert [error["name"] for error in missing.json()["errors"]] == ["group"]
    assert kinds(service) == ["ask"]


def test_a_context_has_no_names_of_ask_itself_whatever_the_policy_takes(race):
    for name in ("self", "n", "worker", "lease", "request_id", "a b"):
        refused = race.run.post(f"{URL}/asks", {"context": {name: 1}})
        assert refused.status_code == 422, refused.text
        assert [error["name"] for error in refused.json()["errors"]] == ["context"]
    assert kinds(race) == []


def test_open_pulls_are_listed_page_by_page_and_others_only_to_readers(service):
    pulls = service.run.ask(5)
    service.run.post(pull_url(pulls[1], "tell"), {"value": 0.5})
    first = service.run.get(f"{URL}/pulls?limit=3").json()
    assert [pull["number"] for pull in first["pulls"]] == [0, 2, 3]
    rest = service.run.get(f"{URL}/pulls?limit=3&after={first['next']}").json()
    assert ([pull["number"] for pull in rest["pulls"]], rest["next"]) == ([4], None)
    [told] = service.run.get(f"{URL}/pulls?state=told").json()["pulls"]
    assert (told["number"], told["entered"]) == (1, 0.5)
    assert service.caller("ward 4", ["run"]).get(f"{URL}/pulls?state=all").json()["pulls"] == []
    told = service.read.get(f"{URL}/pulls?state=told").json()["pulls"]
    assert [pull["number"] for pull in told] == [1]
    assert len(service.read.get(f"{URL}/pulls?state=all").json()["pulls"]) == 5


def test_an_outcome_is_seen_by_readers_and_by_whoever_told_it(service):
    [pull] = service.run.ask()
    service.run.post(pull_url(pull, "tell"), {"value": 0.5})
    url = f"{URL}/pulls/{pull['id']}"
    other = service.caller("ward 4", ["run"])
    assert service.run.get(url).json()["outcome"] == 0.5
    assert service.read.get(url).json()["outcome"] == 0.5
    assert "outcome" not in other.get(url).json()
    assert service.run.get(url).json()["should_stop"] is True


@pytest.mark.parametrize("what", ["tell", "report", "fail", "cancel", "amend", "heartbeat"])
def test_an_unknown_pull_is_not_found(service, what):
    body = {
        "tell": {"value": 0.5},
        "report": {"value": 0.5},
        "amend": {"value": 0.5, "reason": "x"},
        "heartbeat": {"lease": 5},
    }.get(what, {"reason": "x"})
    answer = service.run.post(f"{URL}/pulls/{'0' * 32}/{what}", body)
    assert answer.status_code == 404
    assert answer.json()["type"] == "urn:fairtrial:problem:unknown-pull"


# ------------------------------------------------------------------- idempotency keys


def test_the_same_request_again_gets_the_first_answer(service):
    first = service.run.post(f"{URL}/asks", {"n": 2}, key="k")
    again = service.run.post(f"{URL}/asks", {"n": 2}, key="k")
    assert again.content == first.content
    assert len(kinds(service)) == 2
    another = service.run.post(f"{URL}/asks", {"n": 3}, key="k")
    assert another.status_code == 422
    assert another.json()["errors"][0]["name"] == "Idempotency-Key"


def test_the_key_holds_whatever_happens_in_between(service):
    [pull] = service.run.ask()
    told = service.run.post(pull_url(pull, "tell"), {"value": 0.5}, key="k")
    service.run.post(pull_url(pull, "amend"), {"value": 0.25, "reason": "sign"})
    again = service.run.post(pull_url(pull, "tell"), {"value": 0.5}, key="k")
    assert again.content == told.content


def test_keys_of_two_people_and_of_two_studies_are_two_keys(service):
    service.admin.create("other")
    first = service.run.post(f"{URL}/asks", {}, key="k").json()
    second = service.run.post("/v1/studies/other/asks", {}, key="k").json()
    assert first["pulls"][0]["id"] != second["pulls"][0]["id"]


def test_unsolicited_results_count_once(service):
    outcomes = {"outcomes": [{"arm": "a", "group": "x", "value": 1}] * 3}
    first = service.run.post(f"{URL}/tells", outcomes, key="k")
    again = service.run.post(f"{URL}/tells", outcomes, key="k")
    assert first.content == again.content
    assert kinds(service) == ["unsolicited"] * 3


def test_a_key_outlives_the_memory_of_answers_as_the_name_of_the_event(service):
    first = service.run.post(f"{URL}/asks", {"n": 2}, key="k").json()
    service.store.transact(lambda: service.store.drop_answers(2**62, 2**62))
    again = service.run.post(f"{URL}/asks", {"n": 2}, key="k").json()
    assert [pull["id"] for pull in again["pulls"]] == [pull["id"] for pull in first["pulls"]]
    assert len(kinds(service)) == 2


def test_a_request_that_failed_may_be_given_again(service):
    [pull] = service.run.ask()
    assert service.run.post(pull_url(pull, "tell"), {"value": 7}, key="k").status_code == 422
    assert service.run.post(pull_url(pull, "tell"), {"value": 0.5}, key="k").status_code == 200


@pytest.mark.parametrize("key", ["", "x" * 201, "a b", "ä".encode()])
def test_a_key_is_a_short_text_of_ascii(service, key):
    answer = service.client.post(
        f"{URL}/asks", headers={**service.run.headers, "Idempotency-Key": key}, json={}
    )
    assert answer.status_code == 422


# ----------------------------------------------------------------------- hostile bodies


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"value": NaN}',
        '{"value": Infinity}',
        '{"value": -Infinity}',
        '{"value": 1e999}',
        '{"value": 0.5, "value": 0.6}',
        '{"value": "\\ud800"}',
        "[" * 100_000,
        '{"value":' * 50 + "1" + "}" * 50,
        '{"value": ' + "9" * 5_000 + "}",
        "\ufeff{}",
        '{"value": 0.5} x',
    ],
)
def test_what_is_not_strictly_json_is_refused(service, text):
    [pull] = service.run.ask()
    answer = service.client.post(
        pull_url(pull, "tell"),
        headers={**service.run.headers, "Content-Type": "application/json"},
        content=text.encode("utf-8", "surrogatepass"),
    )
    assert answer.status_code in (400, 422), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert kinds(service) == ["ask"]


@pytest.mark.parametrize(
    "value",
    [None, True, "0.5", [], {}, {"a": 1}, 10**400, -(10**400), 2**63, math.pi * 1e300, [[[]]]],
)
def test_what_is_no_outcome_is_refused(service, value):
    [pull] = service.run.ask()
    answer = service.run.post(pull_url(pull, "tell"), {"value": value})
    assert answer.status_code == 422, answer.text
    assert kinds(service) == ["ask"]


@pytest.mark.parametrize(
    "body",
    [
        {"n": -1},
        {"n": 1.5},
        {"n": True},
        {"n": "1"},
        {"n": None},
        {"n": 10**30},
        {"lease": 0},
        {"lease": -1},
        {"lease": "x"},
        {"lease": 1e10},
        {"context": []},
        {"context": {"group": {"a": []}}},
        {"tell": {}},
        {"tell": {"pull": "", "value": 1}},
        {"tell": {"pull": "\0", "value": 1}},
        {"tell": {"pull": 5, "value": 1}},
        {"m": 1},
        [],
        "x",
        5,
        None,
    ],
)
def test_what_is_no_ask_is_refused(service, body):
    import json

    answer = service.client.post(
        f"{URL}/asks",
        headers={**service.run.headers, "Content-Type": "application/json"},
        content=json.dumps(body),
    )
    assert answer.status_code in (404, 413, 422), answer.text
    assert kinds(service) == []


@pytest.mark.parametrize(
    "kind",
    ["", "text/plain", "application/xml", "application/json; charset=utf-16", "application/jsonx"],
)
def test_another_content_type_is_refused(service, kind):
    answer = service.client.post(
        f"{URL}/asks", headers={**service.run.headers, "Content-Type": kind}, content=b"{}"
    )
    assert answer.status_code == 415
    assert kinds(service) == []


@pytest.mark.parametrize("text", ["<script>", "\x1b[2J", "\u202e", "a\nb", "'; DROP TABLE event"])
def test_any_text_comes_back_as_it_was_and_as_nothing_else(service, text):
    [pull] = service.run.ask()
    answer = service.run.post(pull_url(pull, "fail"), {"reason": text})
    assert answer.json()["reason"] == text
    assert answer.headers["content-type"] == "application/json"
    shown = service.read.get(f"{URL}/events").json()["events"][-1]
    assert shown["reason"] == text
    assert service.study().verify().ok


@pytest.mark.parametrize("name", ["self", "pull", "actor", "request_id", "a b"])
def test_names_that_no_family_knows_are_refused(service, name):
    pull = service.run.ask()[0]["id"]
    before = service.study().head_hash
    refused = [
        service.run.post(f"{URL}/pulls/{pull}/report", {"value": 0.5, name: 1}),
        service.run.post(f"{URL}/tells", {"outcomes": [{name: "a", "group": "x", "value": 1}]}),
        service.run.post(f"{URL}/asks", {"context": {name: 1}}),
    ]
    assert [answer.status_code for answer in refused] == [422] * 3
    assert service.study().head_hash == before


@pytest.mark.parametrize(
    ("value", "given"), [(True, "true"), ("0.5", '"0.5"'), (None, "null"), ([1], "[1]")], ids=str
)
def test_what_is_no_outcome_gets_one_sentence_in_the_words_of_json(service, value, given):
    [pull] = service.run.ask()
    refused = service.run.post(pull_url(pull, "tell"), {"value": value})
    assert refused.status_code == 422
    expected = f"must be a number or an object with named values; got {given}"
    assert refused.json()["errors"] == [{"name": "value", "message": expected}]
    many = service.run.post(f"{URL}/tells", {"outcomes": [{"pull": pull["id"], "value": value}]})
    assert [error["name"] for error in many.json()["errors"]] == ["outcomes[0].value"]


def test_what_a_study_cannot_be_asked_for_is_named(service):
    refused = service.run.post(f"{URL}/asks", {"context": {"stratum": "x"}})
    assert refused.status_code == 422
    assert [error["name"] for error in refused.json()["errors"]] == ["context.stratum"]
    assert "choose" not in refused.text


def test_no_message_has_words_of_python(service):
    problem = subpopulations.Problem(["a", "b"], ["x"], reward_range=(0, 1)).to_dict()
    policy = {"name": "BlockBetting", "randomize": None}
    body = {"name": "other", "problem": problem, "policy": policy}
    refused = service.admin.post("/v1/studies", body)
    assert refused.status_code == 422
    assert "got null" in refused.json()["detail"]
    assert not re.search("None|True|False", refused.text)


# ------------------------------------------------------------------- too many open pulls


def test_a_token_has_at_most_half_of_the_open_pulls_of_a_study(serve):
    service = serve(open_pulls=20)
    service.admin.create()
    other = service.caller("other", ["run"])
    assert len(service.run.ask(10)) == 10
    refused = service.run.post(f"{URL}/asks", {"n": 1})
    assert refused.status_code == 409
    assert refused.json()["type"].endswith("nothing-to-ask")
    for word in ("open_pulls", "'ward 3'", "10"):
        assert word in refused.json()["detail"]
    assert len(other.ask(10)) == 10
    third = service.caller("third", ["run"])
    assert third.post(f"{URL}/asks", {"n": 1}).status_code == 409
    mine = service.run.get(f"{URL}/pulls").json()["pulls"][0]["id"]
    assert service.run.post(f"{URL}/pulls/{mine}/tell", {"value": 1}).status_code == 200
    assert len(service.run.ask(1)) == 1


def test_pulls_whose_lease_is_over_make_room(serve):
    service = serve(open_pulls=20)
    service.admin.create()
    leased = {"n": 10, "lease": 0.05}
    assert len(service.run.post(f"{URL}/asks", leased).json()["pulls"]) == 10
    time.sleep(0.1)
    assert len(service.run.ask(10)) == 10
    assert service.run.post(f"{URL}/asks", {"n": 1}).status_code == 409


def test_a_result_is_recorded_with_the_wish_for_a_pull_that_has_no_room(serve):
    service = serve(open_pulls=2)
    service.admin.create()
    (mine,) = service.run.ask(1)
    told = {"pull": mine["id"], "value": 1}
    answer = service.run.post(f"{URL}/asks", {"n": 1, "tell": told})
    assert len(answer.json()["pulls"]) == 1
    told = {"pull": answer.json()["pulls"][0]["id"], "value": 1}
    answer = service.run.post(f"{URL}/asks", {"n": 5, "tell": told})
    assert answer.status_code == 200
    assert answer.json()["pulls"] == []
    assert service.study().progress().told == 2


def test_a_result_that_is_told_again_makes_no_room(serve):
    service = serve(open_pulls=2)
    service.admin.create()
    (first,) = service.run.ask(1)
    body = {"n": 1, "tell": {"pull": first["id"], "value": 1}}
    assert len(service.run.post(f"{URL}/asks", body).json()["pulls"]) == 1
    again = service.run.post(f"{URL}/asks", body)
    assert (again.status_code, again.json()["pulls"]) == (200, [])
    assert len(service.run.get(f"{URL}/pulls").json()["pulls"]) == 1


def test_an_overdue_pull_makes_room_only_once(serve):
    service = serve(open_pulls=4)
    service.admin.create()
    (first,) = service.run.post(f"{URL}/asks", {"n": 1, "lease": 0.05}).json()["pulls"]
    assert len(service.run.ask(1)) == 1
    time.sleep(0.1)
    body = {"n": 2, "tell": {"pull": first["id"], "value": 1}}
    assert service.run.post(f"{URL}/asks", body).json()["pulls"] == []
    assert len(service.run.post(f"{URL}/asks", body | {"n": 1}).json()["pulls"]) == 1


def test_the_result_of_another_persons_pull_makes_no_room_for_ones_own(serve):
    service = serve(open_pulls=4)
    service.admin.create()
    (theirs,) = service.run.ask(1)
    assert len(service.admin.ask(2)) == 2
    body = {"n": 1, "tell": {"pull": theirs["id"], "value": 1}}
    assert service.admin.post(f"{URL}/asks", body).json()["pulls"] == []


def test_a_request_without_room_may_be_repeated_once_there_is_room(serve):
    service = serve(open_pulls=4)
    service.admin.create()
    first, second = service.run.ask(2)
    body = {"n": 2, "tell": {"pull": first["id"], "value": 1}}
    assert service.run.post(f"{URL}/asks", body, key="k").json()["pulls"] == []
    service.store.transact(lambda: service.store.drop_answers(2**62, 2**62))
    assert service.run.post(pull_url(second, "tell"), {"value": 1}).status_code == 200
    again = service.run.post(f"{URL}/asks", body, key="k")
    assert (again.status_code, len(again.json()["pulls"])) == (200, 2)
    assert service.study().progress().told == 2


def test_pulls_are_handed_out_again_without_room_for_more(serve):
    service = serve(open_pulls=2)
    service.admin.create()
    first = service.run.post(f"{URL}/asks", {}, key="k").json()
    service.store.transact(lambda: service.store.drop_answers(2**62, 2**62))
    assert service.run.post(f"{URL}/asks", {}, key="k").json() == first
    assert service.run.post(f"{URL}/asks", {}, key="other").status_code == 409


def test_one_open_pull_may_be_the_most(serve):
    service = serve(open_pulls=1)
    service.admin.create()
    assert len(service.run.ask(1)) == 1
    assert service.run.post(f"{URL}/asks", {"n": 1}).status_code == 409


def test_lists_of_pulls_are_read_a_page_at_a_time(service):
    asked = [pull["id"] for pull in service.admin.ask(25)]
    for number in range(0, 25, 2):
        service.admin.post(f"{URL}/pulls/{asked[number]}/tell", {"value": 1})
    for state, expected in {"open": asked[1::2], "told": asked[::2], "all": asked}.items():
        found, after = [], ""
        while after is not None:
            page = service.admin.get(f"{URL}/pulls?state={state}&limit=4{after}").json()
            found += [pull["id"] for pull in page["pulls"]]
            after = None if page["next"] is None else f"&after={page['next']}"
        assert found == expected, state


def test_a_prediction_is_recorded_with_the_ask_and_refused_with_the_result(serve):
    from fairtrial.study.memory import MemoryStore
    from fairtrial.subpopulations import BlockBetting, Problem

    store = MemoryStore()
    problem = Problem(2, ["x"], floors=None, reward_range=(0, 1), prediction=(0, 1))
    Study.create(problem, BlockBetting(problem), storage=store, name="trial", seed=7)
    service = serve(store)
    [pull] = service.run.ask(context={"group": "x", "prediction": 0.25})
    for context, n in (({}, 1), ({"prediction": "high"}, 1), ({"prediction": 0.5}, 2)):
        refused = service.run.post(f"{URL}/asks", {"n": n, "context": {"group": "x", **context}})
        assert refused.status_code == 422, refused.text
    late = {"value": 1.0, "prediction": 0.5}
    assert service.run.post(pull_url(pull, "tell"), late).status_code == 422
    assert service.run.post(pull_url(pull, "tell"), {"value": 1.0}).status_code == 200
    assert kinds(service) == ["ask", "tell"]


def test_predictions_of_measures_are_recorded_by_name(serve):
    from fairtrial.study.memory import MemoryStore
    from fairtrial.subpopulations import BlockBetting, Problem

    store = MemoryStore()
    problem = Problem(
        2,
        ["x"],
        measures={"cured": (0, 1), "harmed": (0, 1)},
        objective="cured",
        prediction={"cured": (0, 1), "harmed": (0, 1)},
    )
    Study.create(problem, BlockBetting(problem), storage=store, name="trial", seed=7)
    service = serve(store)
    known = {"group": "x", "prediction": {"cured": 0.25, "harmed": 0.5}}
    [pull] = service.run.ask(context=known)
    for prediction in (0.5, {"cured": 0.5}, {"cured": 0.5, "harmed": "high"}, {"cure": 0.5}):
        context = {"group": "x", "prediction": prediction}
        refused = service.run.post(f"{URL}/asks", {"n": 1, "context": context})
        assert refused.status_code == 422, refused.text
    value = {"cured": 1.0, "harmed": None}
    assert service.run.post(pull_url(pull, "tell"), {"value": value}).status_code == 200
    event, _ = Study.open(store, "trial").events()
    assert event.body["context"] == known
