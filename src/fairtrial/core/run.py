"""One run of a policy in an environment: the plain loop that works for every policy."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.contract import check_members, check_recommendation
from fairtrial.core.environment import Environment
from fairtrial.core.keywords import named_arguments
from fairtrial.core.policy import Policy
from fairtrial.core.pull import Pull
from fairtrial.core.recommendation import Status
from fairtrial.core.validation import check_instance, check_integer
from fairtrial.errors import InvalidArgument

__all__ = ["LONGEST_RUN", "Run", "run_policy"]

LONGEST_RUN = 1_000_000
"""The most pulls of a run if neither the caller nor the policy states a number.

Some questions have no answer: of ten equal arms, a run may by chance rule out one, and the other
nine never differ. Such a run ends undecided here, instead of never.
"""

_READING, _END = 0, 1


@dataclass(frozen=True, slots=True)
class Run:
    """The result of one run.

    Parameters
    ----------
    answer : object
        The recommended label, or None: "no arm" if decided, otherwise "no answer".
    status : {"running", "decided", "undecided"}
        `running` if the horizon ended a policy that had not stopped.
    stopping_time : int
        Results received until the end.
    pulls : ndarray of int, shape (n_actions,)
        Pulls issued, by action.
    elapsed : float
        Simulated time until the end; equal to `stopping_time` where nothing takes time.
    metrics : mapping of str to float
        Metrics that a family adds.
    cancelled : int
        Pulls that were cancelled before their outcome came.
    estimate : float
        The estimated mean of the answer, if it is one label and was requested; otherwise NaN.
    interval : tuple of float
        The ends of its interval; NaN if there is none.
    difference : float
        The estimated difference between the answer and the problem's control; NaN if there is no
        control or the control is the answer.
    lost : int
        Pulls that will have no outcome, without those that were cancelled.
    better : tuple of bool
        By arm, whether the interval of its difference from the problem's control shows that it is
        better; empty unless there is a control and estimates were requested.
    within_limits : tuple of bool
        By arm, whether each of its limits is shown to be kept, by its interval, its own bets
        or the answer, or it has none; empty also if no arm has a limit.
    """

    answer: Any
    status: Status
    stopping_time: int
    pulls: NDArray[np.int64]
    elapsed: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    cancelled: int = 0
    estimate: float = math.nan
    interval: tuple[float, float] = (math.nan, math.nan)
    difference: float = math.nan
    lost: int = 0
    better: tuple[bool, ...] = ()
    within_limits: tuple[bool, ...] = ()


@named_arguments
def run_policy(
    policy: Policy,
    environment: Environment,
    generator: np.random.Generator,
    horizon: int | None = None,
    parallel: int = 1,
    watch: Callable[[Policy], None] | None = None,
) -> Run:
    """Run a fresh policy to its stop, or until `horizon` pulls have been issued.

    Parameters
    ----------
    policy : Policy
        A fresh policy; the run changes it.
    environment : Environment
        The environment that answers the pulls.
    generator : numpy.random.Generator
        The random numbers of the environment.
    horizon : int, optional
        Most pulls to issue; needed if the policy never stops by itself. If neither it nor the
        policy's `max_pulls` or `budget` is given, a run ends after 1,000,000 pulls.
    parallel : int
        Most pulls in flight at once. Each takes its delay; readings arrive during that time,
        and a pull that the policy no longer needs is cancelled at once.
    watch : callable, optional
        Called with the policy after every result.

    Raises
    ------
    InvalidArgument
        If an argument has a wrong type, the policy is not fresh, `horizon` or `parallel` is
        not a positive integer, or there is no horizon for a policy that never stops by itself.
    """
    check_instance("policy", policy, Policy)
    check_members(policy, Policy, "policy")
    check_instance("environment", environment, Environment)
    check_instance("generator", generator, np.random.Generator)
    if policy.asked:
        raise InvalidArgument("policy", "must be fresh, with nothing asked yet", policy)
    check_integer("parallel", parallel, low=1)
    limit = check_horizon(horizon, policy)
    simulation = _Simulation(policy, environment.begin(generator), generator, limit, watch)
    while simulation.fill(parallel):
        simulation.advance()
    answer = check_recommendation(
        policy.problem, policy.recommend(), f"{type(policy).__name__}.recommend"
    )
    return Run(
        answer=answer.arm if answer.status == "decided" else None,
        status=answer.status,
        stopping_time=simulation.results,
        pulls=simulation.pulls,
        elapsed=simulation.now,
        metrics={**policy.metrics(), **simulation.environment.metrics(simulation.pulls)},
        cancelled=simulation.cancelled,
        lost=simulation.lost,
    )


def check_horizon(horizon: int | None, policy: Policy) -> float:
    """Return the most pulls that a run may issue; infinity if the policy has such a number."""
    if horizon is not None:
        return check_integer("horizon", horizon, low=1)
    if policy.endless:
        name = type(policy).__name__
        raise InvalidArgument("horizon", f"is needed: {name} never stops by itself", horizon)
    own = [getattr(policy, name, None) for name in ("max_pulls", "budget")]
    return math.inf if any(limit is not None for limit in own) else LONGEST_RUN


class _Simulation:
    """Simulated time: the pulls in flight and their future events."""

    def __init__(
        self,
        policy: Policy,
        environment: Environment,
        generator: np.random.Generator,
        horizon: float,
        watch: Callable[[Policy], None] | None,
    ) -> None:
        self.policy = policy
        self.environment = environment
        self.generator = generator
        self.horizon = horizon
        self.watch = watch
        self.now = 0.0
        self.results = 0
        self.cancelled = 0
        self.lost = 0
        self.pulls = np.zeros(policy.problem.n_actions, dtype=np.int64)
        self._most_time = math.inf if policy.max_time is None else policy.max_time
        self._in_flight: dict[int, Pull] = {}
        self._events: list[tuple[float, int, int, int, Any]] = []

    def fill(self, parallel: int) -> bool:
        """Start pulls up to the limits; return whether any event is still to come."""
        while (
            not self.policy.stopped
            and len(self._in_flight) < parallel
            and self.policy.asked < self.horizon
        ):
            context = self.environment.context(self.generator)
            issued = self.policy.ask(1, **context)
            if not issued:
                break
            self._start(issued[0])
        return bool(self._in_flight) and not self.policy.stopped

    def _start(self, pull: Pull) -> None:
        path = self.environment.trajectory(pull, self.generator)
        self.pulls[pull.action] += 1
        self._in_flight[pull.number] = pull
        for order, reading in enumerate(path.readings):
            self._push(reading.elapsed, _READING, pull.number, order, reading)
        self._push(path.delay, _END, pull.number, len(path.readings), path.outcome)

    def _push(self, delay: float, kind: int, number: int, order: int, content: Any) -> None:
        # Simultaneous events come in this order: time, pull, order within the pull.
        heapq.heappush(self._events, (self.now + delay, number, order, kind, content))

    def advance(self) -> None:
        """Handle the next event, and all others of the same moment, if there is time."""
        self.now = min(self._events[0][0], self._most_time)
        self.policy.pass_time(self.now)
        if self.now == self._most_time:
            self._cancel()
            return
        while self._events and self._events[0][0] == self.now and not self.policy.stopped:
            _, number, _, kind, content = heapq.heappop(self._events)
            self._happen(self._in_flight[number], kind, content)
            self._cancel()
            self._forget_cancelled()

    def _happen(self, pull: Pull, kind: int, content: Any) -> None:
        if kind == _READING:
            self.policy.report(pull, content.value, **content.details)
            return
        del self._in_flight[pull.number]
        if content is None:
            self.policy.fail(pull, "lost")
            self.lost += 1
            return
        self.policy.tell(pull, content)
        self.results += 1
        if self.watch is not None:
            self.watch(self.policy)

    def _cancel(self) -> None:
        for pull in self.policy.to_cancel():
            if self._in_flight.pop(pull.number, None) is not None:
                self.policy.fail(pull, "cancelled")
                self.cancelled += 1

    def _forget_cancelled(self) -> None:
        """Drop events of cancelled pulls, so that they do not advance the clock."""
        while self._events and self._events[0][1] not in self._in_flight:
            heapq.heappop(self._events)
