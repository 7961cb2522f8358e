"""Check a study's log against its assumptions: drift, pulls passed over, arrivals of groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fairtrial.confidence.drift_test import Drift, find_drift
from fairtrial.confidence.share_test import favoured_arms, shares_differ
from fairtrial.core import Policy, Problem
from fairtrial.core.wording import listed, plural
from fairtrial.study.pull_histories import PullHistories

__all__ = ["BLINDED", "AssumptionWarning", "warnings_in"]

_OVERTAKEN = 100
"""A pull without a result counts as passed over once this many later pulls have results."""

BLINDED = (
    "a check of the results by arm found a problem; those who may see the full view find it there"
)
"""What a notice says instead, which may reach people who must not know the results by arm."""


class AssumptionWarning(NamedTuple):
    """A sentence that says what contradicts an assumption."""

    sentence: str
    is_about_arms: bool
    """Whether people who recruit must not read it."""


def warnings_in(log: PullHistories, policy: Policy) -> list[AssumptionWarning]:
    """Return what in a log contradicts the assumptions, by tests that hold at all times.

    Parameters
    ----------
    log : PullHistories
        The whole log, sorted by pull.
    policy : Policy
        The study's policy. It must be able to stop: one that never stops promises nothing about
        means, and does not draw arms at random.

    Notes
    -----
    Source: docs/explanation/assumption-checks.md.
    """
    problem = policy.problem
    return [*_drift(log, policy), *_passed_over(log, problem), *_arrivals(log, problem)]


# ------------------------------------------------------------------------------ drift


def _drift(log: PullHistories, policy: Policy) -> list[AssumptionWarning]:
    """Return signs of drift. Several measures share the level of the test."""
    found = ((name, _drift_in(log, policy, name)) for name in policy.problem.measures or [None])
    return [_said_of_drift(drift, policy.problem, name) for name, drift in found if drift.found]


def _drift_in(log: PullHistories, policy: Policy, measure: str | None) -> Drift:
    """Test one number of every pull: as it was told at first, and as it is on record now.

    Only what was told at first stays as it is, so only this test keeps its level at all times. A
    drift that corrections have removed is no longer reported.
    """
    told, corrected = _results_by_action(log, policy.problem.n_actions, measure)
    drift = _tested(told, policy)
    if not drift.found or told == corrected:
        return drift
    after = _tested(corrected, policy)
    cells = tuple(cell for cell in drift.cells if cell in after.cells)
    if drift.cells and after.cells and not cells:
        return Drift(1.0, ())  # each in other cells: what was seen at first is corrected
    return Drift(max(drift.p_value, after.p_value), cells)


def _tested(results: list[list[float]], policy: Policy) -> Drift:
    tests = max(1, len(policy.problem.measures))
    return find_drift(results, independent=policy.results_are_independent, tests=tests)


def _said_of_drift(drift: Drift, problem: Problem, measure: str | None) -> AssumptionWarning:
    cells = listed([_name(problem, action) for action in drift.cells])
    whose = f"the results of {cells}" if cells else "the results of the arms, taken together,"
    if measure is not None:
        whose = f"{measure}: {whose}"
    sentence = (
        f"{whose} come from another distribution later in the study than before: find out what has "
        "changed (who takes part, how it is measured, the season), because the answer assumes "
        "that the means stay the same"
    )
    return AssumptionWarning(sentence, is_about_arms=True)


def _results_by_action(
    log: PullHistories, n_actions: int, measure: str | None
) -> tuple[list[list[float]], list[list[float]]]:
    """Return the results of each action in order of issue, as told at first and as corrected.

    A result keeps its place once it is used: it counts when all earlier pulls of its action have
    ended, and a result that arrives after its pull has failed is left out. Otherwise early results
    would be compared with others that come later because of their values. The same holds for pulls
    that the policy cancelled, perhaps because their readings were bad.
    """
    told: list[list[float]] = [[] for _ in range(n_actions)]
    corrected: list[list[float]] = [[] for _ in range(n_actions)]
    waiting: set[int] = set()
    outcomes = log.values if measure is None else log.measured
    for number, (action, end) in enumerate(zip(log.actions, log.first_ends, strict=True)):
        if end in ("open", "cancelled"):
            waiting.add(action)
        elif end == "told" and action not in waiting:
            now = outcomes[number]
            for results, outcome in ((told, log.as_told.get(number, now)), (corrected, now)):
                value = _value_of(outcome, measure)
                if value is not None:
                    results[action].append(value)
    return told, corrected


def _value_of(outcome: Any, measure: str | None) -> float | None:
    """Return the number of an outcome, or that of one of its measures; None if it is not known."""
    value = outcome if measure is None or outcome is None else outcome[measure]
    return None if value is None else float(value)


def _name(problem: Problem, action: int) -> str:
    return " in ".join(repr(str(label)) for label in problem.labels(action).values())


# ------------------------------------------------------------------- pulls passed over


def _passed_over(log: PullHistories, problem: Problem) -> list[AssumptionWarning]:
    arms = {problem.labels(action).get("arm"): None for action in range(problem.n_actions)}
    place = {arm: index for index, arm in enumerate(arms)}
    arm_of = [place[problem.labels(action).get("arm")] for action in range(problem.n_actions)]
    came = _results_in_time(log)
    drawn = [arm_of[action] for action, _ in came]
    favoured = favoured_arms(drawn, [propensity for _, propensity in came], len(arms))
    if not favoured:
        return []
    names = [str(arm) for arm in arms]
    asked = Counter(arm_of[action] for action in log.actions)
    told = Counter(arm_of[log.actions[n]] for n, end in enumerate(log.ends) if end == "told")
    shares = [f"{told[arm]:,} of {plural(asked[arm], 'pull')} of {names[arm]!r}" for arm in asked]
    sentence = (
        f"more results came from {listed([repr(names[arm]) for arm in favoured])} than pulls drawn "
        f"at random can explain: {listed(shares)} have one. Find out whether pulls of other arms "
        "are passed over, or why their results are missing: the answer may be wrong"
    )
    return [AssumptionWarning(sentence, is_about_arms=True)]


def _results_in_time(log: PullHistories) -> list[tuple[int, float]]:
    """Return action and propensity of the pulls with a result in time, in order of issue.

    Stop before the first pull that can still get a result in time, or that the policy cancelled:
    which pulls it cancels depends on the arm.
    """
    limits = _limits(log)
    came = []
    for number, end in enumerate(log.first_ends):
        limit = limits[log.batches[number]]
        if end == "cancelled" or (end == "open" and (limit is None or log.results < limit)):
            break
        in_time = end == "told" and (limit is None or log.results_before[number] < limit)
        propensity = log.propensities[number]
        if in_time and propensity is not None:
            came.append((log.actions[number], propensity))
    return came


def _limits(log: PullHistories) -> list[int | None]:
    """Return for each batch the number of results after which open pulls count as passed over.

    None until a later batch has a result: pulls of one batch, such as a plate, can return their
    results in any order.
    """
    first: dict[int, int] = {}
    for batch, end, before in zip(log.batches, log.first_ends, log.results_before, strict=True):
        if end == "told":
            first[batch] = min(before, first.get(batch, before))
    limits: list[int | None] = []
    earliest: int | None = None
    for batch in range(max(log.batches, default=-1), -1, -1):
        limits.append(None if earliest is None else earliest + _OVERTAKEN)
        if batch in first:
            earliest = first[batch] if earliest is None else min(earliest, first[batch])
    return limits[::-1]


# ---------------------------------------------------------------------------- arrivals


def _arrivals(log: PullHistories, problem: Problem) -> list[AssumptionWarning]:
    stated = problem.stated_shares
    found = (_arrivals_of(log, keyword, stated[keyword]) for keyword in stated)
    return [doubt for doubt in found if doubt is not None]


def _arrivals_of(
    log: PullHistories, keyword: str, stated: Mapping[str, float]
) -> AssumptionWarning | None:
    values = [value for value, share in stated.items() if share > 0.0]
    counts = [log.arrived[keyword, value] for value in values]
    total, weight = sum(counts), sum(stated[value] for value in values)
    shares = [stated[value] / weight for value in values]
    if not shares_differ(counts, shares):
        return None
    return AssumptionWarning(
        _said_of_arrivals(keyword, values, counts, shares, total), is_about_arms=False
    )


def _said_of_arrivals(
    keyword: str, values: Sequence[str], counts: Sequence[int], shares: Sequence[float], total: int
) -> str:
    compared = [
        f"{value!r} {count / total:.1%} instead of {share:.1%}"
        for value, count, share in zip(values, counts, shares, strict=True)
    ]
    return (
        f"{keyword}s arrive in other proportions than stated ({listed(compared)}): overall means "
        f"weigh them as stated, not as they arrive. Find out whether a {keyword} is missed or "
        "turned away, or state its true weight in the next study"
    )
