"""Limits against a control: pulls, error rates, and the effect of drift.

First, an A/B/n test with five segments, in which no variant may be more than two points worse than
the present page in any segment. It compares the pulls of block betting with floors at the control's
true level (which nobody knows in practice), and with an experiment of fixed size with a test for
each segment. Second, how often a right answer is ruled out if arms are on their limits, or a
millionth beyond, and how often an answer is a millionth worse than the tolerance allows. Third, the
same test while all conversion rates fall together.
"""

from __future__ import annotations

import numpy as np

from fairtrial import simulate
from fairtrial.core import Pull
from fairtrial.subpopulations import (
    BernoulliEnvironment,
    BlockBetting,
    Problem,
)
from fairtrial.subpopulations.fixed_design import fixed_design
from tests.subpopulations.control_instances import BEYOND, HARD, share_rejected, share_wrong

DELTA = 0.05
MOST_PULLS = 1_000_000

ARMS = ["now", "short", "bold", "plain"]
SEGMENTS = {"phone": 0.4, "tablet": 0.1, "desktop": 0.3, "app": 0.15, "partner": 0.05}
RATES = [
    [0.30, 0.35, 0.45, 0.50, 0.25],
    [0.36, 0.41, 0.51, 0.57, 0.31],
    [0.46, 0.45, 0.50, 0.40, 0.35],
    [0.28, 0.33, 0.42, 0.47, 0.22],
]
MARGIN = 0.02


def run(*, quick: bool) -> None:
    """Print pulls, rejections of right answers, and answers under drift."""
    _compare(runs=4 if quick else 200)
    runs = 20 if quick else 2_000
    print(f"\nright answer ever ruled out at delta .1, {runs} runs of at most 2,000 pulls")
    for name in HARD:
        for kind in ("0 or 1", "normal"):
            share = share_rejected(name, runs, known_noise=kind == "normal")
            print(f"{name:>36}{kind:>8}{share:>9.2%}", flush=True)
    print(f"\nanswers beyond the tolerance by a millionth at delta .1, {runs} runs")
    for name in BEYOND:
        for kind in ("0 or 1", "normal"):
            share = share_wrong(name, runs, known_noise=kind == "normal")
            print(f"{name:>54}{kind:>8}{share:>9.2%}", flush=True)
    _drift(runs=2 if quick else 100)


# ------------------------------------------------------------------------------- what it costs


def _compare(*, runs: int) -> None:
    print(f"\nfive segments, delta {DELTA}, {runs} runs: mean pulls (standard error), median")
    floors = [rate - MARGIN for rate in RATES[0]]
    for name, asked in (
        (f"at most {MARGIN} worse than the control", {"control": "now", "margin": MARGIN}),
        ("floors at the control's true level", {"floors": floors}),
        ("no limits", {"floors": None}),
    ):
        problem = Problem(ARMS, SEGMENTS, reward_range=(0, 1), **asked)
        environment = BernoulliEnvironment(problem, RATES)
        policy = BlockBetting(problem, delta=DELTA)
        found = simulate(policy, environment, runs, seed=1, horizon=MOST_PULLS, progress=False)
        times = found.stopping_time
        error = times.std() / np.sqrt(runs)
        size = fixed_design(environment)
        fixed = None if size is None else size.size(DELTA, 0.9)
        print(
            f"{name:>38}: {times.mean():>9,.0f} ({error:,.0f}), {np.median(times):,.0f}; "
            f"right answer {environment.truth.best}, {found.error_rate:.1%} wrong; "
            f"a test per segment with power .9: {fixed:,}",
            flush=True,
        )


# -------------------------------------------------------------------------------------- drift


class Falling(BernoulliEnvironment):
    """All rates fall together during the experiment, by `fall` within the first pulls."""

    fall, during = 0.1, 3_000

    def sample(self, pull: Pull, generator: np.random.Generator) -> float:
        """Return a result at the current rates."""
        k, group = divmod(pull.action, len(self.problem.groups))
        fallen = self.fall * min(1.0, pull.number / self.during)
        return float(generator.random() < self.cell_means[k, group] - fallen)


def _drift(*, runs: int) -> None:
    print(
        f"\nall rates fall by {Falling.fall} during {Falling.during:,} pulls, {runs} runs: answers"
    )
    print("'short' is right: at all times it is better than the control in every segment")
    floors = [rate - MARGIN for rate in RATES[0]]
    for name, asked in (
        ("limits against the control", {"control": "now", "margin": MARGIN}),
        ("floors at the control's former level", {"floors": floors}),
    ):
        problem = Problem(ARMS, SEGMENTS, reward_range=(0, 1), **asked)
        environment = Falling(problem, RATES)
        answers = [_answer(problem, environment, seed) for seed in range(runs)]
        counts = {answer: answers.count(answer) for answer in dict.fromkeys(answers)}
        print(f"{name:>38}: {counts}", flush=True)


def _answer(problem: Problem, environment: Falling, seed: int) -> str:
    policy = BlockBetting(problem, delta=DELTA, max_pulls=50_000, seed=seed)
    generator = np.random.default_rng([3, seed])
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, environment.sample(pull, generator))
    found = policy.recommend()
    return str(found.arm) if found.decided else found.status
