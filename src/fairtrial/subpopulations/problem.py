"""What is known and wanted: arms, groups, weights, limits, and the measures of a pull."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.measures import Measures
from fairtrial.core.problem import Problem as BaseProblem
from fairtrial.core.sizes import check_size
from fairtrial.core.validation import (
    as_floats,
    check_array,
    check_choice,
    check_flag,
    check_labels,
    check_number,
    check_optional_label,
    check_range,
    plain_labels,
    require_each,
    require_shares_or_counts,
)
from fairtrial.core.wording import (
    beside_in_words,
    best_of,
    listed,
    or_within,
    rewards_in_words,
)
from fairtrial.errors import InvalidArgument, InvalidOutcome, NotSupported
from fairtrial.subpopulations._measured import (
    Noise,
    better_values,
    direction_of,
    limits_in_words,
    measures_in_words,
    objective_in_words,
    objective_of,
)
from fairtrial.subpopulations._prediction import MeasurePredictions, Prediction
from fairtrial.subpopulations.limits import (
    LimitRow,
    Limits,
    limit_rows,
    relative_rows,
    require_possible,
    row_of_quality,
)

__all__ = ["LimitRow", "Problem"]

Floats = NDArray[np.float64]
ESTIMATED = "estimated"
AUTO = "auto"
ANY, BINARY = "any", "binary"

_SMALLEST, _LARGEST = 1e-140, 1e140
"""Limits for scales: a float can hold their squares and what is computed from them."""

_ROUNDING = 1e-12

_UNITS = "give rewards in other units"


class Problem(BaseProblem):
    """The best arm overall among those that fail no group.

    An arm's quality is the weighted mean of its group means. An arm is feasible if every group mean
    is at least its floor and at most its ceiling, if it has them, and if it is not too far below
    the control, if there are limits against one. The answer is the feasible arm with the largest
    quality, or "no arm".

    Parameters
    ----------
    arms : sequence or series of str, or int
        Labels of the K arms, or their number.
    groups : sequence of str, mapping of str to float, pandas.Series, or int
        Labels of the L groups. A mapping gives their weights as well, and so does a Series of
        numbers with the labels as index (``table["group"].value_counts(normalize=True)``).
    group_weights : array-like of shape (L,), or mapping by label, optional
        Share of each group in the quality, equal by default: shares that sum to 1 (their last digit
        may be rounded), or counts of people, which are whole numbers.
    floors : float, None, "auto", array-like of shape (L,) or (K, L), or mapping by label
        What a group mean must reach: one number for all, by group, or by arm and group (``{"a":
        {"young": 0.2, "old": None}, ...}``). ``None`` or ``-inf`` sets no floor. With
        ``direction="minimize"`` the mean must not exceed it, and ``inf`` sets no floor.
        ``"auto"`` (default) is 0, or no floor at all if `ceilings`, `margin` or `superiority` is
        given.
    noise_std : float, array-like of shape (K, L), mapping by label, or "estimated"
        Standard deviation of a reward (of its sub-Gaussian bound), if it is known.
        ``"estimated"`` uses each cell's sample standard deviation; no rule is proven for this.
    reward_range : (float, float)
        The range that contains every reward, if that is what is known.
    direction : {"maximize", "minimize"}, or mapping of str to these
        Whether large or small rewards are good. With `measures` it is the direction of the
        objective, or a mapping with the directions of some measures (``{"latency": "minimize"}``),
        which limits against the control need.
    costs : float, array-like of shape (K, L), or mapping by label, optional
        Cost of a pull, by cell; equal by default.
    tolerance : float
        How much worse than the best an answer's quality may be.
    floor_tolerance : float
        How far beyond a limit the answer's cells may be; a rival must be this far within its
        limits to count.
    ceilings : as `floors`
        Limits on the other side, for means that must stay in an interval; none by default.
        With ``direction="minimize"`` a mean must not fall below them.
    delay_depends_on_outcome : bool
        Whether the value of a result may influence when it is told, or whether it is told at all.
        Block betting needs no assumption about this. The rules that choose one pull at a time then
        use only the results of a cell that are complete in the order of issue, at a higher price
        for pairs; a lost pull ends the use of its cell. They need the certified stop.
    control : str, optional
        The arm that the others are compared with in `Progress.effects`; by default the leader.
        It changes decisions only through `margin` and `superiority`.
    margin : float, None, array-like of shape (L,) or (K, L), or mapping by label, optional
        How much worse than the control's mean an arm's mean in a group may be (a non-inferiority
        margin); 0 for "not worse at all". Same forms as `floors`; ``None`` or ``inf`` sets no
        limit. The control itself has no such limit.
    superiority : float, or mapping if `measures` is given, optional
        How much an arm's quality must exceed the control's. If no arm's does, the answer is the
        control, unless it breaks a limit of its own. With `measures` it can be a mapping like
        `floors`: how much better than the control an arm must be in single measures.
    measures : mapping of str to (float, float), or sequence of str, optional
        The measures of a pull, if it has several: a mapping of names to ranges; or the names
        alone, with `noise_std` by measure, or `noise_cov`. An outcome is then a mapping of these
        names to numbers. Nothing is assumed about how the measures of a pull depend on each other,
        unless `noise_cov` states it.

        With measures, a floor is always a lower limit and a ceiling an upper one, and there are
        none by default. Both are mappings, and so is `margin`. The key is a measure (a limit in
        every group), ``(measure, group)`` (replaces it there), or ``(measure, OVERALL)`` (an
        additional limit on the weighted mean of all groups). The value is a number, None for no
        limit, or a mapping of these by arm, in which limits against the control leave the control
        out. In a file they are lists of ``{measure, group or overall = true, bound}``. Which values
        of a measure are worse than the control's follows from the objective; for a measure that is
        not part of it, `direction` must say so.
    objective : str, or mapping of str to float, optional
        The measure whose mean is the quality, or the weight of each measure in it:
        ``{"efficacy": 1.0, "toxicity": -0.5}``. `direction` and `tolerance` refer to it.
    noise_cov : array-like of shape (M, M) or (K, L, M, M), optional
        The covariance matrix of the measures of a pull, if it is known.
    prediction : (float, float), or mapping of str to object, optional
        A number is known of each unit before its arm is drawn, for example what a model predicts,
        or the same quantity before the study. It goes into ``ask(prediction=...)`` and saves up to
        the share of the variance that it explains. For rewards in a range, nothing is assumed about
        how good it is. Given is the range to which predictions are cut, or a mapping: ``range``;
        ``fit``, whether the slope on it is fitted to the results (default), or 1; ``missing``,
        ``"refuse"`` (default) or ``"mean"`` if some units may have none; ``known_mean``, by group
        the mean prediction of all units, if it is known: a limit of a single arm then gains as much
        as a difference. With `noise_std`, the mapping has ``residual_std``, the standard deviation
        of a reward minus its prediction, and perhaps ``known_mean``.

        With `measures` it is a mapping of each measure that is predicted to one of these:
        ``{"cd4": (0, 1200)}``. Then ``ask(prediction={"cd4": 350})`` gives them; a number is enough
        if only one measure is predicted. Bets on other measures stay as they are.
    outcomes : {"any", "binary"}
        Which values in its range a reward can have. "binary" says that every reward is 0 or 1; all
        others are then refused. With two arms, a planned end gets exact bets from it.

    Raises
    ------
    InvalidArgument
        If an argument is not acceptable; exactly one of `noise_std` and `reward_range`
        must be given.

    Notes
    -----
    Source: Wu, Zheng, Zhu, "Best Arm Identification with Fairness Constraints on
    Subpopulations", section 2, with floors on any set of cells.

    Examples
    --------
    >>> problem = Problem(["a", "b"], {"young": 0.4, "old": 0.6}, floors=0.0, reward_range=(-1, 1))
    >>> problem.n_actions
    4
    >>> problem.labels(3)
    {'arm': 'b', 'group': 'old'}

    A dose that must work in every group, and not too strongly:

    >>> doses = Problem(["low", "high"], 3, floors=0.2, ceilings=0.6, reward_range=(0, 1))
    >>> doses.feasible([[0.1, 0.3, 0.3], [0.3, 0.5, 0.6]]).tolist()
    [False, True]

    A new page that may harm no segment, whatever the level of the present one turns out to be:

    >>> pages = Problem(["now", "new"], 2, control="now", margin=0.01, reward_range=(0, 1))
    >>> pages.feasible([[0.10, 0.20], [0.30, 0.18]]).tolist()
    [True, False]

    The most effective dose among those with few side effects:

    >>> doses = Problem(["low", "high"], 1, measures={"cured": (0, 1), "harmed": (0, 1)},
    ...                 objective="cured", ceilings={"harmed": 0.2})
    >>> doses.feasible({"cured": [[0.3], [0.6]], "harmed": [[0.1], [0.4]]}).tolist()
    [True, False]

    The page that sells most, among those that are better than the present one and load at most 20
    ms more slowly in any segment:

    >>> pages = Problem(["now", "new"], 2, measures={"sold": (0, 1), "load": (0, 2000)},
    ...                 objective="sold", direction={"load": "minimize"},
    ...                 control="now", superiority=0.0, margin={"load": 20})
    >>> means = {"sold": [[0.1, 0.1], [0.1, 0.2]], "load": [[300, 500], [310, 530]]}
    >>> pages.feasible(means).tolist()
    [True, False]
    """

    family = "subpopulations"
    default_policy = "BlockBetting"
    _not_parameters = frozenset()

    limit_rows: tuple[LimitRow, ...] = ()
    """The limits of measures, one row each; without `measures` see `limits`."""

    objective_weights: Floats | None = None
    """The weight of every measure in the quality, shape (M,), in the user's units."""

    floors: Any
    ceilings: Any
    noise_std: Any

    _noise = Noise()

    _has_usual_floors = False
    """Whether the floors were not given."""

    margin: Any
    superiority: Any

    _direction_given: Any

    _limits_given: tuple[Limits, Limits]
    """Floors and ceilings of measures."""

    _relative_given: tuple[Limits, ...] = ()
    """Their limits against the control."""

    _better: Floats
    """By measure 1 if large values are good, -1 if small ones are, 0 if this is not known."""

    def __init__(
        self,
        arms: Sequence[str] | int,
        groups: Sequence[str] | Mapping[str, float] | int,
        group_weights: ArrayLike | None = None,
        floors: ArrayLike | str | Mapping[Any, Any] | None = AUTO,
        noise_std: ArrayLike | str | Mapping[str, Any] | None = None,
        reward_range: tuple[float, float] | None = None,
        direction: str | Mapping[str, str] = "maximize",
        costs: ArrayLike | None = None,
        tolerance: float = 0.0,
        floor_tolerance: float = 0.0,
        ceilings: ArrayLike | Mapping[Any, Any] | None = None,
        delay_depends_on_outcome: bool = False,
        control: str | None = None,
        margin: ArrayLike | None = None,
        superiority: float | Mapping[Any, Any] | None = None,
        measures: Mapping[str, tuple[float, float]] | Sequence[str] | None = None,
        objective: str | Mapping[str, float] | None = None,
        noise_cov: ArrayLike | None = None,
        prediction: tuple[float, float] | Mapping[str, Any] | None = None,
        outcomes: str = ANY,
    ) -> None:
        self.arms = check_labels("arms", arms)
        groups = _with_weights(groups)
        if isinstance(groups, Mapping):
            if group_weights is not None:
                raise InvalidArgument(
                    "group_weights", "must be left out when groups is a mapping", group_weights
                )
            group_weights = list(groups.values())
            groups = list(groups)
        self.groups = check_labels("groups", groups)
        self.shape = (len(self.arms), len(self.groups))
        check_size("arms, groups", "actions", self.n_actions)
        measured = None if measures is None else Measures.given(measures)
        if measured is None:
            direction = check_choice("direction", direction, ["maximize", "minimize"])
        else:
            objective, self.objective_weights = objective_of(measured, objective)
        self._direction_given = plain_labels("direction", direction)
        self.direction = direction_of(self._direction_given, objective)
        self.group_weights = self._given_weights(group_weights)
        self.control = check_optional_label("control", control, self.arms)
        self._require_control(margin=margin, superiority=superiority)
        self.margin, self.superiority = margin, superiority
        self.costs = self._positive_cells("costs", 1.0 if costs is None else costs)
        self.tolerance = check_number("tolerance", tolerance, low=0.0)
        self.floor_tolerance = check_number("floor_tolerance", floor_tolerance, low=0.0)
        self.delay_depends_on_outcome = check_flag(
            "delay_depends_on_outcome", delay_depends_on_outcome
        )
        self.objective: Any = objective
        self.noise_cov: Any = noise_cov
        self.outcomes = check_choice("outcomes", outcomes, [ANY, BINARY])
        self.prediction = self._given_prediction(prediction, measured, noise_cov)
        for name, one in self.predictions.items():
            is_bounded = reward_range is not None if measured is None else bool(measured.ranges)
            of = "prediction" if measured is None else f"prediction[{name}]"
            one.means_of(self.groups, of)
            self._require_form(one, of, is_bounded)
        if measured is None:
            self._take_one_measure(floors, ceilings, noise_std, reward_range)
        else:
            self._take_measures(measured, floors, ceilings, noise_std, reward_range)
        self._freeze()

    @property
    def is_binary(self) -> bool:
        """Whether every reward is 0 or 1."""
        return self.outcomes == BINARY

    def _given_prediction(
        self, prediction: Any, measured: Measures | None, noise_cov: Any
    ) -> Prediction | MeasurePredictions | None:
        """Return checked statements about predictions, if there are some."""
        if prediction is None:
            return None
        if measured is not None:
            of_measures = MeasurePredictions.given(prediction, measured.names)
            if noise_cov is not None:
                raise NotSupported(
                    "a problem with noise_cov cannot have a prediction: it does not say how widely "
                    "measures spread around their predictions; state noise_std and residual_std"
                )
            return of_measures
        found = Prediction.given(prediction)
        if self.floor_tolerance:
            raise NotSupported("a problem with a floor_tolerance cannot have a prediction yet")
        return found

    @property
    def predictions(self) -> dict[str, Prediction]:
        """What is known about predictions, by measure; by ``"reward"`` if there is only a reward.

        Empty without predictions.
        """
        return {} if self.prediction is None else self.prediction.of_measures

    @staticmethod
    def _require_form(prediction: Prediction, name: str, is_bounded: bool) -> None:
        """Require the range of a prediction where outcomes have one, and otherwise its noise."""
        if not is_bounded and prediction.residual_std is None:
            accepted = (
                "must be a mapping with residual_std, the standard deviation of a reward minus its "
                "prediction, if noise_std is given instead of a range"
            )
            raise InvalidArgument(name, accepted, prediction.as_given)
        if is_bounded and prediction.residual_std is not None:
            accepted = "must be left out where outcomes have a range: state that of predictions"
            raise InvalidArgument(f"{name}.residual_std", accepted, prediction.residual_std)

    @staticmethod
    def _require_smaller_residuals(prediction: Prediction, name: str, stds: Any) -> None:
        """Refuse predictions that explain nothing of the stated noise."""
        if prediction.residual_std is None:
            return
        if isinstance(stds, str):
            raise InvalidArgument("noise_std", "must be known if there is a prediction", stds)
        residual, largest = prediction.residual_std, float(np.max(stds))
        if residual >= largest:
            accepted = f"must be less than noise_std ({largest:g}): otherwise nothing is saved"
            raise InvalidArgument(f"{name}.residual_std", accepted, residual)

    def _require_control(self, **limits: Any) -> None:
        for name, limit in limits.items():
            if limit is not None and self.control is None:
                raise InvalidArgument("control", f"must name an arm if {name} is given", None)

    def _take_one_measure(self, floors: Any, ceilings: Any, noise_std: Any, given: Any) -> None:
        """Set limits and noise for rewards that are numbers."""
        for name in ("objective", "noise_cov"):
            if getattr(self, name) is not None:
                raise InvalidArgument(name, "needs measures to be given", getattr(self, name))
        self.margin, self.superiority = self._given_differences(self.margin, self.superiority)
        self.ceilings = self._given_limits("ceilings", ceilings, free=self.sign * math.inf)
        self._has_usual_floors = isinstance(floors, str) and floors == AUTO
        if self._has_usual_floors:
            has_others = self.refers_to_control or bool(np.isfinite(self.ceilings).any())
            floors = None if has_others else 0.0
        self.floors = self._given_limits("floors", floors, free=-self.sign * math.inf)
        self.noise_std, self.reward_range = self._given_noise(noise_std, given)
        for one in self.predictions.values():
            self._require_smaller_residuals(one, "prediction", self.noise_std)
        if self.is_binary and self.reward_range != (0.0, 1.0):
            accepted = "must be (0, 1) with outcomes='binary'"
            raise InvalidArgument("reward_range", accepted, self.reward_range)
        self._check_intervals()
        self._check_reach()

    def _take_measures(
        self, measured: Measures, floors: Any, ceilings: Any, noise_std: Any, reward_range: Any
    ) -> None:
        """Set limits and noise for outcomes with several measures."""
        if isinstance(floors, str) and floors == AUTO:
            floors = None
        self.measured = measured
        if self.is_binary:
            raise InvalidArgument("outcomes", "must be left out if measures is given", BINARY)
        for name, value in (
            ("floor_tolerance", self.floor_tolerance or None),
            ("reward_range", reward_range),
        ):
            if value is not None:
                raise InvalidArgument(name, "must be left out if measures is given", value)
        self._noise = Noise.given(measured, noise_std, self.noise_cov, self._positive_cells)
        self.noise_std, self.noise_cov = self._noise.noise_std, self._noise.noise_cov
        if self._noise.std is not None:
            for name, one in self.predictions.items():
                stds = self._noise.std[..., measured.index(name, "prediction")]
                self._require_smaller_residuals(one, f"prediction[{name}]", stds)
        lower = Limits.given("floors", floors, measured, self.arms, self.groups)
        upper = Limits.given("ceilings", ceilings, measured, self.arms, self.groups)
        self._limits_given = (lower, upper)
        self.floors, self.ceilings = tuple(lower.as_data()), tuple(upper.as_data())
        self.limit_rows = limit_rows(lower, upper, measured, self.arms, self.groups)
        weights = np.asarray(self.objective_weights)
        self._better = better_values(measured, self._direction_given, weights, self.sign)
        if self.control is not None:
            self.limit_rows += self._rows_beside(measured, self.control)
        require_possible(self.limit_rows, measured, self.arms, self.groups, self.shares)

    def _rows_beside(self, measured: Measures, control: str) -> tuple[LimitRow, ...]:
        """Return the limits against the control; set `margin` and `superiority` in clean form."""
        labels, weights = (self.arms, self.groups), np.asarray(self.objective_weights)
        quality: tuple[LimitRow, ...] = ()
        given = []
        if self.margin is not None:
            given.append(Limits.given("margin", self.margin, measured, *labels, control))
            self.margin = tuple(given[-1].as_data())
        if isinstance(self.superiority, Mapping | Sequence) and not isinstance(
            self.superiority, str
        ):
            own = Limits.given("superiority", self.superiority, measured, *labels, control)
            given.append(own)
            self.superiority = tuple(given[-1].as_data())
        elif self.superiority is not None:
            least = check_number("superiority", self.superiority, low=0.0, high=_LARGEST)
            self.superiority = least
            quality = (row_of_quality(least, self.sign, weights, control, self.arms),)
        self._relative_given = tuple(given)
        return (*relative_rows(given, self._better, control, measured, *labels), *quality)

    def clone(self, **changes: Any) -> Self:
        """Return a new problem made from the same arguments, with some of them changed.

        Floors that were not given are the usual ones of the new problem.
        """
        if self._has_usual_floors:
            changes = {"floors": AUTO, **changes}
        return super().clone(**changes)

    def in_words(self) -> Mapping[str, str]:
        """Return the question in words, by topic."""
        found = best_of(self.arms, self.direction)
        if self.measured is not None:
            found += f" of {objective_in_words(self.objective)}"
        found += or_within(self.tolerance)
        words = {"Question": found + ("?" if not self.can_exclude else self._limits_asked)}
        if len(self.groups) > 1:
            shares = zip(self.groups, self.shares, strict=True)
            words["Weight of each group"] = listed([f"{name} {q:.1%}" for name, q in shares])
        if self.control is not None:
            words["Control"] = self.control
        if self.measured is None:
            words["Rewards"] = rewards_in_words(self.reward_range, self.noise_std)
            if self.is_binary:
                words["Rewards"] = "A reward is 0 or 1"
        else:
            words["Limits"] = "; ".join(self._limits_of_measures) or "none"
            words["Measures"] = measures_in_words(self.measured, self._noise)
        if self.prediction is not None:
            words["Prediction"] = self.prediction.in_words()
        return words

    @property
    def _limits_of_measures(self) -> list[str]:
        """The limits of measures in words."""
        names = self.measures
        found = [phrase for own in self._limits_given for phrase in limits_in_words(own)]
        if self._relative_given:
            better = dict(zip(names, self._better.tolist(), strict=True))
            ranges = self.measure_ranges
            sizes = np.full(len(names), math.inf) if ranges is None else np.ptp(ranges, axis=1)
            widths = dict(zip(names, sizes.tolist(), strict=True))
            for own in self._relative_given:
                found += limits_in_words(own, self.control, better, widths)
        if isinstance(self.superiority, float):
            kind = "floor" if self.sign > 0.0 else "ceiling"
            least, control = self.sign * self.superiority, str(self.control)
            beside = beside_in_words(kind, least, control, "{:,.12g}".format)
            found.append(f"{objective_in_words(self.objective)} {beside} overall")
        return found

    @property
    def _limits_asked(self) -> str:
        """The end of the question: the limits that an answer must keep."""
        if self.measured is not None:
            return ", among those that keep all limits?"
        limits = [
            f"{size} {_ends_in_words(ends)}"
            for size, ends in (
                ("at least" if self.sign > 0 else "at most", self.floors),
                ("at most" if self.sign > 0 else "at least", self.ceilings),
            )
            if np.isfinite(ends).any()
        ]
        where = "in every group" if len(self.groups) > 1 else ""
        asked = [f"whose mean {where} is {' and '.join(limits)}"] if limits else []
        spare = f" (to within {self.floor_tolerance:g})" if self.floor_tolerance else ""
        asked = [*asked, *self._differences_asked]
        return f", among those {' and '.join(asked)}{spare}?".replace("  ", " ")

    @property
    def _differences_asked(self) -> list[str]:
        """The limits against the control that an answer must keep."""
        found = []
        if self.margin is not None:
            where = " in any group" if len(self.groups) > 1 else ""
            others = np.array([arm != self.control for arm in self.arms])
            margins = np.unique(-self.differences()[0, others])
            size = " by more than the margin there"
            if margins.size == 1:
                size = f" by more than {margins[0]:,.12g}" if margins[0] else ""
            if np.isfinite(margins).any():
                found.append(f"that are not worse than {self.control!r}{where}{size}")
        if self.superiority is not None:
            size = f" by at least {self.superiority:,.12g}" if self.superiority else ""
            found.append(f"that are better overall than {self.control!r}{size}")
        return found

    def get_params(self) -> dict[str, Any]:
        """Return the constructor's arguments by name, as given."""
        given = super().get_params()
        given["measures"] = None if self.measured is None else self.measured.as_given
        given["direction"] = self._direction_given
        given["prediction"] = None if self.prediction is None else self.prediction.as_given
        return given

    # --------------------------------------------------------------------- checks

    def _given_weights(self, weights: ArrayLike | None) -> Floats:
        groups = self.shape[1]
        if weights is None:
            return check_array("group_weights", np.full(groups, 1.0 / groups), (groups,))
        given = check_array("group_weights", self._by_position("group_weights", weights), (groups,))
        axes = [self.groups]
        require_each("group_weights", given, given >= 0, "must not be negative", axes)
        with np.errstate(over="ignore"):
            total = given.sum()
        if not 0.0 < total < math.inf:
            raise InvalidArgument(
                "group_weights", "must have a finite sum that is greater than 0", given.tolist()
            )
        require_shares_or_counts("group_weights", given)
        return given

    def _given_limits(self, name: str, limits: ArrayLike | None, free: float) -> Floats:
        cells = self._broadcast(name, _none_as(free, self._by_position(name, limits)))
        fine = ~(np.isnan(cells) | (cells == -free))
        require_each(name, cells, fine, f"must be a number, None, or {free}", self._axes)
        in_reach = ~np.isfinite(cells) | (np.abs(cells) <= _LARGEST)
        require_each(
            name, cells, in_reach, f"must be within {_LARGEST:g} of 0: {_UNITS}", self._axes
        )
        return check_array(name, cells, self.shape, finite=False)

    def _given_differences(
        self, margin: ArrayLike | None, superiority: float | None
    ) -> tuple[Floats | None, float | None]:
        """Return the limits against the control: by cell, and overall."""
        if superiority is not None:
            superiority = check_number("superiority", superiority, low=0.0, high=_LARGEST)
        if margin is None:
            return None, superiority
        cells = self._broadcast("margin", _none_as(math.inf, self._by_position("margin", margin)))
        fine = (cells >= 0.0) & ((cells <= _LARGEST) | (cells == math.inf))
        accepted = f"must be a number from 0 to {_LARGEST:g}, None, or inf"
        require_each("margin", cells, fine, accepted, self._axes)
        return check_array("margin", cells, self.shape, finite=False), superiority

    def _check_intervals(self) -> None:
        """Refuse intervals that become empty when the floor tolerance narrows them at both ends."""
        width = self.sign * (self.ceilings - self.floors)
        narrow = ~(width > 2.0 * self.floor_tolerance)
        if narrow.any():
            arm, group = map(int, np.argwhere(narrow)[0])
            raise InvalidArgument(
                f"ceilings[{self.arms[arm]}, {self.groups[group]}]",
                f"must be beyond the floor {self.floors[arm, group]:g} by more than twice "
                f"floor_tolerance ({self.floor_tolerance:g})",
                float(self.ceilings[arm, group]),
            )

    def _check_reach(self) -> None:
        """Refuse limits that no mean of rewards in the known range can satisfy."""
        if self.reward_range is None:
            return
        low, high = self.reward_range
        if self.superiority is not None and self.superiority >= high - low:
            accepted = f"must be less than the width of reward_range, {high - low:g}"
            raise InvalidArgument("superiority", accepted, self.superiority)
        for name, limits, is_lower in (
            ("floors", self.floors, self.sign > 0),
            ("ceilings", self.ceilings, self.sign < 0),
        ):
            missed = np.isfinite(limits) & ((limits > high) if is_lower else (limits < low))
            if missed.any():
                arm, group = map(int, np.argwhere(missed)[0])
                end = f"at most {high:g}" if is_lower else f"at least {low:g}"
                raise InvalidArgument(
                    f"{name}[{self.arms[arm]}, {self.groups[group]}]",
                    f"must be {end}: no mean of rewards in [{low:g}, {high:g}] is beyond",
                    float(limits[arm, group]),
                )

    def _given_noise(
        self, noise_std: ArrayLike | str | None, reward_range: Any
    ) -> tuple[Floats | str | None, tuple[float, float] | None]:
        if (noise_std is None) == (reward_range is None):
            raise InvalidArgument(
                "noise_std, reward_range",
                "exactly one must be given: the noise if it is known, else the rewards' range",
                (noise_std, reward_range),
            )
        if reward_range is not None:
            low, high = check_range("reward_range", reward_range)
            fine = high - low >= _SMALLEST and max(abs(low), abs(high)) <= _LARGEST
            if not fine:
                accepted = f"must be at least {_SMALLEST:g} wide, within {_LARGEST:g} of 0"
                raise InvalidArgument("reward_range", f"{accepted}: {_UNITS}", reward_range)
            return None, (low, high)
        if isinstance(noise_std, str):
            if noise_std != ESTIMATED:
                raise InvalidArgument("noise_std", f"must be numbers or {ESTIMATED!r}", noise_std)
            return noise_std, None
        stds = self._positive_cells("noise_std", noise_std)
        in_reach = (stds >= _SMALLEST) & (stds <= _LARGEST)
        accepted = f"must be between {_SMALLEST:g} and {_LARGEST:g}: {_UNITS}"
        require_each("noise_std", stds, in_reach, accepted, self._axes)
        return stds, None

    def _positive_cells(self, name: str, value: ArrayLike | None) -> Floats:
        cells = self._broadcast(name, self._by_position(name, value))
        one_for_all = isinstance(value, float | int | np.number)
        given, axes = (cells[0, 0], ()) if one_for_all else (cells, self._axes)
        fine = np.isfinite(given) & (given > 0)
        require_each(name, given, fine, "must be finite and greater than 0", axes)
        return check_array(name, cells, self.shape)

    @property
    def _axes(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self.arms, self.groups

    def check_means(self, means: Any, name: str = "means") -> Floats:
        """Return the means of all cells as an array of shape (K, L); (K, L, M) with measures.

        Parameters
        ----------
        means : array-like of shape (K, L), mapping by arm, or data frame
            A mapping has for every arm a list by group, or a mapping by group, in any order; a
            DataFrame has the arms as its index and the groups as its columns. With measures it is
            an array of shape (K, L, M), or a mapping of every measure to one of these.
        name : str
            Their name in errors.

        Raises
        ------
        InvalidArgument
            If a cell is missing, or has no finite mean.

        Examples
        --------
        >>> problem = Problem(["a", "b"], ["x", "y"], noise_std=1.0)
        >>> problem.check_means({"b": {"y": 4, "x": 3}, "a": [1, 2]})
        array([[1., 2.],
               [3., 4.]])
        """
        if self.measured is None:
            return self._means_of_one(means, name)
        names = self.measured.names
        if not isinstance(means, Mapping):
            axes = ("arms", "groups", "measures")
            return check_array(name, means, (*self.shape, len(names)), axes=axes)
        by_measure = self._in_order(name, means, names)
        own = zip(names, by_measure, strict=True)
        cells = [self._means_of_one(given, f"{name}[{measure}]") for measure, given in own]
        return check_array(name, np.stack(cells, axis=2), (*self.shape, len(names)))

    def _means_of_one(self, means: Any, name: str) -> Floats:
        """Return the means of one measure as an array of shape (K, L)."""
        by_arm = plain_labels(name, means)
        if isinstance(by_arm, Mapping):
            by_arm = self._in_order(name, by_arm, self.arms)
        if isinstance(by_arm, list):
            by_arm = [
                self._in_order(f"{name}[{arm}]", row, self.groups)
                if isinstance(row, Mapping)
                else row
                for arm, row in zip(self.arms, by_arm, strict=False)
            ] + by_arm[len(self.arms) :]
        return check_array(name, by_arm, self.shape, axes=("arms", "groups"))

    @staticmethod
    def _in_order(name: str, given: Mapping[Any, Any], labels: tuple[str, ...]) -> list[Any]:
        given = plain_labels(name, given)
        if set(given) != set(labels):
            raise InvalidArgument(
                name, f"must have an entry for each of {list(labels)}", list(given)
            )
        return [given[label] for label in labels]

    def _by_position(self, name: str, value: Any) -> Any:
        """Return values that are given by label as a list by group, or by arm and group."""
        value = plain_labels(name, value)
        if not isinstance(value, Mapping):
            return value
        if set(value) == set(self.groups):
            return [value[group] for group in self.groups]
        if set(value) != set(self.arms):
            labels = f"{list(self.groups)} or {list(self.arms)}"
            raise InvalidArgument(name, f"must have an entry for each of {labels}", list(value))
        rows = [self._by_position(f"{name}[{arm}]", value[arm]) for arm in self.arms]
        return [
            list(row) if isinstance(row, list | tuple) else [row] * len(self.groups) for row in rows
        ]

    def _broadcast(self, name: str, value: ArrayLike | None) -> Floats:
        arms, groups = self.shape
        accepted = f"must be a number or have shape ({groups},) or ({arms}, {groups})"
        given = as_floats(name, value, accepted)
        if given.shape not in ((), (groups,), self.shape):
            raise InvalidArgument(name, f"{accepted}; got shape {given.shape}")
        return np.broadcast_to(given, self.shape).copy()

    # -------------------------------------------------------------------- meaning

    @property
    def n_actions(self) -> int:
        """The number of cells, each an arm in a group."""
        return self.shape[0] * self.shape[1]

    @cached_property
    def action_labels(self) -> tuple[dict[str, str], ...]:
        """Arm and group of every cell, arm by arm."""
        return tuple({"arm": arm, "group": group} for arm in self.arms for group in self.groups)

    @cached_property
    def shares(self) -> Floats:
        """The weights, normalised to sum one; shape (L,)."""
        return np.asarray(self.group_weights / self.group_weights.sum())

    @property
    def stated_shares(self) -> Mapping[str, Mapping[str, float]]:
        """The weights of the groups: people who come by themselves arrive in these shares."""
        return {"group": dict(zip(self.groups, self.shares.tolist(), strict=True))}

    @property
    def sign(self) -> float:
        """1 if rewards are maximised, -1 if they are minimised."""
        return 1.0 if self.direction == "maximize" else -1.0

    @property
    def measure_ranges(self) -> Floats | None:
        """The range of each measure, shape (M, 2), if ranges are known."""
        ranges = None if self.measured is None else self.measured.ranges
        return None if ranges is None else np.array(ranges)

    @property
    def measure_noise_std(self) -> Floats | None:
        """The scale of each measure by cell, shape (K, L, M), if scales are known."""
        return self._noise.std

    @property
    def noise_covariance(self) -> Floats | None:
        """The covariance of the measures by cell, shape (K, L, M, M), if it is known."""
        return self._noise.covariance

    @cached_property
    def scale(self) -> Floats:
        """Sub-Gaussian scale of a reward by cell, shape (K, L); half the range if bounded.

        With measures it is the scale of the objective, however the measures depend on each other.
        """
        if self.objective_weights is not None:
            return self.scale_of(self.objective_weights)
        if self.reward_range is not None:
            return np.full(self.shape, 0.5 * (self.reward_range[1] - self.reward_range[0]))
        return np.ones(self.shape) if isinstance(self.noise_std, str) else np.array(self.noise_std)

    def scale_of(self, weights: Floats) -> Floats:
        """Return the sub-Gaussian scale of a weighted sum of measures by cell, shape (K, L)."""
        if self.noise_covariance is not None:
            return np.asarray(np.sqrt(self.noise_covariance @ weights @ weights))
        if self.measure_noise_std is not None:
            return np.asarray(self.measure_noise_std @ np.abs(weights))
        widths = np.ptp(np.asarray(self.measure_ranges), axis=1)
        return np.full(self.shape, 0.5 * (np.abs(weights) @ widths))

    @property
    def estimates_noise(self) -> bool:
        """Whether the noise must be estimated from the data."""
        return isinstance(self.noise_std, str)

    @property
    def refers_to_control(self) -> bool:
        """Whether an arm has a limit against the control."""
        if self.measured is not None:
            return any(row.control is not None for row in self.limit_rows)
        return self.superiority is not None or self.margin is not None

    @cached_property
    def constrained(self) -> NDArray[np.bool_]:
        """The cells that appear in a limit: their own, or one against the control; shape (K, L).

        The requirement that the quality exceeds the control's concerns every cell with a weight
        anyway.
        """
        if self.measured is not None:
            return self._measured_cells
        found = np.isfinite(self.floors) | np.isfinite(self.ceilings)
        compared = np.isfinite(self.differences()[0])
        found |= compared
        if self.control is not None:
            found[self.arms.index(self.control)] |= compared.any(axis=0)
        return np.asarray(found)

    @property
    def _measured_cells(self) -> NDArray[np.bool_]:
        """The cells that appear in a limit of a measure."""
        found = np.zeros(self.shape, dtype=np.bool_)
        for row in self.limit_rows:
            columns = self.shares > 0.0 if row.group is None else row.group
            limited = np.isfinite(row.bounds)
            if row.control is not None:
                limited[row.control] = True
            found[:, columns] |= limited.reshape(-1, *[1] * np.ndim(columns))
        return found

    @property
    def has_limits(self) -> bool:
        """Whether any arm has a limit, its own or against the control."""
        one_measure = self.measured is None
        return (one_measure and self.superiority is not None) or bool(self.constrained.any())

    @property
    def can_exclude(self) -> bool:
        """Whether a limit can exclude an arm: a floor at the end of the range cannot.

        Examples
        --------
        >>> Problem(["a", "b"], ["x"], reward_range=(0, 1)).can_exclude
        False
        >>> Problem(["a", "b"], ["x"], reward_range=(-1, 1)).can_exclude
        True
        """
        if self.measured is not None or self.refers_to_control or self.reward_range is None:
            return self.has_limits
        return bool(np.isfinite(self.limits_that_can_be_missed()).any())

    def can_be_missed(self, row: LimitRow, arm: int) -> bool:
        """Return whether an arm can miss a limit of a measure, whose means are in their ranges.

        Parameters
        ----------
        row : LimitRow
            One of `limit_rows`.
        arm : int
            The position of the arm; without a bound it can miss nothing.

        Examples
        --------
        >>> measures = {"cured": (0, 1), "harmed": (0, 1)}
        >>> ceilings = [{"measure": "harmed", "bound": {"a": 0.2, "b": 1.0}}]
        >>> given = {"measures": measures, "objective": "cured", "ceilings": ceilings}
        >>> problem = Problem(["a", "b"], ["x"], **given)
        >>> [problem.can_be_missed(row, arm) for row in problem.limit_rows for arm in (0, 1)]
        [True, False]
        """
        bound = float(row.bounds[arm])
        if self.measure_ranges is None or not math.isfinite(bound):
            return math.isfinite(bound)
        ends = np.asarray(self.measure_ranges) * row.weights[:, np.newaxis]
        low, high = float(ends.min(axis=1).sum()), float(ends.max(axis=1).sum())
        if row.control is not None:
            low, high = low - high, high - low
        return bound > low if row.is_floor else bound < high

    @property
    def usual_floor(self) -> str:
        """The only limit in words if it is 0 for all means, as without an argument; else empty.

        Examples
        --------
        >>> Problem(["a", "b"], ["x", "y"], reward_range=(-1, 1)).usual_floor
        'a mean of at least 0 in every group'
        >>> Problem(["a", "b"], ["x", "y"], floors=0.1, reward_range=(-1, 1)).usual_floor
        ''
        """
        if self.measured is not None or self.refers_to_control or np.isfinite(self.ceilings).any():
            return ""
        if self.floors.any():
            return ""
        where = " in every group" if len(self.groups) > 1 else ""
        return f"a mean of {'at least' if self.sign > 0 else 'at most'} 0{where}"

    def limits(self, spare: float = 0.0) -> Floats:
        """Return floors and ceilings for rewards to be maximised, `spare` wider apart.

        The shape is (2, K, L); with a negative number they are narrower. With measures see
        `limit_rows`.
        """
        if self.measured is not None:
            raise NotSupported("a problem with measures has limit_rows instead of limits()")
        return np.stack([self.sign * self.floors - spare, self.sign * self.ceilings + spare])

    def limits_that_can_be_missed(self) -> Floats:
        """Return `limits`, which are infinite where no mean of rewards in their range is beyond.

        Examples
        --------
        >>> problem = Problem(["a"], ["x"], floors=0.0, ceilings=0.9, reward_range=(0, 1))
        >>> problem.limits_that_can_be_missed().ravel().tolist()
        [-inf, 0.9]
        """
        low, high = sorted(self.sign * end for end in self.reward_range or (-math.inf, math.inf))
        floors, ceilings = self.limits()
        return np.stack(
            [
                np.where(floors > low, floors, -math.inf),
                np.where(ceilings < high, ceilings, math.inf),
            ]
        )

    def differences(self, spare: float = 0.0) -> Floats:
        """Return the least required differences from the control, for rewards to be maximised.

        The shape is (2, K, L): by group, and overall (in the first group's place). They are `spare`
        less than stated, and minus infinity if nothing is required. With measures see `limit_rows`.
        """
        if self.measured is not None:
            raise NotSupported("a problem with measures has limit_rows instead of differences()")
        found = np.full((2, *self.shape), -math.inf)
        if self.margin is not None:
            # A margin as wide as the rewards' range can never be missed.
            low, high = self.reward_range or (-math.inf, math.inf)
            found[0] = np.where(self.margin < high - low, -self.margin - spare, -math.inf)
        if self.superiority is not None:
            found[1, :, 0] = self.superiority - spare
        if self.control is not None:
            found[:, self.arms.index(self.control)] = -math.inf
        return found

    def quality(self, means: ArrayLike) -> Floats:
        """Return the quality of every arm, from means in a form that `check_means` accepts."""
        given = self.check_means(means)
        if self.objective_weights is not None:
            given = given @ self.objective_weights
        quality: Floats = given @ self.shares
        return quality

    def feasible(self, means: ArrayLike) -> NDArray[np.bool_]:
        """Return which arms keep all their limits, from means that `check_means` accepts."""
        return self.within(self.check_means(means))

    def within(self, means: Floats, spare: float = 0.0) -> NDArray[np.bool_]:
        """Return which arms keep all their limits when these are `spare` wider apart."""
        if self.measured is not None:
            kept = np.ones(len(self.arms), dtype=np.bool_)
            for row in self.limit_rows:
                kept &= row.distances(means, self.shares) >= -spare
            return kept
        floors, ceilings = self.limits(spare)
        given = self.sign * means
        kept = ((given >= floors) & (given <= ceilings)).all(axis=1)
        if self.refers_to_control:
            above = self.above_control(given, spare)
            kept &= (above >= self.differences(spare)).all(axis=(0, 2))
        return np.asarray(kept)

    def above_control(self, signed_means: Floats, spare: float = 0.0) -> Floats:
        """Return how much every arm exceeds the control: by group, and overall.

        The shape is (2, K, L), as in `differences`. A value that differs from a required difference
        only by rounding is set to it. Raise if there is no control.
        """
        if self.control is None:
            raise InvalidArgument("control", "must name an arm for a comparison with it", None)
        apart = signed_means - signed_means[self.arms.index(self.control)]
        overall = np.repeat((apart @ self.shares)[:, np.newaxis], self.shape[1], axis=1)
        found, wanted = np.stack([apart, overall]), self.differences(spare)
        rounding = _ROUNDING * float(np.abs(signed_means).max(initial=0.0))
        return np.where(np.abs(found - wanted) <= rounding, wanted, found)

    def check_ask(self, n: int, context: Mapping[str, Any]) -> None:
        """Raise if several pulls are asked for with one prediction, which is about one unit."""
        if n > 1 and context.get("prediction") is not None:
            raise InvalidArgument("n", "must be 1: a prediction is about one unit", n)

    def check_outcome(self, outcome: Any, name: str = "reward") -> Any:
        """Return the reward as a float; it must be finite and inside the range, if there is one.

        With measures, the outcome has a value for each, as in the base class.
        """
        reward = super().check_outcome(outcome, name)
        if self.measured is not None:
            return reward
        if not -_LARGEST <= reward <= _LARGEST:
            raise InvalidOutcome(name, f"must be within {_LARGEST:g} of 0: {_UNITS}", outcome)
        if self.reward_range is not None:
            low, high = self.reward_range
            if not low <= reward <= high:
                raise InvalidOutcome(name, f"must be in [{low:g}, {high:g}]", outcome)
        if self.is_binary and reward not in (0.0, 1.0):
            raise InvalidOutcome(name, "must be 0 or 1", outcome)
        return reward

    def to_dict(self) -> dict[str, Any]:
        """Return the problem as JSON's own types; null stands for "no limit"."""
        data = super().to_dict()
        if self.prediction is None:
            # Problems without predictions are written as before there were any.
            del data["prediction"]
        if not self.is_binary:
            del data["outcomes"]
        if self.measured is not None:
            return data
        for name in ("measures", "objective", "noise_cov"):
            del data[name]
        data["floors"] = _none_if_free(self.floors)
        some = np.isfinite(self.ceilings).any()
        data["ceilings"] = _none_if_free(self.ceilings) if some else None
        data["margin"] = None if self.margin is None else _none_if_free(self.margin)
        return data

    def name_of(self, row: LimitRow) -> str:
        """Return the name of what a limit is on: a measure, or the objective."""
        if row.measure is None:
            return objective_in_words(self.objective)
        return self.measures[row.measure]


def _with_weights(groups: Any) -> Any:
    """Return a Series of numbers by label as a mapping; anything else unchanged."""
    if getattr(getattr(groups, "dtype", None), "kind", "") not in "iuf":
        return groups
    labelled = plain_labels("groups", groups)
    return labelled if isinstance(labelled, Mapping) else groups


def _none_as(free: float, limits: Any) -> Any:
    """Replace None by the value for "no limit", at any depth of a list."""
    if limits is None:
        return free
    if isinstance(limits, list | tuple):
        return [_none_as(free, item) for item in limits]
    return limits


def _none_if_free(limits: Floats) -> list[list[float | None]]:
    return [[value if math.isfinite(value) else None for value in row] for row in limits.tolist()]


def _ends_in_words(ends: Floats) -> str:
    """Return floors, or ceilings, in words: one number if they are all the same."""
    if (ends == ends[0, 0]).all():
        return f"{ends[0, 0]:,.12g}"
    return "the limit of its cell, where there is one"
