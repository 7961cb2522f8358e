"""Policies of every family with problems and environments: the input of whole-family tests.

`tests/testing/test_families.py` checks their contract, `tests/golden` their decisions.
"""

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fairtrial import allocation, causal, delayed, linear, subpopulations
from fairtrial.core import Environment, Policy, Problem, Pull, Reading, Trajectory

Instance = tuple[Problem, Environment]

# ----------------------------------------------------------------------- subpopulations


def known_noise() -> Instance:
    problem = subpopulations.Problem(["a", "b", "c"], ["x", "y"], floors=0.0, noise_std=1.0)
    means = [[1.6, 1.4], [2.4, -1.6], [0.3, 0.2]]
    return problem, subpopulations.GaussianEnvironment(problem, means)


def far_apart() -> Instance:
    """Cells with different noise and weight; some have no floor, and small is good."""
    problem = subpopulations.Problem(
        ["a", "b", "c"],
        {"x": 0.31, "y": 0.69},
        floors=[[0.8, None], [0.8, 1.2], [None, 1.2]],
        noise_std=[[0.5, 0.7], [0.6, 0.4], [0.9, 0.5]],
        direction="minimize",
    )
    means = [[0.1, 0.45], [0.2, 1.9], [1.3, 0.85]]
    return problem, subpopulations.GaussianEnvironment(problem, means)


def held_back() -> Instance:
    """The same, but the value of a result may influence when it is told."""
    problem, environment = far_apart()
    problem = problem.clone(delay_depends_on_outcome=True)
    return problem, environment.clone(problem=problem)


def narrow_gap() -> Instance:
    """Hundreds of pulls are needed, in blocks that grow with their number."""
    problem = subpopulations.Problem(["a", "b"], ["x", "y"], floors=-0.4, noise_std=1.0)
    means = [[0.25, 0.35], [0.55, 0.7]]
    return problem, subpopulations.GaussianEnvironment(problem, means)


def no_limits() -> Instance:
    """No cell has a floor, which needs a different plan."""
    problem = subpopulations.Problem(4, {"x": 0.42, "y": 0.58}, floors=None, noise_std=[0.7, 0.9])
    means = [[0.1, 0.4], [0.9, 0.3], [0.7, 1.3], [0.2, -0.5]]
    return problem, subpopulations.GaussianEnvironment(problem, means)


def no_limits_in_a_range() -> Instance:
    problem = subpopulations.Problem(
        3, {"x": 0.42, "y": 0.58}, floors=None, reward_range=(-1, 2), direction="minimize"
    )
    means = [[0.8, 0.7], [0.1, 0.15], [0.55, 0.9]]
    return problem, subpopulations.BernoulliEnvironment(problem, means)


def bounded() -> Instance:
    problem = subpopulations.Problem(["a", "b"], ["x", "y"], floors=0.3, reward_range=(0, 1))
    return problem, subpopulations.BernoulliEnvironment(problem, [[0.9, 0.8], [0.4, 0.1]])


class ReportedEarly(Environment):
    """The first measure of a pull is known before the others; the last one is sometimes lost."""

    def __init__(self, base: Environment) -> None:
        self.problem, self.base = base.problem, base

    def sample(self, pull: Pull, generator: np.random.Generator) -> Any:
        drawn = dict(self.base.sample(pull, generator))
        if generator.random() < 0.1:
            drawn[self.problem.measures[-1]] = None
        return drawn

    def trajectory(self, pull: Pull, generator: np.random.Generator) -> Trajectory:
        outcome = self.sample(pull, generator)
        first = self.problem.measures[0]
        early = Reading(0.5, {first: outcome[first]})  # type: ignore[arg-type]
        return Trajectory(outcome, 1.0, (early,))


def guardrails() -> Instance:
    """Two measures of a pull, one of them with limits by group and overall."""
    problem = subpopulations.Problem(
        ["low", "mid", "high"],
        {"x": 0.61, "y": 0.39},
        measures={"effect": (0, 1), "harm": (0, 2)},
        objective="effect",
        floors={"effect": 0.17},
        ceilings={"harm": 0.83, ("harm", subpopulations.OVERALL): 0.67},
    )
    means = [[[0.2, 0.2], [0.3, 0.3]], [[0.7, 0.3], [0.8, 0.4]], [[0.85, 1.6], [0.9, 1.5]]]
    return problem, subpopulations.BernoulliEnvironment(problem, means, correlation=0.2)


def guardrails_reported_early() -> Instance:
    problem, environment = guardrails()
    return problem, ReportedEarly(environment)


def guardrails_of_known_noise() -> Instance:
    """An objective of two measures; the covariance of their noise is known."""
    problem = subpopulations.Problem(
        ["low", "mid", "high"],
        ["x", "y"],
        measures=["gain", "harm"],
        objective={"gain": 1.0, "harm": 0.43},
        direction="minimize",
        ceilings={"gain": {"low": 2.3, "mid": 2.1, "high": None}},
        floors={("harm", "x"): -0.4},
        noise_cov=[[1.0, 0.4], [0.4, 0.7]],
    )
    means = [[[1.5, 0.5], [1.2, 0.4]], [[0.3, 0.2], [0.1, 0.4]], [[-0.5, -1.5], [0.2, 0.1]]]
    return problem, subpopulations.GaussianEnvironment(problem, means)


def guardrails_of_known_scales() -> Instance:
    problem, environment = guardrails_of_known_noise()
    changed = problem.clone(noise_cov=None, noise_std={"gain": 1.0, "harm": 0.8}, tolerance=0.1)
    return changed, subpopulations.GaussianEnvironment(changed, environment.cell_means)


def intervals() -> Instance:
    """Means must also stay below a ceiling."""
    problem = subpopulations.Problem(
        ["low", "mid", "high"],
        {"x": 0.5, "y": 0.3, "z": 0.2},
        floors=0.2,
        ceilings=[0.7, 0.75, None],
        reward_range=(0, 1),
    )
    means = [[0.02, 0.02, 0.4], [0.45, 0.48, 0.95], [0.99, 0.99, 0.95]]
    return problem, subpopulations.BernoulliEnvironment(problem, means)


def unknown_noise() -> Instance:
    problem = subpopulations.Problem(
        ["a", "b", "c"], {"x": 0.4, "y": 0.6}, floors={"x": None, "y": 0.1}, noise_std="estimated"
    )
    means = [[0.9, 0.8], [1.4, -0.6], [0.2, 0.3]]
    return problem, subpopulations.GaussianEnvironment(problem, means, std=0.7)


def close_enough() -> Instance:
    """An answer near the best is acceptable, in the mean and at the floors."""
    problem = subpopulations.Problem(
        3,
        2,
        [0.45, 0.55],
        floors=0.0,
        noise_std=[[0.8, 0.7], [0.9, 0.75], [0.6, 0.85]],
        costs=[[1, 2], [1.2, 1], [3, 1.1]],
        tolerance=0.3,
        floor_tolerance=0.2,
    )
    means = [[1.8, 1.4], [1.1, 0.9], [0.1, -1.1]]
    return problem, subpopulations.GaussianEnvironment(problem, means)


# ------------------------------------------------------------------------------- linear


def features() -> Instance:
    problem = linear.Problem([[1, 0.1], [-0.3, 0.95], [0.8, 0.75]], noise_std=[0.517, 0.4, 0.45])
    return problem, linear.GaussianEnvironment(problem, [1.0, 0.0])


def narrow_angle() -> Instance:
    """Hundreds of pulls are needed, in blocks that grow with their number."""
    problem = linear.Problem([[1, 0.1], [0.1, 1], [0.9, 0.35]], noise_std=1.0)
    return problem, linear.GaussianEnvironment(problem, [1.0, 0.0])


def other_candidates() -> Instance:
    """Four columns of rank three, noise by arm, candidates that cannot be pulled; small is good."""
    arms = np.array([[1.0, 0.1, 0.0], [0.2, 1.1, 0.3], [0.0, 0.4, 0.9], [0.5, -0.3, 0.8]])
    wanted = np.array([[0.9, 0.6, 0.1], [0.1, 0.8, 0.7], [0.6, 0.1, 1.1]])
    dependent = np.array([[1.0, 0.0, 0.0, 0.5], [0.0, 1.0, 0.0, -0.25], [0.0, 0.0, 1.0, 1.5]])
    problem = linear.Problem(
        arms @ dependent,
        candidates=wanted @ dependent,
        noise_std=[1.0, 1.1, 0.9, 1.3],
        direction="minimize",
    )
    return problem, linear.GaussianEnvironment(problem, [1.1, -0.4, 0.3, 0.0])


def clicks() -> Instance:
    problem = linear.Problem(
        [[1, 0.1, 0.0], [1, 0.9, 0.2], [1, 0.3, 1.0], [1, 0.95, 0.9]], reward_range=(0, 1)
    )
    return problem, linear.BernoulliEnvironment(problem, [0.05, 0.6, 0.25])


def residuals() -> Instance:
    rows = [[1, 0.2], [1, 0.95], [1, 0.55], [1, -0.4], [1, -1.1]]
    problem = linear.Problem(rows, noise_std="estimated")
    return problem, linear.GaussianEnvironment(problem, [0.5, 1.2], std=1.5)


def best_two() -> Instance:
    problem = linear.Problem(
        [[1, 0.1], [0.2, 1.1], [0.75, 0.6], [-0.5, 0.4]], noise_std=1.2, top=2, tolerance=0.15
    )
    return problem, linear.GaussianEnvironment(problem, [1.3, 0.1])


def not_quite_linear() -> Instance:
    problem = linear.Problem(
        [[1, 0.1], [0.2, 1.1], [0.75, 0.6], [-0.5, 0.4]], noise_std=0.6, misspecification=0.02
    )
    return problem, linear.GaussianEnvironment(problem, [1.3, 0.1])


def limited() -> Instance:
    """Other predictions have limits, some against a control; small is good; noise by arm."""
    tried = [[1, 0.1, 0], [1, 0.1, 1.1], [1, 0.6, 0], [1, 0.55, 0.9], [1, 1.05, 0.1], [1, 1, 1]]
    problem = linear.Problem(
        tried,
        candidates=[[1, 0.1, 1], [1, 0.55, 1], [1, 1, 1]],
        answers=["low", "mid", "high"],
        noise_std=[0.5, 0.55, 0.6, 0.52, 0.47, 0.58],
        direction="minimize",
        control="low",
        floors=[0.9, None, 0.8],
        limits={
            "cold": {"features": [[1, 0.1, 0], [1, 0.55, 0], [1, 1, 0]], "margin": 0.15},
            "hot": {
                "features": [[1, 0.1, 1.3], [1, 0.55, 1.3], [1, 1, 1.3]],
                "ceilings": [None, -0.2, 0.15],
            },
        },
    )
    return problem, linear.GaussianEnvironment(problem, [0.7, -0.6, -0.2])


def limited_clicks() -> Instance:
    problem = linear.Problem(
        [[1, 0.1, 0.0], [1, 0.9, 0.2], [1, 0.3, 1.0], [1, 0.95, 0.9]],
        reward_range=(0, 1),
        floors=[None, 0.45, 0.4, 0.3],
        ceilings=0.95,
        tolerance=0.05,
        floor_tolerance=0.04,
    )
    return problem, linear.BernoulliEnvironment(problem, [0.05, 0.6, 0.25])


# ------------------------------------------------------------------------------ delayed


def late() -> Instance:
    problem = delayed.Problem(4, top=2, noise_std=1.0)
    return problem, delayed.SimulatedEnvironment(problem, [0, 1, 2, 3], delay=4.0)


def late_and_close() -> Instance:
    """Hundreds of pulls are needed, in blocks that grow with their number."""
    problem = delayed.Problem(3, noise_std=1.0)
    return problem, delayed.SimulatedEnvironment(problem, [0.1, 0.55, 0.8], delay=3.0)


def early_readings() -> Instance:
    problem = delayed.Problem(4, top=2, noise_std=1.0, feedback="unbiased", reading_std=0.5)
    return problem, delayed.SimulatedEnvironment(problem, [0, 1, 3, 4.5], delay=4.0)


def biased_readings() -> Instance:
    problem = delayed.Problem(
        ["a", "b", "c"],
        noise_std=[0.6, 0.8, 0.7],
        feedback="biased",
        reading_std=[0.2, 0.3, 0.25],
        direction="minimize",
        tolerance=0.2,
    )
    environment = delayed.SimulatedEnvironment(
        problem,
        [0.1, 1.9, 2.6],
        delay=delayed.UniformDelay(2, 6),
        bias=[0.4, -0.3, 0.2],
    )
    return problem, environment


def pieces() -> Instance:
    problem = delayed.Problem(
        3, top=1, noise_std=1.0, feedback="incremental", duration=[3.0, 4.0, 5.0]
    )
    return problem, delayed.SimulatedEnvironment(problem, [0.2, 1.1, 2.7])


def forecasts() -> Instance:
    problem = delayed.Problem(
        9, top=2, noise_std=0.5, feedback="refining", reading_std=1.0, errors="nested"
    )
    means = [0.3, 0.1, 2.9, 0.7, 1.9, 0.2, 1.0, 0.6, 0.4]
    return problem, delayed.SimulatedEnvironment(problem, means, delay=6.0, errors="nested")


def late_by_outcome() -> Instance:
    """Delays depend on outcomes, and so do failures, which have a value."""
    problem = delayed.Problem(
        ["a", "b", "c"],
        noise_std=0.7,
        delay_depends_on_outcome=True,
        failure="outcome",
        failure_value=-1.0,
    )
    environment = delayed.SimulatedEnvironment(
        problem, [0.0, 1.0, 2.4], delay=delayed.OutcomeDelay(1, 5), loss=0.05
    )
    return problem, environment


def late_unknown_noise() -> Instance:
    problem = delayed.Problem(["a", "b", "c"], noise_std="estimated")
    environment = delayed.SimulatedEnvironment(
        problem, [0.1, 0.7, 1.9], std=[0.5, 0.6, 0.4], delay=delayed.GeometricDelay(3.0)
    )
    return problem, environment


def late_scores() -> Instance:
    """Recorded outcomes in a range."""
    problem = delayed.Problem(["a", "b", "c", "d"], top=2, reward_range=(0, 1))
    rng = np.random.default_rng(7)
    means, number = [0.05, 0.15, 0.85, 0.95], 40
    table = {
        "arm": [arm for arm in problem.arms for _ in range(number)],
        "curve": [*range(number)] * 4,
        "elapsed": [float(1 + place % 5) for place in range(4 * number)],
        "value": [round(float(rng.beta(4 * m, 4 * (1 - m))), 3) for m in means for _ in range(40)],
    }
    return problem, delayed.CurveEnvironment(problem, table)


def late_scores_minimized() -> Instance:
    """Lost pulls have a value, and an answer that is nearly the best is acceptable."""
    problem, environment = late_scores()
    changed = problem.clone(top=1, direction="minimize", tolerance=0.1, failure_value=0.95)
    return changed, environment.clone(problem=changed)


# ------------------------------------------------------------------------------- paired


class SharedBlocks(Environment):
    """Scores with a common part: the block of the pull, its tag."""

    def __init__(self, problem: Problem, means: list[float], spread: float) -> None:
        self.problem, self.means, self.spread = problem, means, spread

    def sample(self, pull: Pull, generator: np.random.Generator) -> float:
        shared = np.random.default_rng(pull.tag).uniform(-self.spread, self.spread)
        own = np.random.default_rng([pull.tag, pull.action]).uniform(-self.spread, self.spread)
        return float(self.means[pull.action] + (shared + own) / 2)


def scores() -> Instance:
    problem = delayed.Problem(["a", "b", "c", "d"], reward_range=(0, 1))
    return problem, SharedBlocks(problem, [0.2, 0.35, 0.8, 0.45], 0.2)


def scores_with_limits() -> Instance:
    problem = delayed.Problem(["a", "b", "c", "d"], reward_range=(0, 1), control="d")
    return problem, SharedBlocks(problem, [0.2, 0.35, 0.8, 0.6], 0.2)


def losses() -> Instance:
    problem = delayed.Problem(3, noise_std="estimated", direction="minimize", tolerance=0.1)
    return problem, SharedBlocks(problem, [0.9, 1.1, 1.6], 0.6)


# --------------------------------------------------------------------------- allocation


def shares() -> Instance:
    problem = allocation.Problem(["a", "b", "c"], shares=["1/5", "3/10", "1/4"])
    return problem, allocation.BernoulliEnvironment(problem, [0.3, 0.4, 0.5])


def loose_shares() -> Instance:
    problem = allocation.Problem(
        4, shares=["1/10", 0.15, "1/12", 0], unfairness_tolerance=3, reward_range=(-1, 1)
    )
    return problem, allocation.BernoulliEnvironment(problem, [0.3, 0.4, 0.5, 0.8])


def share_groups() -> Instance:
    problem = allocation.Problem(
        ["a", "b", "c", "d"],
        {"a": "1/20", "c": "1/10"},
        groups={"new": ("3/10", ["a", "b"]), "old": ("2/5", ["c", "d"])},
    )
    return problem, allocation.BernoulliEnvironment(problem, [0.3, 0.4, 0.5, 0.2])


def several_plays() -> Instance:
    problem = allocation.Problem(4, ["1/5", "3/5", "1/4", 0], plays=2)
    return problem, allocation.BernoulliEnvironment(problem, [0.3, 0.4, 0.5, 0.6])


def sleepers() -> Instance:
    problem = allocation.Problem(
        ["a", "b", "c"], shares=["1/10", "1/5", "3/20"], unfairness_tolerance=1
    )
    return problem, allocation.SleepingEnvironment(problem, [0.3, 0.4, 0.5], 0.7)


def contexts() -> Instance:
    problem = allocation.Problem(3, shares="1/5")
    means = [[0.8, 0.2, 0.4], [0.1, 0.7, 0.5]]
    return problem, allocation.ContextualEnvironment(problem, means, [2, 1])


# ------------------------------------------------------------------------------- causal


def interventions() -> Instance:
    return causal.chain(0.5, {"k0": [[0.9, 0.1]] * 2, "k1": [[0.2, 0.8]] * 2}, [0.2, 0.9], 0.2)


def costly_interventions() -> Instance:
    """Three arms and three states; one arm is unfair; rows have a cost."""
    arms = {
        "now": [[0.6, 0.3, 0.1], [0.5, 0.35, 0.15]],
        "new": [[0.1, 0.2, 0.7], [0.15, 0.2, 0.65]],
        "unfair": [[0.0, 0.1, 0.9], [0.8, 0.15, 0.05]],
    }
    costs = [[1, 2, 2.5], [1.5, 2, 3], [1, 4, 2]]
    return causal.chain(0.35, arms, [0.1, 0.45, 0.95], 0.4, costs=costs, mean_budget=2.6)


def observed_interventions() -> Instance:
    """The sensitive attribute has a parent and cannot be forced; small outcomes are good."""
    model = causal.CausalModel(
        [("A", "S"), ("S", "V"), ("A", "V"), ("V", "Y")],
        {"A": 2, "S": ["s", "t"], "V": 2, "Y": 2},
        {"A": [0.4, 0.6], "S": [[0.3, 0.7], [0.6, 0.4]], "Y": [[0.85, 0.15], [0.2, 0.8]]},
    )
    arms = {
        "k": [[[0.7, 0.3], [0.6, 0.4]], [[0.65, 0.35], [0.8, 0.2]]],
        "j": [[[0.2, 0.8], [0.3, 0.7]], [[0.4, 0.6], [0.1, 0.9]]],
        "i": [[[0.9, 0.1], [0.1, 0.9]], [[0.2, 0.8], [0.9, 0.1]]],
    }
    problem = causal.Problem(
        model, "S", "V", "Y", arms, 0.45, forcing="never", direction="minimize"
    )
    return problem, causal.NetworkEnvironment(problem)


INSTANCES: list[Callable[[], Instance]] = [
    known_noise, far_apart, held_back, narrow_gap, no_limits, no_limits_in_a_range, bounded,
    intervals, unknown_noise, close_enough,
    features, narrow_angle, other_candidates, clicks, residuals, best_two, not_quite_linear,
    limited, limited_clicks,
    late, late_and_close, early_readings, biased_readings, pieces, forecasts, late_by_outcome,
    late_unknown_noise, late_scores, late_scores_minimized,
    shares, loose_shares, share_groups, several_plays, sleepers, contexts,
    interventions, costly_interventions, observed_interventions,
]  # fmt: skip


class Row(NamedTuple):
    """A policy with a suitable problem, and the policy's arguments."""

    instance: Callable[[], Instance]
    policy: type[Policy]
    options: dict[str, Any]

    @property
    def name(self) -> str:
        """Family, problem, policy and arguments."""
        family = self.policy.__module__.split(".")[1]
        options = [
            value if isinstance(value, str) else type(value).__name__
            if hasattr(value, "get_params") else key if value is True else f"{key}={value}"
            for key, value in self.options.items()
        ]  # fmt: skip
        return "-".join([family, self.instance.__name__, self.policy.__name__, *options])

    def make(self) -> tuple[Policy, Environment]:
        """Return a fresh policy and its environment."""
        problem, environment = self.instance()
        return self.policy(problem, seed=1, **self.options), environment


def _rows(
    module: Any, names: str, *wanted: Callable[[], Instance], **options: Any
) -> list[tuple[Callable[[], Instance], type[Policy], dict[str, Any]]]:
    """Return a row for each policy and problem."""
    return [(each, getattr(module, name), options) for name in names.split() for each in wanted]


_BUDGET = {"budget": 100}

_SUBPOPULATIONS = [
    *_rows(subpopulations, "BlockBetting",
           known_noise, far_apart, narrow_gap, no_limits, no_limits_in_a_range, bounded, intervals),
    *_rows(subpopulations, "BlockBetting", bounded, losses="ignorable"),
    *_rows(subpopulations, "BlockBetting", known_noise, intervals, randomize=False),
    *_rows(subpopulations, "BlockBetting", known_noise, bounded, randomize="bernoulli"),
    *_rows(subpopulations, "BlockBetting", close_enough),
    *_rows(subpopulations, "BlockBetting", known_noise, batch=7, initial_pulls=2, max_pulls=60),
    *_rows(subpopulations, "BlockBetting", guardrails, guardrails_of_known_noise,
           guardrails_of_known_scales, guardrails_reported_early),
    *_rows(subpopulations, "BlockBetting", guardrails_reported_early, losses="ignorable"),
    *_rows(subpopulations, "BalancedTracking",
           known_noise, no_limits, unknown_noise, intervals, close_enough),
    *_rows(subpopulations, "BalancedTracking", held_back),
    *_rows(subpopulations, "TrackAndStop", far_apart, unknown_noise, close_enough),
    *_rows(subpopulations, "ExactTracking", far_apart, bounded),
    *_rows(subpopulations, "PlainTrackAndStop", known_noise, far_apart, stopping="stylised"),
    *_rows(subpopulations, "RoundRobin", known_noise, unknown_noise),
    *_rows(subpopulations, "UniformSampling", known_noise, bounded),
]  # fmt: skip

_LINEAR = [
    *_rows(linear, "BlockBetting",
           features, narrow_angle, other_candidates, clicks, best_two, not_quite_linear,
           limited, limited_clicks),
    *_rows(linear, "BlockBetting", limited, randomize="bernoulli"),
    *_rows(linear, "BlockBetting", clicks, randomize=False),
    *_rows(linear, "BlockBetting", features, clicks, randomize="bernoulli"),
    *_rows(linear, "LinGapE", features, other_candidates, residuals, best_two),
    *_rows(linear, "LazyTrackAndStop LinGame FrankWolfeSampling",
           features, other_candidates, residuals),
    *_rows(linear, "LinGapE", features, stopping=linear.RidgeLevel(norm_bound=2.0)),
    *_rows(linear, "FullyAdaptiveXY", features, other_candidates),
    *_rows(linear, "FullyAdaptiveXY", clicks, ties="random"),
    *_rows(linear, "Rage", features, clicks),
    *_rows(linear, "XYAdaptive", features, other_candidates, clicks),
    *_rows(linear, "GAllocation", features, other_candidates, clicks),
    *_rows(linear, "XYAllocation", features),
    *_rows(linear, "XYAllocation", clicks, shares=[0.3137, 0.2389, 0.2722, 0.1752]),
    *_rows(linear, "GAllocation", not_quite_linear, stopping="mixture"),
    *_rows(linear, "XYOracle", features, theta=[1.0, 0.0]),
    *_rows(linear, "XYOracle", clicks, theta=[0.05, 0.6, 0.25], stopping="static"),
    *_rows(linear, "ODLinBAI", features, clicks, **_BUDGET),
]  # fmt: skip

_DELAYED = [
    *_rows(delayed, "BlockBetting", late, late_and_close, late_scores, late_scores_minimized),
    *_rows(delayed, "BlockBetting", late_scores, randomize=False),
    *_rows(delayed, "BlockBetting", late, late_scores, randomize="bernoulli"),
    *_rows(delayed, "InformationRacing",
           late, early_readings, biased_readings, pieces, forecasts, late_by_outcome,
           late_unknown_noise),
    *_rows(delayed, "InformationRacing", early_readings, test="box", sampling="uniform"),
    *_rows(delayed, "InformationRacing", late, sampling="top_two", parallel=3, per_arm=2),
    *_rows(delayed, "InformationRacing", early_readings, truncate=2, max_readings=150),
    *_rows(delayed, "InformationRacing", pieces, truncate="auto", max_time=300.0),
    *_rows(delayed, "Racing", late, early_readings, biased_readings, pieces),
    *_rows(delayed, "Racing", late_scores, variant="full", running_intersection=True),
    *_rows(delayed, "Racing", early_readings, variant="partial"),
    *_rows(delayed, "PairedRacing", scores),
    *_rows(delayed, "PairedRacing", losses, parallel=4),
    *_rows(delayed, "PairedRacing", scores, n_blocks=9),
    *_rows(delayed, "PairedRacing", scores_with_limits, n_blocks=60, delta=0.4, margin=0.05,
           skips=True),
    *_rows(delayed, "SequentialHalving SuccessiveRejects", late, **_BUDGET),
    *_rows(delayed, "SequentialHalving SuccessiveRejects", forecasts, budget=30),
    *_rows(delayed, "SuccessiveHalving ASHA", early_readings, forecasts),
    *_rows(delayed, "SuccessiveHalving", pieces, pulls=3, eta=2.0),
    *_rows(delayed, "Hyperband", forecasts, biased_readings, max_readings=5),
    *_rows(delayed, "MedianStopping", early_readings, forecasts, budget=50),
]  # fmt: skip

_ALLOCATION = [
    *_rows(allocation, "FairLearn", shares, loose_shares, share_groups, several_plays, sleepers),
    *_rows(allocation, "FairLearn", contexts, contexts=2),
    *_rows(allocation, "FairLearn", shares, learner=allocation.UCB1(), carry=2),
    *_rows(allocation, "FairLearn", shares, learner=allocation.Greedy(), scheduler="largest"),
    *_rows(allocation, "FairLearn", loose_shares, learner=allocation.KLUCB(), scheduler="lazy"),
    *_rows(allocation, "FairLearn", loose_shares, learner=allocation.EpsilonGreedy(0.2),
           scheduler="lazy", mask=True),
    *_rows(allocation, "FairLearn", loose_shares, learner=allocation.SlidingWindowUCB(20)),
    *_rows(allocation, "FairLearn", loose_shares, learner=allocation.UCB1(), price=2.0),
    *_rows(allocation, "FairLearn", sleepers, learner=allocation.RoundRobin()),
    *_rows(allocation, "FairUCB", shares, loose_shares, sleepers),
    *_rows(allocation, "UnconstrainedLearner", shares, sleepers),
    *_rows(allocation, "UnconstrainedLearner", loose_shares, learner=allocation.Random()),
    *_rows(allocation, "HorizonFairUCB", shares, loose_shares, horizon=40),
    *_rows(allocation, "LearningWithFairness ThompsonWithFairness", shares, sleepers, eta=3.0),
]  # fmt: skip

_CAUSAL = [
    *_rows(causal, "BlockBetting",
           interventions, costly_interventions, observed_interventions),
    *_rows(causal, "BlockBetting", observed_interventions, knowledge="covariates"),
    *_rows(causal, "BlockBetting", costly_interventions, knowledge="ratios", max_pulls=70),
    *_rows(causal, "BlockBetting", interventions, randomize="bernoulli"),
    *_rows(causal, "BlockBetting", interventions, randomize=False, batch=7),
    *_rows(causal, "PlugIn UniformSampling",
           interventions, costly_interventions, observed_interventions, **_BUDGET),
    *_rows(causal, "PlugIn", costly_interventions, estimator="sn", phased=True, **_BUDGET),
    *_rows(causal, "ConstraintSuccessiveRejection TwoStageRejection SuccessiveRejection",
           interventions, costly_interventions, **_BUDGET),
    *_rows(causal, "ConstraintSuccessiveRejection",
           observed_interventions, pool_natural=True, **_BUDGET),
    *_rows(causal, "ConstraintSuccessiveRejection TwoStageRejection SuccessiveRejection",
           costly_interventions, variant=1, **_BUDGET),
]  # fmt: skip

POLICY = operator.attrgetter("policy")
"""What rows of the same policy have in common: a short run of a costly test has half of them."""

POLICIES = [
    Row(*row)
    for family in (_SUBPOPULATIONS, _LINEAR, _DELAYED, _ALLOCATION, _CAUSAL)
    for row in family
]
