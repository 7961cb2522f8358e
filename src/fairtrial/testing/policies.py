"""Check that a policy keeps the contract of `fairtrial.core.Policy`."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from functools import partial
from operator import methodcaller
from typing import Any

import numpy as np

from fairtrial.core.contract import check_members, check_recommendation
from fairtrial.core.environment import Environment
from fairtrial.core.keywords import named_arguments, takes_keyword
from fairtrial.core.policy import Policy, State
from fairtrial.core.pull import Pull
from fairtrial.core.run import Run, run_policy
from fairtrial.core.validation import check_instance, check_integer
from fairtrial.errors import (
    AlreadyTold,
    ExperimentFinished,
    FairtrialError,
    InvalidArgument,
    UnknownPull,
)

__all__ = ["check_policy"]

_BAD_OUTCOMES: tuple[Any, ...] = (math.nan, math.inf, "text", None)
_LOST_SHARE = 0.1
_LATE_SHARE = 0.5
_SAME_CALLS = "the same calls must give the same answers and state; clones must share none"
_COPIES = "a copy (`copy.deepcopy`) must behave like its original"
_AS_IF_NEVER_PAUSED = (
    "a policy that was saved and restored must continue like one that never paused: state_fields "
    "must name everything that changes, and random numbers must come from self.generator()"
)
_NEVER_ISSUED = "a pull that was never issued"


@named_arguments
def check_policy(
    policy: Policy,
    environment: Environment,
    pulls: int = 60,
    parallel: int = 3,
    losses: bool = True,
    seed: int = 0,
) -> None:
    """Check that a policy keeps the contract in a live run, when restored, and when compiled.

    - The same problem, parameters, seed and calls give the same pulls.
    - If it is saved and restored before every call, it decides like one that never paused; so does
      a copy made by `copy.deepcopy`.
    - Bad input raises an error of `fairtrial.errors` and changes nothing.
    - Its reports at every step can be written as JSON and are consistent, and change nothing.
    - Once it has stopped it issues no more pulls.
    - A compiled run, if it has one, equals the plain loop, draw for draw.

    Parameters
    ----------
    policy : Policy
        A fresh policy; clones of it are run, and it is not changed.
    environment : Environment
        The environment that answers the pulls.
    pulls : int
        Most pulls of each run.
    parallel : int
        Most pulls in flight at once. Their results arrive in random order.
    losses : bool
        Whether some pulls get lost, and some of their results arrive after all.
    seed : int
        Source of the environment's randomness.

    Raises
    ------
    AssertionError
        If the policy breaks the contract; the message says where.

    Examples
    --------
    >>> from fairtrial.subpopulations import BlockBetting, GaussianEnvironment, Problem
    >>> problem = Problem(["a", "b"], ["x"], noise_std=1.0)
    >>> check_policy(BlockBetting(problem), GaussianEnvironment(problem, [[0.1], [0.3]]))
    """
    check_instance("policy", policy, Policy)
    check_members(policy, Policy, "policy")
    check_instance("environment", environment, Environment)
    check_integer("pulls", pulls, low=1)
    check_integer("parallel", parallel, low=1)
    if policy.asked or policy.told:
        raise InvalidArgument("policy", "must be fresh, with nothing asked or told yet", policy)
    before = policy.get_state()
    _LiveRun(policy, environment, pulls, parallel, losses, seed).check()
    _check_contexts(policy)
    for at_once in {1, parallel}:
        _check_compiled_run(policy, environment, pulls, at_once, seed)
    _require_same_state(policy.get_state(), before, "clones must share no state with the original")


class _LiveRun:
    """One run of two clones, one saved and restored before every call; then a second run."""

    def __init__(
        self,
        policy: Policy,
        environment: Environment,
        pulls: int,
        parallel: int,
        losses: bool,
        seed: int,
    ) -> None:
        self.steady, self.restored, self.repeated = (policy.clone() for _ in range(3))
        self.calls: list[tuple[Callable[[Policy], Any], Any]] = []
        self.generator = np.random.default_rng(seed)
        self.environment = environment.begin(self.generator)
        self.most, self.parallel, self.losses = pulls, parallel, losses
        self.in_flight: list[Pull] = []
        self.lost: list[tuple[Pull, Any]] = []

    def check(self) -> None:
        while self._fill():
            self._check_refusals()
            self._end_one()
            self._check_what_is_said()
        if self.steady.stopped:
            self._check_stopped()
        self._check_repeated()

    def _both(self, call: Callable[[Policy], Any]) -> Any:
        """Make the same call to both, and return their common answer."""
        self.restored = _restored(self.restored)
        answer = call(self.steady)
        assert call(self.restored) == answer, _AS_IF_NEVER_PAUSED
        self.calls.append((call, answer))
        return answer

    def _check_repeated(self) -> None:
        """Make all calls again on a third clone, after the other two have learned.

        Halfway the policy is replaced by a copy of itself.
        """
        half = len(self.calls) // 2
        for call, answer in self.calls[:half]:
            assert call(self.repeated) == answer, _SAME_CALLS
        self.repeated = copy.deepcopy(self.repeated)
        for call, answer in self.calls[half:]:
            assert call(self.repeated) == answer, _COPIES
        _require_same_state(self.repeated.get_state(), self.steady.get_state(), _COPIES)

    def _fill(self) -> bool:
        while len(self.in_flight) < self.parallel and self.steady.asked < self.most:
            context = self.environment.context(self.generator)
            issued = self._both(methodcaller("ask", 1, **context))
            if not issued:
                break
            self.in_flight += issued
        return bool(self.in_flight) and not self.steady.stopped

    def _end_one(self) -> None:
        pull = self.in_flight.pop(int(self.generator.integers(len(self.in_flight))))
        path = self.environment.trajectory(pull, self.generator)
        for reading in path.readings:
            self._both(methodcaller("report", pull, reading.value, **reading.details))
        is_lost = self.losses and self.generator.random() < _LOST_SHARE
        if path.outcome is None or is_lost:
            self._both(methodcaller("fail", pull))
            if path.outcome is not None:
                self.lost.append((pull, path.outcome))
        else:
            self._both(methodcaller("tell", pull, path.outcome))
        if self.lost and not self.steady.stopped and self.generator.random() < _LATE_SHARE:
            late, outcome = self.lost.pop()
            self._both(methodcaller("tell", late, outcome))

    def _check_refusals(self) -> None:
        """Pass input that must be refused; nothing may change."""
        policy, pull = self.steady, self.in_flight[0]
        before = policy.get_state()
        stranger = Pull(policy.asked + 1, pull.action, pull.labels, pull.tag)
        for outcome in _BAD_OUTCOMES:
            _require_refusal(partial(policy.tell, pull, outcome), f"the outcome {outcome!r}")
        known = self.environment.trajectory(pull, np.random.default_rng(0)).outcome
        if known is not None:
            _require_refusal(partial(policy.tell, stranger, known), _NEVER_ISSUED, UnknownPull)
            told = _first_told(policy)
            if told is not None:
                _require_refusal(partial(policy.tell, told, known), "a told pull", AlreadyTold)
        _require_refusal(partial(policy.fail, stranger), _NEVER_ISSUED, UnknownPull)
        _require_same_state(policy.get_state(), before, "a refused call must change nothing")

    def _check_what_is_said(self) -> None:
        policy = self.steady
        before = policy.get_state()
        found = self._both(methodcaller("recommend"))
        check_recommendation(policy.problem, found, f"{type(policy).__name__}.recommend")
        progress = self._both(methodcaller("progress"))
        json.dumps(progress.to_dict(), allow_nan=False)
        policy.metrics()
        policy.to_cancel()
        _require_same_state(policy.get_state(), before, "looking at a policy must change nothing")
        _require_same_state(self.restored.get_state(), policy.get_state(), _AS_IF_NEVER_PAUSED)
        assert (found.status == "running") == (not policy.stopped), "status must follow `stopped`"
        assert found.arm is None or found.decided, "an arm is named once the policy has decided"
        assert (progress.asked, progress.told) == (policy.asked, policy.told), "progress counts"
        assert progress.outstanding == len(policy.outstanding()), (
            "progress must count the pulls in flight"
        )
        if found.decided and found.candidates is not None:
            named = found.arm if isinstance(found.arm, tuple) else (found.arm,)
            assert set(named) <= set(found.candidates), "an answer must be among the candidates"
        outstanding = policy.outstanding()
        assert all(pull in outstanding for pull in policy.to_cancel()), (
            "only a pull in flight can be called back"
        )

    def _check_stopped(self) -> None:
        policy = self.steady
        assert policy.ask(2) == [], "a policy that has stopped must issue no more pulls"
        _require_refusal(policy.ask, "to be asked after the stop", ExperimentFinished)
        assert policy.to_cancel() == policy.outstanding(), "after the stop no pull is needed"


def _check_contexts(policy: Policy) -> None:
    """Ask for each value of a label that `choose` takes as a keyword: such a pull must come."""
    labels = policy.problem.action_labels
    for name in sorted(labels[0].keys() - {"arm"}):
        if not takes_keyword(policy.choose, name):
            continue
        for value in dict.fromkeys(label[name] for label in labels):
            try:
                policy.clone().ask(1, **{name: value})
            except (InvalidArgument, TypeError) as error:
                problem = f"ask({name}={value!r}) must issue such a pull, or take no {name}"
                raise AssertionError(f"{problem}: {error}") from None


def _first_told(policy: Policy) -> Pull | None:
    """Return a pull that was told, if one is known for certain."""
    open_numbers = {pull.number for pull in policy.outstanding()}
    state = policy.get_state()
    lost = {int(row[0]) for row in state["lost"]}
    for number in range(policy.asked):
        if number not in open_numbers and number not in lost:
            return Pull(number, 0, policy.problem.labels(0))
    return None


def _require_refusal(
    call: Callable[[], Any], what: str, error: type[FairtrialError] = FairtrialError
) -> None:
    try:
        call()
    except error:
        return
    raise AssertionError(f"{what} must be refused with {error.__name__}")


def _restored(policy: Policy) -> Policy:
    """Return a fresh policy with the state, copied byte by byte as from a file."""
    fresh = policy.clone()
    fresh.set_state({name: _copied(name, array) for name, array in policy.get_state().items()})
    return fresh


def _copied(name: str, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    assert not array.dtype.hasobject, f"{name!r} holds objects: a state must not need pickles"
    order: Any = "F" if array.flags.fnc else "C"
    return np.ndarray(array.shape, array.dtype, bytearray(array.tobytes("A")), order=order)


def _require_same_state(left: State, right: State, message: str) -> None:
    assert left.keys() == right.keys(), message
    for name, value in left.items():
        same = value.dtype == right[name].dtype and value.tobytes() == right[name].tobytes()
        assert same, f"{message}: {name!r} differs"


def _check_compiled_run(
    policy: Policy, environment: Environment, pulls: int, parallel: int, seed: int
) -> None:
    compiled, plain = (np.random.default_rng(seed) for _ in range(2))
    found = policy.clone().compiled_run(environment, compiled, pulls, parallel)
    if found is None:
        assert compiled.bit_generator.state == plain.bit_generator.state, (
            "compiled_run must draw nothing from the generator if it returns None"
        )
        return
    expected = run_policy(policy.clone(), environment, plain, pulls, parallel)
    _require_same_run(found, expected)


def _require_same_run(found: Run, expected: Run) -> None:
    assert np.array_equal(found.pulls, expected.pulls), "a compiled run must make the same pulls"
    for name in ("answer", "status", "stopping_time", "elapsed", "cancelled", "metrics"):
        ours, theirs = getattr(found, name), getattr(expected, name)
        assert ours == theirs, f"{name} of a compiled run is {ours!r}, of the plain loop {theirs!r}"
