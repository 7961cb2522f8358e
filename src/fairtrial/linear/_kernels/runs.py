"""Entry points for policies: one choice, one reward, one loss, or a whole simulated run.

Live and simulated decisions use the same functions. All data is packed into a few arrays, because
passing an array to compiled code costs more than most decisions.
"""

import math

import numpy as np

from fairtrial.core.arithmetic import square
from fairtrial.core.compilation import kernel
from fairtrial.core.draw_kernels import draw
from fairtrial.core.draws import Source
from fairtrial.linear._kernels.choosing import choose, skip_ahead
from fairtrial.linear._kernels.estimates import give_up, issue
from fairtrial.linear._kernels.matrices import Floats, Integers
from fairtrial.linear._kernels.recording import (
    correct,
    is_over,
    record,
    record_blocks,
    start_track,
)
from fairtrial.linear._kernels.stopping import mark_live, next_look
from fairtrial.linear._kernels.track import SHARES, TOLD, opened


@kernel
def start_tracker(packed: Floats, floats: Floats, integers: Integers) -> None:
    """Give an answer that needs no data at once."""
    (model, test), track = opened((packed, floats, integers))
    start_track(model, test, track)


@kernel
def ask_tracker(packed: Floats, floats: Floats, integers: Integers, rule: int) -> int:
    """Return the next arm and count it as in flight."""
    (model, test), track = opened((packed, floats, integers))
    arm = choose(model, test, rule, track)
    issue(model, track, arm)
    return arm


@kernel
def tell_tracker(
    packed: Floats,
    floats: Floats,
    integers: Integers,
    rule: int,
    arm: int,
    reward: float,
    in_flight: bool,
) -> None:
    """Record a reward in a tracker."""
    (model, test), track = opened((packed, floats, integers))
    record(model, test, rule, track, arm, reward, in_flight)


@kernel
def lose_in_tracker(packed: Floats, floats: Floats, integers: Integers, arm: int) -> None:
    """Record the loss of a pull in a tracker."""
    (model, test), track = opened((packed, floats, integers))
    give_up(model, test, track, arm)


@kernel
def correct_in_tracker(
    packed: Floats, floats: Floats, integers: Integers, rule: int, arm: int, old: float, new: float
) -> None:
    """Replace a reward that a tracker has recorded."""
    (model, test), track = opened((packed, floats, integers))
    correct(model, test, rule, track, arm, old, new)


@kernel
def run_tracker(
    packed: Floats,
    floats: Floats,
    integers: Integers,
    rule: int,
    source: Source,
    factors: Floats,
    generator: np.random.Generator,
    most: int,
) -> None:
    """Run a rule until its test stops it or there are `most` results."""
    (model, test), track = opened((packed, floats, integers))
    while track.control[TOLD] < most and not is_over(track):
        arm = choose(model, test, rule, track)
        reward = factors[arm] * draw(
            source.kind, source.first, source.second, source.starts, arm, generator
        )
        record(model, test, rule, track, arm, reward, False)


@kernel
def live_in_tracker(packed: Floats, floats: Floats, integers: Integers, live: Integers) -> None:
    """Mark the candidates that at least one leader does not beat yet."""
    (model, test), track = opened((packed, floats, integers))
    mark_live(model, test, track, live)


@kernel
def run_static_blocks(
    packed: Floats,
    floats: Floats,
    integers: Integers,
    means: Floats,
    stds: Floats,
    factors: Floats,
    generator: np.random.Generator,
    most: int,
) -> None:
    """Run fixed shares with Gaussian rewards, with one draw per arm for all pulls between looks."""
    (model, test), track = opened((packed, floats, integers))
    arms = track.counts.size
    draws = np.empty(arms)
    sums = np.empty(arms)
    squares = np.empty(arms)
    while track.control[TOLD] < most and not is_over(track):
        look = min(next_look(track), most)
        for k in range(arms):
            draws[k] = 0.0
        skip_ahead(model, test, track, look, draws)
        while track.control[TOLD] < look:
            arm = choose(model, test, SHARES, track)
            track.counts[arm] += 1.0
            track.control[TOLD] += 1
            draws[arm] += 1.0
        for k in range(arms):
            sums[k] = 0.0
            squares[k] = 0.0
            if draws[k] > 0.0:
                noise = math.sqrt(draws[k]) * stds[k] * generator.standard_normal()
                sums[k] = factors[k] * (draws[k] * means[k] + noise)
                squares[k] = square(sums[k]) / draws[k]
                if draws[k] > 1.0 and test.estimated:
                    spread = square(factors[k] * stds[k])
                    squares[k] += spread * generator.chisquare(draws[k] - 1.0)
        record_blocks(model, test, track, draws, sums, squares)
