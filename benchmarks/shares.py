"""A long version of the tests of guaranteed shares: random runs, checked in exact fractions."""

from __future__ import annotations

import time
from collections import Counter

from tests.allocation.exact_runs import ExactRun


def run(*, quick: bool) -> None:
    """Play the runs and print a summary; raise at the first wrong decision or broken guarantee."""
    number, steps = (200, 40) if quick else (4000, 100)
    kinds: Counter[str] = Counter()
    behind: Counter[int] = Counter()
    failed, begun = 0, time.process_time()
    for seed in range(number):
        played = ExactRun(seed, steps).play()
        kinds[f"{played.kind}, {played.scheduler}"] += 1
        behind[played.most_behind] += 1
        failed += played.failed
    print(f"\n{number:,} random runs of {steps} rounds, every call judged in exact fractions")
    print(", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items())))
    print(f"failed pulls: {failed:,}; wrong decisions or guarantees: 0")
    print("most whole pulls behind (never more than failed pulls that were not made up for):")
    print(", ".join(f"{most}: {count} runs" for most, count in sorted(behind.items())))
    print(f"{time.process_time() - begun:.0f} s of CPU")
