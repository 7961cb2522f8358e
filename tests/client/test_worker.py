import threading
import time
from contextlib import contextmanager

import pytest

from fairtrial import delayed, errors, subpopulations
from fairtrial.client import work
from fairtrial.study import Study
from fairtrial.study.memory import MemoryStore
from fairtrial.study.reporting import StopPull
from tests.client.served import served
from tests.messages import raises

PROBLEM = subpopulations.Problem(["a", "b"], ["x", "y"], reward_range=(0, 1))
RACE = delayed.Problem(["a", "b", "c"], noise_std=0.1, feedback="refining", reading_std=0.5)


class Owner:
    """The owner of the storage, who can look at everything."""

    def __init__(self, service, store):
        self.service, self._store = service, store

    def study(self, policy=None, problem=PROBLEM, name="trial", **options):
        policy = subpopulations.BlockBetting(problem) if policy is None else policy
        local = Study.create(policy.problem, policy, storage=self._store, name=name, seed=1)
        token = f"worker of {name} {len(options)} {time.monotonic_ns()}"
        remote = self.service.connect(token, "run", studies=[name]).study(name)
        return local, remote


@pytest.fixture(scope="module")
def owner():
    store = MemoryStore()
    with served(store) as service:
        yield Owner(service, store)


@pytest.fixture
def make(owner, request):
    """Make a study; return it as its owner and as a worker see it."""
    numbers = iter(range(100))
    return lambda *a, **k: owner.study(*a, name=f"{request.node.name} {next(numbers)}", **k)


def measure(arm, report, group):
    return 0.9 if arm == "a" else 0.1


def kinds(study):
    return [event.kind for event in study.events()]


@contextmanager
def in_background(*arguments, **options):
    """Work in a thread; yield a function that ends it, and afterwards its result."""
    end, result = threading.Event(), {}

    def run():
        try:
            result["ending"] = work(*arguments, interrupted=end.is_set, **options)
        except errors.FairtrialError as error:
            result["error"] = error

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield end, result
    finally:
        end.set()
        thread.join(30)
        assert not thread.is_alive()


def until(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_worker_that_may_only_run_a_study_carries_it_to_its_end(make):
    study, remote = make()
    told = []
    assert work(remote, measure, parallel=3, watch=told.append) == "stopped"
    assert study.recommend().arm == "a"
    assert study.verify().ok
    assert told[0].startswith("pull ")
    actors = {event.actor for event in study.events() if event.kind == "tell"}
    assert len(actors) == 1
    assert next(iter(actors)).startswith("worker of")


def test_two_workers_measure_every_pull_once(make):
    study, remote = make()
    measured = []

    def measure_and_note(arm, report, group):
        measured.append(report.pull.id)
        return measure(arm, report, group)

    with in_background(remote, measure_and_note, parallel=2) as (_, result):
        assert work(remote, measure_and_note, parallel=2) == "stopped"
        until(lambda: "ending" in result)
    assert len(measured) == len(set(measured))
    assert study.recommend().arm == "a"
    assert study.health()["duplicates"] == 0


def test_a_session_of_some_pulls_waits_for_all_of_them(make):
    study, remote = make()

    def slowly(arm, report, group):
        time.sleep(0.2)
        return 0.5

    assert work(remote, slowly, parallel=4, pulls=6, grace=0.0) == "limit"
    assert kinds(study).count("tell") == 6
    assert study.outstanding() == []


def test_failures_are_told_with_their_reasons(make):
    study, remote = make()
    ends = iter([ValueError("out of order"), TimeoutError("too long"), "no number", None])

    def fail(arm, report, group):
        end = next(ends)
        if isinstance(end, Exception):
            raise end
        return end

    told = []
    assert work(remote, fail, pulls=4, watch=told.append) == "limit"
    reasons = [event.body["reason"] for event in study.events() if event.kind == "fail"]
    assert reasons == ["error", "timeout", "error", "error"]
    assert "out of order" in told[0]


def test_a_worker_ends_when_nothing_but_failures_comes(make):
    study, remote = make()

    def fail(arm, report, group):
        raise ValueError("out of order")

    with raises(errors.SourceError) as caught:
        work(remote, fail, max_failures=2)
    assert "out of order" in str(caught.value)
    assert kinds(study).count("fail") == 3


def test_a_function_that_cannot_do_any_better_ends_the_worker_and_its_pull_goes_back(make):
    study, remote = make()

    def broken(arm, report, group):
        raise errors.SourceError("the instrument is off")

    with raises(errors.SourceError):
        work(remote, broken)
    time.sleep(0.01)
    assert kinds(study)[-1] == "fail"


def test_readings_are_reported_and_pulls_that_no_longer_matter_are_called_back(make):
    study, remote = make(delayed.InformationRacing(RACE))

    def measure_late(arm, report):
        for stage in range(1, 4):
            report(1.0 if arm == "a" else 0.0, stage=stage)
        return 1.0 if arm == "a" else 0.0

    assert work(remote, measure_late, parallel=3) == "stopped"
    assert study.recommend().arm == ("a",)
    assert kinds(study).count("report") >= 3


def test_a_pull_that_somebody_cancels_is_ended_by_the_next_heartbeat(make):
    study, remote = make(delayed.InformationRacing(RACE))
    ended = threading.Event()

    def wait_for_the_end(arm, report):
        while not report.should_stop():
            time.sleep(0.01)
        ended.set()
        raise StopPull

    with in_background(remote, wait_for_the_end, lease=0.6, pulls=1, grace=0.1):
        until(study.outstanding)
        study.cancel(study.outstanding()[0], "the sample was spilt")
        assert ended.wait(10)


def test_leases_are_extended_while_a_function_runs_and_no_longer(make):
    study, remote = make()
    release = threading.Event()

    def wait(arm, report, group):
        release.wait(20)
        return 0.5

    with in_background(remote, wait, lease=0.6, pulls=1, grace=0.1) as (_, result):
        until(lambda: study.session.row().lease_changes >= 3)
        assert study.outstanding()
        assert kinds(study) == ["ask"]
        release.set()
        until(lambda: "ending" in result)
    assert kinds(study)[-1] == "tell"
    assert "expire" not in kinds(study)


def test_a_worker_that_is_to_end_finishes_what_runs(make):
    study, remote = make()
    begun = threading.Event()

    def take_a_moment(arm, report, group):
        begun.set()
        time.sleep(0.5)
        return 0.5

    with in_background(remote, take_a_moment, grace=20.0) as (end, result):
        assert begun.wait(10)
        end.set()
        until(lambda: "ending" in result)
    assert result["ending"] == "interrupted"
    assert kinds(study)[-1] == "tell"
    assert study.outstanding() == []


def test_what_does_not_end_in_time_is_handed_back(make, monkeypatch):
    monkeypatch.setattr("fairtrial.client.worker._END_SECONDS", 0.2)
    study, remote = make()
    begun, release = threading.Event(), threading.Event()

    def hang(arm, report, group):
        begun.set()
        release.wait(20)
        return 0.5

    with in_background(remote, hang, grace=0.1, lease=3600.0) as (end, result):
        assert begun.wait(10)
        end.set()
        until(lambda: "ending" in result)
    release.set()
    assert result["ending"] == "interrupted"
    time.sleep(0.01)
    assert study.health()["open"] - study.health()["overdue"] == 0


def test_a_pull_with_readings_that_is_handed_back_is_lost(make, monkeypatch):
    monkeypatch.setattr("fairtrial.client.worker._END_SECONDS", 0.2)
    study, remote = make(delayed.InformationRacing(RACE))
    begun, release = threading.Event(), threading.Event()

    def hang(arm, report):
        report(0.5, stage=1)
        begun.set()
        release.wait(20)
        return 0.5

    with in_background(remote, hang, grace=0.0) as (end, result):
        assert begun.wait(10)
        end.set()
        until(lambda: "ending" in result)
    release.set()
    (event,) = [event for event in study.events() if event.kind == "fail"]
    assert event.body["reason"] == "lost"


def test_pulls_of_a_worker_that_dies_are_taken_from_it(make):
    study, remote = make()
    remote.ask(2, lease=0.05)
    time.sleep(0.1)
    assert work(remote, measure) == "stopped"
    health = study.health()
    assert health["expired"] + health["reissued"] == 2
    assert study.recommend().arm == "a"


@pytest.mark.parametrize("how", ["dies", "hands it back"])
def test_a_pull_that_another_worker_leaves_is_taken_up_although_no_event_says_so(
    make, monkeypatch, how
):
    monkeypatch.setattr("fairtrial.client.worker._BETWEEN_ASKS", 0.2)
    race = delayed.PairedRacing(delayed.Problem(["a", "b"], reward_range=(0, 1)), n_blocks=1)
    study, remote = make(race)
    left = study.ask(worker="another", lease=0.5 if how == "dies" else 3600.0)

    def score(arm, report):
        return 0.5

    with in_background(remote, score) as (_, result):
        until(lambda: kinds(study).count("tell") == 1)
        if how == "hands it back":
            study.extend(left, 1e-3)
        until(lambda: "ending" in result)
    assert result["ending"] == "stopped"
    assert kinds(study).count("reissue") == 1
    assert study.verify().ok


def test_a_study_that_is_stopped_by_hand_ends_its_workers(make):
    study, remote = make()

    def wait(arm, report, group):
        time.sleep(0.05)
        return 0.5

    with in_background(remote, wait) as (_, result):
        until(lambda: "tell" in kinds(study))
        study.stop("recalled")
        until(lambda: "ending" in result)
    assert result["ending"] == "stopped"


def test_outcomes_that_cannot_be_told_are_named_so_that_somebody_else_may_tell_them(
    make, monkeypatch
):
    study, remote = make()
    both = threading.Barrier(2)

    def gone(*_, **__):
        raise errors.StorageUnreachable("the service is gone")

    def measure_together(arm, report, group):
        both.wait(20)
        return 0.25

    monkeypatch.setattr(remote, "tell", gone)
    monkeypatch.setattr("fairtrial.client.worker._PATIENCE_SECONDS", 0.0)
    said = []
    # Either pull may be the first that cannot be told.
    with pytest.raises(errors.StorageUnreachable) as caught:
        work(remote, measure_together, parallel=2, watch=said.append)
    told = " ".join([str(caught.value), *said])
    for pull in study.outstanding():
        assert f"id {pull.id}, has the outcome 0.25" in told
    assert len(study.outstanding()) == 2


def test_a_starved_worker_waits_without_asking_again_and_again(make, monkeypatch):
    study, remote = make(
        delayed.InformationRacing(
            delayed.Problem(["a", "b"], noise_std=0.1), sampling="top_two", parallel=1, per_arm=1
        )
    )
    held = study.ask()
    asks = []
    ask_up_to = type(remote).ask_up_to
    monkeypatch.setattr(
        type(remote), "ask_up_to", lambda *a, **k: asks.append(1) or ask_up_to(*a, **k)
    )

    def quickly(arm, report):
        return 1.0 if arm == "a" else 0.0

    with in_background(remote, quickly) as (_, result):
        time.sleep(2.5)
        assert len(asks) <= 4
        assert "ending" not in result
        study.tell(held, 0.5)
        until(lambda: "ending" in result)
    assert result["ending"] == "stopped"


def test_a_worker_whose_token_is_refused_ends_at_once(owner, make):
    study, _ = make()
    reader = owner.service.connect(f"reader {time.monotonic_ns()}", "read").study(study.name)
    with raises(errors.AccessRefused):
        work(reader, measure)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"parallel": 0}, "parallel"),
        ({"parallel": 1.5}, "parallel"),
        ({"lease": 0}, "lease"),
        ({"lease": float("inf")}, "lease"),
        ({"pulls": 0}, "pulls"),
        ({"grace": -1}, "grace"),
        ({"max_failures": -1}, "max_failures"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_asked(make, options, name):
    study, remote = make()
    with raises(errors.InvalidArgument, name):
        work(remote, measure, **options)
    assert study.n_events == 0
    with raises(errors.InvalidArgument, "function"):
        work(remote, "measure")
    with raises(errors.InvalidArgument, "study", given=study):
        work(study, measure)


# ------------------------------------------------------------------------------ measures

DOSES = subpopulations.Problem(
    ["low", "high"], 1, measures={"cured": (0, 1), "harmed": (0, 1)}, objective="cured"
)


def test_a_worker_tells_measures_in_parts_and_leaves_the_rest_to_others(make):
    local, remote = make(subpopulations.BlockBetting(DOSES))

    def measure(arm, report, group):
        report({"cured": 1})
        return {"harmed": 0} if report.pull.number % 2 else {}

    assert work(remote, measure, lease=1.5, pulls=6) == "limit"
    assert kinds(local).count("tell") == 3
    waiting = local.outstanding()
    assert [pull.number for pull in waiting] == [0, 2, 4]
    time.sleep(1.7)
    # Their leases do not run out: no other worker measures them again.
    assert work(remote, measure, lease=1.5, pulls=1) == "limit"
    assert "expire" not in kinds(local)
    for pull in waiting:
        assert remote.tell_known(pull.id, {"harmed": None}).kind == "tell"
    assert local.verify().ok


def test_a_worker_whose_function_knows_no_measure_fails_the_pull(make):
    local, remote = make(subpopulations.BlockBetting(DOSES))
    with raises(errors.SourceError):
        work(remote, lambda arm, report, group: {}, max_failures=0, pulls=2)
    assert "fail" in kinds(local)
    assert "tell" not in kinds(local)
