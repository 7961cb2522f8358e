"""Kernels that count no references lose none and free nothing twice."""

import gc

import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

from fairtrial import causal, delayed, linear, subpopulations
from fairtrial.core.compilation import apart, compiled, counted, kernel, uncounted, use_tier
from fairtrial.simulation import simulate
from tests import effort

PLAIN = subpopulations.Problem(4, 1, floors=None, noise_std=1.0)
FLOORS = subpopulations.Problem(3, 2, floors=0.0, noise_std=1.0)
RANGE = subpopulations.Problem(3, 2, floors=0.1, reward_range=(0, 1))
CONTROL = subpopulations.Problem(3, 2, floors=None, control="0", margin=0.1, noise_std=1.0)
MEASURES = subpopulations.Problem(
    3, 1, measures={"y": (0, 1), "z": (0, 1)}, objective="y", ceilings={"z": 0.5}
)


def gaussian(problem):
    arms, groups = problem.shape
    means = np.linspace(0.6, 0.2, arms * groups).reshape(arms, groups)
    return subpopulations.GaussianEnvironment(problem, means)


CASES = {
    "plain": (PLAIN, gaussian(PLAIN)),
    "floors": (FLOORS, gaussian(FLOORS)),
    "range": (RANGE, subpopulations.BernoulliEnvironment(RANGE, np.full((3, 2), 0.4))),
    "control": (CONTROL, gaussian(CONTROL)),
    "measures": (
        MEASURES,
        subpopulations.BernoulliEnvironment(
            MEASURES, [[[0.6, 0.2]], [[0.4, 0.2]], [[0.5, 0.6]]], correlation=0.0
        ),
    ),
}


FEATURES = [[1, 0], [0, 1], [0.7, 0.7]]
TABLES = {"a": [[0.5, 0.5], [0.4, 0.6]], "b": [[0.2, 0.8], [0.1, 0.9]]}


def other(name):
    """Return a policy of another family and its environment."""
    if name == "causal":
        problem, environment = causal.chain(0.4, TABLES, [0.1, 0.9], 0.2)
        return causal.BlockBetting(problem, seed=2), environment
    if name == "linear":
        problem = linear.Problem(FEATURES, noise_std=1.0)
        environment = linear.GaussianEnvironment(problem, [1.0, 0.2])
        return linear.BlockBetting(problem, seed=2), environment
    tolerance = 0.1 if name == "delayed, tolerance" else 0.0
    problem = delayed.Problem(5, 2, noise_std=1.0, tolerance=tolerance)
    environment = delayed.SimulatedEnvironment(problem, np.linspace(1, 0, 5), loss=0.1)
    return delayed.BlockBetting(problem, seed=2), environment


OTHERS = ("delayed", "delayed, tolerance", "linear", "causal")


@pytest.fixture(autouse=True)
def _counting():
    before = _nrt_python.memsys_stats_enabled()
    _nrt_python.memsys_enable_stats()
    yield
    if not before:
        _nrt_python.memsys_disable_stats()


def in_use():
    """Return how many blocks of memory and how many arrays compiled code has not freed."""
    gc.collect()
    stats = rtsys.get_allocation_stats()
    return stats.alloc - stats.free, stats.mi_alloc - stats.mi_free


@pytest.mark.parametrize(
    ("case", "block_draws"),
    [
        *((case, False) for case in CASES),
        *effort.first(2, [(case, True) for case in CASES if case != "measures"]),
    ],
)
def test_simulations_leave_no_memory_in_use(case, block_draws):
    problem, environment = CASES[case]
    policy = subpopulations.BlockBetting(problem, block_draws=block_draws)

    def run():
        simulate(policy, environment, 3, seed=1, horizon=400, progress=False)

    run()
    before = in_use()
    run()
    assert in_use() == before


@pytest.mark.parametrize("case", CASES)
def test_a_live_policy_leaves_no_memory_in_use(case):
    problem, _ = CASES[case]

    def play():
        policy, generator = subpopulations.BlockBetting(problem, seed=2), np.random.default_rng(3)
        for _ in range(150):
            value = float(generator.random() < 0.4)
            policy.tell(policy.ask(), {"y": value, "z": value} if problem.measures else value)
        policy.progress()

    use_tier("compile")
    try:
        play()
        before = in_use()
        play()
        assert in_use() == before
    finally:
        use_tier("auto")


@pytest.mark.parametrize("name", OTHERS)
def test_simulations_of_other_families_leave_no_memory_in_use(name):
    policy, environment = other(name)

    def run():
        simulate(policy, environment, 3, seed=1, horizon=400, progress=False)

    run()
    before = in_use()
    run()
    assert in_use() == before


@pytest.mark.parametrize("name", OTHERS)
def test_a_live_policy_of_another_family_leaves_no_memory_in_use(name):
    def play():
        policy, environment = other(name)
        generator = np.random.default_rng(3)
        for number in range(150):
            if policy.stopped:
                break
            pull = policy.ask()
            if number % 10 == 9 and name != "causal":
                policy.fail(pull)
            elif name == "causal":
                policy.tell(pull, environment.sample(pull, generator))
            else:
                policy.tell(pull, generator.normal())
        policy.progress()

    use_tier("compile")
    try:
        play()
        before = in_use()
        play()
        assert in_use() == before
    finally:
        use_tier("auto")


def test_what_allocates_can_be_called_by_what_does_not_count():
    @counted
    def allocates(x):
        return np.full(4, x).sum()

    @uncounted
    def between(x):
        return allocates(x) + 1.0

    @kernel
    def outer(x):
        return between(x) + allocates(x)

    with compiled():
        assert outer(2.0) == 17.0
        before = in_use()
        assert outer(2.0) == 17.0
    assert in_use() == before


def test_what_is_apart_frees_what_it_allocates_whoever_calls_it_first():
    @apart
    def allocates(x):
        return np.full(4, x).sum()

    @uncounted
    def between(x):
        return allocates(x) + 1.0

    @kernel
    def outer(x):
        return between(x) + allocates(x)

    with compiled():
        assert outer(2.0) == 17.0
        before = in_use()
        assert outer(2.0) == 17.0
    assert in_use() == before


def test_a_lost_reference_would_be_noticed():
    @counted
    def made(x):
        return np.full(4, x)

    @uncounted
    def loses(x):
        return made(x)[1]

    with compiled():
        loses(2.0)
        before = in_use()
        loses(2.0)
    assert in_use() != before
