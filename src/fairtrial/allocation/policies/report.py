"""What a policy of the family reports: violations, means and shares."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from fairtrial.allocation._kernels import runs
from fairtrial.allocation.policies.state import AllocationState
from fairtrial.confidence.bounds import NormalMixture
from fairtrial.core.progress_parts import ShareOfPulls
from fairtrial.core.recommendation import Estimate

__all__ = ["estimates", "guaranteed_shares", "leader", "shares", "violations"]

_LEVEL = 0.05
_NAMED_GAPS = 100


def violations(state: AllocationState, issued: int) -> dict[str, float]:
    """Return how well the shares were kept, as documented in `AllocationPolicy.metrics`.

    Parameters
    ----------
    state : AllocationState
        The state.
    issued : int
        Pulls issued in this epoch.
    """
    worst, unit = int(runs.worst(state.words)), state.parts
    gaps = _gaps(state, issued)
    found = {
        "violation": float(Fraction(worst, unit)),
        "floored_violation": float(worst // unit),
        "rounds_in_violation": float(state.control.overdue[0]),
        "forced_share": float(state.control.forced[0]) / max(1, issued),
        "longest_gap": float(max(gaps)),
    }
    if len(gaps) <= _NAMED_GAPS:
        pairs = zip(state.problem.arms, gaps, strict=True)
        found.update({f"longest_gap {arm}": float(gap) for arm, gap in pairs})
    return found


def _gaps(state: AllocationState, issued: int) -> list[int]:
    arms, now = len(state.problem.arms), issued // state.problem.plays
    gaps: list[int] = np.maximum(
        state.nodes.longest_gap[:arms], now - state.nodes.last_round[:arms]
    ).tolist()
    return gaps


def leader(state: AllocationState) -> str | None:
    """Return the arm with the best mean so far; None before the first reward."""
    counts, sums = state.totals()
    known = counts > 0
    if not known.any():
        return None
    means = np.where(known, sums / np.maximum(counts, 1.0), -np.inf)
    return state.problem.arms[int(np.argmax(means))]


def shares(state: AllocationState) -> tuple[Estimate, ...]:
    """Return every arm's share of the rounds, compared with its quota."""
    rounds = max(1, state.rounds)
    rows = zip(state.problem.action_labels, state.pulls.tolist(), state.problem.shares, strict=True)
    return tuple(
        Estimate(labels, pulls=count, mean=count / rounds, lower_limit=float(quota))
        for labels, count, quota in rows
    )


def guaranteed_shares(
    state: AllocationState, behind: Sequence[tuple[str, float]]
) -> tuple[ShareOfPulls, ...]:
    """Return the share of every arm and every group, compared with what is guaranteed.

    Parameters
    ----------
    state : AllocationState
        The state.
    behind : sequence of (str, float)
        By how many pulls each arm is behind.
    """
    rounds, problem = max(1, state.rounds), state.problem
    arms = [
        ShareOfPulls(arm, count, count / rounds, float(quota), float(credit))
        for (arm, credit), count, quota in zip(
            behind, state.pulls.tolist(), problem.shares, strict=True
        )
    ]
    if not problem.groups:
        return tuple(arms)
    nodes = slice(len(problem.arms), None)
    counts, owed = state.nodes.pulls[nodes].tolist(), state.credits(nodes)
    joint = [
        ShareOfPulls(label, count, count / rounds, float(share), float(credit), joint=True)
        for (label, (share, _)), count, credit in zip(
            problem.groups.items(), counts, owed, strict=True
        )
    ]
    return (*arms, *joint)


def estimates(state: AllocationState) -> tuple[Estimate, ...]:
    """Return the mean reward of every arm, with an interval that holds at all times (95 % each)."""
    counts, sums = state.totals()
    low, high = state.problem.reward_range
    radius = NormalMixture().radius(counts, _LEVEL, 0.5 * state.width)
    found = []
    for arm, labels in enumerate(state.problem.action_labels):
        if counts[arm] == 0:
            found.append(Estimate(labels, pulls=0))
            continue
        mean = float(sums[arm] / counts[arm])
        found.append(
            Estimate(
                labels,
                pulls=int(counts[arm]),
                mean=mean,
                lower=max(low, mean - float(radius[arm])),
                upper=min(high, mean + float(radius[arm])),
            )
        )
    return tuple(found)
