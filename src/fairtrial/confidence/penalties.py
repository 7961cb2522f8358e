"""Terms of the thresholds, for numbers, arrays and kernels alike.

Kernels compile these functions, too. So this module imports nothing that changes often: each change
would make every kernel compile again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["iterated_logarithm_penalty", "mixture_penalty", "stylised_threshold"]


def stylised_threshold(rounds: Any, delta: float) -> Any:
    """Return ``ln((1 + ln t) / delta)``."""
    return np.log((1.0 + np.log(rounds)) / delta)


def mixture_penalty(pulls: Any, kappa: Any) -> Any:
    """Return what one cell adds to a pair's mixture threshold: ``1/2 ln(1 + N / kappa)``."""
    return 0.5 * np.log1p(pulls / kappa)


def iterated_logarithm_penalty(pulls: Any) -> Any:
    """Return what one cell adds to a Kaufmann-Koolen threshold: ``2 ln(4 + ln N)``."""
    return 2.0 * np.log(4.0 + np.log(pulls))
