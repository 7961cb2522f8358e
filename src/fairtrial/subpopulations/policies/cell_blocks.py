"""What the blocks of this family do for their policy, whatever a pull gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting import LiveBlocks
from fairtrial.core.progress_parts import Predictions
from fairtrial.core.pull import Pull
from fairtrial.core.recommendation import Guarantee

__all__ = ["CellBlocks"]


class CellBlocks(LiveBlocks):
    """The blocks of a live policy whose actions are cells: base of all kinds.

    Attributes
    ----------
    repeats : list of [int, int]
        Action and block of each pull that was made again, or is to be: as many as `replaced`.
    unmade : int
        Planned pulls of closed arms that are not made, with a known noise, in blocks whose bets
        compare others with the arm: these bets leave them out.
    never_compared : list of int
        Closed arms, with a known noise, of which no result had come before: no bet was on them, so
        nothing could rule them out wrongly.
    """

    more_fields: ClassVar[tuple[str, ...]] = ("repeats", "unmade", "never_compared")
    """The attributes that are saved besides `fields`."""

    runs_compiled: ClassVar[bool] = True
    """Whether compiled code can make whole runs."""

    def __init__(self, *arguments: Any, **dimensions: Any) -> None:
        super().__init__(*arguments, **dimensions)
        self.repeats: list[list[int]] = []
        self.unmade = 0
        self.never_compared: list[int] = []

    @property
    def pulls_with_values(self) -> NDArray[np.float64]:
        """Pulls that gave a value, by cell, shape (K, L)."""
        return np.asarray(self.state.counts)

    def _note_replacements(self, action: int, tag: int, number: int) -> None:
        super()._note_replacements(action, tag, number)
        pull = [action, tag]
        for _ in range(-number):
            self.repeats.remove(pull)
        self.repeats += [pull] * number

    def give_back(self, actions: Collection[int]) -> None:
        """Let other pulls be made again instead of those of these actions that were not made yet.

        Nobody asks for these actions any more. Which of the pulls that a block has left stand for
        lost ones is not recorded: those beyond the planned ones were made again, and all others
        are given back. So no place is used twice.
        """
        for (action, serial), number in Counter(map(tuple, self.repeats)).items():
            if action not in actions:
                continue
            left = self._left_to_issue(action, serial) + self.never_issued.count([action, serial])
            self._note_replacements(action, serial, -min(number, left))

    def close_arm(self, arm: int, actions: Iterable[int], rules: Any) -> None:
        """Make an arm no answer any more, and issue none of its planned pulls."""
        if not self.has_worst_values:
            self.unmade += self._needed_of(arm, list(actions))
            if not self.pulls_with_values[arm].any():
                self.never_compared.append(arm)
        super().close_arm(arm, actions, rules)

    def _needed_of(self, arm: int, actions: list[int]) -> int:
        """Return how many planned pulls are left in blocks whose bets have the arm as target."""
        state, first = self.state, self._first.item()
        slots = [self._slot_of(serial) for serial in range(first, first + self._number.item())]
        of_target = [
            slot
            for slot in slots
            if state.bets.number[slot] and arm in (state.target[slot], state.runner_up[slot])
        ]
        return int(state.blocks.to_issue[of_target][:, actions].sum())

    def as_it_stands(self, promise: Guarantee, *, left_out: int) -> Guarantee:
        """Add to a guarantee what it assumes about losses, corrections and closed arms so far."""
        promise = super().as_it_stands(promise, left_out=left_out)
        event = "of a closed arm got lost, for reasons assumed to be unrelated to rewards"
        return promise.weakened_by(self.unmade, "planned pull", event)

    @property
    def replacements_never_made(self) -> tuple[int, ...]:
        """The actions of the pulls in `never_issued` that would have been in place of lost ones.

        Of the pulls of an action and block, those in place of lost ones count as made last.
        """
        return tuple(
            action
            for (action, serial), number in Counter(map(tuple, self.repeats)).items()
            for _ in range(min(number, self.never_issued.count([action, serial])))
        )

    def is_closed(self, action: int) -> bool:
        """Return whether people have closed the arm of a cell."""
        # The last of the answers is "none".
        arms = self.closed[:-1]
        groups = self.state.blocks.lost.size // arms.size
        return bool(arms[action // groups])

    def of_pull(self, pull: Pull, outcome: Any) -> Any:
        """Return the outcome of a pull in the form that the kernels take."""
        return outcome

    def issue(
        self, number: int, predictions: Sequence[float | None], action: int, tag: int
    ) -> None:
        """Record what was known of the unit of the pull that is issued next."""

    @property
    def found(self) -> Predictions | None:
        """What predictions did so far; None if units have none."""
        return None

    def warnings(self) -> tuple[str, ...]:
        """Return what is wrong with what was known of units."""
        return ()

    def as_it_holds(self, stated: Guarantee, *, ignores_losses: bool) -> Guarantee:
        """Return a guarantee with what is assumed about what was known of units."""
        return stated
