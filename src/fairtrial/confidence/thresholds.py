"""Named stopping thresholds of the one-draw-at-a-time rules, proven or heuristic.

A *cell* is what one pull measures: an arm in a group. `level` is the error probability of one
test, `delta` that of the whole answer. The family decides how many tests share `delta`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fairtrial.confidence.penalties import (
    iterated_logarithm_penalty,
    mixture_penalty,
    stylised_threshold,
)
from fairtrial.core import Guarantee, Parametrized
from fairtrial.core.keywords import named_arguments
from fairtrial.core.validation import (
    check_choice,
    check_error_probability,
    check_number,
    check_numbers,
)
from fairtrial.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "KAPPA_GRID",
    "GaussianMixture",
    "KaufmannKoolen",
    "Stylised",
    "StylisedWithoutHalf",
    "Threshold",
    "kaufmann_koolen_constant",
    "threshold_named",
]

Floats = NDArray[np.float64]

KAPPA_GRID: Floats = 8.0 * 4.0 ** np.arange(7, dtype=np.float64)
"""Prior counts over which the mixture is averaged, so no scale has to be guessed."""
KAPPA_GRID.setflags(write=False)

_ASSUMPTIONS = (
    (
        "the noise of each outcome has mean zero and is sub-Gaussian with the known scale, "
        "whatever happened before"
    ),
    "whether and when an outcome is told does not depend on its value",
)


class Threshold(Parametrized, ABC):
    """Base class of the stopping thresholds.

    Attributes
    ----------
    name : str
        Its name in `threshold_named`, in configurations and in results.
    proven : bool
        False for a heuristic.
    source : str
        Where it comes from.
    assumptions : tuple of str
        What has to be true for the guarantee to hold.
    """

    name: ClassVar[str]
    proven: ClassVar[bool]
    source: ClassVar[str]
    assumptions: ClassVar[tuple[str, ...]]

    def guarantee(self, delta: float) -> Guarantee:
        """Return the guarantee of a rule that stops by this threshold.

        Parameters
        ----------
        delta : float
            Error probability of the whole answer, in (0, 1).

        Examples
        --------
        >>> GaussianMixture().guarantee(0.05).label
        'proven'
        """
        return Guarantee(
            name=self.name,
            proven=self.proven,
            statement=self._statement(check_error_probability("delta", delta)),
            assumptions=self.assumptions,
            source=self.source,
        )

    @abstractmethod
    def _statement(self, delta: float) -> str:
        """Return the promise in one sentence."""


# ------------------------------------------------------------------------- heuristics


@dataclass(frozen=True, repr=False)
class Stylised(Threshold):
    """Heuristic of the papers: stop when Z exceeds ``ln((1 + ln t) / delta)``.

    Z is half the weakest pitfall, t the number of results. It is no guarantee: if many cells of
    the right answer are close to their floors, it can be wrong three times as often as delta.

    Examples
    --------
    >>> Stylised().threshold(1000, delta=0.1).round(4)
    np.float64(4.3704)
    """

    name: ClassVar[str] = "stylised"
    proven: ClassVar[bool] = False
    source: ClassVar[str] = (
        "Garivier, Kaufmann (2016), Optimal best arm identification with fixed confidence, "
        "section 6; Wu, Zheng, Zhu, Best arm identification with fairness constraints on "
        "subpopulations, section 4.2"
    )
    assumptions: ClassVar[tuple[str, ...]] = _ASSUMPTIONS

    def threshold(self, rounds: ArrayLike, delta: float) -> Floats:
        """Return the value that Z, half the weakest pitfall, has to exceed.

        Parameters
        ----------
        rounds : array_like
            Number of results so far, at least 1.
        delta : float
            Nominal error probability, in (0, 1).

        Returns
        -------
        ndarray of float
            Has the shape of `rounds`.
        """
        counts = check_numbers("rounds", rounds, low=1.0)
        return np.asarray(stylised_threshold(counts, check_error_probability("delta", delta)))

    def _statement(self, delta: float) -> str:
        return (
            f"aims at a wrong answer with probability at most {delta:g}; that is not proven, "
            "and fails on some problems"
        )


@dataclass(frozen=True, repr=False)
class StylisedWithoutHalf(Stylised):
    """The heuristic as used in the published tables; only for replicating them.

    The published figures compare twice Z, the pitfall without its factor 1/2, with the stylised
    threshold. So Z itself has to exceed half of that threshold.

    Examples
    --------
    >>> StylisedWithoutHalf().threshold(1000, delta=0.1).round(4)
    np.float64(2.1852)
    """

    name: ClassVar[str] = "stylised-without-half"
    source: ClassVar[str] = (
        "Wu, Zheng, Zhu, Best arm identification with fairness constraints on subpopulations: "
        "what section 5 must have computed, against the printed formula"
    )

    def threshold(self, rounds: ArrayLike, delta: float) -> Floats:
        """Return half of the stylised threshold, which Z has to exceed."""
        return np.asarray(0.5 * super().threshold(rounds, delta))

    def _statement(self, delta: float) -> str:
        return f"reproduces published figures at delta = {delta:g}; is wrong more often than that"


# ----------------------------------------------------------------------------- proven


class _Proven(Threshold):
    """A threshold that keeps the error probability under any sampling rule."""

    proven: ClassVar[bool] = True
    assumptions: ClassVar[tuple[str, ...]] = _ASSUMPTIONS

    def _statement(self, delta: float) -> str:
        return (
            f"the probability of ever stopping with a wrong answer is at most {delta:g}, "
            "under any sampling rule"
        )


@dataclass(frozen=True, repr=False)
class GaussianMixture(_Proven):
    """Gaussian-mixture e-values, the proven default of the one-draw-at-a-time rules.

    Under the null, an e-value is a non-negative supermartingale that starts at 1. The probability
    that it ever reaches ``1 / level`` is at most `level` (Ville).

    Parameters
    ----------
    kappa : float, optional
        Prior count of the mixture, more than 0. The best value is near the count at which the tests
        will be decided. By default the e-values are averaged over `KAPPA_GRID`.

    Examples
    --------
    >>> GaussianMixture().cell_threshold(50, level=0.05).round(4)
    np.float64(2.9957)
    >>> GaussianMixture(kappa=40).pair_threshold([40, 40], level=0.05).round(4)
    array([3.6889])
    """

    kappa: float | None = None

    name: ClassVar[str] = "certified"
    source: ClassVar[str] = (
        "Robbins (1970), Statistical methods related to the law of the iterated logarithm; "
        "Kaufmann, Koolen (2021), Mixture martingales revisited, JMLR 22(246); worked out for "
        "floors on subpopulations in fairtrial's documentation"
    )

    def __post_init__(self) -> None:
        if self.kappa is not None:
            check_number("kappa", self.kappa, low=0.0, open_low=True)

    @property
    def kappas(self) -> Floats:
        """The prior counts in use, shape (G,)."""
        return KAPPA_GRID if self.kappa is None else np.array([self.kappa], dtype=np.float64)

    def cell_threshold(self, pulls: ArrayLike, level: float) -> Floats:
        """Return ``ln(1 / level)``, which a cell's log e-value has to reach, at any count.

        Parameters
        ----------
        pulls : array_like
            Counts of the cells, at least 1.
        level : float
            Error probability of the test, in (0, 1).

        Returns
        -------
        ndarray of float
            Has the shape of `pulls`.
        """
        return np.full(check_numbers("pulls", pulls, low=1.0).shape, _log_inverse(level))

    def pair_threshold(self, pulls: ArrayLike, level: float) -> Floats:
        """Return the value that half a pair's pitfall has to reach, for each prior count.

        The pitfall is computed with precisions shrunk to ``N^2 / ((N + kappa) sigma^2)``.

        Parameters
        ----------
        pulls : array_like, shape (..., cells)
            Counts, at least 1, of the cells that take part in the test.
        level : float
            Error probability of the test, in (0, 1).

        Returns
        -------
        ndarray of float, shape (..., G)
            One for each of `kappas`: ``ln(G / level) + 1/2 sum ln(1 + N / kappa)``.
        """
        counts = _cells(pulls)
        penalties = mixture_penalty(counts[..., np.newaxis, :], self.kappas[:, np.newaxis])
        return np.asarray(_log_inverse(level) + math.log(self.kappas.size) + penalties.sum(axis=-1))


@dataclass(frozen=True, repr=False)
class KaufmannKoolen(_Proven):
    """Threshold of Kaufmann and Koolen: grows like ``ln ln N``, but costs far more in practice.

    It is compared with half the squared standardised distance (one cell) or half the pitfall (a
    pair), at plain precisions.

    Examples
    --------
    >>> KaufmannKoolen().cell_threshold(100, level=0.05).round(4)
    np.float64(8.9486)
    """

    name: ClassVar[str] = "kaufmann-koolen"
    source: ClassVar[str] = (
        "Kaufmann, Koolen (2021), Mixture martingales revisited with applications to sequential "
        "tests and confidence intervals, JMLR 22(246), Gaussian case"
    )

    def cell_threshold(self, pulls: ArrayLike, level: float) -> Floats:
        """Return ``2 ln(4 + ln N) + C(ln(1 / level))`` for each cell.

        Parameters
        ----------
        pulls : array_like
            Counts of the cells, at least 1.
        level : float
            Error probability of the test, in (0, 1).

        Returns
        -------
        ndarray of float
            Has the shape of `pulls`.
        """
        constant = kaufmann_koolen_constant(_log_inverse(level))
        return np.asarray(
            iterated_logarithm_penalty(check_numbers("pulls", pulls, low=1.0)) + constant
        )

    def pair_threshold(self, pulls: ArrayLike, level: float) -> Floats:
        """Return the sum of ``2 ln(4 + ln N) + C(x / m)`` over m cells, ``x = ln(1 / level)``.

        Parameters
        ----------
        pulls : array_like, shape (..., cells)
            Counts, at least 1, of the cells that take part in the test.
        level : float
            Error probability of the test, in (0, 1).

        Returns
        -------
        ndarray of float, shape (...)
        """
        counts = _cells(pulls)
        cells = counts.shape[-1]
        constant = kaufmann_koolen_constant(_log_inverse(level) / cells)
        return np.asarray(iterated_logarithm_penalty(counts).sum(axis=-1) + cells * constant)


def kaufmann_koolen_constant(x: float) -> float:
    """Return C(x), the part of the threshold that depends on the level.

    ``C(x) = min over lam in (1/2, 1) of (g(lam) + x) / lam`` with
    ``g(lam) = 2 lam - 2 lam ln(4 lam) + ln zeta(2 lam) - 1/2 ln(1 - lam)``.

    Parameters
    ----------
    x : float
        Log of the inverse level, divided among the cells of the test; at least 0.

    Examples
    --------
    >>> round(kaufmann_koolen_constant(3.0), 6)
    4.648365
    """
    check_number("x", x, low=0.0)

    def value(lam: float) -> float:
        entropy = 2.0 * lam * (1.0 - math.log(4.0 * lam))
        return (
            entropy + math.log(scipy.special.zeta(2.0 * lam)) - 0.5 * math.log(1.0 - lam) + x
        ) / lam

    # Every lam gives a valid threshold: an inexact minimum costs draws, not validity.
    found = scipy.optimize.minimize_scalar(
        value, bounds=(0.5, 1.0), method="bounded", options={"xatol": 1e-12}
    )
    return float(found.fun)


# ------------------------------------------------------------------ formulas and names
# Plain functions of their arguments: `special_kernels` compiles these very ones for the kernels.


_BY_NAME: Mapping[str, type[Threshold]] = {
    threshold.name: threshold
    for threshold in (GaussianMixture, KaufmannKoolen, Stylised, StylisedWithoutHalf)
}


@named_arguments
def threshold_named(name: str) -> Threshold:
    """Return the threshold named by a policy's argument ``stopping=``.

    Parameters
    ----------
    name : {"certified", "kaufmann-koolen", "stylised", "stylised-without-half"}
        The first two are proven, the others heuristics.

    Raises
    ------
    InvalidArgument
        If the name is none of these.

    Examples
    --------
    >>> threshold_named("certified")
    GaussianMixture()
    """
    return _BY_NAME[check_choice("stopping", name, list(_BY_NAME))]()


def _log_inverse(level: float) -> float:
    return -math.log(check_error_probability("level", level))


def _cells(pulls: ArrayLike) -> Floats:
    counts = check_numbers("pulls", pulls, low=1.0)
    if counts.ndim == 0 or counts.shape[-1] == 0:
        raise InvalidArgument("pulls", "must hold the counts of at least one cell", pulls)
    return counts
