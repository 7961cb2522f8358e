"""Base class of the rules with phases and rejections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._cell_model import cell_model_of
from fairtrial.causal._clipped import Clipped
from fairtrial.causal._ledger import Ledger, open_ledger, require_fields
from fairtrial.causal.policies.base import FixedBudgetPolicy
from fairtrial.causal.policies.schedule import LEAST_BUDGET, phase_lengths, quality_margin
from fairtrial.causal.problem import Problem
from fairtrial.core.policy import State
from fairtrial.errors import InvalidArgument


class PhasedPolicy(FixedBudgetPolicy):
    """Base class of the rules with phases and rejections.

    Variant 1 estimates from the current phase's rows only, variant 2 from all rows so far.
    """

    _judges_by = ", by the clipped weights of this rule; the estimates shown use other weights"

    def __init__(
        self,
        problem: Problem,
        budget: int,
        variant: int = 2,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(problem, budget, seed)
        if self.budget < LEAST_BUDGET:
            raise InvalidArgument("budget", f"must be at least {LEAST_BUDGET} rows", budget)
        if problem.outcome_range is None:
            raise InvalidArgument(
                "problem", "must give outcome_range: the rule clips outcomes", problem
            )
        if variant not in (1, 2) or isinstance(variant, bool):
            raise InvalidArgument("variant", "must be 1 or 2", variant)
        self.variant = int(variant)
        self._recent = open_ledger(cell_model_of(problem)) if self.variant == 1 else self._ledger

    @property
    def _lengths(self) -> Sequence[int]:
        return phase_lengths(self.budget)

    def _ledgers(self) -> list[Ledger]:
        return [self._ledger] if self.variant == 2 else [self._ledger, self._recent]

    def _record(
        self, phase: int, arm: int, forced: bool, value: int, cell: Any, reward: float
    ) -> None:
        super()._record(phase, arm, forced, value, cell, reward)
        # Unsolicited rows have no phase: they count in the phase in which they arrive.
        if self.variant == 1 and phase in (0, self._phase + 1):
            self._recent.add_one(arm, forced, value, cell, reward)

    def _close_phase(self) -> None:
        super()._close_phase()
        if self.variant == 1:
            self._recent.clear()

    def _clipped(self, level: int) -> Clipped:
        return Clipped(self.problem, self._recent.records(), 2.0 * level)

    def _judge_means(self, level: int) -> None:
        """Reject arms that are too bad to be the best; in the last phase, set the answer."""
        means = np.where(self._live, self._clipped(level).means(), np.nan)
        known = ~np.isnan(means)
        if known.any():
            with np.errstate(invalid="ignore"):
                bad = means < np.nanmax(means) - quality_margin(level)
            self._live = self._live & ~bad
            self._leader = int(np.nanargmax(means))
        if self._live.sum() == 1:
            self._decide(int(np.argmax(self._live)))
        elif self._phase + 1 == len(self._lengths):
            best = int(np.nanargmax(means)) if known.any() else int(np.argmax(self._live))
            self._decide(best, bool(known.any() and (means == means[best]).sum() > 1))

    def get_state(self) -> State:
        """Return the complete state as named arrays."""
        state = super().get_state()
        if self.variant == 1:
            state.update({f"recent_{key}": v for key, v in self._recent.get_state().items()})
        return state

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from a state."""
        if self.variant == 1:
            require_fields(self._recent, state, "recent_")
        super().set_state(state)
        if self.variant == 1:
            own = {name: state[f"recent_{name}"] for name in self._recent.fields}
            self._recent.set_state(own)
