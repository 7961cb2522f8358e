"""Arms and candidates as points: coordinates of full rank, equal points, unmeasured directions."""

from __future__ import annotations

import hashlib
import math
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from fairtrial.errors import InvalidArgument
from fairtrial.linear._coordinates import (
    Coordinates,
    Placed,
    Reduced,
    Untrustworthy,
    condition_of,
    coordinates_of,
    equal_rows,
    joined_where_close,
    measured,
    outside,
    place,
    too_close,
)
from fairtrial.linear._limits import Requirement, Rows, rows_of_requirement
from fairtrial.linear._opening import varied_order

__all__ = ["Geometry", "Names", "NotEstimable", "shared"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_LEAST_TESTS = 3
"""Extra arms beyond those that any function fits, pulled to test whether it is linear."""


class NotEstimable(InvalidArgument):
    """Two candidates differ along a direction that no arm measures: no data can tell them apart."""


class Names(NamedTuple):
    """The user's names for features, arms and candidates."""

    features: Sequence[str]
    arms: Sequence[str]
    answers: Sequence[str]


@dataclass(frozen=True, eq=False)
class Geometry:
    """Arms and candidates as points, in coordinates that do not depend on units.

    Parameters
    ----------
    features : ndarray of shape (K, d)
    scale : ndarray of shape (K,)
        Noise scale of the arms.
    candidates : ndarray of shape (M, d), optional
        By default the arms.
    requirements : tuple of Requirement
        Limits of the candidates.
    names : Names
        The names used in errors.
    """

    features: Floats
    scale: Floats
    candidates: Floats | None
    requirements: tuple[Requirement, ...]
    names: Names

    # ---------------------------------------------------------------- refusals

    def check(self) -> None:
        """Refuse candidates that no arm tells apart, and differences that floats cannot resolve."""
        groups = self._value_groups
        pair = None
        if self.candidates is not None:
            pair = outside(self._coordinates, self._different_candidates)
        if pair is not None:
            first, second = (self.names.answers[self._different[row][0]] for row in sorted(pair))
            raise NotEstimable(
                "candidates",
                f"{first!r} and {second!r} differ along a direction that no arm measures",
            )
        kept = np.array([row[0] for row in self._joined], dtype=np.int64)
        pair = too_close(self._placed, kept) if len(groups) > 1 else None
        if pair is not None:
            first, second = (self.names.answers[self._different[row][0]] for row in pair)
            raise InvalidArgument(
                self._candidates_name,
                f"differ too little: rounding hides the difference of {first!r} and {second!r}, "
                "because other candidates are so far away; leave those out, or describe "
                f"{first!r} and {second!r} by finer features",
            )
        for one, (_, unseen) in zip(self.requirements, self._limited, strict=True):
            if unseen:
                label = self.names.answers[unseen[0]]
                accepted = (
                    f"must only limit what the arms measure; no arm measures that of {label!r}"
                )
                raise NotEstimable(one.name, accepted)

    @property
    def _candidates_name(self) -> str:
        return "features" if self.candidates is None else "candidates"

    def _refusal(self, name: str, labels: Sequence[str], error: Untrustworthy) -> InvalidArgument:
        """Return the error for rows whose arithmetic cannot be trusted."""
        feature = self.names.features[error.column]
        row = f", beside {labels[error.row]!r}" if error.row >= 0 else ""
        return InvalidArgument(
            name,
            f"rescale feature {feature!r}{row}: its values are so different in size, or so nearly "
            "a combination of other features, that floats cannot hold what tells them apart "
            "(subtract a constant from it, change its unit, or leave it out)",
        )

    # ---------------------------------------------------------- equal candidates

    @cached_property
    def answer_groups(self) -> tuple[tuple[int, ...], ...]:
        """Candidates with the same features, by index, in the order of their first member.

        Features that differ only by rounding are the same: the values of two candidates of a group
        are equal to 13 digits of the arms' largest mean.
        """
        return tuple(members for members, _ in self._answer_parts)

    @cached_property
    def group_of(self) -> Integers:
        """The position of every candidate's group in `answer_groups`; shape (M,)."""
        found = np.empty(len(self.names.answers), dtype=np.int64)
        for number, group in enumerate(self.answer_groups):
            found[list(group)] = number
        return found

    @cached_property
    def _answer_parts(self) -> tuple[tuple[tuple[int, ...], int], ...]:
        """Candidates that are one answer, with the number of their value's group."""
        found = []
        for number, members in enumerate(self._value_groups):
            parts: dict[bytes, list[int]] = {}
            for index in members:
                parts.setdefault(self._limits_of(index), []).append(index)
            found += [(tuple(part), number) for part in parts.values()]
        return tuple(sorted(found))

    @cached_property
    def _value_groups(self) -> tuple[tuple[int, ...], ...]:
        """Candidates with the same value for every theta, by index."""
        return tuple(
            tuple(sorted(index for row in rows for index in self._different[row]))
            for rows in self._joined
        )

    def _limits_of(self, candidate: int) -> bytes:
        """Return bytes that differ between candidates if their limits differ for some theta."""
        found = [
            np.append(rows.rows[candidate], rows.least[candidate]) for rows, _ in self._limited
        ]
        return b"".join((row + 0.0).tobytes() for row in found)

    @cached_property
    def _limited(self) -> tuple[tuple[Rows, tuple[int, ...]], ...]:
        """The requirements in reduced coordinates, with candidates that leave one unmeasured."""
        return tuple(map(self._limited_by, self.requirements))

    def _limited_by(self, one: Requirement) -> tuple[Rows, tuple[int, ...]]:
        try:
            rows, unseen = rows_of_requirement(
                one, self._coordinates, self._noise_unit, self.constant_parameter
            )
        except Untrustworthy as error:
            raise self._refusal(one.name, self.names.answers, error) from None
        # A limit that is kept for every theta is no limit.
        kept = ~rows.rows.any(axis=1) & (rows.least <= 0.0)
        return rows._replace(least=np.where(kept, -math.inf, rows.least)), unseen

    @property
    def _candidate_features(self) -> Floats:
        return self.features if self.candidates is None else self.candidates

    @cached_property
    def _different(self) -> tuple[tuple[int, ...], ...]:
        """Candidates with equal features, by index."""
        return equal_rows(self._candidate_features)

    @property
    def _different_candidates(self) -> Floats:
        return self._candidate_features[[group[0] for group in self._different]]

    @cached_property
    def _placed(self) -> Placed:
        """The different candidates in the arms' coordinates."""
        try:
            return place(self._coordinates, self._different_candidates)
        except Untrustworthy as error:
            labels = [self.names.answers[group[0]] for group in self._different]
            raise self._refusal(self._candidates_name, labels, error) from None

    @cached_property
    def _joined(self) -> tuple[tuple[int, ...], ...]:
        """Groups of the different candidates that are the same up to rounding."""
        return joined_where_close(self._placed.places.high, self._placed.reach)

    # ---------------------------------------------------------------- coordinates

    @property
    def rank(self) -> int:
        """The number of directions that the arms span."""
        return int(self.reduced.arms.shape[1])

    @cached_property
    def reduced(self) -> Reduced:
        """The problem in coordinates of full rank and unit noise."""
        placed = self._placed
        kept = [self._joined[number][0] for _, number in self._answer_parts]
        return Reduced(
            arms=self._coordinates.arms,
            candidates=placed.places.high[kept],
            basis=self._coordinates.basis,
            rest=placed.places.low[kept],
            unit=self._noise_unit * math.ldexp(1.0, placed.exponent),
        )

    @cached_property
    def candidate_places(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Every candidate in the coordinates of `reduced`, and whether the arms measure it.

        Values are these rows times phi, in units of the largest noise.
        """
        if self.candidates is None:
            rows = self._coordinates.arms * (self.scale / self._noise_unit)[:, np.newaxis]
            return rows, np.ones(len(rows), dtype=np.bool_)
        return measured(self._coordinates, self.candidates)

    @property
    def limited_rows(self) -> tuple[Rows, ...]:
        """The requirements in the coordinates of `reduced`, for every candidate."""
        return tuple(rows for rows, _ in self._limited)

    @cached_property
    def constant_parameter(self) -> Floats | None:
        """The parameter that gives every arm a mean of exactly one, shape (d,), if one is known."""
        same = (self.features == self.features[0]).all(axis=0) & (self.features[0] != 0.0)
        if not same.any():
            return None
        found = np.zeros(same.size)
        column = int(same.argmax())
        found[column] = 1.0 / self.features[0, column]
        return found

    @cached_property
    def constant_error(self) -> float:
        """How far the features are from containing a constant of one."""
        if self.constant_parameter is not None:
            return 0.0
        rows = self.reduced.arms
        # Rows are divided by the noise here, so the constant is, too.
        wanted = self._noise_unit / self.scale
        weights, *_ = np.linalg.lstsq(rows, wanted, rcond=None)
        return float(np.abs((rows @ weights - wanted) / wanted).max())

    @property
    def has_rounded_columns(self) -> bool:
        """Whether some feature depends on others only up to rounding."""
        return not self._coordinates.is_exact

    def condition(self, pulls: Floats) -> float:
        """Return the condition number of the Gram matrix of that many pulls by arm, shape (K,)."""
        return condition_of(self._scaled_features, pulls, self.rank)

    @property
    def _noise_unit(self) -> float:
        """The largest noise scale of an arm: the unit of rewards."""
        return float(self.scale.max())

    @cached_property
    def _scaled_features(self) -> Floats:
        """Features divided by noise scale, with columns in units in which they are about one."""
        rows = np.ldexp(self.features, -self._coordinates.exponents)
        return np.asarray(rows * (self._noise_unit / self.scale)[:, np.newaxis])

    @cached_property
    def _coordinates(self) -> Coordinates:
        try:
            return coordinates_of(self.features, self._noise_unit / self.scale)
        except Untrustworthy as error:
            raise self._refusal("features", self.names.arms, error) from None

    # ---------------------------------------------------------------- orders of arms

    @cached_property
    def distinct_arms(self) -> Integers:
        """Arms that measure something, without those that measure the same as an earlier arm."""
        first = [group[0] for group in equal_rows(self._scaled_features)]
        return np.array([arm for arm in first if self.features[arm].any()], dtype=np.int64)

    @cached_property
    def basis_arms(self) -> Integers:
        """As many arms as the rank, which together measure all that can be measured; shape (r,).

        Found by pivoted QR of the reduced features: each arm is the one that the earlier arms
        explain least, in the metric of equal pulls of all arms.
        """
        if self.rank == 0:
            return np.zeros(0, dtype=np.int64)
        arms = self.distinct_arms
        columns = self.reduced.arms[arms].T
        _, pivots = scipy.linalg.qr(columns, mode="r", pivoting=True, check_finite=False)
        return arms[pivots[: self.rank]]

    @cached_property
    def start_arms(self) -> Integers:
        """The arms that adaptive rules pull first: the basis, and a few others if there are any.

        A basis alone fits any rewards, so linearity could not be tested. The other arms are those
        that are least explained by each other.
        """
        basis = self.basis_arms
        others = np.setdiff1d(self.distinct_arms, basis)
        number = min(others.size, max(_LEAST_TESTS, -(-self.rank // 4)))
        if not self.rank or not number:
            return basis
        _, pivots = scipy.linalg.qr(
            self.reduced.arms[others].T, mode="r", pivoting=True, check_finite=False
        )
        return np.concatenate([basis, others[pivots[:number]]])

    @cached_property
    def varied_arms(self) -> Integers:
        """All distinct arms, the start first, ordered so that any first part is varied."""
        return varied_order(self.reduced.arms, self.distinct_arms, self.start_arms)


# ------------------------------------------------------------------ equal problems share it

_KEPT_MOST = 2
"""How many geometries a process keeps while no problem has them."""

_KEPT: OrderedDict[bytes, Geometry] = OrderedDict()
_KEPT_LOCK = threading.Lock()


def shared(geometry: Geometry) -> Geometry:
    """Return the geometry of an equal problem that was built just before, or else this one.

    A command or a service builds the problem of a study several times. For thousands of arms, what
    follows from their features takes a good part of a second each time.

    Parameters
    ----------
    geometry : Geometry
        A new one, of which nothing is computed yet.

    Returns
    -------
    Geometry
        One with the same contents.
    """
    checksum = hashlib.blake2b()
    for part in _contents_of(geometry):
        checksum.update(part)
    key = checksum.digest()
    with _KEPT_LOCK:
        found = _KEPT.setdefault(key, geometry)
        _KEPT.move_to_end(key)
        if len(_KEPT) > _KEPT_MOST:
            _KEPT.popitem(last=False)
    return found


def _contents_of(geometry: Geometry) -> Iterator[bytes]:
    """Yield all that a geometry is made of, so that different ones yield different bytes."""
    yield repr(geometry.names).encode()
    arrays = [geometry.features, geometry.scale, geometry.candidates]
    for one in geometry.requirements:
        yield repr((one.name, one.factor, one.control)).encode()
        arrays += [one.features, one.least]
    for array in arrays:
        yield repr(None if array is None else array.shape).encode()
        yield b"" if array is None else array.tobytes()
