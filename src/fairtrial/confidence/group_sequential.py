"""The usual group-sequential design: tests of arms against a control at a few planned looks."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from fairtrial.core.validation import check_choice, check_error_probability, check_integer

__all__ = ["GroupSequential", "Shape", "boundaries"]

Floats = NDArray[np.float64]
Shape = Literal["obrien-fleming", "pocock"]

_NODES = 200
"""Nodes of the quadrature between looks; the constants are then right to six digits."""

_REACH = 8.0
"""Below this value the statistic is not followed: its probability is below 1e-15."""


def boundaries(looks: int, level: float, shape: Shape) -> Floats:
    """Return the values that a one-sided test statistic must exceed at equally spaced looks.

    Parameters
    ----------
    looks : int
        Number of looks.
    level : float
        Probability of ever exceeding them if there is no difference.
    shape : {"obrien-fleming", "pocock"}
        Falling with the square root of the information, or the same at every look.

    Notes
    -----
    They are computed by the recursion of Armitage, McPherson and Rowe (1969). A two-sided test at
    level 0.05 has nearly the constants of a one-sided one at 0.025.

    Examples
    --------
    >>> boundaries(5, 0.025, "pocock").round(2).tolist()
    [2.41, 2.41, 2.41, 2.41, 2.41]
    >>> boundaries(5, 0.025, "obrien-fleming").round(2).tolist()
    [4.56, 3.23, 2.63, 2.28, 2.04]
    """
    looks = check_integer("looks", looks, low=1)
    level = check_error_probability("level", level)
    check_choice("shape", shape, ["obrien-fleming", "pocock"])
    places = np.arange(1, looks + 1)
    form = np.sqrt(looks / places) if shape == "obrien-fleming" else np.ones(looks)

    def excess(constant: float) -> float:
        return float(_crossings(constant * form, 0.0).sum() - level)

    single = float(-scipy.special.ndtri(level))
    most = float(-scipy.special.ndtri(level / looks))
    constant = single if looks == 1 else scipy.optimize.brentq(excess, single, most + 1e-9)
    return np.asarray(constant * form)


def _crossings(limits: Floats, drift: float) -> Floats:
    """Return the probability of first exceeding each limit; `drift` is the last look's mean."""
    looks = limits.size
    step, heights = drift / math.sqrt(looks), limits * np.sqrt(np.arange(1, looks + 1))
    # Sums of one increment per look, each with a standard deviation of 1.
    nodes, weights = _nodes()
    found = [float(scipy.special.ndtr(step - heights[0]))]
    points, mass = _quadrature(nodes, weights, step, heights[0], 1)
    density = mass * np.exp(-0.5 * (points - step) ** 2) / math.sqrt(2.0 * math.pi)
    for look in range(1, looks):
        found.append(float(density @ scipy.special.ndtr(points + step - heights[look])))
        after, mass = _quadrature(nodes, weights, step, heights[look], look + 1)
        apart = after[:, np.newaxis] - points - step
        density = mass * (np.exp(-0.5 * apart**2) @ density) / math.sqrt(2.0 * math.pi)
        points = after
    return np.array(found)


@functools.cache
def _nodes() -> tuple[Floats, Floats]:
    """Return nodes and weights of the quadrature in [-1, 1]; they take longer than the rest."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return nodes, weights


def _quadrature(
    nodes: Floats, weights: Floats, step: float, height: float, look: int
) -> tuple[Floats, Floats]:
    """Return points and weights below a limit, where the sum can be after that look."""
    low = min(step * look - _REACH * math.sqrt(look), height - _REACH)
    half = (height - low) / 2.0
    return low + half * (nodes + 1.0), half * weights


@dataclass(frozen=True)
class GroupSequential:
    """Arms against one control, with equal numbers, and planned looks for efficacy.

    Each arm is tested one-sidedly by a normal test with known variances, at the level
    ``delta / arms`` over all looks (Bonferroni). The trial ends at the first look at which an arm
    exceeds its boundary, and names the one with the largest estimated mean. Several tests that an
    arm must pass together are in `intersection_union`.

    Parameters
    ----------
    arms : int
        Number of arms besides the control.
    delta : float
        Error probability over all arms and looks.
    shape : {"obrien-fleming", "pocock"}
        The boundary.
    looks : int
        Number of equally spaced looks; 1 is the experiment of fixed size.

    Examples
    --------
    The textbook size of one comparison, ``2 (1.96 + 1.2816)^2`` per arm:

    >>> GroupSequential(arms=1, delta=0.025, shape="pocock", looks=1).size(1.0, 2.0, 0.9)
    44
    """

    arms: int
    delta: float
    shape: Shape
    looks: int = 5

    @property
    def critical_values(self) -> Floats:
        """The boundary of each test statistic of an arm at each look."""
        return boundaries(self.looks, self.delta / self.arms, self.shape)

    def size(self, difference: float, variance: float, power: float) -> int | None:
        """Return the most results, in all arms, that give one arm's test this power.

        Parameters
        ----------
        difference : float
            How much better that arm is than the control.
        variance : float
            The sum of both arms' variances of one result.
        power : float
            Probability of exceeding the boundary at any look.

        Returns
        -------
        int or None
            A multiple of the looks and of the number of arms with the control; None if the arm is
            not better.
        """
        if not difference > 0.0:
            return None
        limits = self.critical_values

        def missing(drift: float) -> float:
            return power - float(_crossings(limits, drift).sum())

        most = float(limits[-1] - scipy.special.ndtri((1.0 - power) / 2.0)) + 1.0
        drift = float(scipy.optimize.brentq(missing, 0.0, most))
        each = drift**2 * variance / difference**2
        return self.looks * (self.arms + 1) * math.ceil(each / self.looks - 1e-9)
