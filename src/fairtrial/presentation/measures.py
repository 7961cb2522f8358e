"""Every measure of every arm with its limits, and the arms that miss a limit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from fairtrial.core import Problem
from fairtrial.core.recommendation import Estimate, Progress
from fairtrial.presentation.cuts import cut_of
from fairtrial.presentation.effects import OVERALL, limited
from fairtrial.presentation.guardrails import Guardrail, guardrails
from fairtrial.presentation.limits import Standing, Standings
from fairtrial.presentation.sources import MEASURE, arm_of
from fairtrial.presentation.words import listed

__all__ = [
    "MeasuredArm",
    "measured_arms",
    "missing_a_limit",
    "name_of_objective",
    "said_of_missed_limits",
]

_MOST_NAMES = 8


@dataclass(frozen=True, slots=True)
class MeasuredArm:
    """A measure of an arm in one place, and its limits there.

    Parameters
    ----------
    arm, where, measure : str
        The arm, the group or "overall", and the measure.
    estimate : Estimate
        Its mean, interval and number of results.
    limits : tuple of Guardrail
        Its limits: on the mean, or on the difference from the control.
    """

    arm: str
    where: str
    measure: str
    estimate: Estimate
    limits: tuple[Guardrail, ...] = ()

    def limit(self, written: Callable[[float], str]) -> str:
        """Return the limits in words, with their numbers as `written` writes them."""
        return "; ".join(one.limit(written) for one in self.limits)

    @property
    def standing(self) -> str:
        """Whether the limits are met, in their order; once if it is the same for all."""
        return "; ".join(dict.fromkeys(one.standing.value for one in self.limits))


def measured_arms(progress: Progress, minimize: bool) -> list[MeasuredArm]:
    """Return every measure of the shown arms, in the order of their arms: overall, and by group.

    The estimates are those of `Progress.overall_measures` and `Progress.actions`.

    Examples
    --------
    >>> from fairtrial.core import MeasureLimit, Recommendation
    >>> harm = Estimate({"arm": "a", "group": "old", "measure": "harmed"}, 20, mean=0.4)
    >>> limit = MeasureLimit("a", "harmed", "old", "ceiling", 0.3, estimate=0.4)
    >>> running = Recommendation(None, "running")
    >>> progress = Progress(running, 20, 20, 0, actions=(harm,), measure_limits=(limit,))
    >>> [(one.limit(str), one.standing) for one in measured_arms(progress, minimize=False)]
    [('at most 0.3', 'missed so far, not settled')]
    """
    of_place: dict[tuple[str, str, str], list[Guardrail]] = {}
    for limit in guardrails(progress, minimize):
        of_place.setdefault((limit.arm, limit.where, limit.measure), []).append(limit)
    found = []
    has_one_group = len({one.labels.get("group") for one in progress.actions}) == 1
    cut = cut_of(progress, minimize)
    for one in (*cut.rank(progress.overall_measures), *cut.rank(progress.actions)):
        if MEASURE in one.labels:
            measure, where = str(one.labels[MEASURE]), str(one.labels.get("group", OVERALL))
            arm = arm_of(one.labels)
            own = of_place.get((arm, where, measure), [])
            if has_one_group and where != OVERALL:
                # The mean of the only group is the overall one.
                own = own + of_place.get((arm, OVERALL, measure), [])
            found.append(MeasuredArm(arm, where, measure, one, tuple(own)))
    return found


def name_of_objective(problem: Problem | None) -> str:
    """Return which measure the overall means of arms are about; empty if pulls measure one thing.

    Examples
    --------
    >>> from fairtrial.subpopulations import Problem
    >>> measures = {"x": (0, 1), "y": (0, 1)}
    >>> name_of_objective(Problem(["a", "b"], 1, measures=measures, objective="y"))
    'y'
    """
    objective = getattr(problem, "objective", None)
    if objective is None:
        return ""
    return objective if isinstance(objective, str) else "the objective"


def missing_a_limit(progress: Progress) -> dict[str, str]:
    """Return the arms that miss a limit of any kind, with what they miss: in words for readers.

    Examples
    --------
    >>> from fairtrial.core import Recommendation
    >>> low = Estimate({"arm": "a"}, 20, mean=0.1, lower_limit=0.3)
    >>> missing_a_limit(Progress(Recommendation(None, "running"), 20, 20, 0, actions=(low,)))
    {'a': 'misses a limit so far'}
    """
    sure: dict[str, dict[str, None]] = {}
    likely: dict[str, dict[str, None]] = {}
    for arm, measure, standing in _standings(progress):
        if standing in {Standing.BROKEN, Standing.LIKELY_BROKEN}:
            missed = sure if standing is Standing.BROKEN else likely
            missed.setdefault(arm, {}).update(dict.fromkeys([measure] if measure else []))
    return {
        arm: _in_words(sure[arm], "") if arm in sure else _in_words(likely[arm], " so far")
        for arm in (*sure, *(arm for arm in likely if arm not in sure))
    }


def _in_words(measures: Collection[str], settled: str) -> str:
    of = f" of {listed(list(measures), _MOST_NAMES)}" if measures else ""
    return f"misses a limit{of}{settled}"


def said_of_missed_limits(progress: Progress) -> str:
    """Return which arms miss a limit, however good they are otherwise; empty if none does.

    Examples
    --------
    >>> from fairtrial.core import Recommendation
    >>> low = Estimate({"arm": "a"}, 20, mean=0.1, lower_limit=0.3)
    >>> said_of_missed_limits(Progress(Recommendation(None, "running"), 20, 20, 0, actions=(low,)))
    'However good the means are: a misses a limit so far.'
    """
    by_what: dict[str, list[str]] = {}
    for arm, missed in missing_a_limit(progress).items():
        by_what.setdefault(missed, []).append(arm)
    said = [
        f"{listed(arms, _MOST_NAMES)} {missed if len(arms) == 1 else _of_several(missed)}"
        for missed, arms in by_what.items()
    ]
    return f"However good the means are: {listed(said, _MOST_NAMES)}." if said else ""


def _of_several(missed: str) -> str:
    return missed.replace("misses", "miss", 1)


def _standings(progress: Progress) -> Iterator[tuple[str, str, Standing]]:
    """Yield the standing of every limit, with its arm and the measure, if there are several."""
    by = Standings.by(progress)
    # A promised share is kept while less than one pull is missing; shares have their own table.
    arms = () if progress.quantity == "share" else progress.arms
    for one in (*progress.actions, *arms, *progress.limited):
        yield arm_of(one.labels), str(one.labels.get(MEASURE, "")), by.of(one)
    for effect in limited(progress):
        yield str(effect.arm), "", by.of_effect(effect)
    for limit in progress.measure_limits:
        yield str(limit.arm), str(limit.measure), by.of_measure(limit)
    for value in progress.value_limits:
        yield str(value.arm), "", by.of_value(value)
