"""What block betting keeps: its constants, its data and ledgers, and the open blocks."""

from typing import Annotated, NamedTuple

from fairtrial.confidence.block_betting.bets import Bets
from fairtrial.confidence.block_betting.blocks import Arrays, Blocks
from fairtrial.confidence.noise_kernels import NUMBERED_COLUMNS
from fairtrial.core.compilation import inlined, kernel
from fairtrial.core.layout import Layout
from fairtrial.subpopulations._kernels.model import Floats, Integers, Model


class Rules(NamedTuple):
    """The constants of the method, as docs/explanation/block-betting.md has them.

    `low` and `high` are the reward's range if it is `bounded`; rewards come less `shift`, limits
    and range as well. `threshold` is what the logarithm of an e-value has to reach: ln(1/delta), or
    ln(K/delta) if every ledger is tested `separately`, as a tolerance needs it. A block has
    `growth` times the pulls so far, and at least `touch` for every cell that matters; `kappa` and
    `cost` shape the plan, which takes `steps` steps at most, and ends before if it is within the
    factor `precision` of what any plan could reach. It is made at means that `doubt` has moved if
    it `doubts`. Nothing is bet while the leader's weakest item has less than `pause` squared. A
    lost pull is made again if `pulls_again`; else it counts as the worst value, or for known noise
    as none.
    """

    bounded: bool
    low: float
    high: float
    threshold: float
    initial_pulls: float
    growth: float
    kappa: float
    cost: float
    touch: float
    steps: int
    precision: float
    doubts: bool
    pause: float
    pulls_again: bool
    shift: float
    separately: bool


class Constants(NamedTuple):
    """All that never changes."""

    model: Model
    rules: Rules


class State(NamedTuple):
    """Everything that changes: data, ledgers, and the open blocks.

    A block has ``bets = arms + groups`` bets, or ``arms + 2 groups`` where cells have ceilings:
    one on each arm but the leader, then one on each limit of the leader, floors first. Row 0 of a
    bet's last two axes is the leader's arm, row 1 the rival's. Where limits refer to a control
    there are ``arms + 3 groups + 1`` bets, and row 2 is the control's.
    """

    counts: Annotated[Floats, "arms groups"]
    sums: Annotated[Floats, "arms groups"]
    squares: Annotated[Floats, "arms groups"]
    shares: Annotated[Floats, "arms groups"]  # the plan that the next one starts from
    ledgers: Annotated[Floats, "arms+arms*arms+ends*arms*groups"]  # see the functions below
    forecast: Annotated[Floats, "1"]  # pulls still needed when the last block was planned
    rejected: Annotated[Integers, "arms+1"]  # answers, the last is "none"
    leader: Annotated[Integers, "1"]
    finished: Annotated[Integers, "1"]
    answer: Annotated[Integers, "1"]
    blocks: Blocks
    target: Annotated[Integers, "slots"]  # the leader that was bet on
    bets: Bets
    rival: Annotated[Integers, "slots bets"]
    constant: Annotated[Floats, "slots bets"]  # part of the effect
    coefficients: Annotated[Floats, "slots bets roles groups"]
    centres: Annotated[Floats, "slots bets roles groups"]
    settled_noise: Annotated[Floats, f"tested {NUMBERED_COLUMNS}"]
    noise: Annotated[Floats, f"slots tested {NUMBERED_COLUMNS}"]


class Estimates(NamedTuple):
    """What a plan or a bet is made at."""

    means: Floats
    """Shape (K, L)."""
    control_means: Floats
    """Of the control, as its rivals are held against it; shape (L,)."""
    variances: Floats
    """Of one pull, shape (K, L)."""


CONSTANTS = Layout(Constants)
STATE = Layout(State)
open_constants = CONSTANTS.open
open_state = STATE.open


@kernel(inline="always")
def opened(arrays: Arrays) -> tuple[Model, Rules, State]:
    """Return the model, the rules and the state that the arrays hold."""
    model, rules = open_constants(arrays[0])
    return model, rules, open_state(arrays[1], arrays[2])


@inlined
def own_ledger(arm: int) -> int:
    """Return the ledger D[arm]: against the arm being feasible."""
    return arm


@inlined
def pair_ledger(state: State, rival: int, target: int) -> int:
    """Return the ledger P[rival, target]: against the rival being as good as the target."""
    arms = state.shares.shape[0]
    return arms + rival * arms + target


@inlined
def limit_ledger(state: State, end: int, target: int, group: int) -> int:
    """Return the ledger C[end, target, group]: against the target failing a limit of a cell."""
    arms, groups = state.counts.shape
    return arms + arms * arms + (end * arms + target) * groups + group
