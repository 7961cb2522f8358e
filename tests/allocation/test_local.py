"""Processes that decide alone keep shares on their own traffic and exchange rewards."""

import json
import multiprocessing
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairtrial.allocation import (
    UCB1,
    FairLearn,
    LocalAllocator,
    Problem,
    SlidingWindowUCB,
    Thompson,
)
from fairtrial.errors import InvalidArgument, NotSupported, StorageError
from tests import effort
from tests.messages import raises

PROBLEM = Problem(["a", "b", "c"], ["9/20", "9/20", 0])


class Place:
    """The shared place of one test's allocators."""

    def __init__(self):
        self.bodies = {}

    def publish(self, process, body):
        self.bodies[process] = body

    def published(self):
        return dict(self.bodies)


class Unreachable(Place):
    is_down = True

    def publish(self, process, body):
        if self.is_down:
            raise StorageError("the server does not answer")
        super().publish(process, body)


def last_arm(t, counts, sums, allowed):
    """Choose the last arm, which is owed nothing: the worst learner for the shares."""
    return allowed[-1]


def alone(place, policy=None, **options):
    policy = FairLearn(PROBLEM, last_arm) if policy is None else policy
    return LocalAllocator(policy, place, interval=None, **options)


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.005)


# ---------------------------------------------------------------------------------- shares


@settings(max_examples=effort.runs(30, whole=500))
@given(st.data())
def test_processes_together_are_behind_by_less_than_one_pull_for_each_of_them(data):
    """For any division of the traffic, and for any replacements of processes."""
    place = Place()
    lives = [alone(place) for _ in range(data.draw(st.integers(1, 5)))]
    serving = list(lives)
    pulls, rounds = dict.fromkeys(PROBLEM.arms, 0), 0
    for _ in range(data.draw(st.integers(1, 60))):
        who = data.draw(st.integers(0, len(serving) - 1))
        what = data.draw(st.sampled_from(["ask", "ask", "ask", "exchange", "restart"]))
        if what == "exchange":
            serving[who].exchange()
        elif what == "restart":
            serving[who] = alone(place)
            lives.append(serving[who])
        else:
            pulls[serving[who].ask().arm] += 1
            rounds += 1
        for arm, share in zip(PROBLEM.arms, PROBLEM.shares, strict=True):
            assert floor(share * rounds) - pulls[arm] <= len(lives) - 1


def test_the_bound_is_reached():
    """Three processes serve one visitor each; they owe the first arm 1.35 pulls and made none."""
    place = Place()
    processes = [alone(place) for _ in range(3)]
    assert [process.ask().arm for process in processes] == ["c", "c", "c"]
    for process in processes:
        process.exchange()
    processes[0].exchange()
    overall = processes[0].overall()
    assert overall.processes == 3
    assert overall.pulls == {"a": 0, "b": 0, "c": 3}
    assert overall.behind == {"a": 1, "b": 1, "c": 0}


@pytest.mark.parametrize("scheduler", ["due", "largest", "lazy"])
def test_an_exchange_at_any_moment_changes_no_decision_of_the_quotas(scheduler):
    problem = Problem(4, ["1/5", "3/20", "1/10", 0])
    generator = np.random.default_rng(3)
    plain = FairLearn(problem, last_arm, scheduler)
    local = alone(Place(), plain)
    for _ in range(400):
        if generator.random() < 0.3:
            local.exchange()
        pull, own = local.ask(), plain.ask()
        assert pull.arm == own.arm
        if generator.random() < 0.2:
            local.fail(pull)
            plain.fail(own)
        elif generator.random() < 0.8:
            local.tell(pull, 1.0)
            plain.tell(own, 1.0)
    assert local.credits == plain.credits


def test_groups_and_several_plays_a_round_are_kept_too():
    groups = Problem(["n", "s", "e"], 0, groups={"rural": ("1/2", ["n", "s"])})
    local = alone(Place(), FairLearn(groups, last_arm))
    arms = [pull.arm for pull in local.ask(100)]
    local.exchange()
    assert arms.count("n") + arms.count("s") >= 50
    pairs = alone(Place(), FairLearn(Problem(3, "3/5", plays=2)))
    first, second = pairs.ask(2)
    pairs.exchange()
    assert first.arm != second.arm


# --------------------------------------------------------------------------------- learning


def test_each_learner_knows_what_all_have_learned_once():
    place, seen = Place(), []

    def watching(t, counts, sums, allowed):
        seen.append((t, counts.tolist(), sums.tolist()))
        return allowed[0]

    problem = Problem(2, 0, reward_range=(-1, 3))
    first, second, third = (alone(place, FairLearn(problem, watching)) for _ in range(3))
    for process, reward in ((first, 2.5), (second, -1.0), (second, 0.25)):
        process.tell(process.ask(), reward)
    for _ in range(2):
        for process in (first, second, third):
            process.exchange()
    del seen[:]
    third.ask()
    first.ask()
    assert [counts for _, counts, _ in seen] == [[3, 0], [3, 0]]
    assert [sums for _, _, sums in seen] == [[1.75, 0], [1.75, 0]]
    assert all(t >= 4 for t, _, _ in seen)


def test_a_correction_reaches_the_others_in_place_of_what_was_said_before():
    place = Place()
    first, second = (alone(place, FairLearn(PROBLEM, UCB1())) for _ in range(2))
    pull = first.ask()
    first.tell(pull, 1.0)
    first.exchange()
    second.exchange()
    first._policy.amend(pull, 1.0, 0.0)
    first.exchange()
    second.exchange()
    assert second._policy.rewards[0, :, pull.action].tolist() == [1, 0]


def test_what_the_others_found_out_decides_free_rounds():
    """One process learns that the last arm pays; another chooses it without trying it before."""
    problem = Problem(3, 0)
    place = Place()
    taught, pupil = (alone(place, FairLearn(problem, Thompson()), seed=n) for n in (1, 2))
    for arm, reward in (("0", 0.0), ("1", 0.0), ("2", 1.0)):
        for _ in range(300):
            taught.tell(problem.pull(arm=arm), reward)
    taught.exchange()
    assert pupil.exchange() == 1
    assert {pull.arm for pull in pupil.ask(50)} == {"2"}


def test_initial_rewards_are_not_published_as_one_s_own():
    place = Place()
    policy = FairLearn(PROBLEM, UCB1(), initial_rewards=[(5, 1), (5, 2), (5, 3)])
    first, second = alone(place, policy), alone(place, policy)
    first.exchange()
    second.exchange()
    assert second._policy.rewards[0, 0].tolist() == [5, 5, 5]


def test_contexts_are_told_apart():
    place = Place()
    first, second = (alone(place, FairLearn(PROBLEM, UCB1(), contexts=2)) for _ in range(2))
    pull = first.ask(context=1)
    first.tell(pull, 1.0)
    first.exchange()
    second.exchange()
    known = second._policy.rewards[:, 0].tolist()
    assert known[0] == [0, 0, 0]
    assert sum(known[1]) == 1


# ---------------------------------------------------------------------------- what goes wrong

GOOD = {
    "arms": ["a", "b", "c"],
    "rewards": [[[1, 0, 0], [0.5, 0, 0]]],
    "pulls": [1, 0, 0],
    "credits": [[-11, 20], [9, 20], [0, 1]],
}


def changed(**parts):
    return json.dumps({**GOOD, **parts})


HOSTILE = {
    "no JSON": "{",
    "deep": "[" * 100_000,
    "a list": "[]",
    "other arms": changed(arms=["a", "b"]),
    "NaN": changed(rewards=[[[float("nan"), 0, 0], [0, 0, 0]]]),
    "infinite": changed(rewards=[[[1e999, 0, 0], [0, 0, 0]]]),
    "negative": changed(rewards=[[[-5, 0, 0], [0, 0, 0]]]),
    "half a reward": changed(rewards=[[[0.5, 0, 0], [0, 0, 0]]]),
    "outside the range": changed(rewards=[[[1, 0, 0], [7, 0, 0]]]),
    "other shape": changed(rewards=[[1, 2, 3]]),
    "ragged": changed(rewards=[[[1, 2], [3]]]),
    "words": changed(rewards="all"),
    "pulls are words": changed(pulls=["1", 0, 0]),
    "pulls are true": changed(pulls=[True, 0, 0]),
    "huge": changed(pulls=[10**400, 0, 0]),
    "few credits": changed(credits=[]),
    "division by zero": changed(credits=[[1, 0]] * 3),
    "large denominators": changed(credits=[[1, 10**18 + n] for n in range(3)]),
    "credits are text": changed(credits=["1e-100000000"] * 3),
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_nonsense_that_another_process_publishes_is_ignored_and_named(body):
    place = Place()
    place.bodies = {"good": json.dumps(GOOD), "bad": body}
    local = alone(place)
    assert local.exchange() == 1
    assert "process bad published is ignored" in local.last_error
    assert local._policy.rewards[0].tolist() == [[1, 0, 0], [0.5, 0, 0]]
    del place.bodies["bad"]
    local.exchange()
    assert local.last_error is None


def test_while_the_place_is_not_reached_shares_are_kept_and_afterwards_nothing_is_missing():
    place = Unreachable()
    first, second = alone(place), alone(place)
    with raises(StorageError):
        first.exchange()
    with raises(NotSupported):
        first.overall()
    for pull in first.ask(100):
        first.tell(pull, 1.0)
    assert all(credit < 1 for credit in first.credits)
    place.is_down = False
    first.exchange()
    second.exchange()
    assert second._policy.rewards[0, 0].sum() == 100


def test_the_thread_goes_on_after_errors_and_notes_the_last_one():
    place = Unreachable()
    with LocalAllocator(FairLearn(PROBLEM), place, interval=0.005) as local:
        wait_until(lambda: local.last_error is not None)
        assert local.last_error == "the server does not answer"
        local.tell(local.ask(), 1.0)
        place.is_down = False
        wait_until(lambda: local.last_error is None and place.bodies)
    assert json.loads(place.bodies[local.name])["rewards"][0][0] == [1, 0, 0]


def test_a_failing_exchange_is_logged_once_and_so_is_its_end(caplog):
    place = Unreachable()
    caplog.set_level("INFO", logger="fairtrial")
    with LocalAllocator(FairLearn(PROBLEM), place, interval=0.005) as local:
        wait_until(lambda: local.last_error is not None)
        time.sleep(0.05)
        place.is_down = False
        wait_until(lambda: local.last_error is None and place.bodies)
    found = [(record.name, record.levelname) for record in caplog.records]
    name = "fairtrial.allocation"
    assert found == [(name, "WARNING"), (name, "INFO")]
    assert "does not answer" in caplog.text


def test_a_program_without_logging_is_told_nothing():
    script = (
        "import fairtrial.allocation.local, logging;"
        "logging.getLogger('fairtrial.allocation').warning('x')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stderr == b""


def test_what_was_learned_last_is_published_on_close():
    place = Place()
    with LocalAllocator(FairLearn(PROBLEM), place, interval=3_600) as local:
        local.tell(local.ask(), 1.0)
        assert not place.bodies
    assert sum(json.loads(place.bodies[local.name])["pulls"]) == 1


def test_a_place_that_never_answers_holds_up_neither_decisions_nor_the_end(monkeypatch):
    forever = threading.Event()

    class Silent(Place):
        def publish(self, process, body):
            forever.wait()

    monkeypatch.setattr("fairtrial.allocation.local._CLOSING_SECONDS", 0.05)
    local = LocalAllocator(FairLearn(PROBLEM, last_arm), Silent(), interval=0.001)
    time.sleep(0.02)
    arms = [local.ask().arm for _ in range(100)]
    assert arms.count("a") >= 45
    local.close()
    forever.set()


def test_a_clock_that_jumps_changes_nothing(monkeypatch):
    days = iter(np.random.default_rng(1).permutation(1_000) * 86_400.0)
    monkeypatch.setattr(time, "time", lambda: next(days, 0.0))
    place = Place()
    with LocalAllocator(FairLearn(PROBLEM, last_arm), place, interval=0.002) as local:
        wait_until(lambda: place.bodies)
        arms = [local.ask().arm for _ in range(100)]
    assert (arms.count("a"), arms.count("b")) >= (45, 45)


def test_threads_share_an_allocator():
    place = Place()
    with (
        LocalAllocator(FairLearn(PROBLEM, Thompson()), place, interval=0.001) as local,
        ThreadPoolExecutor(4) as threads,
    ):

        def serve(_):
            pulls = [local.ask() for _ in range(250)]
            for pull in pulls:
                local.tell(pull, 1.0)
            return pulls

        pulls = [pull for part in threads.map(serve, range(4)) for pull in part]
    assert len({pull.number for pull in pulls}) == 1_000
    assert json.loads(place.bodies[local.name])["pulls"] == [
        sum(pull.arm == arm for pull in pulls) for arm in PROBLEM.arms
    ]
    assert all(credit < 1 for credit in local.credits)


def test_a_fork_is_told_to_make_its_own():
    local = alone(Place())
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()

    def child():
        try:
            local.ask()
        except NotSupported as error:
            answers.put(str(error))

    process = context.Process(target=child)
    process.start()
    process.join()
    assert "make one in every process" in answers.get()


def test_processes_differ_unless_a_seed_is_given(monkeypatch):
    place = Place()
    assert alone(place).name != alone(place).name
    same = [alone(place, FairLearn(Problem(20, 0)), seed=5).ask(50) for _ in range(2)]
    assert [pull.arm for pull in same[0]] == [pull.arm for pull in same[1]]


def test_the_policy_that_is_given_stays_as_it_is():
    policy = FairLearn(PROBLEM)
    policy.ask(10)
    local = alone(Place(), policy)
    assert local.ask().number == 0
    assert policy.asked == 10


def test_what_is_not_acceptable_is_refused():
    with raises(NotSupported):
        alone(Place(), FairLearn(PROBLEM, SlidingWindowUCB(10)))
    with raises(InvalidArgument, "policy"):
        alone(Place(), PROBLEM)
    with raises(InvalidArgument, "shared"):
        alone("postgresql://")
    for interval in (0, -1, float("nan"), float("inf"), "1", 1e9):
        with raises(InvalidArgument, "interval", given=interval):
            LocalAllocator(FairLearn(PROBLEM), Place(), interval=interval)


def test_progress_shows_the_shares_of_this_process():
    local = alone(Place())
    local.ask(20)
    assert local.progress().asked == 20
    assert local.credits == (Fraction(0), Fraction(0), Fraction(-2))
