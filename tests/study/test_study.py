"""What a study promises about asks and tells, on every store."""

import math
import pickle
import threading

import numpy as np
import pytest

import fairtrial as ft
from fairtrial.core import Progress, Pull
from fairtrial.errors import (
    AlreadyTold,
    ConflictingOutcome,
    ExperimentFinished,
    FairtrialError,
    InvalidArgument,
    InvalidOutcome,
    NothingToAsk,
    NotSupported,
    StorageError,
    StudyExists,
    StudyNotFound,
    UnknownPull,
)
from fairtrial.study import Study, list_studies
from tests.messages import raises
from tests.study.tools import replayed, same_state
from tests.study.toys import (
    OWN,
    Arrivals,
    Averaging,
    Elimination,
    GroupProblem,
    Racing,
    RecordProblem,
    Serving,
    ToyProblem,
)


def kinds(study):
    return [event.kind for event in study.events()]


# ------------------------------------------------------------------------ create, open


def test_the_package_offers_study():
    assert ft.Study is Study


def test_a_study_decides_as_its_policy_alone_would(make_study):
    study = make_study(Serving, seed=3)
    alone = Serving(study.problem, seed=3)
    for value in np.linspace(-1, 1, 30):
        ours, theirs = study.ask(), alone.ask()
        assert (ours.number, ours.action, ours.tag) == (theirs.number, theirs.action, theirs.tag)
        study.tell(ours, float(value))
        alone.tell(theirs, float(value))
    assert same_state(study.policy, alone)


def test_the_template_is_not_touched(store):
    problem = ToyProblem()
    template = Elimination(problem, seed=1)
    study = Study.create(problem, template, storage=store, name="a", seed=2)
    study.ask()
    assert template.asked == 0
    assert study.policy is not template


def test_a_seed_is_drawn_and_recorded_when_none_is_given(make_study, store):
    study = make_study(Serving, seed=None)
    other = make_study(Serving, seed=None, name="other")
    assert study.seed != other.seed
    assert Study.open(store, "toy", **OWN).seed == study.seed


def test_a_generator_seeds_a_study(make_study):
    study = make_study(seed=np.random.default_rng(5))
    assert study.seed == int(np.random.default_rng(5).integers(2**63))


def test_a_seed_beyond_64_bits_is_kept(make_study, store):
    make_study(seed=2**80 + 1)
    assert Study.open(store, "toy", **OWN).seed == 2**80 + 1


def test_the_same_specification_opens_if_existing_is_ok(store):
    problem = ToyProblem()
    make = {"storage": store, "name": "a", "seed": 1}
    first = Study.create(problem, Elimination(problem), **make)
    pull = first.ask()
    second = Study.create(problem, Elimination(problem), **make, exist_ok=True)
    second.tell(pull.id, 1.0)
    assert first.policy.told == 1
    without_seed = {**make, "seed": None}
    third = Study.create(problem, Elimination(problem), **without_seed, exist_ok=True)
    assert third.seed == 1


def test_another_specification_of_the_same_name_is_refused_and_both_are_named(store):
    problem = ToyProblem()
    make = {"storage": store, "name": "a", "exist_ok": True}
    Study.create(problem, Elimination(problem, width=2.0), seed=1, **make)
    with raises(StudyExists):
        Study.create(problem, Elimination(problem, width=3.0), seed=2, **make)
    other = ToyProblem(["a", "b"])
    with raises(StudyExists):
        Study.create(other, Elimination(other), seed=1, **make)


def test_an_existing_name_is_refused_unless_allowed(make_study):
    make_study()
    with raises(StudyExists):
        make_study()


def test_a_policy_of_another_problem_is_refused(store):
    with raises(InvalidArgument, "policy"):
        Study.create(ToyProblem(2), Elimination(ToyProblem(3)), storage=store, name="a")
    assert store.studies() == []


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 201, 7, None, "\ud800"])
def test_a_bad_name_is_refused(store, name):
    problem = ToyProblem()
    with raises(InvalidArgument, "name", given=name):
        Study.create(problem, Elimination(problem), storage=store, name=name)


def test_a_policy_that_cannot_be_written_down_is_refused(store):
    class Strange(Elimination):
        def __init__(self, problem, rule=max, seed=None):
            super().__init__(problem, seed=seed)
            self.rule = rule

    problem = ToyProblem()
    with raises(NotSupported):
        Study.create(problem, Strange(problem), storage=store, name="a")
    assert store.studies() == []


def test_a_policy_that_changes_on_the_way_through_json_is_refused(store):
    class Rounding(Elimination):
        def __init__(self, problem, width=2.0, seed=None):
            super().__init__(problem, width, seed)
            self.width = round(width) + 1

    problem = ToyProblem()
    with raises(NotSupported):
        Study.create(problem, Rounding(problem), storage=store, name="a")


def test_opening_what_is_not_there_says_what_is(make_study, store):
    make_study(name="one")
    with raises(StudyNotFound):
        Study.open(store, "two", **OWN)


def test_opening_a_missing_file_makes_none(tmp_path):
    missing = tmp_path / "none.db"
    with raises(StudyNotFound):
        Study.open(f"sqlite:///{missing}", "a")
    with raises(StorageError):
        list_studies(missing)
    assert not missing.exists()


def test_studies_are_listed_with_their_status(make_study, store):
    make_study(name="one", seed=1)
    study = make_study(name="two", seed=2, width=0.1)
    for value in (0.0, 5.0, 0.0):
        study.tell(study.ask(), value)
    first, second = list_studies(store)
    assert (first.name, first.status, first.events, first.seed) == ("one", "running", 0, 1)
    assert (second.status, second.events) == ("decided", 6)
    assert (second.family, second.policy) == ("study-toy", "Elimination")
    assert second.created_at.timestamp() == 1_800_000_000


def test_a_closed_study_says_so(make_study):
    with make_study() as study:
        pull = study.ask()
    for call in (study.ask, study.recommend, study.health, lambda: study.tell(pull, 1.0)):
        with raises(StorageError):
            call()
    study.close()


def test_a_store_that_was_given_stays_open(make_study, store):
    make_study().close()
    assert len(store.studies()) == 1


# ------------------------------------------------------------------------------- asks


def test_a_pull_has_a_random_identity_and_labels(make_study):
    study = make_study(problem=ToyProblem(["a", "b"]))
    pulls = study.ask(4)
    assert [pull.arm for pull in pulls] == ["a", "b", "a", "b"]
    assert [pull.number for pull in pulls] == [0, 1, 2, 3]
    assert len({pull.id for pull in pulls}) == 4
    assert all(len(pull.id) == 32 and int(pull.id, 16) >= 0 for pull in pulls)
    assert isinstance(pulls[0], Pull)


def test_asking_for_many_is_asking_as_often(make_study):
    one, many = make_study(Serving, name="one"), make_study(Serving, name="many")
    singles = [one.ask() for _ in range(20)]
    assert [p.action for p in singles] == [p.action for p in many.ask(20)]
    assert same_state(one.policy, many.policy)


def test_asking_for_none_gives_none(make_study):
    study = make_study()
    assert study.ask(0) == []
    assert kinds(study) == []


@pytest.mark.parametrize("n", [-1, 1.5, True, "2"])
def test_a_bad_number_of_pulls_is_refused(make_study, n):
    with raises(InvalidArgument, "n", given=n):
        make_study().ask(n)


def test_a_full_policy_has_nothing_to_give_until_the_next_result(make_study):
    study = make_study(Racing, slots=2)
    first, _ = study.ask(5)
    with raises(NothingToAsk):
        study.ask()
    study.tell(first, 0.0)
    assert study.ask().tag == first.tag


def test_waiting_is_recorded_once_however_often_it_is_asked(make_study):
    study = make_study(Racing, slots=1)
    pull = study.ask()
    for _ in range(5):
        assert study.ask(3) == []
    assert kinds(study) == ["ask", "wait"]
    assert study.policy.asked_for_nothing == 1
    study.tell(pull, 0.0)
    assert len(study.ask(3)) == 1
    assert kinds(study)[2:] == ["tell", "ask", "wait"]
    assert same_state(study.policy, replayed(study))


def test_a_stopped_policy_has_finished(make_study):
    study = make_study(Elimination, width=0.1)
    for value in (0.0, 5.0, 0.0):
        study.tell(study.ask(), value)
    assert (study.status, study.recommend().arm) == ("decided", "1")
    with raises(ExperimentFinished):
        study.ask()
    assert study.ask(3) == []
    assert len(kinds(study)) == 6


def test_context_reaches_the_policy_and_the_log(make_study):
    study = make_study(Arrivals, GroupProblem())
    assert [study.ask(group=group).group for group in "xyx"] == ["x", "y", "x"]
    assert [event.body for event in study.events()][1] == {"context": {"group": "y"}}
    assert same_state(study.policy, replayed(study))


def test_context_that_is_no_data_is_refused(make_study):
    study = make_study()
    for context in ({"x": object()}, {"x": math.nan}):
        with raises(InvalidArgument, "context"):
            study.ask(**context)


def test_a_refused_context_changes_nothing(make_study):
    study = make_study(Arrivals, GroupProblem())
    study.tell(study.ask(group="x"), 1.0)
    with raises(InvalidArgument, "group"):
        study.ask(group="z")
    assert len(kinds(study)) == 2
    assert same_state(study.policy, replayed(study))


def test_a_request_that_comes_again_gets_the_same_pulls(make_study):
    study = make_study(Serving)
    first = study.ask(3, request_id="r1")
    single = study.ask(request_id="r2")
    assert study.ask(3, request_id="r1") == first
    assert study.ask(request_id="r2") == single
    assert len(kinds(study)) == 4
    study.tell(first[0], 1.0)
    assert [pull.id for pull in study.ask(3, request_id="r1")] == [pull.id for pull in first]


def test_a_request_key_is_good_for_one_request(make_study):
    study = make_study(Racing)
    pull, other = study.ask(2, request_id="r1")
    for call in (
        lambda: study.tell(pull, 1.0, request_id="r1"),
        lambda: study.tell(study.problem.pull(arm="0"), 1.0, request_id="r1"),
        lambda: study.report(pull, 1.0, request_id="r1"),
    ):
        with raises(InvalidArgument, "request_id", given="r1"):
            call()
    study.tell(pull, 1.0, request_id="r2")
    with raises(InvalidArgument, "request_id", given="r2"):
        study.tell(other, 1.0, request_id="r2")
    with raises(InvalidArgument, "request_id", given="r2"):
        study.ask(request_id="r2")


@pytest.mark.parametrize("field", ["worker", "request_id"])
@pytest.mark.parametrize("text", ["", "x" * 201, 7, "\ud800"])
def test_a_bad_text_is_refused(make_study, field, text):
    with raises(InvalidArgument, field, given=text):
        make_study().ask(**{field: text})


# ------------------------------------------------------------------------------- tells


def test_tell_takes_the_pull_or_its_id(make_study):
    study = make_study()
    first, second = study.ask(2)
    study.tell(first, 1.0)
    study.tell(second.id, 2)
    assert study.policy.sums.tolist() == [1.0, 2.0, 0.0]


def test_tell_returns_what_was_written(make_study):
    study = make_study(problem=ToyProblem(["a", "b"]))
    event = study.tell(study.ask(worker="lab 1"), 0.25, actor="nurse", request_id="r")
    assert (event.seq, event.kind, event.value, event.outcome) == (2, "tell", 0.25, 0.25)
    assert (event.actor, event.request_id, event.number, event.action) == ("nurse", "r", 0, 0)
    assert event.at.timestamp() == 1_800_000_000
    ask, tell = study.events()
    assert (ask.kind, ask.actor, tell) == ("ask", "lab 1", event)


def test_the_same_outcome_again_gives_the_first_answer(make_study):
    study = make_study()
    pull = study.ask()
    first = study.tell(pull, 0.5)
    assert study.tell(pull, 0.5) == first
    assert study.tell(pull.id, np.float64(0.5), request_id="again") == first
    assert study.policy.told == 1
    assert len(kinds(study)) == 2
    assert study.health()["duplicates"] == 2


def test_another_outcome_is_a_conflict_that_names_both(make_study):
    study = make_study()
    pull = study.ask()
    study.tell(pull, 0.5)
    with raises(ConflictingOutcome):
        study.tell(pull, 0.75)
    assert study.policy.sums.sum() == 0.5


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "1", None, [1.0], {"y": 1.0}])
def test_what_is_no_number_is_refused_and_nothing_is_written(make_study, value):
    study = make_study()
    pull = study.ask()
    with raises(InvalidOutcome):
        study.tell(pull, value)
    assert kinds(study) == ["ask"]


@pytest.mark.parametrize("value", [0.1, -0.0, 5e-324, 1.7976931348623157e308, 1 / 3, 2**53 + 1.0])
def test_outcomes_are_kept_to_the_last_bit(make_study, store, value):
    study = make_study()
    study.tell(study.ask(), value)
    kept = list(study.events())[-1].value
    assert kept == value
    assert same_state(Study.open(store, "toy", **OWN).policy, study.policy)
    assert study.verify().ok


def test_the_sign_of_zero_is_the_same_live_and_replayed(make_study, store):
    class Signs(Elimination):
        def learn(self, pull, outcome):
            self.sums[0] = math.copysign(1.0, outcome)

    study = make_study(Signs)
    study.tell(study.ask(), -0.0)
    reopened = Study.open(store, "toy", policies=[Signs], problems=[ToyProblem])
    assert reopened.policy.sums[0] == study.policy.sums[0] == 1.0


def test_outcomes_may_be_named_fields(make_study, store):
    study = make_study(Averaging, RecordProblem())
    pull = study.ask()
    event = study.tell(pull, {"s": np.float64(1), "y": 0.25})
    assert (event.value, event.outcome) == (None, {"s": 1.0, "y": 0.25})
    assert study.tell(pull, {"y": 0.25, "s": True}) == event
    with raises(ConflictingOutcome):
        study.tell(pull, {"s": 1, "y": 0.5})
    with raises(InvalidOutcome):
        study.tell(study.ask(), {"s": 1})
    assert same_state(Study.open(store, "toy", **OWN).policy, study.policy)
    assert study.verify().ok


def test_a_pull_of_nobody_is_unknown(make_study):
    study = make_study()
    for pull in ("no such id", "", Elimination(study.problem).ask(), "0" * 32):
        with raises(UnknownPull):
            study.tell(pull, 1.0)
    assert kinds(study) == []


def test_a_pull_of_another_study_is_unknown_and_that_study_is_named(make_study):
    study, other = make_study(), make_study(name="other")
    foreign = other.ask()
    with raises(UnknownPull):
        study.tell(foreign, 1.0)
    with raises(UnknownPull):
        study.tell(foreign.id, 1.0)
    assert other.policy.told == study.policy.told == 0


def test_an_outcome_of_a_pull_that_was_given_up_still_counts_and_is_flagged(make_study):
    study = make_study(Racing)
    lost, cancelled = study.ask(2)
    study.fail(lost, "lost in the post")
    study.cancel(cancelled)
    assert study.outstanding() == []
    assert study.tell(lost, 1.0).kind == "late_tell"
    assert study.tell(cancelled, 1.0).kind == "late_tell"
    assert study.policy.told == 2
    health = study.health()
    assert (health["late"], health["lost"], health["cancelled"]) == (2, 1, 1)


def test_data_that_nobody_asked_for_count(make_study):
    study = make_study(problem=ToyProblem(["a", "b"]))
    pull = study.problem.pull(arm="b")
    first = study.tell(pull, 0.5, request_id="row 1")
    assert study.tell(pull, 0.5, request_id="row 1") == first
    with raises(ConflictingOutcome):
        study.tell(pull, 0.75, request_id="row 1")
    with raises(InvalidArgument, "request_id"):
        study.tell(study.problem.pull(arm="a"), 0.5, request_id="row 1")
    assert study.tell(pull, 0.5).seq == 2
    assert study.policy.sums.tolist() == [0.0, 1.0]
    assert study.health()["unsolicited"] == 2
    assert same_state(study.policy, replayed(study))


def test_data_of_another_problem_are_refused(make_study):
    study = make_study()
    with raises(UnknownPull):
        study.tell(ToyProblem(["a", "b"]).pull(arm="a"), 1.0)
    with raises(UnknownPull):
        study.tell(Pull(-1, 99, {"arm": "99"}), 1.0)


def test_many_outcomes_are_taken_together(make_study):
    study = make_study()
    pulls = study.ask(3)
    outcomes = [(pulls[0], 1.0), (pulls[1].id, 2.0), (pulls[0], 1.0)]
    first, second, again = study.tell_many([*outcomes, (study.problem.pull(arm="2"), 3.0)])[:3]
    assert (first.seq, second.seq) == (4, 5)
    assert again == first
    assert study.policy.sums.tolist() == [1.0, 2.0, 3.0]


def test_many_outcomes_are_taken_all_or_none(make_study):
    study = make_study()
    pulls = study.ask(3)
    for bad, error in (((pulls[2], math.nan), InvalidOutcome), (("nobody", 1.0), UnknownPull)):
        with raises(error):
            study.tell_many([(pulls[0], 1.0), (pulls[1], 2.0), bad])
    with raises(ConflictingOutcome):
        study.tell_many([(pulls[0], 1.0), (pulls[0], 2.0)])
    assert study.policy.told == 0
    assert len(kinds(study)) == 3
    assert study.tell_many([]) == []


@pytest.mark.parametrize("bad", [None, 3, "ab", [1, 2], [("pull",)], [("pull", 1.0, "more")]])
def test_outcomes_that_are_no_pairs_are_refused(make_study, bad):
    study = make_study()
    with raises(InvalidArgument, "outcomes"):
        study.tell_many(bad)
    assert study.verify().events == 0


def test_telling_and_asking_in_one_write_is_the_same_as_in_two(make_study):
    one, two = make_study(Serving, name="one"), make_study(Serving, name="two")
    mine, yours = one.ask(), two.ask()
    for value in np.linspace(0, 1, 10):
        mine = one.tell_and_ask(mine, float(value))
        two.tell(yours, float(value))
        yours = two.ask()
        assert mine.action == yours.action
    assert kinds(one) == kinds(two)
    assert same_state(one.policy, two.policy)


def test_telling_and_asking_ends_as_asking_does(make_study):
    study = make_study(Elimination, width=0.1)
    pulls, told = study.ask(1), 0
    while pulls:
        last, told = pulls[0], told + 1
        pulls = study.tell_and_ask(last, 5.0 if last.arm == "1" else 0.0, 1)
    assert (told, study.status) == (3, "decided")
    with raises(ExperimentFinished):
        study.tell_and_ask(last, 5.0 if last.arm == "1" else 0.0)


def test_the_outcome_counts_even_if_no_pull_can_follow(make_study):
    study = make_study(Racing, slots=2)
    study.ask(2)
    with raises(NothingToAsk):
        study.tell_and_ask(study.problem.pull(arm="1"), 0.5)
    assert study.policy.told == 1
    assert study.verify().ok


def test_telling_and_asking_again_gives_the_same_pull(make_study):
    study = make_study()
    pull = study.ask()
    following = study.tell_and_ask(pull, 1.0, request_id="r")
    assert study.tell_and_ask(pull, 1.0, request_id="r") == following
    with raises(ConflictingOutcome):
        study.tell_and_ask(pull, 2.0)
    assert len(kinds(study)) == 3


def test_telling_and_asking_again_counts_an_unsolicited_result_once(make_study):
    study = make_study()
    unsolicited = study.problem.pull(arm="1")
    following = study.tell_and_ask(unsolicited, 1.0, request_id="r")
    assert study.tell_and_ask(unsolicited, 1.0, request_id="r") == following
    assert kinds(study) == ["unsolicited", "ask"]
    for pull, value in ((unsolicited, 2.0), (study.problem.pull(arm="0"), 1.0)):
        with raises((ConflictingOutcome, InvalidArgument)):
            study.tell_and_ask(pull, value, request_id="r")
    assert kinds(study) == ["unsolicited", "ask"]


def test_an_unsolicited_result_counts_once_even_if_no_pull_could_follow(make_study):
    study = make_study(Racing, slots=1)
    study.ask()
    for _ in range(2):
        with raises(NothingToAsk):
            study.tell_and_ask(study.problem.pull(arm="1"), 0.5, request_id="r")
    assert study.policy.told == 1


def test_a_key_of_another_request_tells_nothing_and_hands_back_no_pull(make_study):
    study = make_study()
    first, second = study.ask(2)
    study.tell_and_ask(first, 1.0, request_id="r")
    study.ask(request_id="s")
    before = kinds(study)
    for pull in (second, study.problem.pull(arm="1")):
        for key in "rs":
            with raises(InvalidArgument) as caught:
                study.tell_and_ask(pull, 1.0, request_id=key)
            assert caught.value.name == "request_id"
    assert kinds(study) == before
    study.tell(second, 1.0)


# ------------------------------------------------------- readings, amendments, losses


def test_readings_reach_the_policy(make_study):
    study = make_study(Racing)
    pull = study.ask()
    event = pull.report(0.5, stage=2, note="first")
    assert (event.kind, event.value, event.stage) == ("report", 0.5, 2)
    assert event.body == {"details": {"note": "first"}}
    assert study.policy.readings[pull.tag] == 0.5
    study.report(pull.id, 0.25, stage=1)
    assert study.policy.readings[pull.tag] == 0.5
    assert same_state(study.policy, replayed(study))


def test_a_reading_with_a_key_counts_once(make_study):
    study = make_study(Racing)
    pull = study.ask()
    first = study.report(pull, 0.5, stage=1, request_id="r")
    assert study.report(pull, 0.5, stage=1, request_id="r") == first
    with raises(InvalidArgument, "request_id"):
        study.report(pull, 0.75, stage=1, request_id="r")
    assert kinds(study) == ["ask", "report"]


def test_bad_readings_are_refused(make_study):
    study = make_study(Racing)
    pull = study.ask()
    with raises(InvalidOutcome):
        study.report(pull, math.nan)
    with raises(InvalidArgument, "details"):
        study.report(pull, 1.0, note=object())
    study.tell(pull, 1.0)
    with raises(AlreadyTold):
        study.report(pull, 1.0)
    with raises(UnknownPull):
        study.report("nobody", 1.0)
    assert kinds(study) == ["ask", "tell"]
    assert same_state(study.policy, replayed(study))


def test_readings_are_refused_by_a_policy_without_use_for_them(make_study):
    study = make_study(Elimination)
    with raises(NotSupported):
        study.report(study.ask(), 1.0)
    assert kinds(study) == ["ask"]


def test_a_pull_knows_when_its_outcome_no_longer_matters(make_study):
    study = make_study(Racing)
    good, bad, told = study.ask(3)
    bad.report(-2.0, stage=0)
    study.tell(told, 1.0)
    assert (good.should_stop(), bad.should_stop(), told.should_stop()) == (False, True, True)
    study.cancel(good)
    assert study.should_stop(good.id)
    with raises(UnknownPull):
        study.should_stop("nobody")


def test_a_pull_can_be_sent_to_another_process(make_study):
    study = make_study()
    pull = study.ask()
    copy = pickle.loads(pickle.dumps(pull))
    assert (copy, copy.id, copy.arm, copy.study) == (pull, pull.id, pull.arm, None)
    with raises(NotSupported):
        copy.report(1.0)
    study.tell(copy, 1.0)
    assert study.policy.told == 1


def test_an_outcome_is_corrected_with_a_reason(make_study):
    study = make_study()
    pull = study.ask()
    study.tell(pull, 10.0)
    event = study.amend(pull, 1.0, "decimal point", actor="monitor")
    assert (event.kind, event.value, event.actor) == ("amend", 1.0, "monitor")
    assert event.body == {"old": 10.0, "reason": "decimal point"}
    assert study.amend(pull, 1.0, "decimal point") == event
    study.amend(pull, 3.0, "once more")
    assert study.policy.sums[0] == 3.0
    assert study.health()["amended"] == 2
    assert same_state(study.policy, replayed(study))


def test_an_amended_outcome_told_again_as_it_was_or_is_gives_the_first_answer(make_study):
    study = make_study()
    pull = study.ask()
    first = study.tell(pull, 10.0)
    study.amend(pull, 1.0, "typing error")
    assert study.tell(pull, 10.0) == first
    assert study.tell(pull, 1.0) == first
    with raises(ConflictingOutcome):
        study.tell(pull, 2.0)


def test_named_fields_and_unasked_data_can_be_corrected(make_study):
    study = make_study(Averaging, RecordProblem())
    event = study.tell(study.problem.pull(arm="1"), {"s": 0, "y": 5.0})
    study.amend(event.pull_id, {"s": 0, "y": 2.0}, "typing error")
    assert study.policy.sums.tolist() == [0.0, 2.0, 0.0]
    assert same_state(study.policy, replayed(study))
    assert study.verify().ok


def test_what_was_never_told_cannot_be_corrected(make_study):
    study = make_study()
    pull = study.ask()
    for target in (pull, "nobody"):
        with raises(UnknownPull):
            study.amend(target, 1.0, "reason")
    study.tell(pull, 1.0)
    for reason in ("", "  ", None, "\ud800"):
        with raises(InvalidArgument, "reason", given=reason):
            study.amend(pull, 2.0, reason)
    with raises(InvalidOutcome):
        study.amend(pull, math.nan, "reason")


def test_a_pull_is_given_up_once(make_study):
    study = make_study()
    pull, told = study.ask(2)
    first = study.cancel(pull, "patient left", actor="nurse")
    assert (first.kind, first.body, first.actor) == ("cancel", {"reason": "patient left"}, "nurse")
    assert study.cancel(pull) == study.fail(pull) == first
    study.tell(told, 1.0)
    for give_up in (study.cancel, study.fail):
        with raises(AlreadyTold):
            give_up(told)
        with raises(UnknownPull):
            give_up("nobody")
    assert len(kinds(study)) == 4


def test_the_policy_hears_why_a_pull_was_lost(make_study, store, clock):
    reasons = []

    class Listening(Elimination):
        def on_failure(self, pull, reason):
            reasons.append(reason)

    study = make_study(Listening)
    first, second, _ = study.ask(3, lease=60)
    study.fail(first, "sample spoilt")
    study.cancel(second, "budget")
    clock.advance(61)
    study.ask()
    assert reasons == ["sample spoilt", "cancelled", "expired"]
    reasons.clear()
    assert Study.open(store, "toy", policies=[Listening], problems=[ToyProblem]).policy.asked == 4
    assert reasons == ["sample spoilt", "cancelled", "expired"]


# ----------------------------------------------------------------------------- looking


def test_progress_and_outstanding_show_the_state_now(make_study):
    study = make_study()
    first, second = study.ask(2)
    study.tell(first, 1.0)
    progress = study.progress()
    assert isinstance(progress, Progress)
    assert (progress.asked, progress.told, progress.outstanding) == (2, 1, 1)
    assert study.outstanding() == [second]
    assert study.outstanding()[0].arm == second.arm


def test_a_trace_has_every_second_or_fourth_or_eighth_result_and_ends_now(make_study):
    study = make_study(Serving)
    for index in range(50):
        pull = study.ask()
        if index % 10 == 0:
            study.fail(pull)
        else:
            study.tell(pull, 1.0)
    study.ask()
    trace = study.trace(points=10)
    assert [moment.told for moment in trace] == [0, 8, 16, 24, 32, 40, 45]
    assert trace[-1] == study.progress()
    assert [moment.told for moment in study.trace(points=1000)] == list(range(46))
    with raises(InvalidArgument, "points"):
        study.trace(1)


def test_the_trace_of_an_empty_study_is_its_start(make_study):
    study = make_study()
    assert study.trace() == [study.progress()]


def test_a_policy_that_somebody_touched_is_made_anew(make_study):
    study = make_study(Serving)
    pull = study.ask()
    study.policy.tell(study.policy.ask(), 1e9)
    assert (study.policy.asked, study.policy.told) == (1, 0)
    study.tell(pull, 1.0)
    assert study.verify().ok


def test_events_can_be_read_from_any_point(make_study):
    study = make_study()
    study.ask(5)
    assert [event.seq for event in study.events(after=3)] == [4, 5]
    with raises(InvalidArgument, "after"):
        study.events(after=-1)


def test_events_can_be_read_while_others_are_written(make_study):
    study = make_study()
    study.ask(3)
    seen = []
    for event in study.events():
        seen.append(event.seq)
        if event.kind == "ask" and len(seen) <= 3:
            study.tell(event.pull_id, 1.0)
    assert seen[:3] == [1, 2, 3]
    assert len(kinds(study)) == 6


def test_several_threads_share_a_study(make_study):
    study = make_study(Serving)
    errors = []

    def work():
        try:
            for _ in range(25):
                study.tell(study.ask(), 0.5)
                study.progress()
        except FairtrialError as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert study.policy.told == 100
    assert study.verify().ok


def test_two_handles_on_one_study_see_each_other(make_study, store):
    one = make_study(Serving)
    two = Study.open(store, "toy", **OWN)
    for _ in range(10):
        two.tell(one.ask().id, 0.5)
        one.tell(two.ask().id, 0.25)
    assert same_state(one.policy, two.policy)
    assert same_state(one.policy, replayed(two))
    assert one.head_hash == two.head_hash


def test_a_study_keeps_the_order_of_a_mapping(make_study, store):
    class Ordered(ToyProblem):
        family = "study-ordered"

        def __init__(self, arms):
            self.arms = arms
            super().__init__(list(arms))
            object.__setattr__(self, "arms", arms)

    problem = Ordered({"z": 1.0, "a": 2.0, "m": 3.0})
    Study.create(problem, Elimination(problem), storage=store, name="ordered", seed=1)
    again = Study.open(store, "ordered", policies=[Elimination], problems=[Ordered])
    assert again.problem == problem
    assert [labels["arm"] for labels in again.problem.action_labels] == ["z", "a", "m"]
