"""Block betting on linear arms, slow and obvious, written from the mathematics alone.

It shares no code with the package, and uses the features as given: plain NumPy, pseudo-inverses,
and the logarithm of every single factor. Rewards are maximised; to minimise, negate rewards and
range first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from tests.slow_end_bets import End

GRID, OM, ETA = 24, 1.5, 0.5
COST, KAPPA, SLACK = 1.5, 0.5, 1.3
CAP, PRIOR = 0.4, 2.0


def cells(low: float, high: float, m: float) -> tuple[np.ndarray, np.ndarray]:
    """Return midpoints and stakes (not normalised) of equal cells."""
    width = (high - low) / GRID
    u = low + (np.arange(GRID) + 0.5) * width
    return u, width * np.exp(-((u - m) ** 2) / (2 * OM)) / (np.abs(u) + ETA)


def stakes(m: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Return points, stakes and cash; stakes and cash sum to one."""
    w = 4 * math.sqrt(OM)
    u, p = cells(max(0.0, m - w), max(0.0, m) + w, m)
    cash = cells(min(0.0, m) - w, 0.0, m)[1].sum() if m < w else 0.0
    total = p.sum() + cash
    return u, p / total, cash / total


def mixture(cash: float, p: np.ndarray, logs: np.ndarray) -> float:
    with np.errstate(divide="ignore"):
        terms = np.append(np.log(p) + logs, np.log(cash))
    return float(np.logaddexp.reduce(terms))


def aimed_at(need: float, ahead: float, m: float, sd: float, variance: float) -> float | None:
    """Return the effect with which a ledger just gets what it needs, if m is no larger.

    `ahead`: later draws of the experiment per draw of the block; `variance`: the block's.
    """
    aim = math.sqrt(2 * need * variance / (1 + ahead)) / sd
    return aim if m <= aim else None


def log_aimed_bet(aim: float, f: float, e: float) -> float:
    return aim * e * f - aim * aim * f / 2


@dataclass
class EndBet:
    """A bet for normal noise that brings the whole error that is left to the end."""

    end: End
    later: float  # precision that is expected of later blocks


Aim = float | EndBet | None
"""The only effect that is bet on, in units of sd; or the level to be crossed by the end."""


def log_bet(m: float, f: float, e: float) -> float:
    u, p, cash = stakes(m)
    return mixture(cash, p, u * e * f - u * u * f / 2)


def log_payment(aim: Aim, m: float, f: float, e: float) -> float:
    """Return the log of what a bet under known noise pays, from the effect of its block."""
    if isinstance(aim, EndBet):
        return aim.end.log_conditional_error(f, aim.later, e * f)
    return log_bet(m, f, e) if aim is None else log_aimed_bet(aim, f, e)


@dataclass
class Bet:
    winner: int
    rival: int
    m: float
    sd: float
    direction: np.ndarray  # h, so that x'h is the coefficient of a draw
    centre: np.ndarray  # theta on the border of the null
    thetas: np.ndarray
    aim: Aim = None


@dataclass
class Block:
    counts: dict[int, int]
    bets: list[Bet]
    rewards: list[tuple[int, float]] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return len(self.rewards) + len(self.lost) == sum(self.counts.values())


class SlowBlocks:
    """One experiment: data, ledgers, and blocks whose counts are given from outside."""

    is_normal = False
    """Whether the noise is known to be normal."""

    def __init__(
        self,
        arms: np.ndarray,
        candidates: np.ndarray,
        sigma: np.ndarray | None,
        bounds: tuple[float, float] | None,
        delta: float,
        tolerance: float,
        top: int,
        misspecification: float = 0.0,
    ) -> None:
        self.misspecification = misspecification
        self.arms, self.candidates = arms, candidates
        self.sigma, self.bounds = sigma, bounds
        self.tolerance, self.top = tolerance, top
        self.number = len(candidates)
        self.pairwise = tolerance > 0 or top > 1
        errors = top * (self.number - top) if self.pairwise else 1
        self.threshold = math.log(errors / delta)
        self.wealth = np.zeros((self.number, self.number) if self.pairwise else (1, self.number))
        self.rejected: set[int] = set()
        self.data: list[tuple[int, float]] = []
        self.blocks: list[Block] = []
        self.settled = 0
        self.answer: set[int] | None = None

    # ------------------------------------------------------------------ estimates

    def weights(self) -> np.ndarray:
        return np.ones(len(self.arms)) if self.sigma is None else 1.0 / self.sigma**2

    def gram(self, arms: list[int]) -> np.ndarray:
        w = self.weights()
        size = self.arms.shape[1]
        return sum(
            (w[k] * np.outer(self.arms[k], self.arms[k]) for k in arms), np.zeros((size,) * 2)
        )

    def estimate(self, data: list[tuple[int, float]]) -> tuple[np.ndarray, np.ndarray]:
        """Return theta and its covariance for unit noise."""
        w = self.weights()
        inverse = np.linalg.pinv(self.gram([k for k, _ in data]), rcond=1e-11, hermitian=True)
        size = self.arms.shape[1]
        return inverse @ sum((w[k] * r * self.arms[k] for k, r in data), np.zeros(size)), inverse

    def noise(self, theta: np.ndarray) -> float:
        if self.bounds is None:
            return 1.0
        low, high = self.bounds
        residual = sum((r - self.arms[k] @ theta) ** 2 for k, r in self.data)
        rank = np.linalg.matrix_rank(self.arms)
        return float((residual + PRIOR * (high - low) ** 2 / 4) / (len(self.data) - rank + PRIOR))

    def bias(self, arms: list[int], direction: np.ndarray) -> float:
        """How much nonlinear means can move the gap that these draws show, and the truth."""
        w = self.weights()
        moved = sum(w[k] * abs(float(self.arms[k] @ direction)) for k in arms)
        return self.misspecification * (moved + 2)

    def effect(self, y: np.ndarray) -> float:
        """Return what remains of the gap in all data, with the tolerance, after the worst bias."""
        theta, inverse = self.estimate(self.data)
        return float(y @ theta) + self.tolerance - self.bias([k for k, _ in self.data], inverse @ y)

    def leaders(self) -> set[int]:
        theta, _ = self.estimate(self.data)
        live = [k for k in range(self.number) if k not in self.rejected]
        ordered = sorted(live, key=lambda k: -float(self.candidates[k] @ theta))
        return set(ordered[: self.top])

    def may_lead(self, chosen: set[int]) -> bool:
        """Whether these are the best by their fit; ties up to rounding may go either way."""
        theta, _ = self.estimate(self.data)
        values = self.candidates @ theta
        live = {k for k in range(self.number) if k not in self.rejected}
        least = min(values[k] for k in chosen)
        rounding = 1e-9 * max(1.0, np.abs(values).max())
        return (
            len(chosen) == min(self.top, len(live))
            and chosen <= live
            and all(values[k] <= least + rounding for k in live - chosen)
        )

    def log_wealth(self, winner: int, rival: int) -> float:
        return float(self.wealth[winner if self.pairwise else 0, rival])

    def pairs(self, leaders: set[int]) -> list[tuple[int, int]]:
        return [
            (i, k)
            for i in sorted(leaders)
            for k in range(self.number)
            if k not in leaders
            and k not in self.rejected
            and not (self.pairwise and self.log_wealth(i, k) >= self.threshold)
        ]

    def turned_pairs(self, leaders: set[int]) -> list[tuple[int, int]]:
        """Return the pairs in which the best other candidate is to beat a leader."""
        theta, _ = self.estimate(self.data)
        others = [k for k in range(self.number) if k not in leaders and k not in self.rejected]
        best = max(others, key=lambda k: (round(float(self.candidates[k] @ theta), 9), -k))
        return [(best, i) for i in sorted(leaders) if self.log_wealth(best, i) < self.threshold]

    # ------------------------------------------------------------------- planning

    def targets(self, leaders: set[int]) -> np.ndarray:
        """Return the differences to plan for, each in units of what it needs."""
        theta, inverse = self.estimate(self.data)
        rows = []
        for i, k in self.pairs(leaders):
            y = self.candidates[i] - self.candidates[k]
            variance = self.noise(theta) * float(y @ inverse @ y)
            gap = max(0.0, self.effect(y))
            need = max(0.0, self.threshold - self.log_wealth(i, k)) + COST
            rows.append(y * math.sqrt(need / (gap**2 + KAPPA * variance)))
        return np.array(rows)

    def worst(self, targets: np.ndarray, counts: np.ndarray) -> float:
        matrix = (self.arms.T * (self.weights() * counts)) @ self.arms
        inverse = np.linalg.pinv(matrix, rcond=1e-12, hermitian=True)
        if not np.allclose(matrix @ inverse @ targets.T, targets.T, atol=1e-7):
            return math.inf
        return float(max(y @ inverse @ y for y in targets))

    def open(self, counts: dict[int, int], leaders: set[int], later: float | None = None) -> None:
        """Freeze the bets of a block; `later`: draws between it and a planned end."""
        bets = []
        ahead = None if later is None else later / sum(counts.values())
        theta, inverse = self.estimate(self.data)
        drawn = [k for k, n in counts.items() for _ in range(n)]
        own = np.linalg.pinv(self.gram(drawn), rcond=1e-9, hermitian=True)
        for i, k in self.pairs(leaders) + ([] if ahead is None else self.turned_pairs(leaders)):
            y = self.candidates[i] - self.candidates[k]
            sd = math.sqrt(self.noise(theta) * float(y @ inverse @ y))
            gap = self.effect(y)
            h = own @ y
            at_border = float(y @ theta) + self.tolerance - self.bias(drawn, h)
            centre = theta - inverse @ y * at_border / float(y @ inverse @ y)
            seen = np.allclose(self.gram(drawn) @ h, y, atol=1e-7)
            need, aim = self.threshold - self.log_wealth(i, k), None
            if ahead is not None and need <= 0:
                continue
            if ahead is not None and seen:
                variance = float(y @ h)
                if self.bounds is not None:
                    variance, _ = self.spread_and_ruin(h, centre, theta, counts)
                aim = self.aim_of(need, ahead, gap / sd, sd, variance)
            points = stakes(gap / sd)[0] if aim is None else np.array([aim])
            thetas = self.points(points, sd, h, centre, theta, counts) if seen else np.zeros(0)
            bets.append(Bet(i, k, gap / sd, sd, h, centre, thetas, aim))
        self.blocks.append(Block(dict(counts), bets))

    def aim_of(self, need: float, ahead: float, m: float, sd: float, variance: float) -> Aim:
        """Return what a bet aims at, as `aimed_at` does; with normal noise, at the end itself."""
        if self.is_normal:
            return EndBet(End(need, ahead), ahead * sd**2 / variance)
        return aimed_at(need, ahead, m, sd, variance)

    def middle(self, arm: int, centre: np.ndarray) -> float:
        assert self.bounds is not None
        return float(np.clip(self.arms[arm] @ centre, *self.bounds))

    def points(
        self,
        points: np.ndarray,
        sd: float,
        h: np.ndarray,
        centre: np.ndarray,
        theta: np.ndarray,
        counts: dict[int, int],
    ) -> np.ndarray:
        if self.bounds is None:
            return np.zeros(GRID)
        inside, ruin = self.spread_and_ruin(h, centre, theta, counts)
        return np.minimum(points * sd / inside, CAP / ruin)

    def spread_and_ruin(
        self, h: np.ndarray, centre: np.ndarray, theta: np.ndarray, counts: dict[int, int]
    ) -> tuple[float, float]:
        """Return the variance of the block's effect, and the most that one reward can lose."""
        assert self.bounds is not None
        low, high = self.bounds
        inside, ruin = 0.0, 0.0
        for k, n in counts.items():
            a, c = float(self.arms[k] @ h), self.middle(k, centre)
            inside += n * a**2 * (self.noise(theta) + (float(self.arms[k] @ theta) - c) ** 2)
            ruin = max(ruin, a * (c - low), -a * (high - c))
        return inside, ruin

    # -------------------------------------------------------------------- results

    def tell(self, serial: int, arm: int, reward: float) -> None:
        self.data.append((arm, reward))
        if serial >= 0:
            self.blocks[serial].rewards.append((arm, reward))

    def lose(self, serial: int, arm: int) -> None:
        self.blocks[serial].lost.append(arm)

    def tell_late(self, serial: int, arm: int, reward: float) -> None:
        """Count a lost result that comes after all for its block, if that is still open."""
        self.data.append((arm, reward))
        if serial >= self.settled:
            self.blocks[serial].lost.remove(arm)
            self.blocks[serial].rewards.append((arm, reward))

    def settle(self) -> bool:
        """Pay complete blocks in order; return whether there were any."""
        before = self.settled
        while (
            self.answer is None
            and self.settled < len(self.blocks)
            and self.blocks[self.settled].complete
        ):
            block = self.blocks[self.settled]
            for bet in block.bets:
                row = bet.winner if self.pairwise else 0
                self.wealth[row, bet.rival] += self.payment(block, bet)
            self.settled += 1
            self.conclude()
        return self.settled > before

    def payment(self, block: Block, bet: Bet) -> float:
        y = self.candidates[bet.winner] - self.candidates[bet.rival]
        if self.bounds is None:
            theta, inverse = self.estimate(block.rewards)
            gram = self.gram([k for k, _ in block.rewards])
            if not np.allclose(gram @ inverse @ y, y, atol=1e-7):
                return 0.0
            variance = float(y @ inverse @ y)
            bias = self.bias([k for k, _ in block.rewards], inverse @ y)
            effect = float(y @ theta) + self.tolerance - bias
            f, e = bet.sd**2 / variance, effect / bet.sd
            return log_payment(bet.aim, bet.m, f, e)
        if not bet.thetas.size:
            return 0.0
        planned = [k for k, n in block.counts.items() for _ in range(n)]
        at_centre = self.tolerance - self.bias(planned, bet.direction)
        for k, n in block.counts.items():
            at_centre += n * float(self.arms[k] @ bet.direction) * self.middle(k, bet.centre)
        logs = bet.thetas * at_centre
        low, high = self.bounds
        worst = [(k, low if self.arms[k] @ bet.direction > 0 else high) for k in block.lost]
        for k, reward in [*block.rewards, *worst]:
            step = float(self.arms[k] @ bet.direction) * (reward - self.middle(k, bet.centre))
            logs = logs + np.log1p(bet.thetas * step)
        if bet.aim is not None:
            return float(logs[0])
        _, p, cash = stakes(bet.m)
        return mixture(cash, p, logs)

    def conclude(self) -> None:
        if self.pairwise:
            if np.linalg.matrix_rank(self.gram([k for k, _ in self.data])) < np.linalg.matrix_rank(
                self.arms
            ):
                return
            leaders = self.leaders()
            if not self.pairs(leaders):
                self.answer = leaders
            return
        for k in range(self.number):
            if self.wealth[0, k] >= self.threshold:
                self.rejected.add(k)
        live = set(range(self.number)) - self.rejected
        if len(live) == 1:
            self.answer = live
