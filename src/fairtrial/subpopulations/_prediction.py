"""Predictions: a number that is known of a unit before its arm is drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from fairtrial.core.validation import check_choice, check_flag, check_number, check_range
from fairtrial.core.wording import choices
from fairtrial.errors import InvalidArgument

__all__ = ["TOO_LATE", "MeasurePredictions", "Prediction"]

_SMALLEST, _LARGEST = 1e-140, 1e140

TOO_LATE = (
    "must be given to ask: a prediction counts only if it was recorded before the arm was drawn"
)
"""Why a prediction that comes with an outcome is refused."""

REWARD = "reward"
"""The name of the only measure of a pull that gives a reward."""

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
    def given(cls, prediction: Any, name: str = "prediction") -> Prediction:
        """Return a checked statement about predictions, from a range or a mapping.

        Parameters
        ----------
        prediction : (float, float), mapping or Prediction
            The statement.
        name : str
            Its name in errors.

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
            raise InvalidArgument(name, accepted, prediction)
        first, *others = _WITH_NOISE if "residual_std" in prediction else _IN_RANGE
        if first not in prediction:
            raise InvalidArgument(name, accepted, prediction)
        for key in prediction:
            if key not in (first, *others):
                raise InvalidArgument(name, accepted, key)
        if first == "residual_std":
            return cls._with_noise(prediction, name)
        low, high = check_range(f"{name}.range", prediction["range"])
        if high - low < _SMALLEST or max(abs(low), abs(high)) > _LARGEST:
            accepted = f"must be at least {_SMALLEST:g} wide, within {_LARGEST:g} of 0"
            raise InvalidArgument(f"{name}.range", accepted, prediction["range"])
        missing = prediction.get("missing", "refuse")
        return cls(
            (low, high),
            check_flag(f"{name}.fit", prediction.get("fit", True)),
            check_choice(f"{name}.missing", missing, ["refuse", "mean"]),
            _means_in_range(name, prediction.get("known_mean"), low, high, missing),
        )

    @classmethod
    def _with_noise(cls, prediction: Mapping[str, Any], name: str) -> Prediction:
        """Return a checked statement about predictions of rewards with a known noise."""
        own, given = f"{name}.residual_std", prediction["residual_std"]
        std = check_number(own, given, low=_SMALLEST, high=_LARGEST)
        stated = prediction.get("known_mean")
        means = _means_in_range(name, stated, -_LARGEST, _LARGEST, "refuse")
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

    def means_of(self, groups: Sequence[str], of: str = "prediction") -> list[float]:
        """Return the known mean of every group; NaN where it is not known.

        `of`: the name of the statement in errors.

        Raises
        ------
        InvalidArgument
            If a mean is stated for something that is no group.
        """
        stated = self.known_mean or {}
        for name in stated:
            if name not in groups:
                accepted = f"must name groups: {choices(groups, name)}"
                raise InvalidArgument(f"{of}.known_mean", accepted, name)
        return [stated.get(group, math.nan) for group in groups]

    @property
    def of_measures(self) -> dict[str, Prediction]:
        """The statement by what it is about: the reward."""
        return {REWARD: self}

    def check(self, value: Any) -> list[float | None]:
        """Return the prediction of one unit as given, or None if it has none, in a list of one.

        Raises
        ------
        InvalidArgument
            If it is not a finite number, or missing although each unit must have one.
        """
        return [self.check_one(value)]

    def check_one(self, value: Any, name: str = "prediction") -> float | None:
        """Return the prediction of one unit as given, or None if it has none."""
        if value is None:
            if self.missing == "refuse":
                accepted = "must be given to ask, because the problem has predictions"
                if self.range is not None:
                    accepted += "; state missing = 'mean' in the problem if some units have none"
                raise InvalidArgument(name, accepted)
            return None
        if self.range is None:
            return check_number(name, value, low=-_LARGEST, high=_LARGEST)
        return check_number(name, value)

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


@dataclass(frozen=True)
class MeasurePredictions:
    """What is known about predictions of single measures of a pull.

    Parameters
    ----------
    of_measures : dict of str to Prediction
        The statement about the prediction of each measure that has one, in the order of measures.
    """

    of_measures: dict[str, Prediction] = field(hash=False)

    @classmethod
    def given(cls, prediction: Any, measures: Sequence[str]) -> MeasurePredictions:
        """Return checked statements from a mapping of measures to ranges or mappings.

        Raises
        ------
        InvalidArgument
            If it is no mapping of some of the measures, or a statement is not acceptable.

        Examples
        --------
        >>> stated = MeasurePredictions.given({"cured": (0, 1)}, ["cured", "harmed"])
        >>> stated.check(0.4), stated.check({"cured": 0.4})
        ([0.4], [0.4])
        """
        if isinstance(prediction, cls):
            return prediction
        if not isinstance(prediction, Mapping) or not prediction:
            accepted = "must map the measures that are predicted to the ranges of their predictions"
            raise InvalidArgument("prediction", accepted, prediction)
        for name in prediction:
            if name not in measures:
                accepted = f"must be of measures: {choices(measures, str(name))}"
                raise InvalidArgument("prediction", accepted, name)
        return cls(
            {
                name: Prediction.given(prediction[name], f"prediction[{name}]")
                for name in measures
                if name in prediction
            }
        )

    @property
    def as_given(self) -> dict[str, Any]:
        """The statements in the form that `given` accepts."""
        return {name: own.as_given for name, own in self.of_measures.items()}

    def check(self, value: Any) -> list[float | None]:
        """Return the predictions of one unit in the order of measures; None for one it lacks.

        Raises
        ------
        InvalidArgument
            If one is of a measure without a prediction, not a finite number, or missing although
            each unit must have one.
        """
        names = list(self.of_measures)
        if not isinstance(value, Mapping):
            if value is not None and len(names) > 1:
                accepted = f"must give the prediction of each measure of {names} by its name"
                raise InvalidArgument("prediction", accepted, value)
            value = {names[0]: value}
        for name in value:
            if name not in names:
                accepted = f"must be of measures that are predicted: {choices(names, str(name))}"
                raise InvalidArgument("prediction", accepted, name)
        return [
            own.check_one(value.get(name), f"prediction[{name}]")
            for name, own in self.of_measures.items()
        ]

    def in_words(self) -> str:
        """Return the statements in words."""
        return "; ".join(f"of {name}: {own.in_words()}" for name, own in self.of_measures.items())


def _means_in_range(
    of: str, given: Any, low: float, high: float, missing: str
) -> dict[str, float] | None:
    """Return the known means by group; None if there are none. `of`: the prediction's name."""
    name = f"{of}.known_mean"
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
