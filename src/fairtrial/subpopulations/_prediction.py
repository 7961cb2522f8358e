"""Predictions: a number that is known of a unit before its arm is drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from fairtrial.core.validation import check_choice, check_flag, check_number, check_range
from fairtrial.core.wording import choices
from fairtrial.errors import InvalidArgument

__all__ = ["TOO_LATE", "Prediction"]

_SMALLEST, _LARGEST = 1e-140, 1e140

TOO_LATE = (
    "must be given to ask: a prediction counts only if it was recorded before the arm was drawn"
)
"""Why a prediction that comes with an outcome is refused."""

_IN_RANGE = ("range", "fit", "missing", "known_mean")
_WITH_NOISE = ("residual_std", "known_mean")
"""The keys of a statement for rewards in a range, and of one for a known noise."""


@dataclass(frozen=True)
class Prediction:
    """What is known about predictions.

    Parameters
    ----------
    range : (float, float), optional
        Predictions are cut to this range. Any range is valid; the narrowest that contains most of
        them is best. None if `residual_std` is given.
    fit : bool
        Whether the slope of the reward on the prediction is fitted to the results so far; otherwise
        it is 1.
    missing : {"refuse", "mean"}
        Whether each unit must have a prediction, or one without counts as the mean of its group.
    known_mean : dict of str to float, optional
        The mean prediction of all units of a group, by group, if it is known, for example from a
        census; of predictions that are cut to the range.
    residual_std : float, optional
        With a known noise, the standard deviation of a reward minus its prediction (of its
        sub-Gaussian bound), in every cell. The slope is then 1.
    """

    range: tuple[float, float] | None
    fit: bool = True
    missing: str = "refuse"
    known_mean: dict[str, float] | None = field(default=None, hash=False)
    residual_std: float | None = None

    @classmethod
    def given(cls, prediction: Any) -> Prediction:
        """Return a checked statement about predictions, from a range or a mapping.

        Raises
        ------
        InvalidArgument
            If it is neither, a key is unknown, or a value is not acceptable.

        Examples
        --------
        >>> Prediction.given((0, 1)).fit
        True
        >>> Prediction.given({"range": (0, 1), "missing": "mean"}).missing
        'mean'
        """
        if isinstance(prediction, cls):
            return prediction
        if isinstance(prediction, Sequence) and not isinstance(prediction, str | bytes):
            prediction = {"range": prediction}
        accepted = (
            "must be a range (low, high), a mapping with the keys "
            f"{', '.join(_IN_RANGE)}, or, with "
            f"noise_std, one with {', '.join(_WITH_NOISE)}"
        )
        if not isinstance(prediction, Mapping):
            raise InvalidArgument("prediction", accepted, prediction)
        first, *others = _WITH_NOISE if "residual_std" in prediction else _IN_RANGE
        if first not in prediction:
            raise InvalidArgument("prediction", accepted, prediction)
        for key in prediction:
            if key not in (first, *others):
                raise InvalidArgument("prediction", accepted, key)
        if first == "residual_std":
            return cls._with_noise(prediction)
        low, high = check_range("prediction.range", prediction["range"])
        if high - low < _SMALLEST or max(abs(low), abs(high)) > _LARGEST:
            accepted = f"must be at least {_SMALLEST:g} wide, within {_LARGEST:g} of 0"
            raise InvalidArgument("prediction.range", accepted, prediction["range"])
        missing = prediction.get("missing", "refuse")
        return cls(
            (low, high),
            check_flag("prediction.fit", prediction.get("fit", True)),
            check_choice("prediction.missing", missing, ["refuse", "mean"]),
            _means_in_range(prediction.get("known_mean"), low, high, missing),
        )

    @classmethod
    def _with_noise(cls, prediction: Mapping[str, Any]) -> Prediction:
        """Return a checked statement about predictions of rewards with a known noise."""
        name, given = "prediction.residual_std", prediction["residual_std"]
        std = check_number(name, given, low=_SMALLEST, high=_LARGEST)
        means = _means_in_range(prediction.get("known_mean"), -_LARGEST, _LARGEST, "refuse")
        return cls(None, fit=False, known_mean=means, residual_std=std)

    @property
    def ends(self) -> tuple[float, float]:
        """The range, infinite if predictions are not cut."""
        return self.range or (-math.inf, math.inf)

    @property
    def as_given(self) -> dict[str, Any]:
        """The statement in the form that `given` accepts, with lists instead of tuples."""
        found = {**asdict(self), "range": list(self.ends)}
        keys = _IN_RANGE if self.residual_std is None else _WITH_NOISE
        return {key: found[key] for key in keys if found[key] is not None}

    def means_of(self, groups: Sequence[str]) -> list[float]:
        """Return the known mean of every group; NaN where it is not known.

        Raises
        ------
        InvalidArgument
            If a mean is stated for something that is no group.
        """
        stated = self.known_mean or {}
        for name in stated:
            if name not in groups:
                accepted = f"must name groups: {choices(groups, name)}"
                raise InvalidArgument("prediction.known_mean", accepted, name)
        return [stated.get(group, math.nan) for group in groups]

    def check(self, value: Any) -> float | None:
        """Return the prediction of one unit as given, or None if it has none.

        Raises
        ------
        InvalidArgument
            If it is not a finite number, or missing although each unit must have one.
        """
        if value is None:
            if self.missing == "refuse":
                accepted = "must be given to ask, because the problem has predictions"
                if self.range is not None:
                    accepted += "; state missing = 'mean' in the problem if some units have none"
                raise InvalidArgument("prediction", accepted)
            return None
        if self.range is None:
            return check_number("prediction", value, low=-_LARGEST, high=_LARGEST)
        return check_number("prediction", value)

    def cut(self, value: float) -> float:
        """Return a prediction cut to the range."""
        low, high = self.ends
        return min(max(value, low), high)

    def in_words(self) -> str:
        """Return the statement in words."""
        stated = (self.known_mean or {}).items()
        known = ", ".join(f"{group} {mean:,.6g}" for group, mean in stated)
        known = f"; known means: {known}" if known else ""
        if self.residual_std is not None:
            return (
                "a number recorded before the arm is drawn; a reward minus its prediction has the "
                f"standard deviation {self.residual_std:,.12g}{known}"
            )
        low, high = self.ends
        slope = "a slope fitted to the results" if self.fit else "the slope 1"
        missing = "; a unit without one counts as the mean of its group"
        return (
            f"a number recorded before the arm is drawn, cut to {low:,.12g} to {high:,.12g}, used "
            f"with {slope}{missing if self.missing == 'mean' else ''}{known}"
        )


def _means_in_range(given: Any, low: float, high: float, missing: str) -> dict[str, float] | None:
    """Return the known means by group; None if there are none."""
    name = "prediction.known_mean"
    if given is None:
        return None
    if not isinstance(given, Mapping) or not given:
        raise InvalidArgument(name, "must map groups to their mean predictions", given)
    if missing == "mean":
        accepted = (
            "must be left out with missing = 'mean': units without one may differ from others"
        )
        raise InvalidArgument(name, accepted, given)
    found = {str(group): check_number(name, mean) for group, mean in given.items()}
    for mean in found.values():
        if not low < mean < high:
            raise InvalidArgument(name, f"must be between {low:g} and {high:g}", mean)
    return found
