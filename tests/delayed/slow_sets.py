"""Block betting on the best k with a planned end, slow and obvious, from the mathematics alone.

There is a wealth against every set of k arms; with a tolerance, one for every pair of arms.
Outcomes are maximised. The bets are those of the slow version of `subpopulations`.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import Any

from fairtrial.delayed import Problem
from tests.subpopulations.slow_blocks import PRIOR_DRAWS, End, GaussianBet, bounded_bet

Pair = tuple[int, int]
"""An arm outside the target, and one inside."""


@dataclass
class Block:
    """A block as issued, and the outcomes that have come since."""

    counts: dict[int, int]
    target: frozenset[int]
    order: list[int]
    """The arms from the best to the worst, by the outcomes before the block."""
    bets: dict[Pair, Any] = field(default_factory=dict)
    on_target: Any = None
    runner_up: Pair | None = None
    outcomes: dict[int, list[float]] = field(default_factory=dict)
    lost: dict[int, int] = field(default_factory=dict)

    def is_complete(self) -> bool:
        return all(
            len(self.outcomes.get(arm, ())) + self.lost.get(arm, 0) == number
            for arm, number in self.counts.items()
        )


class SlowSets:
    """The whole experiment: all outcomes, the wealth against every set, and the blocks."""

    def __init__(self, problem: Problem, delta: float, max_pulls: int) -> None:
        self.problem, self.top, self.arms = problem, problem.top, range(len(problem.arms))
        self.bounds, self.tolerance = problem.reward_range, problem.tolerance
        self.max_pulls = max_pulls
        self.told: dict[int, list[float]] = {arm: [] for arm in self.arms}
        sets = itertools.combinations(self.arms, self.top)
        self.wealth = dict.fromkeys(map(frozenset, sets), 0.0)
        self.pairs = dict.fromkeys(itertools.permutations(self.arms, 2), 0.0)
        tests = self.top * (len(self.arms) - self.top) if self.tolerance else 1
        self.threshold = math.log(tests / delta)
        self.rejected: set[Any] = set()
        self.blocks: list[Block] = []
        self.paid = 0
        self.outside = 0
        """Pulls outside of blocks, made while some arm has no outcome."""
        self.last: Block | None = None
        """The block with which the last target began to be bet on."""

    # ---------------------------------------------------------------------------- plans

    def mean(self, arm: int) -> float:
        return math.fsum(self.told[arm]) / len(self.told[arm])

    def variance(self, arm: int) -> float:
        if self.bounds is None:
            return float(self.problem.scale[arm]) ** 2
        width = self.bounds[1] - self.bounds[0]
        squares = math.fsum((x - self.mean(arm)) ** 2 for x in self.told[arm])
        prior = PRIOR_DRAWS * (width / 2) ** 2
        return (squares + prior) / (len(self.told[arm]) + PRIOR_DRAWS)

    def next_target(self) -> tuple[frozenset[int], list[int]]:
        """Return the leading set, or the best one that is left, and the order of the arms."""
        order = sorted(self.arms, key=lambda arm: (-self.mean(arm), arm))
        target = frozenset(order[: self.top])
        if target in self.rejected:
            assert self.last is not None
            target = self.last.target
            if target in self.rejected:
                left = [one for one in self.wealth if one not in self.rejected]
                target = max(left, key=lambda one: sum(map(self.mean, one)))
        return target, order

    def open(self, counts: dict[int, int]) -> None:
        """Open a block with these pulls, and freeze its bets."""
        if not self.blocks:
            self.blocks.append(Block(counts, frozenset(), []))
            return
        target, order = self.next_target()
        block = Block(counts, target, order)
        self.blocks.append(block)
        issued = self.outside + sum(sum(one.counts.values()) for one in self.blocks)
        ahead = (self.max_pulls - issued) / sum(counts.values())
        outside = [arm for arm in order if arm not in target]
        worst = [arm for arm in order if arm in target][-1]
        block.runner_up = (outside[0], worst)
        for pair in itertools.product(outside, sorted(target)):
            block.bets[pair] = self.bet(counts, pair, self.lacking(target, pair), ahead)
        lacking = self.lacking_on_target(target, outside[0], worst)
        block.on_target = self.bet(counts, (worst, outside[0]), lacking, ahead)

    def lacking(self, target: frozenset[int], pair: Pair) -> float:
        """Return what the evidence against the set with j instead of b lacks."""
        key: Any = pair if self.tolerance else target - {pair[1]} | {pair[0]}
        won = self.pairs[pair] if self.tolerance else self.wealth[key]
        return -1.0 if key in self.rejected else self.threshold - won

    def lacking_on_target(self, target: frozenset[int], best: int, worst: int) -> float:
        if self.tolerance:
            return self.lacking(target, (worst, best))
        return -1.0 if target in self.rejected else self.threshold - self.wealth[target]

    def bet(self, counts: dict[int, int], pair: Pair, lacking: float, ahead: float) -> Any:
        """Return the bet that arm b is better than arm j by more than minus the tolerance."""
        j, b = pair
        if lacking <= 0 or not (counts.get(j) and counts.get(b)):
            return None
        means = {arm: self.mean(arm) for arm in pair}
        variances = {arm: self.variance(arm) for arm in pair}
        numbers = {arm: float(len(self.told[arm])) for arm in pair}
        end = End(lacking, ahead)
        if self.bounds is not None:
            per_pull = {b: 1 / counts[b], j: -1 / counts[j]}
            weights = {arm: counts[arm] / variances[arm] for arm in pair}
            low, high = self.bounds
            middle = weights[b] * means[b] + weights[j] * (means[j] - self.tolerance)
            centre = min(max(middle / (weights[b] + weights[j]), low), high)
            centres = {b: centre, j: min(max(centre + self.tolerance, low), high)}
            known = counts, per_pull, centres, self.tolerance, means, variances, numbers
            return bounded_bet(*known, low, high, end)
        sd = math.sqrt(sum(variances[arm] / numbers[arm] for arm in pair))
        m = (means[b] - means[j] + self.tolerance) / sd
        aim = end.aim(m, sd**2 / sum(variances[arm] / counts[arm] for arm in pair))
        return GaussianBet({b: 1.0, j: -1.0}, self.tolerance, m, sd, variances, aim)

    # ------------------------------------------------------------------------- settling

    def settle(self) -> None:
        while self.paid < len(self.blocks) and self.blocks[self.paid].is_complete():
            if self.paid and not self.answer():
                self.pay(self.blocks[self.paid])
            self.paid += 1

    def pay(self, block: Block) -> None:
        if self.last is None or self.last.target != block.target:
            self.last = block
        assert block.runner_up is not None
        best, worst = block.runner_up
        is_settled = self.lacking(block.target, block.runner_up) < 0
        gains = {pair: self.gain(block, bet) for pair, bet in block.bets.items()}
        on_target = 0.0 if is_settled else self.gain(block, block.on_target)
        if self.tolerance:
            for pair, gain in gains.items():
                self.pairs[pair] += gain
            self.pairs[worst, best] += on_target
            self.rejected |= {pair for pair, won in self.pairs.items() if won >= self.threshold}
            return
        rank = self.last.order.index
        for one in self.wealth:
            if one == block.target:
                self.wealth[one] += on_target
            elif one not in self.rejected:
                # The clearest case: the worst that joins, and the best that leaves.
                self.wealth[one] += gains[
                    max(one - block.target, key=rank), min(block.target - one, key=rank)
                ]
        self.rejected |= {one for one, won in self.wealth.items() if won >= self.threshold}

    def gain(self, block: Block, bet: Any) -> float:
        if bet is None:
            return 0.0
        found = {}
        for arm, weight in bet.coefficients.items():
            found[arm] = list(block.outcomes.get(arm, ()))
            if self.bounds is not None:
                worst = self.bounds[0] if weight > 0 else self.bounds[1]
                found[arm] += [worst] * block.lost.get(arm, 0)
        return float(bet.log_wealth(found))

    def answer(self) -> frozenset[int] | None:
        """Return the answer, if there is one."""
        if self.last is None:
            return None
        target = self.last.target
        if self.tolerance:
            outside = [arm for arm in self.arms if arm not in target]
            pairs = set(itertools.product(outside, target))
            return target if pairs <= self.rejected else None
        left = [one for one in self.wealth if one not in self.rejected]
        if len(left) > 1:
            return None
        return left[0] if left else target
