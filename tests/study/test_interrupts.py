"""Ctrl-C at any moment: nothing is left half done, and nothing is half loaded."""

import signal
import subprocess
import sys
import threading
from typing import ClassVar

import pytest

from fairtrial.core.loading import NotLoaded, load, loaded_only, uninterrupted
from fairtrial.study import Study
from tests.study.toys import Elimination, ToyProblem


def test_one_ctrl_c_in_the_first_ask_of_a_process_leaves_a_study_that_goes_on():
    program = [sys.executable, "-m", "tests.study.interrupted", "--trials", "12", "--seed", "1"]
    said = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    ended = {
        how: int(count) for count, how in (line.split(maxsplit=1) for line in said.splitlines())
    }
    assert set(ended) <= {"interrupted", "too late"}
    assert sum(ended.values()) == 12
    assert ended["interrupted"] >= 1


def test_a_ctrl_c_waits_for_the_end_and_a_second_one_does_not():
    def work():
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            reached.append("after the first")
            signal.raise_signal(signal.SIGINT)
            reached.append("after the second")

    reached = []
    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached == ["after the first"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_contexts_within_contexts_wait_for_the_outermost():
    def work():
        with uninterrupted():
            with uninterrupted():
                signal.raise_signal(signal.SIGINT)
            reached.append("inner")

    reached = []
    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached == ["inner"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_and_a_handler_of_somebodys_own_pass():
    def work():
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            assert heard == []
            raise ValueError("as it is")

    heard = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        with pytest.raises(ValueError, match="as it is"):
            work()
        assert heard == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_are_let_be():
    def work():
        with uninterrupted():
            found.append(signal.getsignal(signal.SIGINT))

    found = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]


def test_what_is_not_loaded_says_so_where_nothing_may_be_loaded_and_can_be_loaded_later():
    with pytest.raises(NotLoaded) as caught, loaded_only():
        load(lambda: 7)
    assert caught.value.load() == 7
    assert load(lambda: 8) == 8


class Loading(Elimination):
    """Needs a kernel for its first ask, and another for its first tell."""

    needed: ClassVar = []
    loaded: ClassVar = []

    def _load(self, kernel):
        if kernel in self.needed:
            load(lambda: (self.needed.remove(kernel), self.loaded.append(kernel)))

    def ask(self, n=None, **context):
        pulls = super().ask(n, **context)
        self._load("ask")
        return pulls

    def tell(self, pull, outcome):
        super().tell(pull, outcome)
        self._load("tell")


def test_kernels_are_loaded_between_transactions_and_each_write_is_made_once(path):
    problem = ToyProblem(["a", "b"])
    with Study.create(problem, Loading(problem), storage=path, name="s", seed=1) as study:

        class Recorded(list):
            def append(self, kernel):
                super().append((kernel, study._store._connection.in_transaction))

        Loading.needed, Loading.loaded = ["ask", "tell"], Recorded()
        pull = study.ask()
        study.tell(pull, 1.0)
        assert Loading.loaded == [("ask", False), ("tell", False)]
        assert [event.kind for event in study.events()] == ["ask", "tell"]
        assert study.verify().ok
