"""Compile every kernel, and install PostgreSQL's server, once before parallel test processes."""

from concurrent.futures import ProcessPoolExecutor

import numpy as np

from fairtrial import allocation, causal, delayed, linear, subpopulations
from tests import postgresql


def main() -> None:
    """Warm the families side by side."""
    postgresql.install()
    families = (warm_subpopulations, warm_linear, warm_delayed, warm_allocation, warm_causal)
    with ProcessPoolExecutor(2) as pool:
        for done in [pool.submit(family) for family in families]:
            done.result()


def warm_subpopulations() -> None:
    """Ask, tell and simulate with one policy of each compiled path."""
    means = [[0.5, 0.4], [0.2, 0.3]]
    known = subpopulations.Problem(2, 2, noise_std=1.0)
    environment = subpopulations.GaussianEnvironment(known, means)
    for cls in (subpopulations.BlockBetting, subpopulations.BalancedTracking):
        policy = cls(known, seed=0)
        pulls = policy.ask(2)
        policy.tell(pulls[0], 0.5)
        policy.fail(pulls[1])
        policy.amend(pulls[0], 0.5, 0.4)
        policy.progress()
        cls(known, seed=0).compiled_run(environment, np.random.default_rng(0), 50)
    subpopulations.complexity(environment)
    warm_measures()


def warm_measures() -> None:
    """Ask, tell and simulate where one pull measures several things."""
    problem = subpopulations.Problem(
        2, 1, measures={"y": (0, 1), "z": (0, 1)}, objective="y", ceilings={"z": 0.5}
    )
    environment = subpopulations.BernoulliEnvironment(
        problem, [[[0.6, 0.2]], [[0.4, 0.2]]], correlation=0.0
    )
    policy = subpopulations.BlockBetting(problem, seed=0)
    policy.tell(policy.ask(), {"y": 1.0, "z": 0.0})
    policy.progress()
    run = subpopulations.BlockBetting(problem, seed=0)
    run.compiled_run(environment, np.random.default_rng(0), 50)
    subpopulations.complexity(environment)


def warm_linear() -> None:
    """Plan, ask, tell and simulate with one policy of each compiled path."""
    features = [[1, 0], [0, 1], [0.7, 0.7]]
    problem = linear.Problem(features, noise_std=1.0)
    environment = linear.GaussianEnvironment(problem, [1.0, 0.2])
    linear.complexity(environment)
    linear.xy_optimal_design(problem)
    generator = np.random.default_rng(0)
    for cls in (linear.BlockBetting, linear.LinGapE, linear.LinGame, linear.Rage):
        policy = cls(problem, seed=0)
        pull = policy.ask()
        policy.tell(pull, 0.5)
        policy.progress()
        cls(problem, seed=0).compiled_run(environment, generator, 50)
    limited = linear.Problem(features, noise_std=1.0, floors=0.1)
    linear.BlockBetting(limited, seed=0).compiled_run(
        linear.GaussianEnvironment(limited, [1.0, 0.2]), generator, 50
    )


def warm_allocation() -> None:
    """Decide, learn, void and simulate once with learners of both kinds."""
    problem = allocation.Problem(2, 0.25)
    allocation.FairLearn(problem, lambda t, counts, sums, allowed: 0).ask()
    policy = allocation.FairLearn(problem, seed=0)
    pulls = policy.ask(2)
    policy.tell(pulls[0], 0.5)
    policy.amend(pulls[0], 0.5, 0.4)
    policy.fail(pulls[1])
    for environment in (
        allocation.BernoulliEnvironment(problem, [0.5, 0.4]),
        allocation.SleepingEnvironment(problem, [0.5, 0.4], 0.5),
        allocation.ContextualEnvironment(problem, [[0.5, 0.4], [0.4, 0.5]]),
    ):
        generator = np.random.default_rng(0)
        environment.sample(policy.ask(**environment.context(generator)), generator)
        policy.clone().compiled_run(environment, generator, 20)


def warm_delayed() -> None:
    """Ask, report, tell and simulate with one policy of each compiled path."""
    problem = delayed.Problem(2, noise_std=1.0, feedback="unbiased", reading_std=0.5)
    environment = delayed.SimulatedEnvironment(problem, [0.5, 0.4], delay=3.0)
    policy = delayed.InformationRacing(problem)
    pull = policy.ask()
    policy.report(pull, 0.5)
    policy.tell(pull, 0.4)
    generator = np.random.default_rng(0)
    environment.trajectory(pull, generator)
    policy.clone().compiled_run(environment, generator, 20)
    blocks = delayed.BlockBetting(delayed.Problem(2, reward_range=(0, 1)), initial_pulls=1)
    for value in (0.0, 1.0, 0.0, 1.0, 0.0, 1.0):
        blocks.tell(blocks.ask(), value)
    delayed.BlockBetting(problem).compiled_run(environment, generator, 20)
    rule = delayed.ASHA(problem)
    pull = rule.ask()
    rule.report(pull, 0.5)
    rule.to_cancel()
    rule.progress()
    rule.clone().compiled_run(environment, generator, 20)


def warm_causal() -> None:
    """Ask, tell, correct and simulate with block betting."""
    arms = {"a": [[0.5, 0.5], [0.4, 0.6]], "b": [[0.2, 0.8], [0.1, 0.9]]}
    problem, environment = causal.chain(0.4, arms, [0.1, 0.9], 0.2)
    policy = causal.BlockBetting(problem, seed=0)
    pulls = policy.ask(2)
    generator = np.random.default_rng(0)
    row = environment.sample(pulls[0], generator)
    policy.tell(pulls[0], row)
    policy.fail(pulls[1])
    policy.amend(pulls[0], row, row)
    policy.tell(pulls[1], environment.sample(pulls[1], generator))
    policy.progress()
    policy.clone().compiled_run(environment, generator, 50)


if __name__ == "__main__":
    main()
