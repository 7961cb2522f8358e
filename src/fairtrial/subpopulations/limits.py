"""Limits of several measures, by measure, group and arm, or overall.

Floors and ceilings are limits of a mean. A margin or a superiority limits its difference from the
mean of the control, in the direction that is worse for the measure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.measures import LARGEST, Measures
from fairtrial.core.validation import check_number, plain_labels
from fairtrial.core.wording import choices
from fairtrial.errors import InvalidArgument

__all__ = [
    "OVERALL",
    "LimitRow",
    "Limits",
    "limit_rows",
    "relative_rows",
    "require_possible",
    "row_of_quality",
]

Floats = NDArray[np.float64]

_ROUNDING = 1e-12


class Scope(Enum):
    """Where a limit holds, if not in a group."""

    OVERALL = "overall"

    def __repr__(self) -> str:
        return self.name


OVERALL = Scope.OVERALL
"""In the key of a limit: the limit applies to the weighted mean of all groups."""

Place = str | Scope | None
"""A group, `OVERALL`, or None for "every group"."""


@dataclass(frozen=True, eq=False)
class LimitRow:
    """One limit of one measure, in one group or overall, for all arms.

    Parameters
    ----------
    measure : int or None
        Position of the measure; None for the objective, if that has several measures.
    group : int or None
        Position of the group; None for the weighted mean of all groups.
    is_floor : bool
        True if the mean must be at least the bound, False if at most.
    bounds : ndarray of shape (K,)
        The bound of every arm, in the units of the measure; for an arm without one, minus infinity
        (floor) or infinity (ceiling).
    weights : ndarray of shape (M,)
        The weight of every measure in the limited mean.
    control : int or None
        Position of the arm whose mean is subtracted, if the limit is relative to a control.
    """

    measure: int | None
    group: int | None
    is_floor: bool
    bounds: Floats
    weights: Floats
    control: int | None = None

    def distances(self, means: Floats, shares: Floats) -> Floats:
        """Return by arm how far its mean is within this limit; negative if the limit is broken.

        Parameters
        ----------
        means : ndarray of shape (K, L, M)
            Means by arm, group and measure.
        shares : ndarray of shape (L,)
            The weights of the groups; they sum to one.
        """
        own = self.own_means(means, shares)
        found = own - self.bounds if self.is_floor else self.bounds - own
        if self.group is not None and self.control is None:
            return found
        # Sums have rounding errors: a mean, or a difference, within them of the bound is on it.
        rounding = _ROUNDING * np.maximum(self.sizes(means, shares), np.abs(self.bounds))
        return np.where(np.abs(found) <= np.where(np.isfinite(rounding), rounding, 0.0), 0.0, found)

    def own_means(self, means: Floats, shares: Floats) -> Floats:
        """Return by arm the mean that this limit applies to, or its difference from the control's.

        The shape is (K,).
        """
        own = self._of_arms(means, shares)
        return own if self.control is None else own - own[self.control]

    def sizes(self, means: Floats, shares: Floats) -> Floats:
        """Return by arm the largest absolute mean that its distance is computed from."""
        own = np.abs(self._of_arms(means, shares))
        return own if self.control is None else np.maximum(own, own[self.control])

    def _of_arms(self, means: Floats, shares: Floats) -> Floats:
        by_group = means[:, :, self.measure] if self.measure is not None else means @ self.weights
        return np.asarray(by_group @ shares if self.group is None else by_group[:, self.group])

    def variances(self, covariances: Floats) -> Floats:
        """Return the variance of what is limited for one pull, shape (K, L).

        `covariances` are those of the measures of a pull, shape (K, L, M, M).
        """
        if self.measure is not None:
            return np.asarray(covariances[:, :, self.measure, self.measure])
        return np.asarray(covariances @ self.weights @ self.weights)


@dataclass(frozen=True)
class Limits:
    """The floors, or the ceilings, as given: the bound by measure and place.

    Attributes
    ----------
    name : str
        ``"floors"``, ``"ceilings"``, ``"margin"`` or ``"superiority"``.
    entries : mapping of (measure, place) to bounds
        A number, None, or a mapping of every arm to a number or None.
    """

    name: str
    entries: Mapping[tuple[str, Place], Any]

    @classmethod
    def given(
        cls,
        name: str,
        given: Any,
        measures: Measures,
        arms: Sequence[str],
        groups: Sequence[str],
        control: str | None = None,
    ) -> Limits:
        """Return checked limits, from a mapping by key or a list of entries.

        `control`: the arm that the limits refer to, which has none itself.

        Raises
        ------
        InvalidArgument
            If a key or a bound is not acceptable.
        """
        entries: dict[tuple[str, Place], Any] = {}
        for argument, key, bound in _keyed(name, {} if given is None else given):
            measure, place = _checked_key(argument, key, measures, groups)
            if (measure, place) in entries:
                raise InvalidArgument(argument, "must be given once", key)
            entries[measure, place] = _checked_bound(argument, bound, arms, control)
        return cls(name, entries)

    @property
    def is_floor(self) -> bool:
        """Whether these are lower limits."""
        return self.name == "floors"

    @property
    def free(self) -> float:
        """The bound of an arm that has no limit."""
        return _free(self.name)

    def as_data(self) -> list[dict[str, Any]]:
        """Return the limits in JSON's own types: a list that `given` accepts."""
        return [
            {
                "measure": measure,
                **({"group": place} if isinstance(place, str) else {}),
                **({"overall": True} if place is OVERALL else {}),
                "bound": bound,
            }
            for (measure, place), bound in self.entries.items()
        ]

    def of_cells(self, measure: str, arms: Sequence[str], groups: Sequence[str]) -> Floats:
        """Return the bounds by arm and group, shape (K, L); a group's own takes precedence."""
        columns = []
        for group in groups:
            own = (measure, group) if (measure, group) in self.entries else (measure, None)
            columns.append(self._bounds(self.entries.get(own), arms))
        return np.stack(columns, axis=1)

    def overall(self, measure: str, arms: Sequence[str]) -> Floats:
        """Return the bounds of the weighted mean of all groups, shape (K,)."""
        return self._bounds(self.entries.get((measure, OVERALL)), arms)

    def _bounds(self, bound: Any, arms: Sequence[str]) -> Floats:
        by_arm = [bound[arm] for arm in arms] if isinstance(bound, Mapping) else [bound] * len(arms)
        return np.array([self.free if own is None else own for own in by_arm], dtype=np.float64)


def limit_rows(
    floors: Limits,
    ceilings: Limits,
    measures: Measures,
    arms: Sequence[str],
    groups: Sequence[str],
) -> tuple[LimitRow, ...]:
    """Return all limits that any arm has: by measure, floors first, groups in order; then overall.

    Parameters
    ----------
    floors, ceilings : Limits
        The limits as given.
    measures, arms, groups
        The names that they may refer to.
    """
    found = []
    for place, measure in enumerate(measures.names):
        for limits in (floors, ceilings):
            cells = limits.of_cells(measure, arms, groups)
            found += [
                LimitRow(place, group, limits.is_floor, cells[:, group], _only(place, measures))
                for group in range(len(groups))
            ]
    for place, measure in enumerate(measures.names):
        for limits in (floors, ceilings):
            bounds = limits.overall(measure, arms)
            only = _only(place, measures)
            found.append(LimitRow(place, None, limits.is_floor, bounds, only))
    return _that_limit(found)


def _only(place: int, measures: Measures) -> Floats:
    """Return the weights of a single measure."""
    return np.asarray(np.eye(len(measures.names))[place])


def _that_limit(rows: Sequence[LimitRow]) -> tuple[LimitRow, ...]:
    """Return the rows that limit any arm, with bounds that cannot change."""
    for row in rows:
        row.bounds.setflags(write=False)
    return tuple(row for row in rows if np.isfinite(row.bounds).any())


def relative_rows(
    given: Sequence[Limits],
    better: Floats,
    control: str,
    measures: Measures,
    arms: Sequence[str],
    groups: Sequence[str],
) -> tuple[LimitRow, ...]:
    """Return all limits relative to a control: by measure, groups in order; then overall.

    Parameters
    ----------
    given : sequence of Limits
        Margins and superiority as given.
    better : ndarray of shape (M,)
        By measure 1 if large values are good, -1 if small ones are, 0 if this is not known.
    control : str
        The arm that they refer to.
    measures, arms, groups
        The names that they may refer to.

    Raises
    ------
    InvalidArgument
        If a measure has such a limit, but its better values are not known.
    """
    found = []
    for limits in given:
        for measure, _ in limits.entries:
            _require_direction(limits.name, measure, better[measures.names.index(measure)])
    everywhere: list[tuple[int | None, ...]] = [tuple(range(len(groups))), (None,)]
    for where, (place, measure), limits in product(everywhere, enumerate(measures.names), given):
        low, high = measures.ranges[place] if measures.ranges else (-math.inf, math.inf)
        cells, overall = limits.of_cells(measure, arms, groups), limits.overall(measure, arms)
        for group in where:
            bounds = overall if group is None else cells[:, group]
            least = bounds
            if limits.name == "margin":
                # A margin as wide as the range can never be missed.
                least = np.where(bounds < high - low, -bounds, -math.inf)
            of = place, group, _only(place, measures)
            found.append(_relative_row(of, float(better[place]), least, arms.index(control)))
    return _that_limit(found)


def row_of_quality(
    least: float, sign: float, weights: Floats, control: str, arms: Sequence[str]
) -> LimitRow:
    """Return the limit on how much an arm's quality must exceed the control's.

    `sign` is 1 if the quality, the mean of measures with these weights, is maximised, else -1.
    """
    used, size = np.flatnonzero(weights), 1.0
    measure = int(used[0]) if used.size == 1 else None
    if measure is not None:
        size, sign = abs(float(weights[measure])), sign * float(np.sign(weights[measure]))
        weights = (np.arange(weights.size) == measure).astype(np.float64)
    bounds = np.full(len(arms), least / size)
    row = _relative_row((measure, None, weights), sign, bounds, arms.index(control))
    return _that_limit([row])[0] if len(arms) > 1 else row


def _relative_row(
    of: tuple[int | None, int | None, Floats], better: float, least: Floats, control: int
) -> LimitRow:
    """Return the limit on differences from the control in the better direction: at least `least`.

    `of`: measure, group and weights.
    """
    measure, group, weights = of
    bounds = least.copy() if better > 0.0 else -least
    bounds[control] = -math.inf if better > 0.0 else math.inf
    return LimitRow(measure, group, better > 0.0, bounds, weights, control)


def _require_direction(name: str, measure: str, better: float) -> None:
    if better == 0.0:
        accepted = (
            f"must say whether large or small values of {measure!r} are good, because {name} "
            f"limits it: {{{measure!r}: 'maximize'}} or {{{measure!r}: 'minimize'}}"
        )
        raise InvalidArgument("direction", accepted)


def require_possible(
    rows: Sequence[LimitRow],
    measures: Measures,
    arms: Sequence[str],
    groups: Sequence[str],
    shares: Floats,
) -> None:
    """Refuse limits that no means of the measures can satisfy together.

    Apart from a superiority of the whole objective, each limit concerns a single measure. So an arm
    can satisfy its limits if, measure by measure, the means that remain possible in each group form
    an interval, and their weighted means reach the interval between the overall limits. The
    control's means can be anywhere in their ranges, because an answer does not need a control that
    keeps its own limits: they are at the worst end wherever the arm must be better.

    Raises
    ------
    InvalidArgument
        The message names the arm, the measure and the limits.
    """
    # By end, arm and measure: how far the overall mean can be above, and below, the control's.
    farthest = np.empty((2, len(arms), len(measures.names)))
    for place, measure in enumerate(measures.names):
        all_own = [row for row in rows if row.measure == place]
        own = [row for row in all_own if row.control is None]
        relative = [row for row in all_own if row.control is not None]
        low, high = measures.ranges[place] if measures.ranges else (-math.inf, math.inf)
        for row in own:
            _require_in_range(row, measure, (low, high), arms, groups)
        for k, arm in enumerate(arms):
            least, most = np.full(len(groups), low), np.full(len(groups), high)
            for row in own:
                if row.group is not None:
                    (least if row.is_floor else most)[row.group] = row.bounds[k]
            least, most = np.maximum(least, low), np.minimum(most, high)
            _require_apart(own, k, arm, measure, groups)
            floor, ceiling = (_overall_bound(own, k, is_floor) for is_floor in (True, False))
            _require_reached(measure, arm, (floor, ceiling), (least, most), shares)
            lowest = max(floor, _weighted(least, shares))
            highest = min(ceiling, _weighted(most, shares))
            farthest[:, k, place] = highest - low, high - lowest
            apart = most - low, high - least
            for row in relative:
                end = 0 if row.is_floor else 1
                reached = farthest[end, k, place] if row.group is None else apart[end][row.group]
                _require_reached_beside(row, (measure, k, arm), float(reached), groups)
                # The control's mean is at least `low`, and at most `high`.
                if row.group is not None and row.is_floor:
                    least[row.group] = max(least[row.group], low + row.bounds[k])
                elif row.group is not None:
                    most[row.group] = min(most[row.group], high + row.bounds[k])
            _require_reached(measure, arm, (floor, ceiling), (least, most), shares)
    for row in rows:
        if row.measure is None:
            _require_quality_reached(row, farthest, arms)


def _require_in_range(
    row: LimitRow,
    measure: str,
    own: tuple[float, float],
    arms: Sequence[str],
    groups: Sequence[str],
) -> None:
    low, high = own
    missed = np.isfinite(row.bounds) & ((row.bounds > high) if row.is_floor else (row.bounds < low))
    if missed.any():
        arm = int(np.flatnonzero(missed)[0])
        end = f"at most {high:g}" if row.is_floor else f"at least {low:g}"
        accepted = f"must be {end}: no mean of values in [{low:g}, {high:g}] is beyond that"
        raise InvalidArgument(
            _named(row, measure, arms[arm], groups), accepted, float(row.bounds[arm])
        )


def _require_apart(
    rows: Sequence[LimitRow], k: int, arm: str, measure: str, groups: Sequence[str]
) -> None:
    for row in rows:
        for other in rows:
            same = row.group == other.group and not row.is_floor and other.is_floor
            if same and not row.bounds[k] > other.bounds[k]:
                accepted = f"must be above the floor {other.bounds[k]:g} there"
                raise InvalidArgument(
                    _named(row, measure, arm, groups), accepted, float(row.bounds[k])
                )


def _overall_bound(rows: Sequence[LimitRow], k: int, is_floor: bool) -> float:
    free = -math.inf if is_floor else math.inf
    own = [row.bounds[k] for row in rows if row.group is None and row.is_floor == is_floor]
    return float(own[0]) if own else free


def _require_reached(
    measure: str,
    arm: str,
    overall: tuple[float, float],
    cells: tuple[Floats, Floats],
    shares: Floats,
) -> None:
    least, most = (_weighted(ends, shares) for ends in cells)
    floor, ceiling = overall
    sizes = [abs(end) for end in (least, most, floor, ceiling) if math.isfinite(end)]
    rounding = _ROUNDING * max(sizes, default=0.0)
    if least - rounding > ceiling:
        accepted = f"must be at least {least:g}: the groups' own limits and range allow no less"
        raise InvalidArgument(f"ceilings[{measure}, OVERALL] of arm {arm}", accepted, ceiling)
    if most + rounding < floor:
        accepted = f"must be at most {most:g}: the groups' own limits and range allow no more"
        raise InvalidArgument(f"floors[{measure}, OVERALL] of arm {arm}", accepted, floor)


def _weighted(ends: Floats, shares: Floats) -> float:
    """Return the weighted mean of ends by group, of which those without weight may be infinite."""
    weighty = shares > 0.0
    return float(ends[weighty] @ shares[weighty])


def _require_reached_beside(
    row: LimitRow, of: tuple[str, int, str], most: float, groups: Sequence[str]
) -> None:
    """Refuse a superiority that the range, and an arm's own limits, rule out.

    `of`: measure, and number and name of the arm; `most`: how much better than the control's the
    arm's mean can be.
    """
    measure, k, arm = of
    wanted = float(row.bounds[k] if row.is_floor else -row.bounds[k])
    if _is_beyond(wanted, most):
        where = "OVERALL" if row.group is None else groups[row.group]
        accepted = f"must be at most {most:g}: the range and the arm's own limits allow no more"
        raise InvalidArgument(f"superiority[{measure}, {where}] of arm {arm}", accepted, wanted)


def _require_quality_reached(row: LimitRow, farthest: Floats, arms: Sequence[str]) -> None:
    """Refuse a superiority of an objective with several measures that limits or ranges rule out."""
    used = np.flatnonzero(row.weights)
    signs = np.sign(row.weights[used]) * (1.0 if row.is_floor else -1.0)
    for k, arm in enumerate(arms):
        wanted = float(row.bounds[k] if row.is_floor else -row.bounds[k])
        ends = farthest[np.where(signs > 0.0, 0, 1), k, used]
        most = float(ends @ np.abs(row.weights[used]))
        if _is_beyond(wanted, most):
            accepted = f"must be at most {most:g}: ranges and limits of arm {arm} allow no more"
            raise InvalidArgument("superiority", accepted, wanted)


def _is_beyond(wanted: float, most: float) -> bool:
    """Return whether a number is larger than another, apart from rounding."""
    return math.isfinite(most) and wanted > most + _ROUNDING * abs(most)


def _named(row: LimitRow, measure: str, arm: str, groups: Sequence[str]) -> str:
    where = "OVERALL" if row.group is None else groups[row.group]
    return f"{'floors' if row.is_floor else 'ceilings'}[{measure}, {where}] of arm {arm}"


# ------------------------------------------------------------------- keys and bounds


def _keyed(name: str, given: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield for each limit its name in errors, its key, and its bound."""
    if isinstance(given, Mapping):
        for key, bound in given.items():
            parts = key if isinstance(key, tuple) else (key,)
            shown = ", ".join("OVERALL" if part is OVERALL else str(part) for part in parts)
            yield f"{name}[{shown}]", key, bound
        return
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        accepted = "must be a mapping by measure, (measure, group) or (measure, OVERALL)"
        raise InvalidArgument(name, f"{accepted}, where the problem has measures", given)
    for place, entry in enumerate(given):
        yield f"{name}[{place}]", *_entry(f"{name}[{place}]", entry)


def _entry(argument: str, entry: Any) -> tuple[Any, Any]:
    """Return key and bound of a limit that is written as a mapping."""
    known = {"measure", "group", "overall", "bound"}
    if not isinstance(entry, Mapping) or not {"measure", "bound"} <= set(entry) <= known:
        accepted = "must have measure and bound, and may have group, or overall = true"
        raise InvalidArgument(argument, accepted, entry)
    overall = entry.get("overall", False)
    if not isinstance(overall, bool) or (overall and "group" in entry):
        raise InvalidArgument(argument, "must have either a group or overall = true", entry)
    if overall:
        return (entry["measure"], OVERALL), entry["bound"]
    if "group" in entry:
        return (entry["measure"], entry["group"]), entry["bound"]
    return entry["measure"], entry["bound"]


def _checked_key(
    argument: str, key: Any, measures: Measures, groups: Sequence[str]
) -> tuple[str, Place]:
    measure, place = (key, None) if not isinstance(key, tuple) else (key + (None,) * 2)[:2]
    if isinstance(key, tuple) and len(key) != 2:
        accepted = "must be a measure, (measure, group) or (measure, OVERALL)"
        raise InvalidArgument(argument, accepted, key)
    if measure not in measures.names:
        raise InvalidArgument(argument, f"must be of a measure of {list(measures.names)}", measure)
    if isinstance(key, tuple) and place is not OVERALL and place not in groups:
        hint = ""
        if isinstance(place, str) and place.lower() == OVERALL.value:
            hint = "; the weighted mean of all is the constant OVERALL, not text"
        accepted = f"must be of a group of {choices(groups, place)}, or OVERALL{hint}"
        raise InvalidArgument(argument, accepted, place)
    return measure, place


def _checked_bound(argument: str, bound: Any, arms: Sequence[str], control: str | None) -> Any:
    bound = plain_labels(argument, bound)
    if not isinstance(bound, Mapping):
        return _checked_number(argument, bound)
    by_arm = {str(arm): own for arm, own in bound.items()}
    if control is not None and by_arm.setdefault(control, None) is not None:
        accepted = "must be None or left out: it is the control, which the others are compared with"
        raise InvalidArgument(f"{argument} of arm {control}", accepted, by_arm[control])
    if set(by_arm) != set(arms):
        accepted = f"must have an entry for each arm of {[arm for arm in arms if arm != control]}"
        raise InvalidArgument(argument, accepted, list(bound))
    return {arm: _checked_number(f"{argument} of arm {arm}", by_arm[arm]) for arm in arms}


def _checked_number(argument: str, bound: Any) -> float | None:
    """Return a bound, or None if there is none: infinity on the free side means the same."""
    name = argument.partition("[")[0]
    is_number = isinstance(bound, int | float | np.integer | np.floating)
    if bound is None or (is_number and not isinstance(bound, bool) and bound == _free(name)):
        return None
    is_relative = name in ("margin", "superiority")
    try:
        return check_number(argument, bound, low=0.0 if is_relative else -LARGEST, high=LARGEST)
    except InvalidArgument:
        accepted = f"must be a number within {LARGEST:g} of 0, or None for no limit"
        if is_relative:
            accepted = f"must be a number from 0 to {LARGEST:g}, or None for no limit"
        raise InvalidArgument(argument, accepted, bound) from None


def _free(name: str) -> float:
    """Return the bound that stands for no limit."""
    return -math.inf if name in ("floors", "superiority") else math.inf
