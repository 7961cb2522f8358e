"""Error rates of rules on linear arms if features are numerically difficult.

    python -m benchmarks.linear_scales [instances] [first]

The instances have features in units from 1e-160 to 1e160, times in seconds since 1970 with their
squares, dependent columns, nearly equal rows, candidates far from the arms, noise of any size and
by arm, and means up to a thousand million times the noise. Means are computed as fractions, so the
right answer is known. An instance is answered, refused, or undecided after 3,000 pulls. The share
of wrong answers must be below delta = .05; because gaps are mostly large, it should be almost 0.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter

import numpy as np

from fairtrial.core import Policy
from fairtrial.linear import (
    BlockBetting,
    FrankWolfeSampling,
    GAllocation,
    LazyTrackAndStop,
    LinGame,
    LinGapE,
    Rage,
    XYAllocation,
)
from tests.linear.scale_instances import answer_of, hard_instance

RULES: list[type[Policy]] = [
    BlockBetting, LinGapE, LinGame, FrankWolfeSampling, LazyTrackAndStop, GAllocation,
    XYAllocation, Rage,
]  # fmt: skip


def outcomes(cls: type[Policy], first: int, instances: int, bounded: bool) -> Counter[str]:
    """Return the numbers of instances that were refused, undecided, right or wrong, by label."""
    found: Counter[str] = Counter()
    for seed in range(first, first + instances):
        instance = hard_instance(seed, bounded)
        problem = instance.problem()
        if problem is None:
            found["refused"] += 1
            continue
        policy = cls(problem, delta=0.05, max_pulls=3000)  # type: ignore[call-arg]
        arm, proven = answer_of(policy, instance, np.random.default_rng(seed), bounded)
        if arm is None:
            found["undecided"] += 1
            continue
        verdict = "wrong" if instance.is_wrong(arm) else "right"
        found[f"{verdict}, {'proven' if proven else 'label fallen'}"] += 1
    return found


def main() -> None:
    """Print one line for every rule."""
    instances = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
    warnings.simplefilter("ignore")
    for cls in RULES:
        for bounded in (False, True) if cls is BlockBetting else (False,):
            start = time.process_time()
            found = outcomes(cls, first, instances, bounded)
            name = f"{cls.__name__}{' in a range' if bounded else ''}"
            told = ", ".join(f"{number} {what}" for what, number in sorted(found.items()))
            print(f"{name}: {told} ({time.process_time() - start:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
