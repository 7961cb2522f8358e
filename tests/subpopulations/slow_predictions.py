"""Block betting with predictions on a finished experiment, slow and written from the mathematics.

It shares no code with the package. Rewards lie in [0, 1] and are maximised, arms may have floors,
no result is lost, and all blocks have an arm as their target.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import numpy as np

from tests.subpopulations.slow_blocks import CAP, PRIOR_DRAWS, TAU, grid, mixture

SHRINKAGE = 0.02
ADJUSTED_CAP = 2.0 * CAP

Cell = tuple[int, int]


@dataclass
class Unit:
    """A unit of the experiment; its prediction is cut to the stated range already."""

    cell: Cell
    prediction: float
    reward: float


@dataclass
class Fit:
    """What earlier units say: means and variances by cell, the rest by group."""

    means: dict[Cell, float]
    variances: dict[Cell, float]
    counts: dict[Cell, int]
    slopes: list[float]
    expected: list[float]
    spreads: list[float]


@dataclass
class Bet:
    """A bet on T = sum of (planned pulls times weight times mean) + constant <= 0."""

    ledger: tuple[str, int, int]
    weights: dict[Cell, float]
    centres: dict[Cell, float]
    constant: float


@dataclass
class SlowPredictions:
    """The wealth against every answer, block by block."""

    shares: list[float]
    floors: list[list[float]] | None
    arms: int
    clip: tuple[float, float]
    delta: float
    fits_slopes: bool = True
    told: list[Unit] = field(default_factory=list)
    ledgers: dict[tuple[str, int, int], float] = field(default_factory=dict)
    rejected: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.floors is None:
            self.rejected.add(self.arms)

    @property
    def groups(self) -> range:
        return range(len(self.shares))

    # ------------------------------------------------------------------- estimates

    def fit(self) -> Fit:
        slopes, expected, spreads = [], [], []
        for group in self.groups:
            own = [unit for unit in self.told if unit.cell[1] == group]
            both = spread = 0.0
            for arm in range(self.arms):
                cell = [unit for unit in own if unit.cell[0] == arm]
                f = math.fsum(unit.prediction for unit in cell) / len(cell)
                y = math.fsum(unit.reward for unit in cell) / len(cell)
                both += math.fsum((u.prediction - f) * (u.reward - y) for u in cell)
                spread += math.fsum((u.prediction - f) ** 2 for u in cell)
            width = self.clip[1] - self.clip[0]
            slopes.append(both / (spread + SHRINKAGE * width**2) if self.fits_slopes else 1.0)
            expected.append(math.fsum(unit.prediction for unit in own) / len(own))
            spreads.append(spread / len(own))
        found = Fit({}, {}, {}, slopes, expected, spreads)
        for arm in range(self.arms):
            for group in self.groups:
                cell = [unit for unit in self.told if unit.cell == (arm, group)]
                scores = [u.reward - slopes[group] * (u.prediction - expected[group]) for u in cell]
                mean = math.fsum(scores) / len(scores)
                squares = math.fsum((score - mean) ** 2 for score in scores) + PRIOR_DRAWS / 4
                found.means[arm, group] = min(max(mean, 0.0), 1.0)
                found.variances[arm, group] = squares / (len(cell) + PRIOR_DRAWS)
                found.counts[arm, group] = len(cell)
        return found

    def quality(self, fit: Fit, arm: int) -> float:
        return math.fsum(self.shares[i] * fit.means[arm, i] for i in self.groups)

    def leader(self, fit: Fit) -> int:
        kept = [
            arm
            for arm in range(self.arms)
            if arm not in self.rejected
            and (
                self.floors is None
                or all(fit.means[arm, i] >= self.floors[arm][i] for i in self.groups)
            )
        ]
        assert kept, "the slow rule knows no blocks without a leading arm"
        return max(kept, key=lambda arm: self.quality(fit, arm))

    # ---------------------------------------------------------------------- wealth

    def _ledger(self, kind: str, first: int, second: int) -> float:
        return self.ledgers.get((kind, first, second), 0.0)

    def _kept(self, arm: int) -> float:
        if self.floors is None:
            return math.inf
        return min(self._ledger("limit", arm, group) for group in self.groups)

    def _from(self, target: int, answer: int) -> float:
        if answer == self.arms:
            return self._kept(target)
        return min(self._ledger("pair", answer, target), self._kept(target))

    def wealth(self) -> list[float]:
        return [
            math.fsum(self._from(target, answer) for target in range(self.arms) if target != answer)
            for answer in range(self.arms + 1)
            if answer < self.arms or self.floors is not None
        ]

    # ---------------------------------------------------------------------- blocks

    def bets(self, fit: Fit, planned: dict[Cell, int]) -> list[Bet]:
        """Return the bets of a block; none if too little is known of the leader's weakest item."""
        leader, threshold = self.leader(fit), -math.log(self.delta)
        wealth, found, information = self.wealth(), [], []
        live = [k for k in range(len(wealth)) if k not in self.rejected and k != leader]
        least = min(wealth[k] - self._from(leader, k) for k in live)
        for k in live:
            if k == self.arms:
                continue
            _, (s, *nu) = self._price(fit, leader, k, planned)
            weights: dict[Cell, float] = {}
            centres: dict[Cell, float] = {}
            for i in self.groups:
                pull = s * self.shares[i]
                for cell, weight in (((leader, i), pull), ((k, i), -pull - nu[i])):
                    if weight != 0.0:
                        weights[cell] = weight / planned[cell]
                        centres[cell] = fit.means[cell] - weights[cell] * fit.variances[cell]
            constant = 0.0
            if self.floors is not None:
                constant = math.fsum(nu[i] * self.floors[k][i] for i in self.groups)
            others = wealth[k] - self._from(leader, k)
            if threshold - others - self._ledger("pair", k, leader) > 0.0:
                information.append(self._price(fit, leader, k, fit.counts)[0])
            found.append(Bet(("pair", k, leader), weights, centres, constant))
        for i in self.groups if self.floors is not None else ():
            cell, floor = (leader, i), self.floors[leader][i]
            above = fit.means[cell] - floor
            if threshold - least - self._ledger("limit", leader, i) > 0.0:
                information.append(above**2 / self._variance(fit, {cell: 1.0}, fit.counts))
            if planned[cell] == 0:
                continue
            variance = self._variance(fit, {cell: 1.0}, planned)
            weight = 1.0 / (variance * planned[cell])
            centre = fit.means[cell] - above * weight * fit.variances[cell]
            found.append(
                Bet(("limit", leader, i), {cell: weight}, {cell: centre}, -floor / variance)
            )
        return found if min(information) >= TAU**2 else []

    def _variance(self, fit: Fit, effect: dict[Cell, float], pulls: dict[Cell, int]) -> float:
        """Return the variance of a sum of adjusted means."""
        return self._covariance(fit, effect, effect, pulls)

    def _covariance(
        self, fit: Fit, one: dict[Cell, float], other: dict[Cell, float], pulls: dict[Cell, int]
    ) -> float:
        parts = [
            one[cell] * other[cell] * fit.variances[cell] / pulls[cell]
            for cell in one.keys() & other.keys()
        ]
        for i in self.groups:
            sums = [
                math.fsum(weight for cell, weight in effect.items() if cell[1] == i)
                for effect in (one, other)
            ]
            of_group = sum(n for cell, n in pulls.items() if cell[1] == i)
            parts.append(fit.slopes[i] ** 2 * fit.spreads[i] * sums[0] * sums[1] / of_group)
        return math.fsum(parts)

    def _price(
        self, fit: Fit, leader: int, k: int, pulls: dict[Cell, int]
    ) -> tuple[float, list[float]]:
        """Return the distance to the nearest means for which k is right, and the multipliers.

        The first multiplier is that of "k is at least as good", the others those of its floors. All
        sets of active conditions are tried; one on a cell without pulls can be met for nothing.
        """
        gap = {(leader, i): self.shares[i] for i in self.groups}
        rows = [gap | {(k, i): -self.shares[i] for i in self.groups}]
        short = [self.quality(fit, leader) - self.quality(fit, k)]
        for i in self.groups:
            rows.append({(k, i): -1.0})
            short.append(-math.inf if self.floors is None else self.floors[k][i] - fit.means[k, i])
        priced = [r for r, row in enumerate(rows) if all(pulls[cell] for cell in row)]
        best = 0.0, [0.0] * len(rows)
        for size in range(1, len(rows) + 1):
            for active in itertools.combinations(priced, size):
                wanted = np.array([short[r] for r in active])
                if not np.isfinite(wanted).all():
                    continue
                form = [
                    [self._covariance(fit, rows[r], rows[t], pulls) for t in active] for r in active
                ]
                found = np.linalg.solve(np.array(form), wanted)
                if (found >= 0.0).all() and found @ wanted > best[0]:
                    multipliers = dict(zip(active, found.tolist(), strict=True))
                    best = (
                        float(found @ wanted),
                        [multipliers.get(r, 0.0) for r in range(len(rows))],
                    )
        return best

    def pay(self, bet: Bet, fit: Fit, units: list[Unit], planned: dict[Cell, int]) -> float:
        """Return the logarithm of what a bet pays for a block."""
        if not bet.weights:
            return 0.0
        known = [unit.prediction for unit in self.told]
        low, high = min(known), max(known)
        cells = [cell for cell, n in planned.items() if n]
        a = {cell: bet.weights.get(cell, 0.0) for cell in cells}
        d, total = {}, {}
        for i in self.groups:
            own = [cell for cell in cells if cell[1] == i]
            pulls = sum(planned[cell] for cell in own)
            total[i] = math.fsum(planned[cell] * a[cell] for cell in own)
            for cell in own:
                d[cell] = fit.slopes[i] * (a[cell] - total[i] / pulls)
        centres = {cell: min(max(c, 0.0), 1.0) for cell, c in bet.centres.items()}

        def effect(means: dict[Cell, float]) -> float:
            parts = [planned[cell] * weight * means[cell] for cell, weight in bet.weights.items()]
            return math.fsum([*parts, bet.constant])

        before = inside = 0.0
        for cell, weight in bet.weights.items():
            n, v = planned[cell], fit.variances[cell]
            before += (n * weight) ** 2 * v / fit.counts[cell]
            inside += n * weight**2 * (v + (fit.means[cell] - centres[cell]) ** 2)
        for i in self.groups:
            adjusted = fit.slopes[i] ** 2 * fit.spreads[i] * total[i] ** 2
            before += adjusted / sum(n for cell, n in fit.counts.items() if cell[1] == i)
            inside += adjusted / sum(planned[cell] for cell in cells if cell[1] == i)
        reach = 0.0
        for cell in cells:
            of_reward = 0.0
            if a[cell] != 0.0:
                of_reward = max(a[cell] * (centres[cell] - end) for end in (0.0, 1.0))
            off = fit.expected[cell[1]]
            reach = max(reach, of_reward + max(d[cell] * (end - off) for end in (low, high)))
        points, stakes, cash = grid(effect(fit.means) / math.sqrt(before))
        logs = []
        for u in points:
            theta = min(u * math.sqrt(before) / inside, ADJUSTED_CAP / reach)
            log = theta * effect(centres)
            for unit in units:
                seen = min(max(unit.prediction, low), high) - fit.expected[unit.cell[1]]
                score = -d[unit.cell] * seen
                if a[unit.cell] != 0.0:
                    score += a[unit.cell] * (unit.reward - centres[unit.cell])
                log += math.log1p(theta * score)
            logs.append(log)
        return mixture(cash, stakes, logs)

    def settle(self, units: list[Unit]) -> None:
        """Bet on a block of units, and take its results."""
        cells = [(arm, group) for arm in range(self.arms) for group in self.groups]
        planned = {cell: sum(unit.cell == cell for unit in units) for cell in cells}
        fit = self.fit()
        paid = {bet.ledger: self.pay(bet, fit, units, planned) for bet in self.bets(fit, planned)}
        for ledger, gain in paid.items():
            self.ledgers[ledger] = self.ledgers.get(ledger, 0.0) + gain
        self.told += units
        for answer, wealth in enumerate(self.wealth()):
            if wealth >= -math.log(self.delta):
                self.rejected.add(answer)
