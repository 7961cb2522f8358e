"""False alarms of the checks of assumptions if results are late, lost, corrected or out of order.

No assumption is broken in any row: every arm keeps one distribution, arms are drawn with the
recorded probabilities, and groups arrive in the stated proportions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairtrial.confidence import share_test
from fairtrial.confidence.drift_test import evidence
from fairtrial.core import Policy
from fairtrial.study.assumption_checks import warnings_in
from fairtrial.study.pull_histories import PullHistories
from fairtrial.subpopulations import BlockBetting, Problem

LEVELS = (0.1, 0.01)
PULLS = 600
LOOKS = 10
LOOKS_LATER = 40
LATER = 120
"""So many pulls after its own, a late event happens."""

SHARES = {"x": 0.7, "y": 0.3}
MEAN = 0.4

CHECKS = {
    "drift": "come from another distribution",
    "passed over": "than pulls drawn at random can explain",
    "arrivals": "arrive in other proportions",
}
"""Each check, and words of its warning."""

Random = np.random.Generator
Course = Callable[[Random, Any], list[tuple[float, str, Any]]]
"""Returns what happens to a pull with this value: when, in pulls after its own, and what."""


# ------------------------------------------------------------------- the course of a pull


def _at_once(_rng: Random, value: Any) -> list[tuple[float, str, Any]]:
    return [(0, "tell", value)]


def _half_late(rng: Random, value: Any) -> list[tuple[float, str, Any]]:
    if rng.random() < 280 / 600:
        return [(0, "fail", None), (LATER * rng.random(), "late_tell", value)]
    return [(0, "tell", value)]


def _half_at_the_end(rng: Random, value: Any) -> list[tuple[float, str, Any]]:
    if rng.random() < 280 / 600:
        return [(0, "fail", None), (PULLS + PULLS * rng.random(), "late_tell", value)]
    return [(0, "tell", value)]


def _bad_late(_rng: Random, value: Any) -> list[tuple[float, str, Any]]:
    if _size(value) < 0.5:
        return [(0, "fail", None), (LATER, "late_tell", value)]
    return [(0, "tell", value)]


def _bad_later(rng: Random, value: Any) -> list[tuple[float, str, Any]]:
    return [(LATER * (1 - _size(value)) + rng.random(), "tell", value)]


def _bad_lost(rng: Random, value: Any) -> list[tuple[float, str, Any]]:
    lost = rng.random() < 0.7 * (1 - _size(value))
    return [(0, "fail", None)] if lost else [(0, "tell", value)]


def _wrong_at_first(rng: Random, value: Any) -> list[tuple[float, str, Any]]:
    if rng.random() < 0.3:
        return [(0, "tell", _other(value)), (LATER * rng.random(), "amend", value)]
    return [(0, "tell", value)]


def _too_good_at_first(_rng: Random, value: Any) -> list[tuple[float, str, Any]]:
    if _size(value) < 0.5:
        return [(0, "tell", _other(value)), (LATER, "amend", value)]
    return [(0, "tell", value)]


def _everything(rng: Random, value: Any) -> list[tuple[float, str, Any]]:
    courses = (_half_late, _bad_later, _bad_lost, _wrong_at_first, _bad_late)
    return courses[rng.integers(len(courses))](rng, value)


def _size(value: Any) -> float:
    return float(value["y"]) if isinstance(value, dict) else float(value)


def _other(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: 1.0 - number for name, number in value.items()}
    return 1.0 - value


COURSES: dict[str, Course] = {
    "at once": _at_once,
    "280 of 600 fail, their results come late": _half_late,
    "280 of 600 fail, their results come at the end": _half_at_the_end,
    "bad results fail and come late": _bad_late,
    "bad results come later, out of order": _bad_later,
    "bad results are lost": _bad_lost,
    "three in ten are wrong at first": _wrong_at_first,
    "bad results are called good at first": _too_good_at_first,
    "all of this": _everything,
}


# --------------------------------------------------------------------------------- values


def _coin(rng: Random) -> float:
    return float(rng.random() < MEAN)


def _skewed(rng: Random) -> float:
    return float(rng.beta(0.5 * MEAN, 0.5 * (1 - MEAN)))


def _two(rng: Random) -> dict[str, float]:
    first = _coin(rng)
    return {"y": first, "z": first if rng.random() < 0.8 else 1.0 - first}


VALUES: dict[str, Callable[[Random], Any]] = {
    "0 or 1": _coin,
    "between 0 and 1": _skewed,
    "two measures": _two,
}


def _policy_for(values: str) -> Policy:
    known = {"reward_range": (0, 1)} if values != "two measures" else {}
    measures = {"y": (0, 1), "z": (0, 1)}
    if known:
        return BlockBetting(Problem(3, SHARES, **known), delta=1e-9)
    return BlockBetting(Problem(3, SHARES, measures=measures, objective="y"), delta=1e-9)


# ----------------------------------------------------------------------------------- logs


@dataclass
class _Log:
    """A log that is written pull by pull."""

    pulls: PullHistories
    due: list[tuple[float, int, str, Any, int]] = field(default_factory=list)

    def add(self, kind: str, number: int, action: int, value: Any, body: str | None = None) -> None:
        """Add an event."""
        if isinstance(value, dict):
            value, body = None, json.dumps({"outcome": value})
        self.pulls.add(0, kind, number, action, None, value, None, body)

    def happen(self, until: float) -> None:
        """Add what happens up to this time, in order."""
        self.due.sort(key=lambda each: each[:2])
        while self.due and self.due[0][0] <= until:
            _, number, kind, value, action = self.due.pop(0)
            self.add(kind, number, action, value)


def _looks(values: str, course: Course, rng: Random) -> Iterator[PullHistories]:
    """Yield the log of a run whenever somebody looks at it."""
    log = _Log(PullHistories([], has_measures=values == "two measures"))
    for number in range(PULLS):
        group = "x" if rng.random() < SHARES["x"] else "y"
        action = 2 * int(rng.integers(3)) + ("x", "y").index(group)
        said = json.dumps({"context": {"group": group}, "propensity": 1 / 3})
        log.add("ask", number, action, None, said)
        for after, kind, outcome in course(rng, VALUES[values](rng)):
            log.due.append((number + after, number, kind, outcome, action))
        log.happen(number)
        if (number + 1) % (PULLS // LOOKS) == 0:
            yield log.pulls
    for later in range(1, LOOKS_LATER + 1):
        log.happen(PULLS + 2 * PULLS * later / LOOKS_LATER)
        yield log.pulls


# --------------------------------------------------------------------------------- alarms


def _alarms(log: PullHistories, policy: Policy, level: float) -> set[str]:
    evidence.FALSE_ALARM = share_test.FALSE_ALARM = level
    found = [warning.sentence for warning in warnings_in(log, policy)]
    return {check for check, words in CHECKS.items() if any(words in each for each in found)}


def _ever(values: str, course: Course, policy: Policy, seed: int) -> dict[float, set[str]]:
    """Return for each level which checks ever raised an alarm during a run."""
    ever: dict[float, set[str]] = {level: set() for level in LEVELS}
    for log in _looks(values, course, np.random.default_rng([seed, 23])):
        for level in LEVELS:
            new = _alarms(log, policy, level)
            ever[level] |= new
            if not new:
                break
    return ever


def run(*, quick: bool) -> None:
    """Print the share of runs in which each check ever raised an alarm."""
    runs = 40 if quick else 400
    looks = f"{LOOKS} looks and {LOOKS_LATER} afterwards"
    print(f"\nno assumption is broken: {PULLS} pulls, {looks}, {runs} runs")
    print("share of runs with an alarm at the level " + " / ".join(map(str, LEVELS)))
    print(f"{'values':<18}{'results':<50}" + "".join(f"{check:>16}" for check in CHECKS))
    usual = evidence.FALSE_ALARM
    try:
        for values in VALUES:
            policy = _policy_for(values)
            for name, course in COURSES.items():
                found = [_ever(values, course, policy, seed) for seed in range(runs)]
                rates = "".join(
                    f"{' / '.join(f'{_share(found, level, check):.3f}' for level in LEVELS):>16}"
                    for check in CHECKS
                )
                print(f"{values:<18}{name:<50}{rates}", flush=True)
    finally:
        evidence.FALSE_ALARM = share_test.FALSE_ALARM = usual


def _share(found: list[dict[float, set[str]]], level: float, check: str) -> float:
    return float(np.mean([check in each[level] for each in found]))
