"""Several measures: the objective, and how their values spread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.measures import Measures
from fairtrial.core.validation import as_floats, check_choice, check_number
from fairtrial.core.wording import beside_in_words, listed, rewards_in_words
from fairtrial.errors import InvalidArgument
from fairtrial.subpopulations.limits import OVERALL, Limits

__all__ = [
    "Noise",
    "better_values",
    "checked_covariance",
    "direction_of",
    "limits_in_words",
    "measures_in_words",
    "objective_in_words",
    "objective_of",
]

Floats = NDArray[np.float64]

_LEAST_EIGENVALUE = -1e-10
"""An eigenvalue of a covariance below this, relative to the largest one, is rounding error."""

_SMALLEST, _LARGEST = 1e-140, 1e140


def objective_of(measures: Measures, objective: Any) -> tuple[Any, Floats]:
    """Return the objective, and the weight of every measure in it, shape (M,).

    Raises
    ------
    InvalidArgument
        If it names an unknown measure, or all weights are zero.
    """
    names = measures.names
    if objective is None:
        if len(names) > 1:
            accepted = f"must name one of {list(names)}, or give the weights of some"
            raise InvalidArgument("objective", accepted, None)
        objective = names[0]
    if isinstance(objective, str):
        weights = np.zeros(len(names))
        weights[measures.index(objective, "objective")] = 1.0
        return objective, weights
    if not isinstance(objective, Mapping) or not set(objective) <= set(names):
        accepted = f"must be a measure of {list(names)}, or a mapping of some to their weights"
        raise InvalidArgument("objective", accepted, objective)
    given = {
        name: check_number(f"objective[{name}]", objective[name], low=-_LARGEST, high=_LARGEST)
        for name in names
        if name in objective
    }
    weights = np.array([given.get(name, 0.0) for name in names])
    if not weights.any():
        raise InvalidArgument("objective", "must have a weight that is not zero", objective)
    return given, weights


_DIRECTIONS = {"maximize": 1.0, "minimize": -1.0}


def direction_of(direction: Any, objective: Any) -> str:
    """Return the direction of the objective, from one for all or one by measure."""
    if not isinstance(direction, Mapping):
        return check_choice("direction", direction, [*_DIRECTIONS])
    own = direction.get(objective, "maximize") if isinstance(objective, str) else "maximize"
    return check_choice(f"direction[{objective}]", own, [*_DIRECTIONS])


def better_values(measures: Measures, direction: Any, objective: Floats, sign: float) -> Floats:
    """Return by measure 1 if large values are good, -1 if small ones are, 0 if not known.

    Parameters
    ----------
    measures : Measures
        The measures.
    direction : str, or mapping of str to str
        The directions as given.
    objective : ndarray of shape (M,)
        The weight of every measure in the quality.
    sign : float
        1 if the quality is maximised, -1 if it is minimised.

    Raises
    ------
    InvalidArgument
        If a direction is of no measure, or contradicts the objective.
    """
    found = np.sign(sign * objective)
    for name, own in (direction if isinstance(direction, Mapping) else {}).items():
        place = measures.index(name, "direction")
        argument = f"direction[{name}]"
        stated = _DIRECTIONS[check_choice(argument, own, [*_DIRECTIONS])]
        if found[place] not in (0.0, stated):
            raise InvalidArgument(argument, "must agree with its weight in the objective", own)
        found[place] = stated
    return np.asarray(found)


@dataclass(frozen=True)
class Noise:
    """The noise of the values of a pull, if they are not bounded.

    Attributes
    ----------
    std : ndarray of shape (K, L, M), optional
        The scale of each measure, if their dependence is not known.
    covariance : ndarray of shape (K, L, M, M), optional
        Their covariance, if it is known.
    noise_std, noise_cov
        The argument as given, in its clean form.
    """

    std: Floats | None = None
    covariance: Floats | None = None
    noise_std: dict[str, Any] | None = None
    noise_cov: Floats | None = None

    @classmethod
    def given(
        cls,
        measures: Measures,
        noise_std: Any,
        noise_cov: ArrayLike | None,
        cells: Callable[[str, Any], Floats],
    ) -> Noise:
        """Return the noise; exactly one kind must be given, and ranges count as one of them.

        Parameters
        ----------
        measures : Measures
            The measures, with their ranges if they are known.
        noise_std : mapping of str to number or array, or None
            The scale of each measure.
        noise_cov : array-like of shape (M, M) or (K, L, M, M), or None
            The covariance of the measures of a pull.
        cells : callable
            Called with a name and the scale of a measure; returns positive numbers, shape (K, L).
        """
        kinds = [measures.ranges is not None, noise_std is not None, noise_cov is not None]
        if sum(kinds) != 1:
            accepted = (
                "exactly one must be given: the range of each measure, noise_std by measure, "
                "or noise_cov"
            )
            raise InvalidArgument("measures, noise_std, noise_cov", accepted)
        if noise_cov is not None:
            shape = cells("noise_cov", 1.0).shape
            clean = checked_covariance(noise_cov, shape, len(measures.names))
            return cls(covariance=_by_cell(clean, shape), noise_cov=clean)
        if noise_std is None:
            return cls()
        if not isinstance(noise_std, Mapping) or set(noise_std) != set(measures.names):
            accepted = f"must be a mapping with an entry for each measure of {list(measures.names)}"
            raise InvalidArgument("noise_std", accepted, noise_std)
        by_measure = {
            name: _in_reach(name, cells(f"noise_std[{name}]", noise_std[name]))
            for name in measures.names
        }
        clean_std = {name: _simplest(stds) for name, stds in by_measure.items()}
        return cls(std=_frozen(np.stack([*by_measure.values()], axis=2)), noise_std=clean_std)


def _in_reach(name: str, stds: Floats) -> Floats:
    if not ((stds >= _SMALLEST) & (stds <= _LARGEST)).all():
        accepted = f"must be between {_SMALLEST:g} and {_LARGEST:g}: use other units"
        raise InvalidArgument(f"noise_std[{name}]", accepted, float(stds.max()))
    return stds


def _simplest(stds: Floats) -> Any:
    """Return one number if all cells have the same, otherwise a list by arm and group."""
    return float(stds[0, 0]) if (stds == stds[0, 0]).all() else stds.tolist()


def checked_covariance(
    given: ArrayLike, cells: tuple[int, ...], size: int, name: str = "noise_cov"
) -> Floats:
    """Return a covariance of M measures, shape (M, M) or (K, L, M, M); it may be singular.

    Raises
    ------
    InvalidArgument
        If it has another shape, is not symmetric, or has a negative eigenvalue.
    """
    wanted = [(size, size), (*cells, size, size)]
    accepted = f"must have shape {wanted[0]} or {wanted[1]}"
    covariance = as_floats(name, given, accepted)
    if covariance.shape not in wanted:
        raise InvalidArgument(name, f"{accepted}; got shape {covariance.shape}")
    if not (np.isfinite(covariance) & (np.abs(covariance) <= _LARGEST)).all():
        raise InvalidArgument(name, f"must be finite, within {_LARGEST:g} of 0", given)
    largest = np.abs(covariance).max(axis=(-2, -1), keepdims=True)
    if not (np.diagonal(covariance, axis1=-2, axis2=-1) >= _SMALLEST).all():
        accepted = f"must have variances of at least {_SMALLEST:g} on its diagonal"
        raise InvalidArgument(name, accepted, given)
    turned = np.swapaxes(covariance, -2, -1)
    if not (np.abs(covariance - turned) <= 1e-12 * largest).all():
        raise InvalidArgument(name, "must be symmetric", given)
    eigenvalues = np.linalg.eigvalsh(covariance / largest)
    if (eigenvalues[..., 0] < _LEAST_EIGENVALUE * eigenvalues[..., -1]).any():
        least = float((eigenvalues[..., 0] * largest[..., 0, 0]).min())
        accepted = f"must have no negative eigenvalue; the least one is {least:.3g}"
        raise InvalidArgument(name, accepted, given)
    return _frozen(0.5 * (covariance + turned))


def _by_cell(covariance: Floats, cells: tuple[int, ...]) -> Floats:
    return _frozen(np.broadcast_to(covariance, (*cells, *covariance.shape[-2:])).copy())


def _frozen(array: Floats) -> Floats:
    array.setflags(write=False)
    return array


# ---------------------------------------------------------------------------- in words


def objective_in_words(objective: str | Mapping[str, float]) -> str:
    """Return the objective in the form in which people write it.

    Examples
    --------
    >>> objective_in_words("cd4"), objective_in_words({"efficacy": 1.0, "toxicity": -0.5})
    ('cd4', 'efficacy - 0.5 toxicity')
    """
    if isinstance(objective, str):
        return objective
    parts: list[str] = []
    for name, weight in objective.items():
        if weight:
            sign = "- " if weight < 0 else ("+ " if parts else "")
            size = "" if abs(weight) == 1.0 else f"{abs(weight):,.12g} "
            parts.append(f"{sign}{size}{name}")
    return " ".join(parts)


def limits_in_words(
    limits: Limits,
    control: str | None = None,
    better: Mapping[str, float] | None = None,
    widths: Mapping[str, float] | None = None,
) -> list[str]:
    """Return each limit as a phrase: ``"toxicity at most 0.3 in every group"``.

    Limits relative to a control need `control`, `better` (see `better_values`), and the `widths` of
    the measures' ranges: a margin that is as wide is no limit.
    """

    def sized(measure: str, bound: float) -> str:
        if control is None or better is None or widths is None:
            return f"{'at least' if limits.is_floor else 'at most'} {bound:,.12g}"
        least = bound if limits.name == "superiority" else -bound
        kind = "floor" if better[measure] > 0.0 else "ceiling"
        words = beside_in_words(kind, better[measure] * least, control, "{:,.12g}".format)
        is_free = limits.name == "margin" and bound >= widths[measure]
        return f"{words} (always met: its range is no wider)" if is_free else words

    found = []
    for (measure, place), bound in limits.entries.items():
        where = f"in group {place}" if isinstance(place, str) else "in every group"
        where = "overall" if place is OVERALL else where
        if isinstance(bound, Mapping):
            own = [
                f"{sized(measure, value)} for {arm}"
                for arm, value in bound.items()
                if value is not None and arm != control
            ]
            if own:
                found.append(f"{measure} {listed(own)} {where}")
        elif bound is not None:
            found.append(f"{measure} {sized(measure, bound)} {where}")
        elif isinstance(place, str):
            found.append(f"{measure} free {where}")
    return found


def measures_in_words(measures: Measures, noise: Noise) -> str:
    """Return what is known about each measure."""
    if measures.ranges is not None:
        known = [
            rewards_in_words(own, None, name)
            for name, own in zip(measures.names, measures.ranges, strict=True)
        ]
    elif noise.std is not None:
        known = [
            rewards_in_words(None, noise.std[:, :, place], name)
            for place, name in enumerate(measures.names)
        ]
    else:
        known = [f"{', '.join(measures.names)}: their covariance is stated"]
    return "; ".join(known)
