"""The engine that all families share: bets, blocks, their payment, and the guarantee.

`bets` and `blocks` are compiled and called by the families' kernels; importing this package does
not load the compiler.
"""

from fairtrial.confidence.block_betting.guarantee import promise, promise_for_normal_noise
from fairtrial.confidence.block_betting.live import (
    BlockKernels,
    LiveBlocks,
    Randomize,
    check_randomize,
    pulls_left,
)
from fairtrial.confidence.block_betting.policy import BlockPolicy, answers_with_wealth

__all__ = [
    "BlockKernels",
    "BlockPolicy",
    "LiveBlocks",
    "Randomize",
    "answers_with_wealth",
    "check_randomize",
    "promise",
    "promise_for_normal_noise",
    "pulls_left",
]
