"""Slow and obvious block betting on interventions: the reference for the compiled rule.

A row of action a falls into cell x with probability ``actions[a, x] * law[x]``. Everything is plain
NumPy on whole arrays, without the state and buffers of the compiled rule.
"""

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.block_betting import MOST_TRIED, is_sooner

Floats = NDArray[np.float64]

GRID, SPREAD, ROUNDING = 24, 1.5, 0.5
REACH = 4.0 * math.sqrt(SPREAD)
INITIAL, GROWTH, LEAST_BLOCK, CAP = 20, 0.04, 10, 0.6
PRIOR_VARIANCE, PRIOR_MEAN, KAPPA, COST, STEPS, PAUSE = 2.0, 0.5, 1.0, 1.5, 100, 0.5
RIDGE = 1e-4
LOSS_PRIOR = 5.0


class Instance(NamedTuple):
    """The rule's input: weights of actions and functionals, and what is known about the cells."""

    knowledge: str
    actions: Floats  # (A, X)
    means: Floats  # (K, X)
    gaps: Floats  # (K, L, X), every limit with its sign
    classes: NDArray[np.int64]  # (X,) class of mean outcome
    strata: NDArray[np.int64]  # (X,) stratum of covariates
    groups: NDArray[np.int64]  # (X,) which observed value of the sensitive attribute, if it tells
    shares: Floats  # of the groups
    basis: Floats  # (functions, X) whose totals are known
    totals: Floats  # (functions,)
    bound: float

    @property
    def stratum_groups(self) -> NDArray[np.int64]:
        found = np.zeros(self.strata.max() + 1, dtype=np.int64)
        found[self.strata] = self.groups
        return found


class Beliefs(NamedTuple):
    """Information from earlier rows for plans and bets, by cell."""

    mean: Floats
    variance: Floats
    rows: Floats  # of the cell's class
    law: Floats
    overall: float = 0.5
    earlier: Floats | None = None  # sum over earlier rows of the cell's weight under their action


class Bet(NamedTuple):
    """A frozen bet."""

    slope: Floats
    offset: Floats
    thetas: Floats
    stakes: Floats
    cash: float
    estimate: float
    deviation: float
    lowest: Floats
    """The smallest score of a row of every action."""

    def log_wealth(self, cells: Any, outcomes: Any, actions: Any = None) -> float:
        """Return the log of what rows pay; an outcome of NaN means a lost row of an action."""
        return math.log(self.wealth(cells, outcomes, actions))

    def wealth(self, cells: Any, outcomes: Any, actions: Any = None) -> float:
        products = np.ones(GRID)
        for row, (cell, outcome) in enumerate(zip(cells, outcomes, strict=True)):
            score = self.slope[cell] * outcome - self.offset[cell]
            if math.isnan(outcome):
                score = self.lowest[actions[row]]
            products = products * (1.0 + self.thetas * score)
        return float(self.cash + self.stakes @ products)


def grid(m: float) -> tuple[Floats, Floats, float]:
    """Return the effects of the bets, their stakes, and the cash that is not bet."""

    def density(points: Floats, width: float) -> Floats:
        return width * np.exp(-((points - m) ** 2) / (2 * SPREAD)) / (np.abs(points) + ROUNDING)

    low, high = max(0.0, m - REACH), max(0.0, m) + REACH
    width = (high - low) / GRID
    points = low + (np.arange(GRID) + 0.5) * width
    stakes = density(points, width)
    cash = 0.0
    if m < REACH:
        cash_low = min(0.0, m) - REACH
        cash_width = -cash_low / GRID
        cash = density(cash_low + (np.arange(GRID) + 0.5) * cash_width, cash_width).sum()
    total = stakes.sum() + cash
    return points, stakes / total, cash / total


def multipliers(d1: float, d2: float, q11: float, q12: float, q22: float) -> tuple[float, ...]:
    """Return s, nu and the value, the best over all ways to set them to zero."""
    ways = [(0.0, 0.0)]
    if q11 > 0:
        ways.append((d1 / q11, 0.0))
    if q22 > 0:
        ways.append((0.0, d2 / q22))
    if q11 * q22 - q12 * q12 > 1e-12 * q11 * q22:
        ways.append(tuple(np.linalg.solve([[q11, q12], [q12, q22]], [d1, d2])))

    def gain(way: tuple[float, float]) -> float:
        s, nu = way
        return s * d1 + nu * d2 - (q11 * s * s + 2 * q12 * s * nu + q22 * nu * nu) / 2

    s, nu = max((way for way in ways if min(way) >= 0), key=gain)
    return s, nu, s * d1 + nu * d2


def centre(
    instance: Instance, functional: Floats, null: float, counts: Floats, beliefs: Beliefs
) -> tuple[Floats, Floats]:
    """Return slope and offset of the score of a row in every cell."""
    den = counts @ instance.actions
    size = counts.sum()
    possible = den > 0
    inverse = np.where(possible, 1.0 / np.where(possible, den, 1.0), 0.0)
    slope = functional * inverse
    if instance.knowledge == "ratios":
        weights = span(instance, functional, den, beliefs)
        offset = (weights @ instance.basis) * inverse - (weights @ instance.totals - null) / size
    elif instance.knowledge == "covariates":
        by_stratum = np.bincount(instance.strata, functional * beliefs.mean)
        law = law_of_strata(instance, beliefs)
        groups = instance.stratum_groups
        within = np.bincount(groups, law * by_stratum) / np.bincount(groups, law)
        predicted = (
            by_stratum[instance.strata]
            - within[instance.groups]
            + (instance.shares * within).sum()
            - null
        )
        offset = slope * beliefs.mean - predicted / size
    else:
        estimate = float(functional @ beliefs.mean)
        offset = slope * beliefs.mean - (estimate - null) / size
    return slope, np.where(possible, offset, np.nan)


def law_of_strata(instance: Instance, beliefs: Beliefs) -> Floats:
    law = np.zeros(instance.strata.max() + 1)
    law[instance.strata] = beliefs.law
    return law


def span(instance: Instance, functional: Floats, den: Floats, beliefs: Beliefs) -> Floats:
    """Return the combination of known totals that is closest to the predicted outcome."""
    possible = den > 0
    usable = ~(instance.basis[:, ~possible] > 0).any(axis=1)
    basis = instance.basis[usable][:, possible]
    metric = (beliefs.law / np.where(possible, den, 1.0))[possible]
    matrix = (basis * metric) @ basis.T
    matrix += RIDGE * np.mean(np.diag(matrix)) * np.eye(len(basis))
    right = (basis * metric) @ (functional * beliefs.mean)[possible]
    weights = np.zeros(len(instance.basis))
    weights[usable] = np.linalg.solve(matrix, right)
    return weights


def effect(instance: Instance, functional: Floats, beliefs: Beliefs) -> float:
    """Return the estimate of a functional that is invariant to constants, or of a mean."""
    if instance.knowledge == "ratios":
        centred = functional * (beliefs.mean - beliefs.overall)
        return float(centred @ beliefs.law)
    return float((functional * beliefs.mean) @ beliefs.law)


def freeze(
    instance: Instance,
    functional: Floats,
    null: float,
    counts: Floats,
    beliefs: Beliefs,
    deviation: float | None = None,
    offset: Floats | None = None,
    lost: Floats | None = None,
) -> Bet | None:
    """Return the bet against "the functional is at most the null" in a block of these counts.

    `lost`: share of the rows of every action that is expected to get lost.
    """
    den = counts @ instance.actions
    slope, own = centre(instance, functional, null, counts, beliefs)
    offset = own if offset is None else offset
    estimate = effect(instance, functional, beliefs) - null
    known = np.where(den > 0, offset, 0.0)
    weight = den * beliefs.law
    noise = float(weight @ (slope**2 * beliefs.variance))
    spread = noise + float(weight @ (slope * beliefs.mean - known) ** 2)
    if deviation is None:
        error = squared_error(instance, functional, beliefs, estimate, noise, spread, counts.sum())
        deviation = math.sqrt(error)
    risk = offset - np.minimum(slope, 0.0)
    ruin = float(np.nanmax(risk))
    lowest = np.array(
        [-np.nanmax(risk[reached], initial=-np.inf) for reached in instance.actions > 0]
    )
    if lost is not None and lost.any():
        size, gone = counts.sum(), counts * lost
        worst = np.where(counts > 0, lowest, 0.0)
        estimate = estimate * (1 - gone.sum() / size) + float(gone @ worst)
        spread = spread * (1 - gone.sum() / size) + float(gone @ worst**2)
        if estimate <= 0:
            return None
    points, stakes, cash = grid(estimate / deviation)
    thetas = points * deviation / spread
    if ruin > 0:
        thetas = np.minimum(thetas, CAP / ruin)
    return Bet(slope, offset, thetas, stakes, cash, estimate, deviation, lowest)


def squared_error(
    instance: Instance,
    functional: Floats,
    beliefs: Beliefs,
    estimate: float,
    noise: float,
    spread: float,
    size: float,
) -> float:
    """Return the squared standard error of an estimated effect."""
    if instance.knowledge == "ratios":
        assert beliefs.earlier is not None
        seen = beliefs.earlier > 0
        terms = (functional**2 * beliefs.law * beliefs.variance)[seen] / beliefs.earlier[seen]
        return float(terms.sum()) * max(1.0, (spread - estimate**2 / size) / noise)
    sums = np.bincount(instance.classes, functional * beliefs.law)
    variance, rows = np.zeros(len(sums)), np.zeros(len(sums))
    variance[instance.classes], rows[instance.classes] = beliefs.variance, beliefs.rows
    found = float((sums**2 * variance / (rows + PRIOR_MEAN)).sum())
    if instance.knowledge == "covariates":
        by_stratum = np.bincount(instance.strata, functional * beliefs.mean)
        law, groups = law_of_strata(instance, beliefs), instance.stratum_groups
        within = np.bincount(groups, law * by_stratum) / np.bincount(groups, law)
        found += float(law @ (by_stratum - within[groups]) ** 2) / rows_of(instance, beliefs)
    return found


def rows_of(instance: Instance, beliefs: Beliefs) -> float:
    by_class = np.zeros(instance.classes.max() + 1)
    by_class[instance.classes] = beliefs.rows
    return float(by_class.sum())


def exact_mean(bet, instance, counts, law, means):
    """Return the exact mean payment of a block, over all cells and outcomes."""
    actions = np.repeat(np.arange(len(counts)), counts.astype(int))
    joint = instance.actions * law
    cells = range(joint.shape[1])
    total = 0.0
    for places in itertools.product(cells, repeat=len(actions)):
        probability = math.prod(joint[a, x] for a, x in zip(actions, places, strict=True))
        if probability == 0.0:
            continue
        for outcomes in itertools.product([0, 1], repeat=len(actions)):
            chance = math.prod(
                means[x] if y else 1 - means[x] for x, y in zip(places, outcomes, strict=True)
            )
            total += probability * chance * bet.wealth(places, outcomes)
    return total


# ---------------------------------------------------------------------------------- the rule


class Rule:
    """The complete rule: blocks planned from the rows before them, ledgers, and rejections.

    `ledgers` holds log wealth under ``("own", k)``, ``("pair", k, target)`` and
    ``("limit", target, l)``; ``NONE`` is the answer that no arm is fair.
    """

    NONE = -1

    def __init__(self, instance: Instance, delta: float, breakable: Any) -> None:
        self.instance = instance
        self.threshold = math.log(1 / delta)
        self.arms, self.limits = instance.gaps.shape[:2]
        self.breakable = breakable
        self.rows: list[tuple[int, int, float]] = []
        self.ledgers: dict[tuple[Any, ...], float] = {}
        self.paid: list[tuple[dict[tuple[Any, ...], Bet], list[tuple[int, int, float]]]] = []
        self.live = [*range(self.arms), self.NONE]
        self.shares = np.full(len(instance.actions), 1 / len(instance.actions))
        self.reject()

    # ------------------------------------------------------------------------ evidence

    def keeps(self, target: int) -> float:
        """Return the evidence that an arm keeps all its limits."""
        own = [
            self.ledgers.get(("limit", target, limit), 0.0)
            for limit in range(self.limits)
            if self.breakable[target, limit]
        ]
        return min(own, default=math.inf)

    def wealth(self, answer: int, instead: tuple[int, float] | None = None) -> float:
        """Return the log wealth against an answer; `instead` replaces the part of one target."""
        total = self.ledgers.get(("own", answer), 0.0)
        for target in range(self.arms):
            if target == answer:
                continue
            part = self.keeps(target)
            if answer != self.NONE:
                part = min(part, self.ledgers.get(("pair", answer, target), 0.0))
            if instead is not None and target == instead[0]:
                part = instead[1]
            total += part
        return total

    def reject(self) -> None:
        self.live = [answer for answer in self.live if self.wealth(answer) < self.threshold]

    # --------------------------------------------------------------------------- beliefs

    def beliefs(self) -> Beliefs:
        instance = self.instance
        cells = len(instance.classes)
        actions = np.array([row[0] for row in self.rows])
        places = np.array([row[1] for row in self.rows])
        outcomes = np.array([row[2] for row in self.rows])
        number, mean, variance = np.zeros(cells), np.zeros(cells), np.zeros(cells)
        for x in range(cells):
            own = outcomes[instance.classes[places] == instance.classes[x]]
            number[x] = len(own)
            mean[x] = (own.sum() + PRIOR_MEAN * outcomes.mean()) / (len(own) + PRIOR_MEAN)
            spread = ((own - own.mean()) ** 2).sum() if len(own) else 0.0
            variance[x] = (spread + PRIOR_VARIANCE / 4) / (len(own) + PRIOR_VARIANCE)
        earlier = instance.actions[actions].sum(axis=0)
        law = np.ones(cells)
        if instance.knowledge == "covariates":
            seen = np.bincount(instance.strata[places], minlength=instance.strata.max() + 1)
            law = ((seen + 1) / (len(places) + len(seen)))[instance.strata]
        elif instance.knowledge == "ratios":
            seen = np.bincount(places, minlength=cells)
            law = (seen + 0.5) / (earlier + 0.5 * earlier.sum() / len(places))
        return Beliefs(mean, variance, number, law, float(outcomes.mean()), earlier)

    def leader(self, means: Floats, gaps: Floats) -> int:
        arms = [k for k in self.live if k != self.NONE]
        worst = gaps.max(axis=1, initial=-math.inf)
        fair = [k for k in arms if worst[k] < self.instance.bound]
        if fair:
            return max(fair, key=lambda k: means[k])
        if self.NONE in self.live or not arms:
            return self.NONE
        return min(arms, key=lambda k: worst[k])

    # ----------------------------------------------------------------------------- plans

    def value(
        self, item: tuple[Floats, Floats, float, float], beliefs: Beliefs, den: Floats
    ) -> tuple[float, float, float]:
        first, second, gain, excess = item
        if (den[(first != 0) | (second != 0)] == 0).any():
            return 0.0, 0.0, 0.0
        metric = beliefs.law * beliefs.variance / np.where(den > 0, den, 1.0)
        q11, q12, q22 = first**2 @ metric, (first * second) @ metric, second**2 @ metric
        return multipliers(gain, excess, q11, q12, q22)

    def items(
        self, target: int, means: Floats, gaps: Floats, beliefs: Beliefs
    ) -> dict[tuple[Any, ...], tuple[Floats, Floats, float, float]]:
        """Return every item by its ledger."""
        instance, bound = self.instance, self.instance.bound
        zero = np.zeros(len(instance.classes))
        so_far = beliefs.earlier
        assert so_far is not None
        so_far = np.where(so_far > 0, so_far, instance.actions.mean(axis=0))
        found = {}
        for k in self.live:
            if k in (target, self.NONE):
                continue
            first, gain = zero, 0.0
            ledger: tuple[Any, ...] = ("own", k)
            if target != self.NONE:
                first, gain = instance.means[target] - instance.means[k], means[target] - means[k]
                ledger = ("pair", k, target)
            ways = [
                (first, instance.gaps[k, limit], gain, gaps[k, limit] - bound)
                for limit in range(self.limits)
                if self.breakable[k, limit]
            ] or [(first, zero, gain, 0.0)]
            found[ledger] = max(ways, key=lambda way: self.value(way, beliefs, so_far)[2])
        if target != self.NONE:
            for limit in range(self.limits):
                if self.breakable[target, limit]:
                    gap = instance.gaps[target, limit]
                    excess = bound - gaps[target, limit]
                    found["limit", target, limit] = (zero, -gap, 0.0, excess)
        return found

    def need(self, ledger: tuple[Any, ...]) -> float:
        """Return how much the log wealth of a ledger has to grow; 0 if it is large enough."""
        kind, one, other = (*ledger, None)[:3]
        reached = self.ledgers.get(ledger, 0.0)
        if kind == "own":
            return max(0.0, self.threshold - self.wealth(one)) + COST
        if kind == "pair":
            missing = self.threshold - self.wealth(one, (other, reached))
            return missing + COST if missing > 0 else 0.0
        against = [answer for answer in self.live if answer != one]
        missing = max(self.threshold - self.wealth(k, (one, reached)) for k in against)
        return missing + COST if missing > 0 else 0.0

    def plan(self) -> tuple[Floats, dict[tuple[Any, ...], Bet]]:
        """Return the counts and the bets of the next block."""
        return self.plan_with(None)

    def bets_on(self, counts: Floats) -> dict[tuple[Any, ...], Bet]:
        """Return the bets on a block of given counts."""
        return self.plan_with(counts)[1]

    def plan_with(self, counts: Floats | None) -> tuple[Floats, dict[tuple[Any, ...], Bet]]:
        instance, beliefs = self.instance, self.beliefs()
        means = np.array([effect(instance, row, beliefs) for row in instance.means])
        gaps = np.array([[effect(instance, row, beliefs) for row in arm] for arm in instance.gaps])
        gaps = gaps.reshape(self.arms, self.limits)
        items, hidden = self.compared(means, gaps, beliefs)
        assert beliefs.earlier is not None
        so_far = np.where(beliefs.earlier > 0, beliefs.earlier, instance.actions.mean(axis=0))
        needs = {ledger: self.need(ledger) for ledger in items}
        needed = {
            ledger: self.value(item, beliefs, so_far)[2]
            for ledger, item in items.items()
            if needs[ledger] > 0 and ledger not in hidden
        }
        self.find_shares(items, needs, needed, beliefs)
        counts = self.counts() if counts is None else counts
        if min(needed.values(), default=0.0) < PAUSE**2:
            return counts, {}
        den = counts @ instance.actions
        bets = {}
        for ledger, item in items.items():
            s, nu, value = self.value(item, beliefs, den)
            if value > 0:
                functional = s * item[0] + nu * item[1]
                sign = -1.0 if ledger[0] == "limit" else 1.0
                null = sign * nu * instance.bound
                bet = freeze(instance, functional, null, counts, beliefs, lost=self.lost())
                if bet is not None:
                    bets[ledger] = bet
        return counts, bets

    # ---------------------------------------------------------------------------- losses

    def lost(self) -> Floats:
        """Return the share of the rows of every action that got lost."""
        rows = [row for _, block in self.paid for row in block]
        number = len(self.instance.actions)
        gone = np.bincount([row[0] for row in rows if math.isnan(row[2])], minlength=number)
        came = np.bincount([row[0] for row in rows if not math.isnan(row[2])], minlength=number)
        overall = gone.sum() / (gone.sum() + max(came.sum(), 1))
        return (gone + LOSS_PRIOR * overall) / (gone + came + LOSS_PRIOR)

    def compared(self, means: Floats, gaps: Floats, beliefs: Beliefs) -> tuple[Any, set[Any]]:
        """Return the items of the next block's target, and those that losses hide.

        The target is the leader, or an arm that rules out others sooner where losses make it slow.
        """
        live, target = self.live, self.leader(means, gaps)
        found, tried = self.items(target, means, gaps, beliefs), {target}
        if target != self.NONE and self.lost().any():
            times, whole = self.times(target, found, beliefs)
            while len(tried) < MOST_TRIED:
                self.live = [answer for answer in live if answer not in tried]
                other, self.live = self.leader(means, gaps), live
                if other == self.NONE:
                    break
                tried.add(other)
                items = self.items(other, means, gaps, beliefs)
                others, others_whole = self.times(other, items, beliefs)
                if is_sooner(times, whole, others, other):
                    target, found, times, whole = other, items, others, others_whole
        needed = {ledger for ledger in found if self.need(ledger) > 0}
        return found, {ledger for ledger in needed if self.is_hidden(found[ledger], beliefs)}

    def times(
        self, target: int, items: dict[Any, Any], beliefs: Beliefs
    ) -> tuple[dict[int, float], dict[int, float]]:
        """Return how many rows a target needs to rule out each answer, if all actions get as many.

        The second numbers are those without losses.
        """
        actions, lost = self.instance.actions, self.lost()
        some, whole = (actions * (1 - lost)[:, None]).mean(axis=0), actions.mean(axis=0)
        found: tuple[dict[Any, float], dict[Any, float]] = {}, {}
        for ledger, item in items.items():
            if self.need(ledger) <= 0:
                continue
            s, nu, value = self.value(item, beliefs, some)
            left = max(0.0, self.left_by_losses(item, s, nu, beliefs))
            size = s * item[2] + nu * item[3]
            values = (
                value * (left / size) ** 2 if left else 0.0,
                self.value(item, beliefs, whole)[2],
            )
            for times, information in zip(found, values, strict=True):
                times[ledger] = self.need(ledger) / information if information > 0 else math.inf
        return self.by_answer(found[0], target), self.by_answer(found[1], target)

    def by_answer(self, times: dict[Any, float], target: int) -> dict[int, float]:
        limits = max((t for ledger, t in times.items() if ledger[0] == "limit"), default=0.0)
        rivals = {ledger[1]: t for ledger, t in times.items() if ledger[0] != "limit"}
        found = {k: max(limits, rivals.get(k, 0.0)) for k in [*range(self.arms), self.NONE]}
        live = set(self.live) - {target}
        return {k: t if t > 0 and k in live else math.inf for k, t in found.items()}

    def is_hidden(self, item: Any, beliefs: Beliefs) -> bool:
        """Return whether nothing of an effect is left with losses at their worst.

        That is so wherever each cell is measured, even by the action that loses least there.
        """
        lost = self.lost()
        if not lost.any():
            return False
        assert beliefs.earlier is not None
        actions = self.instance.actions
        so_far = np.where(beliefs.earlier > 0, beliefs.earlier, actions.mean(axis=0))
        s, nu, _ = self.value(item, beliefs, so_far)
        return self.left_by_losses(item, s, nu, beliefs) <= 0

    def left_by_losses(self, item: Any, s: float, nu: float, beliefs: Beliefs) -> float:
        """Return what is left of an effect with losses at their worst."""
        weights = (s * item[0] + nu * item[1]) * beliefs.law
        least = np.where(self.instance.actions > 0, self.lost()[:, None], 1.0).min(axis=0)
        worst = np.where(weights > 0, 0.0, 1.0)
        return s * item[2] + nu * item[3] - float(least @ (weights * (beliefs.mean - worst)))

    def find_shares(self, items: Any, needs: Any, needed: Any, beliefs: Beliefs) -> None:
        trial = 0.7 * self.shares + 0.3 / len(self.shares)
        best = 0.0
        actions = self.instance.actions * (1 - self.lost())[:, None]
        for step in range(STEPS):
            den = trial @ actions
            speeds = {
                ledger: self.value(items[ledger], beliefs, den)[2]
                * (1 + KAPPA / so_far)
                / needs[ledger]
                for ledger, so_far in needed.items()
                if so_far > 0
            }
            if not speeds:
                return
            slowest = min(speeds, key=lambda ledger: speeds[ledger])
            if speeds[slowest] > best:
                best, self.shares = speeds[slowest], trial
            s, nu, _ = self.value(items[slowest], beliefs, den)
            score = s * items[slowest][0] + nu * items[slowest][1]
            told = actions @ (score**2 * beliefs.law * beliefs.variance / den**2)
            size = 1 / (8 + step)
            trial = trial * (1 - size + size * told / (trial @ told))

    def counts(self) -> Floats:
        size = max(math.ceil(GROWTH * len(self.rows) - 1e-9), LEAST_BLOCK)
        counts = np.floor(size * self.shares + 1e-9)
        rest = size * self.shares - counts
        for action in sorted(range(len(rest)), key=lambda a: -rest[a])[
            : round(size - counts.sum())
        ]:
            counts[action] += 1
        return counts

    def pay(self, bets: dict[tuple[Any, ...], Bet], rows: list[tuple[int, int, float]]) -> None:
        """Pay the bets on a block with its rows: action, cell, outcome."""
        for ledger, bet in bets.items():
            actions, cells, outcomes = zip(*rows, strict=True)
            gain = bet.log_wealth(cells, outcomes, actions)
            self.ledgers[ledger] = self.ledgers.get(ledger, 0.0) + gain
        self.paid.append((bets, rows))
        self.rows += [row for row in rows if not math.isnan(row[2])]
        self.reject()

    def correct(self, block: int, place: int, new: tuple[int, int, float]) -> None:
        """Replace a row of a block that was paid, and pay all blocks again."""
        paid, self.paid = self.paid, []
        paid[block][1][place] = new
        self.ledgers, self.rows, self.live = {}, [], [*range(self.arms), self.NONE]
        for bets, rows in paid:
            self.pay(bets, rows)
