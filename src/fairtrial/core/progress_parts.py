"""The typed parts of a policy's progress, beyond estimates: answers, limits, losses, shares.

A policy fills those that it has; tables, figures, pages and clients show whatever is there.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypedDict

from fairtrial.core.parameters import plain

__all__ = [
    "AnswerStatus",
    "ArmStatus",
    "GroupPredictions",
    "Losses",
    "MeasureLimit",
    "MeasureValues",
    "Parts",
    "Predictions",
    "ShareOfPulls",
    "ValueLimit",
]


class _Part:
    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON's own types."""
        found: dict[str, Any] = plain(asdict(self))  # type: ignore[call-overload]
        return found


@dataclass(frozen=True, slots=True)
class AnswerStatus(_Part):
    """A possible answer of a rule that tests answers one by one.

    Parameters
    ----------
    answer : object
        Its label; None for "no acceptable arm".
    rejected : bool
        Whether it is ruled out.
    accepted : bool
        Whether it is accepted as the answer, or as a part of it.
    log_wealth : float or None
        The logarithm of the e-value against it, if the rule bets.
    worse_than : tuple of str
        Arms that were declared better, if the rule compares pairs.

    Examples
    --------
    >>> AnswerStatus("a", rejected=True).to_dict()["accepted"]
    False
    """

    answer: Any
    rejected: bool
    accepted: bool = False
    log_wealth: float | None = None
    worse_than: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MeasureLimit(_Part):
    """A limit on the mean of a measure of an arm, if a pull gives several measures.

    Parameters
    ----------
    arm, measure : str
        The arm, and the limited measure, or the objective in words.
    group : str or None
        The group; None if the limit is on the mean over all groups.
    kind : {"floor", "ceiling"}
        Whether it is a lower or an upper limit.
    bound : float
        The limit.
    estimate, lower, upper : float or None
        The mean and the ends of its interval, as in `Progress.actions`.
    log_evidence : float or None
        The logarithm of the e-value against "the limit is missed"; 0 before the first bet.
    met_by_bets : bool
        Whether this evidence alone is enough to say that the limit is met. It never is when the
        guarantee no longer holds. The interval alone can be enough as well: the page and the
        terminal call a limit met by either.
    control : str or None
        The arm that the limit refers to. Bound and estimate are then differences from its mean.
    needed : float or None
        The log evidence that is enough; None if unknown.

    Examples
    --------
    >>> MeasureLimit("high", "harmed", None, "ceiling", 0.3, estimate=0.2).met_by_bets
    False
    """

    arm: str
    measure: str
    group: str | None
    kind: Literal["floor", "ceiling"]
    bound: float
    estimate: float | None = None
    lower: float | None = None
    upper: float | None = None
    log_evidence: float | None = None
    met_by_bets: bool = False
    control: str | None = None
    needed: float | None = None


@dataclass(frozen=True, slots=True)
class ValueLimit(_Part):
    """A limit on the size of something other than a mean.

    Parameters
    ----------
    arm, kind, of : str
        The arm, the kind of value, and what it belongs to, in words.
    bound : float
        What the absolute value must stay below.
    value : float or None
        The estimate; None if nothing is known.
    log_wealth : float or None
        The logarithm of the e-value against "the limit is missed"; None if nothing was bet.
    certain : bool
        Whether the limit cannot be missed.

    Examples
    --------
    >>> ValueLimit("a", "counterfactual gap", "1 instead of 0", 0.1, value=0.02).certain
    False
    """

    arm: str
    kind: str
    of: str
    bound: float
    value: float | None = None
    log_wealth: float | None = None
    certain: bool = False


@dataclass(frozen=True, slots=True)
class MeasureValues(_Part):
    """How many values of a measure of an action are known, and how many never will be.

    A value of an open pull that was told early is known; one that is not is neither.

    Parameters
    ----------
    arm, group, measure : str
        Whose values they are.
    values : int
        Number of known values.
    missing : int
        Number of values that will never be known.
    mean : float or None
        The mean, as in `Progress.actions`.

    Examples
    --------
    >>> MeasureValues("high", "all", "harmed", values=8, missing=2).mean is None
    True
    """

    arm: str
    group: str
    measure: str
    values: int
    missing: int
    mean: float | None = None


@dataclass(frozen=True, slots=True)
class Losses(_Part):
    """What lost results count as, and how many pulls are lost at the moment.

    Every lost pull is in exactly one of the numbers, so they add up to `pulls`.

    Parameters
    ----------
    counted_as : str
        ``"the worst value"``, ``"made again"`` or ``"not drawn"``.
    share : float
        The share of lost pulls in settled blocks.
    too_many_to_decide : bool
        Whether at this share more results cannot decide.
    made_again, to_make_again : int
        Lost pulls in whose place another one was asked for, or is to be.
    as_worst : int
        Those that count as their worst.
    partly : int
        Those that count with the values that they gave before they were lost.
    in_no_bet : int
        Those that no bet uses and nothing replaces.
    limit_reached : int or None
        The most replacements, once no lost pull is made again any more; None before.

    Examples
    --------
    >>> Losses("made again", 0.1, made_again=10, as_worst=20, in_no_bet=12).pulls
    42
    """

    counted_as: str
    share: float = 0.0
    too_many_to_decide: bool = False
    made_again: int = 0
    to_make_again: int = 0
    as_worst: int = 0
    partly: int = 0
    in_no_bet: int = 0
    limit_reached: int | None = None

    @property
    def pulls(self) -> int:
        """The number of lost pulls."""
        return self.made_again + self.to_make_again + self.as_worst + self.partly + self.in_no_bet


@dataclass(frozen=True, slots=True)
class GroupPredictions(_Part):
    """What predictions of the units of a group explain so far.

    Parameters
    ----------
    group : str
        The group.
    slope : float
        The slope of the reward on the prediction that bets of the next block use.
    mean : float
        The mean prediction.
    r_squared : float
        The share of the variance of rewards, within arms, that this slope explains; negative if the
        slope is stated and makes the variance larger.
    measure : str or None
        The measure that is predicted; None if a pull gives one reward.

    Examples
    --------
    >>> GroupPredictions("x", slope=0.8, mean=0.5, r_squared=0.3).to_dict()["r_squared"]
    0.3
    """

    group: str
    slope: float
    mean: float
    r_squared: float
    measure: str | None = None


@dataclass(frozen=True, slots=True)
class Predictions(_Part):
    """What predictions that are known before the arm did so far.

    Parameters
    ----------
    groups : tuple of GroupPredictions
        What they explain, by group; with several measures by measure and group.
    variance_left : float
        The variance of an adjusted overall difference between two arms, as a part of that of the
        plain difference: the part of the results that it needs.
    missing, cut : float
        The share of pulls without a prediction, and of predictions that were cut to the range.
    e_value : float
        The evidence that predictions depend on the arm: at least x with probability at most 1/x,
        ever, if they do not.
    alarm : float
        The e-value from which this is warned of.

    Examples
    --------
    >>> found = Predictions((), variance_left=0.7, e_value=1.2, alarm=100.0)
    >>> found.depend_on_arm
    False
    """

    groups: tuple[GroupPredictions, ...]
    variance_left: float
    e_value: float
    alarm: float
    missing: float = 0.0
    cut: float = 0.0

    @property
    def depend_on_arm(self) -> bool:
        """Whether predictions differ between arms by more than chance."""
        return self.e_value >= self.alarm

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON's own types, and whether predictions depend on the arm."""
        groups = [one.to_dict() for one in self.groups]
        found: dict[str, Any] = plain(asdict(self))
        return {**found, "groups": groups, "depend_on_arm": self.depend_on_arm}


@dataclass(frozen=True, slots=True)
class ShareOfPulls(_Part):
    """A share of the pulls that is guaranteed to an arm, or to a group of arms together.

    Parameters
    ----------
    label : str
        The arm or the group.
    pulls : int
        Its pulls.
    share, guaranteed : float
        Its share of the rounds, and the guaranteed one.
    behind : float or None
        Pulls that it is owed and has not had; negative if it is ahead.
    joint : bool
        Whether it is a group of arms.

    Examples
    --------
    >>> ShareOfPulls("a", 30, 0.3, 0.25, behind=-5.0).joint
    False
    """

    label: str
    pulls: int
    share: float
    guaranteed: float
    behind: float | None = None
    joint: bool = False


@dataclass(frozen=True, slots=True)
class ArmStatus(_Part):
    """What a race has decided about an arm.

    Parameters
    ----------
    arm : str
        The arm.
    status : str
        ``"undecided"``, ``"accepted"`` or ``"rejected"``; in a paired race also ``"set aside"``
        (too close to the leader to matter), ``"waiting"`` (out once the leader is known to keep its
        limits) and ``"withdrawn"`` (a pull of it failed).
    compared : int or None
        In a paired race, the number of blocks on which it was compared with the leader.
    behind : float or None
        How much better the leader is on average on these blocks.
    differ : int or None
        On how many of them the two have different results.

    Examples
    --------
    >>> ArmStatus("a", "rejected", compared=40, behind=0.2, differ=18).to_dict()["behind"]
    0.2
    """

    arm: str
    status: str
    compared: int | None = None
    behind: float | None = None
    differ: int | None = None


class Parts(TypedDict, total=False):
    """The parts of a progress that only some policies have; see `Progress`."""

    answers: tuple[AnswerStatus, ...]
    measure_limits: tuple[MeasureLimit, ...]
    value_limits: tuple[ValueLimit, ...]
    measures: tuple[MeasureValues, ...]
    losses: Losses | None
    predictions: Predictions | None
    shares: tuple[ShareOfPulls, ...]
    largest_shortfall: float | None
    arm_states: tuple[ArmStatus, ...]
    readings: int | None
    live: tuple[str, ...] | None
    chance_to_decide: float | None
