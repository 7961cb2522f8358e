"""Limits of candidates: the arguments, and the restrictions on the parameter, row by row.

Every limit of a candidate is a *requirement*: a row of features times theta, or the difference of
two such rows, is at least some number. Ceilings, and rewards that are minimised, turn the sign.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.mistakes import did_you_mean
from fairtrial.core.validation import as_floats, check_number, plain_labels, require_each
from fairtrial.errors import InvalidArgument
from fairtrial.linear._coordinates import Coordinates, measured, outside, place

__all__ = [
    "LARGEST",
    "Requirement",
    "Rows",
    "bounds_by_candidate",
    "check_intervals",
    "check_reach",
    "in_words",
    "margins_by_candidate",
    "named_bounds",
    "none_if_free",
    "requirements_on",
    "rows_of_requirement",
    "superiority_of",
]

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

LARGEST = 1e200
"""The largest distance of a limit from 0."""

_MOST = 1e100
"""The largest size of a limit, in units of the noise; larger ones count as this."""

_ROUNDING = 1e-12
"""A prediction that misses its limit by this, relative to its size, counts as on it."""

_ACCURATE = 1e-10
"""The accepted error in the difference of two rows."""


class Requirement(NamedTuple):
    """One limit of every candidate, for rewards to be maximised.

    Attributes
    ----------
    name : str
        The argument with the limit: ``"floors"``, or ``"limits['cold'].margin"``.
    features : ndarray of shape (M, d)
        Features of the limited prediction of every candidate.
    factor : float
        1, or -1 if the prediction has an upper limit.
    least : ndarray of shape (M,)
        The least value of factor times prediction; minus infinity for a candidate without a limit.
    control : int
        The candidate whose prediction is subtracted; -1 for none.
    """

    name: str
    features: Floats
    factor: float
    least: Floats
    control: int = -1

    @property
    def limited(self) -> Booleans:
        """Which candidates have the limit."""
        return np.asarray(self.least > -math.inf)

    def distance(self, predicted: Floats) -> Floats:
        """Return how far predictions, shape (M,), are within the limit.

        Infinite for candidates without the limit. A prediction on the limit up to rounding counts
        as on it.
        """
        rounding = _ROUNDING * np.abs(predicted)
        if self.control >= 0:
            rounding = rounding + rounding[self.control]
            predicted = predicted - predicted[self.control]
        distance = self.factor * predicted - self.least
        return np.where(np.abs(distance) <= rounding, 0.0, distance)


class Rows(NamedTuple):
    """A requirement in reduced coordinates: ``rows @ phi >= least``, for every candidate.

    Attributes
    ----------
    rows : ndarray of shape (M, r)
        At most one in size; zeros for a candidate without the limit.
    least : ndarray of shape (M,)
        The required value, in the units of the rows.
    unit : ndarray of shape (M,)
        The unit of the rows, in units of the noise.
    constant : ndarray of shape (M,)
        How much a constant reward of one contributes to the row; 0 for differences.
    """

    rows: Floats
    least: Floats
    unit: Floats
    constant: Floats


# ---------------------------------------------------------------------------- arguments


def bounds_by_candidate(name: str, given: Any, answers: Sequence[str], free: float) -> Floats:
    """Return a bound for every candidate, shape (M,): one for all, in order, or by label.

    `free` is the value for "no limit", like None.
    """
    value = plain_labels(name, given)
    if isinstance(value, Mapping):
        unknown = [label for label in value if label not in answers]
        if unknown:
            accepted = f"must name candidates; {did_you_mean(str(unknown[0]), answers)}"
            raise InvalidArgument(name, accepted, unknown[0])
        value = [value.get(label) for label in answers]
    if value is None:
        value = free
    if isinstance(value, list | tuple):
        value = [free if entry is None else entry for entry in value]
    accepted = f"must be a number, or have shape ({len(answers)},), one for each candidate"
    bounds = as_floats(name, value, accepted)
    if bounds.shape not in ((), (len(answers),)):
        raise InvalidArgument(name, f"{accepted}; got shape {bounds.shape}")
    bounds = np.broadcast_to(bounds, len(answers)).copy()
    fine = (np.abs(bounds) <= LARGEST) | (bounds == free)
    accepted = f"must be a number within {LARGEST:g} of 0, None, or {free}"
    require_each(name, bounds, fine, accepted, [answers])
    bounds.setflags(write=False)
    return bounds


def margins_by_candidate(name: str, given: Any, answers: Sequence[str]) -> Floats:
    """Return a margin for every candidate, shape (M,); infinite for a candidate without one."""
    margins = bounds_by_candidate(name, given, answers, math.inf)
    require_each(name, margins, margins >= 0.0, "must not be negative", [answers])
    return margins


def superiority_of(given: float | None) -> float | None:
    """Return how much a candidate must exceed the control, if at all."""
    return None if given is None else check_number("superiority", given, low=0.0, high=LARGEST)


def named_bounds(given: Any) -> dict[str, Mapping[str, Any]]:
    """Return limits on other predictions by name, each with features and at least one bound."""
    if not isinstance(given, Mapping):
        raise InvalidArgument("limits", "must be a mapping by name of what is limited", given)
    keys = ("features", "floors", "ceilings", "margin")
    for name, limit in given.items():
        if not isinstance(name, str) or not name.strip():
            raise InvalidArgument("limits", "must have names that are not empty", name)
        if not isinstance(limit, Mapping):
            raise InvalidArgument(f"limits[{name!r}]", f"must be a mapping of {list(keys)}", limit)
        for key in limit:
            if key not in keys:
                accepted = f"must not have this key; {did_you_mean(str(key), keys)}"
                raise InvalidArgument(f"limits[{name!r}]", accepted, key)
        if limit.get("features") is None:
            raise InvalidArgument(
                f"limits[{name!r}].features", "must have a row for every candidate", None
            )
        if all(limit.get(key) is None for key in keys[1:]):
            raise InvalidArgument(
                f"limits[{name!r}]", "must have floors, ceilings or a margin", list(limit)
            )
    return dict(given)


def none_if_free(bounds: Floats | None) -> list[float | None] | None:
    """Return bounds in the form that JSON has."""
    if bounds is None:
        return None
    return [value if math.isfinite(value) else None for value in bounds.tolist()]


# --------------------------------------------------------------------------- requirements


def requirements_on(
    prefix: str, rows: Floats, bounds: Mapping[str, Floats | None], sign: float, control: int
) -> list[Requirement]:
    """Return the requirements on one prediction, `rows` of shape (M, d), of every candidate.

    `prefix` comes before the name of each; `sign` is -1 if rewards are minimised; `control` is
    the index of the candidate that a margin is measured from.
    """
    found = []
    for name, given in bounds.items():
        if given is None:
            continue
        if name in ("margin", "superiority"):
            least = -given.copy()
            least[control] = -math.inf
            found.append(Requirement(prefix + name, rows, 1.0, least, control))
        else:
            factor = 1.0 if name == "floors" else -1.0
            found.append(Requirement(prefix + name, rows, factor, factor * sign * given))
    return [one for one in found if one.limited.any()]


def check_intervals(
    requirements: Sequence[Requirement], answers: Sequence[str], sign: float, spare: float
) -> None:
    """Refuse ceilings that are not above the floors by more than twice the floor tolerance."""
    ceilings = {one.name: one for one in requirements if one.factor < 0.0}
    for floor in requirements:
        ceiling = ceilings.get(floor.name.replace("floors", "ceilings"))
        if ceiling is None or ceiling is floor:
            continue
        narrow = np.flatnonzero(~(-ceiling.least - floor.least > 2.0 * spare))
        if narrow.size:
            first = int(narrow[0])
            accepted = f"must be beyond the floor by more than twice floor_tolerance ({spare:g})"
            name = f"{ceiling.name}[{answers[first]}]"
            raise InvalidArgument(name, accepted, -sign * float(ceiling.least[first]))


def check_reach(
    requirements: Sequence[Requirement],
    answers: Sequence[str],
    sign: float,
    reward_range: tuple[float, float],
) -> None:
    """Refuse limits on arms' own means that rewards in a known range cannot satisfy."""
    low, high = sorted(sign * end for end in reward_range)
    for one in requirements:
        if one.name not in ("floors", "ceilings", "superiority"):
            continue
        most = high - low if one.control >= 0 else max(one.factor * low, one.factor * high)
        missed = np.flatnonzero(one.least > most)
        if missed.size:
            accepted = f"must be possible for rewards in {list(reward_range)}"
            raise InvalidArgument(f"{one.name}[{answers[int(missed[0])]}]", accepted)


def in_words(one: Requirement, sign: float, control: str | None) -> str:
    """Return in words what a requirement demands of a candidate: "whose mean is at least 0.3"."""
    subject = "whose mean"
    if one.name.startswith("limits["):
        subject += f" for {one.name[len('limits[') : one.name.rindex(']')]}"
    least = one.least[one.limited]
    if one.control < 0:
        side = "at least" if one.factor * sign > 0.0 else "at most"
        return f"{subject} is {side} {_size(one.factor * sign * least)}"
    size = _size(np.abs(least))
    if one.name == "superiority":
        return f"{subject} is better than that of {control!r}{'' if size == '0' else f' by {size}'}"
    more = "" if size == "0" else f" by more than {size}"
    return f"{subject} is not worse than that of {control!r}{more}"


def _size(bounds: Floats) -> str:
    """Return a bound in words, if all candidates have the same."""
    return f"{bounds[0]:,.12g}" if (bounds == bounds[0]).all() else "a limit of its own"


# ------------------------------------------------------------------- in reduced coordinates


def rows_of_requirement(
    requirement: Requirement,
    coordinates: Coordinates,
    noise_unit: float,
    constant_weights: Floats | None,
) -> tuple[Rows, tuple[int, ...]]:
    """Return a requirement in reduced coordinates, and candidates for which no arm measures it.

    `constant_weights` is the parameter, shape (d,), that gives every arm a mean of one; None if
    there is none, or it is not needed.

    Raises
    ------
    Untrustworthy
        If floats cannot resolve the differences between the rows.
    """
    limited = requirement.limited
    constant = np.zeros(len(limited))
    if requirement.control >= 0:
        rows, exponent, bad = _difference_rows(requirement, coordinates)
    else:
        rows, seen = measured(coordinates, requirement.features)
        exponent, bad = 0, tuple(np.flatnonzero(limited & ~seen).tolist())
        if constant_weights is not None:
            constant = requirement.features @ constant_weights
    rows = np.where((limited & np.isfinite(rows).all(axis=1))[:, np.newaxis], rows, 0.0)
    powers = np.frexp(np.abs(rows).max(axis=1, initial=0.0))[1]
    unit_power = powers + exponent
    least = _scaled(requirement.least, noise_unit, unit_power)
    own = _scaled(constant, 1.0, unit_power)
    scaled = requirement.factor * np.ldexp(rows, -powers[:, np.newaxis])
    unit = np.ldexp(1.0, np.clip(unit_power, -900, 900))
    return Rows(scaled, least, unit, requirement.factor * own), bad


def _scaled(values: Floats, noise_unit: float, powers: NDArray[Any]) -> Floats:
    """Return numbers in units of the noise times a power of two, within the range of products."""
    with np.errstate(over="ignore", under="ignore"):
        found = np.ldexp(values / noise_unit, -powers)
    return np.where(np.isinf(values), values, np.clip(found, -_MOST, _MOST))


def _difference_rows(
    requirement: Requirement, coordinates: Coordinates
) -> tuple[Floats, int, tuple[int, ...]]:
    """Return rows minus the control's, divided by a power of two; zeros where they are the same."""
    limited = np.flatnonzero(requirement.limited)
    among = np.append(requirement.control, limited)
    pair = outside(coordinates, requirement.features[among])
    placed = place(coordinates, requirement.features[among])
    places = placed.places
    rows = (places.high[1:] - places.high[0]) + (places.low[1:] - places.low[0])
    same = (np.abs(rows) <= placed.reach[1:] + placed.reach[0]).all(axis=1)
    rows[same] = 0.0
    unclear = ~same & (np.linalg.norm(rows, axis=1) < placed.error / _ACCURATE)
    found = np.zeros((len(requirement.least), rows.shape[1]))
    found[limited] = rows
    bad = set(limited[unclear].tolist())
    if pair is not None:
        bad |= {int(among[row]) for row in pair} - {requirement.control}
    return found, placed.exponent, tuple(sorted(bad))
