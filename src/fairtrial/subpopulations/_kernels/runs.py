"""What policies call: one choice, one reward, one loss, or a whole simulated run.

Live and simulated decisions go through the same functions. Everything comes packed in
few arrays, because passing an array to compiled code costs more than most decisions.
"""

import numpy as np

from fairtrial.core._draws import draw
from fairtrial.core.compilation import kernel
from fairtrial.subpopulations._kernels.block_bets import is_bet_on
from fairtrial.subpopulations._kernels.block_book import Book, Rules, open_book, open_rules
from fairtrial.subpopulations._kernels.block_plans import leader_now
from fairtrial.subpopulations._kernels.block_wealth import all_wealth
from fairtrial.subpopulations._kernels.blocks import (
    correct_reward,
    next_draw,
    record_late,
    record_loss,
    record_reward,
    start_book,
)
from fairtrial.subpopulations._kernels.evidence import evidence_for, is_certain
from fairtrial.subpopulations._kernels.indices import (
    ANY_GROUP,
    BEST,
    COUNTS,
    FINISHED,
    FIRST,
    MEANS,
    PRECISIONS,
    UNKNOWN,
    WEAKEST,
)
from fairtrial.subpopulations._kernels.model import Floats, Integers, Model, open_model
from fairtrial.subpopulations._kernels.recording import correct, is_ready, record
from fairtrial.subpopulations._kernels.sampling import choose
from fairtrial.subpopulations._kernels.spread import (
    SETTLED,
    Records,
    correct_result,
    in_units,
    note_as_issued,
    note_as_told,
    settle_blocks,
)

# ------------------------------------------------------------ one draw at a time


@kernel
def ask_tracker(
    packed: Floats, state: Floats, scan: Integers, values: Floats, rule: int, group: int,
    start: float, guard: float, shares: Floats, key0: int, key1: int, number: int,
) -> int:  # fmt: skip
    """Return the next cell, as `choose` does."""
    model = open_model(packed, state.shape[1], state.shape[2])
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
    model = open_model(packed, state.shape[1], state.shape[2])
    if noise.size:
        note_as_told(noise[SETTLED], cell, float(number), in_units(model, cell, reward))
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
    model = open_model(packed, state.shape[1], state.shape[2])
    if noise.size:
        before, after = in_units(model, cell, old), in_units(model, cell, new)
        correct_result(noise[SETTLED], cell, float(number), before, after)
    correct(model, state, scan, values, cell, old, new, estimate_noise)


@kernel
def tracker_evidence(
    packed: Floats, state: Floats, scan: Integers, values: Floats,
    kind: int, level: float, kappas: Floats, constants: Floats,
) -> float:  # fmt: skip
    """Return the evidence for a tracker's answer, NaN before every cell has a reward."""
    model = open_model(packed, state.shape[1], state.shape[2])
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
    world: int, first: Floats, second: Floats, starts: Integers,
    sign: float, generator: np.random.Generator, most: int, noise: Records,
) -> tuple[int, bool]:  # fmt: skip
    """Run a one-draw-at-a-time rule; return (draws, whether its test stopped it)."""
    model = open_model(packed, state.shape[1], state.shape[2])
    draws = 0
    while draws < most:
        cell = choose(
            rule, model, state, scan, values, ANY_GROUP, start, guard, shares, key0, key1, draws
        )
        reward = sign * draw(world, first, second, starts, cell, generator)
        if noise.size:
            note_as_told(noise[SETTLED], cell, float(draws), in_units(model, cell, reward))
        draws += 1
        if _take_reward(
            model, state, scan, values, cell, reward, True, estimate_noise,
            kind, start, delta, level, kappas, constants,
        ):  # fmt: skip
            return draws, True
    return draws, False


# ------------------------------------------------------------------ block betting


@kernel
def start_blocks(
    packed: Floats, floats: Floats, integers: Integers,
    arms: int, groups: int, bets: int,
) -> None:  # fmt: skip
    """Open the books of block betting."""
    book = open_book(floats, integers, arms, groups, bets)
    start_book(open_model(packed, arms, groups), open_rules(packed), book)


@kernel
def ask_blocks(
    packed: Floats, floats: Floats, integers: Integers,
    arms: int, groups: int, bets: int, group: int, batch: float,
) -> tuple[int, int]:  # fmt: skip
    """Return the next cell and its tag: see `tag_of`."""
    model, rules = open_model(packed, arms, groups), open_rules(packed)
    book = open_book(floats, integers, arms, groups, bets)
    cell, serial = next_draw(model, rules, book, group, batch)
    return cell, tag_of(book, cell, serial)


@kernel
def tag_of(book: Book, cell: int, serial: int) -> int:
    """Return the serial of a draw's block; -2 less the serial where no bet is on its cell.

    A draw outside every block has the tag -1.
    """
    if cell < 0 or serial < 0 or is_bet_on(book, serial % book.waiting.size, cell):
        return serial
    return -2 - serial


@kernel
def serial_of(tag: int) -> int:
    """Return the serial of a tagged draw's block, -1 outside every block."""
    return tag if tag >= -1 else -2 - tag


@kernel
def tell_blocks(
    packed: Floats, floats: Floats, integers: Integers,
    arms: int, groups: int, bets: int, cell: int, tag: int, reward: float,
    number: int, noise: Records,
) -> None:  # fmt: skip
    """Give block betting one reward."""
    model, rules = open_model(packed, arms, groups), open_rules(packed)
    book = open_book(floats, integers, arms, groups, bets)
    _take_in_block(model, rules, book, cell, serial_of(tag), reward, number, noise)


@kernel(inline="always")
def _take_in_block(
    model: Model, rules: Rules, book: Book, cell: int, serial: int, reward: float,
    number: int, noise: Records,
) -> None:  # fmt: skip
    before = book.control[FIRST]
    if noise.size and serial >= before:
        record = noise[1 + serial % book.waiting.size]
        note_as_issued(record, cell, float(number), in_units(model, cell, reward))
    record_reward(model, rules, book, cell, serial, reward - rules.shift)
    if noise.size:
        settle_blocks(noise, before, book.control[FIRST])


@kernel
def tell_late_to_blocks(
    packed: Floats, floats: Floats, integers: Integers,
    arms: int, groups: int, bets: int, cell: int, tag: int, reward: float,
    number: int, noise: Records,
) -> bool:  # fmt: skip
    """Give block betting the reward of a lost draw; return whether its block still counts it."""
    model, rules = open_model(packed, arms, groups), open_rules(packed)
    book = open_book(floats, integers, arms, groups, bets)
    serial = serial_of(tag)
    counts = record_late(model, rules, book, cell, serial, reward - rules.shift)
    if noise.size and counts:
        record = noise[1 + serial % book.waiting.size]
        note_as_issued(record, cell, float(number), in_units(model, cell, reward))
    return counts


@kernel
def lose_in_blocks(
    packed: Floats, floats: Floats, integers: Integers,
    arms: int, groups: int, bets: int, cell: int, tag: int, noise: Records,
) -> None:  # fmt: skip
    """Tell block betting that a draw is lost."""
    model, rules = open_model(packed, arms, groups), open_rules(packed)
    book = open_book(floats, integers, arms, groups, bets)
    before = book.control[FIRST]
    record_loss(model, rules, book, cell, serial_of(tag))
    if noise.size:
        settle_blocks(noise, before, book.control[FIRST])


@kernel
def correct_in_blocks(
    packed: Floats, floats: Floats, integers: Integers,
    arms: int, groups: int, bets: int, cell: int, tag: int, old: float, new: float,
    number: int, noise: Records,
) -> None:  # fmt: skip
    """Replace a reward in the data, and in bets that are not paid yet."""
    book = open_book(floats, integers, arms, groups, bets)
    serial = serial_of(tag)
    rules = open_rules(packed)
    correct_reward(rules, book, cell, serial, old - rules.shift, new - rules.shift)
    if noise.size and serial >= 0:
        model = open_model(packed, arms, groups)
        is_open = serial >= book.control[FIRST]
        record = noise[1 + serial % book.waiting.size if is_open else SETTLED]
        before, after = in_units(model, cell, old), in_units(model, cell, new)
        correct_result(record, cell, float(number), before, after)


@kernel
def wealth_in_blocks(
    packed: Floats, floats: Floats, integers: Integers,
    arms: int, groups: int, bets: int,
) -> Floats:  # fmt: skip
    """Return the log wealth against every answer, "none" last."""
    return all_wealth(
        open_model(packed, arms, groups), open_book(floats, integers, arms, groups, bets)
    )


@kernel
def leader_in_blocks(
    packed: Floats, floats: Floats, integers: Integers, arms: int, groups: int, bets: int
) -> int:
    """Return the leader by all data so far (K stands for "none"), -1 before there are enough."""
    book = open_book(floats, integers, arms, groups, bets)
    return leader_now(open_model(packed, arms, groups), open_rules(packed), book)


@kernel
def run_blocks(
    packed: Floats, floats: Floats, integers: Integers,
    arms: int, groups: int, bets: int, batch: float,
    world: int, first: Floats, second: Floats, starts: Integers,
    sign: float, generator: np.random.Generator, most: int, noise: Records,
) -> int:  # fmt: skip
    """Run block betting; return the number of draws."""
    model, rules = open_model(packed, arms, groups), open_rules(packed)
    book = open_book(floats, integers, arms, groups, bets)
    draws = 0
    while draws < most and not book.control[FINISHED]:
        cell, serial = next_draw(model, rules, book, ANY_GROUP, batch)
        reward = sign * draw(world, first, second, starts, cell, generator)
        _take_in_block(model, rules, book, cell, serial, reward, draws, noise)
        draws += 1
    return draws
