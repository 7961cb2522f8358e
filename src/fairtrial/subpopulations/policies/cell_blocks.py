"""What the blocks of this family do for their policy, whatever a pull gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from fairtrial.confidence.block_betting import LiveBlocks
from fairtrial.core.progress_parts import Predictions
from fairtrial.core.pull import Pull
from fairtrial.core.recommendation import Guarantee

__all__ = ["CellBlocks"]


class CellBlocks(LiveBlocks):
    """The blocks of a live policy whose actions are cells: base of all kinds."""

    more_fields: ClassVar[tuple[str, ...]] = ()
    """The attributes that are saved besides `fields`."""

    runs_compiled: ClassVar[bool] = True
    """Whether compiled code can make whole runs."""

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
