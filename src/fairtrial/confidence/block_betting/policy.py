"""What policies that bet on blocks have in common, whatever their family."""

from __future__ import annotations

from fairtrial.confidence.block_betting.live import LiveBlocks, Randomize
from fairtrial.core.fixed_confidence import FixedConfidencePolicy

__all__ = ["BlockPolicy"]


class BlockPolicy(FixedConfidencePolicy):
    """A policy whose pulls are those of `LiveBlocks`; its family says the rest."""

    randomize: Randomize
    _blocks: LiveBlocks

    @property
    def randomizes(self) -> bool:
        """Whether pulls come in random order."""
        return self.randomize is not False

    def conceal(self, secret: str) -> None:
        """Toss all coins by a secret instead of the seed, before the first pull."""
        super().conceal(secret)
        self._blocks.use_key(self._key)

    @property
    def _is_reopened(self) -> bool:
        return self._blocks.reopened > 0 and not self._finished

    def _remaining(self, evidence: float | None, threshold: float | None) -> float | None:
        return self._blocks.pulls_left
