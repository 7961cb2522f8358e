"""Error rates of proven rules in adversarial environments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fairtrial.core import Policy, Run, Truth
from fairtrial.core.pull import Pull
from fairtrial.delayed import (
    CurveEnvironment,
    InformationRacing,
    LognormalDelay,
    OutcomeDelay,
    Problem,
    Racing,
    SimulatedEnvironment,
    UniformDelay,
)
from fairtrial.delayed.environments import TimedEnvironment
from papers.delayed.cache import Ratio, Runs, SimulationCache, most_wrong
from papers.report import AGREES, Row, Section, Table, share

__all__ = ["CASES", "Case", "promises", "stopped_runs"]

_DELTA = 0.05
_RUNS = (2_000, 60)
_GAP = 0.02

Rule = Callable[[Problem], Policy]
OUTCOMES: dict[str, Rule] = {
    "race, outcomes only": partial(Racing, variant="full"),
    "information, pairs": InformationRacing,
    "information, boxes": partial(InformationRacing, test="box"),
}
INFORMATION: dict[str, Rule] = {
    "information, pairs": InformationRacing,
    "information, boxes": partial(InformationRacing, test="box"),
}
ALL: dict[str, Rule] = {"race, proven": Racing, **INFORMATION}


@dataclass(frozen=True)
class Case:
    """A misleading environment, and the rules to try in it.

    Parameters
    ----------
    name : str
        Its name in the tables.
    make : callable
        Returns the environment.
    rules : mapping of str to callable
        Rules that are proven in this environment.
    horizon, parallel : int
        Maximum number of pulls of a run, and of pulls in flight.
    """

    name: str
    make: Callable[[], TimedEnvironment]
    rules: Mapping[str, Rule]
    horizon: int = 200
    parallel: int = 4


def _simulated(means: tuple[float, ...] = (0.0, _GAP), **settings: Any) -> TimedEnvironment:
    """Return an environment with noise 1; settings go to the problem or the environment."""
    environment = {name: settings.pop(name) for name in _OF_ENVIRONMENT if name in settings}
    problem = Problem(len(means), noise_std=1.0, **settings)
    return SimulatedEnvironment(problem, means, **environment)


_OF_ENVIRONMENT = ("delay", "loss", "bias")
_LATE: dict[str, Any] = {"delay": UniformDelay(1, 6), "loss": 0.1}


def _first() -> TimedEnvironment:
    problem = Problem(
        2, noise_std=1.0, feedback="refining", reading_std=1.0, errors="first", target_std=0.6
    )
    return SimulatedEnvironment(
        problem, [0.0, _GAP], delay=UniformDelay(1, 6), loss=0.1, errors="redrawn"
    )


def _coins(feedback: str) -> TimedEnvironment:
    """Return coins with chances .50 and .51, and readings that are off by .25 up or down."""
    rows: dict[str, list[float | str]] = {"arm": [], "curve": [], "elapsed": [], "value": []}
    for arm, heads in (("0", 50), ("1", 51)):
        for curve in range(400):
            outcome = float(curve // 4 < heads)
            errors = (0.25 * (-1.0) ** curve, 0.25 * (-1.0) ** (curve // 2))
            for elapsed, value in enumerate((*(outcome + error for error in errors), outcome)):
                rows["arm"].append(arm)
                rows["curve"].append(curve)
                rows["elapsed"].append(elapsed + 1.0)
                rows["value"].append(value)
    reading_std = {"reading_std": 0.25} if feedback == "unbiased" else {}
    problem = Problem(2, reward_range=(0, 1), feedback=feedback, **reading_std)  # type: ignore[arg-type]
    return CurveEnvironment(problem, rows)


def _five() -> TimedEnvironment:
    problem = Problem(5, top=2, noise_std=1.0, feedback="unbiased", reading_std=0.5)
    means = [1.0, _GAP, 0.0, 0.0, -1.0]
    return SimulatedEnvironment(problem, means, delay=LognormalDelay(2.0, 1.5))


CASES = (
    Case("outcomes only, late, some lost", lambda: _simulated(**_LATE), OUTCOMES),
    Case(
        "unbiased readings, late, some lost",
        lambda: _simulated(feedback="unbiased", reading_std=0.5, **_LATE),
        ALL,
    ),
    Case(
        "biased readings, +3 and -3",
        lambda: _simulated(feedback="biased", reading_std=0.5, bias=[3.0, -3.0], **_LATE),
        ALL,
    ),
    Case(
        "refining readings, nested",
        lambda: _simulated(feedback="refining", reading_std=1.0, errors="nested", **_LATE),
        INFORMATION,
    ),
    Case("refining, the first good one counts", _first, INFORMATION),
    Case(
        "pieces of outcomes",
        lambda: _simulated(feedback="incremental", duration=4, loss=0.1),
        ALL,
    ),
    Case("two of five, heavy-tailed delays", _five, ALL, horizon=150, parallel=10),
    Case(
        "the better arm 25 times slower",
        lambda: _simulated(feedback="unbiased", reading_std=0.5, delay=[1.0, 25.0]),
        ALL,
        horizon=100,
        parallel=20,
    ),
    Case(
        "called back after two readings",
        lambda: _simulated(feedback="unbiased", reading_std=0.5, delay=5.0),
        {
            "information, pairs": partial(InformationRacing, truncate=2),
            "information, boxes": partial(InformationRacing, truncate=2, test="box"),
        },
    ),
    Case("coins, outcomes only", lambda: _coins("full"), OUTCOMES),
    Case("coins, with readings", lambda: _coins("unbiased"), {"race, proven": Racing}),
    Case(
        "the better arm's bad outcomes first",
        lambda: _simulated(
            means=(0.0, _GAP),
            delay=OutcomeDelay([50, 1], [50, 20_000]),
            delay_depends_on_outcome=True,
        ),
        OUTCOMES,
        horizon=1_000,
        parallel=100,
    ),
)
"""Environments that compiled code can run."""


def promises(cache: SimulationCache) -> Section:
    """Measure how often proven rules err in the environments that are hardest for them."""
    return Section(
        "promises",
        "How often proven rules err",
        "Two arms .02 sigma apart, unless a row says otherwise: so close that within the maximum "
        f"number of pulls a right answer is luck. delta = {_DELTA:g} bounds the share of runs "
        "that ever give a wrong answer. A row agrees if this share is at most delta plus three "
        "standard errors. Every rule shown states a proven guarantee for its environment. Pulls "
        "are stopped, and results held back, according to their readings; this cannot fool a "
        "rule that counts those readings. The third table shows what happens if an assumption is "
        "broken: there, a row agrees if the rule is fooled as expected.",
        (
            Table(
                tuple(_rows(cache)),
                "Delays, losses, cancelled pulls; outcomes that determine delays",
            ),
            Table(tuple(_adversaries(cache)), "An adversary who wants the worse arm to win"),
            Table(tuple(_broken(cache)), "Assumptions broken"),
            Table(tuple(_price(cache)), "What delays that depend on outcomes cost, ten arms"),
        ),
    )


def _rows(cache: SimulationCache) -> Iterator[Row]:
    number = cache.number(*_RUNS)
    for case in CASES:
        environment = case.make()
        for name, make in case.rules.items():
            policy = make(environment.problem)
            runs = cache.simulate(policy, environment, number, case.parallel, case.horizon)
            yield _row(case.name, name, policy, runs)


def _row(environment: str, rule: str, policy: Policy, runs: Runs) -> Row:
    wrong, decided = int(runs.wrong.sum()), int(runs.decided.sum())
    return {
        "environment": environment,
        "rule": rule,
        "guarantee": policy.guarantee.label,
        "runs": runs.number,
        "wrong": wrong,
        "share": share(wrong, runs.number),
        "decided": decided,
        AGREES: wrong <= most_wrong(runs.number, _DELTA),
    }


# ------------------------------------------------------------------------- adversaries

_MOST_PULLS = 60
_HELD = 6
_UNBIASED = Problem(2, noise_std=1.0, feedback="unbiased", reading_std=0.3)
_TRUTH = Truth(("1",), (("1",),), np.array([0.0, _GAP]))


def _adversaries(cache: SimulationCache) -> Iterator[Row]:
    number = cache.number(*_RUNS)
    for name, make in INFORMATION.items():
        policy = make(_UNBIASED)
        stopped = stopped_runs(cache, policy, number, Stopper("read"))
        yield _row("stops pulls that read badly", name, policy, stopped)
    for name, make in INFORMATION.items():
        policy = make(_UNBIASED)
        held = Runs.of(cache.each(partial(_held_back, policy), number))
        yield _row("holds back results that read badly", name, policy, held)


@dataclass(frozen=True)
class Stopper:
    """An adversary that stops pulls so that the first of two arms wins.

    Parameters
    ----------
    by : {"read", "dropped", "hidden"}
        What the decision is based on. ``"read"``: a reading, which is reported. ``"dropped"``: a
        reading that is hidden from the rule; the pull is reported as lost. ``"hidden"``: the
        outcome, before anyone else knows it.
    reading_std : float
        Deviation of the reading.
    """

    by: str
    reading_std: float = 0.3


def stopped_runs(
    cache: SimulationCache, policy: Policy, number: int, stopper: Stopper, most: int = _MOST_PULLS
) -> Runs:
    """Return runs of at most `most` pulls in which an adversary stops some of them."""
    return Runs.of(cache.each(partial(_stopped, policy, stopper, most), number))


def _stopped(
    policy: Policy, stopper: Stopper, most: int, generator: np.random.Generator
) -> tuple[Run, Truth]:
    race, hidden = policy.clone(), stopper.by == "dropped"
    while not _is_over(race, most):
        pull = race.ask()
        assert isinstance(pull, Pull)
        outcome = generator.normal(_GAP * pull.action)
        reading = outcome + stopper.reading_std * generator.standard_normal()
        if not hidden:
            race.report(pull, reading, stage=1)
        if _is_over(race, most):
            break
        seen = outcome if stopper.by == "hidden" else reading
        if pull.action == 0 and seen < 0.0:
            race.fail(pull, "lost" if hidden else "user")
        elif pull.action == 1 and seen > 0.0 and stopper.by == "read":
            race.fail(pull, "user")
        else:
            race.tell(pull, outcome)
    return _run_of(race), _TRUTH


def _held_back(policy: Policy, generator: np.random.Generator) -> tuple[Run, Truth]:
    """Deliver the results of six pulls in flight in the order that favours the first arm."""
    race = policy.clone()
    waiting: list[tuple[float, Pull, float]] = []
    while not _is_over(race, _MOST_PULLS):
        while len(waiting) < _HELD and not _is_over(race, _MOST_PULLS):
            pull = race.ask()
            assert isinstance(pull, Pull)
            outcome = generator.normal(_GAP * pull.action)
            reading = outcome + 0.3 * generator.standard_normal()
            race.report(pull, reading, stage=1)
            suits = reading if pull.action == 0 else -reading
            waiting.append((suits, pull, outcome))
        if _is_over(race, _MOST_PULLS):
            break
        best = max(range(len(waiting)), key=lambda place: waiting[place][0])
        _, pull, outcome = waiting.pop(best)
        race.tell(pull, outcome)
    return _run_of(race), _TRUTH


def _is_over(race: Policy, most: int) -> bool:
    return race.stopped or race.asked >= most


def _run_of(race: Policy) -> Run:
    answer = race.recommend()
    pulls = np.array([race.asked], dtype=np.int64)
    return Run(answer.arm, answer.status, race.told, pulls, float(race.told))


# ------------------------------------------------------------------ assumptions broken


def _broken(cache: SimulationCache) -> Iterator[Row]:
    number = cache.number(1_000, 30)
    for stopper, said, reference, fooled in (
        (Stopper("read", 0.5), "bad pulls stopped by a reading that counts", 0.002, False),
        (Stopper("dropped", 0.5), "... by a reading that is dropped and never reported", 1.0, True),
        (Stopper("hidden", 2.0), "... by the outcome, before anyone else knows it", 1.0, True),
    ):
        problem = Problem(2, noise_std=1.0, feedback="unbiased", reading_std=stopper.reading_std)
        policy = InformationRacing(problem)
        runs = stopped_runs(cache, policy, number, stopper, most=400)
        yield _broken_row(said, runs, reference, fooled)
    number = cache.number(200, 16)
    for errors, readings, fooled in (("redrawn", 2_000, True), ("nested", 200, False)):
        runs = _refining_runs(cache, errors, readings, number)
        said = f"errors stated as nested, {errors} at each of {readings:,} readings"
        yield _broken_row(said, runs, None, fooled)
    number = cache.number(400, 16)
    for switch, fooled in ((False, True), (True, False)):
        problem = Problem(2, noise_std=1.0, delay_depends_on_outcome=switch)
        delay = OutcomeDelay([50, 1], [50, 20_000])
        environment = SimulatedEnvironment(problem, [0.0, 0.3], delay=delay)
        policy = InformationRacing(problem, sampling="uniform")
        runs = cache.simulate(policy, environment, number, parallel=100, horizon=1_500)
        said = "delays grow with outcomes, which is " + ("stated" if switch else "not stated")
        yield _broken_row(said, runs, None, fooled)


def _broken_row(said: str, runs: Runs, reference: float | None, fooled: bool) -> Row:
    wrong, limit = int(runs.wrong.sum()), most_wrong(runs.number, _DELTA)
    return {
        "what happens": said,
        "runs": runs.number,
        "wrong": wrong,
        "share": share(wrong, runs.number),
        "reference": reference,
        "fooled": "yes" if wrong > limit else "no",
        AGREES: (wrong > limit) == fooled,
    }


def _refining_runs(cache: SimulationCache, errors: str, readings: int, number: int) -> Runs:
    """Return runs with readings whose errors keep their size, but are declared as nested."""
    problem = Problem(2, noise_std=1.0, feedback="refining", reading_std=2.0, errors="nested")
    environment = SimulatedEnvironment(
        problem, [0.0, _GAP], delay=float(readings), errors=errors, shrink=0.0
    )
    return cache.simulate(InformationRacing(problem), environment, number, parallel=10, horizon=60)


# ------------------------------------------------------------------- what the switch costs


_TEN_MEANS = (1.0, *(0.5 - 0.1 * place for place in range(9)))


def _price(cache: SimulationCache) -> Iterator[Row]:
    number = cache.number(100, 10)
    for test in ("pairwise", "box"):
        with_switch, without = (_ten_arms(cache, test, switch, number) for switch in (True, False))
        ratio = Ratio.of(with_switch.elapsed, without.elapsed)
        yield {
            "test": test,
            "runs": number,
            "time / time without the switch": ratio.text,
            "wrong": int(with_switch.wrong.sum()),
            "wrong without": int(without.wrong.sum()),
            AGREES: not with_switch.wrong.any(),
        }


def _ten_arms(cache: SimulationCache, test: str, switch: bool, number: int) -> Runs:
    """Return races of ten arms in which good outcomes of the best arm arrive late."""
    problem = Problem(10, noise_std=1.0, delay_depends_on_outcome=switch)
    delay = OutcomeDelay([1, *[50] * 9], [2_000, *[50] * 9])
    environment = SimulatedEnvironment(problem, _TEN_MEANS, delay=delay)
    policy = InformationRacing(problem, test=test, sampling="uniform")
    return cache.simulate(policy, environment, number, parallel=50)
