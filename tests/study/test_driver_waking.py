"""What wakes a driver: other writers, and the clock; it does not poll."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from fairtrial.errors import StorageUnreachable
from fairtrial.study import Study, driver, run_study
from fairtrial.study.changes import told_of_changes
from fairtrial.study.clock import seconds_until_due
from tests.study.tools import PATIENCE, wait_until
from tests.study.toys import OWN, Racing


@pytest.fixture
def patient(monkeypatch):
    """Let drivers never check by themselves."""
    monkeypatch.setattr(driver, "_LOOK_SECONDS", PATIENCE)
    monkeypatch.setattr(driver, "_SHORTEST_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(driver, "_INTERRUPT_SECONDS", PATIENCE)


def test_a_driver_is_woken_when_somebody_else_ends_the_study(make_study, store, patient):
    study = make_study(Racing, budget=2)
    begun, go = threading.Event(), threading.Event()

    def hangs(arm, report):
        begun.set()
        go.wait(PATIENCE)
        return 0.0

    other = Study.open(store, "toy", **OWN)
    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(run_study, study, hangs, pool, parallel=1)
        assert begun.wait(PATIENCE)
        for pull in [*other.outstanding(), *other.ask(1)]:
            other.tell(pull, 1.0)
        try:
            running.result(PATIENCE / 2)
        finally:
            go.set()
    assert study.stopped


def test_a_driver_fills_the_place_of_a_pull_that_somebody_else_told(make_study, store, patient):
    study = make_study(Racing, budget=3)
    numbers, go = [], threading.Event()

    def first_hangs(arm, report):
        numbers.append(report.pull.number)
        if report.pull.number == 0:
            go.wait(PATIENCE)
        else:
            go.set()
        return 0.0

    other = Study.open(store, "toy", **OWN)
    with ThreadPoolExecutor(3) as pool:
        running = pool.submit(run_study, study, first_hangs, pool, parallel=1)
        wait_until(lambda: numbers)
        other.tell(other.outstanding()[0], 1.0)
        running.result(PATIENCE / 2)
    assert numbers == [0, 1, 2]


def test_a_driver_that_waits_for_its_workers_reads_nothing(make_study, store, monkeypatch):
    study = make_study(Racing, budget=1)
    reads, quiet = [], []
    read_study = type(store).read_study

    def counting(self, study_id):
        reads.append(time.monotonic())
        return read_study(self, study_id)

    monkeypatch.setattr(type(store), "read_study", counting)

    def works(arm, report):
        time.sleep(0.5)  # the look after the ask, which the store has told of
        before = len(reads)
        time.sleep(1.0)
        quiet.append(len(reads) - before)
        return 0.0

    with ThreadPoolExecutor(1) as pool:
        run_study(study, works, pool)
    assert quiet == [0]


def test_it_is_known_when_the_clock_alone_brings_something_about(make_study, store, clock):
    study = make_study(Racing, slots=5)

    def due():
        return seconds_until_due(store, study._session.id, study.policy, store.now())

    assert due() is None
    study.ask(1)
    assert due() is None
    study.ask(1, lease=60)
    study.ask(1, lease=20.5)
    assert due() == 20.5
    clock.advance(15)
    assert due() == 5.5
    clock.advance(100)
    assert due() == 0
    study.pass_time()
    assert due() is None


def test_a_store_that_is_not_reached_is_told_of_afterwards(monkeypatch):
    monkeypatch.setattr("fairtrial.study.changes._LONGEST_WAIT", 0.01)

    class Store:
        number, is_down = 0, False

        def changes(self):
            if self.is_down:
                raise StorageUnreachable("gone")
            return self.number

        def await_change(self, seen, seconds):
            time.sleep(seconds)

    store, told = Store(), []
    with told_of_changes(store, lambda: told.append(store.number)):
        wait_until(lambda: told == [0])
        store.is_down = True
        time.sleep(0.05)
        store.number, store.is_down = 1, False
        wait_until(lambda: told == [0, 1])
