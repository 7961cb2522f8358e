"""Numbers and decisions in words, the same in figures and on pages."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from fairtrial.core.recommendation import Guarantee, Progress, Recommendation
from fairtrial.core.wording import NOT_ASKED_FOR, plural
from fairtrial.presentation.limits import finite

__all__ = [
    "MINUS",
    "NOTHING",
    "TITLES_OF_CLAIMS",
    "UNNAMED",
    "basis_of",
    "because",
    "clean",
    "count",
    "decimals",
    "decisions_in_words",
    "ended",
    "fixed",
    "forecast_of",
    "headline",
    "joined",
    "label_of",
    "listed",
    "lost_in_words",
    "more_expected",
    "never_counted_in_words",
    "number",
    "out_of_sight",
    "outcome_in_words",
    "percent",
    "plural",
    "results_in_words",
    "results_sentence",
    "results_that_count",
    "safe",
    "says_no_more",
    "shorten",
    "support",
]

MINUS = "\N{MINUS SIGN}"
NOTHING = "\N{EN DASH}"
UNNAMED = "none"
"""The name of a guarantee that is none."""

TITLES_OF_CLAIMS = {
    "better within limits": "Better than the control, and keeps every limit",
    "better": "Better than the control",
    "best": "Best of all",
    "within limits": "Keeps every limit",
}
"""What a study or a usual design can claim of an arm."""


_LARGEST_WITH_ALL_DIGITS = 1e9
_MOST_DECIMALS = 9
"""Beyond these, numbers have an exponent."""

_NEARLY_ALL = 0.9
"""A forecast beyond this part of a bound says no more than the bound."""
_FARTHEST = 100
"""A forecast beyond this multiple of the results so far says nothing."""


def number(value: float | None, digits: int = 4) -> str:
    """Return a number in the usual notation; a dash for None.

    Examples
    --------
    >>> number(1132.4), number(0.01234567), number(134.2, 2), number(-2.5) == MINUS + "2.5"
    ('1,132', '0.01235', '134', True)
    """
    if value is None or math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else MINUS + "∞"
    # Use no decimals where `digits` digits would need an exponent.
    whole = min(1000, 10**digits - 0.5) <= abs(value) < _LARGEST_WITH_ALL_DIGITS
    text = f"{value:,.0f}" if whole else f"{value:.{digits}g}"
    return text.replace("-", MINUS)


def outcome_in_words(outcome: Any) -> str:
    """Return an outcome with all its digits, so that it can be compared with what was entered.

    Examples
    --------
    >>> outcome_in_words(1234567.25), outcome_in_words({"cured": 1.0, "cd4": None})
    ('1234567.25', 'cured: 1, cd4: missing')
    """
    if isinstance(outcome, Mapping):
        return ", ".join(f"{name}: {outcome_in_words(value)}" for name, value in outcome.items())
    if outcome is None:
        return "missing"
    return str(outcome).removesuffix(".0")


def decimals(values: Iterable[float | None], digits: int = 4) -> int:
    """Return the number of decimals with which the largest value shows `digits` digits.

    Examples
    --------
    >>> decimals([0.25, -0.031]), decimals([1132.0, 2.5]), decimals([None])
    (4, 0, 0)
    """
    largest = max((abs(value) for value in map(finite, values) if value is not None), default=0.0)
    whole = math.floor(math.log10(largest)) if largest > 0 else digits - 1
    return max(digits - 1 - whole, 0)


def fixed(value: float | None, places: int) -> str:
    """Return a number with a fixed number of decimals, for columns of a table.

    Very small and very large numbers are rounded in the same way, and shown with an exponent.

    Examples
    --------
    >>> fixed(0.5, 3), fixed(1132.0, 0), fixed(2.5e12, 0)
    ('0.500', '1,132', '2.5e+12')
    """
    if value is None or not math.isfinite(value):
        return number(value)
    if places > _MOST_DECIMALS or abs(value) >= _LARGEST_WITH_ALL_DIGITS:
        return number(round(value, places))
    text = f"{value:,.{places}f}"
    return text.replace("-", MINUS) if float(text.replace(",", "")) else text.replace("-", "")


def count(value: float) -> str:
    """Return a whole number with separators of thousands."""
    return f"{round(value):,}"


def percent(share: float, places: int | None = None) -> str:
    """Return a share in per cent, with decimals as needed or with a fixed number of them.

    Examples
    --------
    >>> percent(0.25), percent(0.0312), percent(0.0002), percent(0)
    ('25 %', '3.1 %', '<0.1 %', '0 %')
    >>> percent(0.25, places=1), percent(0.0097, places=1)
    ('25.0 %', '1.0 %')
    """
    if 0 < share < 0.001:
        return "<0.1 %"
    if places is not None:
        return f"{100 * share:.{places}f} %"
    return f"{100 * share:.3g} %" if share >= 0.1 else f"{100 * share:.2g} %"


def safe(text: object) -> str:
    """Return text without the characters that a page or a font cannot show."""
    return "".join("\ufffd" if _unprintable(char) else char for char in str(text))


def _unprintable(char: str) -> bool:
    return char not in "\n\t" and unicodedata.category(char) in ("Cc", "Cs")


def clean(text: object) -> str:
    """Return safe text on one line."""
    return safe(" ".join(str(text).split()))


def shorten(text: object, length: int) -> str:
    """Return text of at most `length` characters, cut in the middle as labels share beginnings.

    Examples
    --------
    >>> shorten("a rather long label 17", 12)
    'a rath…el 17'
    """
    line = clean(text)
    if len(line) <= length:
        return line
    tail = (length - 1) // 2
    return f"{line[: length - 1 - tail]}…{line[len(line) - tail :]}"


def label_of(answer: Any) -> str:
    """Return the label of an answer: several arms for a top-k problem, "no arm" for None."""
    if answer is None:
        return "no arm"
    return clean(", ".join(map(str, answer)) if isinstance(answer, tuple) else answer)


def headline(recommendation: Recommendation, endless: bool = False) -> str:
    """Return the decision in a few words; an `endless` policy continues to serve.

    Examples
    --------
    >>> headline(Recommendation(arm="b", status="decided"))
    'Answer: b'
    >>> headline(Recommendation(arm=None, status="decided"))
    'Answer: no arm is acceptable'
    >>> headline(Recommendation(arm=None, status="running", leader=("b", "c")))
    'No decision yet: b, c lead so far'
    """
    if recommendation.decided:
        if recommendation.arm is None:
            return "Answer: no arm is acceptable"
        return f"Answer: {label_of(recommendation.arm)}"
    if recommendation.status == "undecided":
        return f"No decision: {_leading(recommendation)} at the end"
    state = "Serving continues" if endless else "No decision yet"
    return f"{state}: {_leading(recommendation)} so far"


def _leading(recommendation: Recommendation) -> str:
    leader = recommendation.leader
    if leader is None:
        return "no arm leads"
    several = isinstance(leader, tuple) and len(leader) > 1
    return f"{label_of(leader)} {'lead' if several else 'leads'}"


def support(progress: Progress, endless: bool = False) -> str:
    """Return what is promised of the answer or, without one, what the headline does not say.

    Examples
    --------
    >>> decided = Recommendation(arm="b", status="decided", confidence=0.95)
    >>> support(Progress(decided, asked=40, told=40, outstanding=0))
    'The probability that a study like this one ever gives a wrong answer is at most 5 %.'
    """
    recommendation = progress.recommendation
    if recommendation.decided:
        return _promised(recommendation)
    if not progress.told:
        return "There are no results yet."
    return "The policy never stops by itself." if endless else ""


def basis_of(guarantee: Guarantee) -> str:
    """Return the label of a guarantee with its name, if it has one.

    Examples
    --------
    >>> basis_of(Guarantee("block betting", proven=True, statement="it is right"))
    'proven: block betting'
    >>> basis_of(Guarantee(UNNAMED, proven=False, statement="nothing is promised"))
    'heuristic'
    """
    if guarantee.name == UNNAMED:
        return guarantee.label
    return f"{guarantee.label}: {clean(guarantee.name)}"


def _promised(recommendation: Recommendation) -> str:
    guarantee = recommendation.guarantee
    basis = "" if guarantee is None else f" ({basis_of(guarantee)})"
    if recommendation.confidence is None:
        return "Best estimate for a fixed budget; no error probability is promised."
    chance = percent(1.0 - recommendation.confidence)
    if guarantee is not None and not guarantee.proven:
        measured = ", but measured" if guarantee.calibrated else ""
        return (
            f"The rule aims at a wrong answer in at most {chance} of studies; not proven"
            f"{measured}{basis}."
        )
    return (
        "The probability that a study like this one ever gives a wrong answer is at most "
        f"{chance}{basis}."
    )


def because(recommendation: Recommendation) -> str:
    """Return a sentence about why the policy stopped or continues; empty if it gives no reason.

    Examples
    --------
    >>> because(Recommendation(None, "running", leader="b", reason="two results are missing"))
    'Why: two results are missing.'
    """
    return f"Why: {ended(recommendation.reason)}" if recommendation.reason else ""


def decisions_in_words(recommendation: Recommendation) -> str:
    """Return when a study decided, and which earlier decisions were taken back; empty if never.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> from fairtrial.core import Decision
    >>> first, second = datetime(2027, 2, 1, tzinfo=UTC), datetime(2027, 3, 4, tzinfo=UTC)
    >>> taken_back = Decision(60, first, 75, second)
    >>> decisions_in_words(Recommendation("a", "decided", decisions=(Decision(60, first),)))
    'Decided on 2027-02-01, with event 60.'
    >>> decisions_in_words(Recommendation(None, "running", decisions=(taken_back,)))
    'The decision of 2027-02-01, with event 60, was taken back on 2027-03-04, with event 75.'
    """
    said = [
        f"Decided on {_on_day(one.at, one.event)}."
        for one in recommendation.decisions
        if one.stands
    ]
    for one in recommendation.decisions:
        if one.withdrawn_by is not None and one.withdrawn_at is not None:
            back = _on_day(one.withdrawn_at, one.withdrawn_by)
            said.append(f"The decision of {_on_day(one.at, one.event)}, was taken back on {back}.")
    return " ".join(said)


def _on_day(moment: datetime, event: int) -> str:
    return f"{moment:%Y-%m-%d}, with event {count(event)}"


def ended(text: str) -> str:
    """Return text that ends like a sentence.

    Examples
    --------
    >>> ended("two are left"), ended("Two are left.")
    ('two are left.', 'Two are left.')
    """
    line = clean(text)
    return line if line.endswith((".", "!", "?")) else f"{line}."


def results_sentence(progress: Progress) -> str:
    """Return a sentence with the results so far and, while the study runs, those expected."""
    sentence = results_that_count(progress)
    if progress.no_forecast:
        sentence += f"; {progress.no_forecast}"
    elif progress.recommendation.status == "running" and (more := more_expected(progress)):
        sentence += f"; {more}"
    return sentence + (f"; {chance}." if (chance := chance_in_words(progress)) else ".")


def more_expected(progress: Progress) -> str:
    """Return in words how many more results are expected, and how many at most; empty if unknown.

    Examples
    --------
    >>> from fairtrial.core import Recommendation
    >>> running = Recommendation(None, "running")
    >>> more_expected(Progress(running, 40, 40, 0, remaining=95.0, remaining_at_most=1000))
    'about 95 more expected, at most 1,000'
    """
    if far := out_of_sight(progress):
        return far
    forecast, most = forecast_of(progress), progress.remaining_at_most
    if forecast is not None:
        bound = "" if most is None else f", at most {count(most)}"
        return f"about {count(forecast)} more expected{bound}"
    return "" if most is None else f"at most {count(most)} more"


def forecast_of(progress: Progress) -> float | None:
    """Return the forecast of the results still needed, if it says more than the bound on them.

    Examples
    --------
    >>> from fairtrial.core import Recommendation
    >>> running = Recommendation(None, "running")
    >>> forecast_of(Progress(running, 40, 40, 0, remaining=95.0, remaining_at_most=1000))
    95.0
    >>> forecast_of(Progress(running, 40, 40, 0, remaining=95.0, remaining_at_most=100))
    """
    forecast, most = finite(progress.remaining), progress.remaining_at_most
    return None if forecast is None or says_no_more(forecast, most) else forecast


def says_no_more(forecast: float, most: float | None) -> bool:
    """Return whether a forecast is hardly below a bound, if there is one."""
    return most is not None and forecast > _NEARLY_ALL * most


_GIVEN = ", given the results so far"


def chance_in_words(progress: Progress) -> str:
    """Return the chance of a decision by the planned end in words; empty if no end is planned.

    Examples
    --------
    >>> from fairtrial.core import Recommendation
    >>> running = Recommendation(None, "running")
    >>> chance_in_words(Progress(running, 300, 300, 0, chance_to_decide=0.953))
    'decides by its planned end with a chance of about 95 %, given the results so far'
    """
    chance = finite(progress.chance_to_decide)
    if chance is None:
        return ""
    return f"decides by its planned end with a chance of about {percent(chance, 0)}{_GIVEN}"


def out_of_sight(progress: Progress) -> str:
    """Return that no decision is in sight, if the forecast is too large to mean anything.

    Evidence that hardly grows makes the forecast a quotient of two small numbers. Before any result
    counts, nothing can be said of its growth.
    """
    if progress.settled == 0:
        return ""
    forecast = finite(progress.remaining)
    if forecast is None or forecast <= _FARTHEST * max(progress.told, _FARTHEST):
        return ""
    return "no decision is in sight: the evidence so far hardly grows"


def results_in_words(progress: Progress) -> str:
    """Return how many results there are, how many pulls are open, and how many will have none.

    Examples
    --------
    >>> from fairtrial.core import Recommendation
    >>> results_in_words(Progress(Recommendation(None, "running"), 90, 85, 3))
    '85 results so far, 3 open, 2 will have none'
    >>> results_in_words(Progress(Recommendation("a", "decided"), 90, 200, 0))
    '200 results, of 90 pulls and of units without a pull'
    >>> results_in_words(Progress(Recommendation("a", "decided"), 90, 200, 0, assigned=210))
    '200 results of 210 units'
    >>> results_in_words(Progress(Recommendation("a", "decided"), 90, 85, 3, decided_after=60))
    '85 results so far, 25 of them after the decision, 3 open, 2 will have none'
    >>> never = {"not asked for by the study": 4}
    >>> results_in_words(Progress(Recommendation("a", "decided"), 90, 85, 3, never_counted=never))
    '85 results so far, 3 open, 6 will have none'
    """
    said = plural(progress.told, "result") if progress.told else "no result"
    if progress.assigned is not None:
        return f"{said} of {plural(progress.assigned, 'unit')}"
    if progress.recommendation.status == "running" or progress.outstanding:
        said += " so far"
    if progress.told > progress.asked:
        said += f", of {plural(progress.asked, 'pull')} and of units without a pull"
    if progress.decided_after is not None and progress.told > progress.decided_after:
        said += f", {count(progress.told - progress.decided_after)} of them after the decision"
    if progress.outstanding:
        said += f", {count(progress.outstanding)} open"
    requested = progress.told - progress.never_counted.get(NOT_ASKED_FOR, 0)
    ended_without = progress.asked - requested - progress.outstanding
    return said + (f", {count(ended_without)} will have none" if ended_without > 0 else "")


def results_that_count(progress: Progress) -> str:
    """Return how many results there are, and how many of them count unless all do.

    Examples
    --------
    >>> from fairtrial.core import Recommendation
    >>> results_that_count(Progress(Recommendation(None, "running"), 90, 87, 3, settled=52))
    '87 results so far, 3 open; 52 results count for the decision'
    >>> decided = Recommendation("a", "decided")
    >>> results_that_count(Progress(decided, 90, 200, 0, settled=87, assigned=210))
    '200 results of 210 units; the answer uses the first 90; 87 results count for the decision'
    """
    said, settled = results_in_words(progress), progress.settled
    if progress.assigned is not None and progress.recommendation.decided:
        said += f"; the answer uses the first {count(progress.asked)}"
    never = never_counted_in_words(progress)
    if settled is not None and settled < progress.told:
        verb = "counts" if settled == 1 else "count"
        said += f"; {plural(settled, 'result')} {verb} for the decision"
    return "; ".join(filter(None, [said, never, lost_in_words(progress)]))


_HOW_LOST_COUNT = {
    "made_again": "made again",
    "to_make_again": "to be made again",
    "as_worst": "counted as the worst value",
    "partly": "counted with the values that came",
    "in_no_bet": "in no bet",
}


def lost_in_words(progress: Progress) -> str:
    """Return how many pulls are lost, and how each of them counts; empty if none, or not recorded.

    Examples
    --------
    >>> from fairtrial.core import Losses, Recommendation
    >>> losses = Losses("made again", made_again=10, as_worst=20, in_no_bet=12, limit_reached=10)
    >>> lost_in_words(Progress(Recommendation(None, "undecided"), 9, 9, 0, losses=losses))
    '42 lost pulls: 10 made again, 20 counted as the worst value, 12 in no bet'
    """
    losses = progress.losses
    if losses is None or not losses.pulls:
        return ""
    numbers = {words: getattr(losses, name) for name, words in _HOW_LOST_COUNT.items()}
    if progress.recommendation.status != "running":
        # Whoever stops a study also ends what was still to be done.
        numbers["in no bet"] += numbers.pop("to be made again")
    parts = [f"{count(number)} {words}" for words, number in numbers.items() if number]
    return f"{plural(losses.pulls, 'lost pull')}: {', '.join(parts)}"


def never_counted_in_words(progress: Progress) -> str:
    """Return how many results will never count for the decision, and why; empty if none.

    Examples
    --------
    >>> from fairtrial.core import Recommendation
    >>> never = {"not asked for by the study": 3, "too late": 1}
    >>> found = Progress(Recommendation(None, "running"), 9, 9, 0, never_counted=never)
    >>> never_counted_in_words(found)
    '4 results never count for the decision: 3 not asked for by the study, 1 too late'
    """
    never = progress.never_counted
    if not never:
        return ""
    number = sum(never.values())
    verb = "counts" if number == 1 else "count"
    why = ", ".join(f"{count(some)} {reason}" for reason, some in never.items())
    return f"{plural(number, 'result')} never {verb} for the decision: {why}"


def joined(names: Sequence[str], conjunction: str) -> str:
    """Return names as a sentence lists them: with commas, and "and" or "or" before the last.

    Examples
    --------
    >>> joined(["b", "c"], "or"), joined(["b", "c", "d"], "and")
    ('b or c', 'b, c and d')
    """
    *first, last = names or [""]
    return f"{', '.join(first)} {conjunction} {last}" if first else last


def listed(items: Sequence[str], most: int, between: str = ", ") -> str:
    """Return items as a list in a sentence; if there are too many, say how many more."""
    shown = list(items[:most])
    rest = len(items) - len(shown)
    return between.join(shown) + (f" and {count(rest)} more" if rest else "")
