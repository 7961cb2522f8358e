"""Several measures with limits against a control: pulls, and error rates on the hardest questions.

First, an A/B/n test in two segments: the page that sells most among those that sell at least as
much as the present page, and bounce at most five points more often in each segment. It compares
the pulls with those of ceilings at the control's true level plus the margin (which nobody knows in
practice), of no limits, and of an experiment of fixed size with a test for each limit. Second, how
often a right answer is ruled out if arms are exactly on their limits, or a millionth beyond.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairtrial import simulate
from fairtrial.subpopulations import BernoulliEnvironment, BlockBetting, Problem
from fairtrial.subpopulations.fixed_design import fixed_design
from tests.subpopulations.measured_nulls import BESIDE, shares_of

DELTA = 0.05
MOST_PULLS = 500_000

ARMS = ["now", "short", "bold", "plain"]
SEGMENTS = {"phone": 0.6, "desktop": 0.4}
SOLD = [[0.20, 0.30], [0.27, 0.36], [0.35, 0.40], [0.15, 0.26]]
BOUNCED = [[0.40, 0.30], [0.38, 0.30], [0.55, 0.33], [0.40, 0.31]]
MARGIN = 0.05


def run(*, quick: bool) -> None:
    """Print pulls, and how often right answers are ruled out."""
    _compare(runs=2 if quick else 200)
    runs = 10 if quick else 2_000
    print(
        f"\nright answer ever ruled out, wrong, undecided at delta .1; {runs} runs of 2,000 pulls"
    )
    for name in BESIDE:
        shares = shares_of(name, runs)
        print(f"{name:>44}" + "".join(f"{share:>10.2%}" for share in shares), flush=True)


def _compare(*, runs: int) -> None:
    print(f"\ntwo segments, delta {DELTA}, {runs} runs: mean pulls (standard error), median")
    at_level = {("bounced", group): BOUNCED[0][i] + MARGIN for i, group in enumerate(SEGMENTS)}
    beside = {"control": "now", "direction": {"bounced": "minimize"}}
    cases: dict[str, dict[str, Any]] = {
        "limits against the control": {**beside, "superiority": 0.0, "margin": {"bounced": MARGIN}},
        "ceilings at the control's true level": {"ceilings": at_level},
        "no limits": {},
    }
    for name, asked in cases.items():
        problem = Problem(
            ARMS,
            SEGMENTS,
            measures={"sold": (0, 1), "bounced": (0, 1)},
            objective="sold",
            **asked,
        )
        environment = BernoulliEnvironment(problem, {"sold": SOLD, "bounced": BOUNCED})
        policy = BlockBetting(problem, delta=DELTA)
        found = simulate(policy, environment, runs, seed=1, horizon=MOST_PULLS, progress=False)
        times = found.stopping_time
        size = fixed_design(environment)
        fixed = "none" if size is None else f"{size.size(DELTA, 0.9):,}"
        print(
            f"{name:>38}: {times.mean():>9,.0f} ({times.std() / np.sqrt(runs):,.0f}), "
            f"{np.median(times):,.0f}; right answer {environment.truth.best}, "
            f"{found.error_rate:.1%} wrong; a test per limit with power .9: {fixed}",
            flush=True,
        )
