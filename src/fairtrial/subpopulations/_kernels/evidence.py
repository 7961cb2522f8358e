"""Stopping tests of the one-draw-at-a-time rules: stylised, certified, Kaufmann-Koolen."""

import math

import numpy as np

from fairtrial.confidence._special import (
    iterated_logarithm_penalty,
    mixture_cell_log_evalue_mean,
    mixture_penalty,
    stylised_threshold,
)
from fairtrial.core.compilation import kernel
from fairtrial.subpopulations._kernels.indices import (
    ITERATED_LOGARITHM,
    STYLISED,
    STYLISED_WITHOUT_HALF,
)
from fairtrial.subpopulations._kernels.model import Floats, Model, total
from fairtrial.subpopulations._kernels.pitfalls import NONE, is_limited, margin, pair_value


@kernel
def evidence_for(
    kind: int,
    best: int,
    half_weakest: float,
    counts: Floats,
    means: Floats,
    precisions: Floats,
    model: Model,
    level: float,
    kappas: Floats,
    constants: Floats,
    enough: float,
) -> float:
    """Return the evidence for the answer `best`, in nats; it may be given at `level` or above.

    For the heuristics this is Z (or 2Z), to be held against the heuristic's threshold. For
    the proven rules it is the weakest of all the tests that must pass; as soon as one is
    below `enough` that one is returned.

    `half_weakest` is Z, half the weakest pitfall. `level` is ln(1 / delta'). `kappas`:
    prior counts of the mixture. `constants`: C(x / m) for m = 1 .. 2L cells, and C(x) in
    entry 0, for Kaufmann-Koolen; what a pair test of m cells needs beyond `level`, for the
    mixture.
    """
    if kind == STYLISED:
        return half_weakest
    if kind == STYLISED_WITHOUT_HALF:
        return 2.0 * half_weakest
    # No proven test passes before this; it costs nothing to look.
    if half_weakest + math.log(2.0) < enough:
        return half_weakest + math.log(2.0)
    weakest = math.inf
    for cell in range(means.shape[1]):
        if best != NONE and is_limited(model.own_limits, best, cell):
            # The evidence grows with the distance: the nearer limit has the least.
            distance = margin(means[best, cell], model.own_limits, best, cell)
            found = _cell_evidence(
                kind, counts[best, cell], precisions[best, cell], distance, level, kappas, constants
            )
            weakest = min(weakest, found)
            if weakest < enough:
                return weakest
    for k in range(means.shape[0]):
        if k == best:
            continue
        found = _limit_evidence(kind, k, counts, means, precisions, model, level, kappas, constants)
        if found < level and best != NONE:
            pair = _pair_evidence(
                kind, best, k, counts, means, precisions, model, level, kappas, constants
            )
            found = max(found, pair)
        weakest = min(weakest, found)
        if weakest < enough:
            return weakest
    return weakest


@kernel
def is_certain(
    kind: int,
    best: int,
    half_weakest: float,
    counts: Floats,
    means: Floats,
    precisions: Floats,
    model: Model,
    delta: float,
    level: float,
    kappas: Floats,
    constants: Floats,
) -> bool:
    """Return whether the answer `best` may be given."""
    found = evidence_for(
        kind, best, half_weakest, counts, means, precisions, model, level, kappas, constants, level
    )
    if kind in (STYLISED, STYLISED_WITHOUT_HALF):
        return found > float(stylised_threshold(total(counts), delta))
    return found >= level


@kernel
def _limit_evidence(
    kind: int,
    k: int,
    counts: Floats,
    means: Floats,
    precisions: Floats,
    model: Model,
    level: float,
    kappas: Floats,
    constants: Floats,
) -> float:
    """Return the evidence that arm k fails one of its limits."""
    strongest = -math.inf
    for cell in range(means.shape[1]):
        distance = -margin(means[k, cell], model.rival_limits, k, cell)
        if distance > 0.0:
            found = _cell_evidence(
                kind, counts[k, cell], precisions[k, cell], distance, level, kappas, constants
            )
            strongest = max(strongest, found)
    return strongest


@kernel
def _cell_evidence(
    kind: int,
    count: float,
    precision: float,
    distance: float,
    level: float,
    kappas: Floats,
    constants: Floats,
) -> float:
    scaled = distance * math.sqrt(precision / count)
    if kind == ITERATED_LOGARITHM:
        if distance <= 0.0:
            return -math.inf
        penalty = iterated_logarithm_penalty(count) + constants[0]
        return 0.5 * count * scaled**2 - penalty + level
    return mixture_cell_log_evalue_mean(count, scaled, kappas)


@kernel
def _pair_evidence(
    kind: int,
    best: int,
    k: int,
    counts: Floats,
    means: Floats,
    precisions: Floats,
    model: Model,
    level: float,
    kappas: Floats,
    constants: Floats,
) -> float:
    """Return the evidence that k, feasible or not, is no better answer than `best`."""
    cells = 0
    for role in range(2):
        for cell in range(means.shape[1]):
            cells += _takes_part(model, role, best if role == 0 else k, cell)
    if kind == ITERATED_LOGARITHM:
        found = _iterated_logarithm_pair(best, k, counts, means, precisions, model)
        return found - cells * constants[cells] + level
    return _mixture_pair(best, k, counts, means, precisions, model, kappas) - constants[cells]


@kernel
def _iterated_logarithm_pair(
    best: int, k: int, counts: Floats, means: Floats, precisions: Floats, model: Model
) -> float:
    """Return half the pitfall of a pair, less what the counts of its cells cost."""
    lam = np.empty((1, 2, means.shape[1]))
    value, _ = pair_value(
        best, k, means, precisions, best, k,
        model.weights, model.rival_limits, model.tolerance, lam, 0,
    )  # fmt: skip
    penalty = 0.0
    for role in range(2):
        arm = best if role == 0 else k
        for cell in range(means.shape[1]):
            if _takes_part(model, role, arm, cell):
                penalty += iterated_logarithm_penalty(counts[arm, cell])
    return 0.5 * value - penalty


@kernel
def _mixture_pair(
    best: int,
    k: int,
    counts: Floats,
    means: Floats,
    precisions: Floats,
    model: Model,
    kappas: Floats,
) -> float:
    """Return half the pitfall at shrunk precisions, less its price, for the best prior count."""
    lam = np.empty((1, 2, means.shape[1]))
    shrunk = np.empty((2, means.shape[1]))
    strongest = -math.inf
    for j in range(kappas.size):
        penalty = math.log(kappas.size)
        for role in range(2):
            arm = best if role == 0 else k
            for cell in range(means.shape[1]):
                count = counts[arm, cell]
                shrunk[role, cell] = precisions[arm, cell] * count / (count + kappas[j])
                if _takes_part(model, role, arm, cell):
                    penalty += mixture_penalty(count, kappas[j])
        value, _ = pair_value(
            best, k, means, shrunk, 0, 1, model.weights, model.rival_limits, model.tolerance, lam, 0
        )
        strongest = max(strongest, 0.5 * value - penalty)
    return strongest


@kernel
def _takes_part(model: Model, role: int, arm: int, cell: int) -> bool:
    """Whether a cell can matter in a pair test; those that cannot cost nothing."""
    return model.weights[cell] > 0.0 or (role == 1 and is_limited(model.rival_limits, arm, cell))
