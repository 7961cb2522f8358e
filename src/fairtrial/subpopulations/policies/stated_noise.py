"""Whether the results contradict what is stated of their noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.noise_test import FALSE_ALARM, NoiseTest
from fairtrial.core.recommendation import Guarantee

__all__ = ["Contradiction", "StatedNoise", "as_results_allow", "contradiction_of", "warnings_of"]

Floats = NDArray[np.float64]


class StatedNoise(NamedTuple):
    """The stated noise that a record of results is tested against."""

    what: str
    """The statement that is tested, in words."""

    spreads: str
    """The quantity that spreads, with its verb."""

    share: float
    """This test's share of the probability of a false alarm."""

    is_combined: bool = False
    """Whether the tested quantity is a sum of several measures of a pull."""


class Contradiction(NamedTuple):
    """The statement about the noise, and how the results contradict it."""

    stated: str
    finding: str


def contradiction_of(
    records: Sequence[Floats], tested: Sequence[StatedNoise] | None = None
) -> Contradiction | None:
    """Return a statement about the noise that the results contradict, if there is one.

    Single measures come before sums of several, because a measure's spread explains theirs.

    Parameters
    ----------
    records : sequence of ndarray
        How results spread; each record is tested separately.
    tested : sequence of StatedNoise, optional
        The statement that each record tests; by default its part of the one stated noise.
    """
    if tested is None:
        tested = [StatedNoise("noise_std", "they spread", 1.0 / len(records)) for _ in records]
    found = []
    for record, stated in zip(records, tested, strict=True):
        test = NoiseTest(record)
        if test.log_evidence >= -math.log(FALSE_ALARM * stated.share):
            found.append((not stated.is_combined, test.estimated_inflation or 1.0, stated))
    if not found:
        return None
    _, excess, stated = max(found, key=lambda one: one[:2])
    return Contradiction(stated.what, f"{stated.spreads} {excess:.2g} times as widely")


def warnings_of(contradiction: Contradiction | None) -> tuple[str, ...]:
    """Return a warning if the results contradict the stated noise."""
    if contradiction is None:
        return ()
    found = f"the results contradict the stated {contradiction.stated}: {contradiction.finding}"
    return (f"{found}, so answers are wrong more often than promised",)


def as_results_allow(promise: Guarantee, contradiction: Contradiction | None) -> Guarantee:
    """Return a guarantee; not proven any more if the results contradict the stated noise."""
    if contradiction is None:
        return promise
    return promise.weakened(
        f"{contradiction.stated} is right, which the results contradict: {contradiction.finding}"
    )
