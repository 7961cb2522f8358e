"""Numbers of participants and kits: their form, and that each belongs to one pull."""

import pytest

from fairtrial.errors import InvalidArgument, UnknownPull
from fairtrial.study import Study
from fairtrial.subpopulations import BlockBetting, Problem
from tests.messages import raises

PROBLEM = Problem(["a", "b"], ["young", "old"], reward_range=(0, 1))
POLICY = BlockBetting(PROBLEM, delta=0.05)


def made(store, **rules):
    return Study.create(PROBLEM, POLICY, storage=store, name="trial", seed=7, **rules)


@pytest.fixture
def study(store):
    return made(store, participants="W#-###", kits="@####", require_group=True)


def ask(study, number, group="old", **more):
    return study.ask(group=group, participant=number, **more)


def test_a_participant_has_one_pull_which_is_found_by_the_number(study):
    pull = ask(study, "W1-001")
    assert ask(study, "W1-001").id == pull.id
    assert ask(study, "W1-002").id != pull.id
    assert study.pull_of("W1-001").id == pull.id
    assert [event.kind for event in study.events()] == ["ask", "ask"]
    assert study.verify().ok


@pytest.mark.parametrize("more", [{"group": "young"}, {"worker": "ward 2"}])
def test_a_participant_is_not_asked_for_again_with_other_details(study, more):
    ask(study, "W1-001", worker="ward 1")
    before = study.head_hash
    with raises(InvalidArgument) as caught:
        ask(study, "W1-001", **({"worker": "ward 1"} | more))
    assert caught.value.name == "participant"
    assert study.head_hash == before


NAMES_AND_DATES = ["Anna Smith", "1980-05-17", "17.05.1980"]
MISTYPED = ["W1-01", "w1-001", "WX-001", "W1-00\u0661", 7, ""]


@pytest.mark.parametrize("number", [*NAMES_AND_DATES, *MISTYPED])
def test_what_may_be_a_name_or_a_date_is_refused_and_not_repeated(study, number):
    before = study.head_hash
    with raises(InvalidArgument) as caught:
        ask(study, number)
    assert caught.value.name == "participant"
    assert "date of birth" in caught.value.accepted
    assert caught.value.given is None
    assert not number or str(number) not in str(caught.value).replace("W1-111", "")
    assert study.head_hash == before


@pytest.mark.parametrize("number", ["19800517", "17051980", "05171980"])
def test_eight_digits_that_are_a_date_are_refused(store, number):
    study = made(store, participants="########")
    with raises(InvalidArgument):
        study.ask(participant=number)
    assert study.ask(participant="00004711").id


@pytest.mark.parametrize(
    "form", ["", "####-##-##", "##.##.####", "W ###", "@@@", "#" * 41, 3, "é#"]
)
def test_a_form_that_could_hold_personal_data_is_refused(store, form):
    for rule in ("participants", "kits"):
        with raises(InvalidArgument) as caught:
            made(store, **{rule: form})
        assert caught.value.name == rule


def test_every_request_is_for_one_participant_if_the_study_has_numbers(study):
    for attempt in (lambda: study.ask(group="old"), lambda: study.ask(2, group="old")):
        with raises(InvalidArgument):
            attempt()
    with raises(InvalidArgument) as caught:
        study.ask(2, group="old", participant="W1-001")
    assert caught.value.name == "n"


def test_numbers_are_refused_where_the_study_has_no_form_for_them(store):
    study = made(store)
    pull = study.ask()
    for attempt in (
        lambda: study.ask(participant="W1-001"),
        lambda: study.record_kit(pull, "A0001"),
        lambda: study.pull_of("W1-001"),
    ):
        with raises(InvalidArgument):
            attempt()


def test_a_kit_belongs_to_one_pull_and_a_pull_can_have_several(study):
    first, second = ask(study, "W1-001"), ask(study, "W1-002")
    event = study.record_kit(first, "A0001", actor="pharmacy")
    assert study.record_kit(first, "A0001") == event
    study.record_kit(first, "A0002")
    with raises(InvalidArgument) as caught:
        study.record_kit(second, "A0001")
    assert caught.value.name == "kit"
    assert [event.kind for event in study.events()] == ["ask", "ask", "kit", "kit"]
    study.tell(first, 0.5)
    study.record_kit(first, "A0003")
    assert study.verify().ok


def test_an_unknown_participant_has_no_pull(study):
    with raises(UnknownPull):
        study.pull_of("W9-999")


def test_no_other_key_stands_for_a_participant(store):
    study = made(store, participants="W#-###")
    first = study.ask(participant="W1-002", request_id="key")
    for key in ("key", "participant W1-002"):
        other = study.ask(participant="W1-003", request_id=key)
        assert other.id != first.id
    assert study.pull_of("W1-003").id == other.id
    assert len(list(study.events())) == 2
