"""Bets for a planned end, slow and obvious, written from the mathematics alone."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from scipy.integrate import quad
from scipy.optimize import brentq


def upper_tail(x: float) -> float:
    """Return the probability that a standard normal number exceeds x."""
    return 0.5 * math.erfc(x / math.sqrt(2))


@dataclass
class End:
    """What the ledger of a bet lacks, and the later draws of the experiment per draw of a block."""

    need: float
    ahead: float

    def aim(self, m: float, f: float) -> float | None:
        """Return the effect with which the ledger just gets what it needs, if m is no larger."""
        effect = math.sqrt(2.0 * self.need / (f + f * self.ahead))
        return effect if m <= effect else None

    def log_conditional_error(self, f: float, later: float, score: float) -> float:
        """Return by how much a block changes the chance to cross a level by the end, as a log."""
        need = self.need + 1e-6  # a little more than is needed, for rounding
        if need > 650:
            return 0.0  # hopeless: nothing is bet
        alpha = math.exp(-need)
        if later == 0:
            return need if upper_tail(score / math.sqrt(f)) <= alpha else -700.0

        def crosses(distance: float) -> float:
            return 2 * upper_tail(distance / math.sqrt(later)) if distance > 0 else 1.0

        def chance(level: float) -> float:
            sd, peak = math.sqrt(f), level * f / (f + later)
            ends = sorted({min(0.0, peak) - 12 * sd, min(0.0, level), min(peak, level), level})
            inner = math.fsum(
                quad(
                    lambda x: (
                        crosses(level - x)
                        * math.exp(-0.5 * (x / sd) ** 2)
                        / (sd * math.sqrt(2 * math.pi))
                    ),
                    *pair,
                    epsabs=0,
                    epsrel=1e-9,
                )[0]
                for pair in itertools.pairwise(ends)
            )
            return inner + upper_tail(level / sd)

        level = brentq(
            lambda b: math.log(chance(b) / alpha),
            -8 * math.sqrt(f),
            36 * math.sqrt(f + later),
            xtol=1e-11,
        )
        paid = crosses(level - score)
        return max(-700.0, math.log(paid) + need) if paid > 0 else -700.0
