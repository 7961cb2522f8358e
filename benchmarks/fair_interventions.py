"""Rows and error rates of block betting for the best fair intervention.

Our means are printed next to those of an independent implementation of the same rule. Further parts
measure: the cost of a run and of a row; variants of the rule, and logs; the share of runs in which
the right answer is ever rejected although it is barely right; and error rates if tables are
estimated from records, which no proof covers.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial import Simulation, simulate
from fairtrial.causal import BlockBetting, CausalModel, NetworkEnvironment, Problem, read
from fairtrial.data import adult_offer, hepar2
from tests.causal.betting_instances import HARD_NULLS, direct, region, small, three, tiny

DELTA = 0.1
MOST_ROWS = 200_000
MOST_ROWS_OF_A_NULL = 2_000
MOST_ROWS_IF_ESTIMATED = 20_000

MOST_ROWS_OF_A_LOG = 3_000

ROWS_BEFORE_A_PLAN = 20
"""Size of the first block, on which nothing is bet."""

VARIANTS = {
    "small-1": (216, 340, 0.027),
    "three": (352, 489, 0.017),
    "hepar, fibrosis": (166, 625, 0.080),
    "hepar, PBC": (285, 281, 0.022),
    "offers, easy": (344, 336, 0.006),
}
"""From another implementation: rows drawn one by one, rows with a mean budget, their cost."""

RECORDS = (100, 300, 1_000, 3_000, 10_000, 100_000)
_ESTIMATED = ("region", "offers, easy", "offers, hard")
_CARCINOMA = ("carcinoma", {"present": 1.0, "absent": 0.0})


class Case(NamedTuple):
    """An instance, and the mean number of rows of another implementation with standard error.

    None if the other implementation was not run.
    """

    name: str
    make: Callable[[], NetworkEnvironment]
    rows: dict[str, tuple[float, float] | None]


def _liver(intervened: str, arms: dict[str, object], bound: float) -> NetworkEnvironment:
    network = CausalModel.from_bif(hepar2())
    return NetworkEnvironment(Problem(network, "sex", intervened, _CARCINOMA, arms, bound))


def _fibrosis() -> NetworkEnvironment:
    own = [[0.3, 0.7], [0.05, 0.95], [0.001, 0.999]]
    arms = {"own": own, "even": [[0.5, 0.5]] * 3, "other": [[0.9, 0.1], [0.1, 0.9], [0.2, 0.8]]}
    return _liver("fibrosis", arms, 0.2)


def _cirrhosis() -> NetworkEnvironment:
    own = CausalModel.from_bif(hepar2()).tables["PBC"]
    swapped = own[::-1] if own.shape[0] == 2 else own[:, ::-1]
    arms = {"own": own, "even": np.full_like(own, 0.5), "swapped": swapped}
    return _liver("PBC", arms, 0.03)


def _ten_arms(seed: int) -> NetworkEnvironment:
    tables = np.random.default_rng(seed).dirichlet([1, 1], size=(10, 3))
    return _liver("fibrosis", {f"k{k}": table for k, table in enumerate(tables)}, 0.2)


def _offers(variant: str) -> NetworkEnvironment:
    return NetworkEnvironment(Problem(**_as_arguments(adult_offer(variant)), outcome_range=(0, 1)))


def _as_arguments(question: dict[str, object]) -> dict[str, object]:
    return {"model" if key == "network" else key: value for key, value in question.items()}


CASES = (
    Case("tiny", lambda: tiny()[1], {"cells": (43, 0.3), "ratios": (44, 0.6)}),
    Case("tiny, none fair", lambda: tiny(0.05)[1], {"cells": (95, 1.3), "ratios": (100, 3.4)}),
    Case("small-1", lambda: small()[1], {"cells": (225, 5.1), "ratios": (273, 11)}),
    Case("three", lambda: three()[1], {"cells": (368, 9.3), "ratios": (381, 15)}),
    Case("parent of the outcome", lambda: direct()[1], {"cells": None, "ratios": None}),
    Case(
        "region",
        lambda: region()[1],
        {"cells": (1297, 52), "covariates": (2767, 154), "ratios": (2444, 130)},
    ),
    Case(
        "hepar, fibrosis",
        _fibrosis,
        {"cells": (160, 3.2), "covariates": (298, 12), "ratios": (323, 12)},
    ),
    Case(
        "hepar, PBC",
        _cirrhosis,
        {"cells": (304, 7.7), "covariates": (663, 22), "ratios": (718, 22)},
    ),
    Case(
        "hepar10-5",
        lambda: _ten_arms(5),
        {"cells": (201, 2.9), "covariates": (460, 9.9), "ratios": (465, 10)},
    ),
    Case(
        "hepar10-1",
        lambda: _ten_arms(1),
        {"cells": (202, 2.8), "covariates": (853, 21), "ratios": (903, 21)},
    ),
    Case("offers, easy", lambda: _offers("easy"), {"cells": (337, 0.5), "covariates": (502, 4.4)}),
    Case("offers, hard", lambda: _offers("hard"), {"cells": (1396, 2.2), "covariates": (2795, 55)}),
    Case(
        "offers, none fair",
        lambda: _offers("none_fair"),
        {"cells": (746, 0.9), "covariates": (1077, 18)},
    ),
)


def run(*, quick: bool) -> None:
    """Print rows, cost per row and errors on many kinds of problems, then on hard ones."""
    runs = 4 if quick else 200
    print(f"\nrows at delta {DELTA}, {runs} runs: mean (standard error); that of another program")
    for case in CASES:
        for knowledge, known in case.rows.items():
            _measure(case.name, case.make(), knowledge, known, runs)
    _print_costs(runs=4 if quick else 20)
    _vary(runs=4 if quick else 200)
    _read_logs(runs=2 if quick else 100)
    runs = 20 if quick else 2_000
    print(f"\nshare of {runs} runs of {MOST_ROWS_OF_A_NULL:,} rows that reject the right answer")
    for name, make in HARD_NULLS.items():
        print(f"{name:>60}{share_rejected(make()[1], runs):>9.2%}", flush=True)
    runs = 4 if quick else 40
    print(f"\nwrong answers at delta {DELTA} with tables from records, {runs} runs, no proof")
    for case in CASES:
        if case.name in _ESTIMATED:
            for records in RECORDS:
                _measure_estimated(case.name, case.make(), records, runs)


# ------------------------------------------------------------------------------------ costs


def _print_costs(*, runs: int) -> None:
    """Print the cost of a run before the first plan, and the additional cost of each row."""
    print(f"\nCPU time, {runs} runs: per run, per further row, and in total per row")
    for case in CASES:
        environment = case.make()
        for knowledge in case.rows:
            policy = BlockBetting(environment.problem, delta=DELTA, knowledge=knowledge)
            simulate(policy, environment, 1, seed=0, progress=False)
            constant, _ = _cost(policy, environment, runs, ROWS_BEFORE_A_PLAN)
            whole, rows = _cost(policy, environment, runs, MOST_ROWS)
            print(
                f"{case.name:>20}{knowledge:>12}{environment.problem.n_arms:>4} arms"
                f"{1e3 * constant / runs:>7.2f} ms{1e6 * (whole - constant) / rows:>6.1f} us"
                f"{1e6 * whole / rows:>6.1f} us in total, {rows / runs:,.0f} rows a run",
                flush=True,
            )


def _cost(
    policy: BlockBetting, environment: NetworkEnvironment, runs: int, horizon: int
) -> tuple[float, int]:
    """Return the shortest of three times for all runs, in seconds, and the number of rows."""
    seconds = np.inf
    for _ in range(3):
        start = time.process_time()
        found = simulate(policy, environment, runs, seed=1, horizon=horizon, progress=False)
        seconds = min(seconds, time.process_time() - start)
    return seconds, int(found.stopping_time.sum())


# --------------------------------------------------------------------------------- variants


def _vary(*, runs: int) -> None:
    """Print rows with actions drawn one by one, and with a budget, and the other program's.

    The first arm is free, all others cost 1, and the mean cost of a row is at most .1.
    """
    print(f"\nrows at delta {DELTA}, {runs} runs: drawn one by one; with a mean budget, its use")
    for case in CASES:
        if case.name in VARIANTS:
            problem = case.make().problem
            drawn, budgeted, spent = VARIANTS[case.name]
            policy = BlockBetting(problem, delta=DELTA, randomize="bernoulli")
            one = _simulated(policy, runs).stopping_time
            line = f"{case.name:>20}{one.mean():>9,.0f} ({_error(one):.1f}), {drawn:,}"
            costs = np.append(0.0, np.ones(problem.n_arms - 1))
            cheap = problem.clone(costs=costs, mean_budget=0.1)
            found = _simulated(BlockBetting(cheap, delta=DELTA), runs)
            times = found.stopping_time
            cost = (found.metrics["cost"] / times).mean()
            line += f"{times.mean():>12,.0f} ({_error(times):.1f}), {budgeted:,}"
            print(f"{line}{cost:>10.3f}, {spent}", flush=True)


def _simulated(policy: BlockBetting, runs: int) -> Simulation:
    environment = NetworkEnvironment(policy.problem)
    return simulate(policy, environment, runs, seed=1, horizon=MOST_ROWS, progress=False)


def _error(times: NDArray[np.int64]) -> float:
    return float(times.std() / np.sqrt(len(times)))


# ------------------------------------------------------------------------------------- logs


def _read_logs(*, runs: int) -> None:
    """Print the rows of a log until the answer, by what is known about its actions."""
    problem, environment = small()
    even = np.full((MOST_ROWS_OF_A_LOG, problem.n_actions), 1.0 / problem.n_actions)
    print(f"\nrows of a log with actions drawn evenly at delta {DELTA}, {runs} logs of small-1")
    for name, allocation in (("fixed", "fixed"), ("recorded", even), ("any", "any")):
        times, wrong = [], 0
        for seed in range(runs):
            generator = np.random.default_rng([seed, 7])
            actions = generator.integers(problem.n_actions, size=MOST_ROWS_OF_A_LOG)
            found = read(
                problem, environment.table(actions, generator), DELTA, allocation=allocation
            )
            answer = found.recommend()
            wrong += not answer.decided or answer.arm not in environment.truth.acceptable
            times.append(found.asked)
        error = np.std(times) / np.sqrt(runs)
        print(f"{name:>20}{np.mean(times):>9,.0f} ({error:.1f}), {wrong} not right", flush=True)


# ------------------------------------------------------------------------------------- runs


def _measure(
    name: str,
    environment: NetworkEnvironment,
    knowledge: str,
    known: tuple[float, float] | None,
    runs: int,
) -> None:
    policy = BlockBetting(environment.problem, delta=DELTA, knowledge=knowledge)
    simulate(policy, environment, 1, seed=0, progress=False)
    start = time.process_time()
    found = simulate(policy, environment, runs, seed=1, horizon=MOST_ROWS, progress=False)
    elapsed = time.process_time() - start
    times = found.stopping_time
    error = times.std() / np.sqrt(runs)
    cost = 1e6 * elapsed / times.sum()
    other = "-" if known is None else f"{known[0]:,.0f} ({known[1]:g})"
    print(
        f"{name:>22}{knowledge:>12}{times.mean():>9,.0f} ({error:.1f}){other:>14}{cost:>8.1f} us "
        f"a row, {found.error_rate:.1%} wrong, {found.undecided_rate:.0%} undecided",
        flush=True,
    )


def _measure_estimated(name: str, environment: NetworkEnvironment, records: int, runs: int) -> None:
    """Print error rates if all tables except the outcome's are estimated from N records.

    New records are drawn for each run, from the deployed arm.
    """
    wrong = undecided = rows = 0
    for seed in range(runs):
        generator = np.random.default_rng([seed, records])
        estimated = _with_estimated_tables(environment, records, generator)
        policy = BlockBetting(estimated.problem, delta=DELTA, seed=seed)
        policy.compiled_run(estimated, generator, MOST_ROWS_IF_ESTIMATED)
        found = policy.recommend()
        undecided += not found.decided
        wrong += found.decided and found.arm not in environment.truth.acceptable
        rows += policy.told
    print(
        f"{name:>20}{records:>9,} records{wrong / runs:>7.0%} wrong{undecided / runs:>6.0%} "
        f"undecided{rows / runs:>9,.0f} rows",
        flush=True,
    )


def _with_estimated_tables(
    environment: NetworkEnvironment, records: int, generator: np.random.Generator
) -> NetworkEnvironment:
    """Return the same environment, with a problem whose tables were estimated from its records."""
    problem = environment.problem
    table = environment.table([0] * records, generator)
    own = {problem.intervened, problem.outcome_node}
    nodes = [node for node in problem.columns if node not in own]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = problem.model.fit(table, nodes)
    return NetworkEnvironment(problem.clone(model=model), problem.model)


def share_rejected(environment: NetworkEnvironment, runs: int) -> float:
    """Return the share of runs in which block betting ever rejects the right answer."""
    problem, right = environment.problem, environment.truth.best
    rejected = 0
    for seed in range(runs):
        policy = BlockBetting(problem, delta=DELTA, seed=seed)
        generator = np.random.default_rng([seed, 1])
        policy.compiled_run(environment, generator, MOST_ROWS_OF_A_NULL)
        rejected += right not in (policy.recommend().candidates or ())
    return rejected / runs
