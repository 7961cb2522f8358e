"""Units of the test of a stated noise, and the record of what a tracker's evidence rests on."""

import math

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.compilation import kernel
from fairtrial.subpopulations._kernels.model import Model

Records = NDArray[np.float64]
"""Shape (1, cells, NUMBERED_COLUMNS), or empty if no noise is stated."""

SETTLED = 0


@kernel
def in_units(model: Model, cell: int, reward: float) -> float:
    """Return a reward in units of the stated noise of its cell."""
    groups = model.weights.size
    return reward / math.sqrt(model.variances[cell // groups, cell % groups])
