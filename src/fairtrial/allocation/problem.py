"""The problem: arms, and the share of the pulls that each arm is owed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fairtrial.core.keywords import named_arguments
from fairtrial.core.problem import Problem as BaseProblem
from fairtrial.core.sizes import check_size
from fairtrial.core.validation import (
    as_exact,
    check_exact_integer,
    check_integer,
    check_labels,
    check_range,
)
from fairtrial.core.warning import warn_caller
from fairtrial.core.wording import listed, rewards_in_words
from fairtrial.errors import InvalidArgument, InvalidOutcome

__all__ = [
    "MAX_DENOMINATOR",
    "Group",
    "Problem",
    "Share",
    "as_group",
    "as_groups",
    "as_shares",
    "round_shares",
]

Share = Fraction | str | int | float
"""How a share can be written; a float is read as its shortest decimal representation."""

Group = tuple[Fraction, tuple[str, ...]]
"""A group's share and its members."""

MAX_DENOMINATOR = 10**9
"""Largest common denominator; up to it, 64-bit credits are exact for 9.2e9 rounds."""

_HOPELESS_DENOMINATOR = 10**60
_READABLE_DIGITS = 20
_READABLE_SHARES = 20
_LARGEST_REWARD = 1e150
"""Up to this size, sums of rewards and of their squares stay finite in every possible run."""


class Problem(BaseProblem):
    """Maximise rewards while every arm gets its share of the pulls at every moment.

    After every round t, each arm i must have had ``N_i(t) >= floor(r_i t) - tolerance`` pulls;
    failed pulls count neither in N_i nor in t. Among the schedules that satisfy this, rewards
    should be as large as possible. The actions are the arms.

    Parameters
    ----------
    arms : sequence of str, or int
        Labels of the k arms, or their number.
    shares : share, sequence of k shares, or mapping of label to share
        The quotas r_i in [0, 1]: fractions, texts (``"1/3"``, ``"0.05"``), integers, or floats,
        which are read as their shortest decimal representation (0.05 is 1/20). A single share
        applies to every arm; arms that a mapping leaves out have share 0. Their sum is at most
        `plays`.
    unfairness_tolerance : int
        Number of pulls by which an arm may be behind its quota (alpha); 0 is the strict form.
    reward_range : (float, float)
        The range of all rewards.
    groups : mapping, optional
        Quotas of disjoint groups of arms: label to ``(share, members)``, or to
        ``{"share": ..., "members": [...]}``. The members' own shares must not exceed the
        group's, and all shares together must stay below 1.
    plays : int
        Number of different arms pulled in each round: `plays` successive asks make a round.

    Raises
    ------
    InvalidArgument
        If an argument is not acceptable, or no schedule could meet the shares.

    Warns
    -----
    UserWarning
        If the shares take every pull, so that arms without a share will never be pulled.

    Notes
    -----
    Source: Patil, Ghalme, Nair, Narahari, "Achieving Fairness in the Stochastic Multi-armed
    Bandit Problem" (2019), definition 1. The tolerance is an integer, because for a fraction such
    as 0.5 their theorem 1 only gives the next larger integer.

    Examples
    --------
    >>> problem = Problem(["a", "b", "c"], ["1/5", 0.3, "1/4"])
    >>> problem.shares
    (Fraction(1, 5), Fraction(3, 10), Fraction(1, 4))
    >>> problem.denominator, problem.quotas
    (20, (4, 6, 5))
    >>> Problem.from_dict(problem.to_dict()) == problem
    True
    """

    family = "allocation"
    reward_range: tuple[float, float]
    default_policy = "FairLearn"

    def __init__(
        self,
        arms: Sequence[str] | int,
        shares: Share | Sequence[Share] | Mapping[str, Share],
        unfairness_tolerance: int = 0,
        reward_range: tuple[float, float] = (0.0, 1.0),
        groups: Mapping[str, Any] | None = None,
        plays: int = 1,
    ) -> None:
        self.arms = check_labels("arms", arms)
        check_size("arms", "actions", len(self.arms))
        self.shares = as_shares(self.arms, shares)
        self.unfairness_tolerance = _given_tolerance(unfairness_tolerance)
        self.reward_range = _given_range(reward_range)
        self.plays = check_integer("plays", plays, low=1)
        if self.plays > len(self.arms):
            raise InvalidArgument("plays", f"must be at most the {len(self.arms)} arms", plays)
        # Checked first, because summing shares with many different denominators would be slow.
        self._check_denominator(self.shares)
        self.groups = None if groups is None else self._given_groups(groups)
        grouped = (share for share, _ in (self.groups or {}).values())
        self._check_denominator((*self.shares, *grouped))
        self._check_sum()
        self._freeze()

    # --------------------------------------------------------------------- checks

    def _given_groups(self, groups: Mapping[str, Any]) -> dict[str, Group]:
        if self.plays > 1:
            raise InvalidArgument("groups", "must be left out when plays is more than 1", groups)
        found = {label: self._given_group(label, value) for label, value in as_groups(groups)}
        seen: set[str] = set()
        for label, (_, members) in found.items():
            if seen & set(members):
                raise InvalidArgument(
                    f"groups[{label}]",
                    "must share no arm with another group (cover_groups turns groups that "
                    "overlap into shares of the arms)",
                    members,
                )
            seen |= set(members)
        return found

    def _given_group(self, label: str, value: Any) -> Group:
        share, members = as_group(self.arms, label, value)
        inside = sum((self._share_of[arm] for arm in members), Fraction(0))
        if inside > share:
            raise InvalidArgument(
                f"groups[{label}].share",
                f"must be at least its members' shares together, {inside}",
                share,
            )
        return share, members

    def _check_sum(self) -> None:
        total = self.total_share
        if total > self.plays:
            bound = "1" if self.plays == 1 else f"plays = {self.plays}"
            raise InvalidArgument(
                "shares",
                f"sum to {total} > {bound}; no schedule can meet them",
                [str(share) for share in self.shares],
            )
        if total == self.plays and 0 in self.shares and not self.groups:
            idle = [arm for arm, share in zip(self.arms, self.shares, strict=True) if not share]
            warn_caller(
                "the shares take every pull: without a share "
                f"{', '.join(map(repr, idle))} will never be pulled",
            )
        if self.groups and total == 1:
            raise InvalidArgument(
                "groups",
                "must leave some pulls free: the shares of the groups and of the arms outside "
                "them sum to 1, and no rule can keep them for every choice of the free pulls",
                self.groups,
            )

    def _check_denominator(self, exact: Iterable[Fraction]) -> None:
        common = 1
        for denominator in {share.denominator for share in exact}:
            common = math.lcm(common, denominator)
            if common > _HOPELESS_DENOMINATOR:
                break
        if common > MAX_DENOMINATOR:
            raise InvalidArgument(
                "shares",
                f"need a common denominator of {_readable(common)} > {MAX_DENOMINATOR}; "
                "write a third as '1/3', or let round_shares(shares) round them downwards",
                [str(share) for share in self.shares[:_READABLE_SHARES]],
            )

    # -------------------------------------------------------------------- meaning

    @property
    def guaranteed_shares(self) -> Sequence[Fraction]:
        """The share of the rounds that each arm is guaranteed."""
        return self.shares

    def in_words(self) -> Mapping[str, str]:
        """Return a description of the problem, by topic."""
        shares = zip(self.arms, self.shares, strict=True)
        return {
            "Question": "Which arm for each visitor, so that rewards are large and every arm "
            "always has its share?",
            "Guaranteed shares": listed(
                [
                    *(f"{arm} {float(share):.1%}" for arm, share in shares),
                    *(
                        f"{label} ({listed(list(members))} together) {float(share):.1%}"
                        for label, (share, members) in (self.groups or {}).items()
                    ),
                ]
            ),
            "Rewards": rewards_in_words(self.reward_range, None),
        }

    @cached_property
    def _share_of(self) -> dict[str, Fraction]:
        return dict(zip(self.arms, self.shares, strict=True))

    @cached_property
    def action_labels(self) -> tuple[dict[str, str], ...]:
        """The label of every arm."""
        return tuple({"arm": arm} for arm in self.arms)

    @cached_property
    def denominator(self) -> int:
        """The common denominator q of all shares."""
        grouped = [share for share, _ in (self.groups or {}).values()]
        return math.lcm(*{share.denominator for share in (*self.shares, *grouped)})

    @cached_property
    def quotas(self) -> tuple[int, ...]:
        """The numerators p_i of the shares over the common denominator."""
        return tuple(int(share * self.denominator) for share in self.shares)

    @cached_property
    def total_share(self) -> Fraction:
        """The sum of the shares; a group's share includes those of its members."""
        groups = (self.groups or {}).values()
        grouped = {arm for _, members in groups for arm in members}
        alone = (
            share for arm, share in zip(self.arms, self.shares, strict=True) if arm not in grouped
        )
        return sum(alone, Fraction(0)) + sum((share for share, _ in groups), Fraction(0))

    @property
    def is_exhausted(self) -> bool:
        """Whether the shares take every pull, so that arms without a share are never served."""
        return self.total_share == self.plays

    def check_outcome(self, outcome: Any, name: str = "reward") -> float:
        """Return the reward as a float; it must be finite and inside the range."""
        reward: float = super().check_outcome(outcome, name)
        low, high = self.reward_range
        if not low <= reward <= high:
            raise InvalidOutcome(name, f"must be in [{low:g}, {high:g}]", outcome)
        return reward


def as_share(name: str, value: object) -> Fraction:
    """Return a share as an exact fraction, as it is written.

    Examples
    --------
    >>> as_share("share", 0.07)
    Fraction(7, 100)
    """
    accepted = "must be in [0, 1]: a fraction, a text such as '1/3', an integer or a float"
    share = as_exact(name, value, accepted)
    if not 0 <= share <= 1:
        raise InvalidArgument(name, accepted, value)
    return share


def as_shares(arms: Sequence[str], shares: Any) -> tuple[Fraction, ...]:
    """Return a share for every arm, given one for all, one for each in order, or by label."""
    if isinstance(shares, Mapping):
        return _shares_by_label(arms, shares)
    if isinstance(shares, Fraction | str | int | float | np.number):
        return (as_share("shares", shares),) * len(arms)
    if not isinstance(shares, Sequence | np.ndarray) or len(shares) != len(arms):
        raise InvalidArgument("shares", f"must be {len(arms)} shares, one for each arm", shares)
    return tuple(as_share(f"shares[{i}]", share) for i, share in enumerate(shares))


def _shares_by_label(arms: Sequence[str], shares: Mapping[str, Any]) -> tuple[Fraction, ...]:
    given = {str(arm): as_share(f"shares[{arm}]", share) for arm, share in shares.items()}
    unknown = sorted(set(given) - set(arms))
    if unknown:
        raise InvalidArgument("shares", f"must name arms of {list(arms)}", unknown)
    return tuple(given.get(arm, Fraction(0)) for arm in arms)


def as_groups(groups: object) -> list[tuple[str, Any]]:
    """Return each group's label with its given value."""
    if not isinstance(groups, Mapping):
        raise InvalidArgument("groups", "must be a mapping of label to (share, members)", groups)
    return [(str(label), value) for label, value in groups.items()]


def as_group(arms: Sequence[str], label: str, value: Any) -> Group:
    """Return the share of a group of arms, and the labels of its members."""
    name = f"groups[{label}]"
    try:
        share, members = (value["share"], value["members"]) if isinstance(value, Mapping) else value
    except (KeyError, TypeError, ValueError):
        raise InvalidArgument(name, "must be (share, members)", value) from None
    own = as_share(f"{name}.share", share)
    labels = check_labels(f"{name}.members", members)
    unknown = sorted(set(labels) - set(arms))
    if unknown:
        raise InvalidArgument(f"{name}.members", f"must be arms of {list(arms)}", unknown)
    return own, labels


@named_arguments
def round_shares(
    shares: Iterable[Share], denominator: int = MAX_DENOMINATOR
) -> tuple[Fraction, ...]:
    """Return shares rounded down to multiples of ``1 / denominator``.

    Parameters
    ----------
    shares : iterable of share
        In any form that `Problem` accepts.
    denominator : int
        The common denominator.

    Returns
    -------
    tuple of Fraction
        Each is less than ``1 / denominator`` below the given share.

    Examples
    --------
    >>> round_shares(["1/3", "1/7"], denominator=100)
    (Fraction(33, 100), Fraction(7, 50))
    """
    size = check_integer("denominator", denominator, low=1)
    if size > MAX_DENOMINATOR:
        raise InvalidArgument("denominator", f"must be at most {MAX_DENOMINATOR}", denominator)
    if isinstance(shares, str | Mapping) or not isinstance(shares, Iterable):
        raise InvalidArgument("shares", "must be a list of shares, one for each arm", shares)
    exact = (as_share(f"shares[{i}]", share) for i, share in enumerate(shares))
    return tuple(Fraction(math.floor(share * size), size) for share in exact)


def _given_range(value: object) -> tuple[float, float]:
    low, high = check_range("reward_range", value)
    if max(-low, high) > _LARGEST_REWARD or high - low < 1 / _LARGEST_REWARD:
        accepted = (
            f"must be two numbers from {-_LARGEST_REWARD:g} to {_LARGEST_REWARD:g} that are "
            f"{1 / _LARGEST_REWARD:g} apart or more: state rewards in another unit"
        )
        raise InvalidArgument("reward_range", accepted, value)
    return low, high


def _given_tolerance(value: object) -> int:
    return check_exact_integer("unfairness_tolerance", value, low=0)


def _readable(number: int) -> str:
    digits = str(number)
    return digits if len(digits) <= _READABLE_DIGITS else f"about 10^{len(digits) - 1}"
