"""What those who recruit or treat can find out about results that others told: nothing."""

import hashlib

import pytest

from fairtrial.server.blinding import seal
from fairtrial.study import Study
from fairtrial.subpopulations import BlockBetting, Problem

URL = "/v1/studies/trial"


@pytest.fixture
def wards(service):
    """Two people who recruit."""
    return service.run, service.caller("ward 4", ["run"])


def told(caller, value):
    """Return a pull that somebody has told."""
    pull = caller.ask()[0]["id"]
    assert caller.post(f"{URL}/pulls/{pull}/tell", {"value": value}).status_code == 200
    return pull


def writes(pull, value):
    """Return every request that tells a pull's result again."""
    return [
        (f"{URL}/pulls/{pull}/tell", {"value": value}),
        (f"{URL}/tells", {"outcomes": [{"pull": pull, "value": value}]}),
        (f"{URL}/asks", {"n": 1, "tell": {"pull": pull, "value": value}}),
        (f"{URL}/pulls/{pull}/amend", {"value": value, "reason": "typing error"}),
    ]


def test_whoever_guesses_somebody_elses_result_learns_nothing(service, wards):
    mine, theirs = wards
    pull = told(theirs, 1)
    before = service.study().head_hash, service.store.find_study("trial").duplicates
    for (path, right), (_, wrong) in zip(writes(pull, 1), writes(pull, 0), strict=True):
        answers = mine.post(path, right), mine.post(path, wrong)
        assert {answer.status_code for answer in answers} <= {403, 409}
        assert answers[0].content == answers[1].content
    assert (service.study().head_hash, service.store.find_study("trial").duplicates) == before


def test_ones_own_result_may_be_told_again_and_corrected(wards):
    mine, _ = wards
    pull = told(mine, 1)
    assert [mine.post(path, body).status_code for path, body in writes(pull, 1)] == [200] * 4
    amended = mine.post(f"{URL}/pulls/{pull}/amend", {"value": 0, "reason": "typing error"})
    assert amended.json()["kind"] == "amend"


def test_whoever_may_read_corrects_what_others_told(service, wards):
    _, theirs = wards
    pull = told(theirs, 1)
    monitor = service.caller("data manager", ["run", "read"])
    answers = [monitor.post(path, body) for path, body in writes(pull, 1)]
    assert [answer.status_code for answer in answers] == [200] * 4
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
    assert answer.status_code == 200
    assert "died" not in answer.text


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
    assert [answer.status_code for answer in answers] == [409, 200, 409, 422, 200]
    assert not [answer for answer in answers if "0.8125" in answer.text]
    assert "0.8125" in service.read.get(url).text
