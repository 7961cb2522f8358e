"""A policy that is saved at any moment and restored continues as if nothing had happened."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairtrial.core import Policy, Recommendation
from fairtrial.core.policy import State
from fairtrial.errors import InvalidArgument, NotSupported
from tests import effort
from tests.core.toys import (
    ArrivalBalance,
    FairChoice,
    GroupProblem,
    Halving,
    LeadRace,
    PartialRace,
    QuotaKeeper,
    RecordProblem,
    ToyProblem,
)
from tests.messages import raises

ARMS = ToyProblem(["a", "b", "c"])
RECORDS = RecordProblem(["a", "b"], bound=0.5)
GROUPS = GroupProblem(["a", "b"], ["x", "y"])
POLICIES: dict[str, Callable[[], Policy]] = {
    "LeadRace": lambda: LeadRace(ARMS, delta=0.5, seed=1),
    "PartialRace": lambda: PartialRace(ARMS, margin=1.0, seed=2),
    "QuotaKeeper": lambda: QuotaKeeper(ARMS, [1, 2, 0], 7, explore=0.5, seed=3),
    "FairChoice": lambda: FairChoice(RECORDS, budget=9, seed=4),
    "ArrivalBalance": lambda: ArrivalBalance(GROUPS, per_cell=2, seed=5),
    "Halving": lambda: Halving(ARMS, batch=4, seed=6),
}

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask", "tell", "tell", "fail", "late", "report", "unsolicited"]),
        st.integers(0, 10),
        st.integers(-3, 3),
    ),
    max_size=40,
)


def outcome(policy: Policy, value: int) -> Any:
    if policy.problem is RECORDS:
        return {"s": value % 2, "v": 0, "y": value}
    return value


def step(policy: Policy, kind: str, which: int, value: int) -> Any:
    """Make one call on the policy, chosen by its own state; return the result."""
    waiting = policy.outstanding()
    lost = policy.get_state()["lost"][:, 0].tolist()
    if kind == "ask":
        context = {"group": "xy"[value % 2]} if policy.problem is GROUPS else {}
        return [(pull.number, pull.action, pull.tag) for pull in policy.ask(which % 4, **context)]
    if kind == "unsolicited":
        action = which % policy.problem.n_actions
        return policy.tell(
            policy.problem.pull(**policy.problem.labels(action)), outcome(policy, value)
        )
    if kind == "late" and lost:
        return policy.tell(policy.in_flight(lost[which % len(lost)]), outcome(policy, value))
    if kind == "tell" and waiting:
        return policy.tell(waiting[which % len(waiting)], outcome(policy, value))
    if kind == "fail" and waiting:
        return policy.fail(waiting[which % len(waiting)], "timeout")
    if kind == "report" and waiting and isinstance(policy, PartialRace):
        return policy.report(waiting[which % len(waiting)], value, place=which)
    return None


def play(policy: Policy, steps: list[tuple[str, int, int]]) -> list[Any]:
    """Return all results of the policy's calls on the way."""
    return [
        (step(policy, *one), policy.stopped, policy.recommend(), policy.to_cancel())
        for one in steps
    ]


def through_a_file(state: State) -> State:
    """Return the state after writing and reading a file that may contain no pickles."""
    file = io.BytesIO()
    np.savez(file, **state)
    file.seek(0)
    with np.load(file, allow_pickle=False) as loaded:
        return dict(loaded)


def assert_same_state(left: State, right: State) -> None:
    assert left.keys() == right.keys()
    for name, value in left.items():
        assert value.dtype == right[name].dtype, name
        np.testing.assert_array_equal(value, right[name], err_msg=name, strict=True)


@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
@settings(max_examples=effort.runs(15, whole=100))
@given(steps=STEPS, at=st.integers(0, 40))
def test_a_restored_policy_goes_on_as_the_one_that_never_paused(
    make: Callable[[], Policy], steps: list[tuple[str, int, int]], at: int
) -> None:
    steady = make()
    play(steady, steps[:at])
    restored = make()
    restored.set_state(through_a_file(steady.get_state()))
    assert_same_state(restored.get_state(), steady.get_state())
    assert play(restored, steps[at:]) == play(steady, steps[at:])
    assert_same_state(restored.get_state(), steady.get_state())


@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
@settings(max_examples=effort.runs(20, whole=40))
@given(steps=STEPS)
def test_the_same_calls_give_the_same_pulls(
    make: Callable[[], Policy], steps: list[tuple[str, int, int]]
) -> None:
    assert play(make(), steps) == play(make().clone(), steps)


@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
@settings(max_examples=effort.runs(10, whole=40))
@given(steps=STEPS, more=STEPS)
def test_a_state_is_a_copy(
    make: Callable[[], Policy],
    steps: list[tuple[str, int, int]],
    more: list[tuple[str, int, int]],
) -> None:
    policy = make()
    play(policy, steps)
    saved = policy.get_state()
    before = through_a_file(saved)
    other = make()
    other.set_state(saved)
    play(policy, more)
    play(other, more)
    assert_same_state(saved, before)


@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
@settings(max_examples=effort.runs(20, whole=40))
@given(steps=STEPS)
def test_every_pull_is_in_flight_or_lost_or_told(
    make: Callable[[], Policy], steps: list[tuple[str, int, int]]
) -> None:
    policy = make()
    play(policy, steps)
    state = policy.get_state()
    waiting, lost = state["outstanding"][:, 0], state["lost"][:, 0]
    unsolicited = sum(kind == "unsolicited" for kind, _, _ in steps)
    solicited = policy.told - unsolicited
    assert policy.asked == len(waiting) + len(lost) + solicited
    assert len({*waiting, *lost}) == len(waiting) + len(lost)


def test_a_state_that_lacks_a_part_is_refused_whole() -> None:
    policy = LeadRace(ARMS, seed=1)
    policy.tell(policy.ask(), 1.0)
    state = policy.get_state()
    del state["winner"]
    fresh = LeadRace(ARMS, seed=1)
    with raises(InvalidArgument, "state"):
        fresh.set_state(state)
    assert_same_state(fresh.get_state(), LeadRace(ARMS, seed=1).get_state())


class Noting(LeadRace):
    """Keeps a note of any type as state."""

    state_fields = ("note",)
    note: Any = None

    def noting(self, note: Any) -> Noting:
        self.note = note
        return self

    def recommend(self) -> Recommendation:
        return Recommendation(None, "running")


@pytest.mark.parametrize(
    "note", [3, 2.5, True, "text", [1, 2], [], [[1.5], [2.5]], np.arange(3), np.array(["a", "b"])]
)
def test_a_part_of_the_state_keeps_its_type(note: Any) -> None:
    restored = Noting(ARMS).noting(type(note)() if isinstance(note, list) else None)
    restored.set_state(through_a_file(Noting(ARMS).noting(note).get_state()))
    assert type(restored.note) is type(note)
    assert np.array_equal(restored.note, note)


class Clipboard(Noting):
    """Keeps its note in a part of its own."""

    state_fields = ("clip.note",)

    def __init__(self, problem: Any, seed: int | None = None) -> None:
        super().__init__(problem, seed=seed)
        self.clip = Noting(problem)


def test_a_part_of_a_policy_may_hold_its_state() -> None:
    policy, restored = Clipboard(ARMS), Clipboard(ARMS)
    policy.clip.noting(np.arange(3))
    restored.set_state(through_a_file(policy.get_state()))
    assert np.array_equal(restored.clip.note, [0, 1, 2])


@pytest.mark.parametrize("note", [None, {"a": 1}, [[1], [2, 3]], [None], len])
def test_a_state_that_is_no_array_is_refused_when_saved(note: Any) -> None:
    with raises(NotSupported):
        Noting(ARMS).noting(note).get_state()


@pytest.mark.parametrize(
    "other",
    [
        lambda: LeadRace(ARMS, delta=0.2, seed=1),
        lambda: LeadRace(ToyProblem(["b", "a", "c"]), seed=1),
        lambda: Noting(ARMS, seed=1),
    ],
    ids=["parameter", "problem", "class"],
)
def test_the_state_of_another_policy_is_refused_and_changes_nothing(
    other: Callable[[], Policy],
) -> None:
    policy = LeadRace(ARMS, seed=1)
    policy.tell(policy.ask(), 1.0)
    fresh = other()
    with raises(InvalidArgument, "state"):
        fresh.set_state(policy.get_state())
    assert fresh.asked == fresh.told == 0


def test_a_policy_with_another_seed_takes_the_state() -> None:
    policy = LeadRace(ARMS, seed=1)
    policy.tell(policy.ask(), 1.0)
    fresh = LeadRace(ARMS, seed=2)
    fresh.set_state(policy.get_state())
    assert fresh.told == 1


@pytest.mark.parametrize("state", [None, 3, [1]])
def test_what_is_no_state_is_refused(state: Any) -> None:
    with raises(InvalidArgument, "state", given=state):
        LeadRace(ARMS).set_state(state)
