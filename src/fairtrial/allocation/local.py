"""Let each process decide by itself, and exchange what was learned through a shared place."""

from __future__ import annotations

import json
import logging
import os
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import Any, NamedTuple, Protocol, Self, overload

import numpy as np
from numpy.typing import NDArray

from fairtrial.allocation.policies.base import AllocationPolicy
from fairtrial.allocation.policies.initial_values import given_rewards
from fairtrial.allocation.problem import MAX_DENOMINATOR
from fairtrial.core.keywords import named_arguments
from fairtrial.core.logs import LogEvent
from fairtrial.core.policy import Policy
from fairtrial.core.problem import Outcome
from fairtrial.core.pull import Pull
from fairtrial.core.recommendation import Progress
from fairtrial.core.validation import check_instance, check_number
from fairtrial.errors import FairtrialError, InvalidArgument, NotSupported

__all__ = ["LocalAllocator", "OverallShares", "SharedPlace"]

Floats = NDArray[np.float64]

_FAILED = LogEvent("allocation", "exchange failed", logging.WARNING, ("error",))
_RESUMED = LogEvent("allocation", "exchange resumed", logging.INFO, ())
_CLOSING_SECONDS = 5.0
_LONGEST_INTERVAL = 86_400.0
_MOST_IN_WHOLE = 2**63
_LONGEST_RECORD = 64 * 2**20
_NAME_BYTES = 16


class SharedPlace(Protocol):
    """Where processes publish what they learn, such as `fairtrial.study.SharedStatistics`."""

    def publish(self, process: str, body: str) -> None:
        """Replace what a process has published before."""

    def published(self) -> Mapping[str, str]:
        """Return what every process has published, by the name of the process."""


@dataclass(frozen=True, slots=True)
class OverallShares:
    """How the traffic of all processes together was divided among arms, as far as published.

    Parameters
    ----------
    processes : int
        Number of processes that have published so far; a restarted process counts again.
    pulls : mapping of str to int
        Pulls that count, by arm.
    behind : mapping of str to int
        Whole pulls by which an arm is behind its share of the whole traffic.
    """

    processes: int
    pulls: Mapping[str, int]
    behind: Mapping[str, int]


class LocalAllocator:
    """Decide within this process, without a network call, and learn from other processes.

    Every process of a service makes one. It keeps the shares on its own traffic, so P processes
    together are behind by less than P pulls (beyond the tolerances). A background thread exchanges
    rewards at intervals. The shares do not depend on the exchange: they hold even if the shared
    place is slow, unreachable or wrong.

    Parameters
    ----------
    policy : AllocationPolicy
        The policy to decide by. It is copied, and the copy begins without pulls.
    shared : SharedPlace
        Where statistics are exchanged: ``fairtrial.study.SharedStatistics(study)``.
    interval : float or None
        Seconds between two exchanges; if None, only calls of `exchange` exchange.
    seed : int, optional
        Seed of this process's random numbers; random by default, so processes differ.

    Raises
    ------
    InvalidArgument
        If an argument is not acceptable.
    NotSupported
        If the policy's learner has a sliding window, which cannot take rewards from elsewhere.

    Notes
    -----
    The bound and its proof: docs/explanation/fair-shares.md, "Many servers, one quota". It may
    be used by several threads, but not by a fork of the process that made it. Each process numbers
    its own pulls. A process that receives the reward of another process's pull tells it without the
    pull: ``tell(problem.pull(arm="b"), 1.0)``.

    Examples
    --------
    >>> from fairtrial.allocation import FairLearn, Problem
    >>> from fairtrial.study import SharedStatistics, Study
    >>> problem = Problem(["a", "b"], "1/4")
    >>> study = Study.create(problem, FairLearn(problem), storage="memory://", name="shop", seed=1)
    >>> with LocalAllocator(FairLearn(problem), SharedStatistics(study), interval=None) as local:
    ...     pull = local.ask()
    ...     local.tell(pull, 1.0)
    ...     local.exchange()
    ...     local.overall().processes
    0
    1
    """

    @named_arguments
    def __init__(
        self,
        policy: Policy,
        shared: SharedPlace,
        interval: float | None = 10.0,
        seed: int | None = None,
    ) -> None:
        checked: AllocationPolicy = check_instance("policy", policy, AllocationPolicy)
        self._policy = checked.clone(seed=seed)
        _refuse_window(self._policy)
        for method in ("publish", "published"):
            if not callable(getattr(shared, method, None)):
                accepted = "must be a place to exchange statistics: SharedStatistics(study)"
                raise InvalidArgument("shared", accepted, shared)
        self._shared = shared
        self.interval = None if interval is None else _checked_interval(interval)
        self.name = secrets.token_hex(_NAME_BYTES)
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._exchanging = threading.Lock()
        self._own_start = self._policy.rewards
        self._from_others = np.zeros_like(self._own_start)
        self._overall: OverallShares | None = None
        self._last_error: str | None = None
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        if self.interval is not None:
            self._thread = threading.Thread(
                target=self._exchange_at_intervals, name="fairtrial-exchange", daemon=True
            )
            self._thread.start()

    # -------------------------------------------------------------------- decisions

    @overload
    def ask(self, **context: Any) -> Pull: ...
    @overload
    def ask(self, n: int, **context: Any) -> list[Pull]: ...
    def ask(self, n: int | None = None, **context: Any) -> Pull | list[Pull]:
        """Issue the next pull of this process, or the next `n`, like the policy's `ask`."""
        with self._here():
            return self._policy.ask(**context) if n is None else self._policy.ask(n, **context)

    def tell(self, pull: Pull, outcome: Outcome) -> None:
        """Tell the reward of a pull of this process, or of a pull without a number."""
        with self._here():
            self._policy.tell(pull, outcome)

    def fail(self, pull: Pull, reason: str = "lost") -> None:
        """Report that the arm was never shown, so the pull is owed again."""
        with self._here():
            self._policy.fail(pull, reason)

    def progress(self) -> Progress:
        """Return shares and estimates of this process; estimates include what others learned."""
        with self._here():
            return self._policy.progress()

    @property
    def credits(self) -> tuple[Fraction, ...]:
        """The exact number of pulls that every arm is owed in this process now."""
        with self._here():
            return self._policy.credits

    def _here(self) -> threading.Lock:
        """Return the policy's lock; raise in a fork of the process that made it."""
        if os.getpid() != self._process:
            raise NotSupported(
                "this LocalAllocator was made by another process (this one is its fork): make "
                "one in every process, after it has started"
            )
        return self._lock

    # --------------------------------------------------------------------- exchange

    def exchange(self) -> int:
        """Publish what this process has learned, and learn what the others have published.

        Returns
        -------
        int
            The number of other processes whose rewards are now known here.

        Raises
        ------
        StorageError
            If the place cannot be reached. Decisions do not need it.
        """
        with self._exchanging:
            with self._here():
                own = self._record()
            self._shared.publish(self.name, own.to_json())
            heard, mistakes = self._understood(self._shared.published())
            others = [record for name, record in heard.items() if name != self.name]
            with self._here():
                self._learn(others)
            self._overall = _overall(self._policy.problem.arms, [own, *others])
            self._note_error("; ".join(mistakes) or None)
            return len(others)

    def overall(self) -> OverallShares:
        """Return how the traffic of all processes was divided, as of the last exchange.

        Raises
        ------
        NotSupported
            If there has been no exchange.
        """
        if self._overall is None:
            raise NotSupported(
                "no exchange has succeeded so far, so nothing is known about the other processes"
            )
        return self._overall

    @property
    def last_error(self) -> str | None:
        """What went wrong in the last exchange; None if nothing did. It is also logged."""
        return self._last_error

    def close(self) -> None:
        """Publish one last time and stop the exchange, without waiting long for the place.

        Decisions remain possible.
        """
        self._closing.set()
        if self._thread is not None and self._process == os.getpid():
            self._thread.join(_CLOSING_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _exchange_at_intervals(self) -> None:
        # `Event.wait` uses a monotonic clock, so changes of the system time do not matter.
        while True:
            is_last = self._closing.wait(self.interval)
            try:
                self.exchange()
            except Exception as error:  # noqa: BLE001 - whatever the place does, decisions go on
                self._note_error(str(error) or repr(error))
            if is_last:
                return

    def _note_error(self, error: str | None) -> None:
        """Log what went wrong in an exchange, once until it changes."""
        if error is not None and error != self._last_error:
            _FAILED.log(error=error)
        if error is None and self._last_error is not None:
            _RESUMED.log()
        self._last_error = error

    def _record(self) -> _Record:
        own = self._policy.rewards - self._own_start - self._from_others
        return _Record(
            self._policy.problem.arms,
            own.tolist(),
            self._policy.pulls.tolist(),
            self._policy.credits,
        )

    def _understood(self, published: Mapping[str, str]) -> tuple[dict[str, _Record], list[str]]:
        """Return the valid published records, and what is wrong with the other ones."""
        records, mistakes = {}, []
        for name, body in published.items():
            try:
                records[name] = _Record.from_json(body, self._policy)
            except (FairtrialError, ValueError, RecursionError) as error:
                mistakes.append(f"what process {name} published is ignored: {error}")
        return records, mistakes

    def _learn(self, others: list[_Record]) -> None:
        total = np.zeros_like(self._from_others)
        for record in others:
            total += np.asarray(record.rewards)
        self._policy.add_rewards(total - self._from_others)
        self._from_others = total


# ------------------------------------------------------------------------ what is published


class _Record(NamedTuple):
    """What one process has done and learned by itself.

    `rewards`: numbers and sums of rewards, by context and arm; `pulls` and `credits`: by arm.
    """

    arms: tuple[str, ...]
    rewards: Any
    pulls: list[int]
    credits: tuple[Fraction, ...]

    def to_json(self) -> str:
        pairs = [[credit.numerator, credit.denominator] for credit in self.credits]
        content = {
            "arms": list(self.arms),
            "rewards": self.rewards,
            "pulls": self.pulls,
            "credits": pairs,
        }
        return json.dumps(content, allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, body: str, policy: AllocationPolicy) -> _Record:
        """Parse a record of another process, which is not trusted: check every part of it."""
        if len(body) > _LONGEST_RECORD:
            raise ValueError(f"it has {len(body):,} characters, more than {_LONGEST_RECORD:,}")
        content = json.loads(body)
        arms = policy.problem.arms
        if not isinstance(content, dict) or content.get("arms") != list(arms):
            raise ValueError("it is not about the same arms")
        return cls(
            arms,
            _checked_rewards(policy, content.get("rewards")),
            [_whole(count) for count in _listed(content.get("pulls"), len(arms))],
            tuple(_credit(pair) for pair in _listed(content.get("credits"), len(arms))),
        )


def _checked_rewards(policy: AllocationPolicy, value: Any) -> Floats:
    """Return rewards of shape (contexts, 2, arms); raise if a number or sum is impossible."""
    shape = policy.rewards.shape
    try:
        array = np.array(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError("its rewards are not numbers") from error
    if array.shape != shape:
        raise ValueError(f"its rewards have the shape {array.shape}, not {shape}")
    pairs = array.transpose(0, 2, 1).reshape(-1, 2).tolist()
    given_rewards(policy.problem, shape[0], pairs)
    if (array[:, 0] % 1 != 0).any():
        raise ValueError("its numbers of rewards are not whole numbers")
    return array


def _listed(value: Any, length: int) -> list[Any]:
    if not isinstance(value, list) or len(value) != length:
        raise ValueError(f"it does not have a list of {length} entries")
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _MOST_IN_WHOLE:
        raise ValueError(f"it holds {value!r:.40} where a whole number is expected")
    return value


def _credit(pair: Any) -> Fraction:
    over, under = (_whole(part) for part in _listed(pair, 2))
    if not 1 <= under <= MAX_DENOMINATOR:
        raise ValueError("the denominator of a credit is not possible")
    return Fraction(over, under)


def _overall(arms: tuple[str, ...], records: list[_Record]) -> OverallShares:
    pulls = {arm: sum(record.pulls[place] for record in records) for place, arm in enumerate(arms)}
    owed = {
        arm: sum((record.credits[place] for record in records), Fraction(0))
        for place, arm in enumerate(arms)
    }
    behind = {arm: max(0, floor(credit)) for arm, credit in owed.items()}
    return OverallShares(len(records), pulls, behind)


# ---------------------------------------------------------------------------------- checks


def _refuse_window(policy: AllocationPolicy) -> None:
    if policy.has_window:
        raise NotSupported(
            "a learner with a sliding window takes no rewards from other processes; use another "
            "learner, or let each process run its own policy"
        )


def _checked_interval(interval: object) -> float:
    return check_number("interval", interval, low=0.0, high=_LONGEST_INTERVAL, open_low=True)
