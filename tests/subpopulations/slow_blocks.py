"""Block betting for floors, slow and obvious, written from the mathematics alone.

It shares no code with the package: plain floats, dictionaries of cells, a root finder for the
inner problem, and the logarithm of every single factor. Rewards are maximised; to minimise,
negate rewards, floors and range first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar, nnls

from tests.block_betting import MOST_TRIED, is_sooner
from tests.slow_end_bets import End

GRID = 24
OM = 1.5
ETA = 0.5
COST = 1.5
KAPPA = 1.0
GAMMA = 0.03
GAMMA_TO_NEAR_END = 0.01
NEAR_END = 5_000
SMALLEST_SHARE_BLOCK = 2
STEPS = 300
PRECISION = 0.9
REACH, NARROWING = 0.6, 40
FIRST_GAIN, SLOWING = 0.16, 25
DOUBT = math.sqrt(2.0)
NEGLECT = 1.5
TAU = 0.5
TAU_NONE = 1.0
CAP = 0.4
PRIOR_DRAWS = 2.0
LAST_BLOCK = 1.5
MOST_UNFILLED = 3
MOST_STRETCHED = 10
WASTED = 9.87

Cell = tuple[int, int]
NONE = "none"


# ------------------------------------------------------------------------------ the bet


def grid(m: float) -> tuple[list[float], list[float], float]:
    """Return points, their weights, and the cash; weights and cash sum to one."""
    w = 4.0 * math.sqrt(OM)

    def midpoints(low: float, high: float) -> tuple[list[float], list[float]]:
        h = (high - low) / GRID
        points = [low + (i + 0.5) * h for i in range(GRID)]
        exponents = [math.log(h) - (u - m) ** 2 / (2 * OM) - math.log(abs(u) + ETA) for u in points]
        return points, exponents

    points, stakes = midpoints(max(0.0, m - w), max(0.0, m) + w)
    kept = midpoints(min(0.0, m) - w, 0.0)[1] if m < w else []
    total = log_sum_exp(stakes + kept)
    cash = math.exp(log_sum_exp(kept) - total) if kept else 0.0
    return points, [math.exp(p - total) for p in stakes], cash


def log_sum_exp(terms: list[float]) -> float:
    largest = max(terms)
    if largest == -math.inf:
        return largest
    return largest + math.log(math.fsum(math.exp(t - largest) for t in terms))


def log_or_minus_infinity(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def mixture(cash: float, weights: list[float], log_products: list[float]) -> float:
    terms = [log_or_minus_infinity(cash)]
    terms += [log_or_minus_infinity(p) + x for p, x in zip(weights, log_products, strict=True)]
    return log_sum_exp(terms)


def log_bet(m: float, f: float, e: float) -> float:
    points, weights, cash = grid(m)
    return mixture(cash, weights, [u * e * f - u * u * f / 2 for u in points])


@dataclass
class BoundedBet:
    """Coefficients per draw, centres, and the points theta with their weights."""

    coefficients: dict[Any, float]
    centres: dict[Any, float]
    thetas: list[float]
    weights: list[float]
    cash: float
    effect_at_centre: float

    def log_wealth(self, rewards: dict[Any, list[float]]) -> float:
        products = []
        for theta in self.thetas:
            logs = [theta * self.effect_at_centre]
            for cell, a in self.coefficients.items():
                logs += [math.log1p(theta * a * (x - self.centres[cell])) for x in rewards[cell]]
            products.append(math.fsum(logs))
        return mixture(self.cash, self.weights, products)


def bounded_bet(
    draws: dict[Any, int],
    coefficients: dict[Any, float],
    centres: dict[Any, float],
    constant: float,
    means: dict[Any, float],
    variances: dict[Any, float],
    counts: dict[Any, float],
    low: float,
    high: float,
    end: End | None = None,
) -> BoundedBet | None:
    """Return the bet on T(x) = sum of n a x + constant; None if there is nothing to bet on."""
    cells = [cell for cell, a in coefficients.items() if a != 0.0]
    if not cells or any(draws[cell] == 0 for cell in cells):
        return None

    def effect(x: dict[Any, float]) -> float:
        return math.fsum([draws[c] * coefficients[c] * x[c] for c in cells] + [constant])

    sd = math.sqrt(
        math.fsum(
            (draws[c] * coefficients[c]) ** 2 * variances[c] / max(1, counts[c]) for c in cells
        )
    )
    spread = math.fsum(
        draws[c] * coefficients[c] ** 2 * (variances[c] + (means[c] - centres[c]) ** 2)
        for c in cells
    )
    reach = max(
        coefficients[c] * (centres[c] - low)
        if coefficients[c] > 0
        else -coefficients[c] * (high - centres[c])
        for c in cells
    )
    most = CAP / reach if reach > 0 else math.inf
    points, weights, cash = grid(effect(means) / sd)
    aim = end.aim(effect(means) / sd, sd**2 / spread) if end else None
    if aim is not None:
        points, weights, cash = [aim], [1.0], 0.0
    return BoundedBet(
        coefficients={c: coefficients[c] for c in cells},
        centres={c: centres[c] for c in cells},
        thetas=[min(u * sd / spread, most) for u in points],
        weights=weights,
        cash=cash,
        effect_at_centre=effect(centres),
    )


@dataclass
class GaussianBet:
    """T = constant + sum of a times the mean of a cell, and what was known about it before."""

    coefficients: dict[Any, float]
    constant: float
    m: float
    sd: float
    noise_variances: dict[Any, float]
    aim: float | None = None
    end: End | None = None
    """The end, if the whole error is spent by then; and the precision of the planned block."""
    planned: float = 0.0

    def log_wealth(self, rewards: dict[Any, list[float]]) -> float:
        if any(not rewards[cell] for cell in self.coefficients):
            return 0.0
        own = [a * math.fsum(rewards[c]) / len(rewards[c]) for c, a in self.coefficients.items()]
        estimate = math.fsum([*own, self.constant])
        variance = math.fsum(
            a * a * self.noise_variances[c] / len(rewards[c]) for c, a in self.coefficients.items()
        )
        f, e = self.sd**2 / variance, estimate / self.sd
        if self.end is not None:
            return self.end.log_conditional_error(f, self.planned * self.end.ahead, e * f)
        if self.aim is not None:
            return self.aim * e * f - self.aim**2 * f / 2
        return log_bet(self.m, f, e)


# ------------------------------------------------------------------- the inner problem


@dataclass
class Inner:
    """The least costly way for arm k to beat arm b: its means, its multiplier and its price."""

    own: list[float]
    target: list[float]
    s: float
    value: float


def inner(mu_b, mu_k, w_b, w_k, q, floors, ceilings, tolerance=0.0) -> Inner:
    groups = range(len(q))

    def target(s: float) -> list[float]:
        return [mu_b[i] - (s * q[i] / w_b[i] if q[i] > 0 and s > 0 else 0.0) for i in groups]

    def own(s: float) -> list[float]:
        # A cell without precision moves for free, as far as its ceiling.
        moved = [
            mu_k[i] + ((s * q[i] / w_k[i] if w_k[i] > 0 else math.inf) if q[i] * s > 0 else 0.0)
            for i in groups
        ]
        return [min(max(floors[i], moved[i]), ceilings[i]) for i in groups]

    def gap(s: float) -> float:
        apart = [q[i] * (b - k) for i, b, k in zip(groups, target(s), own(s), strict=True)]
        return math.fsum([*apart, tolerance])

    s = 0.0
    free = any(
        q[i] > 0 and (w_b[i] == 0 or (w_k[i] == 0 and ceilings[i] == math.inf)) for i in groups
    )
    if gap(0.0) > 0 and not free and gap(1e-300) > 0:
        # Arm b alone can close the gap: there is nothing to find beyond that point.
        most = gap(1e-300) / math.fsum(q[i] ** 2 / w_b[i] for i in groups if q[i] > 0)
        s = most
        if gap(most) < 0:
            s = brentq(gap, 1e-300, most, xtol=1e-16 * most, rtol=1e-15)
    lam_b, lam_k = target(s), own(s)
    if free and gap(0.0) > 0:
        # Cells without precision close the gap for nothing; any way will do.
        lam_b = [mu_b[i] - (q[i] > 0 and w_b[i] == 0) for i in groups]
        has_room = [ceiling == math.inf for ceiling in ceilings]
        lam_k = [own(0.0)[i] + (q[i] > 0 and w_k[i] == 0 and has_room[i]) for i in groups]
    value = math.fsum(w_b[i] * (mu_b[i] - lam_b[i]) ** 2 for i in groups)
    value += math.fsum(w_k[i] * (mu_k[i] - lam_k[i]) ** 2 for i in groups)
    return Inner(own=lam_k, target=lam_b, s=s, value=value)


@dataclass
class Row:
    """A number that is at most zero if a rival is right: linear in the means of cells."""

    parts: dict[Cell, float]
    bound: float

    def at(self, means: dict[Cell, float]) -> float:
        return math.fsum([self.bound, *(a * means[c] for c, a in self.parts.items())])


def nearest(
    rows: list[Row], means: dict[Cell, float], precision: dict[Cell, float]
) -> tuple[float, list[float]]:
    """Return the distance to where all rows are at most zero, and a multiplier for each row.

    It is solved as a problem of non-negative least squares (Lawson and Hanson 1974, section 23.4),
    and then once more for its active rows.
    """
    free = [any(a and precision[c] == 0 for c, a in row.parts.items()) for row in rows]
    kept = [i for i, is_free in enumerate(free) if not is_free]
    cells = sorted({c for i in kept for c, a in rows[i].parts.items() if a})
    found = [0.0] * len(rows)
    if not cells or all(rows[i].at(means) <= 0 for i in kept):
        return 0.0, found
    scaled = np.array(
        [[rows[i].parts.get(c, 0.0) / math.sqrt(precision[c]) for c in cells] for i in kept]
    )
    short = np.array([rows[i].at(means) for i in kept])
    unit = np.abs(short).max() / np.abs(scaled).max()
    wanted = np.append(np.zeros(len(cells)), 1.0)
    used, _ = nnls(np.vstack([scaled.T, short / unit]), wanted, maxiter=10_000)
    active = np.flatnonzero(used > 1e-9 * used.max())
    part = scaled[active]
    exact = np.linalg.lstsq(part @ part.T, short[active], rcond=None)[0]
    for place, multiplier in zip(active, exact, strict=True):
        found[kept[int(place)]] = max(0.0, float(multiplier))
    return float(np.sum((exact @ part) ** 2)), found


# ------------------------------------------------------------------------ the algorithm


@dataclass
class Setting:
    """What is known and wanted; `sigma` for the Gaussian bet, `bounds` for the bounded one."""

    shares: list[float]
    floors: dict[Cell, float]
    ceilings: dict[Cell, float]
    delta: float
    sigma: dict[Cell, float] | None = None
    bounds: tuple[float, float] | None = None
    costs: dict[Cell, float] | None = None
    losses_ignorable: bool = False
    max_pulls: int | None = None
    """The planned end."""
    is_normal: bool = False
    tolerance: float = 0.0
    floor_tolerance: float = 0.0
    control: int | None = None
    differences: dict[tuple[int, int, int], float] = field(default_factory=dict)
    """The least differences from the control: (2, arm, group) in a group, (3, arm, 0) overall."""

    @property
    def is_tolerant(self) -> bool:
        return self.tolerance > 0 or self.floor_tolerance > 0

    def aimed_at(self, leader: Any) -> Setting:
        """Return the limits that bets use: wider for the leader, narrower for its rivals."""
        spare = {c: self.floor_tolerance * (1 if c[0] == leader else -1) for c in self.cells}
        return replace(
            self,
            floors={c: floor - spare[c] for c, floor in self.floors.items()},
            ceilings={c: ceiling + spare[c] for c, ceiling in self.ceilings.items()},
            differences={
                (end, k, i): least - spare[k, i] for (end, k, i), least in self.differences.items()
            },
        )

    @property
    def redraws(self) -> bool:
        """Whether a lost draw is drawn again."""
        return self.bounds is not None and self.losses_ignorable

    @property
    def groups(self) -> int:
        return len(self.shares)

    @property
    def arms(self) -> int:
        return len(self.floors) // len(self.shares)

    @property
    def cells(self) -> list[Cell]:
        return [(k, i) for k in range(self.arms) for i in range(self.groups)]

    def limit(self, end: int, cell: Cell) -> float:
        """Return the floor (end 0) or the ceiling (end 1) of a cell, or a least difference."""
        if end > 1:
            return self.differences.get((end, *cell), -math.inf)
        return (self.floors, self.ceilings)[end][cell]

    def ends(self, arm: int) -> list[tuple[int, int]]:
        """Return every end and group in which the arm has a limit."""
        pairs = [(end, i) for end in (0, 1, 2, 3) for i in range(self.groups)]
        return [(end, i) for end, i in pairs if math.isfinite(self.limit(end, (arm, i)))]

    def weight(self, end: int, group: int, i: int) -> float:
        """Return the weight of group i in a difference from the control."""
        return self.shares[i] if end == 3 else float(i == group)

    def rows(self, k: int, leader: Any) -> list[Row]:
        """Return rows at most zero if arm k keeps its limits and is as good as the leader."""
        found = []
        groups = range(self.groups)
        if leader != NONE:
            parts = {(leader, i): self.shares[i] for i in groups}
            parts |= {(k, i): -self.shares[i] for i in groups}
            found.append(Row(parts, self.tolerance))
        for end, group in self.ends(k):
            limit = self.limit(end, (k, group))
            if end < 2:
                sign = (-1.0, 1.0)[end]
                found.append(Row({(k, group): sign}, -sign * limit))
                continue
            weights = {i: self.weight(end, group, i) for i in groups}
            parts = {(self.control, i): w for i, w in weights.items()}
            parts |= {(k, i): -w for i, w in weights.items()}
            found.append(Row(parts, limit))
        return found

    def own_row(self, leader: int, end: int, group: int) -> Row:
        """Return a row at most zero if the leader is not better than a difference's limit."""
        weights = {i: self.weight(end, group, i) for i in range(self.groups)}
        parts = {(leader, i): w for i, w in weights.items() if w}
        parts |= {(self.control, i): -w for i, w in weights.items() if w}
        return Row(parts, -self.limit(end, (leader, group)))

    def outside(self, cell: Cell, mean: float) -> float:
        """Return how far a mean is beyond its cell's limits."""
        return max(0.0, self.floors[cell] - mean, mean - self.ceilings[cell])


@dataclass
class Item:
    """An item: a claim from which the leader must still be distinguished."""

    kind: str
    label: Any
    need: float


@dataclass
class Block:
    """A block as issued, and the rewards that have come since."""

    counts: dict[Cell, int]
    leader: Any = None
    bets: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    paused: bool = False
    objective: float = math.nan
    rewards: dict[Cell, list[float]] = field(default_factory=dict)
    lost: dict[Cell, int] = field(default_factory=dict)
    to_issue: dict[Cell, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rewards = {cell: [] for cell in self.counts}
        self.lost = dict.fromkeys(self.counts, 0)
        self.to_issue = dict(self.counts)

    def has_place(self, group: int | None) -> bool:
        """Return whether a draw of a group, or any draw, is still to be issued."""
        return any(n for (_, i), n in self.to_issue.items() if group in (i, None))

    def waits(self, redraws: bool) -> bool:
        """Return whether draws are missing; with `redraws` a lost one is drawn again."""
        gone = dict.fromkeys(self.counts, 0) if redraws else self.lost
        return any(len(self.rewards[c]) + gone[c] < n for c, n in self.counts.items())


class SlowBlocks:
    """The whole experiment: data, ledgers, rejected answers, and the blocks in order."""

    def __init__(self, setting: Setting) -> None:
        self.setting = self.nominal = setting
        self.n = dict.fromkeys(setting.cells, 0)
        self.sum = dict.fromkeys(setting.cells, 0.0)
        self.squares = dict.fromkeys(setting.cells, 0.0)
        self.start_evidence()
        self.share = dict.fromkeys(setting.cells, 1.0 / len(setting.cells))
        # Draws of paid blocks: with a result, and without one.
        self.came = dict.fromkeys(setting.cells, 0)
        self.lost = dict.fromkeys(setting.cells, 0)
        # The values that a plan or a bet uses, if they are not the estimates.
        self.seen: tuple[dict[Cell, float], dict[Cell, float]] | None = None
        self.lift: dict[Cell, float] = {}
        self.control_means: dict[Cell, float] | None = None
        # Whether losses are disregarded; whether draws are planned ones, of which some get lost.
        self.ideal = self.planning = False
        # Arms that are better than the target by the estimates, but that losses make slow.
        self.passed: set[int] = set()
        self.blocks: list[Block] = []
        self.settled = 0
        self.outside = 0
        # The later draws of the experiment per draw of the block, and the end of one bet.
        self.ahead: float | None = None
        self.end: End | None = None

    def start_evidence(self) -> None:
        arms = range(self.setting.arms)
        self.D = dict.fromkeys(arms, 0.0)
        self.P = {(k, j): 0.0 for k in arms for j in arms if k != j}
        self.C = {(end, j, i): 0.0 for j in arms for end, i in self.setting.ends(j)}
        self.rejected: set[Any] = set()
        if any(not self.setting.ends(j) for j in arms):
            self.rejected.add(NONE)

    # ------------------------------------------------------------------ what is known

    @property
    def threshold(self) -> float:
        tests = self.setting.arms if self.setting.is_tolerant else 1
        return math.log(tests / self.setting.delta)

    @property
    def live(self) -> list[Any]:
        return [a for a in [*range(self.setting.arms), NONE] if a not in self.rejected]

    @property
    def live_arms(self) -> list[int]:
        return [a for a in self.live if a != NONE]

    @property
    def answer(self) -> Any:
        """The answer once only one is left, otherwise the text "open"."""
        return self.live[0] if len(self.live) == 1 else "open"

    def mean(self, cell: Cell) -> float:
        if self.seen is not None:
            return self.seen[0][cell]
        if self.n[cell]:
            return self.sum[cell] / self.n[cell]
        own = [j for j in range(self.setting.arms) if self.n[j, cell[1]]]
        known = [self.sum[j, cell[1]] / self.n[j, cell[1]] for j in own]
        return sum(known) / len(known) if known else 0.0

    def variance(self, cell: Cell) -> float:
        """The variance of one draw: known, or estimated and shrunk towards a fair coin's."""
        if self.seen is not None:
            return self.seen[1][cell]
        if self.setting.sigma is not None:
            return self.setting.sigma[cell] ** 2
        low, high = self.setting.bounds
        n = self.n[cell]
        own = self.squares[cell] - self.sum[cell] ** 2 / n if n else 0.0
        return (own + PRIOR_DRAWS * (high - low) ** 2 / 4) / (n + PRIOR_DRAWS)

    def add(self, cell: Cell, reward: float) -> None:
        self.n[cell] += 1
        self.sum[cell] += reward
        self.squares[cell] += reward * reward

    def correct(self, cell: Cell, old: float, new: float, block: Block | None) -> None:
        """Replace a reward in the data, and among the rewards of its block."""
        self.sum[cell] += new - old
        self.squares[cell] += new * new - old * old
        if block is not None:
            rewards = block.rewards[cell]
            rewards[rewards.index(old)] = new

    def row(self, of: dict[Cell, float], arm: int) -> list[float]:
        return [of[arm, i] for i in range(self.setting.groups)]

    def means(self) -> dict[Cell, float]:
        return {c: self.mean(c) for c in self.setting.cells}

    def precisions(self, of: dict[Cell, float]) -> dict[Cell, float]:
        return {c: of.get(c, 0) / self.variance(c) for c in self.setting.cells}

    # ------------------------------------------------------------------------ wealth

    def cell_term(self, j: int) -> float:
        return min((self.C[end, j, i] for end, i in self.setting.ends(j)), default=math.inf)

    def target_term(self, answer: Any, j: int) -> float:
        if answer == NONE:
            return self.cell_term(j)
        return min(self.P[answer, j], self.cell_term(j))

    def wealth(self, answer: Any, target: int | None = None, instead: float = 0.0) -> float:
        """Return log W of an answer, with the term of `target` replaced by `instead`."""
        total = 0.0 if answer == NONE else self.D[answer]
        for j in range(self.setting.arms):
            if j != answer:
                total += instead if j == target else self.target_term(answer, j)
        return total

    # ------------------------------------------------- what lost draws leave, and doubt

    def share_lost(self, cell: Cell) -> float:
        if self.setting.redraws or not self.lost[cell]:
            return 0.0
        return self.lost[cell] / (self.lost[cell] + max(1, self.came[cell]))

    def share_at_worst(self, cell: Cell) -> float:
        if self.ideal or self.setting.bounds is None:
            return 0.0
        return self.share_lost(cell)

    def after_losses(self, leader: Any) -> None:
        """Compute means and variances as bets see them, with lost draws at their worst values."""
        self.setting = self.nominal.aimed_at(leader)
        self.seen = None
        means, variances = self.means(), {c: self.variance(c) for c in self.setting.cells}
        self.lift = dict.fromkeys(self.setting.cells, 0.0)
        self.control_means = {c: m for c, m in means.items() if c[0] == self.setting.control}
        for cell in self.control_means:
            if z := self.share_at_worst(cell):
                self.control_means[cell] += z * (self.setting.bounds[0] - means[cell])
        for cell in self.setting.cells:
            z, mean, top = self.share_at_worst(cell), means[cell], self.setting.ceilings[cell]
            if not z:
                continue
            low, high = self.setting.bounds
            if cell[0] == leader:
                worst, self.lift[cell] = low, z * (high - low)
                means[cell] = (1 - z) * mean + z * low
            elif mean > top:
                worst = low
                means[cell] = max(top, (1 - z) * mean + z * low)
            else:
                worst = high
                means[cell] = min(top, (1 - z) * mean + z * high)
            variances[cell] = (1 - z) * variances[cell] + z * (1 - z) * (worst - mean) ** 2
        self.seen = means, variances

    @property
    def lossy(self) -> bool:
        return any(self.share_lost(cell) for cell in self.setting.cells)

    @property
    def moves_means(self) -> bool:
        return any(self.share_at_worst(cell) for cell in self.setting.cells)

    @property
    def silent(self) -> set[int]:
        """Arms without a result of a cell that matters: with known noise, nothing bounds them."""
        if self.setting.sigma is None:
            return set()
        found = {c[0] for c in self.blocks[0].counts if not self.n[c]}
        return found if {*self.live_arms} - found else set()

    def known(self, item: Item, leader: Any) -> float:
        """Return the value of an item by the draws so far; 0 if losses hide it.

        Items that losses waste are left out, too, as long as there are others.
        """
        value = self.evaluate(item, leader, self.draws_so_far())[0]
        if self.setting.sigma is None or not self.lossy:
            return value
        if not self.is_wasted(item, leader):
            return value
        rest = [one for one in self.items(leader) if not self.is_wasted(one, leader)]
        draws = self.draws_so_far()
        return 0.0 if any(self.evaluate(one, leader, draws)[0] > 0 for one in rest) else value

    def draws_so_far(self) -> dict[Cell, float]:
        """Return the results of every cell, in draws of a plan."""
        return {
            c: n / (self.share_of_results(c) if self.planning else 1.0) for c, n in self.n.items()
        }

    def share_of_results(self, cell: Cell) -> float:
        """Return the share of planned draws that bets count."""
        return 1.0 if self.setting.sigma is None else 1.0 - self.share_lost(cell)

    def is_wasted(self, item: Item, leader: Any) -> bool:
        so_far = self.draws_so_far()
        issued = {c: n / (1 - self.share_lost(c)) for c, n in so_far.items()}
        value = self.evaluate(item, leader, so_far)[0]
        return self.evaluate(item, leader, issued)[0] >= WASTED * value

    def target(self) -> Any:
        """Return whom the next block compares with others.

        It is the leader, or an arm that rules out others sooner where losses make the leader slow.
        """
        leader = self.leader()
        self.passed = set()
        if leader == NONE or not self.lossy:
            return leader
        means = self.means()
        others = [k for k in self.live_arms if k != leader and not self.seems_to_break(k, means)]
        if self.seems_to_break(leader, means):
            others = []
        others = [k for k in others if k not in self.silent]
        ranked = [leader, *sorted(others, key=lambda k: (-self.quality(k), k))][:MOST_TRIED]
        target = leader
        for place, k in enumerate(ranked):
            if k == leader:
                continue
            times = self.times(target), self.times(target, without_losses=True), self.times(k)
            if is_sooner(*times, k):
                target, self.passed = k, set(ranked[:place])
        self.leader()
        return target

    def times(self, target: int, without_losses: bool = False) -> dict[Any, float]:
        """Return how many draws of every cell a target needs to rule out each answer."""
        items = self.items(target)
        self.ideal = without_losses
        draws = {c: 1.0 if without_losses else self.share_of_results(c) for c in self.setting.cells}
        self.after_losses(target)
        times: dict[Any, float] = {}
        for item in items:
            value = self.evaluate(item, target, draws)[0]
            times[item.kind, item.label] = item.need / value if value > 0.0 else math.inf
        self.seen, self.setting, self.ideal = None, self.nominal, False
        limits = max((t for (kind, _), t in times.items() if kind == "cell"), default=0.0)
        found = {
            k: max(limits, times.get(("pair", k), 0.0)) for k in (*range(self.setting.arms), NONE)
        }
        is_live = {k: k in self.live and k not in self.silent and k != target for k in found}
        return {k: t if is_live[k] and t > 0.0 else math.inf for k, t in found.items()}

    def doubted(self, leader: Any) -> dict[Cell, float]:
        """Return the means to plan at.

        A rival that can be ruled out in two ways is as cheap to rule out as the sparse data on the
        other way allow.
        """
        setting, means = self.setting, self.means()
        useful = sum(self.matters(c) for c in setting.cells)
        fair = sum(self.n.values()) / max(1.0, NEGLECT * useful)
        moved = dict(means)
        for cell in setting.cells:
            k, i = cell
            n = max(1, self.n[cell])
            if k == leader or k in self.rejected or n >= fair or not self.n[cell]:
                continue
            reach = DOUBT * math.sqrt(math.log(fair / n))
            if leader == NONE or setting.shares[i] == 0:
                to_floor = means[cell] - setting.floors[cell]
                if setting.control is not None:
                    least = setting.limit(2, cell) + self.seen_for(k)[setting.control, i]
                    to_floor = min(to_floor, means[cell] - least)
                to_ceiling = setting.ceilings[cell] - means[cell]
                if min(to_floor, to_ceiling) < math.inf:
                    way = -1 if to_floor <= to_ceiling else 1
                    moved[cell] += way * reach * math.sqrt(self.variance(cell) / n)
            elif self.breaks_a_limit(k, self.seen_for(k)):
                # The likeliest way to a quality that is smaller by one standard error.
                parts = {
                    j: setting.shares[j] * self.variance((k, j)) / self.n[k, j]
                    for j in range(setting.groups)
                    if self.n[k, j]
                }
                spread = math.sqrt(math.fsum(setting.shares[j] * part for j, part in parts.items()))
                moved[cell] -= reach * parts[i] / spread
            if setting.bounds is not None:
                moved[cell] = min(max(moved[cell], setting.bounds[0]), setting.bounds[1])
        return moved

    def doubted_control(self, leader: Any) -> dict[Cell, float]:
        """Return the control's means to plan at: higher if there are few draws."""
        found = dict(self.control_means or {})
        if self.setting.control == leader:
            return found
        useful = sum(self.matters(c) for c in self.setting.cells)
        fair = sum(self.n.values()) / max(1.0, NEGLECT * useful)
        for cell in found:
            n = max(1, self.n[cell])
            if n < fair and self.n[cell]:
                error = math.sqrt(self.variance(cell) / n)
                found[cell] += DOUBT * math.sqrt(math.log(fair / n)) * error
                if self.setting.bounds is not None:
                    found[cell] = min(found[cell], self.setting.bounds[1])
        return found

    def matters(self, cell: Cell) -> bool:
        """Return whether a cell is relevant to any answer."""
        limited = any(math.isfinite(self.setting.limit(end, cell)) for end in (0, 1, 2))
        if cell[0] == self.setting.control:
            limited |= any(
                (2, k, cell[1]) in self.setting.differences for k, _ in self.setting.cells
            )
        return limited or (self.setting.arms > 1 and self.setting.shares[cell[1]] > 0)

    # -------------------------------------------------------------------------- plan

    def quality(self, arm: int) -> float:
        weights = self.setting.shares
        return math.fsum(q * self.mean((arm, i)) for i, q in enumerate(weights))

    def leader(self) -> Any:
        self.seen = None
        self.setting = self.nominal
        means = self.means()
        arms = [k for k in self.live_arms if k not in self.silent]
        quality = {k: self.quality(k) for k in arms}
        feasible = [k for k in arms if not self.seems_to_break(k, means)]
        if feasible:
            return max(feasible, key=lambda k: (quality[k], -k))
        if NONE in self.live:
            return NONE
        precision = self.precisions(self.n)
        return min(arms, key=lambda k: (self.shortfall(k, precision), k))

    def breaks_a_limit(self, k: int, means: dict[Cell, float]) -> bool:
        rows = self.setting.rows(k, NONE)
        return any(row.at(means) > 0 for row in rows)

    def seems_to_break(self, k: int, means: dict[Cell, float]) -> bool:
        """Return whether the data so far are beyond a limit; those without a cell are not."""
        return any(
            row.at(means) > 0 and all(self.n[c] for c, weight in row.parts.items() if weight)
            for row in self.setting.rows(k, NONE)
        )

    def seen_for(self, k: int, leader: Any = NONE) -> dict[Cell, float]:
        """Return the means that a bet on k against the leader sees, including its control's."""
        means = self.means()
        if self.control_means and self.setting.control not in (k, leader):
            means |= self.control_means
        return means

    def shortfall(self, arm: int, precision: dict[Cell, float]) -> float:
        means = self.means()
        if self.setting.control is not None:
            return nearest(self.setting.rows(arm, NONE), means, precision)[0]
        return math.fsum(
            precision[arm, i] * self.setting.outside((arm, i), means[arm, i]) ** 2
            for i in range(self.setting.groups)
        )

    def items(self, leader: Any) -> list[Item]:
        """Return what a plan is made for; it does not wait for silent arms."""
        found = self.all_items(leader)
        return [one for one in found if one.kind == "cell" or one.label not in self.silent]

    def all_items(self, leader: Any) -> list[Item]:
        found = []
        if self.setting.is_tolerant:
            return self.separate_items(leader)
        if leader == NONE:
            return [
                Item("none", k, max(0.0, self.threshold - self.wealth(k)) + COST)
                for k in self.live_arms
            ]
        rivals = [k for k in self.live_arms if k != leader]
        for k in rivals:
            bracket = self.wealth(k, leader, self.P[k, leader])
            if bracket < self.threshold:
                found.append(Item("pair", k, self.threshold - bracket + COST))
        against = rivals + ([NONE] if NONE in self.live else [])
        for end, i in self.setting.ends(leader):
            own = self.C[end, leader, i]
            missing = [self.threshold - self.wealth(k, leader, own) for k in against]
            if missing and max(missing) > 0:
                found.append(Item("cell", (end, i), max(missing) + COST))
        return found

    def separate_items(self, leader: Any) -> list[Item]:
        found = []
        for k in range(self.setting.arms):
            if k != leader and self.against(k, leader) < math.inf:
                kind = "none" if leader == NONE else "pair"
                need = self.threshold - self.against(k, leader) + COST
                found.append(Item(kind, k, need))
        for end, i in [] if leader == NONE else self.setting.ends(leader):
            if self.C[end, leader, i] < math.inf:
                found.append(Item("cell", (end, i), self.threshold - self.C[end, leader, i] + COST))
        return found

    def against(self, k: int, leader: Any) -> float:
        return self.D[k] if leader == NONE else max(self.D[k], self.P[k, leader])

    def evidence_for(self, answer: Any) -> float:
        rivals = [self.against(k, answer) for k in range(self.setting.arms) if k != answer]
        limits = (
            [] if answer == NONE else [self.C[e, answer, i] for e, i in self.setting.ends(answer)]
        )
        return min([*rivals, *limits], default=math.inf)

    def settle_ledgers(self) -> None:
        """Settle ledgers that have reached the threshold separately; one answer may be left."""
        for ledgers in (self.D, self.P, self.C):
            for name, value in ledgers.items():
                if value >= self.threshold:
                    ledgers[name] = math.inf
        answers = [*range(self.setting.arms), NONE]
        first = self.blocks[-1].leader
        for answer in [first, *answers] if first is not None else answers:
            if answer not in self.rejected and self.evidence_for(answer) == math.inf:
                self.rejected = set(answers) - {answer}
                return

    def solve(self, leader: int, k: int, precision: dict[Cell, float]) -> Inner:
        means = self.means()
        return inner(
            self.row(means, leader),
            self.row(means, k),
            self.row(precision, leader),
            self.row(precision, k),
            self.setting.shares,
            self.row(self.setting.floors, k),
            self.row(self.setting.ceilings, k),
            self.setting.tolerance,
        )

    def evaluate(
        self, item: Item, leader: Any, draws: dict[Cell, float]
    ) -> tuple[float, dict[Cell, float]]:
        """Return the value of an item at these draws and what each draw of a cell adds to it."""
        precision = self.precisions(draws)
        means = self.means()
        coefficients: dict[Cell, float] = {}
        if self.setting.control is not None and item.kind != "cell":
            return self.evaluate_rows(item.label, leader, precision)
        if item.kind == "cell" and item.label[0] > 1:
            return self.evaluate_difference(self.setting.own_row(leader, *item.label), precision)
        if item.kind == "pair":
            solved = self.solve(leader, item.label, precision)
            for i in range(self.setting.groups):
                for arm, lam in ((leader, solved.target), (item.label, solved.own)):
                    moved = (means[arm, i] - lam[i]) ** 2
                    coefficients[arm, i] = moved / self.variance((arm, i))
            return solved.value, coefficients
        if item.kind == "cell":
            end, i = item.label
            distance = self.above(end, (leader, i))
            if self.moves_means and distance * (1, -1)[end] < 0:
                return 0.0, {(leader, i): distance**2 / self.variance((leader, i))}
            coefficients[leader, i] = distance**2 / self.variance((leader, i))
        else:
            for i in range(self.setting.groups):
                cell = (item.label, i)
                outside = self.setting.outside(cell, means[cell])
                coefficients[cell] = outside**2 / self.variance(cell)
        return math.fsum(draws[c] * a for c, a in coefficients.items()), coefficients

    def evaluate_rows(
        self, k: int, leader: Any, precision: dict[Cell, float]
    ) -> tuple[float, dict[Cell, float]]:
        rows = self.setting.rows(k, leader)
        value, multipliers = nearest(rows, self.seen_for(k, leader), precision)
        pulled = self.combined(rows, multipliers)
        return value, {
            c: (a / precision[c]) ** 2 / self.variance(c) for c, a in pulled.items() if a != 0.0
        }

    def combined(self, rows: list[Row], multipliers: list[float]) -> dict[Cell, float]:
        pulled: dict[Cell, float] = {}
        for row, x in zip(rows, multipliers, strict=True):
            for cell, a in row.parts.items():
                pulled[cell] = pulled.get(cell, 0.0) + x * a
        return pulled

    def evaluate_difference(
        self, row: Row, precision: dict[Cell, float]
    ) -> tuple[float, dict[Cell, float]]:
        if any(precision[c] == 0 for c in row.parts):
            return 0.0, {}
        distance = row.at(self.means())
        variance = math.fsum(a * a / precision[c] for c, a in row.parts.items())
        gains = {
            c: (distance / variance * a / precision[c]) ** 2 / self.variance(c)
            for c, a in row.parts.items()
        }
        return 0.0 if self.moves_means and distance < 0 else distance**2 / variance, gains

    def above(self, end: int, cell: Cell) -> float:
        """Return how far the mean that a bet on this limit sees is above the limit."""
        lift = self.lift.get(cell, 0.0) if end == 1 else 0.0
        return self.means()[cell] + lift - self.setting.limit(end, cell)

    def scales(self, items: list[Item], leader: Any) -> list[float]:
        known = [self.known(item, leader) for item in items]
        return [
            (1.0 + KAPPA / value) / item.need
            for item, value in zip(items, known, strict=True)
            if value > 0
        ]

    def objective(self, items: list[Item], leader: Any, draws: dict[Cell, float]) -> float:
        """Return the worst item's progress per unit of cost at these draws."""
        spent = math.fsum(self.cost(c) * x for c, x in draws.items())
        results = {c: x * self.share_of_results(c) for c, x in draws.items()}
        useful = [item for item in items if self.known(item, leader) > 0]
        scales = self.scales(items, leader)
        if not useful:
            return 0.0
        return (
            min(
                self.evaluate(item, leader, results)[0] * scale
                for item, scale in zip(useful, scales, strict=True)
            )
            / spent
        )

    def cost(self, cell: Cell) -> float:
        return 1.0 if self.setting.costs is None else self.setting.costs[cell]

    def fluid(self, items: list[Item], leader: Any) -> dict[Cell, float]:
        """Return shares of the spending that serve the worst item nearly best."""
        cells = self.setting.cells
        useful = [item for item in items if self.known(item, leader) > 0]
        if not useful:
            return dict.fromkeys(cells, 1 / len(cells))
        scales = self.scales(items, leader)
        if not any(self.setting.ends(k) for k in range(self.setting.arms)):
            return self.cheapest(useful, scales, leader)
        parts = set().union(*(self.parts_of(item, leader) for item in useful))
        spending = {c: (0.7 * self.share[c] + 0.3 / len(parts)) * (c in parts) for c in cells}
        total = math.fsum(spending.values())
        spending = {c: x / total for c, x in spending.items()}
        best, best_seen, bound = spending, -math.inf, math.inf
        prices: dict[Cell, float] = {}
        for step in range(STEPS):
            draws = {c: spending[c] / self.cost(c) for c in cells}
            rated = [self.evaluate(item, leader, draws) for item in useful]
            progress = [value * scale for (value, _), scale in zip(rated, scales, strict=True)]
            slowest = min(progress)
            if slowest > best_seen:
                best, best_seen = spending, slowest
            reach = REACH / (1 + step / NARROWING)
            weights = [max(0.0, 1 - (each / slowest - 1) / reach) ** 4 for each in progress]
            worth = dict.fromkeys(cells, 0.0)
            for weight, scale, (_, coefficients) in zip(weights, scales, rated, strict=True):
                for c, x in coefficients.items():
                    worth[c] += weight / math.fsum(weights) * scale * x / self.cost(c)
            g = FIRST_GAIN / (1 + step / SLOWING)
            prices = worth if not step else {c: (1 - g) * prices[c] + g * worth[c] for c in cells}
            # No shares make more progress than the most expensive cell's price.
            bound = min(bound, max(worth.values()), max(prices.values()))
            if best_seen >= PRECISION * bound:
                break
            whole = math.fsum(spending[c] * worth[c] for c in cells)
            spending = {c: spending[c] * (1 - g + g * worth[c] / whole) for c in cells}
        return best

    def cheapest(self, pairs: list[Item], scales: list[float], leader: int) -> dict[Cell, float]:
        """Return the cheapest shares that bring every pair equally far, if no cell has a limit.

        The leader's share is found by search; a rival then gets what its pair still needs.
        """
        setting = self.setting
        parts = {
            (k, i): setting.shares[i] * math.sqrt(self.variance((k, i)) * self.cost((k, i)))
            for k, i in setting.cells
        }
        spread = {k: math.fsum(self.row(parts, k)) for k in range(setting.arms)}
        quality = {k: self.quality(k) for k in range(setting.arms)}
        # The variance of the difference at which a pair is far enough.
        wanted = {
            pair.label: scale * (quality[leader] - quality[pair.label] + setting.tolerance) ** 2
            for pair, scale in zip(pairs, scales, strict=True)
        }
        least = spread[leader] ** 2 / min(wanted.values())

        def spending(log_excess: float) -> dict[int, float]:
            own = least * (1 + math.exp(log_excess))
            rest = {k: spread[k] ** 2 / (w - spread[leader] ** 2 / own) for k, w in wanted.items()}
            return {leader: own, **rest}

        found = minimize_scalar(
            lambda x: math.log(math.fsum(spending(x).values())),
            bounds=(-12.0, 12.0),
            method="bounded",
            options={"xatol": 1e-9},
        )
        by_arm = spending(found.x)
        cells = {c: by_arm.get(c[0], 0.0) * part / spread[c[0]] for c, part in parts.items()}
        total = math.fsum(cells.values())
        return {c: x / total for c, x in cells.items()}

    def parts_of(self, item: Item, leader: Any) -> set[Cell]:
        """Return the cells that may be relevant to an item."""
        setting = self.setting
        if item.kind == "cell":
            end, group = item.label
            return {(leader, group)} if end < 2 else set(setting.own_row(leader, end, group).parts)
        groups, means = range(setting.groups), self.means()
        own = [(item.label, i) for i in groups]
        parts = {c for c in own if setting.outside(c, means[c]) > 0}
        for end, group in setting.ends(item.label):
            if end > 1:
                row = setting.own_row(item.label, end, group)
                short = row.at(self.seen_for(item.label)) < 0
                if short or setting.ceilings[item.label, group] < math.inf:
                    parts |= set(row.parts)
        if item.kind == "pair":
            weighty = [i for i in groups if self.setting.shares[i] > 0]
            parts |= {(arm, i) for arm in (leader, item.label) for i in weighty}
        return parts

    def support(self, items: list[Item], leader: Any, share: dict[Cell, float]) -> list[Cell]:
        touched = set()
        for item in items:
            _, coefficients = self.evaluate(item, leader, share)
            touched |= {c for c, a in coefficients.items() if a > 0}
            if not any(coefficients.values()):
                touched |= self.cells_of(item, leader)
        cells = self.setting.cells
        if leader == NONE:
            touched = {c for c in touched if share[c] > 0.02 / len(cells)}
        return [c for c in cells if c in touched]

    def with_silent(
        self, items: list[Item], leader: Any, support: list[Cell], share: dict[Cell, float]
    ) -> tuple[list[Cell], dict[Cell, float]]:
        """Add one draw of the cells that keep arms silent; the leader has the rest of a wait."""
        silent = self.silent & {*self.live_arms}
        if silent and not items and leader != NONE:
            support = [c for c in self.blocks[0].counts if c[0] == leader]
        again = {c for c in self.blocks[0].counts if c[0] in silent and not self.n[c]}
        cells = [c for c in self.setting.cells if c in again or c in support]
        return cells, {c: 0.0 if c in again else x for c, x in share.items()}

    def cells_of(self, item: Item, leader: int) -> set[Cell]:
        """Return the cells to look at if the data are exactly on the border and decide nothing."""
        if item.kind == "cell":
            return self.parts_of(item, leader)
        weighty = [i for i, q in enumerate(self.setting.shares) if q > 0]
        return {(arm, i) for arm in (leader, item.label) for i in weighty}

    def planned_counts(
        self, items: list[Item], leader: Any, batch: int | None = None, *, arrives: bool = False
    ) -> dict[Cell, int]:
        seen = self.seen
        assert seen is not None, "open a view of the means first"
        doubted, control_means = self.doubted(leader), self.control_means
        self.control_means = self.doubted_control(leader)
        self.doubts = doubted != seen[0] or self.control_means != control_means
        self.planning = True
        self.seen = doubted, {c: v / self.share_of_results(c) for c, v in seen[1].items()}
        share = self.fluid(items, leader)
        support = self.support(items, leader, share)
        support, share_of_cells = self.with_silent(items, leader, support, share)
        self.seen, self.control_means, self.planning = seen, control_means, False
        if not self.doubts:
            self.share = share
        t = sum(self.n.values())
        size = max(math.ceil(self.growth * t), SMALLEST_SHARE_BLOCK * len(support))
        if batch is not None:
            size = batch
        is_last = self.left < LAST_BLOCK * size
        if is_last:
            size = self.left
        draws = {c: share_of_cells[c] / self.cost(c) for c in support}
        total = math.fsum(draws.values())
        counts = {c: max(1, round(size * x / total)) for c, x in draws.items()}
        if arrives and batch is None:
            counts = self.with_all_who_come(counts, MOST_STRETCHED * size)
        while sum(counts.values()) > self.left:
            counts[max(counts, key=counts.__getitem__)] -= 1
        while is_last and sum(counts.values()) < self.left:
            counts[max(counts, key=counts.__getitem__)] += 1
        return {c: n for c, n in counts.items() if n > 0}

    def with_all_who_come(self, counts: dict[Cell, int], most: float) -> dict[Cell, int]:
        """Add those who come until the group that takes longest is complete, at most that many."""

        def of_group(numbers: dict[Cell, int], group: int) -> int:
            return sum(n for cell, n in numbers.items() if cell[1] == group)

        share = {i: of_group(self.n, i) / sum(self.n.values()) for _, i in counts}
        people = min(most, max(of_group(counts, i) / share[i] for i in share))
        rise = {i: max(1.0, people * share[i] / of_group(counts, i)) for i in share}
        return {(k, i): round(n * rise[i]) for (k, i), n in counts.items()}

    def next_block(self, group: int | None) -> int | None:
        """Return the serial of the block that the next draw belongs to; None if to none.

        The block that would be opened for a group may turn out to be without it.
        """

        waiting = [block for block in self.blocks if block.has_place(None)]
        for serial, block in enumerate(self.blocks):
            if block.has_place(group):
                return serial
        newest = self.blocks[-1]
        helps = newest not in waiting or any(i == group for _, i in newest.counts)
        is_known = all(self.n[c] or self.stays_away(c) for c in self.blocks[0].counts)
        return len(self.blocks) if is_known and helps and len(waiting) < MOST_UNFILLED else None

    def stays_away(self, cell: Cell) -> bool:
        """Return whether a plan does not wait for the first result of a cell."""
        if self.settled:
            return self.lost[cell] > 0
        first = self.blocks[0]
        in_group = sum(n for c, n in self.n.items() if c[1] == cell[1])
        is_late = sum(self.n.values()) >= sum(first.counts.values())
        return not first.to_issue[cell] and in_group > 0 and is_late

    @property
    def growth(self) -> float:
        """Draws of a block per draw so far."""
        end = self.setting.max_pulls
        return GAMMA_TO_NEAR_END if end is not None and end <= NEAR_END else GAMMA

    @property
    def left(self) -> float:
        """Draws that are neither in a block nor outside of all, if an end is planned."""
        if self.setting.max_pulls is None:
            return math.inf
        in_blocks = sum(sum(block.counts.values()) for block in self.blocks)
        return self.setting.max_pulls - in_blocks - self.outside

    # --------------------------------------------------------------------------- blocks

    def open_first(self, counts: dict[Cell, int]) -> Block:
        """Issue the draws of the start, which have no bets."""
        block = Block(counts, paused=True)
        self.blocks.append(block)
        return block

    def open(self, counts: dict[Cell, int] | None = None, batch: int | None = None) -> Block:
        """Issue the next block from what is known now; `counts` override the plan's."""
        leader = self.target()
        runner_up = self.runner_up(leader)
        items = self.items(leader)
        self.after_losses(leader)
        if counts is None:
            counts = self.planned_counts(items, leader, batch)
        else:
            counts = {c: n for c, n in counts.items() if n > 0}
        block = Block(counts, leader, paused=self.is_unclear(items, leader))
        block.objective = self.objective(items, leader, {c: counts.get(c, 0) for c in self.n})
        size = sum(counts.values())
        self.ahead = (self.left - size) / size if self.setting.max_pulls is not None else None
        if self.ahead is not None and (leader != NONE or self.ahead == 0):
            block.paused = False
        if not block.paused:
            block.bets = self.bets(leader, counts, runner_up)
        self.seen = None
        self.blocks.append(block)
        return block

    def is_unclear(self, items: list[Item], leader: Any) -> bool:
        values = [self.known(item, leader) for item in items]
        if self.lossy:
            # More data cannot settle an item that lost draws hide: it holds up no bet on another.
            values = [value for value in values if value > 0.0]
        weakest = min(values, default=0.0 if items else math.inf)
        if leader != NONE:
            return weakest < TAU**2
        return self.setting.bounds is not None and weakest < TAU_NONE**2

    def bets(
        self, leader: Any, counts: dict[Cell, int], runner_up: int | None
    ) -> dict[tuple[Any, ...], Any]:
        draws = {c: counts.get(c, 0) for c in self.setting.cells}
        placed: dict[tuple[Any, ...], Any] = {}
        if runner_up is not None and self.aims_at(self.need_against(leader, runner_up)):
            placed["P", leader, runner_up] = self.gap_bet(runner_up, leader, draws)
        for k in self.live_arms:
            is_settled = (
                self.setting.is_tolerant and k != leader and (self.against(k, leader) == math.inf)
            )
            if k != leader and not is_settled and self.aims_at(self.need_against(k, leader)):
                ledger, bet = self.rival_bet(leader, k, draws)
                if bet is None and self.ahead is not None and leader != NONE:
                    ledger, bet = ("P", k, leader), self.gap_bet(leader, k, draws)
                placed[ledger] = bet
        if leader != NONE:
            for end, i in self.setting.ends(leader):
                if self.aims_at(self.need_of_limit(end, leader, i)):
                    placed["C", end, leader, i] = self.cell_bet(end, (leader, i), draws)
        return {ledger: bet for ledger, bet in placed.items() if bet is not None}

    # ------------------------------------------------------------------- a planned end

    def runner_up(self, leader: Any) -> int | None:
        """Return the best other arm by the estimates, for a bet on the leader; or nobody."""
        if self.setting.max_pulls is None or leader == NONE:
            return None
        means = self.means()
        others = [
            k
            for k in self.live_arms
            if k not in {leader, *self.passed, *self.silent} and not self.seems_to_break(k, means)
        ]
        return max(others, key=lambda k: (self.quality(k), -k), default=None)

    def need_against(self, k: int, target: Any) -> float:
        """Return what the evidence against arm k lacks in blocks with a target."""
        if self.setting.is_tolerant:
            return self.threshold - self.against(k, target)
        if target == NONE:
            return self.threshold - self.wealth(k)
        return self.threshold - self.wealth(k, target, self.P[k, target])

    def need_of_limit(self, end: int, leader: int, group: int) -> float:
        own = self.C[end, leader, group]
        if self.setting.is_tolerant:
            return self.threshold - own
        return max(self.threshold - self.wealth(k, leader, own) for k in self.live if k != leader)

    def aims_at(self, need: float) -> bool:
        """Aim the next bet at what its ledger needs; return whether to bet at all."""
        self.end = None
        if self.ahead is None:
            return True
        if 0 < need < math.inf:
            self.end = End(need, self.ahead)
        return self.end is not None

    def gap_bet(self, target: int, k: int, draws: dict[Cell, int]) -> Any:
        """Return the bet on "the target is better than k", whatever their limits."""
        means, shares = self.means(), self.setting.shares
        effect = {(target, i): q for i, q in enumerate(shares) if q > 0}
        effect |= {(k, i): -q for i, q in enumerate(shares) if q > 0}
        gap = self.setting.tolerance + math.fsum(a * means[c] for c, a in effect.items())
        parts = {c: a * self.variance(c) / max(1, draws[c]) for c, a in effect.items()}
        scale = gap / math.fsum(a * parts[c] for c, a in effect.items())
        centres = {c: means[c] - scale * parts[c] for c in effect}
        return self.bet(effect, self.setting.tolerance, centres, draws)

    def rival_bet(self, leader: Any, k: int, draws: dict[Cell, int]) -> tuple[Any, Any]:
        """Return the ledger and the bet on "k is infeasible or worse than the leader"."""
        precision = self.precisions(draws)
        if self.setting.control is not None:
            return self.rival_bet_on_rows(leader, k, draws, precision)
        means, q = self.means(), self.setting.shares
        floors, ceilings = self.setting.floors, self.setting.ceilings
        groups = range(self.setting.groups)
        if leader == NONE:
            s = 0.0
            centres = {(k, i): min(max(means[k, i], floors[k, i]), ceilings[k, i]) for i in groups}
        else:
            solved = self.solve(leader, k, precision)
            s = solved.s
            centres = {(k, i): solved.own[i] for i in groups}
            centres |= {(leader, i): solved.target[i] for i in groups}
        up = {
            i: max(0.0, precision[k, i] * (floors[k, i] - means[k, i]) - s * q[i])
            for i in groups
            if centres[k, i] == floors[k, i]
        }
        down = {
            i: max(0.0, precision[k, i] * (means[k, i] - ceilings[k, i]) + s * q[i])
            for i in groups
            if centres[k, i] == ceilings[k, i]
        }
        # T = s times (quality of the leader - quality of k) + up times how far k is below its
        # floors + down times how far it is above its ceilings.
        effect = {(k, i): down.get(i, 0.0) - (s * q[i] + up.get(i, 0.0)) for i in groups}
        if leader != NONE:
            effect |= {(leader, i): s * q[i] for i in groups}
        pushes = [*(x * floors[k, i] for i, x in up.items())]
        pushes += [-x * ceilings[k, i] for i, x in down.items()]
        constant = math.fsum([*pushes, s * self.setting.tolerance])
        ledger = ("P", k, leader) if s > 0 else ("D", k)
        return ledger, self.bet(effect, constant, centres, draws)

    def rival_bet_on_rows(
        self, leader: Any, k: int, draws: dict[Cell, int], precision: dict[Cell, float]
    ) -> tuple[Any, Any]:
        rows = self.setting.rows(k, leader)
        means = self.seen_for(k, leader)
        _, multipliers = nearest(rows, means, precision)
        effect = self.combined(rows, multipliers)
        constant = math.fsum(x * row.bound for row, x in zip(rows, multipliers, strict=True))
        centres = {c: means[c] - a / precision[c] for c, a in effect.items() if a != 0.0}
        # All evidence against k in a block with this target goes into one ledger.
        ledger = ("D", k) if leader == NONE else ("P", k, leader)
        return ledger, self.bet(effect, constant, centres, draws, means=means)

    def difference_bet(self, end: int, cell: Cell, draws: dict[Cell, int]) -> Any:
        row = self.setting.own_row(cell[0], end, cell[1])
        if any(draws[c] == 0 for c in row.parts):
            return None
        precision, means = self.precisions(draws), self.means()
        variance = math.fsum(a * a / precision[c] for c, a in row.parts.items())
        distance = row.at(means)
        return self.bet(
            {c: a / variance for c, a in row.parts.items()},
            row.bound / variance,
            {c: means[c] - distance / variance * a / precision[c] for c, a in row.parts.items()},
            draws,
        )

    def cell_bet(self, end: int, cell: Cell, draws: dict[Cell, int]) -> Any:
        if end > 1:
            return self.difference_bet(end, cell, draws)
        if draws[cell] == 0:
            return None
        weight = (1, -1)[end] * draws[cell] / self.variance(cell)
        limit = self.setting.limit(end, cell)
        lift = self.lift[cell] if end == 1 else 0.0
        return self.bet({cell: weight}, -weight * limit, {cell: limit}, draws, lift)

    def bet(
        self,
        effect: dict[Cell, float],
        constant: float,
        centres: dict[Cell, float],
        draws: dict[Cell, int],
        lift: float = 0.0,
        means: dict[Cell, float] | None = None,
    ) -> Any:
        effect = {c: a for c, a in effect.items() if a != 0.0}
        if not effect or any(draws[c] == 0 for c in effect):
            return None
        if self.setting.sigma is not None and not all(self.n[c] for c in effect):
            return None
        means = {c: mean + lift for c, mean in (means or self.means()).items()}
        variances = {c: self.variance(c) for c in effect}
        if self.setting.bounds is not None:
            per_draw = {c: a / draws[c] for c, a in effect.items()}
            known = draws, per_draw, centres, constant, means, variances, self.n
            return bounded_bet(*known, *self.setting.bounds, self.end)
        sd = math.sqrt(math.fsum(a * a * variances[c] / self.n[c] for c, a in effect.items()))
        estimate = math.fsum([*(a * means[c] for c, a in effect.items()), constant])
        of_block = math.fsum(a * a * variances[c] / draws[c] for c, a in effect.items())
        aim = self.end.aim(estimate / sd, sd**2 / of_block) if self.end else None
        if self.setting.is_normal:
            return GaussianBet(
                effect, constant, estimate / sd, sd, variances, None, self.end, sd**2 / of_block
            )
        return GaussianBet(effect, constant, estimate / sd, sd, variances, aim)

    def takes_late(self, serial: int, cell: Cell) -> bool:
        """Take the reward of a lost draw for its block, if that still has a place for it."""
        if serial < 0:
            return False
        block = self.blocks[serial]
        if serial < self.settled:
            is_worst_for_good = self.setting.bounds is not None and not self.is_bet_on(block, cell)
            if self.setting.redraws or is_worst_for_good:
                return False
            self.came[cell] += 1
            self.lost[cell] -= 1
        if self.setting.redraws:
            if not block.to_issue[cell]:
                return False
            block.to_issue[cell] -= 1
        block.lost[cell] -= 1
        return True

    def is_bet_on(self, block: Block, cell: Cell) -> bool:
        return any(bet.coefficients.get(cell, 0.0) != 0.0 for bet in block.bets.values())

    # ------------------------------------------------------------------------- settling

    def pay_again(self) -> None:
        """Pay all paid blocks again from the first, with the current rewards."""
        self.start_evidence()
        for block in self.blocks[: self.settled]:
            if len(self.live) > 1:
                self.pay(block)

    def settle(self) -> list[Block]:
        """Pay every complete block whose predecessors are paid; return these blocks."""
        paid = []
        while self.settled < len(self.blocks) and len(self.live) > 1:
            block = self.blocks[self.settled]
            if block.waits(self.setting.redraws):
                break
            self.pay(block)
            for cell in block.counts:
                self.came[cell] += len(block.rewards[cell])
                self.lost[cell] += block.lost[cell]
            paid.append(block)
            self.settled += 1
        return paid

    def give_up_silent(self) -> None:
        """Wait no longer for the open draws of the oldest block, all of cells without results."""
        block = self.blocks[self.settled]
        for cell, number in block.counts.items():
            left = number - len(block.rewards[cell]) - block.lost[cell]
            assert not left or not (self.n[cell] or self.is_bet_on(block, cell))
            block.lost[cell] += left

    def pay(self, block: Block) -> None:
        for ledger, bet in block.bets.items():
            gain = bet.log_wealth(self.with_worst_values(bet, block))
            if ledger[0] == "D":
                self.D[ledger[1]] += gain
            elif ledger[0] == "P":
                self.P[ledger[1], ledger[2]] += gain
            else:
                self.C[ledger[1:]] += gain
        if self.setting.is_tolerant:
            self.settle_ledgers()
            return
        for answer in self.live:
            if self.wealth(answer) >= self.threshold:
                self.rejected.add(answer)

    def with_worst_values(self, bet: Any, block: Block) -> dict[Cell, list[float]]:
        """Return the block's rewards; a bounded bet counts lost ones at their worst."""
        if self.setting.bounds is None:
            return block.rewards
        low, high = self.setting.bounds
        filled = {}
        for cell, a in bet.coefficients.items():
            worst = low if a > 0 else high
            gone = 0 if self.setting.redraws else block.lost[cell]
            filled[cell] = block.rewards[cell] + [worst] * gone
        return filled
