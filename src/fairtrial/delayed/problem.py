"""The problem: the best k arms, the noise, and the readings before a result."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.problem import Problem as BaseProblem
from fairtrial.core.sizes import check_size
from fairtrial.core.validation import (
    as_floats,
    check_array,
    check_choice,
    check_flag,
    check_integer,
    check_labels,
    check_number,
    check_optional_label,
    check_optional_number,
    check_range,
)
from fairtrial.core.wording import best_of, or_within, rewards_in_words
from fairtrial.errors import InvalidArgument, InvalidOutcome

__all__ = ["Problem"]

Floats = NDArray[np.float64]

FEEDBACKS = ("full", "incremental", "unbiased", "biased", "refining")
ERRORS = ("unknown", "nested", "first")
NOISES = ("gaussian", "subgaussian")
ESTIMATED = "estimated"
FAILURES = ("independent", "outcome")


class Problem(BaseProblem):
    """Find the k arms with the largest means when results arrive late.

    A pull takes time. Before its outcome X arrives, there can be readings of it:

    - ``full``: none.
    - ``incremental``: independent pieces with mean mu/D and scale sigma/sqrt(D); their sum is X.
    - ``unbiased``: Y - X is independent between readings Y, with mean 0.
    - ``biased``: the same, but with an unknown constant mean for every arm.
    - ``refining``: each reading replaces the last: forecasts, learning curves, solver bounds.

    Parameters
    ----------
    arms : sequence of str, or int
        Labels of the n arms, or their number.
    top : int
        Number k of arms to find, from 1 to n.
    noise_std : float, array-like of shape (n,), or "estimated", optional
        Standard deviation of an outcome about its arm's mean (or its sub-Gaussian scale).
        ``"estimated"``: outcomes are approximately normal with unknown deviations; readings do not
        count, and the guarantee is not proven.
    feedback : {"full", "incremental", "unbiased", "biased", "refining"}
        Kind of readings; see the table.
    reading_std : float or array-like of shape (n,), optional
        Standard deviation of a reading about its own pull's outcome; required for ``unbiased`` and
        ``biased``. For ``refining``, each reading can have its own.
    errors : {"unknown", "nested", "first"}
        For ``refining``. ``nested``: the error of an earlier reading is that of a later one plus
        independent noise, so the newest reading contains all information. ``first``: only each
        pull's first reading with a deviation of at most `target_std` counts. The guarantee is
        proven with both, but not with ``unknown``.
    tolerance : float
        How far below the k-th best mean the means of an answer may be.
    reward_range : (float, float), optional
        The range of all outcomes, instead of `noise_std`.
    direction : {"maximize", "minimize"}
        Whether large or small outcomes are good.
    noise : {"gaussian", "subgaussian"}
        Whether outcomes and errors are known to be normal. Not allowed with a `reward_range`.
    target_std : float, optional
        The deviation that ``errors="first"`` waits for.
    duration : float or array-like of shape (n,), optional
        For ``incremental``: the number D of pieces of a pull; otherwise give it at each
        ``ask(duration=...)``.
    failure : {"independent", "outcome"}, optional
        Whether failures can depend on outcomes. By default, failures for the reasons ``"lost"`` and
        ``"error"`` are ``independent``, and failures for any other reason are not.
    failure_value : float, optional
        Value of pulls that failed because of their outcome. Without it, such a failure stops the
        experiment until the outcome arrives.
    delay_depends_on_outcome : bool
        Whether delays can depend on outcomes. Then only the longest run of complete pulls of each
        arm counts, in the order of their start, and readings do not count.
    clip : bool
        Whether an outcome outside `reward_range` is moved to the end of the range instead of being
        refused.
    control : str, optional
        The arm with which the others are compared in `Progress.effects`; by default the leader. It
        does not change decisions.

    Raises
    ------
    InvalidArgument
        If an argument is not acceptable; exactly one of `noise_std` and `reward_range` must be
        given.

    Notes
    -----
    Source: Grover et al. (2018), "Best arm identification in multi-armed bandits with
    delayed feedback", section 2; ``refining`` is an addition.

    Examples
    --------
    >>> problem = Problem(["a", "b", "c"], noise_std=0.5, feedback="unbiased", reading_std=0.25)
    >>> problem.n_actions, problem.top
    (3, 1)
    """

    family = "delayed"
    _not_parameters = frozenset()

    def __init__(
        self,
        arms: Any,
        top: int = 1,
        noise_std: ArrayLike | str | None = None,
        feedback: str = "full",
        reading_std: ArrayLike | None = None,
        errors: str = "unknown",
        tolerance: float = 0.0,
        reward_range: tuple[float, float] | None = None,
        direction: str = "maximize",
        noise: str = "gaussian",
        target_std: float | None = None,
        duration: ArrayLike | None = None,
        failure: str | None = None,
        failure_value: float | None = None,
        delay_depends_on_outcome: bool = False,
        clip: bool = False,
        control: str | None = None,
    ) -> None:
        self.arms = check_labels("arms", arms)
        check_size("arms", "actions", len(self.arms))
        self.top = check_integer("top", top, low=1)
        if self.top > len(self.arms):
            raise InvalidArgument(
                "top", f"must be at most the number of arms, {len(self.arms)}", top
            )
        check_size("top", "comparisons", self.top * (len(self.arms) - self.top))
        self.feedback = check_choice("feedback", feedback, FEEDBACKS)
        self.direction = check_choice("direction", direction, ["maximize", "minimize"])
        self.noise = check_choice("noise", noise, NOISES)
        self.tolerance = check_number("tolerance", tolerance, low=0.0)
        self.noise_std, self.reward_range = self._given_noise(noise_std, reward_range)
        self.reading_std = self._given_reading_std(reading_std)
        self.errors = self._given_errors(errors)
        self.target_std = self._given_target(target_std)
        self.duration = self._given_duration(duration)
        self.failure = None if failure is None else check_choice("failure", failure, FAILURES)
        self.failure_value = check_optional_number("failure_value", failure_value)
        self.delay_depends_on_outcome = check_flag(
            "delay_depends_on_outcome", delay_depends_on_outcome
        )
        self.clip = check_flag("clip", clip)
        self.control = check_optional_label("control", control, self.arms)
        self._check_combinations()
        self._freeze()

    # --------------------------------------------------------------------- checks

    def _given_noise(
        self, noise_std: Any, reward_range: Any
    ) -> tuple[Floats | str | None, tuple[float, float] | None]:
        if (noise_std is None) == (reward_range is None):
            raise InvalidArgument(
                "noise_std, reward_range",
                "exactly one must be given: the noise if it is known, else the outcomes' range; "
                "or set noise_std='estimated'",
                (noise_std, reward_range),
            )
        if noise_std is None:
            return None, check_range("reward_range", reward_range)
        if isinstance(noise_std, str) and noise_std == ESTIMATED:
            if self.noise != "gaussian":
                raise InvalidArgument(
                    "noise", f"must be left out for noise_std={ESTIMATED!r}", self.noise
                )
            return ESTIMATED, None
        scale = self._per_arm("noise_std", noise_std)
        if (scale <= 0.0).any():
            raise InvalidArgument("noise_std", "must be finite and greater than 0", noise_std)
        return scale, None

    def _given_reading_std(self, reading_std: ArrayLike | None) -> Floats | None:
        if reading_std is None:
            if self.feedback in ("unbiased", "biased"):
                raise InvalidArgument(
                    "reading_std", f"must be given for feedback={self.feedback!r}", None
                )
            return None
        if self.feedback in ("full", "incremental"):
            raise InvalidArgument(
                "reading_std", f"must be left out for feedback={self.feedback!r}", reading_std
            )
        scale = self._per_arm("reading_std", reading_std)
        if (scale < 0.0).any():
            raise InvalidArgument("reading_std", "must be finite and at least 0", reading_std)
        return scale

    def _given_errors(self, errors: str) -> str:
        check_choice("errors", errors, ERRORS)
        if errors != "unknown" and self.feedback != "refining":
            raise InvalidArgument("errors", "must be left out unless feedback='refining'", errors)
        return errors

    def _given_target(self, target_std: float | None) -> float | None:
        if (target_std is not None) != (self.errors == "first"):
            raise InvalidArgument(
                "target_std", "must be given if and only if errors='first'", target_std
            )
        return None if target_std is None else check_number("target_std", target_std, low=0.0)

    def _given_duration(self, duration: ArrayLike | None) -> Floats | None:
        if duration is None:
            return None
        if self.feedback != "incremental":
            raise InvalidArgument(
                "duration", "must be left out unless feedback='incremental'", duration
            )
        pieces = self._per_arm("duration", duration)
        if (pieces <= 0.0).any():
            raise InvalidArgument("duration", "must be finite and greater than 0", duration)
        return pieces

    def _per_arm(self, name: str, value: ArrayLike | None) -> Floats:
        arms = len(self.arms)
        given = as_floats(name, value, f"must be a number or have shape ({arms},)")
        if given.shape not in ((), (arms,)):
            raise InvalidArgument(
                name, f"must be a number or have shape ({arms},); got shape {given.shape}"
            )
        if not np.isfinite(given).all():
            raise InvalidArgument(name, "must be finite", value)
        return check_array(name, np.broadcast_to(given, (arms,)), (arms,))

    def _check_combinations(self) -> None:
        if self.failure_value is not None and self.failure == "independent":
            raise InvalidArgument(
                "failure_value", "must be left out if failure='independent'", self.failure_value
            )
        if self.clip and self.reward_range is None:
            raise InvalidArgument("clip", "needs a reward_range", self.clip)
        if self.reward_range is not None and self.failure_value is not None:
            low, high = self.reward_range
            if not low <= self.failure_value <= high:
                raise InvalidArgument(
                    "failure_value", f"must be in [{low:g}, {high:g}]", self.failure_value
                )

    # -------------------------------------------------------------------- meaning

    def in_words(self) -> Mapping[str, str]:
        """Return a description of the problem, by topic."""
        asked = best_of(self.arms, self.direction, self.top) + or_within(self.tolerance)
        words = {"Question": f"{asked}?"}
        if self.has_readings:
            words["Readings"] = f"They come before the outcome; their kind is {self.feedback!r}"
        if self.control is not None:
            words["Control"] = self.control
        words["Outcomes"] = rewards_in_words(self.reward_range, self.noise_std, "An outcome")
        return words

    @cached_property
    def action_labels(self) -> tuple[dict[str, str], ...]:
        """One action for every arm."""
        return tuple({"arm": arm} for arm in self.arms)

    @property
    def default_policy(self) -> str:  # type: ignore[override]  # elsewhere it is the same for all
        """The rule for this problem.

        Block betting if only outcomes count and have a range; the proven race if readings count and
        are not normal.
        """
        if self.reward_range is not None and not self.readings_used:
            return "BlockBetting"
        covered = self.feedback in ("unbiased", "biased", "incremental")
        proven = covered and self.readings_used and not self.gaussian
        return "Racing" if proven else "InformationRacing"

    @property
    def sign(self) -> float:
        """1 if outcomes are maximised, -1 if they are minimised."""
        return 1.0 if self.direction == "maximize" else -1.0

    @property
    def gaussian(self) -> bool:
        """Whether outcomes and the errors of readings are known to be normal."""
        return self.reward_range is None and self.noise == "gaussian" and not self.estimates_noise

    @cached_property
    def scale(self) -> Floats:
        """Sub-Gaussian scale of an outcome by arm, shape (n,); half the range if bounded.

        NaN if deviations are estimated.
        """
        if self.estimates_noise:
            return np.full(len(self.arms), math.nan)
        if self.reward_range is not None:
            return np.full(len(self.arms), 0.5 * (self.reward_range[1] - self.reward_range[0]))
        return np.array(self.noise_std, dtype=float)

    @property
    def estimates_noise(self) -> bool:
        """Whether the deviations of outcomes are to be estimated."""
        return isinstance(self.noise_std, str)

    @property
    def comes_late(self) -> bool:
        """Whether outcomes arrive late: always True."""
        return True

    @property
    def has_readings(self) -> bool:
        """Whether there are readings before an outcome."""
        return self.feedback != "full"

    @property
    def readings_used(self) -> bool:
        """Whether readings can be informative before the outcome."""
        counts = not (self.delay_depends_on_outcome or self.estimates_noise)
        return self.feedback != "full" and counts

    def check_outcome(self, outcome: Any, name: str = "outcome") -> float:
        """Return the outcome as a finite float in the range, or clipped to it if `clip` is set."""
        value: float = super().check_outcome(outcome, name)
        if self.reward_range is None:
            return value
        low, high = self.reward_range
        if self.clip:
            return min(max(value, low), high)
        if not low <= value <= high:
            raise InvalidOutcome(name, f"must be in [{low:g}, {high:g}]", outcome)
        return value
