"""Every policy on every question of its family: pulls, errors, shares and costs."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import fairtrial as ft
from evidence.questions import DELTA, QUESTIONS, Question
from fairtrial.core import Environment, Policy
from fairtrial.errors import FairtrialError

__all__ = ["POLICIES", "measure_bounds", "measure_labels", "measure_policy", "slug"]

Maker = Callable[[Any, Question, Environment], Policy]

_LARGEST = 2_000
"""Most replications of a case, however fast they are."""
_PILOT = 3
"""Replications that load or compile the machine code, and show how long one takes."""


def _confident(name: str, **options: Any) -> Maker:
    return lambda family, question, environment: getattr(family, name)(
        environment.problem, delta=DELTA, **options
    )


def _budgeted(name: str, **options: Any) -> Maker:
    return lambda family, question, environment: getattr(family, name)(
        environment.problem, budget=question.budget, **options
    )


def _plain(name: str, **options: Any) -> Maker:
    return lambda family, question, environment: getattr(family, name)(
        environment.problem, **options
    )


def _oracle(family: Any, question: Question, environment: Any) -> Policy:
    made: Policy = family.XYOracle(environment.problem, environment.theta, delta=DELTA)
    return made


def _learning(learner: str, policy: str = "FairLearn", **options: Any) -> Maker:
    return lambda family, question, environment: getattr(family, policy)(
        environment.problem, learner=getattr(family, learner)(**options)
    )


def _at_the_end(family: Any, question: Question, environment: Any) -> Policy:
    made: Policy = family.HorizonFairUCB(environment.problem, horizon=question.horizon)
    return made


_CERTIFIED = (
    "BalancedTracking",
    "ExactTracking",
    "PlainTrackAndStop",
    "RoundRobin",
    "TrackAndStop",
    "UniformSampling",
)
_LINEAR = (
    "BlockBetting",
    "FrankWolfeSampling",
    "FullyAdaptiveXY",
    "GAllocation",
    "LazyTrackAndStop",
    "LinGame",
    "LinGapE",
    "Rage",
    "XYAdaptive",
    "XYAllocation",
)
_LEARNERS = (
    "EpsilonGreedy",
    "Greedy",
    "KLUCB",
    "Random",
    "RoundRobin",
    "Thompson",
    "UCB1",
)

POLICIES: dict[str, dict[str, Maker]] = {
    "subpopulations": {
        "BlockBetting": _confident("BlockBetting"),
        **{name: _confident(name) for name in _CERTIFIED},
        "BalancedTracking, stylised": _confident("BalancedTracking", stopping="stylised"),
    },
    "linear": {
        **{name: _confident(name) for name in _LINEAR},
        "XYOracle": _oracle,
        "ODLinBAI": _budgeted("ODLinBAI"),
    },
    "delayed": {
        "BlockBetting": _confident("BlockBetting"),
        "InformationRacing": _confident("InformationRacing"),
        "PairedRacing": _confident("PairedRacing"),
        "Racing": _confident("Racing"),
        "Racing, partial": _confident("Racing", variant="partial"),
        "SequentialHalving": _budgeted("SequentialHalving"),
        "SuccessiveRejects": _budgeted("SuccessiveRejects"),
        "MedianStopping": _budgeted("MedianStopping"),
        "SuccessiveHalving": _plain("SuccessiveHalving"),
        "ASHA": _plain("ASHA"),
        "Hyperband": _plain("Hyperband", max_readings=9),
    },
    "causal": {
        "BlockBetting": _confident("BlockBetting"),
        "PlugIn": _budgeted("PlugIn"),
        "ConstraintSuccessiveRejection": _budgeted("ConstraintSuccessiveRejection"),
        "TwoStageRejection": _budgeted("TwoStageRejection"),
        "SuccessiveRejection": _budgeted("SuccessiveRejection"),
        "UniformSampling": _budgeted("UniformSampling"),
    },
    "allocation": {
        **{f"FairLearn, {name}": _learning(name) for name in _LEARNERS},
        "FairLearn, SlidingWindowUCB": _learning("SlidingWindowUCB", width=1_000),
        "FairUCB": _plain("FairUCB"),
        "HorizonFairUCB": _at_the_end,
        "LearningWithFairness, eta 10": _plain("LearningWithFairness", eta=10.0),
        "ThompsonWithFairness, eta 10": _plain("ThompsonWithFairness", eta=10.0),
        "UnconstrainedLearner, Thompson": _learning("Thompson", "UnconstrainedLearner"),
    },
}
"""How each policy is made, by family and name; a name also tells options that are not defaults."""


def slug(policy: str) -> str:
    """Return the name of a policy as it is in the name of a file.

    Examples
    --------
    >>> slug("FairLearn, Thompson")
    'FairLearn-Thompson'
    """
    return policy.replace(", ", "-").replace(" ", "-")


def measure_bounds(
    family: str, skip: set[str], effort: float, seed: int
) -> Iterator[dict[str, Any]]:
    """Yield the lower bound of each question of a family."""
    for question in QUESTIONS[family]:
        if question.bounded and question.name not in skip and family != "allocation":
            yield {"case": question.name, "lower_bound": _finite(question.lower_bound())}


def measure_policy(
    family: str, name: str, skip: set[str], effort: float, seed: int
) -> Iterator[dict[str, Any]]:
    """Yield the figures of a policy on every question of its family that is not skipped.

    Parameters
    ----------
    family, name : str
        The family, and the policy's name in `POLICIES`.
    skip : set of str
        Names of questions to leave out.
    effort : float
        Seconds of processor time for each question.
    seed : int
        Source of all randomness.
    """
    for question in QUESTIONS[family]:
        if question.name not in skip:
            yield {"case": question.name, **_figures(family, name, question, effort, seed)}


def measure_labels(
    family: str, skip: set[str], effort: float, seed: int
) -> Iterator[dict[str, Any]]:
    """Yield the label of each policy after a live run on a question whose assumption is false."""
    [question] = [one for one in QUESTIONS[family] if one.broken]
    environment = question.make()
    for name, make in POLICIES[family].items():
        if name in skip:
            continue
        policy = make(getattr(ft, family), question, environment)
        label, pulls = policy.guarantee.label, 0
        generator = np.random.default_rng(seed)
        while not policy.stopped and pulls < question.horizon and policy.guarantee.label == label:
            pull = policy.ask()
            policy.tell(pull, environment.sample(pull, generator))
            pulls += 1
        yield {"case": name, "before": label, "label": policy.guarantee.label, "pulls": pulls}


def _figures(
    family: str, name: str, question: Question, effort: float, seed: int
) -> dict[str, Any]:
    module = getattr(ft, family)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        environment = question.make()
        try:
            policy = POLICIES[family][name](module, question, environment)
            _simulated(policy, environment, question, 1, seed)
        except FairtrialError as error:
            return {"missing": f"refused: {error}"}
        label = policy.guarantee.label
        replications = _replications(policy, environment, question, effort, seed)
        started = time.process_time()
        runs = _simulated(policy, environment, question, replications, seed)
        seconds = time.process_time() - started
    if family == "allocation":
        return _served(runs, label, seconds)
    budget = {"budget": policy.budget} if hasattr(policy, "budget") else {}
    return _decided(runs, label, seconds) | budget


def _simulated(
    policy: Policy, environment: Environment, question: Question, replications: int, seed: int
) -> ft.Simulation:
    return ft.simulate(
        policy,
        environment,
        replications,
        seed=seed,
        horizon=question.horizon,
        parallel=question.parallel,
        workers=1,
        progress=False,
    )


def _replications(
    policy: Policy, environment: Environment, question: Question, effort: float, seed: int
) -> int:
    """Return how many runs fit into the effort; the runs of the pilot do not count.

    The number depends on a pilot, not on the runs that are counted: stopping when the time is up
    would leave out long runs.
    """
    started = time.process_time()
    _simulated(policy, environment, question, _PILOT, seed + 1)
    each = (time.process_time() - started) / _PILOT
    return rounded_down(min(max(effort / max(each, 1e-9), _PILOT), _LARGEST))


def rounded_down(number: float) -> int:
    """Return the largest of 1, 2, 5, 10, 20, 50, ... that is not larger, or 3 below 5.

    Examples
    --------
    >>> [rounded_down(number) for number in (3.2, 7.0, 480.0, 2_000.0)]
    [3, 5, 200, 2000]
    """
    if number < 5:
        return max(int(number), 1)
    power = 10 ** math.floor(math.log10(number))
    return int(max(step for step in (1, 2, 5) if step * power <= number) * power)


def _decided(runs: ft.Simulation, label: str, seconds: float) -> dict[str, Any]:
    summary = runs.summary(quantiles=[0.99])
    pulls = int(runs.pulls.sum())
    return {
        "label": label,
        "replications": runs.replications,
        "mean": summary.stopping_time.mean,
        "standard_error": summary.stopping_time.standard_error,
        "quantile_99": summary.stopping_time.quantiles[0.99],
        "undecided": summary.undecided,
        "wrong": summary.wrong,
        "interval": summary.error_interval,
        "microseconds": 1e6 * seconds / max(pulls, 1),
    }


def _served(runs: ft.Simulation, label: str, seconds: float) -> dict[str, Any]:
    behind = runs.metrics["floored_violation"]
    # Where means change there is no best fixed plan to compare with.
    regret = runs.metrics.get("r_regret", np.full(len(runs), np.nan))
    return {
        "label": label,
        "replications": runs.replications,
        "rounds": int(runs.stopping_time.max()),
        "behind": int(behind.max()),
        "runs_behind": int((behind > 0).sum()),
        "regret": _finite(float(regret.mean())),
        "standard_error": _finite(float(np.std(regret) / len(runs) ** 0.5)),
        "microseconds": 1e6 * seconds / max(int(runs.pulls.sum()), 1),
    }


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
