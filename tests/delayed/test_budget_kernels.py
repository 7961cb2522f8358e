"""The compiled rules with a budget decide like slow and obvious ones, event by event."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fairtrial as ft
from fairtrial import delayed
from fairtrial.core import run_policy
from fairtrial.delayed import (
    CurveEnvironment,
    GeometricDelay,
    LognormalDelay,
    Problem,
    SimulatedEnvironment,
    UniformDelay,
)
from tests import effort
from tests.delayed import slow_budgets

# Names, and parameters for several kinds of rungs, rounds and brackets.
RULES = {
    "SuccessiveHalving": [
        {},
        {"pulls": 2},
        {"eta": 2.0, "min_readings": 2},
        {"eta": 1.5, "pulls": 3},
    ],
    "Hyperband": [
        {"max_readings": 9, "seed": 1},
        {"max_readings": 8, "eta": 2.0, "pulls": 2, "seed": 2},
    ],
    "ASHA": [{}, {"eta": 2.0}, {"eta": 1.3, "min_readings": 2}],
    "MedianStopping": [
        {"budget": 30, "min_completed": 2},
        {"budget": 25, "min_completed": 1, "min_readings": 3},
    ],
    "SequentialHalving": [{"budget": 40}, {"budget": 12}],
    "SuccessiveRejects": [{"budget": 40}, {"budget": 12}],
}
VARIANTS = [(name, parameters) for name, variants in RULES.items() for parameters in variants]
IDS = [f"{name} {number}" for name in RULES for number in range(len(RULES[name]))]

FEEDBACKS = {
    "unbiased": {"noise_std": 1.0, "feedback": "unbiased", "reading_std": 0.5},
    "biased": {"noise_std": 1.0, "feedback": "biased", "reading_std": 0.5},
    "refining": {"noise_std": 1.0, "feedback": "refining", "reading_std": 0.5},
    "incremental": {"noise_std": 1.0, "feedback": "incremental"},
}

# Few values, so that arms tie, with sums that depend on the order of summation.
VALUES = [-0.7, 0.1, 0.2, 0.3, 0.6, 1.1]
KINDS = [
    "ask", "ask", "read", "read", "read", "read early", "again", "tell", "tell", "fail",
    "cancel", "late tell", "late read", "data", "amend", "save",
]  # fmt: skip
EVENTS = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 40), st.sampled_from(VALUES)),
    min_size=20,
    max_size=250,
)


class Both:
    """A rule and its slow twin, which receive the same events."""

    def __init__(self, name, problem, parameters):
        self.problem = problem
        self.fast = getattr(delayed, name)(problem, **parameters)
        self.slow = getattr(slow_budgets, name)(problem, **parameters)
        self.told = []

    def __call__(self, what, *arguments, **details):
        for policy in (self.fast, self.slow):
            getattr(policy, what)(*arguments, **details)

    def ask(self, number, value):
        assert self.fast.ask(1 + number % 5) == self.slow.ask(1 + number % 5)

    def read(self, number, value):
        for pull in chosen(self.fast.outstanding(), number):
            self("report", pull, value)

    def read_early(self, number, value):
        """Report a reading of an earlier stage than the known ones."""
        for pull in chosen(self.fast.outstanding(), number):
            stage = 0.5 + len(self.slow.records[pull.tag].readings) / 100
            self("report", pull, value, stage=stage)

    def again(self, number, value):
        for pull in chosen(self.fast.outstanding(), number):
            for stage, known in self.slow.records[pull.tag].readings.items():
                self("report", pull, self.problem.sign * known, stage=stage)

    def tell(self, number, value):
        for pull in chosen(self.fast.outstanding(), number):
            self("tell", pull, value)
            self.told.append((pull, value))

    def fail(self, number, value):
        for pull in chosen(self.fast.outstanding(), number):
            self("fail", pull, "lost")

    def cancel(self, number, value):
        for pull in self.fast.to_cancel():
            self("fail", pull, "cancelled")

    def late_tell(self, number, value):
        for pull in chosen(lost(self.fast), number):
            self("tell", pull, value)
            self.told.append((pull, value))

    def late_read(self, number, value):
        for pull in chosen(lost(self.fast), number):
            self("report", pull, value)

    def data(self, number, value):
        self(
            "tell", self.problem.pull(arm=self.problem.arms[number % len(self.problem.arms)]), value
        )

    def amend(self, number, value):
        if self.told:
            pull, old = self.told.pop(number % len(self.told))
            self("amend", pull, old, value)
            self.told.append((pull, value))

    def save(self, number, value):
        """Continue the rule as another object, restored from its state."""
        fresh = self.fast.clone()
        fresh.set_state(self.fast.get_state())
        self.fast = fresh

    def happen(self, kind, number, value):
        getattr(self, kind.replace(" ", "_"))(number, value)
        self.compare()

    def compare(self):
        fast, slow = self.fast, self.slow
        assert fast.stopped == slow.stopped
        assert fast.to_cancel() == slow.to_cancel()
        assert fast.metrics() == slow.metrics()
        left, right = fast.recommend(), slow.recommend()
        assert (left.arm, left.status, left.leader) == (right.arm, right.status, right.leader)
        means = [self.problem.sign * mean for mean in slow.means()]
        shown = [estimate.mean for estimate in fast.progress().arms]
        assert shown == [mean if np.isfinite(mean) else None for mean in means]
        assert [estimate.pulls for estimate in fast.progress().arms] == list(
            map(len, slow.outcomes())
        )


def chosen(pulls, number):
    return [pulls[number % len(pulls)]] if pulls else []


def lost(policy):
    return [policy.in_flight(number) for number in policy._lost]


@pytest.mark.parametrize(("name", "parameters"), VARIANTS, ids=IDS)
@settings(max_examples=effort.runs(6, whole=25), suppress_health_check=[HealthCheck.too_slow])
@given(
    events=EVENTS,
    arms=st.integers(3, 12),
    top=st.integers(1, 3),
    feedback=st.sampled_from(list(FEEDBACKS)),
    direction=st.sampled_from(["maximize", "minimize"]),
)
def test_whatever_happens_a_rule_decides_as_its_slow_twin(
    name, parameters, events, arms, top, feedback, direction
):
    details = dict(FEEDBACKS[feedback])
    if feedback == "incremental":
        details["duration"] = np.arange(1.0, arms + 1.0)
    both = Both(name, Problem(arms, top=top, direction=direction, **details), parameters)
    for kind, number, value in events:
        both.happen(kind, number, value)


def walk(events):
    """Run every rule, uncompiled, through random events and a simulated run."""
    generator = np.random.default_rng(11)
    for (name, parameters), feedback in zip(VARIANTS, 14 * ["unbiased", "refining"], strict=False):
        problem = Problem(7, top=2, **FEEDBACKS[feedback])
        both = Both(name, problem, parameters)
        for _ in range(events):
            kind, value = generator.choice(KINDS), generator.choice(VALUES)
            both.happen(str(kind), int(generator.integers(40)), float(value))
        environment = SimulatedEnvironment(problem, generator.normal(size=7), 40.0, loss=0.1)
        require_equal(runs_of(name, parameters, problem, environment, 1, None, 3))


def test_no_kernel_reads_or_writes_beyond_its_arrays():
    """Uncompiled, because compiled code does not check indices."""
    events = effort.runs(30, whole=150)
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"from {__name__} import walk; walk({events})"],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        cwd=Path(__file__).parents[2],
        check=True,
    )


# ------------------------------------------------------------------------- whole runs


def runs_of(name, parameters, problem, environment, seed, horizon, parallel):
    """Return the compiled run, that of the plain loop, and that of the slow twin."""
    fast, slow = getattr(delayed, name), getattr(slow_budgets, name)
    generators = [np.random.default_rng(seed) for _ in range(3)]
    return [
        fast(problem, **parameters).compiled_run(environment, generators[0], horizon, parallel),
        run_policy(fast(problem, **parameters), environment, generators[1], horizon, parallel),
        run_policy(slow(problem, **parameters), environment, generators[2], horizon, parallel),
    ]


def require_equal(runs):
    first, *others = runs
    for other in others:
        assert other.pulls.tolist() == first.pulls.tolist()
        for field in ("answer", "status", "stopping_time", "elapsed", "cancelled", "metrics"):
            assert getattr(other, field) == getattr(first, field), field


DELAYS = {
    "same for all": 7.0,
    "by arm": None,
    "uniform": UniformDelay(1, 30),
    "geometric": GeometricDelay(5.0),
    "lognormal": LognormalDelay(10.0, 0.8),
}


@pytest.mark.parametrize(
    ("variant", "feedback"), effort.pairs(range(len(VARIANTS)), list(FEEDBACKS))
)
def test_a_compiled_run_is_the_run_of_the_plain_loop_and_of_the_slow_twin(variant, feedback):
    name, parameters = VARIANTS[variant]
    generator = np.random.default_rng(8)
    for number, (delay, parallel) in enumerate(zip(DELAYS, (1, 3, 7, 20, 4), strict=True)):
        # Three arms of which two are wanted have no rung except the outcome.
        arms = (11, 3, 9, 12, 3)[number]
        details = dict(FEEDBACKS[feedback], top=1 + number % 3, direction="minimize")
        own = DELAYS[delay] if delay != "by arm" else generator.integers(1, 60, arms).astype(float)
        if feedback == "incremental":
            details["duration"] = generator.integers(1, 60, arms).astype(float)
            own = None
        problem = Problem(arms, **details)
        means = generator.normal(size=arms)
        environment = SimulatedEnvironment(problem, means, own, loss=(0.0, 0.2)[number % 2])
        horizon = (None, 9)[number == 3]
        require_equal(runs_of(name, parameters, problem, environment, number, horizon, parallel))


@pytest.mark.parametrize(("name", "parameters"), VARIANTS, ids=IDS)
def test_recorded_curves_run_compiled_too(name, parameters):
    generator = np.random.default_rng(5)
    table = [
        {"arm": arm, "curve": curve, "elapsed": float(step), "value": round(generator.normal(), 1)}
        for arm in range(6)
        for curve in range(3)
        for step in range(1, generator.integers(2, 200))
    ]
    columns = {key: [row[key] for row in table] for key in table[0]}
    problem = Problem(6, noise_std=1.0, feedback="unbiased", reading_std=0.5, top=2)
    environment = CurveEnvironment(problem, columns)
    require_equal(runs_of(name, parameters, problem, environment, 3, None, 4))


@pytest.mark.parametrize("name", ["SequentialHalving", "SuccessiveRejects"])
def test_rounds_run_compiled_where_there_are_no_readings(name):
    problem = Problem(9, noise_std=1.0)
    environment = SimulatedEnvironment(
        problem, np.linspace(0.0, 1.0, 9), delay=LognormalDelay(5.0, 1.0)
    )
    require_equal(runs_of(name, {"budget": 100}, problem, environment, 2, None, 6))


@pytest.mark.parametrize("name", list(RULES))
def test_an_environment_that_only_python_knows_takes_the_plain_loop(name):
    problem = Problem(5, noise_std=1.0, feedback="unbiased", reading_std=0.5)
    environment = SimulatedEnvironment(
        problem, np.arange(5.0), delay=lambda arm, outcome, chance: 3.0
    )
    policy, generator = getattr(delayed, name)(problem, **RULES[name][0]), np.random.default_rng(1)
    assert policy.compiled_run(environment, generator, None) is None
    assert generator.random() == np.random.default_rng(1).random()
    begun = getattr(delayed, name)(problem, **RULES[name][0])
    begun.ask()
    own = SimulatedEnvironment(problem, np.arange(5.0), delay=3.0)
    assert begun.compiled_run(own, generator, None) is None


@pytest.mark.parametrize("name", list(RULES))
def test_a_simulation_is_compiled(name, monkeypatch):
    monkeypatch.setattr("fairtrial.simulation._replications.run_policy", refuse)
    problem = Problem(30, noise_std=1.0, feedback="unbiased", reading_std=0.5)
    environment = SimulatedEnvironment(problem, 3.0 * np.arange(30.0), delay=20.0)
    policy = getattr(delayed, name)(problem, **{**RULES[name][0], **budget_of(name)})
    found = ft.simulate(policy, environment, 4, parallel=6, progress=False)
    assert set(found.status) == {"decided"}
    assert (found.metrics["readings"] > 0).all()


def budget_of(name):
    return {"budget": 200} if "budget" in RULES[name][0] else {}


def refuse(*arguments):
    raise AssertionError("a run of this rule is compiled")


# ------------------------------------------------------------------------------ parts


@settings(max_examples=effort.runs(80, whole=200))
@given(st.integers(1, 2000), st.integers(0, 2**32 - 1))
def test_the_mean_of_readings_is_numpys_to_the_last_bit(number, seed):
    from fairtrial.delayed._kernels.budget_state import total

    generator = np.random.default_rng(seed)
    values = (generator.normal(size=number) * 10.0 ** generator.integers(-3, 4, number))[None]
    assert total(values, 0, number, np.zeros(64)) / number == values[0].mean()


def test_a_pull_with_more_readings_than_there_is_room_for_is_followed_all_the_same():
    problem = Problem(2, noise_std=1.0, feedback="unbiased", reading_std=0.5)
    both = Both("MedianStopping", problem, {"budget": 200, "min_completed": 1})
    generator = np.random.default_rng(2)
    for _ in range(100):
        both.ask(1, 0.0)
        for pull in both.fast.outstanding()[:1]:
            for value in generator.normal(size=generator.integers(1, 150)):
                both("report", pull, float(value))
        both.compare()
        both.tell(0, float(generator.normal()))
        both.cancel(0, 0.0)
    assert both.fast.asked == 200
