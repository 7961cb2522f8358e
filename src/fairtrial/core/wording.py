"""Numbers and nouns in the form in which people write them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from reprlib import Repr

import numpy as np
from numpy.typing import ArrayLike

__all__ = [
    "IGNORES_PREDICTIONS",
    "MANY_WAIT",
    "abridged",
    "beside_in_words",
    "best_of",
    "choices",
    "is_best",
    "listed",
    "or_within",
    "plural",
    "rewards_in_words",
    "said_of_awaited",
    "said_of_lost_pulls",
    "said_of_never_made",
    "said_of_open_pulls",
    "said_of_rows",
    "said_of_standstill",
]

_ARMS_NAMED = 10
"""How many arms that lose pulls are named."""

IGNORES_PREDICTIONS = "it ignores predictions: rules that use them can need less"
"""What a lower bound says of itself if it is computed without what predictions explain."""

_LONGEST = 300
_ABRIDGED = Repr()
_ABRIDGED.maxother = _LONGEST
_LISTED = 12
_CLOSE = 3

MANY_WAIT = 100
"""Waiting results of later blocks that are worth a warning."""


def plural(number: float, noun: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> plural(1, "pull"), plural(2000, "pull")
    ('1 pull', '2,000 pulls')
    """
    count = f"{number:,.0f}"
    return f"{count} {noun}" if count == "1" else f"{count} {noun}s"


def said_of_standstill(waiting: int, lacking: Mapping[str, int]) -> tuple[str, ...]:
    """Return a warning if many results of later blocks wait for those of an earlier one.

    Parameters
    ----------
    waiting : int
        Number of results of later blocks.
    lacking : mapping of str to int
        The number of missing results of the earlier block, by what was pulled.

    Examples
    --------
    >>> said_of_standstill(20, {"a": 1})
    ()
    >>> print(*said_of_standstill(MANY_WAIT, {"a": 1, "b": 2}))
    100 results count only after 3 results of an earlier block, of a (1), b (2): tell them, or fail
    those that will not come
    """
    if waiting < MANY_WAIT:
        return ()
    missing = plural(sum(lacking.values()), "result")
    names = listed([f"{name} ({number})" for name, number in lacking.items()])
    said = f"{waiting:,} results count only after {missing} of an earlier block, of {names}"
    return (f"{said}: tell them, or fail those that will not come",)


def said_of_awaited(names: Sequence[str], *, by_all: bool = False) -> tuple[str, ...]:
    """Return a warning if there is no result of some arms, and nothing bounds their rewards.

    Parameters
    ----------
    names : sequence of str
        What has given no result.
    by_all : bool, optional
        Whether all comparisons wait for these results, instead of those with the arms only.

    Examples
    --------
    >>> said_of_awaited([])
    ()
    >>> for said in said_of_awaited(["b / x", "b / y"]):
    ...     print(*said.split(": "), sep=chr(10))
    no result of b / x, b / y has come
    such an arm can be neither the answer nor ruled out; find out why, or close it
    >>> print(*said_of_awaited(["b"], by_all=True))
    no result of b has come: nothing can be compared before one does
    """
    if not names:
        return ()
    known = "such an arm can be neither the answer nor ruled out; find out why, or close it"
    if by_all:
        known = "nothing can be compared before one does"
    return (f"no result of {listed(names)} has come: {known}",)


def said_of_open_pulls(number: int) -> tuple[str, ...]:
    """Return what a reader must know about open pulls that count as their worst.

    Examples
    --------
    >>> said_of_open_pulls(0)
    ()
    >>> print(*said_of_open_pulls(1))
    1 open pull counts as its worst until its result comes
    >>> print(*said_of_open_pulls(3))
    3 open pulls count as their worst until their results come
    """
    if not number:
        return ()
    known = "counts as its worst until its result comes"
    if number > 1:
        known = "count as their worst until their results come"
    return (f"{plural(number, 'open pull')} {known}",)


def said_of_lost_pulls(lost: Mapping[str, int], arms: int) -> tuple[str, ...]:
    """Return which of so many arms have lost how many pulls, from the most.

    Examples
    --------
    >>> said_of_lost_pulls({}, 3)
    ()
    >>> print(*said_of_lost_pulls({"B": 2, "A": 1_040}, 3))
    lost pulls by arm: A 1,040, B 2; no other arm has lost any
    >>> print(*said_of_lost_pulls({"A": 4, "B": 3}, 2))
    lost pulls by arm: A 4, B 3
    """
    if not lost:
        return ()
    ordered = sorted(lost.items(), key=lambda one: -one[1])
    named = ", ".join(f"{arm} {number:,}" for arm, number in ordered[:_ARMS_NAMED])
    if len(ordered) > _ARMS_NAMED:
        return (f"lost pulls by arm, from the most: {named}, ...",)
    rest = "; no other arm has lost any" if len(lost) < arms else ""
    return (f"lost pulls by arm: {named}{rest}",)


def said_of_never_made(
    number: int, closed: Mapping[str, int] | None = None, *, have_worst: bool = True
) -> tuple[str, ...]:
    """Return what a reader must know about planned pulls that are not made.

    Parameters
    ----------
    number : int
        Planned pulls that nobody came for, and failed ones to make again.
    closed : mapping of str to int, optional
        Planned pulls of each closed arm and group.
    have_worst : bool, optional
        Whether they count as their worst; with a known noise they are left out.

    Examples
    --------
    >>> said_of_never_made(0)
    ()
    >>> print(*said_of_never_made(2, {"arm D": 1}), sep=chr(10))
    2 planned pulls count as their worst because nobody has made them
    1 planned pull of the closed arm D is not made, and counts as its worst
    >>> print(*said_of_never_made(0, {"arm D": 2}, have_worst=False))
    2 planned pulls of the closed arm D are not made
    """
    found = []
    if number:
        known = "counts as its worst because nobody has made it"
        if number > 1:
            known = "count as their worst because nobody has made them"
        found.append(f"{plural(number, 'planned pull')} {known}")
    for name, own in (closed or {}).items():
        known, worst = "is not made", ", and counts as its worst"
        if own > 1:
            known, worst = "are not made", ", and count as their worst"
        known += worst if have_worst else ""
        found.append(f"{plural(own, 'planned pull')} of the closed {name} {known}")
    return tuple(found)


def said_of_replacements(number: int) -> str:
    """Return that no more lost pulls are made again, because this many are allowed.

    Examples
    --------
    >>> said_of_replacements(20)
    'the limit of 20 replacements is reached: further lost pulls count as their worst'
    """
    limit = f"the limit of {plural(number, 'replacement')} is reached"
    return f"{limit}: further lost pulls count as their worst"


NOT_ASKED_FOR = "not asked for by the study"
"""Why unsolicited results never count for a decision."""


def said_of_closed_control(control: str) -> str:
    """Return what a reader must know about differences from a control that people have closed.

    Examples
    --------
    >>> said_of_closed_control("placebo").partition(":")[0]
    'the control placebo is closed'
    """
    return (
        f"the control {control} is closed: intervals of differences from it use only the blocks in "
        "which it was asked for, and get no narrower; estimates also count later results of the "
        "other arms, which have no control at the same time"
    )


def said_of_closed_groups(groups: Sequence[str]) -> str:
    """Return what a reader must know about evidence once people have closed groups.

    Examples
    --------
    >>> said_of_closed_groups(["old"]).partition(":")[0]
    'group old is closed'
    """
    are = f"group {groups[0]} is" if len(groups) == 1 else f"groups {listed(groups)} are"
    return (
        f"{are} closed: the answer is about all groups, and bets need results of all of them; so "
        "most results of people who come now count in no bet, and the study may never decide. To "
        "ask about the other groups, stop it and begin a new study with them"
    )


def said_at_ask_of_closed_groups(groups: Sequence[str]) -> str:
    """Return in one line what whoever asks for a pull must know once people have closed groups.

    Examples
    --------
    >>> said_at_ask_of_closed_groups(["old"]).partition(":")[0]
    'group old is closed'
    """
    are = f"group {groups[0]} is" if len(groups) == 1 else f"groups {listed(groups)} are"
    return (
        f"{are} closed: this study can hardly decide any more, and results of new people are only "
        "recorded, nearly all without counting; ask who is in charge whether to stop it"
    )


def said_of_rows(rows: str) -> str:
    """Return what a reader must know about runs that draw recorded rows.

    Examples
    --------
    >>> said_of_rows(plural(11, "row"))
    'About 11 rows, sampled repeatedly: their means count as the truth in these runs.'
    """
    return f"About {rows}, sampled repeatedly: their means count as the truth in these runs."


def choices(accepted: Iterable[object], given: object = None) -> str:
    """Return the possible choices: all, or if there are many those that resemble the given one.

    Examples
    --------
    >>> choices(["a", "b"])
    "['a', 'b']"
    >>> choices((f"arm {number}" for number in range(1000)), "arm7")
    "['arm 7', 'arm 97', 'arm 87', ...], 1,000 in all"
    """
    names = list(dict.fromkeys(map(str, accepted)))
    if len(names) <= _LISTED:
        return str(names)
    close = get_close_matches(str(given)[:_LONGEST], names, n=_CLOSE) or names[:_CLOSE]
    return f"[{', '.join(map(repr, close))}, ...], {len(names):,} in all"


def listed(names: Sequence[str]) -> str:
    """Return names separated by commas; only the first ones if there are many.

    Examples
    --------
    >>> listed(["a", "b"])
    'a, b'
    >>> listed([str(number) for number in range(1000)])
    '0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, and 988 more'
    """
    shown, more = ", ".join(names[:_LISTED]), len(names) - _LISTED
    return f"{shown}, and {more} more" if more > 0 else shown


def beside_in_words(kind: str, bound: float, control: str, written: Callable[[float], str]) -> str:
    """Return a limit on the difference from a control in words.

    Examples
    --------
    >>> beside_in_words("ceiling", 20.0, "now", "{:g}".format)
    'at most 20 above now'
    >>> beside_in_words("floor", 0.5, "now", "{:g}".format)
    'at least 0.5 above now'
    >>> beside_in_words("floor", 0.0, "now", "{:g}".format)
    'not below now'
    """
    if bound == 0.0:
        return f"not {'below' if kind == 'floor' else 'above'} {control}"
    size = "at least" if (kind == "floor") == (bound > 0.0) else "at most"
    return f"{size} {written(abs(bound))} {'above' if bound > 0.0 else 'below'} {control}"


def best_of(names: Sequence[str], direction: str, top: int = 1) -> str:
    """Return the beginning of a question: which of some arms has the best mean.

    Examples
    --------
    >>> best_of(["a", "b"], "maximize")
    'Which of a, b has the largest mean'
    >>> best_of([str(number) for number in range(40)], "minimize", top=3)
    'Which 3 of the 40 from 0 to 39 have the smallest means'
    """
    size = "largest" if direction == "maximize" else "smallest"
    which = f"of {', '.join(names)}"
    if len(names) > _LISTED:
        which = f"of the {len(names):,} from {names[0]} to {names[-1]}"
    if top > 1:
        return f"Which {top} {which} have the {size} means"
    return f"Which {which} has the {size} mean"


def rewards_in_words(
    reward_range: tuple[float, float] | None, noise_std: ArrayLike | None, what: str = "A reward"
) -> str:
    """Return in words what is known about single rewards.

    Examples
    --------
    >>> rewards_in_words((0, 1200), None)
    'A reward lies between 0 and 1,200'
    >>> rewards_in_words(None, 2.0, "An outcome")
    'An outcome has a standard deviation of 2'
    """
    if reward_range is not None:
        low, high = reward_range
        return f"{what} lies between {low:,.12g} and {high:,.12g}"
    if isinstance(noise_std, str):
        return f"{what} has a standard deviation that is estimated from the data"
    stds = set(np.asarray(noise_std, dtype=np.float64).ravel().tolist())
    if len(stds) == 1:
        return f"{what} has a standard deviation of {stds.pop():,g}"
    return f"{what} has a standard deviation between {min(stds):,g} and {max(stds):,g}, as stated"


def or_within(margin: float, of: str = "it") -> str:
    """Return in words how far below `of` an acceptable answer may be; empty for a margin of 0.

    Examples
    --------
    >>> "'a' is the best" + or_within(0.01), "'a' is the best" + or_within(0.0)
    ("'a' is the best, or within 0.01 of it", "'a' is the best")
    """
    return f", or within {margin:g} of {of}" if margin else ""


def is_best(label: str | Sequence[str], tolerance: float) -> str:
    """Return in words that one label is the best, or several are, within the tolerance.

    Examples
    --------
    >>> is_best("a", 0.01), is_best(("a", "b"), 0.0)
    ("'a' is the best, or within 0.01 of it", "'a', 'b' are the best 2")
    """
    names = (label,) if isinstance(label, str) else label
    one = len(names) == 1
    best = "is the best" if one else f"are the best {len(names)}"
    near = or_within(tolerance, "it" if one else "them")
    return f"{', '.join(map(repr, names))} {best}{near}"


def abridged(value: object) -> str:
    """Return the repr of a value, shortened if it is long.

    Examples
    --------
    >>> abridged({"a": 0.5}), abridged(list(range(2000)))
    ("{'a': 0.5}", '[0, 1, 2, 3, 4, 5, ...]')
    """
    try:
        text = repr(value)
        return text if len(text) <= _LONGEST else _ABRIDGED.repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, endless nesting
        return f"an object of type {type(value).__name__} that is too long to be shown"
