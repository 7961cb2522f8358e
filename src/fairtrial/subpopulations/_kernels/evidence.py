"""Stopping tests of the rules that pull one at a time: stylised, certified, Kaufmann-Koolen."""

import math

import numpy as np

from fairtrial.confidence.special_kernels import (
    iterated_logarithm_penalty,
    mixture_cell_log_evalue_mean,
    mixture_penalty,
    stylised_threshold,
)
from fairtrial.core.arithmetic import square, sum_of
from fairtrial.core.compilation import apart, kernel
from fairtrial.subpopulations._kernels.indices import (
    ITERATED_LOGARITHM,
    STYLISED,
    STYLISED_WITHOUT_HALF,
)
from fairtrial.subpopulations._kernels.model import Model
from fairtrial.subpopulations._kernels.pitfalls import (
    NONE,
    alternative_of,
    is_limited,
    margin,
    pair_value,
)
from fairtrial.subpopulations._kernels.tracker_state import Rules, State

LOG_2 = math.log(2.0)
"""Largest excess of a proven test's evidence over half the weakest pitfall."""


@apart
def evidence_for(model: Model, rules: Rules, state: State, enough: float) -> float:
    """Return the evidence for the best answer, in nats; at `rules.level` the answer may be given.

    For the heuristics this is Z (or 2Z), half the weakest pitfall, to be compared with the
    heuristic's threshold. For the proven rules it is the weakest of all tests that must pass; the
    first one below `enough` is returned at once.
    """
    best = state.best[0]
    half_weakest = 0.5 * state.pitfalls[state.weakest[0]]
    if rules.test == STYLISED:
        return half_weakest
    if rules.test == STYLISED_WITHOUT_HALF:
        return 2.0 * half_weakest
    if half_weakest + LOG_2 < enough:
        return half_weakest + LOG_2
    weakest = math.inf
    for cell in range(model.weights.size):
        if best != NONE and is_limited(model.own_limits, best, cell):
            # The evidence grows with the distance, so the nearer limit has the least.
            distance = margin(state.means[best, cell], model.own_limits, best, cell)
            weakest = min(weakest, _cell_evidence(rules, state, best, cell, distance))
            if weakest < enough:
                return weakest
    for k in range(state.means.shape[0]):
        if k == best:
            continue
        found = _limit_evidence(model, rules, state, k)
        if found < rules.level and best != NONE:
            found = max(found, _pair_evidence(model, rules, state, k))
        weakest = min(weakest, found)
        if weakest < enough:
            return weakest
    return weakest


@kernel(forceinline=True)
def is_certain(model: Model, rules: Rules, state: State) -> bool:
    """Return whether the best answer may be given."""
    half_weakest = 0.5 * state.pitfalls[state.weakest[0]]
    if rules.test in (STYLISED, STYLISED_WITHOUT_HALF):
        found = half_weakest if rules.test == STYLISED else 2.0 * half_weakest
        return found > float(stylised_threshold(sum_of(state.counts), rules.delta))
    # No proven test passes before this cheap condition holds.
    if half_weakest + LOG_2 < rules.level:
        return False
    return evidence_for(model, rules, state, rules.level) >= rules.level


@kernel
def _limit_evidence(model: Model, rules: Rules, state: State, k: int) -> float:
    """Return the evidence that arm k fails one of its limits."""
    strongest = -math.inf
    for cell in range(model.weights.size):
        distance = -margin(state.means[k, cell], model.rival_limits, k, cell)
        if distance > 0.0:
            strongest = max(strongest, _cell_evidence(rules, state, k, cell, distance))
    return strongest


@kernel
def _cell_evidence(rules: Rules, state: State, k: int, cell: int, distance: float) -> float:
    """Return the evidence that a cell's mean is on its side of a limit at this distance."""
    count = state.counts[k, cell]
    scaled = distance * math.sqrt(state.precisions[k, cell] / count)
    if rules.test == ITERATED_LOGARITHM:
        if distance <= 0.0:
            return -math.inf
        penalty = iterated_logarithm_penalty(count) + rules.prices[0]
        return 0.5 * count * square(scaled) - penalty + rules.level
    return mixture_cell_log_evalue_mean(count, scaled, rules.kappas)


@kernel
def _pair_evidence(model: Model, rules: Rules, state: State, k: int) -> float:
    """Return the evidence that k, feasible or not, is not a better answer than the best."""
    best = state.best[0]
    cells = 0
    for role in range(2):
        for cell in range(model.weights.size):
            cells += _takes_part(model, role, best if role == 0 else k, cell)
    if rules.test == ITERATED_LOGARITHM:
        found = _iterated_logarithm_pair(model, state, k)
        return found - cells * rules.prices[cells] + rules.level
    return _mixture_pair(model, rules, state, k) - rules.prices[cells]


@kernel
def _iterated_logarithm_pair(model: Model, state: State, k: int) -> float:
    """Return half the pitfall of a pair, minus the cost of its cells' counts."""
    best = state.best[0]
    lam = np.empty((1, 2, model.weights.size))
    value, _ = pair_value(best, k, state.means, state.precisions, alternative_of(model), lam, 0)
    penalty = 0.0
    for role in range(2):
        arm = best if role == 0 else k
        for cell in range(model.weights.size):
            if _takes_part(model, role, arm, cell):
                penalty += iterated_logarithm_penalty(state.counts[arm, cell])
    return 0.5 * value - penalty


@kernel
def _mixture_pair(model: Model, rules: Rules, state: State, k: int) -> float:
    """Return half the pitfall at shrunk precisions, minus its price, for the best prior count."""
    best = state.best[0]
    lam = np.empty((1, 2, model.weights.size))
    shrunk = np.empty(state.precisions.shape)
    strongest = -math.inf
    for kappa in rules.kappas:
        penalty = math.log(rules.kappas.size)
        for role in range(2):
            arm = best if role == 0 else k
            for cell in range(model.weights.size):
                count = state.counts[arm, cell]
                shrunk[arm, cell] = state.precisions[arm, cell] * count / (count + kappa)
                if _takes_part(model, role, arm, cell):
                    penalty += mixture_penalty(count, kappa)
        value, _ = pair_value(best, k, state.means, shrunk, alternative_of(model), lam, 0)
        strongest = max(strongest, 0.5 * value - penalty)
    return strongest


@kernel
def _takes_part(model: Model, role: int, arm: int, cell: int) -> bool:
    """Return whether a cell can matter in a pair test; cells that cannot cost nothing."""
    return model.weights[cell] > 0.0 or (role == 1 and is_limited(model.rival_limits, arm, cell))
