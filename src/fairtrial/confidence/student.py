"""Evidence, valid at all times, that a mean is positive when the variance is unknown."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fairtrial.core import Guarantee, Parametrized
from fairtrial.core.validation import (
    check_error_probability,
    check_integer,
    check_number,
    check_numbers,
)

__all__ = ["StudentMixture"]

Floats = NDArray[np.float64]

_HALVINGS = 60


@dataclass(frozen=True, repr=False)
class StudentMixture(Parametrized):
    """Student's t mixed over a half-normal prior of the mean, in standard deviations.

    The e-value of n normal values against "their mean is at most 0" is the likelihood ratio of the
    scale-invariant part of the data: the right-Haar mixture over the standard deviation cancels.
    With mean m, squares S about it, B = n m^2, a = 1 + n r, b = a + n g (g = `effect` squared, r =
    `overlap`), it is::

        2 sqrt(a/b) ((S + B/a) / (S + B/b))^(n/2) T_n(t),   t^2 = B n^2 g / (a b (S + B/b))

    T_n is the distribution function of Student's t with n degrees of freedom, and t has the sign
    of m. It is a martingale under mean 0, whatever the standard deviation, and grows with the
    mean. So the probability that its log ever reaches ``log(1/level)`` is at most `level` for every
    mean that is not positive.

    Parameters
    ----------
    effect : float
        Scale of the prior: the typical size of a mean, in standard deviations; more than 0.
    overlap : float
        Variance of an error that all values share, in units of the variance of one value around it;
        more values do not reduce it. For scores on random splits of one data set, it is the number
        of test rows divided by the number of training rows.

    Raises
    ------
    InvalidArgument
        If `effect` is not positive, or `overlap` negative.

    Notes
    -----
    The test is exact if the values are normal, and independent apart from the shared error. Scores
    on splits satisfy neither exactly, and the size of the shared error is a rule of thumb. So a
    search that uses this test is *calibrated*: its error rate was measured.

    References
    ----------
    Lai, "On confidence sequences", Annals of Statistics 4, 1976. Wang and Ramdas, "Anytime-valid
    t-tests and confidence sequences for Gaussian means with unknown variance", Sequential Analysis
    44, 2025. The shared error: Nadeau and Bengio, "Inference for the generalization error",
    Machine Learning 52, 2003, section 3.

    Examples
    --------
    >>> StudentMixture().log_evidence(5, [0.3, 0.0], 0.08).round(2)
    array([ 2.86, -0.9 ])
    >>> StudentMixture(overlap=0.25).log_evidence(5, 0.3, 0.08).round(2)
    np.float64(1.76)
    """

    effect: float = 1.0
    overlap: float = 0.0

    name: ClassVar[str] = "student-mixture"
    source: ClassVar[str] = (
        "Lai (1976), On confidence sequences; Wang and Ramdas (2025), Anytime-valid t-tests; "
        "shared error: Nadeau and Bengio (2003), Inference for the generalization error"
    )

    def __post_init__(self) -> None:
        check_number("effect", self.effect, low=0.0, open_low=True)
        check_number("overlap", self.overlap, low=0.0)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What has to be true for the guarantee."""
        if not self.overlap:
            return ("the values are independent and normal",)
        return (
            "the values are normal, and independent except for an error that they share",
            f"the shared error has {self.overlap:.3g} times the variance of a value",
        )

    def guarantee(self, level: float) -> Guarantee:
        """Return the guarantee of a test at a given level.

        Parameters
        ----------
        level : float
            Probability, in (0, 1), that the test is ever wrong.

        Examples
        --------
        >>> StudentMixture().guarantee(0.05).label
        'calibrated'
        """
        check_error_probability("level", level)
        return Guarantee(
            name=self.name,
            proven=False,
            calibrated=True,
            statement=(
                "the probability that a mean that is not positive is ever called positive is at "
                f"most {level:g}"
            ),
            assumptions=self.assumptions,
            source=self.source,
        )

    def log_evidence(self, count: int, mean: ArrayLike, squares: ArrayLike) -> Floats:
        """Return the log e-value against "the mean is at most 0".

        Parameters
        ----------
        count : int
            Number of values, at least 0.
        mean : array_like
            Their mean, in their units.
        squares : array_like
            Sum of their squares about the mean, at least 0; broadcast against `mean`.

        Returns
        -------
        ndarray of float
            In nats; 0 if there are no values or all values are 0, because they carry no evidence.

        Raises
        ------
        InvalidArgument
            If an argument is not finite or outside its range.
        """
        check_integer("count", count, low=0)
        means = check_numbers("mean", mean)
        about = check_numbers("squares", squares, low=0.0)
        return self._log_evidence(count, np.sign(means), _share_about(count, means, about))

    def _log_evidence(self, count: int, sign: Floats, share: Floats) -> Floats:
        """Return the log e-value for the share of S in S + B; 0 where the share is NaN."""
        if not count:
            return np.zeros(np.shape(share))
        a, b = self._growth(count)
        narrow, wide = share + (1.0 - share) / a, share + (1.0 - share) / b
        t = sign * count * self.effect * np.sqrt((1.0 - share) / (a * b * wide))
        with np.errstate(divide="ignore"):
            one_sided = np.log(2.0 * scipy.special.stdtr(count, t))
        evidence = 0.5 * (math.log(a / b) + count * np.log(narrow / wide)) + one_sided
        return np.asarray(np.where(np.isnan(share), 0.0, evidence))

    def _growth(self, count: int) -> tuple[float, float]:
        """Return the growth of the sum's variance under the null and under the prior: a and b."""
        a = 1.0 + count * self.overlap
        return a, a + count * self.effect**2

    def least_mean(self, count: int, squares: ArrayLike, log_evidence: float) -> Floats:
        """Return the smallest mean, 0 or more, whose evidence reaches a given amount.

        Parameters
        ----------
        count : int
            Number of values, at least 0.
        squares : array_like
            Sum of their squares about their mean, at least 0.
        log_evidence : float
            Required evidence in nats: ``log(1/level)``.

        Returns
        -------
        ndarray of float
            Has the shape of `squares`, in units of the values; infinite where no mean is enough.

        Raises
        ------
        InvalidArgument
            If an argument is not finite or outside its range.

        Examples
        --------
        >>> StudentMixture().least_mean(5, 0.08, 3.0).round(3)
        np.float64(0.324)
        """
        check_integer("count", count, low=0)
        about = check_numbers("squares", squares, low=0.0)
        wanted = check_number("log_evidence", log_evidence)
        share = self._largest_share(count, wanted)
        if math.isnan(share):
            return np.full(np.shape(about), math.inf)
        return np.asarray(np.sqrt(about / count * ((1.0 - share) / share)))

    def _largest_share(self, count: int, wanted: float) -> float:
        """Return the largest share of S in S + B with enough evidence, or NaN."""

        def suffices(log_share: float) -> bool:
            share = np.array(math.exp(log_share))
            return bool(self._log_evidence(count, np.array(1.0), share) >= wanted)

        low, high = math.log(np.finfo(float).tiny), 0.0
        if not count or not suffices(low):
            return math.nan
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if suffices(middle) else (low, middle)
        return math.exp(low)

    def in_the_limit(self, effect: ArrayLike) -> Floats:
        """Return the limit of the log e-value as the number of values grows.

        Parameters
        ----------
        effect : array_like
            Mean, in units of the standard deviation of one value.

        Returns
        -------
        ndarray of float
            Without a shared error, it is infinite if the mean is positive and minus infinity if
            not.

        Raises
        ------
        InvalidArgument
            If an effect is not finite.

        Examples
        --------
        >>> StudentMixture(overlap=0.25).in_the_limit([1.0, 2.0]).round(2)
        array([1.45, 6.29])
        """
        effects = check_numbers("effect", effect)
        if not self.overlap:
            return np.where(effects > 0.0, math.inf, -math.inf)
        null, prior = self.overlap, self.overlap + self.effect**2
        grown = 0.5 * (math.log(null / prior) + effects**2 * (1.0 / null - 1.0 / prior))
        t = effects * self.effect / math.sqrt(null * prior)
        return np.asarray(grown + math.log(2.0) + scipy.special.log_ndtr(t))


def _share_about(count: int, mean: Floats, squares: Floats) -> Floats:
    """Return S / (S + B), NaN if both are 0, without overflow or underflow of squares."""
    deviation = np.sqrt(squares / max(count, 1))
    total = np.hypot(mean, deviation)
    with np.errstate(invalid="ignore"):
        return np.asarray((deviation / total) ** 2)
