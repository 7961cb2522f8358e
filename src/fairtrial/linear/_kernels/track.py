"""What the rules that choose one pull at a time know and test by: packed, and by name."""

from typing import Annotated, NamedTuple

from fairtrial.confidence.noise_kernels import COLUMNS
from fairtrial.core.layout import Layout
from fairtrial.linear._kernels.matrices import Floats, Integers
from fairtrial.linear._kernels.model import Model

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


class Constants(NamedTuple):
    """All that never changes."""

    model: Model
    test: Test


READY, STARTED, FINISHED, HOPELESS, TOLD, LOOK, WINNER, RIVAL, AGE, AWAY, SUPPORT = range(11)
"""Entries of `control`: whether theta can be estimated and the start-up is told, whether the test
has stopped with an answer or found that there will be none, results, looks so far, the pair that
matters most, results since the inverse was recomputed, pulls in flight, and arms in the support."""

CONTROLS = 11

EVIDENCE, LEVEL, REGRET, NOISE, SHORTFALL = range(5)
"""Entries of `evidence`: what there is and what it is held against, both per unit of the noise's
variance, AdaHedge's regret, that variance, and by how much the resolution that a misspecified
model allows exceeds what any gap of a leader can still be."""

EVIDENCES = 5


class Track(NamedTuple):
    """Everything that changes."""

    counts: Annotated[Floats, "arms"]
    sums: Annotated[Floats, "arms"]
    squares: Annotated[Floats, "arms"]
    pending: Annotated[Floats, "arms"]
    shares: Annotated[Floats, "arms"]  # what is tracked
    gains: Annotated[Floats, "arms"]  # of the arms in the game
    record: Annotated[Floats, f"arms {COLUMNS}"]  # the spread of results, to test the noise
    early: Annotated[Floats, f"arms {COLUMNS}"]  # what it was when theta was first estimated
    matrix: Annotated[Floats, "rank rank"]  # the Gram matrix of the results
    inverse: Annotated[Floats, "rank rank"]
    ahead: Annotated[Floats, "rank rank"]  # the inverse with the pulls in flight
    prior: Annotated[Floats, "rank rank"]  # of the mixture; a ridge is part of the inverses
    right: Annotated[Floats, "rank"]  # sum of reward times row
    theta: Annotated[Floats, "rank"]
    evidence: Annotated[Floats, f"{EVIDENCES}"]  # see EVIDENCE and those after it
    chosen: Annotated[Integers, "candidates"]  # leaders, or the answer
    ruled_out: Annotated[Integers, "candidates"]
    support: Annotated[Integers, "arms"]  # arms with shares
    control: Annotated[Integers, f"{CONTROLS}"]  # see READY and those after it


CONSTANTS = Layout(Constants)
TRACK = Layout(Track)
open_constants = CONSTANTS.open
open_track = TRACK.open
