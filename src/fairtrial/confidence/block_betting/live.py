"""The blocks of a live policy: its arrays, and what happened to pulls that bets were placed on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting.blocks import NO_ROOM, NONE_LEFT, is_overtaken
from fairtrial.confidence.block_betting.book import CLOSED, decide
from fairtrial.confidence.block_betting.paid import PaidBlocks, Slots
from fairtrial.confidence.effects import BlockResults
from fairtrial.confidence.loss_test import losses_differ
from fairtrial.confidence.means import Settled
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.recommendation import Guarantee
from fairtrial.core.wording import NOT_ASKED_FOR, plural, said_of_open_pulls, said_of_replacements
from fairtrial.errors import InvalidArgument

if TYPE_CHECKING:
    from fairtrial.confidence.block_betting.blocks import Arrays
    from fairtrial.core.layout import Layout
    from fairtrial.core.policy import Choice

__all__ = ["BlockKernels", "LiveBlocks", "Randomize", "check_randomize", "pulls_left"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_OUTSIDE = -1
"""The tag of a pull outside of blocks."""

_MANY_OUTSIDE, _LONG_OUTSIDE = 50, 0.25
"""So many pulls outside of blocks, and this share of all pulls: nobody comes for those planned."""

Randomize = bool | Literal["bernoulli"]

NEVER_COUNTED = (
    NOT_ASKED_FOR,
    "of pulls that no block had planned",
    "too late for their block",
    "without a value that bets use, whose pulls are made again",
)
"""Why a result that was told is in no bet, and never will be."""

_UNSOLICITED, _UNPLANNED, _TOO_LATE, LACKING = range(len(NEVER_COUNTED))

_ORDERS: dict[Randomize, int] = {False: 0, True: 1, "bernoulli": 2}
"""`FIXED`, `DRAWN` and `TOSSED` of the compiled blocks."""


class BlockKernels(Protocol):
    """The functions that a family compiles; each takes `LiveBlocks.arrays` first.

    A pull's tag identifies its block: -1 for none; the block's serial number if bets were placed on
    the pull; -2 minus that number otherwise.
    """

    STATE: Layout[Any]
    """Layout of a named tuple with arrays `finished` and `forecast` and the engine's `blocks`."""

    def start(self, *arguments: Any) -> None:
        """Open the first block."""

    def ask(self, *arguments: Any) -> tuple[int, int]:
        """Return an action and a tag; the action is -1 if another block needs more room."""

    def open_assigned(self, *arguments: Any) -> None:
        """Open a block of externally assigned counts by action, and freeze its bets."""

    def ask_assigned(self, *arguments: Any) -> int:
        """Issue an externally assigned pull of an action; return its tag."""

    def tell(self, *arguments: Any) -> None:
        """Record a result: action, tag, value, number of the pull (negative if unsolicited)."""

    def tell_late(self, *arguments: Any) -> bool:
        """Record a result of a lost pull; return whether its block still counts it."""

    def lose(self, *arguments: Any) -> None:
        """Record that a pull is lost: action, tag, and the details that the family needs."""

    def correct(self, *arguments: Any) -> None:
        """Replace a result: action, tag, old value, new value, number of the pull."""

    def settle(self, *arguments: Any) -> None:
        """Pay the bets of every complete block."""


class LiveBlocks:
    """The state of a live policy that bets on blocks, and the counts that its guarantee depends on.

    A family's subclass sets `kernels` as a class attribute, because modules cannot be pickled.

    Parameters
    ----------
    constants : array
        The packed constants.
    randomize : bool or "bernoulli"
        Order of a block's pulls: random (True), as planned (False), or with each arm drawn on its
        own.
    key : array of two numpy.uint64
        Key of the coins.
    **dimensions
        Dimensions of the state, except ``slots``, the number of blocks that can be open at once.

    Attributes
    ----------
    lost : int
        Lost pulls, also those without a bet: with a known noise, means and effects leave them out.
    amended, corrected : int
        Corrections of results that the bets cannot take into account, and that they did.
    late : list of int
        Pulls whose results arrived too late for their blocks.
    called_back : list of [int, int, int]
        Number, action and tag of each pull that was cancelled after the stop.
    reopened : int
        How often corrections withdrew the evidence for an answer that had been given.
    as_worst : array
        The packed constants with which a lost pull counts as its worst; other ones than `constants`
        if these make it again.
    outside : int
        Pulls issued outside of blocks since the last one of a block.
    never_issued : list of [int, int]
        Action and block of each pull of a closed block that nobody makes: nobody came for it, or it
        failed and is to be made again. It counts as its worst.
    paid : PaidBlocks
        The blocks whose bets are paid.
    replaced : int
        Lost pulls that were made again, or are to be.
    unreplaced : list of int
        Pulls that ended without a result that counts when they could not be made again, because
        the limit was reached or their arm is closed: they count as their worst.
    never_counted : array of int
        How many results are in no bet and never will be, for each reason in `NEVER_COUNTED`.
    """

    fields: ClassVar[tuple[str, ...]] = (
        *("floats", "integers", "late", "lost", "amended", "corrected"),
        *("called_back", "reopened", "paid_floats", "paid_integers"),
        *("overdue", "outside", "never_issued", "never_counted", "replaced", "unreplaced"),
    )
    """The attributes that are saved."""

    evidence: ClassVar[tuple[str, ...]] = ("book.ledgers", "book.rejected", "finished")
    """Arrays of the state that bets change: ledgers, rejections, and whether it is finished."""

    verdict: ClassVar[tuple[str, ...]] = ()
    """Arrays that hold the answer once the policy is finished."""

    accounts: ClassVar[Mapping[str, str]] = {
        "blocks.came": "blocks.results",
        "blocks.lost": "blocks.losses",
        "blocks.settled_sums": "blocks.sums",
        "blocks.settled_squares": "blocks.squares",
    }
    """Arrays with sums over paid blocks, and the arrays of a block that they sum."""

    kernels: ClassVar[BlockKernels]
    """The family's compiled functions."""

    unit: float = 1.0
    """Difference of outcomes whose values in the state differ by 1."""

    centre: float = 0.0
    """The outcome whose value in the state is 0."""

    unit_of_results: float = 1.0
    """The unit of `paid_results`; another one if squares of outcomes are out of reach."""

    max_replacements: float = math.inf
    """The most lost pulls that are made again."""

    def __init__(
        self, constants: Floats, randomize: Randomize, key: NDArray[np.uint64], **dimensions: int
    ) -> None:
        self._constants = constants
        self.as_worst = constants
        self._floats, self._integers = self.kernels.STATE.allocate(**dimensions, slots=2)
        self.late: list[int] = []
        self.lost = 0
        self.amended = 0
        self.corrected = 0
        self.called_back: list[list[int]] = []
        self.reopened = 0
        self._overdue: dict[int, tuple[int, int]] = {}
        self.outside = 0
        self.never_issued: list[list[int]] = []
        self.paid = PaidBlocks()
        self.replaced = 0
        self.unreplaced: list[int] = []
        self.never_counted = np.zeros(len(NEVER_COUNTED), dtype=np.int64)
        self.kernels.start(self.arrays)
        self.state.blocks.order[0] = _ORDERS[randomize]
        self.state.blocks.propensity[0] = math.nan
        self.use_key(key)

    def use_key(self, key: NDArray[np.uint64]) -> None:
        """Use this key for all later coins."""
        self.state.blocks.key[:] = key.view(np.int64)

    @property
    def arrays(self) -> Arrays:
        """The arguments of all kernels: the constants and the buffers of the state."""
        return self._constants, self._floats, self._integers

    @property
    def floats(self) -> Floats:
        """The buffer of floats."""
        return self._floats

    @floats.setter
    def floats(self, buffer: Floats) -> None:
        self._floats = buffer
        self._forget_views()

    @property
    def integers(self) -> Integers:
        """The buffer of integers."""
        return self._integers

    @integers.setter
    def integers(self, buffer: Integers) -> None:
        # A state that another version has saved must not be read as one of this version.
        layout = self.kernels.STATE
        if (self._floats.size, buffer.size) != layout.sizes(**layout.lengths(buffer)):
            raise InvalidArgument("state", "must be of the same version of the policy")
        self._integers = buffer
        self._forget_views()

    @cached_property
    def state(self) -> Any:
        """The named views of the buffers."""
        return self.kernels.STATE.view(self._floats, self._integers)

    @cached_property
    def _first(self) -> Integers:
        """One number: the serial number of the first block that is not paid."""
        first: Integers = self.state.blocks.first
        return first

    @cached_property
    def _number(self) -> Integers:
        """One number: that of open blocks."""
        number: Integers = self.state.blocks.number
        return number

    @cached_property
    def _propensity(self) -> Floats:
        """One number: the propensity of the last issued pull."""
        propensity: Floats = self.state.blocks.propensity
        return propensity

    @cached_property
    def _slots(self) -> Slots:
        """The slots that hold the open blocks."""
        return Slots(self.kernels.STATE, self._floats, self._integers)

    def _slot_of(self, serial: int) -> int:
        slots: int = self.state.blocks.waiting.size
        return serial % slots

    @property
    def overdue(self) -> Integers:
        """Open pulls of closed blocks, which count as their worst: number, action and tag."""
        rows = [(number, *pull) for number, pull in self._overdue.items()]
        return np.array(rows, dtype=np.int64).reshape(-1, 3)

    @overdue.setter
    def overdue(self, rows: Integers) -> None:
        self._overdue = {number: (action, tag) for number, action, tag in rows.tolist()}

    @property
    def paid_floats(self) -> NDArray[Any]:
        """The floats of all paid blocks, one row per block."""
        return np.array(self.paid.floats)

    @paid_floats.setter
    def paid_floats(self, rows: NDArray[Any]) -> None:
        self.paid.floats = list(np.array(rows))

    @property
    def paid_integers(self) -> NDArray[Any]:
        """The integers of all paid blocks, one row per block."""
        return np.array(self.paid.integers)

    @paid_integers.setter
    def paid_integers(self, rows: NDArray[Any]) -> None:
        self.paid.integers = list(np.array(rows))

    def _forget_views(self) -> None:
        for view in ("state", "_first", "_number", "_propensity", "_slots"):
            vars(self).pop(view, None)

    @property
    def finished(self) -> bool:
        """Whether there is an answer."""
        return bool(self.state.finished[0])

    @property
    def planned(self) -> int:
        """Number of blocks planned so far."""
        blocks = self.state.blocks
        return int(blocks.first[0] + blocks.number[0])

    @property
    def pulls_left(self) -> float | None:
        """Forecast of the pulls left, at least the pulls that open blocks still wait for."""
        return pulls_left(float(self.state.forecast[0]), float(self.state.blocks.waiting.sum()))

    def loses_unequally(self, groups: int = 1) -> bool:
        """Return whether some arms lose far more results than others in their group."""
        came, lost = self._came_and_lost()
        return losses_differ(came.reshape(-1, groups), lost.reshape(-1, groups))

    def _came_and_lost(self) -> tuple[Floats, Floats]:
        """Return the results and the lost pulls of settled blocks by action, for the loss test.

        Pulls that take long must not look like lost ones. So the test counts the first blocks, in
        which no pull is open.
        """
        blocks = self.state.blocks
        if not self._any_as_worst:
            return blocks.came, blocks.lost
        ended = self._ended_blocks
        if ended == 0:
            return np.zeros_like(blocks.came), np.zeros_like(blocks.lost)
        came = self.in_paid_blocks("blocks.results")[:ended]
        lost = self.in_paid_blocks("blocks.losses")[:ended] - self._never_issued_in_blocks()[:ended]
        return came.sum(axis=0), lost.sum(axis=0)

    @property
    def _ended_blocks(self) -> int:
        """Number of the first settled blocks in which no pull is open; 0 if not all are kept."""
        if len(self.paid) != self._first.item():
            return 0
        return min(
            (serial_of_tag(tag) for _, tag in self._overdue.values()), default=len(self.paid)
        )

    @property
    def _any_as_worst(self) -> bool:
        return bool(self._overdue or self.never_issued_in_settled)

    @property
    def known_losses(self) -> Floats:
        """Lost pulls of settled blocks by action, without those that may still have a result."""
        lost: Floats = self.state.blocks.lost
        return lost - self._counted_as_worst() if self._any_as_worst else lost

    def _counted_as_worst(self) -> Floats:
        """Return how many pulls of settled blocks count as their worst, but are not lost."""
        actions = [action for action, _ in (*self._overdue.values(), *self.never_issued_in_settled)]
        counts = np.bincount(actions, minlength=self.state.blocks.lost.size)
        return counts.astype(np.float64)

    def _counted_as_worst_in_blocks(self) -> Floats:
        """Return the same by block, shape (T, actions)."""
        counts = self._never_issued_in_blocks()
        for action, tag in self._overdue.values():
            counts[serial_of_tag(tag), action] += 1.0
        return counts

    def _never_issued_in_blocks(self) -> Floats:
        """Return how many planned pulls nobody came for, shape (T, actions)."""
        counts = np.zeros((len(self.paid), self.state.blocks.lost.size))
        for action, serial in self.never_issued_in_settled:
            counts[serial, action] += 1.0
        return counts

    @property
    def never_issued_in_settled(self) -> list[list[int]]:
        """Those of settled blocks; an open block can have some after an arm was closed."""
        first = self._first.item()
        return [pull for pull in self.never_issued if pull[1] < first]

    @property
    def overtaken(self) -> int:
        """Number of results of blocks after the oldest open one."""
        oldest, number = self._first.item(), self._number.item()
        later = [self._slot_of(serial) for serial in range(oldest + 1, oldest + number)]
        return 0 if self.finished else int(self.state.blocks.results[later].sum())

    @property
    def results_in_open_blocks(self) -> int:
        """Number of results of the blocks whose bets are not paid."""
        first, number = self._first.item(), self._number.item()
        slots = [self._slot_of(serial) for serial in range(first, first + number)]
        return int(self.state.blocks.results[slots].sum())

    @property
    def unissued_of_oldest(self) -> int:
        """Number of pulls of the oldest open block that are not asked for yet."""
        return int(self.state.blocks.unissued[self._slot_of(self._first.item())])

    @property
    def unissued_actions_of_oldest(self) -> dict[int, int]:
        """The same number by action, without actions that have none."""
        left = self.state.blocks.to_issue[self._slot_of(self._first.item())]
        return {int(action): int(left[action]) for action in np.flatnonzero(left > 0.0)}

    def has_pulls_until(self, end: int, actions: slice) -> bool:
        """Return whether a pull of one of these actions can be issued before a planned end."""
        blocks = self.state.blocks
        if blocks.pulls[0] < end:
            return True
        first = self._first.item()
        slots = [self._slot_of(serial) for serial in range(first, first + self._number.item())]
        return bool(blocks.to_issue[slots, actions].any())

    @property
    def made(self) -> int:
        """Number of planned pulls that have a result, or will have none."""
        blocks = self.state.blocks
        return int(blocks.pulls[0] - blocks.waiting.sum())

    def has_ended(self, end: int) -> bool:
        """Return whether all pulls of a planned end are settled."""
        return bool(self.state.blocks.pulls[0] >= end and self._number.item() == 0)

    def oldest_lacks(self, number: int, action: int, tag: int) -> bool:
        """Return whether the oldest open block waits for this outstanding pull."""
        return serial_of_tag(tag) == self._first.item()

    # ------------------------------------------------------------- what happens to pulls

    def choose(self, *wanted: Any) -> tuple[int, int, float] | None:
        """Return action, tag and propensity of the next pull; plan a block if none has any left.

        Return None if a planned end leaves no such pull.
        """
        while True:
            action, tag = self.kernels.ask(self.arrays, *wanted)
            if action == NONE_LEFT:
                return None
            if action != NO_ROOM:
                self.outside = self.outside + 1 if tag == _OUTSIDE else 0
                return action, tag, self._propensity.item()
            self.make_room()

    def skip_initial_block(self) -> None:
        """Close the block of initial pulls, if any, because pulls are assigned externally."""
        blocks = self.state.blocks
        before, opened = self._first.item(), int(blocks.number[0])
        blocks.first[0] += opened
        blocks.number[0] -= opened
        self.keep_paid(before)

    def open_assigned(self, counts: Floats) -> None:
        """Open a block of externally assigned pulls, counted by action."""
        self.kernels.open_assigned(self.arrays, counts)

    def ask_assigned(self, action: int) -> int:
        """Issue an externally assigned pull; return its tag."""
        return int(self.kernels.ask_assigned(self.arrays, action))

    def learn(self, pull: Pull, value: Any, *, was_lost: bool) -> None:
        """Record a result; bets count that of a pull reported lost if its block is known.

        `value`: what the family's kernels take, a number or a tuple of numbers.
        """
        if was_lost:
            self._learn_late(pull, value)
            return
        if pull.number in self._overdue:
            self._learn_overdue(pull, value)
            return
        tag = _OUTSIDE if pull.number == UNSOLICITED else pull.tag
        if pull.number == UNSOLICITED:
            self.never_counted[_UNSOLICITED] += 1
        elif self._is_unplanned(pull):
            self.never_counted[_UNPLANNED] += 1
        before = self._first.item()
        told = pull.action, tag, value, pull.number
        if self._makes_again:
            with self._counting_replacements(pull.action, pull.tag):
                self.kernels.tell(self._arrays_to_tell(pull, value), *told)
        else:
            self.kernels.tell(self.arrays, *told)
        if self._first.item() != before:
            self.keep_paid(before)

    def _is_unplanned(self, pull: Pull) -> bool:
        """Return whether a pull was issued that no block had planned."""
        return pull.tag == _OUTSIDE

    def _learn_late(self, pull: Pull, value: Any) -> None:
        is_too_late = pull.number in self.late
        tag = _OUTSIDE if is_too_late else pull.tag
        told = pull.action, tag, value, pull.number
        before = self._first.item()
        constants = self._constants_of(pull.number)
        with self._counting_replacements(pull.action, pull.tag):
            counts = self.kernels.tell_late((constants, *self.arrays[1:]), *told)
        self.keep_paid(before)
        if is_too_late:
            self.never_counted[_TOO_LATE] += 1
            return
        if self._is_unplanned(pull):
            self.never_counted[_UNPLANNED] += 1
        # Outside of blocks only the data can count a result, and they do. Without a bet, a lost
        # pull stays the worst value if there is one.
        counts = counts or tag == _OUTSIDE
        can_count = tag >= 0 or self._leaves_out_losses
        if counts or (
            can_count
            and self._change_paid(
                tag, lambda arrays: self.kernels.tell_late((constants, *arrays[1:]), *told)
            )
        ):
            self.lost -= 1
        else:
            self.late.append(pull.number)
            self.never_counted[_TOO_LATE] += 1

    @property
    def _leaves_out_losses(self) -> bool:
        """Whether nothing counts in place of a lost pull: only then the noise is tested."""
        return "settled_noise" in self.state._fields and self.state.settled_noise.size > 0

    def lose(self, pull: Pull, *details: Any, stopped: bool) -> None:
        """Record that a pull is lost.

        Pulls in flight are cancelled after the policy has stopped. This changes no evidence: the
        block keeps waiting for the cancelled pull, and a result of it would arrive too late.
        """
        if self._overdue.pop(pull.number, None) is not None:
            self._lose_overdue(pull, stopped=stopped)
            return
        if stopped:
            self.late.append(pull.number)
            self.called_back.append([pull.number, pull.action, pull.tag])
            return
        details = details or self._details_of_a_loss(pull.number)
        self._lose(pull.number, pull.action, pull.tag, *details)

    def _lose_overdue(self, pull: Pull, *, stopped: bool) -> None:
        """Record that a pull is lost that counts as its worst already."""
        is_replaceable = self._makes_again and not self._gave_values(pull)
        if stopped:
            self.late.append(pull.number)
            if is_replaceable:
                self.unreplaced.append(pull.number)
            return
        self.lost += 1
        if not is_replaceable:
            return
        if pull.tag < 0 or not self._may_make_again(pull.action):
            self.unreplaced.append(pull.number)
            return
        self._note_replacements(pull.action, pull.tag, 1)
        # Besides the pull that is to be made now, the block has one that was lost.
        self.never_issued.append([pull.action, pull.tag])
        self.state.blocks.lost[pull.action] += 1.0
        if len(self.paid) > pull.tag:
            losses = self.paid.floats[pull.tag][self._slots.in_row("blocks.losses")]
            losses[pull.action] += 1.0

    def _gave_values(self, pull: Pull) -> bool:
        """Return whether bets count values of a pull that has failed."""
        return False

    @property
    def _makes_again(self) -> bool:
        """Whether a lost pull is made again."""
        return self.as_worst is not self._constants

    @property
    def _has_replacements(self) -> bool:
        """Whether another lost pull may be made again."""
        return self.replaced < self.max_replacements

    def _constants_of(self, number: int) -> Floats:
        """Return the constants for what is still told of a pull that has ended."""
        return self.as_worst if number in self.unreplaced else self._constants

    def is_closed(self, action: int) -> bool:
        """Return whether people have closed the arm of an action."""
        return False

    def _may_make_again(self, action: int) -> bool:
        """Return whether a pull of this action may be made again if it gets lost."""
        return self._has_replacements and not self.is_closed(action)

    def _arrays_at_end(self, number: int, action: int) -> Arrays:
        """Return the arguments for the end of a pull without a result that counts."""
        if self._makes_again and not self._may_make_again(action):
            self.unreplaced.append(number)
        return (self._constants_of(number), *self.arrays[1:])

    def _arrays_to_tell(self, pull: Pull, value: Any) -> Arrays:
        """Return the arguments for a result."""
        return self.arrays

    @contextmanager
    def _counting_replacements(self, action: int, tag: int) -> Iterator[None]:
        """Count the pulls of open blocks that are put back to be made again, or taken out.

        They are of this action, and of the block that the tag names.
        """
        unissued = self.state.blocks.unissued
        before = int(unissued.sum())
        yield
        self._note_replacements(action, tag, int(unissued.sum()) - before)

    def _note_replacements(self, action: int, tag: int, number: int) -> None:
        """Record how many more pulls of an action and a block are to be made again."""
        self.replaced += number

    def make_again(self, number: int, accepts: Callable[[int], bool]) -> Choice:
        """Return the next pull that a closed block lacks; None if there is none.

        It counts as its worst until its result comes. Nobody makes a pull whose result could not
        count any more, because not all paid blocks are kept.

        Parameters
        ----------
        number : int
            The number of the pull that is issued next.
        accepts : callable
            Whether an action can be taken now.
        """
        place = self._place_to_make(accepts)
        if place is None:
            return None
        action, serial = self.never_issued.pop(place)
        self._overdue[number] = action, serial
        is_random = self.state.blocks.order[0] != _ORDERS[False]
        return action, serial, 1.0 if is_random else math.nan

    def lacks(self, accepts: Callable[[int], bool]) -> bool:
        """Return whether a closed block lacks a pull of an accepted action that is still made."""
        return self._place_to_make(accepts) is not None

    def _place_to_make(self, accepts: Callable[[int], bool]) -> int | None:
        """Return the place in `never_issued` of the next pull that is still made."""
        if not self._makes_again or len(self.paid) != self._first.item():
            return None
        first = self._first.item()
        return next(
            (
                place
                for place, (action, serial) in enumerate(self.never_issued)
                if serial < first and accepts(action)
            ),
            None,
        )

    @property
    def replacements_never_made(self) -> tuple[int, ...]:
        """The actions of the pulls in `never_issued` that would have been in place of lost ones."""
        return ()

    @property
    def may_make_more_again(self) -> bool:
        """Whether a pull that gets lost now can be made again, unless its arm is closed."""
        return self._makes_again and self._has_replacements

    def _lose(self, number: int, action: int, tag: int, *details: Any) -> None:
        self.lost += 1
        before = self._first.item()
        with self._counting_replacements(action, tag):
            self.kernels.lose(self._arrays_at_end(number, action), action, tag, *details)
        self.keep_paid(before)

    def amend(self, pull: Pull, old: Any, new: Any) -> None:
        """Correct a result and all bets on it; bets that were already paid are paid again."""
        in_block = pull.number != UNSOLICITED and pull.number not in self.late
        tag = pull.tag if in_block else _OUTSIDE
        correction = pull.action, tag, old, new, pull.number
        constants = self._constants_of(pull.number)
        self.kernels.correct((constants, *self.arrays[1:]), *correction)
        follows = serial_of_tag(tag) >= self._first.item() or self._change_paid(
            tag, lambda arrays: self.kernels.correct((constants, *arrays[1:]), *correction)
        )
        if tag >= 0:
            self.corrected += follows
            self.amended += not follows

    def as_it_stands(self, promise: Guarantee, *, left_out: int) -> Guarantee:
        """Add to a guarantee what it assumes about the losses and corrections so far.

        Parameters
        ----------
        promise : Guarantee
            The guarantee without losses and corrections.
        left_out : int
            Number of lost pulls that bets, means or effects leave out.
        """
        if self.corrected:
            corrections = plural(self.corrected, "correction")
            known = f"after {corrections} of results that bets use, every value is the true one"
            promise = promise.assuming(known)
        event = "got lost, for reasons assumed to be unrelated to rewards"
        promise = promise.weakened_by(left_out, "pull", event)
        event = "came too late for bets on the values to follow"
        return promise.weakened_by(self.amended, "correction", event)

    def settled(self, *, losses_count: bool) -> Settled:
        """Return the results of all settled blocks by action; the argument of `paid_results`."""
        blocks = self.state.blocks
        sums = self.unit * blocks.settled_sums + self.centre * blocks.came
        missing = blocks.lost * losses_count
        if self.has_worst_values and self._any_as_worst and not losses_count:
            missing = self._counted_as_worst()
        return Settled(blocks.came.copy(), sums, missing)

    def paid_results(self, *, losses_count: bool) -> BlockResults | None:
        """Return the results of all paid blocks; None if there are none, or not all are kept.

        Parameters
        ----------
        losses_count : bool
            Whether a lost pull counts as a result with the worst value.
        """
        if not self._first.item() == len(self.paid) > 0:
            return None
        unit = self.unit / self.unit_of_results
        names = "results", "losses", "sums", "squares"
        counts, losses, sums, squares = (self.in_paid_blocks(f"blocks.{name}") for name in names)
        losses = losses * losses_count
        if self.has_worst_values and self._any_as_worst and not losses_count:
            losses = self._counted_as_worst_in_blocks()
        return BlockResults(
            counts,
            losses,
            sums * unit,
            squares * unit * unit,
            np.full_like(counts, self.centre / self.unit_of_results),
            self._earlier(self.in_paid_blocks("blocks.known").reshape(*counts.shape, 3)),
            unit=self.unit_of_results,
        )

    def _earlier(self, known: Floats) -> Floats | None:
        """Return what was known when blocks were opened, as in `BlockResults`.

        `known`, shape (T, actions, 3): as in the state.
        """
        unit = self.unit / self.unit_of_results
        return np.moveaxis(known * [1.0, unit, unit * unit], 2, 0)

    def in_paid_blocks(self, path: str) -> Floats:
        """Return the values of an array of the state in all paid blocks, shape (T, ...)."""
        places = self._slots.in_row(path)
        return np.array([row[places] for row in self.paid.floats])

    # ----------------------------------------------- open pulls that count as their worst

    def is_overtaken(self, asked: int) -> bool:
        """Return whether the oldest block need not wait any longer for its open pulls.

        The rule is `blocks.is_overtaken`. A block for whose other pulls nobody has come for long
        need not wait either.

        Parameters
        ----------
        asked : int
            Number of pulls issued so far.
        """
        number = self._number.item()
        if number < 2 and not (number and self.outside):
            return False
        if not self.has_worst_values or self.finished:
            return False
        first = self._first.item()
        if self.unissued_of_oldest > 0:
            return self.outside >= max(_MANY_OUTSIDE, _LONG_OUTSIDE * asked)
        return bool(is_overtaken.plain(self.state.blocks, len(self.paid) == first))

    @property
    def holds_back_others(self) -> bool:
        """Whether later blocks wait only for pulls of the oldest that were asked for."""
        return not self.finished and self._number.item() > 1 and self.unissued_of_oldest == 0

    def waits_for_no_bet(self, open_pulls: Iterable[tuple[int, int, int]]) -> bool:
        """Return whether no bet is on the open pulls of the oldest block, and it is overtaken.

        Parameters
        ----------
        open_pulls : iterable of (int, int, int)
            Number, action and tag of its pulls in flight.
        """
        is_any_bet_on = any(tag >= 0 for _, _, tag in open_pulls)
        kept = len(self.paid) == self._first.item()
        return not is_any_bet_on and bool(is_overtaken.plain(self.state.blocks, kept))

    @cached_property
    def has_worst_values(self) -> bool:
        """Whether rewards have a range, and so every bet has a worst value."""
        return bool(self.state.bets.stakes.shape[-1])

    def said_of_open_pulls(self) -> tuple[str, ...]:
        """Return in words how many open pulls count as their worst, if any do.

        Also return that no more lost pulls are made again, if that is so.
        """
        said = said_of_open_pulls(len(self.open_as_worst))
        limit = self.limit_reached
        return said if limit is None else (*said, said_of_replacements(limit))

    @property
    def limit_reached(self) -> int | None:
        """The most replacements, once no lost pull is made again any more; None before."""
        return None if self._has_replacements else int(self.max_replacements)

    def how_lost_count(
        self,
        lost: Mapping[int, tuple[int, int]],
        can_be_made: Callable[[int], bool],
        *,
        stopped: bool,
    ) -> Counter[str]:
        """Return how many lost pulls are treated in which way, with the names of `Losses`.

        Parameters
        ----------
        lost : mapping of int to (int, int)
            Action and tag of every lost pull, by its number.
        can_be_made : callable
            Whether anybody is still asked for an action.
        stopped : bool
            Whether the policy has stopped, so that open blocks are never paid.
        """
        found: Counter[str] = Counter()
        again: Counter[tuple[int, int]] = Counter()
        called_back = {number for number, _, _ in self.called_back}
        for number, (action, tag) in lost.items():
            serial = serial_of_tag(tag)
            never_paid = stopped and serial >= self._first.item()
            is_outside = number in called_back or serial < 0
            how = "in_no_bet" if is_outside else self._how_counts(number)
            if not how:
                how = "partly" if self._counts_values_of(number, action, tag) else ""
            if not how and self._makes_again and number not in self.unreplaced:
                again[action, serial] += 1
                continue
            if never_paid or not (how or self.has_worst_values):
                how = "in_no_bet"
            found[how or "as_worst"] += 1
        for (action, serial), number in again.items():
            found += self._how_replaced_count(action, serial, number, can_be_made, stopped=stopped)
        return found

    def _how_replaced_count(
        self,
        action: int,
        serial: int,
        number: int,
        can_be_made: Callable[[int], bool],
        *,
        stopped: bool,
    ) -> Counter[str]:
        """Return the same of the lost pulls of an action and block that are to be made again.

        Which of the pulls that are left stand for lost ones is not recorded, and changes nothing:
        the lost ones count as made again last.
        """
        first = self._first.item()
        waiting = min(number, self._left_to_issue(action, serial))
        never = min(number - waiting, self.never_issued.count([action, serial]))
        is_made = can_be_made(action) and not stopped
        found = Counter({"made_again": number - waiting - never})
        found["to_make_again" if is_made else "in_no_bet"] += waiting
        found["in_no_bet" if stopped and serial >= first else "as_worst"] += never
        return found

    def _left_to_issue(self, action: int, serial: int) -> int:
        """Return how many pulls of an action a block has left; none if its bets are paid."""
        if serial < self._first.item():
            return 0
        return int(self.state.blocks.to_issue[self._slot_of(serial), action])

    def _how_counts(self, number: int) -> str:
        """Return how a lost pull of a block counts if this is recorded; empty otherwise."""
        return ""

    def _counts_values_of(self, number: int, action: int, tag: int) -> bool:
        """Return whether bets count values that a lost pull gave before."""
        return False

    @property
    def open_as_worst(self) -> tuple[int, ...]:
        """The numbers of the open pulls that count as their worst."""
        return tuple(sorted(self._overdue)) if self.has_worst_values else ()

    def close_oldest(self, open_pulls: Iterable[tuple[int, int, int]]) -> bool:
        """Count the open pulls of the oldest block as their worst; return whether this closed it.

        With a known noise, no bet is on them.

        Parameters
        ----------
        open_pulls : iterable of (int, int, int)
            Number, action and tag of its pulls in flight.
        """
        before = self._first.item()
        blocks, slot = self.state.blocks, self._slot_of(before)
        arrays = self.as_worst, self._floats, self._integers
        never = np.repeat(np.arange(blocks.lost.size), blocks.to_issue[slot].astype(np.int64))
        blocks.to_issue[slot], blocks.unissued[slot] = 0.0, 0
        for number, action, tag in open_pulls:
            self._overdue[number] = action, tag
            self.kernels.lose(arrays, action, tag, *self._details_of_an_overdue(number))
        for action in never.tolist():
            self.never_issued.append([action, before])
            self.kernels.lose(arrays, action, before, *self._details_of_an_overdue(UNSOLICITED))
        self.outside = 0
        self.keep_paid(before)
        return self._first.item() != before

    def close_arm(self, arm: int, actions: Iterable[int], rules: Any) -> None:
        """Make an arm no answer any more, and issue none of its planned pulls.

        These count as their worst; with a known noise they are left out. If the arm was ever the
        target of a block, answers that were ruled out are judged again, since evidence from its
        blocks counts no longer.

        Parameters
        ----------
        arm : int
            The arm.
        actions : iterable of int
            Its actions.
        rules : NamedTuple
            The constants of the method, for `decide`.
        """
        book = self.state.book
        book.rejected[arm] = CLOSED
        if book.led[arm]:
            book.rejected[book.rejected != CLOSED] = 0
        elif not book.stated[arm].any():
            # The arm without limits was why "none" was impossible.
            book.rejected[-1] = 0
        self.issue_none(actions)
        if not self.finished:
            decide.plain(rules, self.state)

    def issue_none(self, actions: Iterable[int]) -> None:
        """Issue no pull that is still planned of some actions, as if these pulls had been lost."""
        before, blocks = self._first.item(), self.state.blocks
        arrays = self.as_worst, self._floats, self._integers
        for serial in range(before, before + self._number.item()):
            slot = self._slot_of(serial)
            for action in actions:
                number = int(blocks.to_issue[slot, action])
                blocks.to_issue[slot, action] = 0.0
                blocks.unissued[slot] -= number
                for _ in range(number):
                    self.never_issued.append([action, serial])
                    details = self._details_of_an_overdue(UNSOLICITED)
                    self.kernels.lose(arrays, action, serial, *details)
        self.keep_paid(before)

    @property
    def closed(self) -> NDArray[np.bool_]:
        """Which answers people have closed; empty in a family that keeps no book of answers."""
        if "book" not in self.state._fields:
            return np.zeros(0, dtype=bool)
        return np.asarray(self.state.book.rejected == CLOSED)

    def _learn_overdue(self, pull: Pull, value: Any) -> bool:
        """Record the result of an overdue pull; return whether it replaces the worst value."""
        del self._overdue[pull.number]
        counts = self._replace_worst(pull, value)
        if not counts:
            self.lost += 1
            self.late.append(pull.number)
            self.never_counted[_TOO_LATE] += 1
        return counts

    def _replace_worst(self, pull: Pull, value: Any) -> bool:
        """Record what is known of an overdue pull, and replace its worst value if that can be.

        This only raises what its block pays. An answer stays, because it was right to give it.
        """
        told = pull.action, pull.tag, value, pull.number
        self.kernels.tell_late((self.as_worst, self._floats, self._integers), *told)
        return self._change_paid(
            pull.tag,
            lambda arrays: self.kernels.tell_late((self.as_worst, *arrays[1:]), *told),
            moves_bets=not self.finished,
        )

    # ------------------------------------------------------------------ paying again

    def is_paid(self, pull: Pull) -> bool:
        """Return whether a pull belongs to a block whose bets are paid."""
        in_block = pull.number != UNSOLICITED and pull.number not in self.late
        return in_block and 0 <= serial_of_tag(pull.tag) < self._first.item()

    def why_never_counted(self, pull: Pull) -> str | None:
        """Return why no bet will count what was learned of a pull; None if its block is to come."""
        if pull.number in self.late:
            return NEVER_COUNTED[_TOO_LATE]
        return NEVER_COUNTED[_UNPLANNED] if self._is_unplanned(pull) else None

    def keep_paid(self, before: int) -> None:
        """Keep the blocks paid since `before` was the first one, if all earlier ones are kept."""
        now = self._first.item()
        for serial in range(before, now):
            if len(self.paid) == serial:
                self.paid.keep(self._slots, self._slot_of(serial))

    def _change_paid(
        self, tag: int, change: Callable[[Arrays], bool | None], *, moves_bets: bool = True
    ) -> bool:
        """Change a paid block, identified by the tag of a pull; return whether this is possible.

        Every bet stays frozen; only late or corrected results differ. If bets were placed on the
        pull and can move, all blocks are paid again. `change` gets the arrays of a state in which
        the block is open; it returns False if it cannot make the change.
        """
        serial = serial_of_tag(tag)
        if not 0 <= serial < self._first.item() == len(self.paid):
            return False
        again = _Payment(self)
        again.open(serial)
        old = self._added_by_block(again.state)
        if change(again.arrays) is False:
            return False
        for total, part in self._added_by_block(again.state).items():
            _leaf(self.state, total)[...] += part - old[total]
        self.paid.replace(serial, again.slots, 0)
        if tag >= 0 and moves_bets:
            self._pay_again()
        return True

    def _added_by_block(self, state: Any) -> dict[str, Floats]:
        """Return what the block in the first slot adds to each of the accounts."""
        return {total: _leaf(state, part)[0].copy() for total, part in self.accounts.items()}

    def arrays_with(self, tag: int) -> Arrays:
        """Return the arguments of kernels that read the block of a pull, open or paid."""
        serial = serial_of_tag(tag)
        if not 0 <= serial < self._first.item() == len(self.paid):
            return self.arrays
        again = _Payment(self)
        again.open(serial)
        return again.arrays

    def _pay_again(self) -> None:
        """Pay all blocks again, and then those that are complete now."""
        was_finished = self.finished
        self._replay()
        if was_finished and not self.finished:
            self._reopen()
        before = self._first.item()
        self.kernels.settle(self.arrays)
        self.keep_paid(before)

    def _replay(self) -> None:
        """Pay the blocks in order, from the first to the one that decides."""
        again = _Payment(self)
        for serial in range(len(self.paid)):
            again.open(serial)
            self.kernels.settle(again.arrays)
            if again.state.finished[0]:
                break
        for path in (*self.evidence, *self.verdict):
            _leaf(self.state, path)[...] = _leaf(again.state, path)

    def _reopen(self) -> None:
        """Continue after a correction has withdrawn the evidence for the answer.

        Blocks still wait for the pulls that were cancelled after the stop; these are now lost.
        """
        self.reopened += 1
        for number, action, tag in self.called_back:
            self._lose(number, action, tag, *self._details_of_a_loss(number))
        self.called_back = []

    def _details_of_a_loss(self, number: int) -> tuple[Any, ...]:
        """Return what the family's kernel needs to know about a lost pull."""
        return ()

    def _details_of_an_overdue(self, number: int) -> tuple[Any, ...]:
        """Return what the kernel that records losses needs to know about an overdue pull."""
        return self._details_of_a_loss(number)

    # ------------------------------------------------------------------------- more room

    def make_room(self) -> None:
        """Double the number of blocks that can be open at once."""
        layout, old = self.kernels.STATE, self.state
        lengths = layout.lengths(self.floats, self.integers)
        slots = 2 * lengths.pop("slots")
        self.floats, self.integers = layout.allocate(**lengths, slots=slots)
        first, number = int(old.blocks.first[0]), int(old.blocks.number[0])
        serials = np.arange(first, first + number)
        for array, before, after in zip(
            layout.arrays, layout.leaves(old), layout.leaves(self.state), strict=True
        ):
            if array.shape is not None and array.shape[0] == "slots":
                after[serials % slots] = before[serials % (slots // 2)]
            else:
                after[...] = before


class _Payment:
    """A state with the data of a policy's blocks, but with no evidence and only one slot.

    Attributes
    ----------
    arrays, state
        The arguments of the kernels, and the named views of them.
    slots : Slots
        The only slot of the state; it holds the open block.
    """

    def __init__(self, blocks: LiveBlocks) -> None:
        layout = blocks.kernels.STATE
        lengths = layout.lengths(blocks.floats, blocks.integers) | {"slots": 1}
        buffers = layout.allocate(**lengths)
        self.arrays = (blocks.arrays[0], *buffers)
        self.state = layout.view(*buffers)
        blocks.kernels.start(self.arrays)
        closed = blocks.closed
        if closed.any():
            # What was impossible with all arms may be possible now.
            self.state.book.rejected[:] = np.where(closed, CLOSED, 0)
        started = {*blocks.evidence, "blocks.first", "blocks.number"}
        for array in layout.arrays:
            by_slot = array.shape is not None and array.shape[0] == "slots"
            if not by_slot and array.path not in started:
                _leaf(self.state, array.path)[...] = _leaf(blocks.state, array.path)
        self.slots = Slots(layout, *buffers)
        self._paid = blocks.paid

    def open(self, serial: int) -> None:
        """Make a paid block the only open one, with its bets not yet paid."""
        self._paid.restore(serial, self.slots, 0)
        self.state.blocks.first[0] = serial
        self.state.blocks.number[0] = 1


def _leaf(state: Any, path: str) -> Any:
    return attrgetter(path)(state)


def serial_of_tag(tag: int) -> int:
    """Return the serial number of a pull's block; -1 for none."""
    return tag if tag >= _OUTSIDE else -2 - tag


def pulls_left(forecast: float, waiting: float) -> float | None:
    """Return the forecast of the pulls left, at least those that open blocks still wait for."""
    return max(forecast, waiting) if math.isfinite(forecast) else None


def check_randomize(value: object, losses: str = "informative") -> Randomize:
    """Return `value` if it is a valid order of pulls.

    Raises
    ------
    InvalidArgument
        If it is not, or if arms are drawn on their own while lost pulls are made again: the pulls
        left in a block would then reveal the draws.
    """
    if not isinstance(value, bool) and value != "bernoulli":
        raise InvalidArgument("randomize", "must be True, False or 'bernoulli'", value)
    if value == "bernoulli" and losses == "ignorable":
        raise InvalidArgument("randomize", "must not be 'bernoulli' with losses='ignorable'", value)
    return value
