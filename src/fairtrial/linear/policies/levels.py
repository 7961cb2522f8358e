"""Levels that squared gaps must exceed, by name: each proven for some samplers, or a heuristic.

A policy stops (or eliminates) when ``gap^2 >= B ||z - z'||^2`` in the metric of the inverse
Gram matrix; each level here is one B. Below, M is the number of candidates (for one answer, M - 1
of them can wrongly beat the best), N the number of results, and sigma the scale of the noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from fairtrial.confidence.thresholds import Threshold
from fairtrial.core.validation import check_choice, check_number
from fairtrial.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairtrial.core.recommendation import Guarantee

__all__ = [
    "ConstantLevel",
    "Level",
    "MixtureLevel",
    "PhaseLevel",
    "RidgeLevel",
    "Soare2014Level",
    "StaticChecksLevel",
    "StaticLevel",
    "level_named",
]


class Level(Threshold):
    """Base of the levels.

    Attributes
    ----------
    samplers : frozenset of str
        The kinds of sampling for which it holds: ``"static"`` (fixed before any reward),
        ``"adaptive"``, ``"phased"`` (fixed before each phase, which is judged by its own data).
    """

    samplers: ClassVar[frozenset[str]]
    proven: ClassVar[bool] = True
    assumptions: ClassVar[tuple[str, ...]] = (
        "the mean of a reward is linear in the features of its arm",
        "the noise of each reward is sub-Gaussian with the known scale, whatever happened before",
        "neither whether nor when a reward is told depends on its value",
    )

    kind: ClassVar[int]
    """Its number in the kernels."""

    def _statement(self, delta: float) -> str:
        return f"the probability of ever stopping with a wrong answer is at most {delta:g}"


@dataclass(frozen=True, repr=False)
class MixtureLevel(Level):
    """``2 sigma^2 (1 + u) (ln(1/delta) + 1/2 ln det(I + (u A0)^-1 A))``; the adaptive default.

    A0 is the Gram matrix of initial pulls that are fixed before any reward. No bound on theta is
    needed, and the level does not depend on the units of the features.

    Parameters
    ----------
    spread : float
        The u of the formula, more than 0 and fixed in advance.

    Examples
    --------
    >>> MixtureLevel().guarantee(0.05).label
    'proven'
    """

    spread: float = 0.2

    name: ClassVar[str] = "mixture"
    source: ClassVar[str] = (
        "Abbasi-Yadkori, Pal, Szepesvari (2011), Improved algorithms for linear stochastic "
        "bandits, with the start-up's Gram matrix for a prior"
    )
    samplers: ClassVar[frozenset[str]] = frozenset({"static", "adaptive"})
    kind: ClassVar[int] = 4

    def __post_init__(self) -> None:
        check_number("spread", self.spread, low=0.0, open_low=True)


@dataclass(frozen=True, repr=False)
class RidgeLevel(Level):
    """``(sqrt(d ln((1 + N L^2 / eta) / delta)) + sqrt(eta) S)^2``, with ``A + eta I``.

    Rows and rewards are first divided by the scale of the noise, even if all arms share it, so L is
    the largest norm of a row divided by its noise. In one dimension ``ln(1/delta)`` counts twice:
    the formula as printed is not proven there.

    Parameters
    ----------
    norm_bound : float
        The S of the formula: an upper bound on the norm of theta.
    ridge : float
        The eta of the formula, more than 0; it applies to rows that are divided by the noise.

    Examples
    --------
    >>> RidgeLevel(norm_bound=2.0)
    RidgeLevel(norm_bound=2.0)
    """

    norm_bound: float
    ridge: float = 1.0

    name: ClassVar[str] = "ridge"
    source: ClassVar[str] = (
        "Soare, Lazaric, Munos (2014), Best-arm identification in linear bandits, Proposition 2; "
        "Abbasi-Yadkori, Pal, Szepesvari (2011)"
    )
    samplers: ClassVar[frozenset[str]] = frozenset({"static", "adaptive"})
    kind: ClassVar[int] = 5

    def __post_init__(self) -> None:
        check_number("norm_bound", self.norm_bound, low=0.0)
        check_number("ridge", self.ridge, low=0.0, open_low=True)

    def guarantee(self, delta: float) -> Guarantee:
        """Return the guarantee at an error of `delta`, with the assumed bound on theta."""
        promise = super().guarantee(delta)
        bound = f"the norm of theta is at most {self.norm_bound:g}"
        return replace(promise, assumptions=(*promise.assumptions, bound))


@dataclass(frozen=True, repr=False)
class StaticLevel(Level):
    """``2 sigma^2 ln((pi^2 / 6) N^2 (M - 1) / delta)``: a fixed design, tested after every result.

    Examples
    --------
    >>> StaticLevel().name
    'static'
    """

    name: ClassVar[str] = "static"
    source: ClassVar[str] = (
        "Soare, Lazaric, Munos (2014), Proposition 1, with a corrected sum over all N "
        "and a union bound over the answers that can beat the best"
    )
    samplers: ClassVar[frozenset[str]] = frozenset({"static"})
    kind: ClassVar[int] = 1


@dataclass(frozen=True, repr=False)
class StaticChecksLevel(Level):
    """``2 sigma^2 ln((M - 1) j (j + 1) / delta)``: a fixed design, at looks ``ceil(1.1^j)`` only.

    The default of the static policies.

    Examples
    --------
    >>> StaticChecksLevel().name
    'static-checks'
    """

    name: ClassVar[str] = "static-checks"
    source: ClassVar[str] = (
        "Soare, Lazaric, Munos (2014), Proposition 1, with a union bound over looks fixed "
        "in advance"
    )
    samplers: ClassVar[frozenset[str]] = frozenset({"static"})
    kind: ClassVar[int] = 2


@dataclass(frozen=True, repr=False)
class PhaseLevel(Level):
    """``2 sigma^2 ln((M - 1) j (j + 1) / delta)``: phase j, judged by its own data alone.

    Examples
    --------
    >>> PhaseLevel().name
    'phase'
    """

    name: ClassVar[str] = "phase"
    source: ClassVar[str] = (
        "Fiez, Jain, Jamieson, Ratliff (2019), Sequential experimental design for "
        "transductive linear bandits; Soare, Lazaric, Munos (2014), Lemma 4"
    )
    samplers: ClassVar[frozenset[str]] = frozenset({"phased"})
    kind: ClassVar[int] = 3


@dataclass(frozen=True, repr=False)
class Soare2014Level(Level):
    """``8 sigma^2 ln((6 / pi^2) N^2 M^2 / delta)``: as printed; very conservative.

    Examples
    --------
    >>> Soare2014Level().name
    'soare2014'
    """

    name: ClassVar[str] = "soare2014"
    source: ClassVar[str] = "Soare, Lazaric, Munos (2014), Equation 11"
    samplers: ClassVar[frozenset[str]] = frozenset({"static"})
    kind: ClassVar[int] = 0


@dataclass(frozen=True, repr=False)
class ConstantLevel(Level):
    """``sigma^2`` times a number: only to reproduce publications.

    Parameters
    ----------
    value : float
        The number, more than 0.

    Examples
    --------
    >>> ConstantLevel(4.12).guarantee(0.05).label
    'heuristic'
    """

    value: float

    name: ClassVar[str] = "constant"
    proven: ClassVar[bool] = False
    source: ClassVar[str] = "none"
    samplers: ClassVar[frozenset[str]] = frozenset({"static", "adaptive", "phased"})
    kind: ClassVar[int] = 6

    def __post_init__(self) -> None:
        check_number("value", self.value, low=0.0, open_low=True)

    def _statement(self, delta: float) -> str:
        return "no guarantee is claimed"


_BY_NAME: Mapping[str, type[Level]] = {
    level.name: level
    for level in (MixtureLevel, StaticChecksLevel, StaticLevel, PhaseLevel, Soare2014Level)
}


_WITH_NUMBERS = {
    RidgeLevel.name: "RidgeLevel(norm_bound)",
    ConstantLevel.name: "ConstantLevel(value)",
}


def level_named(level: str | Level, samplers: str, policy: str) -> Level:
    """Return the level that the argument ``stopping`` of a policy names.

    Raises
    ------
    InvalidArgument
        If the name is unknown, or if the level does not hold for the policy's sampling.
    """
    if isinstance(level, str) and level in _WITH_NUMBERS:
        raise InvalidArgument("stopping", f"must be the object {_WITH_NUMBERS[level]}", level)
    if isinstance(level, str):
        level = _BY_NAME[check_choice("stopping", level, list(_BY_NAME))]()
    if not isinstance(level, Level):
        raise InvalidArgument("stopping", "must be a level or its name", level)
    if samplers not in level.samplers:
        held = " or ".join(sorted(level.samplers))
        raise InvalidArgument(
            "stopping",
            f"must be valid for the {samplers} sampling of {policy}: "
            f"level {level.name!r} holds for {held} sampling only",
            level,
        )
    return level
