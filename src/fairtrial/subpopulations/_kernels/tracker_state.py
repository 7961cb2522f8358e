"""The state of a rule that chooses one pull at a time: constants, data and pitfalls."""

from typing import Annotated, NamedTuple

from fairtrial.confidence.noise_kernels import NUMBERED_COLUMNS
from fairtrial.core.layout import Layout, opener
from fairtrial.subpopulations._kernels.model import Floats, Integers, Model


class Rules(NamedTuple):
    """The constants of the sampling rule and of the stopping test.

    Every cell that matters first gets `initial_pulls`; the least pulled cell is pulled while it has
    fewer than `guard` times sqrt(t / (K L)) pulls. A rule with fixed shares tracks `shares`.
    `level` is ln(1 / delta'), where delta' is each test's part of `delta`. `kappas`: prior counts
    of the mixture. `prices`: for Kaufmann-Koolen, C(x / m) for m = 1 .. 2L cells, and C(x) in entry
    0; for the mixture, what a pair test of m cells needs beyond `level`.
    """

    sampling: int
    initial_pulls: float
    guard: float
    shares: Annotated[Floats, "arms groups"]
    test: int
    delta: float
    level: float
    kappas: Annotated[Floats, "kappas"]
    prices: Annotated[Floats, "2*groups+1"]
    estimates_noise: bool


class Constants(NamedTuple):
    """All values that never change."""

    model: Model
    rules: Rules


class State(NamedTuple):
    """All values that change.

    `best` and `weakest` are the answer and its weakest pitfall at the last update, `UNKNOWN` before
    the first reward. `noise` has a row for each cell, or no rows if nothing tests the noise.
    """

    counts: Annotated[Floats, "arms groups"]
    pending: Annotated[Floats, "arms groups"]  # pulls issued that have no reward yet
    sums: Annotated[Floats, "arms groups"]
    squares: Annotated[Floats, "arms groups"]  # of deviations from the mean
    means: Annotated[Floats, "arms groups"]
    precisions: Annotated[Floats, "arms groups"]
    credit: Annotated[Floats, "arms groups"]  # pulls that a cell has earned
    shares: Annotated[Floats, "arms groups"]
    pitfalls: Annotated[Floats, "arms+groups"]
    best: Annotated[Integers, "1"]
    weakest: Annotated[Integers, "1"]
    noise: Annotated[Floats, f"tested {NUMBERED_COLUMNS}"]  # spread of results, by cell


UNKNOWN = -2
"""Neither an arm nor "none", nor a pitfall."""

CONSTANTS = Layout(Constants)
STATE = Layout(State)
opened = opener(CONSTANTS, STATE)
