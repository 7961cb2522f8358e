"""What policies call: one choice, one reward, one loss, or a whole simulated run.

Live and simulated decisions go through the same functions. Everything comes packed in
few arrays, because passing an array to compiled code costs more than most decisions.
"""

import numpy as np

from fairtrial.confidence.noise_kernels import record_as_told, replace_numbered
from fairtrial.core._draws import draw
from fairtrial.core.compilation import kernel
from fairtrial.subpopulations._kernels.evidence import evidence_for, is_certain
from fairtrial.subpopulations._kernels.indices import (
    ANY_GROUP,
    BEST,
    COUNTS,
    MEANS,
    PRECISIONS,
    UNKNOWN,
    WEAKEST,
)
from fairtrial.subpopulations._kernels.model import Floats, Integers, Model, open_model
from fairtrial.subpopulations._kernels.recording import correct, is_ready, record
from fairtrial.subpopulations._kernels.sampling import choose
from fairtrial.subpopulations._kernels.spread import SETTLED, Records, in_units

# ------------------------------------------------------------ one draw at a time


@kernel
def ask_tracker(
    packed: Floats, state: Floats, scan: Integers, values: Floats, rule: int, group: int,
    start: float, guard: float, shares: Floats, key0: int, key1: int, number: int,
) -> int:  # fmt: skip
    """Return the next cell, as `choose` does."""
    model = open_model(packed)
    return choose(rule, model, state, scan, values, group, start, guard, shares, key0, key1, number)


@kernel
def _take_reward(
    model: Model, state: Floats, scan: Integers, values: Floats,
    cell: int, reward: float, solicited: bool, estimate_noise: bool,
    kind: int, start: float, delta: float, level: float, kappas: Floats, constants: Floats,
) -> bool:  # fmt: skip
    record(model, state, scan, values, cell, reward, solicited, estimate_noise)
    if not is_ready(model, state, start):
        return False
    return is_certain(
        kind, scan[BEST], 0.5 * values[scan[WEAKEST]],
        state[COUNTS], state[MEANS], state[PRECISIONS],
        model, delta, level, kappas, constants,
    )  # fmt: skip


@kernel
def tell_tracker(
    packed: Floats, state: Floats, scan: Integers, values: Floats,
    cell: int, reward: float, solicited: bool, estimate_noise: bool,
    kind: int, start: float, delta: float, level: float, kappas: Floats, constants: Floats,
    number: int, noise: Records,
) -> bool:  # fmt: skip
    """Give a tracker one reward; return whether it may stop with its present answer."""
    model = open_model(packed)
    if noise.size:
        record_as_told(noise[SETTLED], cell, float(number), in_units(model, cell, reward))
    return _take_reward(
        model, state, scan, values, cell, reward, solicited, estimate_noise,
        kind, start, delta, level, kappas, constants,
    )  # fmt: skip


@kernel
def correct_in_tracker(
    packed: Floats, state: Floats, scan: Integers, values: Floats,
    cell: int, old: float, new: float, estimate_noise: bool, number: int, noise: Records,
) -> None:  # fmt: skip
    """Replace a reward that a tracker was told."""
    model = open_model(packed)
    if noise.size:
        before, after = in_units(model, cell, old), in_units(model, cell, new)
        replace_numbered(noise[SETTLED], cell, float(number), before, after)
    correct(model, state, scan, values, cell, old, new, estimate_noise)


@kernel
def tracker_evidence(
    packed: Floats, state: Floats, scan: Integers, values: Floats,
    kind: int, level: float, kappas: Floats, constants: Floats,
) -> float:  # fmt: skip
    """Return the evidence for a tracker's answer, NaN before every cell has a reward."""
    model = open_model(packed)
    if scan[BEST] == UNKNOWN or not is_ready(model, state, 1.0):
        return np.nan
    return evidence_for(
        kind, scan[BEST], 0.5 * values[scan[WEAKEST]],
        state[COUNTS], state[MEANS], state[PRECISIONS],
        model, level, kappas, constants, -np.inf,
    )  # fmt: skip


@kernel
def run_tracker(
    packed: Floats, state: Floats, scan: Integers, values: Floats, estimate_noise: bool,
    kind: int, start: float, delta: float, level: float, kappas: Floats, constants: Floats,
    rule: int, guard: float, shares: Floats, key0: int, key1: int,
    distribution: int, first: Floats, second: Floats, starts: Integers,
    sign: float, generator: np.random.Generator, most: int, noise: Records,
) -> tuple[int, bool]:  # fmt: skip
    """Run a one-draw-at-a-time rule; return (draws, whether its test stopped it)."""
    model = open_model(packed)
    draws = 0
    while draws < most:
        cell = choose(
            rule, model, state, scan, values, ANY_GROUP, start, guard, shares, key0, key1, draws
        )
        reward = sign * draw(distribution, first, second, starts, cell, generator)
        if noise.size:
            record_as_told(noise[SETTLED], cell, float(draws), in_units(model, cell, reward))
        draws += 1
        if _take_reward(
            model, state, scan, values, cell, reward, True, estimate_noise,
            kind, start, delta, level, kappas, constants,
        ):  # fmt: skip
            return draws, True
    return draws, False
