"""The one engine of block betting: bets, blocks, what is paid, and what is promised.

`bets` and `blocks` are compiled, and called by the kernels of families; this page loads no
compiler.
"""

from fairtrial.confidence.block_betting.guarantee import promise
from fairtrial.confidence.block_betting.live import (
    BlockKernels,
    LiveBlocks,
    Randomize,
    check_randomize,
    pulls_left,
)
from fairtrial.confidence.block_betting.policy import BlockPolicy

__all__ = [
    "BlockKernels",
    "BlockPolicy",
    "LiveBlocks",
    "Randomize",
    "check_randomize",
    "promise",
    "pulls_left",
]
