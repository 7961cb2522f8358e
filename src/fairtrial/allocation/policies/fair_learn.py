"""Fair-Learn: any learner, with forced pulls as often as the shares require."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from fairtrial.allocation._kernels.runs import make_up
from fairtrial.allocation.environments import AllocationEnvironment
from fairtrial.allocation.learners import UCB1, Learner, PullFunction
from fairtrial.allocation.policies.base import AllocationPolicy, as_learner
from fairtrial.allocation.policies.epochs import carried_over, credits_for, rewards_for
from fairtrial.allocation.policies.initial_values import given_credits, given_rewards
from fairtrial.allocation.policies.state import Options
from fairtrial.allocation.problem import Problem, Share
from fairtrial.core.documentation import documented_by
from fairtrial.core.problem import Outcome
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.recommendation import Guarantee
from fairtrial.core.validation import (
    check_choice,
    check_flag,
    check_instance,
    check_integer,
    check_number,
    check_optional_integer,
)
from fairtrial.errors import InvalidArgument, NotSupported

__all__ = ["FairLearn", "FairUCB"]

_FARTHEST_LOOK = 10**6
"""Largest number of rounds that 'lazy' may have to look ahead."""
_HIGHEST_PRICE = 1e9
_MOST_CELLS = 10**7
_SCHEDULERS = ("due", "largest", "lazy")
_PAGE = "docs/explanation/fair-shares.md"
_PROMISE = "after every round, the pulls of every {} are at least its share of all rounds so far"
_PROMISE_OF_EPOCH = (
    "after every round t of this epoch, every {} i, which began it with the credit c_i, has had "
    "at least floor(c_i + r_i t){} pulls in it"
)
_COUNTED = (
    "a pull counts from the moment it is issued; once it has failed or is lost it does not count"
)
_FAILED = (
    "after F pulls fail, at most F pulls are missing over all arms, and none F rounds later "
    "if no other pull fails"
)
_FAILED_EARLIER = (
    f"{_FAILED}; a failed pull of an earlier epoch may leave one additional pull missing until "
    "the next free round"
)
_FAILED_WITH_LARGEST = (
    "over all arms, at most as many pulls are missing as failed since the last free round"
)
_FAILED_OF_SEVERAL = "pulls that fail may be missing; for how long is not proven"


class FairLearn(AllocationPolicy):
    """Run any learner, and force a pull only when the shares require it.

    The shares hold whatever the learner does, however late results arrive and however rewards
    change, because quotas are counted in exact integers when a pull is issued. Failed pulls are
    made up for: after F failures at most F pulls are missing in total, and F rounds later none
    (docs/explanation/fair-shares.md has the exact statement for every scheduler).

    Parameters
    ----------
    problem : Problem
        Arms, shares and tolerance.
    learner : Learner or function, optional
        Chooses the arm in free rounds; `Thompson` by default. A function
        ``(t, counts, sums, allowed) -> arm`` is accepted, too.
    scheduler : {"due", "largest", "lazy"}
        Which arm a forced pull takes. ``"due"``: the arm whose owed pull has the earliest deadline;
        this works for all feasible shares. ``"largest"``: the arm with the largest credit
        (Fair-Learn as published), for shares below 1/m if m arms have a share. ``"lazy"``: no pull
        is forced as long as all owed pulls can still be made in time, then the arm with the
        earliest deadline.
    carry : int, optional
        How many pulls ahead of its share an arm can be; pulls beyond that are forgotten, so the arm
        cannot use them up later. Every window of h rounds then has at least
        ``floor(r_i h) - tolerance - carry`` pulls of the arm, as long as no pull fails and no arm
        sleeps. Unlimited by default. Only for ``"due"`` and ``"largest"``.
    mask : bool
        With ``"lazy"``: instead of forcing one arm, let the learner choose among the arms whose
        pulls can no longer be postponed.
    allow_unsafe : bool
        Accept shares of 1/m and more with ``"largest"``, which then loses its guarantee.
    contexts : int
        Number of contexts that the learner distinguishes (``ask(context=2)``); the shares are kept
        over all contexts together.
    price : float, optional
        Add Q_i / price to the learner's index of arm i: a bonus that grows while the arm waits.
        (Q_i grows by the arm's share each round and falls by 1 with each of its pulls.) The learner
        then serves waiting arms when that costs least. Hardly any pull has to be forced if the
        tolerance is slightly larger than `price` times the range of the indices.
    initial_credits : sequence or mapping, optional
        Number of pulls that each arm and each group is owed at the start: exact numbers such as
        ``"1/3"``, at most the tolerance, negative if the arm is ahead. A mapping by label (0 for
        missing labels), or a sequence of all arms and then all groups. `next_epoch` sets it.
    initial_rewards : sequence or mapping, optional
        What the learner knows before the first round: number and sum of the rewards of every arm,
        by label or in order (with contexts: by context, then by arm). A sliding window still begins
        empty. `next_epoch` sets it.
    seed : None, int or numpy.random.Generator
        Source of the learner's randomness.

    Notes
    -----
    Source: Patil, Ghalme, Nair, Narahari (2019), algorithm 1 and theorem 1, for ``"largest"``;
    docs/explanation/fair-shares.md has the proof for ``"due"``.

    Examples
    --------
    >>> problem = Problem(["a", "b", "c"], ["1/5", "3/10", "1/4"])
    >>> policy = FairLearn(problem, lambda t, counts, sums, allowed: 0)
    >>> "".join(pull.arm for pull in policy.ask(12))
    'abcabcabacab'
    >>> policy.metrics()["floored_violation"]
    0.0
    """

    version = 2
    # A run is within one epoch, where the methods that care about earlier ones do nothing more.
    environments = AllocationEnvironment

    def __init__(
        self,
        problem: Problem,
        learner: Learner | PullFunction | None = None,
        scheduler: str = "due",
        carry: int | None = None,
        mask: bool = False,
        allow_unsafe: bool = False,
        contexts: int = 1,
        price: float | None = None,
        initial_credits: Sequence[Share] | Mapping[str, Share] | None = None,
        initial_rewards: Sequence[Any] | Mapping[str, Any] | None = None,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        self.learner = learner
        self.scheduler = check_choice("scheduler", scheduler, _SCHEDULERS)
        self.carry = check_optional_integer("carry", carry, low=1)
        self.mask = check_flag("mask", mask)
        self.allow_unsafe = check_flag("allow_unsafe", allow_unsafe)
        self.contexts = check_integer("contexts", contexts, low=1)
        self.price = None if price is None else _given_price(price)
        self.initial_credits: Any = initial_credits
        self.initial_rewards: Any = initial_rewards
        if isinstance(problem, Problem):
            self._check(problem)
            _check_cells(problem, self.contexts)
            self.initial_credits = given_credits(problem, initial_credits)
            self.initial_rewards = given_rewards(problem, self.contexts, initial_rewards)
        options = Options(
            self.scheduler,
            self.carry,
            self.mask,
            self.contexts,
            self.price or 0.0,
            credits=self.initial_credits,
            rewards=self.initial_rewards,
        )
        super().__init__(problem, learner, seed, options)

    def _check(self, problem: Problem) -> None:
        if self.scheduler == "largest" and not self.allow_unsafe:
            _check_safe(problem)
        if self.scheduler != "due" and (problem.groups or problem.plays > 1):
            raise InvalidArgument(
                "scheduler", "must be 'due' with groups or several plays a round", self.scheduler
            )
        if self.carry is not None and (
            self.scheduler == "lazy" or problem.groups or problem.plays > 1
        ):
            raise InvalidArgument(
                "carry", "must be left out with 'lazy', groups or several plays a round", self.carry
            )
        if self.mask and self.scheduler != "lazy":
            raise InvalidArgument("mask", "must be False unless scheduler is 'lazy'", self.mask)
        if self.price is not None and not as_learner(self.learner).has_index:
            raise InvalidArgument(
                "price", "must be left out for a learner without an index", self.learner
            )
        if self.scheduler == "lazy":
            _check_look_ahead(problem)

    def next_epoch(self, problem: Problem, **changes: Any) -> Self:
        """Return a policy that continues from here with other shares, arms or groups.

        A new epoch counts its rounds from 0, but continues to number pulls. Arms and groups whose
        labels stay keep their credits, up to the tolerance; new ones begin without credit. The
        rewards of arms that stay are kept. Tell the new policy about pulls in flight, with `tell`
        or `fail`: it learns results of arms that stay and ignores those of removed arms. If a pull
        of the previous epoch fails, its arm is owed one more pull, as if from the start of the new
        epoch (again up to the tolerance).

        Parameters
        ----------
        problem : Problem
            Arms and shares from now on.
        **changes
            Other arguments of the policy, such as ``seed``, ``initial_credits=None`` to begin
            without credits, or ``initial_rewards=None`` to begin without rewards.

        Returns
        -------
        AllocationPolicy
            A policy of the same class, for a new study; its arguments contain the credits and
            rewards. Pulls in flight belong to the study that issued them.

        Raises
        ------
        InvalidArgument
            If the policy does not accept the problem.
        NotSupported
            If a round of several plays is not complete.

        Notes
        -----
        Every epoch keeps its own guarantee, counted from the initial credits. Over E epochs with
        the same tolerance and without failed pulls, an arm present in all of them has had at least
        ``floor(owed) - tolerance - (E - 1)`` pulls, where ``owed`` sums its share times the rounds
        of each epoch (proof in docs/explanation/fair-shares.md).

        Examples
        --------
        >>> policy = FairLearn(Problem(["a", "b"], "1/4"), lambda t, counts, sums, allowed: 0)
        >>> _ = policy.ask(10)
        >>> policy.credits
        (Fraction(-9, 2), Fraction(-1, 2))
        >>> later = policy.next_epoch(Problem(["b", "c"], "1/3"))
        >>> later.credits
        (Fraction(-1, 2), Fraction(0, 1))
        """
        check_instance("problem", problem, Problem)
        if self._state.control.plays_done[0]:
            raise NotSupported(
                "the current round is not complete: ask for its remaining pulls first"
            )
        kept = {
            "problem": problem,
            "initial_credits": credits_for(self._state, problem),
            "initial_rewards": rewards_for(self._state, problem),
            "seed": self._next_seed(),
        }
        following = self.clone(**{**kept, **changes})
        fresh = following.get_state()
        kept_pulls = carried_over(self.get_state(), self.problem, problem, following.contexts)
        following.set_state({**fresh, **kept_pulls})
        return following

    def _next_seed(self) -> int:
        return int(np.random.SeedSequence([self.seed, self.asked]).generate_state(1, np.uint64)[0])

    def _as_here(self, pull: Pull) -> Pull | None:
        """Return a pull, also of an earlier epoch, as one of this problem, or None."""
        first = self._state.first
        if not (first and UNSOLICITED < getattr(pull, "number", UNSOLICITED) < first):
            return pull
        place = self._state.places.get(str(pull.labels.get("arm")))
        if place is None or pull.tag >= self.contexts:
            return None
        return self._pull(pull.number, place, pull.tag)

    def tell(self, pull: Pull, outcome: Outcome) -> None:
        """Tell the reward of a pull, of this or an earlier epoch."""
        here = self._as_here(pull)
        if here is not None:
            super().tell(here, outcome)

    def fail(self, pull: Pull, reason: str = "lost") -> None:
        """Report that a pull, of this or an earlier epoch, will have no reward."""
        here = self._as_here(pull)
        if here is not None:
            super().fail(here, reason)

    def on_failure(self, pull: Pull, reason: str) -> None:
        """Take the pull back; one of an earlier epoch is owed from the start of this epoch."""
        if pull.number >= self._state.first:
            super().on_failure(pull, reason)
        else:
            make_up(self._state.words, pull.action)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee: every share at every moment."""
        found = self._basic_guarantee()
        if self._state.control.has_slept[0]:
            return found.weakened(
                "some arms slept, and nothing is proven for that; see the credits"
            )
        return found

    def _promise(self) -> str:
        begins_even = not any(self.initial_credits or ())
        who = "arm and every group" if self.problem.groups else "arm"
        tolerance = self.problem.unfairness_tolerance
        if begins_even:
            less = f" and less {tolerance}" if tolerance else ""
            return f"{_PROMISE.format(who)}, rounded down{less}"
        return _PROMISE_OF_EPOCH.format(who, f" - {tolerance}" if tolerance else "")

    def _basic_guarantee(self) -> Guarantee:
        promise = self._promise()
        groups = self.problem.groups
        if self.problem.plays > 1:
            return Guarantee(
                "PD2",
                proven=False,
                statement=promise,
                assumptions=(
                    "free pulls do no harm: tested, not proven",
                    _COUNTED,
                    _FAILED_OF_SEVERAL,
                ),
                source="Anderson, Srinivasan (2004), Mixed Pfair/ERfair scheduling",
            )
        if self.scheduler == "largest":
            safe = _unsafe_arm(self.problem) is None
            return Guarantee(
                "Fair-Learn",
                proven=safe,
                statement=promise,
                assumptions=(
                    "every share is below 1/m, if m arms have a share",
                    _COUNTED,
                    _FAILED_WITH_LARGEST,
                ),
                source="Patil, Ghalme, Nair, Narahari (2019), theorem 1",
            )
        return Guarantee(
            "earliest due first" if self.scheduler == "due" else "earliest due first, lazily",
            proven=True,
            statement=promise,
            assumptions=(
                f"the shares sum to {'less than' if groups else 'at most'} 1",
                _COUNTED,
                _FAILED_EARLIER if self._state.first else _FAILED,
            ),
            source=_PAGE,
        )


@documented_by(FairLearn)
class FairUCB(FairLearn):
    """Fair-UCB as published: force the arm with the largest credit, UCB1 in other rounds.

    Parameters
    ----------
    problem : Problem
        Every share must be below 1/m, where m arms have a share.
    seed : None, int or numpy.random.Generator
        Ignored; the policy is deterministic.

    Notes
    -----
    Source: Patil, Ghalme, Nair, Narahari (2019), section 4.

    Examples
    --------
    >>> policy = FairUCB(Problem(3, "1/5"))
    >>> [pull.arm for pull in policy.ask(3)]
    ['0', '1', '2']
    """

    def __init__(
        self,
        problem: Problem,
        initial_credits: Sequence[Share] | Mapping[str, Share] | None = None,
        initial_rewards: Sequence[Any] | Mapping[str, Any] | None = None,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(
            problem,
            UCB1(),
            "largest",
            initial_credits=initial_credits,
            initial_rewards=initial_rewards,
            seed=seed,
        )

    def _check(self, problem: Problem) -> None:
        if _unsafe_arm(problem) is not None or problem.groups or problem.plays > 1:
            positive = sum(share > 0 for share in problem.shares)
            raise InvalidArgument(
                "problem",
                f"must have every share below 1/{positive}, no groups and one play a round for "
                "Fair-UCB as published; FairLearn(problem) keeps all shares that can be kept",
                problem,
            )


def _given_price(value: object) -> float:
    price = check_number("price", value, low=0, open_low=True)
    if not 1 / _HIGHEST_PRICE <= price <= _HIGHEST_PRICE:
        accepted = f"must be a number in [{1 / _HIGHEST_PRICE:g}, {_HIGHEST_PRICE:g}]"
        raise InvalidArgument("price", accepted, value)
    return price


def _check_cells(problem: Problem, contexts: int) -> None:
    most = max(1, _MOST_CELLS // len(problem.arms))
    if contexts > most:
        accepted = f"must be at most {most} with {len(problem.arms)} arms, to be kept in memory"
        raise InvalidArgument("contexts", accepted, contexts)


def _unsafe_arm(problem: Problem) -> int | None:
    positive = sum(share > 0 for share in problem.shares)
    unsafe = (arm for arm, share in enumerate(problem.shares) if share * positive >= 1 and share)
    return next(unsafe, None)


def _check_safe(problem: Problem) -> None:
    arm = _unsafe_arm(problem)
    if arm is not None:
        positive = sum(share > 0 for share in problem.shares)
        raise InvalidArgument(
            "scheduler",
            f"must be 'due': 'largest' is proven for shares below 1/{positive} only, and arm "
            f"{problem.arms[arm]!r} has {problem.shares[arm]} (allow_unsafe=True for research)",
            "largest",
        )


def _check_look_ahead(problem: Problem) -> None:
    left = 1 - problem.total_share
    if problem.denominator > _FARTHEST_LOOK and left * _FARTHEST_LOOK < 1:
        raise InvalidArgument(
            "scheduler",
            f"must be 'due' when the shares leave less than one round in {_FARTHEST_LOOK} free and "
            "their common denominator is above that: 'lazy' would look too many rounds ahead",
            "lazy",
        )
