"""The loop and the interruption, without a process around them."""

import os
import signal
from contextlib import nullcontext

import pytest

from fairtrial.cli.running import Interruption, drive
from fairtrial.errors import NothingToAsk, SourceError
from fairtrial.study import Study
from fairtrial.subpopulations import BlockBetting, Problem
from tests.messages import raises

PROBLEM = Problem(["a", "b"], ["x"], reward_range=(0, 1))


@pytest.fixture
def study():
    with Study.create(
        PROBLEM, BlockBetting(PROBLEM), storage="memory://", name="memory", seed=1
    ) as study:
        yield study


class Quiet(nullcontext):
    def due(self):
        return True

    def show(self, progress):
        self.shown = progress


class Scripted:
    """Gives rewards; does something else at chosen pulls."""

    def __init__(self, **at):
        self.at = {int(name.removeprefix("pull_")): action for name, action in at.items()}
        self.measured = []

    def reward(self, pull):
        self.measured.append(pull.number)
        self.at.get(pull.number, lambda: None)()
        return 0.9 if pull.arm == "a" else 0.1


def fail():
    raise SourceError("broken")


def run(study, source, limit=None, interrupted=lambda: False):
    return drive(study, source, Quiet(), interrupted, limit)


def kinds(study):
    return [event.kind for event in study.events()]


def test_a_study_is_driven_to_its_stop(study):
    assert run(study, Scripted()) == "stopped"
    assert study.recommend().arm == "a"
    assert study.outstanding() == []


def test_a_limit_leaves_no_pull_open(study):
    assert run(study, Scripted(), limit=4) == "limit"
    assert kinds(study) == ["ask", "tell"] * 4


def test_a_failing_source_leaves_its_pull_open_and_the_next_session_starts_with_it(study):
    with raises(SourceError):
        run(study, Scripted(pull_3=fail))
    assert [pull.number for pull in study.outstanding()] == [3]
    source = Scripted()
    assert run(study, source, limit=2) == "limit"
    assert source.measured == [3, 4]


def test_an_interruption_between_two_pulls_leaves_none_open(study):
    with Interruption() as interruption:
        source = Scripted(pull_2=lambda: os.kill(os.getpid(), signal.SIGINT))
        assert run(study, source, interrupted=interruption) == "interrupted"
    assert kinds(study) == ["ask", "tell"] * 3


def test_the_second_ctrl_c_ends_a_source_that_does_not_end_by_itself(study):
    def twice():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with Interruption() as interruption:
        assert run(study, Scripted(pull_2=twice), interrupted=interruption) == "interrupted"
    assert [pull.number for pull in study.outstanding()] == [2]


@pytest.fixture
def handled():
    """Set a signal's handler for the duration of a test."""
    before = {}

    def handle(number, handler):
        before[number] = signal.signal(number, handler)

    yield handle
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("request_to_end", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_is_a_flag_and_handlers_are_put_back(request_to_end, handled):
    handled(request_to_end, signal.SIG_DFL)
    with Interruption() as interruption:
        assert not interruption()
        os.kill(os.getpid(), request_to_end)
        assert interruption()
    assert signal.getsignal(request_to_end) is signal.SIG_DFL


def test_a_signal_that_is_ignored_stays_so(handled):
    handled(signal.SIGHUP, signal.SIG_IGN)
    with Interruption() as interruption:
        os.kill(os.getpid(), signal.SIGHUP)
        assert not interruption()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_a_runner_waits_while_another_ones_result_is_needed(study, monkeypatch):
    ask, refusals = study.ask, iter(range(3))

    def ask_patiently():
        if next(refusals, None) is not None:
            raise NothingToAsk("wait")
        return ask()

    monkeypatch.setattr(study, "ask", ask_patiently)
    assert run(study, Scripted(), limit=1) == "limit"
    assert kinds(study) == ["ask", "tell"]
