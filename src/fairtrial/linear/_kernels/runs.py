"""What policies call: one choice, one reward, one loss, or a whole simulated run.

Live and simulated decisions go through the same functions. Everything comes packed in
few arrays, because passing an array to compiled code costs more than most decisions.
"""

import numpy as np

from fairtrial.core._draws import draw
from fairtrial.core.compilation import kernel
from fairtrial.linear._kernels.blocks import (
    correct_reward,
    is_over,
    next_draw,
    record_loss,
    record_reward,
    weakest_evidence,
)
from fairtrial.linear._kernels.book import open_book, open_rules
from fairtrial.linear._kernels.choosing import choose, greedy_phase, skip_ahead
from fairtrial.linear._kernels.estimates import give_up, issue
from fairtrial.linear._kernels.matrices import Floats, Integers
from fairtrial.linear._kernels.model import Model, open_model
from fairtrial.linear._kernels.planning import leaders_now, start_book
from fairtrial.linear._kernels.recording import correct, record, record_blocks, start_track
from fairtrial.linear._kernels.recording import is_over as is_track_over
from fairtrial.linear._kernels.stopping import mark_live, next_look
from fairtrial.linear._kernels.track import SHARES, TOLD, open_test, open_track

# ------------------------------------------------------------------ block betting


@kernel
def start_blocks(
    packed: Floats, floats: Floats, integers: Integers,
    arms: int, candidates: int, rank: int, slots: int,
) -> None:  # fmt: skip
    """Open the books of block betting."""
    book = open_book(packed, floats, integers, arms, candidates, rank, slots)
    start_book(open_model(packed, arms, candidates, rank), open_rules(packed), book)


@kernel
def ask_blocks(
    packed: Floats, floats: Floats, integers: Integers,
    arms: int, candidates: int, rank: int, slots: int, batch: float,
) -> tuple[int, int]:  # fmt: skip
    """Return the next arm and the serial of its block, as `next_draw` does."""
    model, rules = open_model(packed, arms, candidates, rank), open_rules(packed)
    book = open_book(packed, floats, integers, arms, candidates, rank, slots)
    return next_draw(model, rules, book, batch)


@kernel
def tell_blocks(
    packed: Floats, floats: Floats, integers: Integers,
    arms: int, candidates: int, rank: int, slots: int,
    arm: int, serial: int, reward: float, solicited: bool,
) -> None:  # fmt: skip
    """Give block betting one reward."""
    model, rules = open_model(packed, arms, candidates, rank), open_rules(packed)
    book = open_book(packed, floats, integers, arms, candidates, rank, slots)
    if solicited:
        book.pending[arm] -= 1.0
    record_reward(model, rules, book, arm, serial, reward - rules.shift)


@kernel
def lose_in_blocks(
    packed: Floats, floats: Floats, integers: Integers,
    arms: int, candidates: int, rank: int, slots: int, arm: int, serial: int,
) -> None:  # fmt: skip
    """Tell block betting that a draw is lost."""
    model, rules = open_model(packed, arms, candidates, rank), open_rules(packed)
    book = open_book(packed, floats, integers, arms, candidates, rank, slots)
    record_loss(model, rules, book, arm, serial)


@kernel
def correct_in_blocks(
    packed: Floats, floats: Floats, integers: Integers,
    arms: int, candidates: int, rank: int, slots: int,
    arm: int, serial: int, old: float, new: float,
) -> None:  # fmt: skip
    """Replace a reward that block betting was told."""
    model, rules = open_model(packed, arms, candidates, rank), open_rules(packed)
    book = open_book(packed, floats, integers, arms, candidates, rank, slots)
    correct_reward(model, rules, book, arm, serial, old - rules.shift, new - rules.shift)


@kernel
def leaders_in_blocks(
    packed: Floats, floats: Floats, integers: Integers,
    arms: int, candidates: int, rank: int, slots: int, chosen: Integers,
) -> bool:  # fmt: skip
    """Mark the leaders by all data so far, or the answer; False before there are enough."""
    model, rules = open_model(packed, arms, candidates, rank), open_rules(packed)
    book = open_book(packed, floats, integers, arms, candidates, rank, slots)
    return leaders_now(model, rules, book, chosen)


@kernel
def evidence_in_blocks(
    packed: Floats, floats: Floats, integers: Integers,
    arms: int, candidates: int, rank: int, slots: int,
) -> float:  # fmt: skip
    """Return the least log wealth that still separates the leaders from others; NaN before."""
    model, rules = open_model(packed, arms, candidates, rank), open_rules(packed)
    book = open_book(packed, floats, integers, arms, candidates, rank, slots)
    chosen = np.empty(candidates, dtype=np.int64)
    if not leaders_now(model, rules, book, chosen):
        return np.nan
    return weakest_evidence(rules, book, chosen)


@kernel
def run_blocks(
    packed: Floats, floats: Floats, integers: Integers,
    arms: int, candidates: int, rank: int, slots: int, batch: float,
    world: int, first: Floats, second: Floats, starts: Integers,
    factors: Floats, generator: np.random.Generator, most: int,
) -> int:  # fmt: skip
    """Run block betting; return the number of draws. `factors` turn rewards into units of noise."""
    model, rules = open_model(packed, arms, candidates, rank), open_rules(packed)
    book = open_book(packed, floats, integers, arms, candidates, rank, slots)
    draws = 0
    while draws < most and not is_over(book):
        arm, serial = next_draw(model, rules, book, batch)
        reward = factors[arm] * draw(world, first, second, starts, arm, generator) - rules.shift
        book.pending[arm] -= 1.0
        record_reward(model, rules, book, arm, serial, reward)
        draws += 1
    return draws


# ------------------------------------------------------------ one pull at a time


@kernel
def start_tracker(
    packed: Floats, floats: Floats, integers: Integers, arms: int, candidates: int, rank: int
) -> None:
    """Answer at once what needs no data."""
    track = open_track(floats, integers, arms, candidates, rank)
    start_track(open_model(packed, arms, candidates, rank), open_test(packed), track)


@kernel
def ask_tracker(
    packed: Floats, floats: Floats, integers: Integers, arms: int, candidates: int, rank: int,
    rule: int,
) -> int:  # fmt: skip
    """Return the next arm, and count it as in flight."""
    model = open_model(packed, arms, candidates, rank)
    track = open_track(floats, integers, arms, candidates, rank)
    arm = choose(model, open_test(packed), rule, track)
    issue(model, track, arm)
    return arm


@kernel
def tell_tracker(
    packed: Floats, floats: Floats, integers: Integers, arms: int, candidates: int, rank: int,
    rule: int, arm: int, reward: float, in_flight: bool,
) -> None:  # fmt: skip
    """Give a tracker one reward."""
    model = open_model(packed, arms, candidates, rank)
    track = open_track(floats, integers, arms, candidates, rank)
    record(model, open_test(packed), rule, track, arm, reward, in_flight)


@kernel
def lose_in_tracker(
    packed: Floats, floats: Floats, integers: Integers, arms: int, candidates: int, rank: int,
    arm: int,
) -> None:  # fmt: skip
    """Tell a tracker that a pull is lost."""
    model = open_model(packed, arms, candidates, rank)
    give_up(model, open_test(packed), open_track(floats, integers, arms, candidates, rank), arm)


@kernel
def correct_in_tracker(
    packed: Floats, floats: Floats, integers: Integers, arms: int, candidates: int, rank: int,
    rule: int, arm: int, old: float, new: float,
) -> None:  # fmt: skip
    """Replace a reward that a tracker was told."""
    model = open_model(packed, arms, candidates, rank)
    track = open_track(floats, integers, arms, candidates, rank)
    correct(model, open_test(packed), rule, track, arm, old, new)


@kernel
def run_tracker(
    packed: Floats, floats: Floats, integers: Integers, arms: int, candidates: int, rank: int,
    rule: int, world: int, first: Floats, second: Floats, starts: Integers,
    factors: Floats, generator: np.random.Generator, most: int,
) -> None:  # fmt: skip
    """Run a rule until its test stops it or there are `most` results."""
    model, test = open_model(packed, arms, candidates, rank), open_test(packed)
    track = open_track(floats, integers, arms, candidates, rank)
    while track.control[TOLD] < most and not is_track_over(track):
        arm = choose(model, test, rule, track)
        reward = factors[arm] * draw(world, first, second, starts, arm, generator)
        record(model, test, rule, track, arm, reward, False)


@kernel
def live_in_tracker(
    packed: Floats, floats: Floats, integers: Integers, arms: int, candidates: int, rank: int,
    live: Integers,
) -> None:  # fmt: skip
    """Mark the candidates that some leader does not beat yet."""
    model = open_model(packed, arms, candidates, rank)
    mark_live(model, open_test(packed), open_track(floats, integers, arms, candidates, rank), live)


@kernel
def plan_greedy_phase(
    arms: Floats, candidates: Floats, rest: Floats, live: Integers, enough: float, most: float,
    tie_key: int, phase: int, counts: Floats,
) -> float:  # fmt: skip
    """Add pulls to `counts` as `greedy_phase` does."""
    model = Model(arms, candidates, rest, arms[0], arms[0])
    return greedy_phase(model, live, enough, most, tie_key, phase, counts)


@kernel
def run_static_blocks(
    packed: Floats, floats: Floats, integers: Integers, arms: int, candidates: int, rank: int,
    means: Floats, stds: Floats, factors: Floats, generator: np.random.Generator, most: int,
) -> None:  # fmt: skip
    """Run fixed shares in a Gaussian world, with one draw for all of an arm's between looks."""
    model, test = open_model(packed, arms, candidates, rank), open_test(packed)
    track = open_track(floats, integers, arms, candidates, rank)
    draws = np.empty(arms)
    sums = np.empty(arms)
    squares = np.empty(arms)
    while track.control[TOLD] < most and not is_track_over(track):
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
                noise = np.sqrt(draws[k]) * stds[k] * generator.standard_normal()
                sums[k] = factors[k] * (draws[k] * means[k] + noise)
                squares[k] = sums[k] ** 2 / draws[k]
                if draws[k] > 1.0 and test.estimated:
                    spread = (factors[k] * stds[k]) ** 2
                    squares[k] += spread * generator.chisquare(draws[k] - 1.0)
        record_blocks(model, test, track, draws, sums, squares)
