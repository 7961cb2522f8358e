"""What the rules that choose one pull at a time know and test by: packed, and by name."""

from typing import NamedTuple

from fairtrial.confidence.noise_kernels import COLUMNS
from fairtrial.core.compilation import kernel
from fairtrial.linear._kernels.matrices import Floats, Integers

SOARE, STATIC, CHECKS, PHASE, MIXTURE, RIDGE, CONSTANT = range(7)
"""Levels: see `fairtrial.linear.policies.levels`."""

GAP_INDEX, SHARES, GREEDY, GAME, FRANK_WOLFE = range(5)
"""Sampling rules."""

REFRESH = 500
"""Results after which the inverse is recomputed."""


class Test(NamedTuple):
    """What the stopping test is made of."""

    kind: int
    delta: float
    errors: float  # ordered pairs of candidates whose confusion would be an error
    candidates: float
    spread: float  # of the mixture's prior, in start-up designs
    prior_log_det: float
    constant: float
    radius: float  # sqrt(eta) S of the ridge level, and largest squared row over eta
    reach: float
    initial: float  # pulls of every basis arm before anything else
    tolerance: float
    top: int
    estimated: bool  # whether the noise is
    misspecification: float  # what a value may differ by from the linear function
    tie_key: int  # of random numbers that break ties; negative for the first arm


NUMBER_OF_TESTS = 15


@kernel
def open_test(packed: Floats) -> Test:
    """Return the test's numbers by name; they are the last of a packed problem."""
    at = packed.size - NUMBER_OF_TESTS
    return Test(
        int(packed[at]),
        packed[at + 1],
        packed[at + 2],
        packed[at + 3],
        packed[at + 4],
        packed[at + 5],
        packed[at + 6],
        packed[at + 7],
        packed[at + 8],
        packed[at + 9],
        packed[at + 10],
        int(packed[at + 11]),
        packed[at + 12] > 0.0,
        packed[at + 13],
        int(packed[at + 14]),
    )


class Track(NamedTuple):
    """Everything that changes; K arms, M candidates, r coordinates."""

    counts: Floats  # (K,), as are the next five
    sums: Floats
    squares: Floats
    pending: Floats
    shares: Floats  # what is tracked
    gains: Floats  # of the arms in the game
    record: Floats  # (K, 4), the spread of every arm's results, for the test of the noise
    early: Floats  # (K, 4), what it was when theta could first be estimated
    matrix: Floats  # (r, r), the Gram matrix of the results
    inverse: Floats  # (r, r), its inverse
    ahead: Floats  # (r, r), with the pulls in flight
    prior: Floats  # (r, r), of the mixture; of the ridge it is part of the inverses
    right: Floats  # (r,), sum of reward times row
    theta: Floats  # (r,)
    evidence: Floats  # see EVIDENCE and those after it
    chosen: Integers  # (M,), leaders, or the answer
    ruled_out: Integers  # (M,)
    support: Integers  # (K,), arms with shares
    control: Integers  # see READY and those after it


READY, STARTED, FINISHED, HOPELESS, TOLD, LOOK, WINNER, RIVAL, AGE, AWAY, SUPPORT = range(11)
"""Entries of `control`: whether theta can be estimated and the start-up is told, whether the test
has stopped with an answer or found that there will be none, results, looks so far, the pair that
matters most, results since the inverse was made anew, pulls in flight, and arms in the support."""

CONTROLS = 11

EVIDENCE, LEVEL, REGRET, NOISE, SHORTFALL = range(5)
"""Entries of `evidence`: what there is and what it is held against, both per unit of the noise's
variance, AdaHedge's regret, that variance, and by how much the resolution that a misspecified
model allows exceeds what any gap of a leader can still be."""

EVIDENCES = 5


@kernel
def track_sizes(arms: int, candidates: int, rank: int) -> tuple[int, int]:
    """Return the lengths of the two buffers that a track lives in."""
    floats = (6 + 2 * COLUMNS) * arms + 4 * rank * rank + 2 * rank + EVIDENCES
    return floats, 2 * candidates + arms + CONTROLS


@kernel
def open_track(floats: Floats, integers: Integers, arms: int, candidates: int, rank: int) -> Track:
    """Return the named views of the two buffers."""
    data = floats[: 6 * arms].reshape((6, arms))
    at = 6 * arms
    records = floats[at : at + 2 * COLUMNS * arms].reshape((2, arms, COLUMNS))
    at += 2 * COLUMNS * arms
    matrices = floats[at : at + 4 * rank * rank].reshape((4, rank, rank))
    at += 4 * rank * rank
    flags = integers[: 2 * candidates].reshape((2, candidates))
    start = 2 * candidates
    return Track(
        data[0], data[1], data[2], data[3], data[4], data[5], records[0], records[1],
        matrices[0], matrices[1], matrices[2], matrices[3],
        floats[at : at + rank], floats[at + rank : at + 2 * rank],
        floats[at + 2 * rank : at + 2 * rank + EVIDENCES],
        flags[0], flags[1], integers[start : start + arms],
        integers[start + arms : start + arms + CONTROLS],
    )  # fmt: skip
