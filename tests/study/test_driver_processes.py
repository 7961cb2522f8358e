"""The driver with real processes: pools with killed workers, Dask, kill -9, other drivers."""

import contextlib
import multiprocessing
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest

from fairtrial.delayed import InformationRacing, Problem
from fairtrial.errors import SourceError
from fairtrial.study import Study, postgresql, run_study
from fairtrial.study.runners import joined
from fairtrial.study.worker_server import Unreachable, WorkerServer
from tests import effort
from tests.messages import raises
from tests.study.test_driver import kinds, most_in_flight, reasons
from tests.study.tools import PATIENCE, end_sessions_of, wait_until
from tests.study.toys import OWN, Racing, ToyProblem
from tests.study.work import (
    DieAt,
    Hanging,
    Slowly,
    awkward,
    measure,
    plain,
    refused_reading,
    unpackable_result,
)


@pytest.fixture
def race(path):
    """A study of a real race in a file."""
    problem = Problem(
        ["a", "b", "c"], noise_std=2.0, feedback="refining", reading_std=0.2, failure="independent"
    )
    policy = InformationRacing(problem, delta=0.05)
    with Study.create(
        problem, policy, storage=path, name="race", seed=1, durability="process"
    ) as study:
        yield study


def pool(workers=2, method="fork"):
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context(method))


def new_pool():
    return pool(2)


# ------------------------------------------------------------------------- process pools


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_readings_come_back_from_processes_however_these_are_started(race, method):
    with pool(2, method) as processes:
        answer = run_study(race, measure, processes, parallel=3)
    assert answer.arm == ("c",)
    assert most_in_flight(race) == 3
    told = kinds(race)["tell"]
    assert kinds(race)["report"] >= 2 * told > 0
    assert race.outstanding() == []
    assert race.verify().ok


def test_a_killed_worker_is_a_lost_pull_and_the_study_goes_on_in_a_new_pool(race, tmp_path):
    answer = run_study(race, DieAt(tmp_path, [1, 3]), new_pool, parallel=2)
    assert answer.arm == ("c",)
    # Either one kills its worker, or is in the other worker when its pool breaks.
    assert {1, 3} <= {event.number for event in race.events() if event.kind == "fail"}
    assert set(reasons(race)) <= {"lost", "no longer needed"}
    assert 2 <= reasons(race).count("lost") <= 4
    assert race.outstanding() == []
    assert race.verify().ok


def test_a_pool_of_the_callers_that_breaks_ends_the_session_with_a_clear_error(race, tmp_path):
    # Python describes the broken pool differently, depending on the moment.
    with pool() as processes, pytest.raises(SourceError):
        run_study(race, DieAt(tmp_path, [3]), processes, parallel=2)
    assert "lost" in reasons(race)
    assert len(race.outstanding()) <= 1, "only what no worker had begun stays open"
    with pool() as processes:
        assert run_study(race, measure, processes, parallel=2).arm == ("c",)
    assert race.outstanding() == []
    assert race.verify().ok


def test_workers_that_always_die_end_the_session(race, tmp_path):
    with raises(SourceError):
        run_study(race, DieAt(tmp_path, range(1000)), new_pool, max_failures=2)
    assert reasons(race) == ["lost"] * 3


def test_workers_that_never_come_back_are_ended_and_their_places_filled(race, tmp_path, leap):
    others = set(multiprocessing.active_children())

    def time_goes_on():
        wait_until(lambda: len(list(tmp_path.glob("*.hangs"))) == 2)
        leap(1.0)
        wait_until(lambda: kinds(race)["fail"] == 2)
        leap(1.0)

    clock = threading.Thread(target=time_goes_on)
    clock.start()
    answer = run_study(race, Hanging(tmp_path, range(2)), new_pool, parallel=2, deadline=0.5)
    clock.join()
    assert answer.arm == ("c",)
    assert reasons(race).count("timeout") == 2
    assert race.outstanding() == []
    wait_until(lambda: set(multiprocessing.active_children()) <= others)
    assert race.verify().ok


def test_work_in_a_process_is_told_to_stop_when_the_answer_is_there(race, tmp_path):
    with pool(3) as processes, ThreadPoolExecutor(1) as teller:
        driven = teller.submit(run_study, race, Slowly(tmp_path), processes, parallel=3)
        wait_until(lambda: len(race.outstanding()) == 3)
        time.sleep(0.1)
        for arm in "abc":
            for _ in range(60):
                race.tell(race.problem.pull(arm=arm), 5.0 if arm == "c" else 0.0)
        assert driven.result(PATIENCE).arm == ("c",)
    assert reasons(race) == ["no longer needed"] * 3
    begun = {file.stem for file in tmp_path.glob("*.ended")}
    assert {file.stem for file in tmp_path.glob("*.stopped")} == begun


def test_an_exception_that_cannot_travel_is_told_in_words(race):
    with pool(1) as processes, raises(SourceError):
        run_study(race, awkward, processes, max_failures=0)
    assert reasons(race) == ["error"]


def test_a_refused_reading_is_raised_in_the_process_that_gave_it(race):
    with pool(1) as processes, raises(SourceError):
        run_study(race, refused_reading, processes, max_failures=0)
    assert kinds(race) == {"ask": 1, "fail": 1}


def test_a_function_that_cannot_travel_loses_no_pull(race):
    with (
        pool(1) as processes,
        raises(SourceError),
    ):
        run_study(race, lambda arm, report: 0.0, processes, max_failures=2)
    assert kinds(race) == {"ask": 1}
    assert run_study(race, measure, new_pool).arm == ("c",)


def test_a_result_that_cannot_travel_is_lost(race):
    with pool(1) as processes, raises(SourceError):
        run_study(race, unpackable_result, processes, max_failures=0)
    assert reasons(race) == ["lost"]


# ----------------------------------------------------------------------------------- Dask


@pytest.mark.slow
@pytest.mark.parametrize("kind", effort.first(1, ["threads", "processes"]))
def test_a_study_is_driven_on_a_cluster_of_dask(race, dask_client, kind):
    with dask_client(processes=kind == "processes") as client:
        answer = run_study(race, measure, client.get_executor(), parallel=3)
    assert answer.arm == ("c",)
    assert race.outstanding() == []
    assert race.verify().ok


@pytest.mark.slow
def test_a_worker_of_dask_that_dies_is_a_lost_pull_not_a_repeated_one(race, dask_client, tmp_path):
    lost = tmp_path / "lost"

    def watch(study):
        if kinds(study)["fail"]:
            lost.touch()

    # One thread may wait, and the other repeats the dead worker's pulls.
    with dask_client(threads=2) as client:
        dying = DieAt(tmp_path, [2], until=lost)
        answer = run_study(race, dying, client.get_executor(), parallel=2, watch=watch)
    assert answer.arm == ("c",)
    assert "lost" in reasons(race)
    assert 2 in [event.number for event in race.events() if event.kind == "fail"]
    assert not any(event.number == 2 and event.kind == "tell" for event in race.events())
    assert race.verify().ok


# ------------------------------------------------------------------- drivers as processes


def start(path, threads=2, freely=10_000):
    """Start a driver: it measures that many pulls at once, and waits for the file `go` for more."""
    command = [sys.executable, "-m", "tests.study.driven", str(path), str(threads), str(freely)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def toy(path):
    """The path of a study of a toy race, with room for several drivers."""
    problem = ToyProblem(["a", "b", "c"])
    template = Racing(problem, slots=6, budget=60)
    Study.create(problem, template, storage=path, name="toy", seed=3).close()
    return path


def lines_until(process, wanted):
    lines = []
    for line in process.stdout:
        lines.append(line.strip())
        if sum(text.startswith("measured") for text in lines) >= wanted:
            break
    return lines


def end(process, how):
    """Ask it to end, if necessary again: Python loses an interruption in its own call-backs."""
    while process.poll() is None:
        process.send_signal(how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["kill", "interrupt"])
def test_a_driver_that_ends_in_the_middle_leaves_a_study_that_goes_on(toy, how):
    measured = set()
    for wanted in (5, 15):
        process = start(toy, freely=wanted + 3)
        lines = lines_until(process, wanted)
        end(process, how)
        lines += process.stdout.read().splitlines()
        assert process.returncode != 0
        measured |= {int(line.split()[1]) for line in lines if line.startswith("measured")}
        with Study.open(toy, "toy", **OWN) as study:
            assert study.verify().ok
            assert len(study.outstanding()) <= 2
    process = start(toy)
    assert process.stdout.read().splitlines()[-1] == "done"
    assert process.wait(PATIENCE) == 0
    with Study.open(toy, "toy", **OWN) as study:
        assert study.outstanding() == []
        assert study.policy.told == 60
        # A pull is lost only if it has readings and nobody will see its result.
        lost = {event.number for event in study.events() if event.kind == "fail"}
        read = {event.number for event in study.events() if event.kind == "report"}
        assert lost <= read
        assert len(lost) <= 4
    assert not list(toy.parent.glob("*.running"))


def test_two_drivers_in_two_processes_share_a_study(toy):
    both = [start(toy, freely=4), start(toy, freely=4)]
    # When either one begins its third pull it has told a result.
    said = [lines_until(process, 3) for process in both]
    toy.with_name("go").touch()
    said = [
        lines + process.stdout.read().splitlines()
        for lines, process in zip(said, both, strict=True)
    ]
    assert [process.wait(PATIENCE) for process in both] == [0, 0]
    assert [lines[-1] for lines in said] == ["done", "done"]
    measured = [int(line.split()[1]) for lines in said for line in lines if "measured" in line]
    assert len(set(measured)) == len(measured)
    with Study.open(toy, "toy", **OWN) as study:
        assert study.verify().ok
        assert study.outstanding() == []
        assert kinds(study)["fail"] == 0
        assert len({event.actor for event in study.events() if event.kind == "tell"}) == 2
    assert not list(toy.parent.glob("*.running"))


@pytest.mark.parametrize("place", effort.first(1, ["path", "postgresql_url"]))
def test_a_driver_takes_up_what_another_one_leaves_open_when_it_is_killed(request, place):
    path = request.getfixturevalue(place)
    problem = ToyProblem(["a", "b", "c"])
    template = Racing(problem, slots=2, budget=60)
    Study.create(problem, template, storage=path, name="toy", seed=3).close()
    first = start(path, freely=8)
    lines_until(first, 2)
    second = start(path)
    assert second.stdout.readline() == "ready\n"
    lines_until(first, 4)
    first.kill()
    first.stdout.read()
    first.wait(PATIENCE)
    assert second.stdout.read().splitlines()[-1] == "done"
    assert second.wait(PATIENCE) == 0
    with Study.open(path, "toy", **OWN) as study:
        assert study.policy.told >= 60
        assert study.outstanding() == []
    if place == "path":
        assert not list(path.parent.glob("*.running"))


def test_only_the_runner_who_is_alone_takes_up_open_pulls_of_a_server(postgresql_url, monkeypatch):
    quick = {"durability": "process"}
    problem = ToyProblem(["a", "b", "c"])
    one = Study.create(
        problem, Racing(problem), storage=postgresql_url, name="toy", seed=3, **quick
    )
    two = Study.open(postgresql_url, "toy", **OWN, **quick)
    other = Study.create(
        problem, Racing(problem), storage=postgresql_url, name="other", seed=3, **quick
    )
    pull = one.ask()
    with joined(other), joined(one) as first:
        assert [found.id for found in first.left_open()] == [pull.id]
        with joined(two) as second:
            assert first.left_open() == second.left_open() == []
            # A client that connects again counts again.
            end_sessions_of(postgresql_url)
            assert two.outstanding()
            assert first.left_open() == []
        assert [found.id for found in first.left_open()] == [pull.id]
        monkeypatch.setattr(postgresql, "SETTLING_SECONDS", 1e6)
        assert first.left_open() == []
    for study in (one, two, other):
        study.close()


# ---------------------------------------------------------------------------- the socket


def test_who_asked_and_was_not_answered_is_told_to_stop_when_the_desk_closes():
    server = WorkerServer("127.0.0.1")
    with ThreadPoolExecutor(1) as worker:
        asking = worker.submit(server.channel().ask, {"kind": "look"})
        # An interruption may come between these two lines of a driver.
        assert server.take(PATIENCE) is not None
        server.close()
        assert asking.result(PATIENCE) is False


def test_a_closed_server_is_closed_for_all_although_forked_workers_hold_its_socket():
    server = WorkerServer("127.0.0.1")
    channel = pickle.loads(pickle.dumps(server.channel()))
    with socket.create_connection(server.address(), timeout=PATIENCE):
        pass
    as_a_fork_would = os.dup(server._listener._socket.fileno())
    try:
        server.close()
        with raises(Unreachable):
            channel.ask({"kind": "begin"})
    finally:
        os.close(as_a_fork_would)


def test_workers_that_do_not_reach_the_driver_are_reported(race, monkeypatch):
    monkeypatch.setattr(WorkerServer, "address", lambda server: ("127.0.0.1", 1))
    with pool(1) as processes, raises(SourceError):
        run_study(race, plain, processes)
    assert kinds(race) == {"ask": 1}
