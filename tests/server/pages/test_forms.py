"""Carrying out a study by hand, in a browser that runs no script."""

from __future__ import annotations

import re
from contextlib import contextmanager

import pytest

from fairtrial import causal, delayed, linear
from fairtrial.study import Study
from fairtrial.study.memory import MemoryStore
from fairtrial.subpopulations import BlockBetting, Problem
from tests.server.pages.people import forms_of, visited
from tests.server.pages.sites import of_family
from tests.testing import families

PULLS = "/studies/wards/pulls"
FORMS = "/studies/wards/forms"


def events(storage, name="wards"):
    return list(Study.open(storage, name).events())


def asked(person, **typed):
    """Ask for a pull and return its page."""
    answer = person.send(PULLS, f"{FORMS}/ask", **typed)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"].partition("?")[0]


def test_whoever_recruits_asks_and_tells_and_the_log_names_them(people, storage):
    clinic = people["clinic"]
    pull = asked(clinic)
    answer = clinic.send(pull, f"{FORMS}/tell", value="0.75")
    assert answer.status_code == 303
    last = events(storage)[-1]
    assert (last.kind, last.value, last.actor) == ("tell", 0.75, "clinic")
    assert f"recorded, as event {last.seq}" in clinic.get(answer.headers["location"]).text


def test_a_decimal_comma_is_read_as_a_point(people, storage):
    pull = asked(people["clinic"])
    assert people["clinic"].send(pull, f"{FORMS}/tell", value="0,25").status_code == 303
    assert events(storage)[-1].value == 0.25


def test_several_pulls_are_asked_for_the_group_that_is_there(people, storage):
    answer = people["clinic"].send(
        PULLS, f"{FORMS}/ask", n="3", context_group="65 and over", lease="2", unit="hours"
    )
    assert answer.headers["location"] == f"{PULLS}?done=ask-3"
    assert "3 pulls asked for" in people["clinic"].get(answer.headers["location"]).text
    for event in events(storage)[-3:]:
        assert event.body["context"] == {"group": "65 and over"}
        assert (event.lease_until - event.at).total_seconds() == pytest.approx(7200, abs=1)


def test_a_page_says_why_there_is_no_pull_near_a_planned_end():
    store = MemoryStore()
    problem = Problem(["a", "b"], ["x", "y"], reward_range=(0, 1))
    policy = BlockBetting(problem, max_pulls=60, planned_end=True)
    study = Study.create(problem, policy, storage=store, name="wards", seed=5)
    study.ask(60)
    with visited(store) as people:
        answer = people["clinic"].send(PULLS, f"{FORMS}/ask")
        page = people["clinic"].get(answer.headers["location"]).text
    assert "all pulls until the planned end have been handed out; 60 results are still open" in page
    assert "whoever comes now has no place in the study" in page


def test_a_page_says_which_group_has_no_place_left_to_whoever_asked_for_it():
    store = MemoryStore()
    problem = Problem(["a", "b"], ["under 65", "65 & over"], reward_range=(0, 1))
    policy = BlockBetting(problem, max_pulls=60, planned_end=True)
    study = Study.create(problem, policy, storage=store, name="wards", seed=5)
    while study.ask(1, group="65 & over"):
        for pull in study.outstanding():
            study.tell(pull, 0.5)
    with visited(store) as people:
        answer = people["clinic"].send(PULLS, f"{FORMS}/ask", context_group="65 & over")
        page = people["clinic"].get(answer.headers["location"]).text
        other = people["clinic"].get(f"{PULLS}?done=none-nobody").text
    assert "all pulls of group 65 &amp; over until the planned end have been handed out" in page
    assert "whoever of this group comes now has no place in the study" in page
    assert "group nobody" not in other


@contextmanager
def with_predictions(**stated):
    """Yield a study whose units have predictions, and somebody who asks for its pulls."""
    store, problem = MemoryStore(), Problem(2, ["x", "y"], **stated)
    Study.create(problem, BlockBetting(problem), storage=store, name="wards", seed=1)
    with visited(store) as people:
        yield store, people["clinic"]


def test_a_prediction_is_typed_before_the_arm_is_known():
    stated = {"floors": None, "reward_range": (0, 1), "prediction": (0, 1)}
    with with_predictions(**stated) as (store, clinic):
        answer = clinic.send(PULLS, f"{FORMS}/ask", n="1", context_group="x", prediction_0="")
        assert "Prediction: please fill this in." in answer.text
        answer = clinic.send(PULLS, f"{FORMS}/ask", n="2", context_group="x", prediction_0="0,25")
        assert answer.status_code == 422
        assert not [event for event in events(store) if event.kind == "ask"]
        asked(clinic, n="1", context_group="x", prediction_0="0,25")
        assert events(store)[-1].body["context"] == {"group": "x", "prediction": 0.25}


def test_predictions_of_measures_are_typed_each():
    stated = {"cured": (0, 1), "harmed": {"range": (0, 2), "missing": "mean"}}
    measures = {"cured": (0, 1), "harmed": (0, 1)}
    with with_predictions(measures=measures, objective="cured", prediction=stated) as made:
        store, clinic = made
        assert "Prediction of harmed" in clinic.get(PULLS).text
        asked(clinic, n="1", context_group="y", prediction_0="0.5", prediction_1="")
        known = {"group": "y", "prediction": {"cured": 0.5}}
        assert events(store)[-1].body["context"] == known


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"value": ""}, "Result: please fill this in."),
        ({"value": "a lot"}, "This must be a number, such as 0.5; you typed “a lot”."),
        ({"value": "1.5"}, "Reward must be"),
        ({"value": "nan"}, "This must be a number, such as 0.5; you typed “nan”."),
        ({"value": "1e999"}, "This must be a number, such as 0.5; you typed “1e999”."),
        ({"value": "1,234"}, "This must be a number, such as 0.5; you typed “1,234”."),
        ({"value": "<b>bold</b>"}, "&lt;b&gt;bold&lt;/b&gt;"),
    ],
)
def test_a_wrong_result_is_named_beside_its_field_and_stays_there(people, storage, typed, said):
    pull = asked(people["clinic"])
    before = events(storage)
    answer = people["clinic"].send(pull, f"{FORMS}/tell", **typed)
    assert answer.status_code == 422
    beside = answer.text.partition('id="value-error">')[2].partition("</p>")[0]
    assert said in beside
    assert 'aria-invalid="true"' in answer.text
    assert forms_of(answer.text)[f"{FORMS}/tell"]["value"] == typed["value"]
    assert events(storage) == before


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"n": "0"}, "n"),
        ({"n": "1.5"}, "n"),
        ({"n": "1001"}, "n"),
        ({"n": "inf"}, "n"),
        ({"lease": "soon"}, "lease"),
        ({"lease": "-1"}, "lease"),
        ({"lease": "nan"}, "lease"),
        ({"context_group": "children"}, "context_group"),
    ],
)
def test_a_wrong_request_for_pulls_is_named_beside_its_field(people, storage, typed, field):
    before = events(storage)
    answer = people["clinic"].send(PULLS, f"{FORMS}/ask", **typed)
    assert answer.status_code == 422
    assert f'id="{field}-error"' in answer.text
    assert events(storage) == before


def test_a_form_that_is_sent_twice_does_its_work_once(people, storage):
    clinic = people["clinic"]
    form = forms_of(clinic.get(PULLS).text)[f"{FORMS}/ask"]
    first, second = (clinic.client.post(f"{FORMS}/ask", data=form) for _ in range(2))
    assert first.headers["location"] == second.headers["location"]
    pull = first.headers["location"].partition("?")[0]
    form = forms_of(clinic.get(pull).text)[f"{FORMS}/tell"] | {"value": "0.5"}
    before = events(storage)
    assert {clinic.client.post(f"{FORMS}/tell", data=form).status_code for _ in range(3)} == {303}
    assert len(events(storage)) == len(before) + 1


def test_another_result_of_the_same_pull_is_a_conflict_that_names_both(people, storage):
    pull = asked(people["clinic"])
    open_page = people["chief"].get(pull).text
    people["clinic"].send(pull, f"{FORMS}/tell", value="0.5")
    form = forms_of(open_page)[f"{FORMS}/tell"] | {"value": "0.75"}
    before = events(storage)
    answer = people["chief"].client.post(f"{FORMS}/tell", data=form)
    assert answer.status_code == 422
    assert "0.5" in answer.text
    assert forms_of(answer.text)[f"{FORMS}/tell"]["value"] == "0.75"
    assert events(storage) == before


def test_a_result_of_somebody_else_is_neither_named_nor_corrected_by_those_who_recruit(
    people, storage
):
    clinic = people["clinic"]
    pull = asked(clinic)
    form = forms_of(clinic.get(pull).text)[f"{FORMS}/tell"]
    people["chief"].send(pull, f"{FORMS}/tell", value="0.8125")
    before = events(storage)
    for typed in ("0.8125", "0.75"):
        answer = clinic.client.post(f"{FORMS}/tell", data=form | {"value": typed})
        assert answer.status_code == 422
        assert "was told before, perhaps by somebody else" in answer.text
        assert "0.8125" not in answer.text.replace(f'value="{typed}"', "")
    assert f"{FORMS}/amend" not in forms_of(clinic.get(pull).text)
    correction = form | {"value": "0.75", "reason": "typing error"}
    assert clinic.client.post(f"{FORMS}/amend", data=correction).status_code == 403
    assert events(storage) == before


def test_a_result_is_corrected_with_a_reason_only(people, storage):
    pull = asked(people["clinic"])
    people["clinic"].send(pull, f"{FORMS}/tell", value="0.5")
    refused = people["clinic"].send(pull, f"{FORMS}/amend", value="0.25", reason=" ")
    assert refused.status_code == 422
    assert "Reason: please fill this in." in refused.text
    assert forms_of(refused.text)[f"{FORMS}/amend"]["value"] == "0.25"
    answer = people["clinic"].send(
        pull, f"{FORMS}/amend", value="0.25", reason="read from the wrong line"
    )
    assert answer.status_code == 303
    last = events(storage)[-1]
    assert (last.kind, last.value, last.actor) == ("amend", 0.25, "clinic")
    assert last.body["reason"] == "read from the wrong line"


def test_a_result_that_was_corrected_meanwhile_is_shown_before_it_is_corrected_again(
    people, storage
):
    chief, action = people["chief"], f"{FORMS}/amend"
    pull = asked(chief)
    chief.send(pull, f"{FORMS}/tell", value="0.5")
    first, second = (forms_of(chief.get(pull).text)[action] for _ in range(2))
    chief.client.post(action, data=first | {"value": "0.25", "reason": "typing error"})
    before = events(storage)
    late = chief.client.post(action, data=second | {"value": "0.75", "reason": "typing error"})
    assert late.status_code == 409
    assert "0.25" in late.text
    assert events(storage) == before
    shown = forms_of(late.text)[action]
    assert shown["value"] == "0.75"
    assert chief.client.post(action, data=shown).status_code == 303
    assert len(events(storage)) == len(before) + 1


def test_a_pull_is_given_up_with_a_reason_only(people, storage):
    pull = asked(people["clinic"])
    assert people["clinic"].send(pull, f"{FORMS}/fail").status_code == 422
    people["clinic"].send(pull, f"{FORMS}/fail", reason="the sample broke")
    last = events(storage)[-1]
    assert (last.kind, last.body["reason"], last.actor) == ("fail", "the sample broke", "clinic")
    assert "the sample broke" in people["chief"].get("/studies/wards/log").text


def test_only_who_may_do_so_stops_a_study_and_says_why(people, storage):
    stop = f"{FORMS}/stop"
    assert stop not in forms_of(people["clinic"].get(PULLS).text)
    form = forms_of(people["clinic"].get(PULLS).text)[f"{FORMS}/ask"] | {"reason": "no"}
    assert people["clinic"].client.post(stop, data=form).status_code == 403
    assert people["chief"].send(PULLS, stop).status_code == 422
    answer = people["chief"].send(PULLS, stop, reason="the drug was recalled")
    assert answer.status_code == 303
    assert events(storage)[-1].kind == "stop"
    decision = people["board"].get("/studies/wards/decision").text
    assert "No decision" in decision
    assert "the drug was recalled" in decision
    assert f"{FORMS}/ask" not in forms_of(people["clinic"].get(PULLS).text)


@pytest.mark.parametrize("name", ["ask", "tell", "report", "fail", "amend", "stop"])
def test_nothing_is_written_without_the_token_of_the_sessions_forms(people, storage, name):
    pull = asked(people["chief"]).rpartition("/")[2]
    before = events(storage)
    typed = {"pull": pull, "value": "0.5", "reason": "because", "n": "1", "unit": "days"}
    for csrf in ({}, {"csrf": ""}, {"csrf": "é"}, {"csrf": "0" * 64}):
        answer = people["chief"].client.post(f"{FORMS}/{name}", data=typed | csrf)
        assert answer.status_code == 403
    assert events(storage) == before


@pytest.mark.parametrize("name", ["ask", "tell", "fail", "amend", "stop"])
def test_those_who_may_only_read_write_nothing(people, storage, name):
    pull = asked(people["clinic"]).rpartition("/")[2]
    csrf = forms_of(people["board"].get("/").text)["/logout"]["csrf"]
    before = events(storage)
    typed = {"pull": pull, "value": "0.5", "reason": "because", "n": "1", "csrf": csrf}
    assert people["board"].client.post(f"{FORMS}/{name}", data=typed).status_code == 403
    assert people["board"].get(f"{PULLS}/{pull}").status_code == 403
    assert events(storage) == before


def test_a_reader_sees_which_pulls_are_open_since_when_without_forms(people, storage):
    pull = asked(people["clinic"]).rpartition("/")[2]
    page = people["board"].get(PULLS).text
    assert not [action for action in forms_of(page) if action.startswith(FORMS)]
    day = f"{events(storage)[-1].at:%Y-%m-%d}"
    assert "Asked on" in page
    assert f'<td class="words">{day}</td>' in page
    assert pull not in page
    assert "Tell the result" not in page
    assert "Tell the result" in people["clinic"].get(PULLS).text


def words_on(page):
    """Return what a page shows besides the glossary, in lower case."""
    shown = re.sub(r"<(script|style|details)\b.*?</\1>|<[^>]+>", " ", page, flags=re.DOTALL)
    return " ".join(shown.split()).lower()


def test_a_ward_reads_of_participants_and_whether_its_form_was_new():
    store = MemoryStore()
    problem = Problem(["a", "b"], ["x"], reward_range=(0, 1))
    rules = {"participants": "P-###", "kits": "K####", "masked": True}
    study = Study.create(problem, BlockBetting(problem), storage=store, name="wards", **rules)
    study.supply(20)
    with visited(store) as people:
        clinic = people["clinic"]
        first = clinic.send(PULLS, f"{FORMS}/ask", participant="P-001").headers["location"]
        page = clinic.get(first).text
        assert "The participant is assigned: see below." in page
        assert "Participant P-001" in page
        again = clinic.send(PULLS, f"{FORMS}/ask", participant="P-001").headers["location"]
        assert again.partition("?")[0] == first.partition("?")[0]
        assert "was assigned before; asking again has changed nothing" in clinic.get(again).text
        failed = clinic.send(first.partition("?")[0], f"{FORMS}/fail", reason="left the study")
        pages = [PULLS, first, again, failed.headers["location"], "/studies/wards/entered"]
        for path in [*pages, "/studies/wards/health", "/studies/wards/recruitment"]:
            said = words_on(clinic.get(path).text)
            assert not re.search(r"\b(pulls?|sample broke|reading)\b", said), (path, said)


def test_a_pull_is_found_by_its_participant_by_those_who_may_see_it():
    store = MemoryStore()
    problem = Problem(["a", "b"], ["x", "y"], reward_range=(0, 1))
    given = {"storage": store, "name": "wards", "seed": 5, "participants": "P-###"}
    study = Study.create(problem, BlockBetting(problem), **given)
    own = study.ask(participant="P-001", worker="clinic")
    other = study.ask(participant="P-002", worker="another ward")
    with visited(store) as people:
        clinic, chief = people["clinic"], people["chief"]
        page = clinic.get(PULLS).text
        assert "Find a participant" in page
        # What takes longer than somebody once typed would be lost.
        assert 'name="lease"' not in page
        found = clinic.get(f"{PULLS}?participant=+P-001")
        assert (found.status_code, found.headers["location"]) == (303, f"{PULLS}/{own.id}")
        # What somebody else asked for, and what nobody did, get the same answer.
        for number in ("P-002", "P-003", "", "x" * 5_000):
            page = clinic.get(f"{PULLS}?participant={number}")
            assert page.status_code == 200
            assert "You have no participant with this number" in page.text
        location = chief.get(f"{PULLS}?participant=P-002").headers["location"]
        assert location == f"{PULLS}/{other.id}"
        assert people["board"].get(f"{PULLS}?participant=P-001").status_code == 403


def test_a_pull_that_never_was_is_not_found(people):
    assert people["clinic"].get(f"{PULLS}/{'0' * 32}").status_code == 404
    pull = asked(people["clinic"])
    answer = people["clinic"].send(pull, f"{FORMS}/tell", value="0.5", pull="0" * 32)
    assert answer.status_code == 404


def test_an_address_cannot_make_a_page_say_what_was_not_done(people):
    for done in ("event-0", "event-999999", "event-x", "ask-x", "<b>", "event-" + "9" * 40):
        text = people["clinic"].client.get(PULLS, params={"done": done}).text
        assert 'class="done"' not in text


@pytest.fixture
def others():
    """Return a storage of studies with other kinds of results or questions."""
    store = MemoryStore()
    made = {
        "loans": of_family(families.interventions, causal.BlockBetting),
        "readings": of_family(families.early_readings, delayed.Racing, delta=0.05),
        "catalysts": of_family(families.clicks, linear.BlockBetting),
    }
    for name, (policy, _) in made.items():
        Study.create(policy.problem, policy, storage=store, name=name, seed=5)
    return store


@pytest.fixture
def clinic(others):
    with visited(others) as people:
        yield people["clinic"]


def asked_of(person, name):
    pulls, ask = f"/studies/{name}/pulls", f"/studies/{name}/forms/ask"
    return person.send(pulls, ask).headers["location"].partition("?")[0]


def test_a_result_of_several_fields_has_one_for_each(clinic, others):
    pull = asked_of(clinic, "loans")
    tell = "/studies/loans/forms/tell"
    form = forms_of(clinic.get(pull).text)[tell]
    assert {name for name in form if name.startswith("outcome_")} == {
        "outcome_S",
        "outcome_V",
        "outcome_Y",
    }
    refused = clinic.send(pull, tell, outcome_S="s", outcome_V="", outcome_Y="1")
    assert 'id="outcome_V-error"' in refused.text
    refused = clinic.send(pull, tell, outcome_S="nobody", outcome_V="1", outcome_Y="1")
    assert refused.status_code == 422
    assert forms_of(refused.text)[tell]["outcome_S"] == "nobody"
    wanted = families.interventions()[0].labels(events(others, "loans")[0].action)["sensitive"]
    seen = "s" if wanted == "natural" else wanted
    answer = clinic.send(pull, tell, outcome_S=seen, outcome_V="1", outcome_Y="1")
    assert answer.status_code == 303
    assert events(others, "loans")[-1].kind == "tell"


def test_an_early_reading_is_reported_before_the_result(clinic, others):
    pull = asked_of(clinic, "readings")
    report = "/studies/readings/forms/report"
    assert 'id="stage-error"' in clinic.send(pull, report, value="0.5", stage="0").text
    assert clinic.send(pull, report, value="0.5").status_code == 303
    last = events(others, "readings")[-1]
    assert (last.kind, last.value, last.actor) == ("report", 0.5, "clinic")


def test_what_an_option_is_made_of_is_shown_to_whoever_carries_it_out(clinic):
    assert "<dt>" in clinic.get(asked_of(clinic, "catalysts")).text


# ------------------------------------------------------------ a group that must be named


def test_the_form_offers_no_blank_group_if_one_is_required():
    problem = Problem(["a", "b"], ["young", "old"], reward_range=(0, 1))
    storage = MemoryStore()
    Study.create(
        *(problem, BlockBetting(problem)),
        storage=storage,
        name="wards",
        seed=1,
        require_group=True,
    )
    with visited(storage) as people:
        refused = people["clinic"].send(PULLS, f"{FORMS}/ask")
        assert refused.status_code == 422
        assert "Group of the person here: please fill this in." in refused.text
        assert "Let the study choose" not in refused.text
        asked(people["clinic"], context_group="old")
    assert [event.body["context"] for event in events(storage)] == [{"group": "old"}]


# -------------------------------------------------- values that come on different days


@pytest.fixture
def toxicity_first():
    """A study whose pulls have a measure on day 7 and another one on day 28."""
    measures = {"toxicity": (0, 1), "efficacy": (0, 1)}
    problem = Problem(["a", "b"], 1, measures=measures, objective="efficacy")
    storage = MemoryStore()
    Study.create(problem, BlockBetting(problem), storage=storage, name="wards", seed=1)
    with visited(storage) as people:
        yield people, storage


def test_one_measure_is_entered_now_and_the_other_one_later(toxicity_first):
    people, storage = toxicity_first
    clinic = people["clinic"]
    pull = asked(clinic)
    answer = clinic.send(pull, f"{FORMS}/tell", outcome_toxicity="0")
    assert answer.status_code == 303
    assert events(storage)[-1].kind == "report"
    page = clinic.get(answer.headers["location"]).text
    assert "What you entered is recorded" in page
    assert "toxicity: 0" in page
    # Only what is missing is asked for.
    assert {name for name in forms_of(page)[f"{FORMS}/tell"] if name.startswith("outcome")} == {
        "outcome_efficacy"
    }
    assert clinic.send(pull, f"{FORMS}/tell", outcome_efficacy="0,5").status_code == 303
    assert events(storage)[-1].outcome == {"toxicity": 0.0, "efficacy": 0.5}


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({}, "Please fill in a value."),
        ({"outcome_toxicity": "2"}, "must be in [0, 1]"),
        ({"outcome_toxicity": "missing"}, "can be missing for good only once"),
    ],
)
def test_a_measure_that_is_refused_stays_in_its_field(toxicity_first, typed, said):
    people, storage = toxicity_first
    pull = asked(people["clinic"])
    before = events(storage)
    refused = people["clinic"].send(pull, f"{FORMS}/tell", **typed)
    assert refused.status_code == 422
    assert said in refused.text
    assert 'id="outcome_toxicity-error"' in refused.text
    assert events(storage) == before


@pytest.mark.parametrize("wrong", ["toxicity", "efficacy"])
@pytest.mark.parametrize("form", ["tell", "amend"])
def test_a_wrong_measure_is_named_beside_its_own_field(toxicity_first, form, wrong):
    people, _ = toxicity_first
    clinic = people["clinic"]
    pull = asked(clinic)
    typed = {"outcome_toxicity": "1", "outcome_efficacy": "1"}
    if form == "amend":
        clinic.send(pull, f"{FORMS}/tell", outcome_toxicity="0", outcome_efficacy="0")
        typed["reason"] = "typing error"
    refused = clinic.send(pull, f"{FORMS}/{form}", **{**typed, f"outcome_{wrong}": "3"})
    assert refused.status_code == 422
    beside = re.findall(r'id="(?:amend-)?(outcome_\w+)-error"', refused.text)
    assert beside == [f"outcome_{wrong}"]


@pytest.mark.parametrize("wrong", ["toxicity", "efficacy"])
@pytest.mark.parametrize(("value", "said"), [("3", "must be in"), ("missing", "only once")])
def test_a_value_that_comes_early_is_refused_beside_its_own_field(
    toxicity_first, wrong, value, said
):
    people, _ = toxicity_first
    pull = asked(people["clinic"])
    refused = people["clinic"].send(pull, f"{FORMS}/tell", **{f"outcome_{wrong}": value})
    assert said in refused.text
    assert re.findall(r'id="(?:amend-)?(outcome_\w+)-error"', refused.text) == [f"outcome_{wrong}"]


def test_one_measure_is_corrected_and_the_other_one_stays(toxicity_first):
    people, storage = toxicity_first
    clinic = people["clinic"]
    pull = asked(clinic)
    clinic.send(pull, f"{FORMS}/tell", outcome_toxicity="0", outcome_efficacy="missing")
    answer = clinic.send(pull, f"{FORMS}/amend", outcome_toxicity="1", reason="typing error")
    assert answer.status_code == 303, answer.text
    assert events(storage)[-1].outcome == {"toxicity": 1.0, "efficacy": None}


def test_a_measure_that_was_entered_early_is_corrected_beside_the_form_to_tell(toxicity_first):
    people, storage = toxicity_first
    clinic, amend = people["clinic"], f"{FORMS}/amend"
    pull = asked(clinic)
    assert amend not in clinic.get(pull).text
    clinic.send(pull, f"{FORMS}/tell", outcome_toxicity="1")
    page = clinic.get(pull).text
    assert "Correct what was told" in page
    shown = forms_of(page)
    assert {name for name in shown[amend] if name.startswith("outcome")} == {"outcome_toxicity"}
    assert "outcome_efficacy" in shown[f"{FORMS}/tell"]
    assert clinic.send(pull, amend, outcome_toxicity="0", reason="wrong line").status_code == 303
    last = events(storage)[-1]
    assert (last.kind, last.actor, last.outcome) == ("amend", "clinic", {"toxicity": 0.0})
    assert "toxicity: 0" in clinic.get(pull).text
    refused = clinic.send(pull, amend, outcome_toxicity="7", reason="typing error")
    assert refused.status_code == 422
    assert 'id="amend-outcome_toxicity-error"' in refused.text
    # What was told of another patient is taken back, and told again.
    back = clinic.send(pull, amend, outcome_toxicity="missing", reason="another patient")
    assert back.status_code == 303
    assert events(storage)[-1].outcome == {"toxicity": None}
    assert amend not in clinic.get(pull).text
    assert clinic.send(pull, f"{FORMS}/tell", outcome_toxicity="0").status_code == 303
    assert "toxicity: 0" in clinic.get(pull).text
    # Somebody else corrects it: the page that was opened before does not overwrite this.
    chief = people["chief"]
    stale = forms_of(chief.get(pull).text)[amend]
    assert chief.send(pull, amend, outcome_toxicity="0,5", reason="checked").status_code == 303
    typed = stale | {"outcome_toxicity": "1", "reason": "late"}
    assert chief.client.post(amend, data=typed).status_code == 409
    page = clinic.get(pull).text
    assert "somebody has corrected the result since" in page
    assert amend not in page
    assert "0.5" not in clinic.get("/studies/wards/entered").text
    assert "corrected by somebody else" in clinic.get("/studies/wards/entered").text
    assert clinic.send(pull, f"{FORMS}/tell", outcome_efficacy="1").status_code == 303
    assert events(storage)[-1].outcome == {"toxicity": 0.5, "efficacy": 1.0}
    assert "toxicity: 0.5" not in clinic.get(pull).text


def test_a_form_hides_no_measure_that_somebody_else_has_entered(toxicity_first):
    people, storage = toxicity_first
    clinic = people["clinic"]
    pull = asked(clinic)
    with Study.open(storage, "wards") as study:
        study.report(pull.rpartition("/")[2], {"toxicity": 0.8125}, actor="laboratory")
    page = clinic.get(pull).text
    assert "0.8125" not in page
    # A field that was left out would say that the value is known.
    assert "outcome_toxicity" in page
    for guess in ("0.8125", "0.5"):
        refused = clinic.send(pull, f"{FORMS}/tell", outcome_toxicity=guess)
        assert refused.status_code == 422
        assert "was told before, perhaps by somebody else" in refused.text
    assert "0.8125" in people["chief"].get(pull).text


def test_whoever_enters_values_finds_them_in_a_list(toxicity_first):
    people, _ = toxicity_first
    clinic = people["clinic"]
    pull = asked(clinic)
    clinic.send(pull, f"{FORMS}/tell", outcome_toxicity="0.375")
    listed = "/studies/wards/entered"
    assert listed in clinic.get(PULLS).text
    assert "toxicity: 0.375" in clinic.get(listed).text
    # Nobody else who recruits sees it; whoever may read does.
    assert "0.375" in people["chief"].get(listed).text


# ------------------------------------------------------------------ closing by hand


def test_an_arm_is_closed_on_the_page_with_its_reason(people, storage):
    chief = people["chief"]
    typed = {"part": "arm-app", "reason": "two falls"}
    assert f"{FORMS}/close" not in people["clinic"].get(PULLS).text
    answer = chief.send(PULLS, f"{FORMS}/close", **typed)
    assert answer.status_code == 303, answer.text
    last = events(storage)[-1]
    assert (last.kind, last.actor, last.body["reason"]) == ("close", "chief", "two falls")
    assert "arm app: two falls" in chief.get("/studies/wards/log").text
    assert "two falls" in chief.get("/studies/wards/decision").text
    for tab in ("pulls", "recruitment", "health", "entered"):
        assert "two falls" not in people["clinic"].get(f"/studies/wards/{tab}").text
    # It is offered no more.
    assert 'value="arm-app"' not in chief.get(PULLS).text


def test_a_ward_that_asks_reads_that_new_results_hardly_count_after_a_group_is_closed(people):
    said = "can hardly decide any more"
    assert said not in people["clinic"].get(PULLS).text
    chief = people["chief"]
    listed = chief.get(PULLS).text
    part = next(one for one in re.findall('value="(group-[^"]*)"', listed))
    assert chief.send(PULLS, f"{FORMS}/close", part=part, reason="two falls").status_code == 303
    page = people["clinic"].get(PULLS).text
    assert said in page
    assert "two falls" not in page


@pytest.mark.parametrize(
    "typed", [{"part": ""}, {"part": "arm-x"}, {"part": "arm-app", "reason": ""}]
)
def test_a_closing_with_mistakes_changes_nothing(people, storage, typed):
    before = events(storage)
    answer = people["chief"].send(PULLS, f"{FORMS}/close", **({"reason": "two falls"} | typed))
    assert answer.status_code == 422
    assert events(storage) == before


def test_the_page_asks_for_a_participant_and_records_a_kit():
    problem = Problem(["a", "b"], ["young", "old"], reward_range=(0, 1))
    storage = MemoryStore()
    rules = {"participants": "W#-###", "kits": "K####", "require_group": True}
    Study.create(problem, BlockBetting(problem), storage=storage, name="wards", seed=1, **rules)
    with visited(storage) as people:
        clinic = people["clinic"]
        refused = clinic.send(PULLS, f"{FORMS}/ask", participant="Anna Smith", context_group="old")
        assert refused.status_code == 422
        assert "never a name or a date of birth" in refused.text
        pull = asked(clinic, participant="W1-001", context_group="old")
        assert clinic.send(pull, f"{FORMS}/kit", kit="K0001").status_code == 303
        page = clinic.get(pull).text
        assert "W1-001" in page
        assert "K0001" in page
        assert "W1-001" in clinic.get(PULLS).text
    assert [event.kind for event in events(storage)] == ["ask", "kit"]
