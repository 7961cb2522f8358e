"""Miss rates of approximate intervals with poor overlap, in environments with rare cells."""

from __future__ import annotations

import numpy as np

from fairtrial.causal import NetworkEnvironment, chain
from fairtrial.causal._cell_model import cell_model_of
from fairtrial.causal._intervals import normal_reach
from fairtrial.causal._ledger import open_ledger
from fairtrial.causal._weighted import Weighted

DELTA = 0.05
FEWEST_GIVEN = 50


def run(*, quick: bool) -> None:
    environments, runs = (60, 100) if quick else (400, 100)
    print(
        f"\nnormal intervals of means and gaps at a nominal {1 - DELTA:.0%}, {environments} random "
        f"environments\nwith rare cells, {runs} logs of each: the interval that misses most often"
    )
    titles = f"{'given':>8}{'median':>9}{'worst':>8}{'above .05 + 3 s.e.':>20}{'worst is':>10}"
    print(f"{'estimator':<12}{titles}")
    for estimator in ("sn", "cell"):
        rates, given = [], []
        for seed in range(environments):
            missed, number = _misses(seed, estimator, runs)
            given.append(number.mean() / runs)
            enough = number >= FEWEST_GIVEN
            rates.append((missed[enough] / number[enough]).max(initial=0.0))
        limit = DELTA + 3.0 * np.sqrt(DELTA * (1.0 - DELTA) / runs)
        above = np.mean(np.array(rates) > limit)
        print(
            f"{estimator:<12}{np.mean(given):>8.2f}{np.median(rates):>9.3f}{max(rates):>8.3f}"
            f"{above:>20.3f}{int(np.argmax(rates)):>10}",
            flush=True,
        )


def _misses(seed: int, estimator: str, runs: int) -> tuple[np.ndarray, np.ndarray]:
    """Print how often each interval misses, and how often there is one."""
    environment, actions = rare_cells(seed)
    problem, truth = environment.problem, environment.truth
    gaps = next(iter(truth.gaps.values()))
    missed = np.zeros(2 * problem.n_arms, dtype=int)
    number = np.zeros_like(missed)
    for place in range(runs):
        ledger = open_ledger(cell_model_of(problem))
        ledger.add(environment.batch(actions, np.random.default_rng([seed, place])))
        weighted = Weighted(problem, ledger.records(), estimator)
        means, reach = normal_reach(weighted, DELTA)
        widths = np.append(means, reach[:, 0])
        errors = np.append(weighted.means - truth.means, weighted.gaps[:, 0] - gaps)
        missed += np.abs(errors) > widths + 1e-12
        number += ~np.isnan(widths)
    return missed, number


def rare_cells(seed: int) -> tuple[NetworkEnvironment, np.ndarray]:
    """Return a random chain S -> V -> Y with rare states, and the actions of its log.

    There are two or three arms over two to four states, most of them with a state of probability
    down to 1e-4. Outcomes by state are spread evenly, nearly certain, or rare down to 1e-4. The log
    has 100 to 3,000 rows of the first arm alone, of random actions, or of the first arm with
    natural and forced attribute.
    """
    generator = np.random.default_rng(seed)
    states = int(generator.integers(2, 5))

    def arm() -> np.ndarray:
        table = generator.dirichlet(np.full(states, generator.choice([0.1, 0.3, 1.0])), size=2)
        if generator.random() < 0.6:
            rare = int(generator.integers(states))
            share = 10 ** -generator.uniform(1.0, 4.0) * generator.uniform(0.5, 2.0, size=2)
            rest = np.delete(table, rare, axis=1)
            rest *= ((1.0 - share) / np.maximum(rest.sum(axis=1), 1e-12))[:, None]
            table = np.insert(rest, rare, share, axis=1)
        table = np.maximum(table, 1e-9)
        return table / table.sum(axis=1, keepdims=True)

    arms = {f"arm{k}": arm() for k in range(int(generator.integers(2, 4)))}
    kinds = [
        generator.random(states),
        generator.beta(0.1, 0.1, states),
        10 ** -generator.uniform(0.0, 4.0, states),
    ]
    good = np.clip(kinds[generator.integers(3)], 1e-5, 1.0 - 1e-5)
    rows = int(generator.choice([100, 300, 1000, 3000]))
    problem, environment = chain(float(generator.uniform(0.1, 0.9)), arms, good, fairness_bound=0.2)
    spread = [
        np.zeros(rows, dtype=int),
        generator.integers(0, problem.n_actions, rows),
        np.repeat([0, 1, 2], -(-rows // 3))[:rows],
    ]
    return environment, spread[generator.integers(3)]
