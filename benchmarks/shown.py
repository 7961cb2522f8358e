"""What is shown beside a decision, under attack: how often "anytime" intervals miss the true mean.

Results come late depending on their values, get lost depending on them, or are blank in a table of
a finished experiment. A study counts as missed if, at any look, the interval of the first mean does
not contain the truth although it is called "anytime"; in some studies of linear arms, if that of
any mean does not, or that of a difference. At most delta of all studies may. "Met" counts the
studies that say so of a limit which the truth misses; for each such limit, at most delta of all
studies may.
"""

from __future__ import annotations

import contextlib
import io
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairtrial import allocation, analyse, causal, delayed, linear, subpopulations
from fairtrial.cli.status_tables import print_standing
from fairtrial.core import Policy, Progress, Pull

DELTA = 0.1
PULLS = 120
IN_FLIGHT = 30
LOOK_EVERY = 10

Delivery = Callable[[Policy, list[tuple[Pull, float]], np.random.Generator], None]
"""Tells or fails at least one of the open pulls, whose results are given."""


def run(*, quick: bool) -> None:
    """Print for every family and attack how often intervals missed, and how often "met" was."""
    runs = 20 if quick else 400
    print(f"\n{runs} studies of {PULLS} pulls, delta {DELTA}; one standard error in brackets")
    print(
        f"{'family':<34}{'attack':<22}{'missed':>16}{'met, though missed':>20}{'approximate':>13}"
    )
    for family, attacks in ATTACKS.items():
        for attack, study in attacks.items():
            _show(family, attack, [study(seed) for seed in range(runs)])


@dataclass(frozen=True)
class Outcome:
    """Whether a study's interval ever missed, "met" was said, and intervals were approximate."""

    missed: bool
    met: bool
    approximate: bool


def _show(family: str, attack: str, found: list[Outcome]) -> None:
    missed, met = (np.mean([getattr(one, name) for one in found]) for name in ("missed", "met"))
    approximate = np.mean([one.approximate for one in found])
    error = math.sqrt(max(missed * (1 - missed), DELTA * (1 - DELTA)) / len(found))
    said = f"{missed:.3f} ({error:.3f})"
    print(f"{family:<34}{attack:<22}{said:>16}{met:>20.3f}{approximate:>13.2f}", flush=True)


# ------------------------------------------------------------------------------ deliveries


def best_first(policy: Policy, waiting: list[tuple[Pull, float]], _: np.random.Generator) -> None:
    """Tell the largest of the open results."""
    policy.tell(*waiting.pop(max(range(len(waiting)), key=lambda place: waiting[place][1])))


def zeros_lost(policy: Policy, waiting: list[tuple[Pull, float]], rng: np.random.Generator) -> None:
    """Lose 30 % of the small results."""
    pull, value = waiting.pop(0)
    if value < 0.25 and rng.random() < 0.3:
        policy.fail(pull)
    else:
        policy.tell(pull, value)


def both(policy: Policy, waiting: list[tuple[Pull, float]], rng: np.random.Generator) -> None:
    """Tell the largest of the open results first, and lose 30 % of the small ones."""
    waiting.sort(key=lambda one: -one[1])
    zeros_lost(policy, waiting, rng)


DELIVERIES: Mapping[str, Delivery] = {
    "best first": best_first,
    "30 % of zeros lost": zeros_lost,
    "both": both,
}


# --------------------------------------------------------------------------------- studies


def _watch(
    policy: Policy, sample: Callable[[np.random.Generator, Pull], float],
    misses: Callable[[Progress], bool], deliver: Delivery, seed: int,
) -> Outcome:  # fmt: skip
    """Run a study of a policy, and return whether what it shows ever misses the truth."""
    rng, waiting = np.random.default_rng(seed), list[tuple[Pull, float]]()
    missed = False
    for step in range(3 * PULLS):
        while len(waiting) < IN_FLIGHT and policy.asked < PULLS and not policy.stopped:
            issued = policy.ask(1)
            if not issued:
                break
            waiting += [(pull, sample(rng, pull)) for pull in issued]
        if not waiting:
            break
        deliver(policy, waiting, rng)
        if step % LOOK_EVERY == 0 or not waiting:
            missed |= misses(policy.progress())
    progress = policy.progress()
    approximate = progress.intervals == "approximate"
    return Outcome(missed or misses(progress), _says_met(progress), approximate)


def _misses(progress: Progress, true: float = 0.5) -> bool:
    """Return whether the interval of the first mean misses the truth."""
    first = progress.actions[0]
    if progress.intervals != "anytime" or first.lower is None or first.upper is None:
        return False
    return not first.lower - 1e-9 <= true <= first.upper + 1e-9


def _says_met(progress: Progress) -> bool:
    """Return whether `study show` says of any limit that it is met."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        print_standing(progress, minimize=False)
    return (
        re.search(
            r"\N{BOX DRAWINGS LIGHT VERTICAL} met +\N{BOX DRAWINGS LIGHT VERTICAL}", text.getvalue()
        )
        is not None
    )


def _coin(rng: np.random.Generator, _: Pull) -> float:
    return float(rng.random() < 0.5)


def _normal(rng: np.random.Generator, _: Pull) -> float:
    return float(rng.normal(0.5, 0.5))


def _attacked(
    make: Callable[[int], Policy], sample: Callable[[np.random.Generator, Pull], float]
) -> dict[str, Callable[[int], Outcome]]:
    """Return the studies of a policy with every delivery."""

    def attack(deliver: Delivery) -> Callable[[int], Outcome]:
        return lambda seed: _watch(make(seed), sample, _misses, deliver, seed)

    return {name: attack(deliver) for name, deliver in DELIVERIES.items()}


BLOCKS: Mapping[str, Any] = {"delta": DELTA, "initial_pulls": 15, "batch": 30}
RANGE: Mapping[str, Any] = {"reward_range": (0, 1)}
NOISE: Mapping[str, Any] = {"noise_std": 0.5}


def _cells(known: Mapping[str, Any]) -> Callable[[int], Policy]:
    problem = subpopulations.Problem(["a", "b"], 1, floors=0.52, **known)
    return lambda seed: subpopulations.BlockBetting(problem, seed=seed, **BLOCKS)


def _tracker(known: Mapping[str, Any]) -> Callable[[int], Policy]:
    problem = subpopulations.Problem(["a", "b"], 1, floors=0.52, **known)
    return lambda seed: subpopulations.BalancedTracking(problem, delta=DELTA, seed=seed)


def _features(known: Mapping[str, Any]) -> Callable[[int], Policy]:
    problem = linear.Problem([[1.0, 0.0], [1.0, 1.0]], arms=["a", "b"], **known)
    return lambda seed: linear.BlockBetting(problem, seed=seed, **BLOCKS)


def _gaps(known: Mapping[str, Any]) -> Callable[[int], Policy]:
    problem = linear.Problem([[1.0, 0.0], [1.0, 1.0]], arms=["a", "b"], **known)
    return lambda seed: linear.LinGapE(problem, delta=DELTA, seed=seed)


def _all_of_linear(deliver: Delivery, *, differences: bool) -> Callable[[int], Outcome]:
    """Return studies of linear arms with rare successes.

    All means are watched, or a difference.
    """
    rates = [0.1, 0.1, 0.2, 0.2, 0.15]
    features = [[1.0, 0, 0], [1, 1, 0], [1, 0, 1], [1, 1, 1], [1, 0.5, 0.5]]
    problem = linear.Problem(features, arms=list("abcde"), control="a", **RANGE)

    def misses(progress: Progress) -> bool:
        if differences:
            found = [(one, 0.1) for one in progress.effects if one.arm == "c"]
        else:
            found = list(zip(progress.arms, rates, strict=True))
        if progress.intervals != "anytime":
            return False
        return any(
            not one.lower - 1e-9 <= true <= one.upper + 1e-9
            for one, true in found
            if one.lower is not None and one.upper is not None
        )

    def study(seed: int) -> Outcome:
        policy = linear.BlockBetting(problem, seed=seed, **BLOCKS)
        return _watch(
            policy,
            lambda rng, pull: float(rng.random() < rates[pull.action]),
            misses,
            deliver,
            seed,
        )

    return study


def _races(known: Mapping[str, Any]) -> Callable[[int], Policy]:
    problem = delayed.Problem(["a", "b"], **known)
    return lambda seed: delayed.BlockBetting(problem, seed=seed, **BLOCKS)


def _racing(known: Mapping[str, Any]) -> Callable[[int], Policy]:
    problem = delayed.Problem(["a", "b"], **known)
    return lambda seed: delayed.Racing(problem, delta=DELTA, seed=seed)


def _serving(_: int) -> Policy:
    problem = allocation.Problem(["a", "b"], ["1/5", "1/5"])
    return allocation.FairLearn(problem, learner=allocation.UCB1(), seed=1)


# ------------------------------------------------------------------------ several measures


def _of_measures(seed: int, known: Mapping[str, Any], *, late: bool) -> Outcome:
    """Guard a measure whose bad values are reported as missing in 30 % of all cases."""
    problem = subpopulations.Problem(
        ["a", "b"], 1, objective="good", ceilings={"bad": 0.48}, floors={}, **known
    )
    policy = subpopulations.BlockBetting(problem, seed=seed, **BLOCKS)
    rng, missed = np.random.default_rng(seed), False
    waiting: list[tuple[Pull, float, float | None]] = []
    for step in range(2 * PULLS):
        if policy.stopped:
            break
        if policy.asked < PULLS and len(waiting) < IN_FLIGHT:
            waiting += [(pull, *_good_and_bad(rng, late)) for pull in policy.ask(1)]
            if len(waiting) < IN_FLIGHT:
                continue
        if not waiting:
            break
        place = min(range(len(waiting)), key=lambda at: waiting[at][2] or 0.0) if late else 0
        pull, good, bad = waiting.pop(place)
        policy.tell(pull, {"good": good, "bad": bad})
        if step % LOOK_EVERY == 0:
            missed |= _misses_bad(policy.progress())
    progress = policy.progress()
    approximate = progress.intervals == "approximate"
    return Outcome(missed or _misses_bad(progress), _says_met(progress), approximate)


def _good_and_bad(rng: np.random.Generator, late: bool) -> tuple[float, float | None]:
    good, bad = float(rng.random() < 0.5), float(rng.random() < 0.5)
    return good, None if bad and not late and rng.random() < 0.3 else bad


def _misses_bad(progress: Progress) -> bool:
    harm = progress.actions[1]
    if progress.intervals != "anytime" or harm.lower is None or harm.upper is None:
        return False
    return not harm.lower <= 0.5 <= harm.upper


MEASURED: Mapping[str, Mapping[str, Any]] = {
    "measures, ranges": {"measures": {"good": (0, 1), "bad": (0, 1)}},
    "measures, known noise": {
        "measures": ["good", "bad"],
        "noise_std": {"good": 0.5, "bad": 0.5},
    },
}


def _of_kind(known: Mapping[str, Any], *, late: bool) -> Callable[[int], Outcome]:
    return lambda seed: _of_measures(seed, known, late=late)


# -------------------------------------------------------------------- finished experiments


def _analysed(known: Mapping[str, Any]) -> Callable[[int], Outcome]:
    problem = subpopulations.Problem(["a", "b"], 1, floors=0.52, **known)

    def study(seed: int) -> Outcome:
        rng = np.random.default_rng(seed)
        values = (rng.random(2 * PULLS) < 0.5).astype(float)
        blank = (values == 0.0) & (rng.random(2 * PULLS) < 0.3)
        table = {
            "arm": [("a", "b")[place % 2] for place in range(2 * PULLS)],
            "outcome": [None if gone else value for gone, value in zip(blank, values, strict=True)],
            "group": ["0"] * (2 * PULLS),
        }
        with analyse(problem, table, DELTA, order="as given") as found:
            progress = found.progress()
        approximate = progress.intervals == "approximate"
        return Outcome(_misses(progress, 0.5), _says_met(progress), approximate)

    return study


# ---------------------------------------------------------------------------------- causal


def _intervened(deliver: str) -> Callable[[int], Outcome]:
    arms = {"a": [[0.5, 0.5], [0.5, 0.5]], "b": [[0.5, 0.5], [0.5, 0.5]]}
    problem, environment = causal.chain(0.5, arms, [0.1, 0.9], fairness_bound=0.2)

    def study(seed: int) -> Outcome:
        policy, rng = (
            causal.BlockBetting(problem, delta=DELTA, seed=seed),
            np.random.default_rng(seed),
        )
        missed = False
        for _ in range(PULLS // IN_FLIGHT):
            rows = [(pull, environment.sample(pull, rng)) for pull in policy.ask(IN_FLIGHT)]
            if deliver == "best first":
                rows.sort(key=lambda one: -float(one[1][problem.outcome.name]))
            for pull, row in rows:
                if deliver != "best first" and not row[problem.outcome.name] and rng.random() < 0.3:
                    policy.fail(pull)
                else:
                    policy.tell(pull, row)
            missed |= _misses(policy.progress(), 0.5)
        progress = policy.progress()
        return Outcome(missed, _says_met(progress), progress.intervals == "approximate")

    return study


ATTACKS: Mapping[str, Mapping[str, Callable[[int], Outcome]]] = {
    "subpopulations, range": _attacked(_cells(RANGE), _coin),
    "subpopulations, known noise": _attacked(_cells(NOISE), _normal),
    **{
        name: {
            "30 % of harms None": _of_kind(known, late=False),
            "harmless first": _of_kind(known, late=True),
        }
        for name, known in MEASURED.items()
    },
    "analyse, range": {"30 % of zeros blank": _analysed(RANGE)},
    "analyse, known noise": {"30 % of zeros blank": _analysed(NOISE)},
    "linear, range": _attacked(_features(RANGE), _coin),
    **{
        f"linear, range, {name}": {
            attack: _all_of_linear(deliver, differences=differences)
            for attack, deliver in DELIVERIES.items()
        }
        for name, differences in (("all means at once", False), ("a difference", True))
    },
    "linear, known noise": _attacked(_features(NOISE), _normal),
    "delayed, range": _attacked(_races(RANGE), _coin),
    "delayed, known noise": _attacked(_races(NOISE), _normal),
    "BalancedTracking, range": _attacked(_tracker(RANGE), _coin),
    "LinGapE, range": _attacked(_gaps(RANGE), _coin),
    "Racing, known noise": _attacked(_racing(NOISE), _normal),
    "allocation": _attacked(_serving, _coin),
    "causal": {name: _intervened(name) for name in ("best first", "30 % of zeros lost")},
}
