"""Block betting on linear arms with limits, slow and obvious, written from the mathematics alone.

It shares code only with the slow version without limits: features and limits as given,
pseudo-inverses, and non-negative least squares for the nearest parameter.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
from scipy.optimize import nnls

from tests.block_betting import MOST_TRIED, is_sooner
from tests.linear.slow_blocks import (
    GRID,
    Aim,
    SlowBlocks,
    log_payment,
    mixture,
    stakes,
)

TAU, WASTED, COST = 0.5, 9.87, 1.5

Row = tuple[np.ndarray, float]
"""A direction and a constant: "direction times theta, plus the constant, is at most zero"."""


class SlowLimits(SlowBlocks):
    """One experiment; rows of `limits[k]` are at most zero if candidate k keeps its limits."""

    def __init__(
        self,
        arms: np.ndarray,
        candidates: np.ndarray,
        limits: list[list[Row]],
        sigma: np.ndarray | None,
        bounds: tuple[float, float] | None,
        delta: float,
        tolerance: float = 0.0,
        floor_tolerance: float = 0.0,
    ) -> None:
        super().__init__(arms, candidates, sigma, bounds, delta, tolerance, 1)
        self.limits, self.spare = limits, floor_tolerance
        self.gone: list[int] = []
        self.overdue: list[int] = []
        self.none = self.number
        self.separately = tolerance > 0 or floor_tolerance > 0
        self.threshold = math.log((self.number if self.separately else 1) / delta)
        self.own = np.zeros(self.number)
        self.pair = np.zeros((self.number, self.number))
        self.kept = {(b, r): 0.0 for b in range(self.number) for r in range(len(limits[b]))}
        if any(not rows for rows in limits):
            self.rejected.add(self.none)

    # ------------------------------------------------------------------- estimates

    def root(self, matrix: np.ndarray) -> np.ndarray:
        """Return R such that R'R is the pseudo-inverse."""
        values, vectors = np.linalg.eigh(matrix)
        seen = values > 1e-9 * values.max()
        return (vectors[:, seen] / np.sqrt(values[seen])).T

    def rows(self, k: int, target: int) -> list[Row]:
        """Return the rows that hold if k is right: it keeps its limits, with a margin, and wins."""
        found = [(a, c + self.spare) for a, c in self.limits[k]]
        if target < self.none:
            found.insert(0, (self.candidates[target] - self.candidates[k], self.tolerance))
        return found

    def effect_on(self, rows: list[Row], matrix: np.ndarray) -> tuple[Row | None, float]:
        """Return the effect that separates the estimate from the rows' region, and distance."""
        theta, _ = self.estimate(self.data)
        root = self.root(matrix)
        projector = root.T @ np.linalg.pinv(root.T)
        seen = [(a, c) for a, c in rows if np.allclose(projector @ a, a, atol=1e-9)]
        if not seen:
            return None, 0.0
        whitened = np.array([root @ a for a, _ in seen])
        short = np.array([a @ theta + c for a, c in seen])
        scale = np.linalg.norm(whitened, axis=1).max()
        x, left = nnls(np.vstack([whitened.T / scale, short]), np.append(np.zeros(len(root)), 1.0))
        if not x.any() or left < 1e-9:
            return None, 0.0
        # The nearest point's multipliers are proportional to x.
        direction = sum(w * a for w, (a, _) in zip(x, seen, strict=True))
        constant = sum(w * c for w, (_, c) in zip(x, seen, strict=True))
        size = float(np.linalg.norm(root @ direction))
        return (direction / size, constant / size), ((direction @ theta + constant) / size) ** 2

    def information(self) -> np.ndarray:
        return self.gram([k for k, _ in self.data])

    def keeps(self, k: int) -> bool:
        theta, _ = self.estimate(self.data)
        return all(a @ theta + c <= 0.0 for a, c in self.limits[k])

    def leader(self) -> int:
        theta, _ = self.estimate(self.data)
        live = [k for k in range(self.number) if k not in self.rejected]
        kept = [k for k in live if self.keeps(k)]
        if kept:
            return max(kept, key=lambda k: float(self.candidates[k] @ theta))
        if self.none not in self.rejected:
            return self.none
        return min(live, key=lambda k: self.effect_on(self.limits[k], self.information())[1])

    # --------------------------------------------------------------------- losses

    def lose(self, serial: int, arm: int) -> None:
        self.gone.append(arm)
        if serial >= 0:
            super().lose(serial, arm)

    def missing(self) -> list[int]:
        """Return the arms of all pulls that are lost, or overdue and counted as if they were."""
        return self.gone + self.overdue

    def hidden(self, direction: np.ndarray, pulls: dict[int, int]) -> float:
        """Return what an effect measured by these pulls loses if lost ones count as their worst."""
        if self.bounds is None:
            return 0.0
        theta, _ = self.estimate(self.data)
        matrix = self.gram([k for k, n in pulls.items() for _ in range(n)])
        h = np.linalg.pinv(matrix, rcond=1e-9, hermitian=True) @ direction
        total = 0.0
        for k, n in pulls.items():
            weight = float(self.arms[k] @ h)
            mean = float(np.clip(self.arms[k] @ theta, *self.bounds))
            worst = self.bounds[0] if weight > 0 else self.bounds[1]
            total += n * self.share_lost(k) * weight * (mean - worst)
        return total

    def hides(self, row: Row | None) -> bool:
        """Return whether losses hide that a row is above zero."""
        if row is None:
            return True
        theta, inverse = self.estimate(self.data)
        direction, constant = row
        if self.bounds is None:
            issued = self.gram([*(k for k, _ in self.data), *self.missing()])
            without = np.linalg.pinv(issued, rcond=1e-9, hermitian=True)
            variance = float(direction @ inverse @ direction)
            return variance >= WASTED * float(direction @ without @ direction)
        told = dict(Counter(k for k, _ in self.data))
        return bool(direction @ theta + constant <= self.hidden(direction, told))

    def is_hidden(self, item: Any, target: int) -> bool:
        """Return whether losses hide an item from bets."""
        if not self.missing():
            return False
        if isinstance(item, tuple):
            a, c = self.limits[target][item[1]]
            return self.hides((-a, self.spare - c))
        return self.hides(self.effect_on(self.rows(item, target), self.information())[0])

    def target(self) -> int:
        """Return whom the next block compares with others.

        It is the leader, or a candidate that rules out others sooner where losses make it slow.
        """
        theta, _ = self.estimate(self.data)
        target = self.leader()
        if target == self.none or not self.missing() or not self.keeps(target):
            return target
        live = [k for k in range(self.number) if k not in self.rejected and self.keeps(k)]
        ranked = sorted(live, key=lambda k: -float(self.candidates[k] @ theta))
        for k in ranked[1:MOST_TRIED]:
            if is_sooner(*self.times(target), self.times(k)[0], k):
                target = k
        return target

    def times(self, target: int) -> tuple[dict[int, float], dict[int, float]]:
        """Return how many pulls a target needs to rule out each answer, if all arms get as many.

        The second numbers are those without losses.
        """
        seen: dict[Any, float] = {}
        whole: dict[Any, float] = {}
        for item, need in self.needs(target).items():
            found, best = self.information_on(item, target)
            seen[item] = (need + COST) / found if found > 0 else math.inf
            whole[item] = (need + COST) / best if best > 0 else math.inf
        return self.by_answer(seen, target), self.by_answer(whole, target)

    def by_answer(self, times: dict[Any, float], target: int) -> dict[int, float]:
        limits = max((t for item, t in times.items() if isinstance(item, tuple)), default=0.0)
        found = {k: max(limits, times.get(k, 0.0)) for k in range(self.none + 1)}
        gone = {*self.rejected, target}
        return {k: t if t > 0 and k not in gone else math.inf for k, t in found.items()}

    def information_on(self, item: Any, target: int) -> tuple[float, float]:
        """Return the information on an item by one pull of every arm, and that without losses."""
        theta, _ = self.estimate(self.data)
        pulls, arms = dict.fromkeys(range(len(self.arms)), 1), range(len(self.arms))
        whole = self.gram([*arms])
        shares = [1.0 if self.bounds is not None else 1.0 - self.share_lost(k) for k in arms]
        some = sum(x * np.outer(self.arms[k], self.arms[k]) for k, x in enumerate(shares))
        row: Row | None
        if isinstance(item, tuple):
            a, c = self.limits[target][item[1]]
            row = (-a, self.spare - c)
        else:
            row = self.effect_on(self.rows(item, target), some)[0]
        if row is None:
            return 0.0, 0.0
        direction, constant = row
        effect = float(direction @ theta + constant)
        left = max(0.0, effect - self.hidden(direction, pulls))

        def variance(matrix: np.ndarray) -> float:
            inverse = np.linalg.pinv(matrix, rcond=1e-9, hermitian=True)
            return self.noise(theta) * float(direction @ inverse @ direction)

        return left**2 / variance(some), effect**2 / variance(whole)

    def share_lost(self, k: int) -> float:
        lost, came = self.missing().count(k), sum(arm == k for arm, _ in self.data)
        return lost / (lost + max(1, came))

    # --------------------------------------------------------------------- wealth

    def kept_by(self, j: int) -> float:
        return min((self.kept[j, r] for r in range(len(self.limits[j]))), default=math.inf)

    def wealth_against(self, k: int) -> float:
        if k == self.none:
            return sum(self.kept_by(j) for j in range(self.number))
        others = [j for j in range(self.number) if j != k]
        return float(self.own[k]) + sum(min(self.pair[k, j], self.kept_by(j)) for j in others)

    def against(self, k: int, target: int) -> float:
        pair = self.pair[k, target] if target < self.none else -math.inf
        return max(float(self.own[k]), float(pair))

    def needs(self, target: int) -> dict[Any, float]:
        """Return by rival, or limit of the target, the missing evidence, if any."""
        live = [k for k in range(self.none + 1) if k not in self.rejected and k != target]
        limits = range(len(self.limits[target])) if target < self.none else []
        found: dict[Any, float] = {}
        if self.separately:
            for k in range(self.number):
                if k != target:
                    found[k] = self.threshold - self.against(k, target)
            found |= {("limit", r): self.threshold - self.kept[target, r] for r in limits}
        elif target == self.none:
            return {k: max(0.0, self.threshold - self.wealth_against(k)) for k in live}
        else:
            rest = {}
            for k in live:
                pair = self.pair[k, target] if k < self.none else math.inf
                rest[k] = self.wealth_against(k) - min(pair, self.kept_by(target))
                if k < self.none:
                    found[k] = self.threshold - rest[k] - pair
            least = min(rest.values())
            found |= {("limit", r): self.threshold - least - self.kept[target, r] for r in limits}
        return {item: need for item, need in found.items() if need > 0.0}

    def value(self, item: Any, target: int) -> float:
        """Return the value of an item from all data; nothing for a limit that seems broken."""
        if isinstance(item, tuple):
            theta, inverse = self.estimate(self.data)
            direction, constant = self.limits[target][item[1]]
            distance = self.spare - (direction @ theta + constant)
            return max(0.0, distance) ** 2 / float(direction @ inverse @ direction)
        return self.effect_on(self.rows(item, target), self.information())[1]

    def bets_now(self, target: int) -> bool:
        theta, _ = self.estimate(self.data)
        items = [item for item in self.needs(target) if not self.is_hidden(item, target)]
        weakest = min((self.value(item, target) for item in items), default=math.inf)
        pause = TAU**2
        if target == self.none:
            pause = 1.0 if self.bounds is not None else 0.0
        return weakest / self.noise(theta) >= pause

    # ----------------------------------------------------------------------- blocks

    def open_block(self, counts: dict[int, int], target: int, later: float | None = None) -> None:
        """Freeze the bets of a block; `later`: draws between it and a planned end."""
        ahead = None if later is None else later / sum(counts.values())
        theta, inverse = self.estimate(self.data)
        drawn = [k for k, n in counts.items() for _ in range(n)]
        matrix = self.gram(drawn)
        own = np.linalg.pinv(matrix, rcond=1e-9, hermitian=True)
        bets = []
        is_late = ahead is not None and (ahead == 0 or target < self.none)
        if is_late or self.bets_now(target):
            for k in range(self.number):
                settled = self.separately and self.against(k, target) == math.inf
                if k == target or k in self.rejected or settled:
                    continue
                effect, _ = self.effect_on(self.rows(k, target), matrix)
                if effect is None and ahead is not None and target < self.none:
                    effect = self.rows(k, target)[0]
                place = ("own", k) if target == self.none else ("pair", k, target)
                bets.append((place, effect))
            if target < self.none:
                for r, (a, c) in enumerate(self.limits[target]):
                    bets.append((("kept", target, r), (-a, self.spare - c)))
                if ahead is not None:
                    bets += self.bets_on_the_leader(target)
        frozen = []
        for place, effect in bets:
            if effect is None:
                continue
            direction, constant = effect
            h = own @ direction
            if not np.allclose(matrix @ h, direction, atol=1e-7 * np.abs(direction).max()):
                continue
            sd = math.sqrt(self.noise(theta) * float(direction @ inverse @ direction))
            need = None if ahead is None else self.need_of(place, target)
            if need is not None and need <= 0:
                continue
            gap = float(direction @ theta) + constant
            hidden = self.hidden(direction, counts)
            if hidden > 0 and gap <= hidden:
                continue
            m = (gap - hidden) / sd
            centre = theta - inverse @ direction * gap / float(direction @ inverse @ direction)
            variance, thetas, aim = float(direction @ h), np.zeros(GRID), None
            if self.bounds is not None:
                variance, _ = self.spread_and_ruin(h, centre, theta, counts)
            if need is not None and ahead is not None:
                aim = self.aim_of(need, ahead, m, sd, variance)
            if self.bounds is not None:
                points = stakes(m)[0] if aim is None else np.array([aim])
                thetas = self.points(points, sd, h, centre, theta, counts)
            frozen.append((place, direction, constant, m, sd, h, centre, thetas, aim))
        self.blocks.append(SlowBlock(dict(counts), frozen))

    def bets_on_the_leader(self, target: int) -> list[tuple[Any, Row]]:
        """Return the bet on "the leader is as good as the best other one that keeps its limits"."""
        theta, _ = self.estimate(self.data)
        others = [
            k
            for k in range(self.number)
            if k not in self.rejected and k != target and self.keeps(k)
        ]
        if not others:
            return []
        best = max(others, key=lambda k: (float(self.candidates[k] @ theta), -k))
        gap = self.candidates[best] - self.candidates[target]
        return [(("pair", target, best), (gap, self.tolerance))]

    def need_of(self, place: Any, target: int) -> float:
        """Return what a ledger lacks."""
        if place[0] == "pair" and place[1] == target:
            return self.needs(place[2]).get(target, 0.0)
        item = ("limit", place[2]) if place[0] == "kept" else place[1]
        if self.is_hidden(item, target):
            return 0.0
        return self.needs(target).get(item, 0.0)

    def pay_blocks(self) -> bool:
        before = self.settled
        while (
            self.answer is None
            and self.settled < len(self.blocks)
            and self.blocks[self.settled].complete
        ):
            block = self.blocks[self.settled]
            for place, *bet in block.bets:
                gain = self.gain(block, *bet)
                if place[0] == "own":
                    self.own[place[1]] += gain
                elif place[0] == "pair":
                    self.pair[place[1:]] += gain
                else:
                    self.kept[place[1:]] += gain
            self.settled += 1
            self.decide()
        return self.settled > before

    def gain(self, block: SlowBlock, direction: np.ndarray, constant: float, m: float, sd: float,
             h: np.ndarray, centre: np.ndarray, thetas: np.ndarray,
             aim: Aim) -> float:  # fmt: skip
        if self.bounds is None:
            theta, inverse = self.estimate(block.rewards)
            gram = self.gram([k for k, _ in block.rewards])
            wanted = np.abs(direction).max()
            if not np.allclose(gram @ inverse @ direction, direction, atol=1e-7 * wanted):
                return 0.0
            variance = float(direction @ inverse @ direction)
            effect = float(direction @ theta) + constant
            f, e = sd**2 / variance, effect / sd
            return log_payment(aim, m, f, e)
        at_centre = constant
        for k, n in block.counts.items():
            at_centre += n * float(self.arms[k] @ h) * self.middle(k, centre)
        logs = thetas * at_centre
        low, high = self.bounds
        worst = [(k, low if self.arms[k] @ h > 0 else high) for k in block.lost]
        for k, reward in [*block.rewards, *worst]:
            step = float(self.arms[k] @ h) * (reward - self.middle(k, centre))
            logs = logs + np.log1p(thetas * step)
        if aim is not None:
            return float(logs[0])
        _, p, cash = stakes(m)
        return mixture(cash, p, logs)

    def decide(self) -> None:
        if self.separately:
            self.own[self.own >= self.threshold] = math.inf
            self.pair[self.pair >= self.threshold] = math.inf
            for place, evidence in self.kept.items():
                if evidence >= self.threshold:
                    self.kept[place] = math.inf
            for answer in range(self.none + 1):
                kept = math.inf if answer == self.none else self.kept_by(answer)
                rivals = [self.against(k, answer) for k in range(self.number) if k != answer]
                if answer not in self.rejected and min([kept, *rivals]) == math.inf:
                    self.answer = {answer}
                    return
            return
        live = [k for k in range(self.none + 1) if k not in self.rejected]
        self.rejected |= {k for k in live if self.wealth_against(k) >= self.threshold}
        left = set(range(self.none + 1)) - self.rejected
        if len(left) == 1:
            self.answer = left


class SlowBlock:
    """A block with fixed counts and bets."""

    def __init__(self, counts: dict[int, int], bets: list[Any]) -> None:
        self.counts, self.bets = counts, bets
        self.rewards: list[tuple[int, float]] = []
        self.lost: list[int] = []

    @property
    def complete(self) -> bool:
        return len(self.rewards) + len(self.lost) == sum(self.counts.values())
