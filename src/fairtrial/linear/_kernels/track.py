"""The state of rules that choose one pull at a time, packed and by name."""

from typing import Annotated, NamedTuple

from fairtrial.confidence.noise_kernels import COLUMNS
from fairtrial.core.layout import Layout, opener
from fairtrial.linear._kernels.matrices import Floats, Integers
from fairtrial.linear._kernels.model import Model

SOARE, STATIC, CHECKS, PHASE, MIXTURE, RIDGE, CONSTANT = range(7)
"""Levels: see `fairtrial.linear.policies.levels`."""

GAP_INDEX, SHARES, GREEDY, GAME, FRANK_WOLFE = range(5)
"""Sampling rules."""

REFRESH = 500
"""Results after which the inverse is recomputed."""


class Test(NamedTuple):
    """The constants of the stopping test."""

    kind: int
    delta: float
    errors: float  # ordered pairs of candidates whose confusion would be an error
    candidates: float
    spread: float  # of the mixture's prior, in start-up designs
    prior_log_det: float
    constant: float
    radius: float  # sqrt(eta) S of the ridge level, and largest squared row over eta
    reach: float
    initial: float  # of every basis arm, before other pulls
    tolerance: float
    top: int
    estimated: bool  # whether the noise is estimated
    misspecification: float  # largest difference of a value from the linear function
    tie_key: int  # key of random tie breaks; negative: the first arm


class Constants(NamedTuple):
    """All values that never change."""

    model: Model
    test: Test


READY, STARTED, FINISHED, HOPELESS, TOLD, LOOK, WINNER, RIVAL, AGE, AWAY, SUPPORT = range(11)
"""Entries of `control`.

In order: whether theta can be estimated, and whether the start-up has its results; whether the test
has stopped with an answer, or found that there never will be one; results; looks so far; the two
candidates of the most important pair; results since the inverse was recomputed; pulls in flight;
arms in the support.
"""

CONTROLS = 11

EVIDENCE, LEVEL, REGRET, NOISE, SHORTFALL = range(5)
"""Entries of `evidence`.

In order: the evidence and the level that it must exceed, both per unit of the noise's variance;
AdaHedge's regret; the variance of the noise; and by how much the resolution of a misspecified model
exceeds the largest possible gap of a leader.
"""

EVIDENCES = 5


class Track(NamedTuple):
    """All values that change."""

    counts: Annotated[Floats, "arms"]
    sums: Annotated[Floats, "arms"]
    squares: Annotated[Floats, "arms"]
    pending: Annotated[Floats, "arms"]
    shares: Annotated[Floats, "arms"]  # the shares that the rule tracks
    gains: Annotated[Floats, "arms"]  # of the arms in the game
    record: Annotated[Floats, f"arms {COLUMNS}"]  # the spread of results, to test the noise
    early: Annotated[Floats, f"arms {COLUMNS}"]  # `record` when theta was first estimated
    matrix: Annotated[Floats, "rank rank"]  # the Gram matrix of the results
    inverse: Annotated[Floats, "rank rank"]
    ahead: Annotated[Floats, "rank rank"]  # the inverse including pulls in flight
    prior: Annotated[Floats, "rank rank"]  # of the mixture; a ridge is in the inverses instead
    right: Annotated[Floats, "rank"]  # sum of reward times row
    theta: Annotated[Floats, "rank"]
    evidence: Annotated[Floats, f"{EVIDENCES}"]  # see EVIDENCE and following
    chosen: Annotated[Integers, "candidates"]  # leaders, or the answer
    ruled_out: Annotated[Integers, "candidates"]
    support: Annotated[Integers, "arms"]  # arms with shares
    control: Annotated[Integers, f"{CONTROLS}"]  # see READY and following


CONSTANTS = Layout(Constants)
TRACK = Layout(Track)
opened = opener(CONSTANTS, TRACK)
