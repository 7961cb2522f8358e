"""What becomes of a pull is told in one way, whoever carries it out."""

from __future__ import annotations

import pytest

from fairtrial.errors import AlreadyTold, SourceError
from fairtrial.study import Study
from fairtrial.study.pull_loop import PullLoop, Work
from fairtrial.study.reporting import Ended
from fairtrial.subpopulations import BlockBetting, Problem

PROBLEM = Problem(["a", "b"], ["x"], reward_range=(0, 1))


class Loop(PullLoop):
    """Has `places` for pulls, and begins them by noting them."""

    def __init__(self, study, max_failures, places=9, **options):
        self.is_interrupted = False
        super().__init__(study, max_failures, lambda: self.is_interrupted, **options)
        self.places = places
        self.asked = []

    def _places(self):
        return self.places - len(self._work)

    def _ask(self, wanted):
        self.asked.append(wanted)
        return self._told_to.ask(wanted)

    def _begin(self, pulls):
        self._work |= {pull.id: Work(pull) for pull in pulls}

    def begin(self, number):
        self.places = number
        self._fill()
        return list(self._work.values())


@pytest.fixture
def study():
    return Study.create(PROBLEM, BlockBetting(PROBLEM), storage="memory://", name="trial")


def kinds(study):
    return [(one.kind, one.actor, one.body.get("reason")) for one in study.events(after=4)]


def test_each_way_to_end_has_its_event(study):
    loop = Loop(study, max_failures=9, actor="ward")
    done, failed, stopped, refused = loop.begin(4)
    loop._settle(done, Ended("done", 0.5))
    loop._settle(failed, Ended("timeout", about="too long"))
    loop._settle(stopped, Ended("stopped"))
    loop._settle(refused, Ended("done", 7.0))
    assert kinds(study) == [
        ("tell", "ward", None),
        ("fail", "ward", "timeout"),
        ("fail", "ward", "lost"),
        ("fail", "ward", "error"),
    ]
    assert not loop._work


def test_free_places_are_filled_in_one_request_until_there_is_nothing_more_to_ask_for():
    from fairtrial.delayed import InformationRacing
    from fairtrial.delayed import Problem as Race

    problem = Race(["a", "b"], noise_std=0.1)
    policy = InformationRacing(problem, parallel=3)
    study = Study.create(problem, policy, storage="memory://", name="race")
    loop = Loop(study, max_failures=0, places=2)
    loop._fill()
    loop._fill()
    assert (loop.asked, len(loop._work)) == ([2], 2)
    loop.places = 5
    loop._fill()
    assert (loop.asked, len(loop._work)) == ([2, 3], 3)
    # The policy gave fewer than there were places: it has no more before the next result.
    loop._fill()
    assert loop.asked == [2, 3]
    loop._settle(next(iter(loop._work.values())), Ended("done", 0.5))
    loop._fill()
    assert loop.asked == [2, 3, 3]


def test_a_loop_says_why_it_ended(study):
    loop = Loop(study, max_failures=0)
    assert loop._ending(has_stopped=False) == "limit"
    loop.is_interrupted = True
    assert loop._ending(has_stopped=False) == "interrupted"
    assert loop._ending(has_stopped=True) == "stopped"
    loop._end_with(SourceError("the instrument is off"))
    with pytest.raises(SourceError):
        loop._ending(has_stopped=True)


def test_failures_in_a_row_end_the_loop_and_a_result_between_them_does_not(study):
    loop = Loop(study, max_failures=1)
    first, result, second, third = loop.begin(4)
    loop._settle(first, Ended("error", about="E1"))
    loop._settle(result, Ended("done", 0.5))
    loop._settle(second, Ended("error", about="E2"))
    assert loop._error is None
    loop._settle(third, Ended("error", about="E3", trace="where"))
    assert isinstance(loop._error, SourceError)
    assert all(part in str(loop._error) for part in ("2 pulls", "E3", "where"))


def test_a_pull_that_others_told_is_given_up_without_an_event(study):
    loop = Loop(study, max_failures=1)
    (work,) = loop.begin(1)
    study.tell(work.pull, 0.5)
    loop._give_up(work, study.fail, "lost")
    assert not work.is_open
    assert [one.kind for one in study.events(after=1)] == ["tell"]


def test_a_reading_that_comes_after_the_result_closes_the_work(monkeypatch):
    from fairtrial.delayed import InformationRacing
    from fairtrial.delayed import Problem as Race

    problem = Race(["a", "b"], noise_std=0.1, feedback="refining", reading_std=0.5)
    policy = InformationRacing(problem, delta=0.05)
    study = Study.create(problem, policy, storage="memory://", name="race")
    loop = Loop(study, max_failures=0)
    (work,) = loop.begin(1)
    loop._read(work, 0.5, {"stage": 1})
    assert (work.has_readings, work.is_open) == (True, True)

    def told(*_: object, **__: object) -> None:
        raise AlreadyTold("it was told before")

    monkeypatch.setattr(study, "report", told)
    loop._read(work, 0.6, {"stage": 2})
    assert not work.is_open
