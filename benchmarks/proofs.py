"""Cost of a proof in `RacingSearchCV`: races replayed on recorded splits of four data sets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.recording import QUESTIONS, record, some_digits
from fairtrial.delayed import PairedRacing, Problem

RACED = {name: QUESTIONS[name] for name in ("wine, trees", "breast cancer, SVC", "iris, k-NN")} | {
    "digits, 400 rows, SVC": replace(QUESTIONS["breast cancer, SVC"], load=some_digits)
}
DEFAULT_CAP, CAP = 50, 200
"""Maximum numbers of splits per candidate."""


def run(*, quick: bool) -> None:
    print("\nfits per candidate until a proof (mean; if a race ended undecided, all its fits)")
    print(f"{'data, candidates':<30}{'within':>8}{'fits':>7}{'decided':>9}{'wrong':>7}", end="")
    print(f"{f'decided at {DEFAULT_CAP}':>15}{'shortfall then':>16}")
    for name, question in RACED.items():
        scores = record(question, 60 if quick else 300)
        for tolerance in (0.02, 0.05):
            _race(name, scores, tolerance, races=2 if quick else 5)


def _race(name: str, scores: np.ndarray, tolerance: float, races: int) -> None:
    splits, candidates = scores.shape
    means, fits, decided, wrong, early, short = scores.mean(axis=0), [], [], [], [], []
    for seed in range(races):
        order = np.random.default_rng(seed).permutation(splits)
        policy = _raced(scores[order], tolerance, CAP)
        answer = policy.recommend()
        fits.append(policy.told / candidates)
        decided.append(answer.decided)
        if answer.decided:
            wrong.append(means.max() - means[int(answer.arm)] > tolerance)
        capped = _raced(scores[order], tolerance, DEFAULT_CAP)
        early.append(capped.recommend().decided)
        short.append(capped.shortfall)
    print(
        f"{name:<30}{tolerance:>8}{np.mean(fits):>7.0f}{np.mean(decided):>9.0%}{sum(wrong):>7}"
        f"{np.mean(early):>15.0%}{np.mean(short):>16.3f}",
        flush=True,
    )


def _raced(scores: np.ndarray, tolerance: float, cap: int) -> PairedRacing:
    """Return a race on splits in their order, with a maximum number of fits per candidate."""
    splits, candidates = scores.shape
    problem = Problem(candidates, reward_range=(0.0, 1.0), tolerance=tolerance)
    policy = PairedRacing(problem, max_pulls=cap * candidates)
    while not policy.stopped and (policy.blocks < splits):
        for pull in policy.ask(1):
            policy.tell(pull, scores[pull.tag, pull.action])
    return policy
