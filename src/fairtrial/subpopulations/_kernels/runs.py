"""Entry points for policies: one choice, one reward, one loss, or a whole simulated run.

Live and simulated decisions use the same functions. All data is packed into a few arrays, because
passing an array to compiled code costs more than most decisions.
"""

import numpy as np

from fairtrial.confidence.noise_kernels import record_as_told, replace_numbered
from fairtrial.core.compilation import kernel
from fairtrial.core.draw_kernels import draw
from fairtrial.core.draws import Source
from fairtrial.subpopulations._kernels.evidence import evidence_for, is_certain
from fairtrial.subpopulations._kernels.indices import ANY_GROUP
from fairtrial.subpopulations._kernels.model import Floats, Integers, Model, in_units
from fairtrial.subpopulations._kernels.recording import correct, is_ready, record
from fairtrial.subpopulations._kernels.sampling import Words, choose
from fairtrial.subpopulations._kernels.tracker_state import (
    UNKNOWN,
    Rules,
    State,
    opened,
)


@kernel
def ask_tracker(
    packed: Floats, floats: Floats, integers: Integers, key: Words, group: int, number: int
) -> int:
    """Return the next cell, chosen by `choose`."""
    (model, rules), state = opened((packed, floats, integers))
    return choose(model, rules, state, key, group, number)


@kernel
def tell_tracker(
    packed: Floats,
    floats: Floats,
    integers: Integers,
    cell: int,
    reward: float,
    solicited: bool,
    number: int,
) -> bool:
    """Record a reward in a tracker; return whether it may stop with its current answer."""
    (model, rules), state = opened((packed, floats, integers))
    return _take_reward(model, rules, state, cell, reward, solicited, number)


@kernel(forceinline=True)
def _take_reward(
    model: Model, rules: Rules, state: State, cell: int, reward: float, solicited: bool, number: int
) -> bool:
    if state.noise.size:
        record_as_told(state.noise, cell, float(number), in_units(model, cell, reward))
    record(model, rules, state, cell, reward, solicited)
    return is_ready(model, state, rules.initial_pulls) and is_certain(model, rules, state)


@kernel
def correct_in_tracker(
    packed: Floats,
    floats: Floats,
    integers: Integers,
    cell: int,
    old: float,
    new: float,
    number: int,
) -> None:
    """Replace a reward that a tracker has recorded."""
    (model, rules), state = opened((packed, floats, integers))
    if state.noise.size:
        before, after = in_units(model, cell, old), in_units(model, cell, new)
        replace_numbered(state.noise, cell, float(number), before, after)
    correct(model, rules, state, cell, old, new)


@kernel
def tracker_evidence(packed: Floats, floats: Floats, integers: Integers) -> float:
    """Return the evidence for a tracker's answer; NaN before every cell has a reward."""
    (model, rules), state = opened((packed, floats, integers))
    if state.best[0] == UNKNOWN or not is_ready(model, state, 1.0):
        return np.nan
    return evidence_for(model, rules, state, -np.inf)


@kernel
def run_tracker(
    packed: Floats,
    floats: Floats,
    integers: Integers,
    key: Words,
    source: Source,
    sign: float,
    generator: np.random.Generator,
    max_pulls: int,
) -> bool:
    """Run a rule until its stop or `max_pulls`; return whether its test stopped it."""
    (model, rules), state = opened((packed, floats, integers))
    for number in range(max_pulls):
        cell = choose(model, rules, state, key, ANY_GROUP, number)
        reward = sign * draw(
            source.kind, source.first, source.second, source.starts, cell, generator
        )
        if _take_reward(model, rules, state, cell, reward, True, number):
            return True
    return False
