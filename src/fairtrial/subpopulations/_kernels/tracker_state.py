"""What a rule that chooses one pull at a time keeps: its constants, its data, its pitfalls."""

from typing import Annotated, NamedTuple

from fairtrial.confidence.noise_kernels import NUMBERED_COLUMNS
from fairtrial.core.layout import Layout
from fairtrial.subpopulations._kernels.model import Floats, Integers, Model


class Rules(NamedTuple):
    """The constants of the sampling rule and of the stopping test.

    Every cell that matters gets `initial_pulls` first; the least pulled cell is pulled while it
    has fewer than `guard` times sqrt(t / (K L)) pulls. `shares` are tracked by a rule with fixed
    shares. `level` is ln(1 / delta'), with the delta of each of the tests that share `delta`.
    `kappas`: prior counts of the mixture. `prices`: C(x / m) for m = 1 .. 2L cells, and C(x) in
    entry 0, for Kaufmann-Koolen; what a pair test of m cells needs beyond `level`, for the mixture.
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
    """All that never changes."""

    model: Model
    rules: Rules


class State(NamedTuple):
    """Everything that changes.

    `best` and `weakest` are the answer and its weakest pitfall when last looked at, `UNKNOWN`
    before the first reward. `noise` has a row for each cell, or none if nothing tests the noise.
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
    noise: Annotated[Floats, f"tested {NUMBERED_COLUMNS}"]  # how results spread, by cell


UNKNOWN = -2
"""Neither an arm nor "none", nor a pitfall."""

CONSTANTS = Layout(Constants)
STATE = Layout(State)
open_constants = CONSTANTS.open
open_state = STATE.open
