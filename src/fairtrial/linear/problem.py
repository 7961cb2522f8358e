"""What is known and wanted: arms and candidates described by features, and the noise."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import qr

from fairtrial.core.problem import Problem as BaseProblem
from fairtrial.core.validation import (
    check_array,
    check_choice,
    check_integer,
    check_number,
    check_optional_label,
    check_range,
)
from fairtrial.core.wording import best_of, listed, or_within, plural, rewards_in_words
from fairtrial.errors import InvalidArgument, InvalidOutcome
from fairtrial.linear._arguments import (
    by_arm,
    column_names,
    in_the_order_of,
    is_frame,
    labels_of,
    rows_of,
)
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
from fairtrial.linear._encoding import Encoding, Table, encoding_of, joined_labels, table_of
from fairtrial.linear._limits import (
    Requirement,
    Rows,
    bounds_by_candidate,
    check_intervals,
    check_reach,
    in_words,
    margins_by_candidate,
    named_bounds,
    none_if_free,
    rows_of_requirement,
    superiority_of,
)
from fairtrial.linear._opening import varied_order

__all__ = ["NotEstimable", "Problem"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ESTIMATED = "estimated"

_RESIDUAL = 1e-9
"""Features hold a constant if they give it to this part of it."""

_MOST_NOISE_RATIO = 1e8
"""How many times larger than another the noise of an arm may be."""

_LARGEST = 1e200
"""How large the noise, or a range of rewards, may be; the inverse is the least."""

_NARROWEST = 1e-12
"""How narrow a range of rewards may be, relative to its ends: rounding must not matter."""

_HARMLESS_SHIFT = 1e-5
"""What taking off a constant may change a mean by, in units of the range."""

_LEAST_TESTS = 3
"""How many arms are pulled, beyond those that any function fits, to test whether it is linear."""

_BOUNDS = ("floors", "ceilings", "margin")
"""What can be asked of a prediction, by the names of arguments."""

_MOST_REWARD = 1e100
"""How many times the noise a reward may be: its square must be a float."""


NO_INTERCEPT = (
    "features hold no constant: means are taken to be 0 where all features are 0; "
    "add a column of ones unless that is so"
)


class NotEstimable(InvalidArgument):
    """Two candidates differ along a direction that no arm measures: no data can tell them apart."""


class Problem(BaseProblem):
    """The best of many candidates whose values are linear in known features.

    Pulling arm k gives a reward of mean ``features[k] @ theta``; `theta` is unknown and
    shared by all arms, so every pull informs about every arm. The answer is the candidate z with
    the largest ``z @ theta``, or the `top` of them.

    Parameters
    ----------
    features : array-like, pandas.DataFrame or mapping of str to sequence
        One row for every arm that can be pulled; the index of a DataFrame labels the arms.
        Rows may repeat and columns may depend on each other. Unless means are 0 where all
        features are 0, one column must be of ones. A column of text (or of a categorical type)
        is encoded: it becomes an indicator of 0 and 1 for each of its values but the first, its
        reference; a column of ones is added then.
    candidates : array-like, pandas.DataFrame or mapping of str to sequence, optional
        What is chosen among, if that is not the arms themselves; with the columns of `features`.
        Only differences between candidates need to be measurable. Identical candidates are one
        answer.
    arms : sequence of str, or int, optional
        Labels of the K arms; those of the DataFrame, or 0 to K - 1, by default.
    noise_std : float, array-like of shape (K,), or "estimated"
        Standard deviation of a reward (of its sub-Gaussian bound), if it is known.
        ``"estimated"`` takes it from the residuals of the fit, the same for all arms: no rule
        is proven for that.
    reward_range : (float, float)
        The range that every reward lies in, if that is what is known.
    tolerance : float
        An answer within `tolerance` of the best will do.
    top : int
        How many of the best (distinct) candidates are wanted.
    direction : {"maximize", "minimize"}
        Which rewards are good.
    answers : sequence of str, or int, optional
        Labels of the candidates; those of the DataFrame, or 0 to M - 1, by default. Without
        `candidates` they are the arms'.
    misspecification : float
        By how much the mean of an arm, and the value of a candidate, may differ from a linear
        function of the features. An answer then holds whatever those differences are; where
        they could hide the best, a study ends undecided.
    interactions : sequence of sequence of str
        Columns of `features` whose effects depend on each other, as ``[["ligand", "base"]]``: the
        products of what these columns are encoded as are features, too.
    control : str, optional
        The candidate that others are compared with in `Progress.effects`; the leader if none is
        named. It changes no decision but by a `margin` and by `superiority`.
    floors : float, None, array-like of shape (M,), or mapping by label, optional
        What the value of a candidate must reach to be an answer: one number for all, in order, or
        by label; None, or ``-inf``, for a candidate without a floor. If no candidate keeps all its
        limits, the answer is "no arm". With ``direction="minimize"`` a value must stay at or below
        its floor, and ``inf`` stands for none.
    ceilings : as `floors`
        Limits on the other side.
    margin : float, None, array-like of shape (M,), or mapping by label, optional
        How much worse than the control's a candidate's value may be. It matters where the control
        may break a limit of its own: else the best is never worse than the control.
    superiority : float, optional
        By how much a candidate must be better than the control. If none is, the answer is the
        control, unless it breaks a limit of its own. It takes the place of `margin`.
    limits : mapping of str to mapping
        Limits on other predictions of the same linear function, by name: each has ``features``, a
        row for every candidate (as `candidates`), and at least one of ``floors``, ``ceilings`` and
        ``margin``, on these rows times theta. So a condition must work at a second temperature,
        too. Results of another kind (a side effect, say) do not inform theta: a limit on them needs
        `subpopulations` or a study of its own.
    floor_tolerance : float
        How far beyond a limit the answer may be, and within it its rivals must be.

    Attributes
    ----------
    features : ndarray of shape (K, d)
    candidates : ndarray of shape (M, d), or None
        As given, or encoded.
    feature_names : tuple of str
        The names of the d features: those of the columns, or as ``ligand=L02`` where they are
        encoded; their numbers where they have none.
    references : mapping of str to str
        By column of text, the value that the others are compared with.
    arms, answers : tuple of str
        Labels of arms and candidates.
    noise_std : float, ndarray of shape (K,), "estimated", or None
    floors, ceilings, margin : ndarray of shape (M,), or None
        By candidate; infinite where there is none.
    tolerance, top, direction, reward_range, misspecification
        As given.

    Raises
    ------
    NotEstimable
        If two candidates differ along a direction that no arm measures, or if something is limited
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
    section 2; with candidates of their own: Fiez, Jain, Jamieson, Ratliff (2019),
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

    The best dose when it is warm that also works when it is cold:

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
        self._tables, self._encoding = _encoded(features, candidates, interactions)
        self.interactions = () if self._encoding is None else self._encoding.interactions
        self.features, self.feature_names = self._given_features(features)
        self.arms = self._given_labels("arms", arms, "features", features, len(self.features))
        self.candidates = self._given_candidates(features, candidates)
        self.answers = self._given_answers(candidates, answers)
        self.noise_std, self.reward_range = self._given_noise(noise_std, reward_range)
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
        self.top = self._given_top(top)
        self._check_estimable()
        self._warn_of_zero_arms()
        if (self._tables or is_frame(features)) and not self.has_intercept:
            warnings.warn(NO_INTERCEPT, stacklevel=2)
        self._freeze()

    # --------------------------------------------------------------------- checks

    def _given_features(self, features: Any) -> tuple[Floats, tuple[str, ...]]:
        if self._encoding is not None:
            encoded = self._encoding.features("features", self._tables["features"])
            return rows_of("features", encoded), self._encoding.names
        rows = rows_of("features", features)
        return rows, column_names(features, rows.shape[1])

    def _given_labels(
        self, name: str, labels: Any, argument: str, rows: Any, number: int
    ) -> tuple[str, ...]:
        """Return the labels of rows: those given, or the table's, or what describes them."""
        has_own = is_frame(rows) and type(rows.index).__name__ != "RangeIndex"
        if labels is None and argument in self._tables and not has_own:
            labels = joined_labels(self._tables[argument])
        return labels_of(name, labels, rows, number)

    def _given_candidates(self, features: Any, candidates: Any) -> Floats | None:
        if candidates is None:
            return None
        if self._encoding is not None:
            encoded = self._encoding.features("candidates", self._tables["candidates"])
            return rows_of("candidates", encoded, self.features.shape[1])
        if is_frame(features) and is_frame(candidates):
            candidates = in_the_order_of(candidates, features)
        return rows_of("candidates", candidates, self.features.shape[1])

    def _given_answers(
        self, candidates: Any, answers: Sequence[str] | int | None
    ) -> tuple[str, ...]:
        if self.candidates is not None:
            number = len(self.candidates)
            return self._given_labels("answers", answers, "candidates", candidates, number)
        if answers is not None and labels_of("answers", answers, None, len(self.arms)) != self.arms:
            raise InvalidArgument(
                "answers", "must be left out without candidates: they are the arms", answers
            )
        return self.arms

    def _given_noise(
        self, noise_std: ArrayLike | None, reward_range: Any
    ) -> tuple[float | str | Floats | None, tuple[float, float] | None]:
        if noise_std is not None and reward_range is None:
            return self._given_std(noise_std), None
        if noise_std is None and reward_range is not None:
            return None, _given_range(reward_range)
        raise InvalidArgument(
            "noise_std, reward_range",
            "exactly one must be given: the noise if it is known, else the rewards' range",
            (noise_std, reward_range),
        )

    def _given_std(self, noise_std: ArrayLike) -> float | str | Floats:
        if isinstance(noise_std, str):
            if noise_std != ESTIMATED:
                raise InvalidArgument("noise_std", f"must be numbers or {ESTIMATED!r}", noise_std)
            return noise_std
        if np.ndim(noise_std) == 0:
            check_number("noise_std", noise_std, low=0.0, open_low=True)
            return check_number("noise_std", noise_std, low=1.0 / _LARGEST, high=_LARGEST)
        given = by_arm("noise_std", noise_std, len(self.arms))
        for arm, std in enumerate(given):
            check_number(f"noise_std[{arm}]", float(std), low=0.0, open_low=True)
            check_number(f"noise_std[{arm}]", float(std), low=1.0 / _LARGEST, high=_LARGEST)
        least, most = int(given.argmin()), int(given.argmax())
        if given[most] > _MOST_NOISE_RATIO * given[least]:
            raise InvalidArgument(
                f"noise_std[{most}]",
                f"must be at most {_MOST_NOISE_RATIO:g} times noise_std[{least}], {given[least]:g}",
                float(given[most]),
            )
        return given

    def _given_bounds(self, name: str, given: Any, side: float) -> Floats | None:
        """Return bounds by candidate; `side`: 1 for an upper one, as of rewards to be maximised."""
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
        """Return every limit of the candidates, of rewards as they are maximised."""
        found = self._requirements_on("", self.candidate_features, self._own_bounds())
        for name, limit in self.limits.items():
            rows = self._rows_of_limit(f"limits[{name!r}].features", limit["features"])
            bounds = {key: limit.get(key) for key in _BOUNDS}
            found += self._requirements_on(f"limits[{name!r}].", rows, bounds)
        return tuple(found)

    def _given_limits(self, limits: Any) -> dict[str, dict[str, Any]]:
        """Return limits on other predictions by name: features as given, bounds by candidate."""
        found = {}
        for name, limit in named_bounds(limits).items():
            argument = f"limits[{name!r}]"
            clean = {
                "features": self._features_of_limit(f"{argument}.features", limit["features"]),
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

    def _features_of_limit(self, name: str, given: Any) -> Floats | Table:
        """Return the features of other predictions, a row for every candidate, or their table."""
        if self._encoding is not None:
            table = table_of(name, given, is_encoded=True)
            if table is None:
                raise InvalidArgument(
                    name, f"must be a table with the columns {list(self._tables['features'])}"
                )
            return table
        if is_frame(given) and set(map(str, given.columns)) == set(self.feature_names):
            given = given.rename(columns=str)[list(self.feature_names)]
        return rows_of(name, given, self.features.shape[1])

    def _rows_of_limit(self, name: str, given: Any) -> Floats:
        rows = given
        if self._encoding is not None:
            rows = rows_of(name, self._encoding.features(name, given), self.features.shape[1])
        if len(rows) != len(self.answers):
            accepted = f"must have {len(self.answers)} rows, one for each candidate"
            raise InvalidArgument(name, f"{accepted}; got {len(rows)}")
        return np.asarray(rows)

    def _requirements_on(
        self, prefix: str, rows: Floats, bounds: Mapping[str, Floats | None]
    ) -> list[Requirement]:
        """Return the requirements on one prediction of every candidate."""
        found = []
        for name, given in bounds.items():
            if given is None:
                continue
            if name in ("margin", "superiority"):
                control = self.answers.index(str(self.control))
                least = -given.copy()
                least[control] = -math.inf
                found.append(Requirement(prefix + name, rows, 1.0, least, control))
            else:
                factor = 1.0 if name == "floors" else -1.0
                least = factor * self.sign * given
                found.append(Requirement(prefix + name, rows, factor, least))
        return [one for one in found if one.limited.any()]

    def _check_limits(self) -> None:
        """Refuse limits that cannot be kept together, or that no rule here is proven for."""
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
        return number

    def _check_estimable(self) -> None:
        """Refuse candidates that no arm tells apart, and what floats cannot tell apart."""
        groups = self._value_groups
        pair = None
        if self.candidates is not None:
            pair = outside(self._coordinates, self._different_candidates)
        if pair is not None:
            first, second = (self.answers[self._different[row][0]] for row in sorted(pair))
            raise NotEstimable(
                "candidates",
                f"{first!r} and {second!r} differ along a direction that no arm measures",
            )
        kept = np.array([row[0] for row in self._joined], dtype=np.int64)
        pair = too_close(self._placed, kept) if len(groups) > 1 else None
        if pair is not None:
            first, second = (self.answers[self._different[row][0]] for row in pair)
            raise InvalidArgument(
                self._candidates_name,
                f"differ too little: {first!r} and {second!r} are lost to rounding beside "
                "candidates that are so far away; leave out those, or describe these in finer "
                "features",
            )
        for one, (_, unseen) in zip(self._requirements, self._limited, strict=True):
            if unseen:
                label = self.answers[unseen[0]]
                accepted = f"must be on what the arms measure; no arm measures that of {label!r}"
                raise NotEstimable(one.name, accepted)

    @property
    def _candidates_name(self) -> str:
        return "features" if self.candidates is None else "candidates"

    def _refusal(self, name: str, labels: Sequence[str], error: Untrustworthy) -> InvalidArgument:
        """Return the error for rows whose arithmetic cannot be trusted."""
        feature = self.feature_names[error.column]
        row = f", beside {labels[error.row]!r}" if error.row >= 0 else ""
        return InvalidArgument(
            name,
            f"rescale feature {feature!r}{row}: its values are so different in size, or so nearly "
            "a combination of other features, that floats cannot hold what tells them apart "
            "(subtract a constant from it, change its unit, or leave it out)",
        )

    def _warn_of_zero_arms(self) -> None:
        zero = np.flatnonzero(~self.features.any(axis=1))
        if zero.size:
            warnings.warn(
                f"features of arm {self.arms[zero[0]]!r} are all zero: it is never pulled",
                stacklevel=3,
            )

    # -------------------------------------------------------------------- meaning

    def in_words(self) -> Mapping[str, str]:
        """Return what is asked, by topic."""
        asked = best_of(self.answers, self.direction, self.top) + or_within(self.tolerance)
        features = self.features.shape[1]
        assumed = f", if means are linear in {plural(features, 'feature')}"
        if self.misspecification:
            assumed += f" to within {self.misspecification:g}"
        words = {"Question": f"{asked}{self._limits_asked}{assumed}?"}
        if self.answers != self.arms:
            words["Pulled are"] = listed(self.arms)
        if self._encoding is not None:
            words["Described by"] = self._encoding.in_words()
        if self.control is not None:
            words["Control"] = self.control
        words["Rewards"] = rewards_in_words(self.reward_range, self.noise_std)
        return words

    @property
    def _limits_asked(self) -> str:
        """Which limits an answer must keep, in words."""
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
        """Every limit of the candidates, of rewards as they are maximised."""
        return self._requirements

    def feasible(self, theta: ArrayLike, spare: float = 0.0) -> NDArray[np.bool_]:
        """Return which candidates keep all their limits at `theta`, `spare` wider apart; (M,)."""
        given = self.check_theta(theta)
        return self.within([one.features @ given for one in self._requirements], spare)

    def within(self, predicted: Sequence[Floats], spare: float = 0.0) -> NDArray[np.bool_]:
        """Return which candidates keep all limits that are `spare` wider apart, shape (M,).

        `predicted`: what each of `requirements` is about, as rewards are, shape (M,).
        """
        kept = np.ones(len(self.answers), dtype=np.bool_)
        for one, means in zip(self._requirements, predicted, strict=True):
            kept &= one.distance(self.sign * means) + spare >= 0.0
        return kept

    @property
    def references(self) -> Mapping[str, str]:
        """By column of text, the value that the others are compared with."""
        return {} if self._encoding is None else self._encoding.references

    def get_params(self) -> dict[str, Any]:
        """Return the constructor's arguments by name; tables that were encoded as columns."""
        return {**super().get_params(), **self._tables}

    def to_dict(self) -> dict[str, Any]:
        """Return the problem as JSON's own types; a candidate without a limit has null."""
        data = super().to_dict()
        for name in _BOUNDS:
            data[name] = none_if_free(getattr(self, name))
        for name, limit in self.limits.items():
            data["limits"][name] |= {
                key: none_if_free(limit[key]) for key in _BOUNDS if key in limit
            }
        return data

    @cached_property
    def has_intercept(self) -> bool:
        """Whether the features can say that all arms have the same mean, other than 0.

        Without a constant among them, or indicators that add up to one, they cannot: a mean
        is then 0 where all features are 0.
        """
        return self._constant_error < _RESIDUAL

    @property
    def holds_constant_exactly(self) -> bool:
        """Whether the middle of the range can be taken off all rewards without a trace."""
        low, high = self.reward_range or (-1.0, 1.0)
        far = abs(0.5 * low + 0.5 * high) / (0.5 * high - 0.5 * low)
        return self._constant_error * far < _HARMLESS_SHIFT

    @cached_property
    def _constant_error(self) -> float:
        """By how much the features fail to give a constant of one."""
        if self.constant_parameter is not None:
            return 0.0
        rows = self.reduced.arms
        # Rows are over the noise here, so that is what a constant is over, too.
        wanted = self._noise_unit / self.scale
        weights, *_ = np.linalg.lstsq(rows, wanted, rcond=None)
        return float(np.abs((rows @ weights - wanted) / wanted).max())

    @cached_property
    def action_labels(self) -> tuple[dict[str, str], ...]:
        """The arm of every action."""
        return tuple({"arm": arm} for arm in self.arms)

    def conditions(self, action: int) -> Mapping[str, float | str]:
        """Return the values of an arm in the table that describes the arms; nothing without one."""
        table = self._tables.get("features", {})
        return {name: column[action] for name, column in table.items()}

    @property
    def sign(self) -> float:
        """1 if rewards are maximised, -1 if they are minimised."""
        return 1.0 if self.direction == "maximize" else -1.0

    @property
    def estimates_noise(self) -> bool:
        """Whether the noise is to be estimated from the data."""
        return isinstance(self.noise_std, str)

    @cached_property
    def scale(self) -> Floats:
        """Sub-Gaussian scale of a reward by arm, shape (K,).

        Half the range if rewards have one; 1 if the noise is to be estimated.
        """
        if self.estimates_noise:
            return np.ones(len(self.arms))
        if self.reward_range is not None:
            return np.full(len(self.arms), 0.5 * (self.reward_range[1] - self.reward_range[0]))
        return np.broadcast_to(np.asarray(self.noise_std, dtype=np.float64), len(self.arms)).copy()

    @property
    def candidate_features(self) -> Floats:
        """Features of the candidates, shape (M, d); the arms' if no others were given."""
        return self.features if self.candidates is None else self.candidates

    @cached_property
    def answer_groups(self) -> tuple[tuple[int, ...], ...]:
        """Candidates with the same features, by index, in the order of their first.

        Features that differ by no more than rounding are the same: the values of two candidates
        of a group are equal to 13 digits of the arms' largest mean.
        """
        return tuple(members for members, _ in self._answer_parts)

    @cached_property
    def _answer_parts(self) -> tuple[tuple[tuple[int, ...], int], ...]:
        """Candidates that are one answer, and the number of their value's group."""
        found = []
        for number, members in enumerate(self._value_groups):
            parts: dict[bytes, list[int]] = {}
            for index in members:
                parts.setdefault(self._limits_of(index), []).append(index)
            found += [(tuple(part), number) for part in parts.values()]
        return tuple(sorted(found))

    @cached_property
    def _value_groups(self) -> tuple[tuple[int, ...], ...]:
        """Candidates with the same value, whatever theta is, by index."""
        return tuple(
            tuple(sorted(index for row in rows for index in self._different[row]))
            for rows in self._joined
        )

    def _limits_of(self, candidate: int) -> bytes:
        """Return what differs between candidates whose limits differ, whatever theta is."""
        found = [
            np.append(rows.rows[candidate], rows.least[candidate]) for rows, _ in self._limited
        ]
        return b"".join((row + 0.0).tobytes() for row in found)

    @cached_property
    def _limited(self) -> tuple[tuple[Rows, tuple[int, ...]], ...]:
        """The requirements in reduced coordinates, and candidates for which no arm measures one."""
        return tuple(map(self._limited_by, self._requirements))

    def _limited_by(self, one: Requirement) -> tuple[Rows, tuple[int, ...]]:
        try:
            rows, unseen = rows_of_requirement(
                one, self._coordinates, self._noise_unit, self.constant_parameter
            )
        except Untrustworthy as error:
            raise self._refusal(one.name, self.answers, error) from None
        # A limit that is kept whatever theta is, is none.
        kept = ~rows.rows.any(axis=1) & (rows.least <= 0.0)
        return rows._replace(least=np.where(kept, -math.inf, rows.least)), unseen

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
    def _different(self) -> tuple[tuple[int, ...], ...]:
        """Candidates with equal features, by index."""
        return equal_rows(self.candidate_features)

    @property
    def _different_candidates(self) -> Floats:
        return self.candidate_features[[group[0] for group in self._different]]

    @cached_property
    def _placed(self) -> Placed:
        """The different candidates in the arms' coordinates."""
        try:
            return place(self._coordinates, self._different_candidates)
        except Untrustworthy as error:
            labels = [self.answers[group[0]] for group in self._different]
            raise self._refusal(self._candidates_name, labels, error) from None

    @cached_property
    def _joined(self) -> tuple[tuple[int, ...], ...]:
        """Which of the different candidates are the same up to rounding."""
        return joined_where_close(self._placed.places.high, self._placed.reach)

    @cached_property
    def distinct_arms(self) -> Integers:
        """Arms that measure something, and not what another before them does as well."""
        first = [group[0] for group in equal_rows(self._scaled_features)]
        return np.array([arm for arm in first if self.features[arm].any()], dtype=np.int64)

    @cached_property
    def group_of(self) -> Integers:
        """The place of every candidate's group in `answer_groups`; shape (M,)."""
        found = np.empty(len(self.answers), dtype=np.int64)
        for number, group in enumerate(self.answer_groups):
            found[list(group)] = number
        return found

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
    def _noise_unit(self) -> float:
        """The largest noise scale of an arm: what rewards are measured in."""
        return float(self.scale.max())

    @cached_property
    def basis_arms(self) -> Integers:
        """As many arms as the rank, that together measure all that can be measured; (r,).

        By pivoted QR of the reduced features: each is the one least explained by those
        before it, in the metric of equal pulls of all arms.
        """
        if self.rank == 0:
            return np.zeros(0, dtype=np.int64)
        arms = self.distinct_arms
        columns = self.reduced.arms[arms].T
        _, pivots = qr(columns, mode="r", pivoting=True, check_finite=False)
        return arms[pivots[: self.rank]]

    @cached_property
    def start_arms(self) -> Integers:
        """The arms that adaptive rules pull first: the basis, and a few others if there are any.

        The basis alone fits any rewards: whether means are linear could not be tested. The others
        are those that are least explained by each other.
        """
        basis = self.basis_arms
        others = np.setdiff1d(self.distinct_arms, basis)
        number = min(others.size, max(_LEAST_TESTS, -(-self.rank // 4)))
        if not self.rank or not number:
            return basis
        _, pivots = qr(self.reduced.arms[others].T, mode="r", pivoting=True, check_finite=False)
        return np.concatenate([basis, others[pivots[:number]]])

    @cached_property
    def varied_arms(self) -> Integers:
        """All distinct arms, the start first, in an order of which every beginning is varied."""
        return varied_order(self.reduced.arms, self.distinct_arms, self.start_arms)

    @cached_property
    def _scaled_features(self) -> Floats:
        """Features over noise scale, columns in units in which they are about one."""
        rows = np.ldexp(self.features, -self._coordinates.exponents)
        return np.asarray(rows * (self._noise_unit / self.scale)[:, np.newaxis])

    @cached_property
    def _coordinates(self) -> Coordinates:
        try:
            return coordinates_of(self.features, self._noise_unit / self.scale)
        except Untrustworthy as error:
            raise self._refusal("features", self.arms, error) from None

    @property
    def has_rounded_columns(self) -> bool:
        """Whether some feature depends on others up to rounding, and not exactly."""
        return not self._coordinates.is_exact

    def condition(self, pulls: ArrayLike) -> float:
        """Return the condition number of the Gram matrix of that many pulls by arm, shape (K,).

        Columns are scaled to one length, and only directions count that all arms together
        measure. From about 1e12 on, estimates lose digits.

        Examples
        --------
        >>> Problem([[1, 0], [0, 100]], noise_std=1.0).condition([4, 1])
        1.0
        """
        given = check_array("pulls", pulls, (len(self.arms),), axes=("arms",))
        return condition_of(self._scaled_features, given, self.rank)

    def values(self, theta: ArrayLike) -> Floats:
        """Return every candidate's value at `theta` of shape (d,); shape (M,)."""
        return np.asarray(self.candidate_features @ self.check_theta(theta))

    def check_theta(self, theta: ArrayLike) -> Floats:
        """Return a parameter as an array of shape (d,); it must have one entry a feature."""
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


def _encoded(
    features: Any, candidates: Any, interactions: Any
) -> tuple[dict[str, Table], Encoding | None]:
    """Return the tables that are to be encoded, by argument, and how; nothing of plain numbers."""
    has_interactions = not isinstance(interactions, Sequence) or len(interactions) > 0
    table = table_of("features", features, is_encoded=has_interactions)
    if table is None:
        if has_interactions:
            raise InvalidArgument(
                "interactions", "need features with named columns: a table", interactions
            )
        return {}, None
    encoding = encoding_of(table, interactions)
    if candidates is None:
        return {"features": table}, encoding
    chosen = table_of("candidates", candidates, is_encoded=True)
    if chosen is None:
        raise InvalidArgument("candidates", f"must be a table with the columns {list(table)}")
    return {"features": table, "candidates": chosen}, encoding


def _given_range(reward_range: Any) -> tuple[float, float]:
    """Return a range that floats can resolve."""
    low, high = check_range("reward_range", reward_range)
    largest = max(abs(low), abs(high))
    width = 0.5 * high - 0.5 * low
    if not 1.0 / _LARGEST <= width <= _LARGEST or width < _NARROWEST * largest:
        accepted = (
            f"must be between {1.0 / _LARGEST:g} and {_LARGEST:g} wide, and not narrower than "
            f"{_NARROWEST:g} of its ends"
        )
        raise InvalidArgument("reward_range", accepted, reward_range)
    return low, high
