"""Turns at writing: in order, returned by processes that end, and robust to an interrupt."""

import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from fairtrial.errors import StorageBusy
from fairtrial.study import Study, turns
from fairtrial.study.sqlite import SQLiteStore
from fairtrial.study.turns import Turns
from tests.messages import raises
from tests.study.tools import wait_until
from tests.study.toys import Serving, ToyProblem


@pytest.fixture
def database(path):
    path.touch()
    return path


def waiting(database, name, order):
    """Return a thread that waits for its turn, once it is in the queue."""
    own = Turns(database, 60)

    def wait():
        own.take()
        order.append(name)
        own.give_back()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def in_queue(database, count):
    content = database.with_name(f"{database.name}-lock").read_bytes()[128:136]
    return int.from_bytes(content, "little") == count


@pytest.mark.skipif(sys.platform != "linux", reason="only there is a queue")
def test_turns_come_in_the_order_in_which_they_were_asked_for(database):
    holder, order, threads = Turns(database, 60), [], []
    holder.take()
    for name in range(6):
        threads.append(waiting(database, name, order))
        wait_until(lambda count=name + 1: in_queue(database, count))
    holder.give_back()
    # The last writer does not get another turn before those who wait.
    holder.take()
    assert order == list(range(6))
    holder.give_back()
    for thread in threads:
        thread.join()


def test_who_keeps_the_turn_is_named_and_who_gave_up_does_not_get_it(database):
    holder, impatient, patient = Turns(database, 60), Turns(database, 0.05), Turns(database, 60)
    holder.take()
    with raises(StorageBusy) as caught:
        impatient.take()
    assert f"process {os.getpid()} on " in str(caught.value)
    holder.give_back()
    patient.take()
    patient.give_back()
    impatient.take()
    with raises(StorageBusy):
        Turns(database, 0.0).take()
    impatient.give_back()


def test_a_turn_that_came_just_before_an_interrupt_is_given_back(database, monkeypatch):
    came_in_time = turns._came_in_time

    def interrupted(descriptor, deadline):
        assert came_in_time(descriptor, deadline)
        raise KeyboardInterrupt

    one, other = Turns(database, 60), Turns(database, 60)
    with monkeypatch.context() as patched:
        patched.setattr(turns, "_came_in_time", interrupted)
        with pytest.raises(KeyboardInterrupt):
            one._wait(time.monotonic() + 60)
    one.give_back()
    other.take()
    other.give_back()


def test_a_removed_lock_file_is_made_again(database):
    one, two = Turns(database, 60), Turns(database, 0.05)
    one.take()
    one.give_back()
    database.with_name(f"{database.name}-lock").unlink()
    two.take()
    two.give_back()
    one._taken = 0
    one.take()
    with raises(StorageBusy):
        two.take()
    one.give_back()


STOPPED = """
    import os, signal, sys
    from fairtrial.study.sqlite import SQLiteStore

    store = SQLiteStore(sys.argv[1], "process")

    def stop():
        print(os.getpid(), flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)

    store.transact(stop)
"""


def test_a_process_that_was_stopped_is_named_and_its_end_frees_the_file(path):
    problem = ToyProblem()
    store = SQLiteStore(path, "process", busy_timeout=0.1)
    study = Study.create(problem, Serving(problem), storage=store, name="toy", seed=7)
    script = textwrap.dedent(STOPPED).replace(
        "sys.argv[1]", "__import__('pathlib').Path(sys.argv[1])"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE
    ) as child:
        number = int(child.stdout.readline())
        with raises(StorageBusy) as caught:
            study.ask()
        assert f"process {number} on " in str(caught.value)
        assert study.progress().asked == 0
        child.kill()
    store._turns._timeout = 60
    study.ask()
    assert study.verify().ok


@pytest.fixture
def untraced():
    """Switch off coverage measurement: an interrupt inside it leaves its own lock taken."""
    tracer = sys.gettrace()
    sys.settrace(None)
    yield
    sys.settrace(tracer)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="only where there are timers")
@pytest.mark.usefixtures("untraced")
def test_one_interrupt_at_any_moment_leaves_no_write_open(path):
    chance = random.Random(3)
    problem = ToyProblem()
    storage = SQLiteStore(path, "process")
    study = Study.create(problem, Serving(problem), storage=storage, name="toy", seed=7)
    other = SQLiteStore(path, "process", busy_timeout=0.0)
    kept, acknowledged = [], []

    def interrupt(*_):
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(600):
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-5, 2e-3))
                # Python drops an interrupt that comes while it frees an object, so the loop is
                # finite.
                for _ in range(20):
                    pull = study.ask()
                    study.tell(pull, 0.5)
                    acknowledged.append(pull.id)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except (KeyboardInterrupt, SystemError) as error:
                # Python 3.11 turns it into a SystemError inside the parser that numpy's files need.
                # While it is inspected, the frames that it came through still exist.
                kept.append(error)
            assert not storage._connection.in_transaction
            other.transact(lambda: None)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(kept) > 200
    told = {event.pull_id for event in study.events() if event.kind == "tell"}
    assert set(acknowledged) <= told
    assert study.verify().ok
    study.ask()
