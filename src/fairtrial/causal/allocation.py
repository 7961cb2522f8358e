"""The allocation programme: shares of rows that maximise information on the least-known arm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from fairtrial.causal._cell_model import cell_model_of
from fairtrial.causal._gaps import is_empty
from fairtrial.causal.divergences import divergences
from fairtrial.causal.errors import NoInformation
from fairtrial.causal.problem import Problem
from fairtrial.core.keywords import named_arguments
from fairtrial.core.parameters import plain
from fairtrial.core.validation import check_instance, index_of
from fairtrial.core.warning import warn_caller
from fairtrial.errors import InvalidArgument, NotSupported

__all__ = ["Allocation", "allocate"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MOST_PAIRS = 12
_TOLERANCE = 1e-10


@dataclass(frozen=True)
class Allocation:
    """Shares of rows by action, and what they achieve.

    Parameters
    ----------
    value : float
        The smallest information per row on the means and gaps of all live arms; 0 if no possible
        row is informative about some arm.
    shares : ndarray of shape (K, modes)
        Share of rows by arm and mode, natural first; they add up to 1.
    cost : float
        Mean cost of a row.
    uninformed : tuple of str
        Live arms about which no row is informative.

    Examples
    --------
    >>> from fairtrial.causal import chain
    >>> problem, environment = chain(0.5, {"a": [[0.5, 0.5], [0.5, 0.5]]}, [0.1, 0.9], 0.2)
    >>> allocate(problem).shares.round(3)
    array([[0.419, 0.29 , 0.29 ]])
    """

    value: float
    shares: Floats
    cost: float
    uninformed: tuple[str, ...] = ()

    @property
    def natural(self) -> Floats:
        """Share of natural rows by arm, shape (K,)."""
        return self.shares[:, 0]

    @property
    def forced(self) -> Floats:
        """Share of forced rows by arm and value, shape (K, values)."""
        return self.shares[:, 1:]

    def to_dict(self) -> dict[str, Any]:
        """Return the allocation as JSON's own types."""
        return {
            "value": self.value,
            "shares": plain(self.shares),
            "cost": self.cost,
            "uninformed": list(self.uninformed),
        }


@dataclass(frozen=True)
class Wanted:
    """The purpose of a programme's rows.

    `pairs` are the positions of the pairs of values whose gaps have to be estimated. With
    `pool_natural`, natural rows count for the gap as well, according to the share of rows with the
    right value.
    """

    outcome: bool = True
    pairs: tuple[int, ...] = ()
    pool_natural: bool = False


@named_arguments
def allocate(
    problem: Problem, live: Sequence[str] | None = None, pool_natural: bool = False
) -> Allocation:
    """Return the shares that maximise the least information on any live arm.

    Rows of all arms can be drawn, but only live arms have to be estimated. Several shares can be
    equally good: compare their `value`.

    Parameters
    ----------
    problem : Problem
        The problem, with its costs and mean budget.
    live : sequence of str, optional
        Labels of the arms to estimate; all by default.
    pool_natural : bool
        Count natural rows for the gaps, too; without forcing, there are only natural rows.

    Raises
    ------
    ModelError
        If the divergences cannot be computed from the model.
    NotSupported
        If the sensitive attribute has more than four values; use `PlugIn` then.

    Warns
    -----
    NoInformation
        If no possible row is informative about some live arm; that arm is left out.

    Notes
    -----
    Source: Gao and Feng, section 4, the programme for A, B and C. Its matrices hold the reciprocals
    of the divergences used here, for which large values are bad. Solved by HiGHS.

    Examples
    --------
    >>> from fairtrial.causal import chain
    >>> arms = {"a": [[0.5, 0.5], [0.4, 0.6]], "b": [[0.2, 0.8], [0.1, 0.9]]}
    >>> problem, environment = chain(0.4, arms, [0.1, 0.9], fairness_bound=0.2)
    >>> best = allocate(problem)
    >>> round(best.value, 4), round(float(best.shares.sum()), 6)
    (0.3277, 1.0)
    """
    labels = check_instance("problem", problem, Problem).arm_labels
    chosen = labels if live is None else live
    mask = np.zeros(problem.n_arms, dtype=bool)
    mask[[index_of("live", arm, labels) for arm in chosen]] = True
    if not mask.any():
        raise InvalidArgument("live", "must name at least one arm", live)
    pooled = pool_natural or problem.forcing == "never"
    wanted = Wanted(True, tuple(range(len(problem.value_pairs))), pooled)
    return solve(problem, mask, wanted)


def solve(problem: Problem, live: NDArray[np.bool_], wanted: Wanted) -> Allocation:
    """Return the allocation for the arms of a mask; results are cached."""
    key = ("allocation", live.tobytes(), wanted)
    if key not in problem.cache:
        problem.cache[key] = _solve(problem, live, wanted)
    found: Allocation = problem.cache[key]
    if found.uninformed:
        warn_caller(NoInformation(found.uninformed))
    return found


def _solve(problem: Problem, live: NDArray[np.bool_], wanted: Wanted) -> Allocation:
    if len(wanted.pairs) > MOST_PAIRS:
        raise NotSupported(
            f"{len(wanted.pairs)} pairs of sensitive values are more than {MOST_PAIRS}: "
            "use PlugIn, which needs no allocation by pair"
        )
    used = _usable(problem, wanted)
    rows, owner = _information_rows(problem, live, wanted)
    rows[:, ~used] = 0.0
    known = rows.max(axis=1, initial=0.0) > 0.0
    lost = sorted(set(owner[~known].tolist()))
    uninformed = tuple(problem.arm_labels[arm] for arm in lost)
    shares, value = _linear_programme(problem, rows[known][:, used], used)
    cost = float(shares[used] @ problem.row_costs.ravel()[used])
    if uninformed:
        value = 0.0
    table = shares.reshape(problem.row_costs.shape)
    table.setflags(write=False)
    return Allocation(value, table, cost, uninformed)


def _usable(problem: Problem, wanted: Wanted) -> NDArray[np.bool_]:
    """Return which actions, shape (K * modes,), can be drawn and are informative."""
    serves = np.zeros(len(problem.modes), dtype=bool)
    serves[0] = wanted.outcome or wanted.pool_natural
    for pair in wanted.pairs if problem.forcing == "allowed" else ():
        serves[1 + observed_value(problem, pair)] = True
    used: NDArray[np.bool_] = (np.isfinite(problem.row_costs) & serves).ravel()
    return used


def observed_value(problem: Problem, pair: int) -> int:
    """Return the position of the value whose rows are informative about a pair's gap."""
    return problem.values.index(problem.value_pairs[pair][1])


def _information_rows(
    problem: Problem, live: NDArray[np.bool_], wanted: Wanted
) -> tuple[Floats, Integers]:
    """Return the information of each action's rows, one line per quantity, and each line's arm."""
    known = divergences(problem)
    arms = np.flatnonzero(live)
    shape = (len(arms), problem.n_arms, len(problem.modes))
    blocks = []
    if wanted.outcome:
        block = np.zeros(shape)
        block[:, :, 0] = known.outcome_information[arms]
        blocks.append(block)
    for pair in wanted.pairs:
        value = observed_value(problem, pair)
        if is_empty(problem, value):
            continue
        block = np.zeros(shape)
        if problem.forcing == "allowed":
            block[:, :, 1 + value] = known.gap_information[pair][arms]
        if wanted.pool_natural:
            shares = cell_model_of(problem).shares
            assert shares is not None
            block[:, :, 0] = shares[value] * known.gap_information[pair][arms]
        blocks.append(block)
    rows = np.concatenate(blocks).reshape(-1, problem.n_actions)
    return rows, np.tile(arms, len(blocks))


def _linear_programme(
    problem: Problem, rows: Floats, used: NDArray[np.bool_]
) -> tuple[Floats, float]:
    """Return shares by action, and the smallest information over all lines of `rows`."""
    costs = problem.row_costs.ravel()[used]
    shares = np.zeros(problem.n_actions)
    if not len(rows):
        shares[np.flatnonzero(used)[np.argmin(costs)]] = 1.0
        return shares, 0.0
    # In units of the weakest line's best action, the solver's tolerances are relative.
    unit = float(rows.max(axis=1).min())
    lines = np.column_stack([-rows / unit, np.ones(len(rows))])
    limits = np.zeros(len(rows))
    budget = math.inf if problem.mean_budget is None else float(problem.mean_budget)
    if math.isfinite(budget) and costs.max() > 0:
        scale = max(budget, float(costs.max()))
        lines = np.vstack([lines, np.append(costs / scale, 0.0)])
        limits = np.append(limits, budget / scale)
    n = len(costs)
    result = scipy.optimize.linprog(
        np.append(np.zeros(n), -1.0),
        A_ub=lines,
        b_ub=limits,
        A_eq=np.append(np.ones(n), 0.0)[None, :],
        b_eq=[1.0],
        bounds=[(0.0, None)] * (n + 1),
        method="highs",
        options={
            "primal_feasibility_tolerance": _TOLERANCE,
            "dual_feasibility_tolerance": _TOLERANCE,
        },
    )
    if result.x is None:
        raise InvalidArgument(
            "mean_budget", "must allow rows of some action that serves", problem.mean_budget
        )
    found = np.maximum(result.x[:n], 0.0)
    shares[used] = found / found.sum()
    return shares, float((rows @ shares[used]).min())


def whole_rows(shares: Floats, costs: Floats, number: int, allowance: float = math.inf) -> Integers:
    """Return integer numbers of rows that sum to `number`, close to the given shares.

    Shares are rounded down. The actions with the largest remainders get one more row, if the
    allowance can still pay for the rest. The remaining rows go to the cheapest action with a share.
    """
    exact = shares * number
    counts = np.floor(exact + 1e-9).astype(np.int64)
    left = number - int(counts.sum())
    priced = np.where(np.isfinite(costs), costs, 0.0)
    spent = float(counts @ priced)
    candidates = np.flatnonzero(shares > 0)
    cheapest = candidates[np.argmin(priced[candidates])]
    for action in np.argsort(-(exact - counts), kind="stable"):
        if left == 0:
            break
        others = (left - 1) * priced[cheapest]
        if shares[action] > 0 and spent + priced[action] + others <= allowance:
            counts[action] += 1
            spent += priced[action]
            left -= 1
    counts[cheapest] += left
    return counts
