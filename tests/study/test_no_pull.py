"""Why a request gets no pull near a planned end: what is asked for, told and shown."""

import pytest

from fairtrial.errors import NothingToAsk
from fairtrial.study import Study
from fairtrial.subpopulations import BlockBetting, Problem
from tests.messages import raises

PROBLEM = Problem(["A", "B", "C"], {"mild": 0.6, "severe": 0.4}, reward_range=(0, 1), floors=None)
END = 120


@pytest.fixture
def study(store):
    policy = BlockBetting(PROBLEM, delta=1e-9, max_pulls=END, planned_end=True)
    return Study.create(PROBLEM, policy, storage=store, name="trial", seed=7, secret="s")


def fill(study, group, most=END):
    """Ask for a group until there is no pull for it; tell all results but the last one."""
    pulls = []
    while len(pulls) < most and (found := study.ask(1, group=group, worker="ward 3")):
        if pulls:
            study.tell(pulls[-1], 0.5)
        pulls += found
    return pulls


def near_the_end(study):
    """Ask until the last block has pulls of only one group left."""
    while study.policy.asked < END - 12:
        pull = study.ask()
        study.tell(pull, 0.5)
    return fill(study, "mild")


FULL = (
    "all pulls of group mild until the planned end have been handed out: "
    "whoever of this group comes now has no place in the study"
)


def test_whoever_comes_of_a_group_without_pulls_is_told_that_there_is_no_place_left(study):
    near_the_end(study)
    with raises(NothingToAsk):
        study.ask(group="mild")
    assert study.policy.why_no_pull(group="mild") == FULL
    # The other groups are nothing to whoever asks for this one.
    assert study.policy.why_no_pull(group="severe") == ""
    assert study.ask(group="severe").group == "severe"
    assert FULL in study.recommend().reason


def test_a_place_is_free_again_when_a_pull_is_lost_that_can_be_made_again(store):
    policy = BlockBetting(PROBLEM, delta=1e-9, max_pulls=END, planned_end=True, losses="ignorable")
    study = Study.create(PROBLEM, policy, storage=store, name="trial", seed=7, secret="s")
    near_the_end(study)
    assert study.policy.why_no_pull(group="mild") == f"{FULL}, unless a pull gets lost"
    lost = next(pull for pull in study.outstanding() if pull.group == "mild")
    study.fail(lost, "moved away")
    assert study.policy.why_no_pull(group="mild") == ""
    assert study.ask(group="mild").group == "mild"
    assert study.policy.why_no_pull(group="mild") == f"{FULL}, unless a pull gets lost"


def test_nobody_has_a_place_where_a_closed_group_has_pulls_left(study):
    near_the_end(study)
    study.close_group("severe", "no beds")
    assert "severe" not in study.policy.why_no_pull()


def test_a_request_after_the_last_pull_is_told_how_many_results_are_open(study):
    near_the_end(study)
    fill(study, "severe")
    assert not study.stopped
    why = f"all pulls until the planned end have been handed out; {study.progress().outstanding} "
    with raises(NothingToAsk):
        study.ask(group="severe")
    # Whoever looks at the answer meanwhile reads why the study gives nothing.
    assert why in study.recommend().reason


def test_a_study_with_pulls_to_give_or_without_a_planned_end_has_no_special_reason(study):
    assert study.policy.why_no_pull(group="mild") == ""
    assert BlockBetting(PROBLEM, max_pulls=END).why_no_pull() == ""


def test_pulls_of_a_closed_arm_that_are_not_made_are_named_until_the_end_and_in_the_answer(study):
    study.ask(5)
    study.close_arm("C", "harm")
    number = len(study.policy._blocks.never_issued)
    assert number > 1
    said = f"{number} planned pulls of the closed arm C are not made, and count as their worst"
    assert said in study.health()["warnings"]
    while pulls := study.ask(10):
        study.tell_many((pull, 0.5) for pull in pulls)
    for pull in study.outstanding():
        study.tell(pull, 0.5)
    assert study.stopped
    assert study.progress().told + number == END
    assert said in study.recommend().reason


def test_a_blinded_view_shows_nothing_of_the_pulls_that_a_closing_ended(study):
    study.ask(5)
    before = study.health(blinded=True)["warnings"]
    study.close_arm("C", "harm")
    assert study.health()["warnings"] != before
    assert study.health(blinded=True)["warnings"] == before


def test_the_log_says_who_got_no_pull(study):
    near_the_end(study)
    fill(study, "severe")
    assert {event.actor for event in study.events() if event.kind == "wait"} == {"ward 3"}
    assert study.verify().ok
