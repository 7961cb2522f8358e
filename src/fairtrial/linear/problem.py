"""What is known and wanted: arms and candidates described by features, and the noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.frames import plain_data
from fairtrial.core.problem import Problem as BaseProblem
from fairtrial.core.sizes import check_size
from fairtrial.core.validation import (
    check_array,
    check_choice,
    check_integer,
    check_number,
    check_optional_label,
)
from fairtrial.core.warning import warn_caller
from fairtrial.core.wording import best_of, listed, or_within, plural, rewards_in_words
from fairtrial.errors import InvalidArgument, InvalidOutcome
from fairtrial.linear._arguments import is_frame, labels_of
from fairtrial.linear._coordinates import Reduced
from fairtrial.linear._described import described
from fairtrial.linear._encoding import Table
from fairtrial.linear._limits import (
    Requirement,
    bounds_by_candidate,
    check_intervals,
    check_reach,
    in_words,
    margins_by_candidate,
    named_bounds,
    none_if_free,
    requirements_on,
    superiority_of,
)
from fairtrial.linear._noise import check_noise
from fairtrial.linear.geometry import Geometry, Names, NotEstimable, shared

__all__ = ["NotEstimable", "Problem"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_RESIDUAL = 1e-9
"""Features contain a constant if they give it with at most this relative error."""

_HARMLESS_SHIFT = 1e-5
"""The most that subtracting a constant may change a mean, in units of the range."""

_BOUNDS = ("floors", "ceilings", "margin")
"""Arguments for limits on a prediction."""

_COSTLY = 20_000
"""Arms times squared features from which a plan takes the interpreter about a second."""

_MOST_REWARD = 1e100
"""The largest reward as a multiple of the noise: its square must be a float."""


NO_INTERCEPT = (
    "no feature is constant, so means are taken to be 0 where all features are 0; "
    "if that is wrong, add a column of ones"
)


class Problem(BaseProblem):
    """The best of many candidates whose values are linear in known features.

    Pulling arm k gives a reward of mean ``features[k] @ theta``; `theta` is unknown and
    shared by all arms, so every pull informs about every arm. The answer is the candidate z with
    the largest ``z @ theta``, or the `top` of them.

    Parameters
    ----------
    features : array-like, data frame or mapping of str to sequence
        One row for every arm that can be pulled; the index of a DataFrame labels the arms.
        Rows may repeat and columns may depend on each other. Unless means are 0 where all features
        are 0, one column must be all ones. A column of text (or of a categorical type) is encoded:
        it becomes an indicator of 0 and 1 for each of its values except the first, its reference;
        a column of ones is then added.
    candidates : array-like, data frame or mapping of str to sequence, optional
        The possible answers, if they are not the arms themselves; with the columns of `features`.
        Only differences between candidates need to be measurable. Identical candidates are one
        answer.
    arms : sequence of str, or int, optional
        Labels of the K arms; by default those of the DataFrame, or 0 to K - 1.
    noise_std : float, array-like of shape (K,), or "estimated"
        Standard deviation of a reward (of its sub-Gaussian bound), if it is known.
        ``"estimated"`` takes it from the residuals of the fit, the same for all arms; no rule is
        proven for this.
    reward_range : (float, float)
        The range that contains every reward, if that is what is known.
    tolerance : float
        How much worse than the best an answer may be.
    top : int
        How many of the best (distinct) candidates are wanted.
    direction : {"maximize", "minimize"}
        Whether large or small rewards are good.
    answers : sequence of str, or int, optional
        Labels of the candidates; by default those of the DataFrame, or 0 to M - 1. Without
        `candidates` they are the arms' labels.
    misspecification : float
        How much the mean of an arm, and the value of a candidate, may differ from a linear function
        of the features. An answer then holds whatever those differences are; if they could hide the
        best, a study ends undecided.
    interactions : sequence of sequence of str
        Columns of `features` whose effects depend on each other, as ``[["ligand", "base"]]``: the
        products of the features that encode these columns are also features.
    control : str, optional
        The candidate that others are compared with in `Progress.effects`; by default the leader.
        It changes decisions only through `margin` and `superiority`.
    floors : float, None, array-like of shape (M,), or mapping by label, optional
        What the value of a candidate must reach to be an answer: one number for all, in order, or
        by label; None, or ``-inf``, for a candidate without a floor. If no candidate keeps all its
        limits, the answer is "no arm". With ``direction="minimize"`` a value must not exceed its
        floor, and ``inf`` sets no floor.
    ceilings : as `floors`
        Limits on the other side.
    margin : float, None, array-like of shape (M,), or mapping by label, optional
        How much worse than the control's a candidate's value may be. It matters only if the control
        may break a limit of its own: otherwise the best is never worse than the control.
    superiority : float, optional
        How much better than the control a candidate must be. If none is, the answer is the
        control, unless it breaks a limit of its own. It replaces `margin`.
    limits : mapping of str to mapping
        Limits on other predictions of the same linear function, by name: each has ``features``, a
        row for every candidate (as `candidates`), and at least one of ``floors``, ``ceilings`` and
        ``margin``, which limit these rows times theta. A condition may have to work at a second
        temperature as well, for example. Results of another kind, such as a side effect, do not
        inform theta: a limit on them needs `subpopulations` or a separate study.
    floor_tolerance : float
        How far beyond a limit the answer may be; a rival must be this far within its limits to
        count.

    Attributes
    ----------
    features : ndarray of shape (K, d)
    candidates : ndarray of shape (M, d), or None
        As given, or encoded.
    feature_names : tuple of str
        The names of the d features: those of the columns, or such as ``ligand=L02`` if they are
        encoded; numbers if they have no names.
    references : mapping of str to str
        By column of text, the value that the other values are compared with.
    arms, answers : tuple of str
        Labels of arms and candidates.
    noise_std : float, ndarray of shape (K,), "estimated", or None
    floors, ceilings, margin : ndarray of shape (M,), or None
        By candidate; infinite for a candidate without a limit.
    tolerance, top, direction, reward_range, misspecification
        As given.

    Raises
    ------
    NotEstimable
        If two candidates differ along a direction that no arm measures, or if something has a limit
        that no arm measures.
    InvalidArgument
        If another argument is not acceptable; exactly one of `noise_std` and
        `reward_range` must be given.

    Warns
    -----
    UserWarning
        If an arm's features are all zero: it is never pulled. If a DataFrame of features has
        no constant (`has_intercept`).

    Notes
    -----
    Source: Soare, Lazaric, Munos (2014), "Best-arm identification in linear bandits",
    section 2; with separate candidates: Fiez, Jain, Jamieson, Ratliff (2019),
    "Sequential experimental design for transductive linear bandits".

    Examples
    --------
    >>> problem = Problem([[1, 0], [0, 1], [0.9, 0.5]], arms=["a", "b", "both"], noise_std=1.0)
    >>> problem.n_actions, problem.rank
    (3, 2)
    >>> problem.labels(2)
    {'arm': 'both'}

    Drugs are tried alone, and the best pair is wanted:

    >>> pairs = Problem([[1, 0], [0, 1]], candidates=[[1, 1], [1, 0]], noise_std=1.0)
    >>> pairs.values([0.2, 0.3]).tolist()
    [0.5, 0.2]

    Conditions are described in words:

    >>> conditions = {"base": ["KOAc", "KOAc", "CsOPiv"], "heat": [90, 105, 90]}
    >>> heated = Problem(conditions, noise_std=1.0)
    >>> heated.feature_names, heated.arms[2], heated.features[2].tolist()
    (('intercept', 'base=CsOPiv', 'heat'), 'CsOPiv 90', [1.0, 1.0, 90.0])

    The best dose at a warm temperature that also works at a cold one:

    >>> tried = [[1, dose, heat] for dose in (1, 2) for heat in (0, 1)]
    >>> cold = {"features": [[1, 1, 0], [1, 2, 0]], "floors": 0.3}
    >>> doses = Problem(tried, [[1, 1, 1], [1, 2, 1]], noise_std=1.0, limits={"cold": cold})
    >>> doses.feasible([0.1, 0.1, 0.5]).tolist()
    [False, True]
    """

    family = "linear"
    default_policy = "BlockBetting"
    _not_parameters = frozenset()

    def __init__(
        self,
        features: Any,
        candidates: Any = None,
        arms: Sequence[str] | int | None = None,
        noise_std: ArrayLike | None = None,
        reward_range: tuple[float, float] | None = None,
        tolerance: float = 0.0,
        top: int = 1,
        direction: str = "maximize",
        answers: Sequence[str] | int | None = None,
        misspecification: float = 0.0,
        interactions: Sequence[Sequence[str]] = (),
        control: str | None = None,
        floors: ArrayLike | Mapping[str, float | None] | None = None,
        ceilings: ArrayLike | Mapping[str, float | None] | None = None,
        margin: ArrayLike | Mapping[str, float | None] | None = None,
        superiority: float | None = None,
        limits: Mapping[str, Mapping[str, Any]] | None = None,
        floor_tolerance: float = 0.0,
    ) -> None:
        features, candidates = plain_data(features), plain_data(candidates)
        self._described = described(features, candidates, interactions)
        self.interactions = self._described.interactions
        self.features, self.feature_names = self._described.features(features)
        check_size("features", "actions", len(self.features))
        check_size("features", "features", self.features.shape[1])
        self.arms = self._described.labels("arms", arms, "features", features, len(self.features))
        self.candidates = self._described.candidates(candidates, features, self.features.shape[1])
        self.answers = self._given_answers(candidates, answers)
        self.noise_std, self.reward_range = check_noise(noise_std, reward_range, len(self.arms))
        self.tolerance = check_number("tolerance", tolerance, low=0.0)
        self.misspecification = check_number("misspecification", misspecification, low=0.0)
        self.direction = check_choice("direction", direction, ["maximize", "minimize"])
        self.control = check_optional_label("control", control, self.answers)
        self.floors = self._given_bounds("floors", floors, -1.0)
        self.ceilings = self._given_bounds("ceilings", ceilings, 1.0)
        self.margin = self._given_margin("margin", margin)
        self.superiority = self._given_superiority(superiority)
        self.limits = {} if limits is None else self._given_limits(limits)
        self.floor_tolerance = check_number("floor_tolerance", floor_tolerance, low=0.0)
        self._requirements = self._given_requirements()
        self._check_limits()
        names = Names(self.feature_names, self.arms, self.answers)
        self.geometry = shared(
            Geometry(self.features, self.scale, self.candidates, self._requirements, names)
        )
        self.top = self._given_top(top)
        self.geometry.check()
        self._warn_of_zero_arms()
        if (self._described.tables or is_frame(features)) and not self.has_intercept:
            warn_caller(NO_INTERCEPT)
        self._freeze()

    # --------------------------------------------------------------------- checks

    @property
    def answer_labels(self) -> Sequence[str]:
        """The labels that an answer may name."""
        return self.answers

    def _given_answers(
        self, candidates: Any, answers: Sequence[str] | int | None
    ) -> tuple[str, ...]:
        if self.candidates is not None:
            number = len(self.candidates)
            check_size("candidates", "actions", number)
            return self._described.labels("answers", answers, "candidates", candidates, number)
        if answers is not None and labels_of("answers", answers, None, len(self.arms)) != self.arms:
            raise InvalidArgument(
                "answers", "must be left out without candidates: they are the arms", answers
            )
        return self.arms

    def _given_bounds(self, name: str, given: Any, side: float) -> Floats | None:
        """Return bounds by candidate; `side` is 1 for upper ones, of rewards to be maximised."""
        if given is None:
            return None
        return bounds_by_candidate(name, given, self.answers, side * self.sign * math.inf)

    def _given_margin(self, name: str, given: Any) -> Floats | None:
        if given is None:
            return None
        if self.control is None:
            raise InvalidArgument("control", f"must name a candidate if {name} is given", None)
        return margins_by_candidate(name, given, self.answers)

    def _given_superiority(self, given: float | None) -> float | None:
        superiority = superiority_of(given)
        if superiority is not None and self.control is None:
            raise InvalidArgument("control", "must name a candidate if superiority is given", None)
        if superiority is not None and self.margin is not None:
            raise InvalidArgument(
                "margin", "must be left out if superiority is given, which asks for more"
            )
        return superiority

    def _given_requirements(self) -> tuple[Requirement, ...]:
        """Return every limit of the candidates, for rewards to be maximised."""
        found = self._requirements_on("", self.candidate_features, self._own_bounds())
        for name, limit in self.limits.items():
            rows = self._rows_of_limit(f"limits[{name!r}].features", limit["features"])
            bounds = {key: limit.get(key) for key in _BOUNDS}
            found += self._requirements_on(f"limits[{name!r}].", rows, bounds)
        return tuple(found)

    def _rows_of_limit(self, name: str, given: Floats | Table) -> Floats:
        rows = self._described.rows_predicted(name, given, self.features.shape[1])
        if len(rows) != len(self.answers):
            accepted = f"must have {len(self.answers)} rows, one for each candidate"
            raise InvalidArgument(name, f"{accepted}; got {len(rows)}")
        return rows

    def _requirements_on(
        self, prefix: str, rows: Floats, bounds: Mapping[str, Floats | None]
    ) -> list[Requirement]:
        control = -1 if self.control is None else self.answers.index(self.control)
        return requirements_on(prefix, rows, bounds, self.sign, control)

    def _given_limits(self, limits: Any) -> dict[str, dict[str, Any]]:
        """Return limits on other predictions by name: features as given, bounds by candidate."""
        found = {}
        for name, limit in named_bounds(limits).items():
            argument = f"limits[{name!r}]"
            clean = {
                "features": self._described.predicted(
                    f"{argument}.features", limit["features"], self.feature_names
                ),
                "floors": self._given_bounds(f"{argument}.floors", limit.get("floors"), -1.0),
                "ceilings": self._given_bounds(f"{argument}.ceilings", limit.get("ceilings"), 1.0),
                "margin": self._given_margin(f"{argument}.margin", limit.get("margin")),
            }
            found[name] = {key: value for key, value in clean.items() if value is not None}
        return found

    def _own_bounds(self) -> dict[str, Floats | None]:
        margin = self.margin
        if self.superiority is not None:
            margin = np.full(len(self.answers), -self.superiority)
        name = "margin" if self.superiority is None else "superiority"
        return {"floors": self.floors, "ceilings": self.ceilings, name: margin}

    def _check_limits(self) -> None:
        """Refuse limits that cannot be kept together, or for which no rule here is proven."""
        if not self.has_limits:
            if self.floor_tolerance:
                accepted = "must be 0 where no candidate has a limit"
                raise InvalidArgument("floor_tolerance", accepted, self.floor_tolerance)
            return
        if self.misspecification:
            accepted = "must be 0 with limits: no rule here is proven for both"
            raise InvalidArgument("misspecification", accepted, self.misspecification)
        check_intervals(self._requirements, self.answers, self.sign, self.floor_tolerance)
        if self.reward_range is not None and self.candidates is None:
            check_reach(self._requirements, self.answers, self.sign, self.reward_range)

    def _given_top(self, top: int) -> int:
        number = check_integer("top", top, low=1)
        if number > 1 and self.has_limits:
            raise InvalidArgument("top", "must be 1 where candidates have limits", top)
        distinct = len(self.answer_groups)
        if number > distinct:
            accepted = f"must be at most {distinct}, the number of distinct candidates"
            raise InvalidArgument("top", accepted, top)
        check_size("top", "comparisons", number * (distinct - number))
        return number

    def _warn_of_zero_arms(self) -> None:
        zero = np.flatnonzero(~self.features.any(axis=1))
        if zero.size:
            warn_caller(
                f"features of arm {self.arms[zero[0]]!r} are all zero: it is never pulled",
            )

    # -------------------------------------------------------------------- meaning

    def in_words(self) -> Mapping[str, str]:
        """Return the question in words, by topic."""
        asked = best_of(self.answers, self.direction, self.top) + or_within(self.tolerance)
        features = self.features.shape[1]
        assumed = f", if means are linear in {plural(features, 'feature')}"
        if self.misspecification:
            assumed += f" to within {self.misspecification:g}"
        words = {"Question": f"{asked}{self._limits_asked}{assumed}?"}
        if self.answers != self.arms:
            words["Pulled are"] = listed(self.arms)
        if self._described.encoding is not None:
            words["Described by"] = self._described.encoding.in_words()
        if self.control is not None:
            words["Control"] = self.control
        words["Rewards"] = rewards_in_words(self.reward_range, self.noise_std)
        return words

    @property
    def _limits_asked(self) -> str:
        """Return in words which limits an answer must keep."""
        if not self.has_limits:
            return ""
        asked = [in_words(one, self.sign, self.control) for one in self._requirements]
        spare = f" (to within {self.floor_tolerance:g})" if self.floor_tolerance else ""
        return f", among those {' and '.join(asked)}{spare}"

    @property
    def has_limits(self) -> bool:
        """Whether any candidate has a limit."""
        return len(self._requirements) > 0

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """Every limit of the candidates, for rewards to be maximised."""
        return self._requirements

    def feasible(self, theta: ArrayLike, spare: float = 0.0) -> NDArray[np.bool_]:
        """Return which candidates keep all their limits at `theta`, `spare` wider apart; (M,)."""
        given = self.check_theta(theta)
        return self.within([one.features @ given for one in self._requirements], spare)

    def within(self, predicted: Sequence[Floats], spare: float = 0.0) -> NDArray[np.bool_]:
        """Return which candidates keep all limits when they are `spare` wider apart, shape (M,).

        `predicted` has the mean in each of `requirements`, in the units of rewards, shape (M,).
        """
        kept = np.ones(len(self.answers), dtype=np.bool_)
        for one, means in zip(self._requirements, predicted, strict=True):
            kept &= one.distance(self.sign * means) + spare >= 0.0
        return kept

    @property
    def references(self) -> Mapping[str, str]:
        """By column of text, the value that the other values are compared with."""
        return self._described.references

    def get_params(self) -> dict[str, Any]:
        """Return the constructor's arguments by name; encoded tables as columns."""
        return {**super().get_params(), **self._described.tables}

    def to_dict(self) -> dict[str, Any]:
        """Return the problem as JSON's own types; null for a candidate without a limit."""
        data = super().to_dict()
        for name in _BOUNDS:
            data[name] = none_if_free(getattr(self, name))
        for name, limit in self.limits.items():
            data["limits"][name] |= {
                key: none_if_free(limit[key]) for key in _BOUNDS if key in limit
            }
        return data

    @property
    def has_intercept(self) -> bool:
        """Whether the features allow all arms to have the same mean, other than 0.

        This needs a constant among them, or indicators that add up to one. Otherwise a mean is 0
        where all features are 0.
        """
        return self.geometry.constant_error < _RESIDUAL

    @property
    def holds_constant_exactly(self) -> bool:
        """Whether the middle of the range can be subtracted from all rewards without any error."""
        low, high = self.reward_range or (-1.0, 1.0)
        far = abs(0.5 * low + 0.5 * high) / (0.5 * high - 0.5 * low)
        return self.geometry.constant_error * far < _HARMLESS_SHIFT

    @cached_property
    def action_labels(self) -> tuple[dict[str, str], ...]:
        """The arm of every action."""
        return tuple({"arm": arm} for arm in self.arms)

    def conditions(self, action: int) -> Mapping[str, float | str]:
        """Return an arm's values in the table that describes the arms; empty without a table."""
        return self._described.conditions(action)

    @property
    def sign(self) -> float:
        """1 if rewards are maximised, -1 if they are minimised."""
        return 1.0 if self.direction == "maximize" else -1.0

    @property
    def estimates_noise(self) -> bool:
        """Whether the noise must be estimated from the data."""
        return isinstance(self.noise_std, str)

    @cached_property
    def scale(self) -> Floats:
        """Sub-Gaussian scale of a reward by arm, shape (K,).

        Half the range if rewards have one; 1 if the noise must be estimated.
        """
        if self.estimates_noise:
            return np.ones(len(self.arms))
        if self.reward_range is not None:
            return np.full(len(self.arms), 0.5 * (self.reward_range[1] - self.reward_range[0]))
        return np.broadcast_to(np.asarray(self.noise_std, dtype=np.float64), len(self.arms)).copy()

    @property
    def is_costly(self) -> bool:
        """Whether interpreting one plan may take a second: it visits all features often."""
        arms, features = self.features.shape
        return bool(arms * features**2 >= _COSTLY)

    @property
    def candidate_features(self) -> Floats:
        """Features of the candidates, shape (M, d); the arms' if no others were given."""
        return self.features if self.candidates is None else self.candidates

    # ------------------------------------------------------------------- geometry

    @property
    def rank(self) -> int:
        """The number of directions that the arms span."""
        return self.geometry.rank

    @property
    def reduced(self) -> Reduced:
        """The problem in coordinates of full rank and unit noise."""
        return self.geometry.reduced

    @property
    def answer_groups(self) -> tuple[tuple[int, ...], ...]:
        """Candidates with the same features, by index, in the order of their first member."""
        return self.geometry.answer_groups

    @property
    def group_of(self) -> Integers:
        """The position of every candidate's group in `answer_groups`; shape (M,)."""
        return self.geometry.group_of

    @property
    def distinct_arms(self) -> Integers:
        """Arms that measure something, without those that measure the same as an earlier arm."""
        return self.geometry.distinct_arms

    @property
    def basis_arms(self) -> Integers:
        """As many arms as the rank, which together measure all that can be measured; shape (r,)."""
        return self.geometry.basis_arms

    def condition(self, pulls: ArrayLike) -> float:
        """Return the condition number of the Gram matrix of that many pulls by arm, shape (K,).

        Columns are scaled to the same length, and only directions count that all arms together
        measure. From about 1e12, estimates lose digits.

        Examples
        --------
        >>> Problem([[1, 0], [0, 100]], noise_std=1.0).condition([4, 1])
        1.0
        """
        given = check_array("pulls", pulls, (len(self.arms),), axes=("arms",))
        return self.geometry.condition(given)

    # --------------------------------------------------------------------- values

    def values(self, theta: ArrayLike) -> Floats:
        """Return every candidate's value at `theta` of shape (d,); shape (M,)."""
        return np.asarray(self.candidate_features @ self.check_theta(theta))

    def check_theta(self, theta: ArrayLike) -> Floats:
        """Return a parameter as an array of shape (d,), with one entry per feature."""
        return check_array("theta", theta, (self.features.shape[1],), axes=("features",))

    def check_outcome(self, outcome: Any, name: str = "reward") -> float:
        """Return the reward as a float; it must be finite and inside the range, if there is one."""
        reward: float = super().check_outcome(outcome, name)
        if not self.estimates_noise and abs(reward) > _MOST_REWARD * float(self.scale.min()):
            accepted = f"must be at most {_MOST_REWARD:g} times the noise in size"
            raise InvalidOutcome(name, accepted, outcome)
        if self.reward_range is not None:
            low, high = self.reward_range
            if not low <= reward <= high:
                raise InvalidOutcome(name, f"must be in [{low:g}, {high:g}]", outcome)
        return reward
