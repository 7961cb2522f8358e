"""Block betting on predicted measures of a finished experiment, slow and from the mathematics.

It shares no code with the package. Measures lie in [0, 1], no value is missing, and all blocks have
an arm as their target.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import numpy as np

from tests.subpopulations.slow_blocks import CAP, PRIOR_DRAWS, TAU, grid, mixture

SHRINKAGE = 0.02
ADJUSTED_CAP = 2.0 * CAP
LARGEST_CORRELATION = 0.999

Cell = tuple[int, int]
Floats = np.ndarray
Effect = dict[Cell, Floats]


@dataclass
class Unit:
    """A unit: what was predicted of it, cut to the stated ranges, and its measures."""

    cell: Cell
    predictions: Floats
    values: Floats


@dataclass
class Limit:
    """A lower limit: the sum over groups of alpha times h @ mean is at least the arm's bound."""

    alpha: Floats
    h: Floats
    bounds: list[float]
    control: int | None = None


@dataclass
class Fit:
    """What earlier units say: means and covariances by cell, the rest by group."""

    means: dict[Cell, Floats]
    covariances: dict[Cell, Floats]
    counts: dict[Cell, int]
    slopes: list[Floats]
    expected: list[Floats]
    explained: list[Floats]


@dataclass
class Bet:
    """A bet on T = sum of (planned pulls times weights @ means) + constant <= 0."""

    ledger: tuple[str, int, int]
    weights: Effect
    centres: Effect
    constant: float


@dataclass
class SlowPredictedMeasures:
    """The wealth against every answer, block by block."""

    shares: list[float]
    objective: Floats
    limits: list[Limit]
    arms: int
    predicted: list[int]
    widths: Floats
    delta: float
    fits_slopes: bool = True
    told: list[Unit] = field(default_factory=list)
    ledgers: dict[tuple[str, int, int], float] = field(default_factory=dict)
    rejected: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        if any(not self.rows_of(arm) for arm in range(self.arms)):
            self.rejected.add(self.arms)

    @property
    def groups(self) -> range:
        return range(len(self.shares))

    def rows_of(self, arm: int) -> list[int]:
        """Return the limits that an arm has."""
        return [r for r, limit in enumerate(self.limits) if limit.bounds[arm] > -math.inf]

    def effect_of(self, r: int, arm: int) -> Effect:
        """Return a limit as weights of means: of the arm, and of the control with a minus."""
        limit, found = self.limits[r], {}
        for i in self.groups:
            if limit.alpha[i]:
                found[arm, i] = limit.alpha[i] * limit.h
                if limit.control is not None:
                    found[limit.control, i] = -limit.alpha[i] * limit.h
        return found

    # ------------------------------------------------------------------- estimates

    def fit(self) -> Fit:
        found = Fit({}, {}, {}, [], [], [])
        for group in self.groups:
            own = [unit for unit in self.told if unit.cell[1] == group]
            slopes, centred = np.zeros(len(self.predicted)), []
            for p, m in enumerate(self.predicted):
                both = spread = 0.0
                off = []
                for arm in range(self.arms):
                    cell = [unit for unit in own if unit.cell[0] == arm]
                    f = math.fsum(unit.predictions[p] for unit in cell) / len(cell)
                    y = math.fsum(unit.values[m] for unit in cell) / len(cell)
                    both += math.fsum((u.predictions[p] - f) * (u.values[m] - y) for u in cell)
                    spread += math.fsum((u.predictions[p] - f) ** 2 for u in cell)
                    off += [u.predictions[p] - f for u in cell]
                shrunk = spread + SHRINKAGE * self.widths[p] ** 2
                slopes[p] = both / shrunk if self.fits_slopes else 1.0
                centred.append(np.array(off) * slopes[p])
            found.slopes.append(slopes)
            found.expected.append(np.mean([unit.predictions for unit in own], axis=0))
            found.explained.append(np.array(centred) @ np.array(centred).T / len(own))
            for arm in range(self.arms):
                self._fit_cell(found, (arm, group), [u for u in own if u.cell[0] == arm])
        return found

    def _fit_cell(self, found: Fit, cell: Cell, units: list[Unit]) -> None:
        slopes, expected = found.slopes[cell[1]], found.expected[cell[1]]
        rows = np.array([[*unit.values, *unit.predictions] for unit in units])
        number, size = len(units), len(self.objective)
        widths = np.concatenate([np.ones(size), self.widths])
        raw = (rows - rows.mean(axis=0)).T @ (rows - rows.mean(axis=0))
        raw = (raw + np.diag(PRIOR_DRAWS / 4 * widths**2)) / (number + PRIOR_DRAWS)
        raw = self._limited(raw)
        adjust = np.eye(size, size + len(slopes))
        for p, m in enumerate(self.predicted):
            adjust[m, size + p] = -slopes[p]
        left = adjust @ raw @ adjust.T
        off = rows[:, size:] - expected
        scores = rows[:, :size].copy()
        for p, m in enumerate(self.predicted):
            scores[:, m] -= slopes[p] * off[:, p]
        means = scores.mean(axis=0)
        spread = ((scores - means) ** 2).sum(axis=0) + PRIOR_DRAWS / 4
        left[np.diag_indices(size)] = spread / (number + PRIOR_DRAWS)
        found.means[cell] = np.clip(means, 0.0, 1.0)
        found.covariances[cell] = self._limited(left)
        found.counts[cell] = number

    @staticmethod
    def _limited(covariance: Floats) -> Floats:
        """Return a covariance with correlations that data can support."""
        stds = np.sqrt(np.diagonal(covariance))
        most = LARGEST_CORRELATION * np.outer(stds, stds)
        found = np.clip(covariance, -most, most)
        found[np.diag_indices(len(stds))] = np.diagonal(covariance)
        return found

    def quality(self, fit: Fit, arm: int) -> float:
        return math.fsum(self.shares[i] * self.objective @ fit.means[arm, i] for i in self.groups)

    def above(self, fit: Fit, r: int, arm: int) -> float:
        """Return how far an arm is within a limit."""
        own = self.effect_of(r, arm).items()
        return math.fsum(w @ fit.means[cell] for cell, w in own) - self.limits[r].bounds[arm]

    def leader(self, fit: Fit) -> int:
        kept = [
            arm
            for arm in range(self.arms)
            if arm not in self.rejected
            and all(self.above(fit, r, arm) >= 0.0 for r in self.rows_of(arm))
        ]
        assert kept, "the slow rule knows no blocks without a leading arm"
        return max(kept, key=lambda arm: self.quality(fit, arm))

    # ---------------------------------------------------------------------- wealth

    def _ledger(self, kind: str, first: int, second: int) -> float:
        return self.ledgers.get((kind, first, second), 0.0)

    def _kept(self, arm: int) -> float:
        own = [self._ledger("limit", arm, r) for r in self.rows_of(arm)]
        return min(own, default=math.inf)

    def _from(self, target: int, answer: int) -> float:
        if answer == self.arms:
            return self._kept(target)
        return min(self._ledger("pair", answer, target), self._kept(target))

    def wealth(self) -> dict[int, float]:
        """Return the wealth against every answer that was possible at the start."""
        has_none = all(self.rows_of(arm) for arm in range(self.arms))
        return {
            answer: math.fsum(
                self._from(target, answer) for target in range(self.arms) if target != answer
            )
            for answer in range(self.arms + has_none)
        }

    # ---------------------------------------------------------------------- blocks

    def bets(self, fit: Fit, planned: dict[Cell, int]) -> list[Bet]:
        """Return the bets of a block; none if too little is known of the leader's weakest item."""
        leader, threshold = self.leader(fit), -math.log(self.delta)
        wealth, found, information = self.wealth(), [], []
        live = [k for k in wealth if k not in self.rejected and k != leader]
        least = min(wealth[k] - self._from(leader, k) for k in live)
        for k in live:
            if k == self.arms:
                continue
            _, (s, *nu) = self._price(fit, leader, k, planned)
            rows = [(s, self._gap(leader, k)), *((-n, e) for n, e in self._own_rows(nu, k))]
            effect: Effect = {}
            for multiplier, row in rows:
                for cell, weights in row.items():
                    if multiplier != 0.0:
                        effect[cell] = effect.get(cell, 0.0) + multiplier * weights
            constant = math.fsum(
                n * self.limits[r].bounds[k] for n, r in zip(nu, self.rows_of(k), strict=True)
            )
            others = wealth[k] - self._from(leader, k)
            if threshold - others - self._ledger("pair", k, leader) > 0.0:
                information.append(self._price(fit, leader, k, fit.counts)[0])
            found.append(self._bet(("pair", k, leader), fit, effect, constant, 1.0, planned))
        for r in self.rows_of(leader):
            row, above = self.effect_of(r, leader), self.above(fit, r, leader)
            if threshold - least - self._ledger("limit", leader, r) > 0.0:
                information.append(above**2 / self._covariance(fit, row, row, fit.counts))
            if not all(planned[cell] for cell in row):
                continue
            variance = self._covariance(fit, row, row, planned)
            effect = {cell: weights / variance for cell, weights in row.items()}
            constant = -self.limits[r].bounds[leader] / variance
            found.append(self._bet(("limit", leader, r), fit, effect, constant, above, planned))
        return found if min(information) >= TAU**2 else []

    def _gap(self, leader: int, k: int) -> Effect:
        gap = {(leader, i): self.shares[i] * self.objective for i in self.groups}
        return gap | {(k, i): -self.shares[i] * self.objective for i in self.groups}

    def _own_rows(self, nu: list[float], k: int) -> list[tuple[float, Effect]]:
        return [(n, self.effect_of(r, k)) for n, r in zip(nu, self.rows_of(k), strict=True)]

    def _bet(
        self,
        ledger: tuple[str, int, int],
        fit: Fit,
        effect: Effect,
        constant: float,
        distance: float,
        planned: dict[Cell, int],
    ) -> Bet:
        """Return a bet whose centres are the nearest means on the border of its null."""
        weights = {cell: w / planned[cell] for cell, w in effect.items() if np.any(w != 0.0)}
        centres = {
            cell: fit.means[cell] - distance * fit.covariances[cell] @ a
            for cell, a in weights.items()
        }
        return Bet(ledger, weights, centres, constant)

    def _covariance(self, fit: Fit, one: Effect, other: Effect, pulls: dict[Cell, int]) -> float:
        """Return the covariance of two sums of adjusted means."""
        parts = [
            one[cell] @ fit.covariances[cell] @ other[cell] / pulls[cell]
            for cell in one.keys() & other.keys()
        ]
        for i in self.groups:
            sums = [self._in_group(effect, i) for effect in (one, other)]
            of_group = sum(n for cell, n in pulls.items() if cell[1] == i)
            parts.append(sums[0] @ fit.explained[i] @ sums[1] / of_group)
        return math.fsum(parts)

    def _in_group(self, effect: Effect, i: int) -> Floats:
        """Return the sum of the weights of predicted measures over the arms of a group."""
        own = [w[self.predicted] for cell, w in effect.items() if cell[1] == i]
        return sum(own, np.zeros(len(self.predicted)))

    def _price(
        self, fit: Fit, leader: int, k: int, pulls: dict[Cell, int]
    ) -> tuple[float, list[float]]:
        """Return the distance to the nearest means for which k is right, and the multipliers.

        The first multiplier is that of "k is at least as good", the others those of its limits. All
        sets of active conditions are tried; one on a cell without pulls can be met for nothing.
        """
        rows = [self._gap(leader, k)]
        short = [self.quality(fit, leader) - self.quality(fit, k)]
        for r in self.rows_of(k):
            rows.append({cell: -w for cell, w in self.effect_of(r, k).items()})
            short.append(-self.above(fit, r, k))
        priced = [r for r, row in enumerate(rows) if all(pulls[cell] for cell in row)]
        best = 0.0, [0.0] * len(rows)
        for size in range(1, len(rows) + 1):
            for active in itertools.combinations(priced, size):
                wanted = np.array([short[r] for r in active])
                form = [
                    [self._covariance(fit, rows[r], rows[t], pulls) for t in active] for r in active
                ]
                found = np.linalg.solve(np.array(form), wanted)
                if (found >= 0.0).all() and found @ wanted > best[0]:
                    multipliers = dict(zip(active, found.tolist(), strict=True))
                    own = [multipliers.get(r, 0.0) for r in range(len(rows))]
                    best = float(found @ wanted), own
        return best

    def pay(self, bet: Bet, fit: Fit, units: list[Unit], planned: dict[Cell, int]) -> float:
        """Return the logarithm of what a bet pays for a block."""
        if not bet.weights:
            return 0.0
        known = np.array([unit.predictions for unit in self.told])
        low, high = known.min(axis=0), known.max(axis=0)
        cells = [cell for cell, n in planned.items() if n]
        nothing = np.zeros(len(self.objective))
        a = {cell: bet.weights.get(cell, nothing) for cell in cells}
        summed = {cell: planned[cell] * a[cell] for cell in cells}
        total = [self._in_group(summed, i) for i in self.groups]
        d = {}
        for i in self.groups:
            own = [cell for cell in cells if cell[1] == i]
            pulls = sum(planned[cell] for cell in own)
            for cell in own:
                d[cell] = fit.slopes[i] * (a[cell][self.predicted] - total[i] / pulls)
        centres = {cell: np.clip(c, 0.0, 1.0) for cell, c in bet.centres.items()}

        def effect(means: Effect) -> float:
            parts = [planned[cell] * w @ means[cell] for cell, w in bet.weights.items()]
            return math.fsum([*parts, bet.constant])

        before = inside = 0.0
        for cell, weights in bet.weights.items():
            n, covariance = planned[cell], fit.covariances[cell]
            own = weights @ covariance @ weights
            before += n**2 * own / fit.counts[cell]
            inside += n * (own + (weights @ (fit.means[cell] - centres[cell])) ** 2)
        for i in self.groups:
            adjusted = total[i] @ fit.explained[i] @ total[i]
            before += adjusted / sum(n for cell, n in fit.counts.items() if cell[1] == i)
            inside += adjusted / sum(planned[cell] for cell in cells if cell[1] == i)
        reach = 0.0
        for cell in cells:
            lost = 0.0
            if cell in centres:
                ends = np.where(a[cell] > 0.0, 0.0, 1.0)
                lost = float(a[cell] @ (centres[cell] - ends))
            off = fit.expected[cell[1]]
            reach = max(reach, lost + self._most_lost(d[cell], off, low, high))
        points, stakes, cash = grid(effect(fit.means) / math.sqrt(before))
        logs = []
        for u in points:
            theta = min(u * math.sqrt(before) / inside, ADJUSTED_CAP / reach)
            log = theta * effect(centres)
            for unit in units:
                seen = np.clip(unit.predictions, low, high) - fit.expected[unit.cell[1]]
                score = -float(d[unit.cell] @ seen)
                if unit.cell in centres:
                    score += float(a[unit.cell] @ (unit.values - centres[unit.cell]))
                log += math.log1p(theta * score)
            logs.append(log)
        return mixture(cash, stakes, logs)

    @staticmethod
    def _most_lost(d: Floats, off: Floats, low: Floats, high: Floats) -> float:
        """Return the most that predictions lose: d (f - off) at the worst end of each."""
        return float(np.maximum(d * (low - off), d * (high - off)).sum())

    def settle(self, units: list[Unit]) -> None:
        """Bet on a block of units, and take its results."""
        cells = [(arm, group) for arm in range(self.arms) for group in self.groups]
        planned = {cell: sum(unit.cell == cell for unit in units) for cell in cells}
        fit = self.fit()
        paid = {bet.ledger: self.pay(bet, fit, units, planned) for bet in self.bets(fit, planned)}
        for ledger, gain in paid.items():
            self.ledgers[ledger] = self.ledgers.get(ledger, 0.0) + gain
        self.told += units
        for answer, wealth in self.wealth().items():
            if wealth >= -math.log(self.delta):
                self.rejected.add(answer)
