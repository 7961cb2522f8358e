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

_KEYS = ("range", "fit", "missing", "known_mean")


@dataclass(frozen=True)
class Prediction:
    """What is known about predictions.

    Parameters
    ----------
    range : (float, float)
        Predictions are cut to this range. Any range is valid; the narrowest that contains most of
        them is best.
    fit : bool
        Whether the slope of the reward on the prediction is fitted to the results so far; otherwise
        it is 1.
    missing : {"refuse", "mean"}
        Whether each unit must have a prediction, or one without counts as the mean of its group.
    known_mean : dict of str to float, optional
        The mean prediction of all units of a group, by group, if it is known, for example from a
        census; of predictions that are cut to the range.
    """

    range: tuple[float, float]
    fit: bool = True
    missing: str = "refuse"
    known_mean: dict[str, float] | None = field(default=None, hash=False)

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
        accepted = f"must be a range (low, high), or a mapping with the keys {', '.join(_KEYS)}"
        if not isinstance(prediction, Mapping) or "range" not in prediction:
            raise InvalidArgument("prediction", accepted, prediction)
        for key in prediction:
            if key not in _KEYS:
                raise InvalidArgument("prediction", accepted, key)
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

    @property
    def as_given(self) -> dict[str, Any]:
        """The statement in the form that `given` accepts, with lists instead of tuples."""
        found = {**asdict(self), "range": list(self.range)}
        if self.known_mean is None:
            del found["known_mean"]
        return found

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
                accepted = (
                    "must be given to ask, because the problem has predictions; state missing = "
                    "'mean' in the problem if some units have none"
                )
                raise InvalidArgument("prediction", accepted)
            return None
        return check_number("prediction", value)

    def cut(self, value: float) -> float:
        """Return a prediction cut to the range."""
        low, high = self.range
        return min(max(value, low), high)

    def in_words(self) -> str:
        """Return the statement in words."""
        low, high = self.range
        slope = "a slope fitted to the results" if self.fit else "the slope 1"
        missing = "; a unit without one counts as the mean of its group"
        stated = (self.known_mean or {}).items()
        known = ", ".join(f"{group} {mean:,.6g}" for group, mean in stated)
        return (
            f"a number recorded before the arm is drawn, cut to {low:,.12g} to {high:,.12g}, used "
            f"with {slope}{missing if self.missing == 'mean' else ''}"
            f"{f'; known means: {known}' if known else ''}"
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
            raise InvalidArgument(name, f"must be inside the range {low:g} to {high:g}", mean)
    return found
