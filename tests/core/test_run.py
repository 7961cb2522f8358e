"""One run in simulated time: delays, readings, losses, cancellations, horizon, parallel pulls."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairtrial.core import (
    Environment,
    Policy,
    Pull,
    Reading,
    Recommendation,
    Trajectory,
    run_policy,
)
from fairtrial.errors import InvalidArgument
from tests.core.toys import (
    ArrivalBalance,
    ArrivalEnvironment,
    DelayedEnvironment,
    FairChoice,
    GaussianEnvironment,
    GroupProblem,
    Halving,
    LeadRace,
    PartialRace,
    QuotaKeeper,
    RecordEnvironment,
    RecordProblem,
    ToyProblem,
    UsedUpEnvironment,
)
from tests.messages import raises

PROBLEM = ToyProblem(["a", "b", "c"])
MEANS = [0.0, 0.5, 1.5]


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


class Diary(Policy):
    """Asks its arms in order, at most `limit` at a time; records what it hears, and when."""

    def __init__(self, problem: ToyProblem, arms: Any, limit: int = 99, seed: Any = None) -> None:
        super().__init__(problem, seed)
        self.arms = arms
        self.limit = limit
        self.entries: list[tuple[Any, ...]] = []
        self.unwanted: set[int] = set()
        self.end = 99

    def choose(self, **context: Any) -> int | None:
        if self.asked >= len(self.arms) or len(self.outstanding()) >= self.limit:
            return None
        self.entries.append(("ask", self.asked))
        return self.arms[self.asked]

    def learn(self, pull: Pull, outcome: Any) -> None:
        self.entries.append(("tell", pull.number, outcome))

    def read(self, pull: Pull, value: float, **details: Any) -> None:
        self.entries.append(("read", pull.number, value))
        if details.get("unwanted"):
            self.unwanted.add(pull.number)

    def on_failure(self, pull: Pull, reason: str) -> None:
        self.entries.append((reason, pull.number))

    def to_cancel(self) -> list[Pull]:
        return [p for p in self.outstanding() if self.stopped or p.number in self.unwanted]

    @property
    def stopped(self) -> bool:
        return self.told >= self.end

    def recommend(self) -> Recommendation:
        return Recommendation("a", "decided" if self.stopped else "running")


class Script(Environment):
    """Every pull's trajectory is fixed beforehand, by its number."""

    def __init__(self, problem: ToyProblem, paths: list[Trajectory]) -> None:
        self.problem = problem
        self.paths = paths

    def sample(self, pull: Pull, generator: np.random.Generator) -> float:
        raise NotImplementedError

    def trajectory(self, pull: Pull, generator: np.random.Generator) -> Trajectory:
        return self.paths[pull.number]


def diary(paths: list[Trajectory], limit: int = 99) -> Diary:
    return Diary(PROBLEM, [0] * len(paths), limit=limit)


# ------------------------------------------------------------------ immediate rewards


def test_a_run_is_the_loop_that_a_user_would_write() -> None:
    run = run_policy(LeadRace(PROBLEM, seed=1), GaussianEnvironment(PROBLEM, MEANS), generator())

    policy, environment, numbers = (
        LeadRace(PROBLEM, seed=1),
        GaussianEnvironment(PROBLEM, MEANS),
        generator(),
    )
    pulls = np.zeros(3, dtype=int)
    while not policy.stopped:
        pull = policy.ask()
        pulls[pull.action] += 1
        policy.tell(pull, environment.sample(pull, numbers))

    assert (run.answer, run.status) == (policy.recommend().arm, "decided")
    assert run.stopping_time == policy.told == run.elapsed
    assert run.pulls.tolist() == pulls.tolist()
    assert (run.cancelled, dict(run.metrics)) == (0, {})


@settings(max_examples=20)
@given(horizon=st.integers(1, 40), parallel=st.integers(1, 6))
def test_the_horizon_limits_the_pulls_that_are_issued(horizon: int, parallel: int) -> None:
    policy = QuotaKeeper(PROBLEM, [1, 2, 0], 7, seed=1)
    run = run_policy(policy, GaussianEnvironment(PROBLEM, MEANS), generator(), horizon, parallel)
    assert run.pulls.sum() == horizon == run.stopping_time
    assert (run.answer, run.status) == (None, "running")
    assert run.elapsed == math.ceil(horizon / parallel)


def test_a_policy_that_has_nothing_to_do_ends_at_once() -> None:
    policy = FairChoice(RecordProblem(["a"], bound=0.5), budget=0)
    run = run_policy(policy, RecordEnvironment(policy.problem, [[0.5, 0.5]]), generator())
    assert (run.stopping_time, run.elapsed, run.pulls.sum(), run.status) == (0, 0, 0, "decided")


def test_an_answer_of_no_arm_is_a_decision() -> None:
    problem = RecordProblem(["a", "b"], bound=0.1)
    environment = RecordEnvironment(problem, [[0.1, 0.9], [0.9, 0.1]])
    run = run_policy(FairChoice(problem, budget=600), environment, generator())
    assert (run.answer, run.status, run.stopping_time) == (None, "decided", 600)
    assert run.pulls.tolist() == [100] * 6


def test_a_policy_that_is_stuck_ends_without_an_answer() -> None:
    run = run_policy(diary([]), Script(PROBLEM, []), generator())
    assert (run.answer, run.status, run.stopping_time) == (None, "running", 0)


# --------------------------------------------------------------------- simulated time


def test_results_come_in_the_order_of_time_then_of_pulls() -> None:
    paths = [
        Trajectory(10.0, 5.0),
        Trajectory(20.0, 2.0),
        Trajectory(30.0, 5.0),
        Trajectory(40.0, 1.0),
    ]
    policy = diary(paths)
    run = run_policy(policy, Script(PROBLEM, paths), generator(), parallel=3)
    assert policy.entries == [
        ("ask", 0),
        ("ask", 1),
        ("ask", 2),
        ("tell", 1, 20.0),
        ("ask", 3),
        ("tell", 3, 40.0),
        ("tell", 0, 10.0),
        ("tell", 2, 30.0),
    ]
    assert (run.elapsed, run.stopping_time) == (5.0, 4)


def test_free_places_are_filled_after_all_that_happens_at_one_moment() -> None:
    paths = [Trajectory(1.0, 2.0), Trajectory(2.0, 2.0), Trajectory(3.0), Trajectory(4.0)]
    policy = diary(paths)
    run_policy(policy, Script(PROBLEM, paths), generator(), parallel=2)
    assert [entry[:2] for entry in policy.entries] == [
        ("ask", 0),
        ("ask", 1),
        ("tell", 0),
        ("tell", 1),
        ("ask", 2),
        ("ask", 3),
        ("tell", 2),
        ("tell", 3),
    ]


def test_readings_come_on_the_way_and_before_the_result_of_the_same_moment() -> None:
    paths = [Trajectory(9.0, 3.0, (Reading(1.0, 1.0), Reading(3.0, 3.0), Reading(4.0, 4.0)))]
    policy = diary(paths)
    run = run_policy(policy, Script(PROBLEM, paths), generator())
    assert policy.entries == [("ask", 0), ("read", 0, 1.0), ("read", 0, 3.0), ("tell", 0, 9.0)]
    assert (run.elapsed, run.stopping_time) == (3.0, 1)


def test_a_lost_pull_fails_and_its_place_is_free_again() -> None:
    paths = [Trajectory(None, 4.0), Trajectory(2.0, 1.0)]
    policy = diary(paths)
    run = run_policy(policy, Script(PROBLEM, paths), generator())
    assert policy.entries == [("ask", 0), ("lost", 0), ("ask", 1), ("tell", 1, 2.0)]
    assert (run.elapsed, run.stopping_time, run.pulls.tolist()) == (5.0, 1, [2, 0, 0])


def test_an_unwanted_pull_is_cancelled_at_once() -> None:
    unwanted = Reading(1.0, 7.0, {"unwanted": True})
    paths = [Trajectory(9.0, 50.0, (unwanted, Reading(2.0, 8.0))), Trajectory(2.0, 3.0)]
    policy = diary(paths)
    run = run_policy(policy, Script(PROBLEM, paths), generator())
    assert policy.entries == [
        ("ask", 0),
        ("read", 0, 7.0),
        ("cancelled", 0),
        ("ask", 1),
        ("tell", 1, 2.0),
    ]
    assert (run.cancelled, run.elapsed, run.stopping_time) == (1, 4.0, 1)


def test_what_a_cancelled_pull_would_have_said_does_not_move_the_clock() -> None:
    unwanted = Reading(1.0, 7.0, {"unwanted": True})
    path = Trajectory(9.0, 50.0, (unwanted, Reading(2.0, 8.0)))
    run = run_policy(diary([path]), Script(PROBLEM, [path]), generator())
    assert (run.cancelled, run.elapsed) == (1, 1.0)


def test_a_policy_that_stops_hears_no_more_and_calls_everything_back() -> None:
    paths = [Trajectory(1.0, 2.0), Trajectory(2.0, 2.0), Trajectory(3.0, 9.0)]
    policy = diary(paths)
    policy.end = 1
    run = run_policy(policy, Script(PROBLEM, paths), generator(), parallel=3)
    assert policy.entries[3:] == [("tell", 0, 1.0), ("cancelled", 1), ("cancelled", 2)]
    assert (run.answer, run.status, run.cancelled, run.elapsed) == ("a", "decided", 2, 2.0)


def test_a_policy_that_stops_without_calling_back_hears_no_more_either() -> None:
    class Silent(Diary):
        def to_cancel(self) -> list[Pull]:
            return []

    paths = [Trajectory(1.0, 2.0), Trajectory(2.0, 2.0)]
    policy = Silent(PROBLEM, [0, 0])
    policy.end = 1
    run = run_policy(policy, Script(PROBLEM, paths), generator(), parallel=2)
    assert policy.entries[2:] == [("tell", 0, 1.0)]
    assert (run.stopping_time, run.cancelled) == (1, 0)


def test_the_policys_own_limit_holds_too() -> None:
    paths = [Trajectory(1.0)] * 6
    policy = diary(paths, limit=2)
    run = run_policy(policy, Script(PROBLEM, paths), generator(), parallel=5)
    assert run.elapsed == 3.0


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), parallel=st.integers(1, 8))
def test_every_pull_of_an_asynchronous_run_ends_in_one_way(seed: int, parallel: int) -> None:
    policy = PartialRace(PROBLEM, k=2, margin=1.5, seed=seed)
    environment = DelayedEnvironment(PROBLEM, MEANS, k=2, loss=0.3)
    run = run_policy(policy, environment, generator(seed), parallel=parallel)
    assert run.status == "decided"
    assert policy.outstanding() == []
    assert len(policy.kept) == len(policy.get_state()["lost"])
    assert run.pulls.sum() == policy.asked == run.stopping_time + len(policy.kept)
    assert run.cancelled <= len(policy.kept)
    assert run.metrics == {"late_readings": 0.0}


def test_pulls_in_parallel_save_time() -> None:
    def mean_time(parallel: int) -> float:
        policy = PartialRace(PROBLEM, max_in_flight=8, max_per_arm=8, seed=1)
        environment = DelayedEnvironment(PROBLEM, MEANS)
        runs = [
            run_policy(policy.clone(), environment, generator(i), parallel=parallel)
            for i in range(12)
        ]
        return float(np.mean([run.elapsed for run in runs]))

    assert mean_time(8) < mean_time(2) / 2 < mean_time(1) / 2


# ----------------------------------------------------------------- environments of their own


def test_arrivals_are_asked_for_by_group() -> None:
    problem = GroupProblem(["a", "b"], ["x", "y"])
    environment = ArrivalEnvironment(problem, [[0, 1], [1, 0]], [0.25, 0.75])
    run = run_policy(ArrivalBalance(problem, per_cell=50), environment, generator())
    by_group = run.pulls.reshape(2, 2).sum(axis=0)
    share = by_group[1] / by_group.sum()
    assert run.pulls.min() == 50
    assert abs(share - 0.75) < 4 * math.sqrt(0.25 * 0.75 / by_group.sum())


def test_batches_do_not_depend_on_how_many_run_at_once() -> None:
    rows = [[0.0] * 20, [1.0] * 20, [2.0] * 20]
    runs = [
        run_policy(
            Halving(PROBLEM), UsedUpEnvironment(PROBLEM, rows), generator(), parallel=parallel
        )
        for parallel in (1, 3, 20)
    ]
    assert [run.answer for run in runs] == ["c"] * 3
    assert len({tuple(run.pulls) for run in runs}) == 1


def test_an_environment_that_remembers_begins_anew_in_every_run() -> None:
    rows = [[float(i) for i in range(20)]] * 3
    environment = UsedUpEnvironment(PROBLEM, rows)
    for _ in range(3):
        policy = Diary(PROBLEM, [0] * 20)
        run = run_policy(policy, environment, generator())
        assert sorted(entry[2] for entry in policy.entries if entry[0] == "tell") == rows[0]
        assert run.metrics == {"repeats": 19.0}
    assert environment.metrics(run.pulls) == {"repeats": 0.0}


# ---------------------------------------------------------------------------- watching


def test_whoever_watches_sees_every_result() -> None:
    seen: list[int] = []
    environment = DelayedEnvironment(PROBLEM, MEANS)
    run = run_policy(
        PartialRace(PROBLEM, seed=1),
        environment,
        generator(),
        parallel=3,
        watch=lambda policy: seen.append(policy.told),
    )
    assert seen == list(range(1, run.stopping_time + 1))


# --------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"horizon": 0}, "horizon"),
        ({"horizon": 2.5}, "horizon"),
        ({"horizon": math.inf}, "horizon"),
        ({"parallel": 0}, "parallel"),
        ({"parallel": None}, "parallel"),
    ],
)
def test_bad_limits_are_refused(arguments: dict[str, Any], name: str) -> None:
    policy = LeadRace(PROBLEM)
    with raises(InvalidArgument, name):
        run_policy(policy, GaussianEnvironment(PROBLEM, MEANS), generator(), **arguments)
    assert policy.asked == 0


def test_a_policy_that_never_stops_needs_a_horizon() -> None:
    policy = QuotaKeeper(PROBLEM, [1, 1, 1], 5)
    with raises(InvalidArgument, "horizon"):
        run_policy(policy, GaussianEnvironment(PROBLEM, MEANS), generator())


def test_a_policy_in_use_is_refused() -> None:
    policy = LeadRace(PROBLEM)
    policy.ask()
    with raises(InvalidArgument, "policy"):
        run_policy(policy, GaussianEnvironment(PROBLEM, MEANS), generator())


def test_data_from_before_may_be_given_to_a_fresh_policy() -> None:
    policy = LeadRace(PROBLEM, delta=0.5)
    for arm in "abc":
        for _ in range(50):
            policy.tell(PROBLEM.pull(arm=arm), float(arm == "b") * 5)
    run = run_policy(policy, GaussianEnvironment(PROBLEM, MEANS), generator())
    assert (run.answer, run.stopping_time) == ("b", 0)


def test_data_from_before_are_no_results_of_the_run() -> None:
    policy = LeadRace(PROBLEM)
    for arm in "abc":
        policy.tell(PROBLEM.pull(arm=arm), 0.0)
    run = run_policy(policy, GaussianEnvironment(PROBLEM, MEANS), generator())
    assert policy.told == run.stopping_time + 3 == run.pulls.sum() + 3


@pytest.mark.parametrize(("place", "name"), [(0, "policy"), (1, "environment"), (2, "generator")])
def test_what_is_none_of_the_three_is_refused_by_name(place: int, name: str) -> None:
    arguments: list[Any] = [Halving(PROBLEM), GaussianEnvironment(PROBLEM, MEANS), generator()]
    arguments[place] = None
    with raises(InvalidArgument, name):
        run_policy(*arguments)
