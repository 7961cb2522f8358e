"""Prepare once what parallel test processes share: kernels, rewritten tests, PostgreSQL's server.

Kernels that several test processes need would otherwise be compiled by each of them. These are
more kernels than `fairtrial compile` compiles. The calls are those of the logs in `tests/golden`,
in which pulls get lost, come late and are corrected. pytest rewrites every `assert` so that a
failure shows its values, and keeps the bytecode; the first collection takes twice as long as later
ones.
"""

import json
import multiprocessing
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from fairtrial import allocation, causal, delayed, linear, subpopulations
from fairtrial.confidence.drift_test import log_evidence_of_drift
from fairtrial.core.compilation import use_tier
from tests import postgresql
from tests.costs import spent
from tests.golden.logs import ARROW, player_of, read_logs
from tests.testing.families import POLICIES, Row, guardrails, late_scores, limited

_CALLS = 250
"""The most calls of a log: enough for every kind of call."""

_PULLS = 50
"""The most pulls of a simulated run."""

_ALIKE = 2
"""Rows per policy that are tried; block betting has different kernels for every problem."""


def main() -> None:
    """Prepare in two processes; what takes longest comes first."""
    postgresql.install()
    use_tier("compile")
    tasks = (
        warm_measures,
        warm_linear,
        warm_subpopulations,
        warm_delayed,
        rewrite_tests,
        warm_causal,
        warm_allocation,
    )
    signal.signal(signal.SIGTERM, end)
    with ProcessPoolExecutor(2) as pool:
        for done in [pool.submit(task) for task in tasks]:
            done.result()
    # The workers have ended, so their time is included.
    sys.stdout.write(f"tests are prepared: {spent():.0f} s of processor time\n")


def end(*_: object) -> None:
    """End with all workers, because nobody waits for them any more."""
    for worker in multiprocessing.active_children():
        worker.kill()
    sys.exit("tests are not prepared: ended before")


def warm_linear() -> None:
    """Design, bet on limits and on assigned arms, and draw sums of rewards at once."""
    warm(row for row in rows_of("linear"))
    problem = linear.Problem([[1, 0], [0, 1], [0.7, 0.7]], noise_std=1.0)
    environment = linear.GaussianEnvironment(problem, [1.0, 0.2])
    linear.complexity(environment)
    linear.complexity(limited()[1])
    linear.xy_optimal_design(problem)
    draws_at_once = linear.GAllocation(problem, seed=0, block_draws=True)
    draws_at_once.compiled_run(environment, np.random.default_rng(0), None)
    follow_assigned(linear.BlockBetting, environment)


def warm_subpopulations() -> None:
    """Plan, look for drift, and bet on assigned arms."""
    log_evidence_of_drift([0.0, 1.0])
    warm(row for row in rows_of("subpopulations") if "guardrails" not in row.name)
    problem = subpopulations.Problem(2, 2, noise_std=1.0)
    environment = subpopulations.GaussianEnvironment(problem, [[0.5, 0.4], [0.2, 0.3]])
    subpopulations.complexity(environment)
    follow_assigned(subpopulations.BlockBetting, environment)


def warm_measures() -> None:
    """Plan for pulls with several measures."""
    warm(row for row in rows_of("subpopulations") if "guardrails" in row.name)
    subpopulations.complexity(guardrails()[1])
    follow_assigned(subpopulations.BlockBetting, guardrails()[1])


def warm_delayed() -> None:
    """Bet on assigned arms."""
    warm(rows_of("delayed"))
    follow_assigned(delayed.BlockBetting, late_scores()[1])


def warm_causal() -> None:
    """Bet on assigned arms."""
    warm(rows_of("causal"))
    arms = {"a": [[0.5, 0.5], [0.4, 0.6]], "b": [[0.2, 0.8], [0.1, 0.9]]}
    follow_assigned(causal.BlockBetting, causal.chain(0.4, arms, [0.1, 0.9], 0.2)[1])


def warm_allocation() -> None:
    """Decide with a learner that is a function."""
    warm(rows_of("allocation"))
    problem = allocation.Problem(2, 0.25)
    allocation.FairLearn(problem, lambda t, counts, sums, allowed: 0).ask()


def rewrite_tests() -> None:
    """Let pytest keep the bytecode of all tests; errors are shown when the tests run."""
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-qq"]
    subprocess.run(collect, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


# ------------------------------------------------------------------------- calls


def rows_of(family: str) -> Iterator[Row]:
    """Yield rows of a family: all of block betting, and a few of every other policy."""
    tried: dict[str, int] = {}
    for row in POLICIES:
        name = row.policy.__name__
        if row.name.startswith(f"{family}-") and tried.get(name, 0) < _ALIKE:
            yield row
            tried[name] = tried.get(name, 0) + (name != "BlockBetting")


def warm(rows: Iterator[Row]) -> None:
    """Make the calls of a log with each row, and run a simulation of it."""
    logs = read_logs()
    for row in rows:
        player = player_of(row)
        for line in logs[row.name][0][:_CALLS]:
            player.make(*json.loads(line.split(ARROW)[0]))
        policy, environment = row.make()
        policy.compiled_run(environment, np.random.default_rng(0), _PULLS)


def follow_assigned(policy_class: type, environment: object) -> None:
    """Let block betting analyse an assigned experiment, and correct one of its results."""
    problem = environment.problem
    assigned = np.arange(150) % problem.n_actions
    policy = policy_class(problem, delta=1e-6, assigned=assigned)
    generator = np.random.default_rng(0)
    while not policy.stopped:
        pull = policy.ask()
        outcome = environment.sample(pull, generator)
        policy.tell(pull, outcome)
    policy.amend(pull, outcome, environment.sample(pull, generator))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
