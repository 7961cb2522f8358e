"""The driver with threads: order, limits, call-backs, failures, deadlines, resumption."""

import hashlib
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import fairtrial
from fairtrial.delayed import InformationRacing, PairedRacing, Problem
from fairtrial.errors import (
    ConflictingOutcome,
    ExperimentFinished,
    InvalidArgument,
    InvalidOutcome,
    NothingToAsk,
    SourceError,
    StorageError,
)
from fairtrial.study import StopPull, Study, run_study
from tests.messages import raises
from tests.study.tools import PATIENCE, wait_until
from tests.study.toys import (
    Averaging,
    Blocks,
    Elimination,
    GroupProblem,
    Racing,
    RecordProblem,
    Serving,
    ToyProblem,
)
from tests.study.work import MEANS, Bad, by_group, measure, plain


@pytest.fixture
def threads():
    with ThreadPoolExecutor(4) as pool:
        yield pool


@pytest.fixture
def make_race(store):
    """Return a function that makes a study of a real race."""

    def make(about=(), **parameters):
        options = {"noise_std": 0.1, "feedback": "unbiased", "reading_std": 0.2, **dict(about)}
        problem = Problem(["a", "b", "c"], **options)
        policy = InformationRacing(problem, delta=0.05, **parameters)
        return Study.create(problem, policy, storage=store, name="race", seed=1)

    return make


def kinds(study):
    return Counter(event.kind for event in study.events())


def reasons(study):
    return [e.body["reason"] for e in study.events() if e.kind in ("fail", "cancel")]


def most_in_flight(study):
    flying, most = 0, 0
    for event in study.events():
        flying += {"ask": 1, "tell": -1, "fail": -1, "cancel": -1}.get(event.kind, 0)
        most = max(most, flying)
    return most


# ------------------------------------------------------------------------ the way of things


def test_a_study_is_driven_to_its_answer_with_so_many_pulls_in_flight(make_race, threads):
    study = make_race()
    answer = run_study(study, measure, threads, parallel=3)
    assert (answer.status, answer.arm) == ("decided", ("c",))
    assert study.outstanding() == []
    assert most_in_flight(study) == 3
    assert study.verify().ok
    assert fairtrial.run_study is run_study


def test_every_reading_is_in_the_log_before_its_result_and_in_its_order(make_study, threads):
    study = make_study(Racing)
    run_study(study, measure, threads, parallel=3)
    told = [event.pull_id for event in study.events() if event.kind == "tell"]
    for pull in told:
        mine = [(e.kind, e.stage) for e in study.events() if e.pull_id == pull]
        assert mine == [("ask", None), ("report", 1), ("report", 2), ("tell", None)]
    assert len(told) == 40
    assert {e.actor for e in study.events() if e.kind != "wait"} == {next(study.events()).actor}


def test_one_pull_at_a_time_is_as_a_loop_by_hand(make_study, threads):
    driven, by_hand = make_study(Racing, name="driven"), make_study(Racing, name="by hand")
    run_study(driven, plain, threads)
    while not by_hand.policy.stopped:
        pull = by_hand.ask()
        by_hand.tell(pull, MEANS[pull.arm])

    def steps(study):
        return [(e.kind, e.number, e.action, e.value) for e in study.events()]

    assert steps(driven) == steps(by_hand)


def test_groups_and_other_labels_come_as_keywords(make_study, threads):
    study = make_study(Serving, GroupProblem())
    run_study(study, by_group, threads, pulls=20)
    for event in study.events():
        if event.kind == "tell":
            assert event.value == (1.0 if event.action < 2 else 0.0)


def test_outcomes_may_be_rows_of_named_fields(make_study, threads):
    study = make_study(Averaging, RecordProblem())
    run_study(study, lambda arm, report: {"s": 0, "y": MEANS[arm]}, threads, pulls=6)
    assert study.policy.means.tolist() == [0.0, 0.5, 1.0]


def test_a_session_ends_after_so_many_pulls_and_leaves_none_open(make_study, threads):
    study = make_study(Racing)
    answer = run_study(study, plain, threads, parallel=3, pulls=7)
    assert answer.status == "running"
    assert (study.policy.asked, study.policy.told, study.outstanding()) == (7, 7, [])
    run_study(study, plain, threads, parallel=3)
    assert study.policy.told >= 40


def test_the_study_is_shown_after_every_reading_and_result(make_study, threads):
    study, seen = make_study(Racing), []
    run_study(study, measure, threads, watch=lambda s: seen.append(s.policy.told), pulls=3)
    assert seen == [0, 0, 1, 1, 1, 2, 2, 2, 3]


def test_an_executor_may_be_made_and_closed_by_the_driver(make_study):
    made = []

    def make():
        made.append(ThreadPoolExecutor(2))
        return made[-1]

    run_study(make_study(Racing), plain, make, parallel=2)
    with pytest.raises(RuntimeError, match="after shutdown"):
        made[0].submit(print)
    assert len(made) == 1


# ------------------------------------------------------------------------ calling back


def once_late(event):
    """Return a function that watches a study and sets the event when its log has a late result."""
    return lambda study: event.set() if kinds(study)["late_tell"] else None


def test_a_pull_that_is_not_wanted_any_more_is_called_back_and_its_work_told(make_study, threads):
    study, stopped = make_study(Racing), []

    def poor(arm, report):
        try:
            report(-2.0 if report.pull.number < 3 else 0.0, stage=0)
        except StopPull:
            stopped.append(report.pull.number)
            raise
        return MEANS[arm]

    run_study(study, poor, threads, parallel=3, pulls=10)
    # Functions that were called back may end after the run.
    threads.shutdown(wait=True)
    assert sorted(stopped) == [0, 1, 2]
    assert kinds(study)["cancel"] == 3
    assert kinds(study)["report"] == 10
    assert study.policy.told == 7


def test_a_truncated_pull_is_called_back_after_its_last_reading(make_race, threads):
    study = make_race(truncate=2)
    answer = run_study(study, measure, threads, parallel=2)
    assert answer.arm == ("c",)
    read = [event.pull_id for event in study.events() if event.stage == 2]
    cancelled = [event.pull_id for event in study.events() if event.kind == "cancel"]
    assert read
    assert set(read) <= set(cancelled)
    assert kinds(study)["tell"] == 0


def test_a_result_that_comes_in_spite_of_it_counts(make_study, threads):
    study, counted = make_study(Racing), threading.Event()

    def stubborn(arm, report):
        try:
            report(-2.0 if report.pull.number == 0 else 0.0, stage=0)
        except StopPull:
            return 17.0
        assert report.pull.number < 7 or counted.wait(PATIENCE)
        return 0.0

    run_study(study, stubborn, threads, parallel=2, pulls=8, watch=once_late(counted))
    late = [event.value for event in study.events() if event.kind == "late_tell"]
    assert late == [17.0]
    assert study.verify().ok


def test_what_somebody_else_called_back_is_stopped_as_well(make_study, threads):
    study, begun = make_study(Racing), threading.Event()

    def waits(arm, report):
        if report.pull.number == 0:
            begun.set()
            while not report.should_stop():
                time.sleep(0.01)
        return 0.0

    def by_hand():
        begun.wait()
        study.cancel(study.outstanding()[0], "by hand")

    threading.Thread(target=by_hand).start()
    run_study(study, waits, threads, pulls=3)
    assert reasons(study) == ["by hand"]


def test_a_study_says_which_pulls_are_not_wanted_any_more(make_study):
    study = make_study(Racing)
    good, bad, unread = study.ask(3)
    study.report(good, 0.5, stage=1)
    study.report(bad, -2.0, stage=1)
    assert study.to_cancel() == [bad]
    study.cancel(bad)
    assert study.to_cancel() == []
    assert unread in study.outstanding()


def test_work_that_goes_on_when_all_is_over_is_told_to_stop(make_study):
    study, ends = make_study(Racing, budget=1), []

    def waits(arm, report):
        if report.pull.number == 0:
            return 1.0
        while not report.should_stop():
            time.sleep(0.005)
        ends.append(report.pull.number)
        with raises(StopPull):
            report(1.0)
        return 1.0

    with ThreadPoolExecutor(3) as pool:
        run_study(study, waits, pool, parallel=3)
        assert study.outstanding() == []
    assert set(ends) <= {1, 2}
    assert kinds(study)["cancel"] == 2


def blocks_asked(study):
    return [event.tag for event in study.events() if event.kind == "ask"]


def test_on_shared_blocks_nothing_is_asked_for_again_while_its_work_runs(make_study, threads):
    study = make_study(Blocks)

    def has_asked_since_it_is_needed_again():
        happened = [event.kind for event in study.events()]
        others = [at for at, kind in enumerate(happened) if kind == "tell"]
        return len(others) > 1 and not {"ask", "wait"}.isdisjoint(happened[others[1] :])

    begun = threading.Event()

    def slow_on_the_first(arm, report):
        if report.pull.block == 0:
            begun.set()
            wait_until(has_asked_since_it_is_needed_again)
        # Work that has not begun would be taken back.
        assert begun.wait(PATIENCE)
        return 0.5

    run_study(study, slow_on_the_first, threads, parallel=2)
    assert blocks_asked(study) == [0, 1, 2]
    assert study.policy.stopped
    assert study.verify().ok


@pytest.mark.parametrize("error", [StopPull, ValueError])
def test_on_shared_blocks_work_that_stops_when_told_to_has_not_failed(make_study, threads, error):
    study = make_study(Blocks)

    def stops(arm, report):
        if report.pull.number == 0:
            wait_until(report.should_stop)
            raise error("called back")
        if report.pull.block == 2:
            wait_until(lambda: kinds(study)["cancel"])
        return 0.5

    run_study(study, stops, threads, parallel=2, max_failures=0)
    assert reasons(study) == ["no longer needed"]
    assert blocks_asked(study) == [0, 1, 2, 0]


# ---------------------------------------------------------------------------- failures


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        (ValueError("spilt"), "error"),
        (TimeoutError("no answer"), "timeout"),
        (StopPull("of its own accord"), "lost"),
        (None, "error"),
        (float("nan"), "error"),
        ("much", "error"),
        (np.complex128(0.5), "error"),
    ],
    ids=["exception", "timeout", "gives up", "none", "nan", "text", "complex"],
)
def test_work_that_fails_is_a_pull_that_fails(make_study, threads, what, reason):
    study = make_study(Racing)

    def now_and_then(arm, report):
        return Bad(what)(arm, report) if report.pull.number % 3 == 1 else 0.5

    run_study(study, now_and_then, threads, parallel=2, pulls=9)
    assert reasons(study) == [reason] * 3
    assert study.policy.told == 6
    assert study.outstanding() == []


def test_too_many_failures_in_a_row_end_the_session_and_say_why(make_study, threads):
    study = make_study(Racing)
    with raises(SourceError) as caught:
        run_study(study, Bad(ValueError("spilt")), threads, max_failures=3)
    assert "failed: ValueError: spilt" in str(caught.value)
    assert "Traceback" in str(caught.value)
    assert reasons(study) == ["error"] * 4
    run_study(study, plain, threads, parallel=3)
    assert study.outstanding() == []


def test_what_is_in_flight_is_waited_for_before_a_session_ends_badly(make_study, threads):
    study, failed, all_begun = make_study(Racing), threading.Event(), threading.Barrier(3)

    def one_fails(arm, report):
        all_begun.wait(PATIENCE)
        if report.pull.number == 1:
            failed.set()
            raise ValueError("spilt")
        assert failed.wait(PATIENCE)
        time.sleep(0.05)
        return 0.25

    with raises(SourceError):
        run_study(study, one_fails, threads, parallel=3, max_failures=0)
    assert (study.policy.told, study.outstanding()) == (2, [])


def test_a_source_that_has_dried_up_ends_the_session_and_its_pull_stays_open(make_study, threads):
    study = make_study(Racing)

    def dry(arm, report):
        if report.pull.number == 2:
            raise SourceError("no more cells in the fridge")
        return 0.5

    with raises(SourceError):
        run_study(study, dry, threads)
    assert [pull.number for pull in study.outstanding()] == [2]
    run_study(study, plain, threads, pulls=1)
    assert study.outstanding() == []
    assert study.policy.asked == 3


def test_readings_where_the_policy_takes_none_end_the_session_at_once(make_study, threads):
    study = make_study(Elimination)
    with raises(SourceError):
        run_study(study, measure, threads)
    assert kinds(study) == {"ask": 1}


@pytest.mark.parametrize("kind", [np.float32, np.array, Fraction, Decimal])
def test_numbers_of_any_library_are_readings_and_outcomes(make_race, threads, kind):
    study = make_race()

    def measure_it(arm, report):
        report(kind(0.25), stage=kind(1), std=kind(0.5))
        return kind(0.5)

    run_study(study, measure_it, threads, pulls=1)
    assert [event.value for event in study.events() if event.kind != "ask"] == [0.25, 0.5]


def test_a_reading_that_is_refused_is_raised_where_it_was_given(make_race, threads):
    study, seen = make_race(), []

    def careless(arm, report):
        values = [(float("nan"), 1), ("much", 1), (np.complex128(0.5), 1), (0.5, 1), (0.7, 1)]
        for value, stage in values:
            try:
                report(value, stage=stage)
            except (InvalidOutcome, ConflictingOutcome) as error:
                seen.append(type(error).__name__)
        return MEANS[arm]

    run_study(study, careless, threads, pulls=1)
    assert seen == ["InvalidOutcome"] * 3 + ["ConflictingReport"]
    assert kinds(study) == {"ask": 1, "report": 1, "tell": 1}


def test_a_pull_that_takes_too_long_is_given_up_and_its_late_result_counts(
    make_study, threads, leap
):
    study, go, counted = make_study(Racing), threading.Event(), threading.Event()

    def slow(arm, report):
        if report.pull.number == 0:
            leap(1.0)
            assert go.wait(PATIENCE)
            return 9.0
        if report.pull.number == 4:
            go.set()
            assert counted.wait(PATIENCE)
        return 0.0

    watch = once_late(counted)
    run_study(study, slow, threads, parallel=1, deadline=0.8, pulls=8, watch=watch)
    assert reasons(study) == ["timeout"]
    assert [event.value for event in study.events() if event.kind == "late_tell"] == [9.0]
    assert study.verify().ok


def test_the_time_of_a_pull_begins_with_its_work_not_in_the_queue(make_study, leap):
    study = make_study(Racing)

    def takes_a_while(arm, report):
        leap(0.5)
        # Between the two answers the driver has looked at the clock.
        assert not report.should_stop()
        assert not report.should_stop()
        return 0.5

    with ThreadPoolExecutor(1) as single:
        run_study(study, takes_a_while, single, parallel=3, deadline=1.3, pulls=3)
    assert kinds(study)["tell"] == 3


def test_workers_that_never_come_back_end_the_session_and_what_waits_for_them_stays_open(
    make_study, threads, leap
):
    study, go, three_begun = make_study(Racing), threading.Event(), threading.Barrier(3)

    def hanging(arm, report):
        if report.pull.number < 3:
            three_begun.wait(PATIENCE)
        if report.pull.number >= 2:
            leap(1.0)
        if report.pull.number == 3:
            wait_until(lambda: kinds(study)["fail"] == 4)
            leap(1.0)
        assert go.wait(PATIENCE)
        return 9.0

    try:
        with raises(SourceError):
            run_study(study, hanging, threads, parallel=3, deadline=0.2, max_failures=99)
    finally:
        go.set()
    # There are four workers: three more pulls had none.
    assert reasons(study) == ["timeout"] * 4
    assert [pull.number for pull in study.outstanding()] == [4, 5, 6]
    run_study(study, plain, threads, parallel=3)
    assert study.policy.stopped
    assert study.verify().ok


def test_a_timeout_in_a_race_needs_a_decision_unless_failures_are_independent(make_race, threads):
    def slow(arm, report):
        while arm == "b" and not report.should_stop():
            time.sleep(0.01)
        return MEANS[arm]

    study = make_race({"failure_value": 0.0, "noise_std": 1.0})
    answer = run_study(study, slow, threads, parallel=3, deadline=0.1, max_failures=50, pulls=9)
    assert answer.status in ("running", "decided")
    assert "timeout" in reasons(study)


def test_an_executor_that_takes_no_work_is_reported(make_study):
    study = make_study(Racing)
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with raises(SourceError):
        run_study(study, plain, pool)
    assert study.verify().ok


# -------------------------------------------------------------------------- resumption


def test_pulls_left_open_that_are_no_longer_needed_are_cancelled(store, threads):
    problem = Problem(["a", "b", "c"], reward_range=(0, 1))
    study = Study.create(problem, PairedRacing(problem), storage=store, name="race")
    outcomes = {"a": 0.1, "b": 0.7, "c": 0.6}
    pulls, carried_out = [], []
    while study.policy.states[0] != "rejected":
        pulls += study.ask(9 - len(pulls))
        study.tell(pull := pulls.pop(0), outcomes[pull.arm])
    assert "a" in [pull.arm for pull in study.outstanding()]

    def measured(arm, report):
        carried_out.append(arm)
        return outcomes[arm]

    assert run_study(study, measured, threads).arm == "b"
    assert "a" not in carried_out
    assert study.outstanding() == []


def test_a_pull_left_open_whose_score_is_known_is_not_carried_out_again(store, threads):
    problem = Problem(["a", "b"], reward_range=(0, 1))
    study = Study.create(problem, PairedRacing(problem), storage=store, name="race")
    lost = study.ask()
    study.fail(lost, "lost")
    assert study.ask().block == lost.block
    study.tell(lost, 0.1)
    carried_out = []

    def measured(arm, report):
        carried_out.append((arm, report.pull.block))
        return {"a": 0.1, "b": 0.9}[arm]

    run_study(study, measured, threads)
    assert (lost.arm, lost.block) not in carried_out
    assert study.outstanding() == []
    assert study.verify().ok


def test_pulls_left_open_are_carried_out_again_but_not_those_of_others(make_study, threads):
    study = make_study(Racing, slots=6)
    open_one, read, theirs = study.ask(), study.ask(), study.ask(worker="rig 2")
    study.report(read, 0.3, stage=1)
    run_study(study, plain, threads, pulls=3)
    rows = {row.pull_id: row.state for row in study._store.pulls(1)}
    assert rows[open_one.id] == "told"
    assert rows[read.id] == "lost"
    assert rows[theirs.id] == "open"
    assert study.policy.asked == 5


def test_runners_that_cannot_know_of_each_other_do_not_run(path, threads):
    problem = Problem(["a", "b"], noise_std=1.0)
    policy = InformationRacing(problem, delta=0.05)
    with Study.create(problem, policy, storage=path, name="race", seed=1) as study:
        digest = hashlib.sha256(b"race").hexdigest()[:8]
        path.with_name(f"{path.name}-{digest}.running").mkdir()
        with raises(StorageError):
            run_study(study, plain, threads)
        assert list(study.events()) == []


def test_ctrl_c_leaves_a_study_that_goes_on(make_study):
    study = make_study(Racing)

    def interrupt(study):
        if study.policy.told == 5:
            raise KeyboardInterrupt

    with ThreadPoolExecutor(2) as pool, pytest.raises(KeyboardInterrupt):
        run_study(study, measure, pool, parallel=2, watch=interrupt)
    assert study.policy.told == 5
    assert len(study.outstanding()) <= 2
    with ThreadPoolExecutor(2) as pool:
        run_study(study, measure, pool, parallel=2)
    assert study.outstanding() == []
    assert study.verify().ok


def test_drivers_in_two_threads_share_a_study_and_carry_out_every_pull_once(make_study):
    study, seen = make_study(Racing, slots=4), []

    def noting(arm, report):
        seen.append(report.pull.number)
        return measure(arm, report)

    def drive():
        with ThreadPoolExecutor(2) as pool:
            run_study(study, noting, pool, parallel=2)

    drivers = [threading.Thread(target=drive) for _ in range(2)]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join()
    assert len(set(seen)) == len(seen)
    assert study.policy.told >= 40
    assert study.outstanding() == []
    assert study.verify().ok


def test_a_driver_waits_while_another_ones_result_is_needed(make_study, threads):
    study = make_study(Racing, slots=1, budget=2)
    theirs = study.ask(worker="rig 2")

    def tell_once_the_driver_waits():
        wait_until(lambda: kinds(study)["wait"])
        study.tell(theirs, 0.5)

    threading.Thread(target=tell_once_the_driver_waits).start()
    run_study(study, plain, threads)
    assert [e.kind for e in study.events()] == ["ask", "wait", "tell", "ask", "tell"]


# --------------------------------------------------------------------------- bad input


class Nothing(Racing):
    """Has nothing to give."""

    def choose(self):
        return None


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"parallel": 0}, "parallel"),
        ({"parallel": 2.5}, "parallel"),
        ({"executor": None}, "executor"),
        ({"executor": list}, "executor"),
        ({"function": "measure"}, "function"),
        ({"deadline": 0}, "deadline"),
        ({"deadline": float("nan")}, "deadline"),
        ({"pulls": 0}, "pulls"),
        ({"max_failures": -1}, "max_failures"),
        ({"study": None}, "study"),
        ({"watch": 3}, "watch"),
        ({"host": 7}, "host"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_bad_arguments_are_refused_and_change_nothing(make_study, threads, changes, name):
    study = make_study(Racing)
    arguments = {"study": study, "function": plain, "executor": threads, **changes}
    with raises(InvalidArgument, name):
        run_study(**arguments)
    assert list(study.events()) == []


def test_a_study_that_has_stopped_is_not_driven(make_study, threads):
    study = make_study(Racing, budget=2)
    run_study(study, plain, threads)
    before = study.head_hash
    with raises(ExperimentFinished):
        run_study(study, plain, threads)
    assert study.head_hash == before


def test_a_policy_that_never_stops_needs_a_number_of_pulls(make_study, threads):
    study = make_study(Serving)
    with raises(InvalidArgument, "pulls"):
        run_study(study, plain, threads)
    assert run_study(study, plain, threads, pulls=5).status == "running"
    assert study.policy.told == 5


def test_a_policy_that_gives_nothing_is_not_waited_for(store, threads):
    problem = ToyProblem()
    study = Study.create(problem, Nothing(problem), storage=store, name="toy", seed=1)
    with raises(NothingToAsk):
        run_study(study, plain, threads)
