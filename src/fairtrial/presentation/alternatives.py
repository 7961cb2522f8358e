"""The evidence against each possible answer, taken from a policy's progress."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairtrial.core.recommendation import Progress
from fairtrial.presentation.limits import finite
from fairtrial.presentation.sources import answered
from fairtrial.presentation.words import (
    chance_in_words,
    count,
    ended,
    forecast_of,
    joined,
    label_of,
    listed,
    number,
    out_of_sight,
    percent,
    plural,
    shorten,
)

__all__ = [
    "Alternative",
    "alternatives",
    "candidates_sentence",
    "e_value",
    "evidence_level",
    "evidence_so_far",
    "explanation",
    "needed",
    "ruled_out",
    "ruling",
    "rulings",
    "still_missing",
    "strength",
    "summary",
    "tally",
    "when_ruled_out",
]

_DIGITS = 3
_SHORT = 24
_NAMED = 3
_LISTED = 8
_LARGEST = 700.0
"""Exponentials of larger numbers overflow."""
_LARGEST_WRITTEN_OUT = math.log(1e6)


@dataclass(frozen=True, slots=True)
class Alternative:
    """A possible answer and its standing.

    Parameters
    ----------
    answer : str
        Its label; "no arm" if the answer is that no arm is acceptable.
    rejected, accepted : bool
        Whether it is ruled out, or accepted as the answer or part of it; both false while open.
    log_wealth : float or None
        The logarithm of the e-value against it, if the policy bets.
    worse_than : tuple of str
        Arms that were declared better, if the policy compares pairs.
    """

    answer: str
    rejected: bool
    accepted: bool = False
    log_wealth: float | None = None
    worse_than: tuple[str, ...] = ()


def alternatives(progress: Progress) -> list[Alternative]:
    """Return all possible answers, if the policy judges them one by one; otherwise none.

    "No arm" is left out if it was never possible, because no arm has a limit.
    """
    best = _best(progress) if progress.recommendation.decided else frozenset()
    weighed = any(one.log_wealth is not None for one in progress.answers)
    found = []
    for one in progress.answers:
        if weighed and one.answer is None and one.rejected and one.log_wealth is None:
            continue
        answer = _name(one.answer)
        accepted = not one.rejected and (answer in best or one.accepted)
        wealth, better = finite(one.log_wealth), one.worse_than
        found.append(Alternative(answer, one.rejected, accepted, wealth, better))
    return found


def _best(progress: Progress) -> frozenset[str]:
    return answered(progress.recommendation) or frozenset([_name(None)])


def _name(answer: object) -> str:
    """Return the label of an answer, by which its arm can be found."""
    return label_of(None) if answer is None else str(answer)


def ruled_out(progress: Progress) -> frozenset[str]:
    """Return the answers that are ruled out."""
    return frozenset(one.answer for one in alternatives(progress) if one.rejected)


def rulings(trace: Sequence[Progress]) -> dict[str, str]:
    """Return for each answer that is ruled out how many results had counted at the first moment.

    Results that wait for earlier ones, or belong to no bet, are not counted.

    Examples
    --------
    >>> from fairtrial.core.recommendation import AnswerStatus, Recommendation
    >>> out = (AnswerStatus("b", True),)
    >>> rulings([Progress(Recommendation(None, "running"), 90, 87, 3, settled=52, answers=out)])
    {'b': 'once 52 results counted'}
    >>> rulings([Progress(Recommendation(None, "running"), 90, 87, 3, answers=out)])
    {'b': 'by result 87'}
    """
    found: dict[str, str] = {}
    for moment in trace:
        counted, told = moment.settled, moment.told
        said = f"by result {count(told)}"
        if counted is not None:
            said = f"once {plural(counted, 'result')} counted"
        if not (told if counted is None else counted):
            said = "from the start"
        for answer in ruled_out(moment):
            found.setdefault(answer, said)
    return found


def when_ruled_out(trace: Sequence[Progress]) -> dict[str, int]:
    """Return for each answer the number of results at the first moment when it is ruled out."""
    found: dict[str, int] = {}
    for moment in trace:
        for answer in ruled_out(moment):
            found.setdefault(answer, moment.told)
    return found


def needed(progress: Progress) -> float | None:
    """Return the logarithm of the e-value that rules an answer out; None if there is none."""
    weighed = any(one.log_wealth is not None for one in alternatives(progress))
    return finite(progress.threshold) if weighed else None


def evidence_level(progress: Progress) -> float | None:
    """Return the logarithm of the e-value that decides; None if the policy uses no e-values."""
    return finite(progress.threshold) if progress.evidence_scale == "log_e_value" else None


def evidence_so_far(progress: Progress) -> str:
    """Return in words the evidence for the leader compared with what a decision needs.

    Empty if the policy reports none.
    """
    gained, wanted = finite(progress.evidence), finite(progress.threshold)
    if gained is None or wanted is None:
        return ""
    if evidence_level(progress) is not None:
        return f"{strength(min(gained, wanted))} of {strength(wanted)}"
    return f"{number(max(0.0, gained), _DIGITS)} of {number(wanted, _DIGITS)}"


def still_missing(progress: Progress) -> list[str]:
    """Return sentences about what a running study still needs before it can decide.

    Examples
    --------
    >>> from fairtrial.core.recommendation import Recommendation
    >>> running = Recommendation(None, "running", leader="b")
    >>> still_missing(Progress(running, 40, 40, 0, evidence=1.5, threshold=3.0, remaining=60.0))
    ['Evidence: 1.5 of 3 so far.', 'About 60 more results, if they go on as they have.']
    """
    points = []
    if not progress.told:
        points.append("The first result.")
    elif so_far := _shortfall(progress):
        points.append(so_far)
    left = [one.answer for one in _others(progress) if not one.rejected]
    open_answers = _likeliest_first(left, progress)
    if open_answers and progress.told:
        names = listed([shorten(one, _SHORT) for one in open_answers], _LISTED)
        points.append(f"{plural(len(open_answers), 'other answer')} to be ruled out: {names}.")
    if progress.outstanding:
        points.append(f"The results of {plural(progress.outstanding, 'open pull')}.")
    forecast, most = forecast_of(progress), progress.remaining_at_most
    if progress.no_forecast:
        points.append(ended(progress.no_forecast[0].upper() + progress.no_forecast[1:]))
    elif far := out_of_sight(progress):
        points.append(ended(far[0].upper() + far[1:]))
    elif forecast:
        more = plural(max(round(forecast), 1), "more result")
        bound = "" if most is None else f"; at most {most:,}"
        points.append(f"About {more}, if they go on as they have{bound}.")
    elif most:
        points.append(f"At most {plural(most, 'more result')}.")
    if chance := chance_in_words(progress):
        points.append(ended(f"The study {chance}"))
    return points or ["More results."]


def _shortfall(progress: Progress) -> str:
    gained, wanted = finite(progress.evidence), finite(progress.threshold)
    if gained is None or wanted is None or gained >= wanted:
        return ""
    if evidence_level(progress) is not None:
        return f"Evidence against the last rival: {evidence_so_far(progress)} so far."
    return f"Evidence: {evidence_so_far(progress)} so far."


def strength(logarithm: float) -> str:
    """Return the text for an e-value, given its logarithm.

    Examples
    --------
    >>> strength(math.log(20)), strength(-math.log(4)), strength(1e9)
    ('20', '0.25', '1.01e+304')
    """
    return number(math.exp(min(logarithm, _LARGEST)), _DIGITS)


def e_value(one: Alternative, threshold: float | None) -> str:
    """Return the text for the e-value against an answer.

    An answer that was ruled out stays so, even if bets open at that time reduce its e-value.

    Examples
    --------
    >>> e_value(Alternative("b", True, log_wealth=3.5), math.log(20))
    '33.1'
    >>> e_value(Alternative("b", True, log_wealth=-2.0), math.log(20))
    '20 or more'
    >>> e_value(Alternative("b", True, log_wealth=50.0), math.log(20))
    'over a million'
    """
    if one.log_wealth is None:
        return number(None)
    if one.rejected and threshold is not None and one.log_wealth < threshold:
        return f"{strength(threshold)} or more"
    if one.log_wealth > _LARGEST_WRITTEN_OUT:
        return "over a million"
    if one.log_wealth < math.log(0.01):
        return "below 0.01"
    return strength(one.log_wealth)


def ruling(one: Alternative, when: str = "") -> str:
    """Return the standing of an answer in words; `when` is one of `rulings`.

    Examples
    --------
    >>> ruling(Alternative("b", True), "by result 812"), ruling(Alternative("b", False))
    ('ruled out by result 812', 'not ruled out')
    """
    if one.accepted:
        return "accepted"
    if not one.rejected:
        return "not ruled out"
    better = listed([shorten(arm, _SHORT) for arm in one.worse_than], _NAMED)
    return f"ruled out{when and ' '}{when}{better and ': worse than '}{better}"


def tally(progress: Progress) -> str:
    """Return how many of the other answers are ruled out; empty if the policy does not say."""
    others = _others(progress)
    if not others:
        return ""
    return f"{count(sum(one.rejected for one in others))} of {plural(len(others), 'other answer')}"


def _others(progress: Progress) -> list[Alternative]:
    best = _best(progress)
    return [one for one in alternatives(progress) if one.answer not in best]


def summary(progress: Progress, most: int) -> str:
    """Return a sentence about the evidence against the other answers; empty if there is none.

    With more than `most` others, only say how many are ruled out.
    """
    others, level = _others(progress), needed(progress)
    if not others:
        return ""
    ruled = f"Ruled out: {tally(progress)}"
    if level is None:
        return f"{ruled}."
    enough = strength(level)
    if len(others) > most:
        return f"{ruled}, by evidence of {enough} or more against each."
    said = [f"{shorten(one.answer, _SHORT)} {e_value(one, level)}" for one in others]
    against = f"Strength of evidence against each rival ({enough} or more rules it out)"
    return f"{against}: {', '.join(said)}."


def candidates_sentence(progress: Progress) -> str:
    """Return a sentence that lists the candidates for the right answer, with its confidence.

    Empty if a decision has named one of them, or before the first result.

    Examples
    --------
    >>> from fairtrial.core.recommendation import Recommendation
    >>> running = Recommendation(None, "running", confidence=0.95, candidates=("b", None))
    >>> candidates_sentence(Progress(running, asked=40, told=40, outstanding=0))
    'With 95 % confidence the right answer is b, or that no arm is acceptable.'
    """
    recommendation = progress.recommendation
    candidates, confidence = recommendation.candidates, recommendation.confidence
    if candidates is None or confidence is None or recommendation.decided or not progress.told:
        return ""
    possible = alternatives(progress)
    if possible and not any(one.rejected for one in possible):
        return f"None of the {plural(len(possible), 'possible answer')} is ruled out yet."
    guarantee, leader = recommendation.guarantee, recommendation.leader
    ranked = _likeliest_first(candidates, progress)
    if guarantee is not None and not guarantee.proven:
        named = _named(ranked, "", "and")
        return f"Not ruled out so far, without a proven confidence: {named}."
    sure = f"With {percent(confidence)} confidence"
    best = len(leader) if isinstance(leader, tuple) else 1
    if best == 1:
        return f"{sure} the right answer is {_named(ranked, 'one of ', 'or')}."
    among = "among " if len(candidates) > best else ""
    return f"{sure} the best {best} are {among}{_named(ranked, '', 'and')}."


def _likeliest_first(candidates: Sequence[Any], progress: Progress) -> Sequence[Any]:
    """Return candidates; if there are too many to name all, the most likely come first.

    These are the leaders, then those with the least evidence against them.
    """
    if len(candidates) <= _LISTED:
        return candidates
    leads = progress.recommendation.leader
    leaders = leads if isinstance(leads, tuple) else (leads,)
    against = {one.answer: one.log_wealth or 0.0 for one in alternatives(progress)}

    def place(candidate: Any) -> tuple[bool, float]:
        return candidate not in leaders, against.get(_name(candidate), 0.0)

    return sorted(candidates, key=place)


def _named(candidates: Sequence[object], of_many: str, conjunction: str) -> str:
    """Return candidates in words; if there are many, their number follows `of_many`."""
    names = [shorten(label_of(one), _SHORT) for one in candidates if one is not None]
    arms = joined(names, conjunction)
    if len(names) > _LISTED:
        arms = f"{of_many}{count(len(names))} arms ({listed(names, _LISTED)})"
    nothing = ["that no arm is acceptable"] if None in candidates else []
    return f", {conjunction} ".join([arms] * bool(names) + nothing)


def explanation(progress: Progress) -> str:
    """Return what an e-value is and when it rules an answer out; empty if there are none."""
    level = needed(progress)
    if level is None:
        return ""
    most, chance = strength(level), percent(math.exp(-level))
    return (
        "The evidence against an answer is what a stake of 1 has become in bets against it, which "
        "gain nothing on average if that answer is right (an e-value). So the probability that "
        f"the evidence against a right answer ever reaches {most} is at most {chance}; an answer "
        f"with evidence of {most} or more is ruled out permanently. An interval is about one mean "
        "alone; the bets use all results together, so intervals may still overlap."
    )
