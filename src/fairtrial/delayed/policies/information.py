"""The policy that races on the exact likelihood of all observations."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.documentation import documented_by
from fairtrial.core.recommendation import PREDICTABLE, Guarantee
from fairtrial.core.validation import check_choice, check_flag, check_number
from fairtrial.delayed._kernels.state import INFORMATION_BOX, LUCB, PAIRWISE, SURVIVES, UNIFORM
from fairtrial.delayed._kernels.student import student_evidence, student_radius
from fairtrial.delayed.environments import TimedEnvironment
from fairtrial.delayed.policies.race import Race
from fairtrial.delayed.policies.race_assumptions import noise_assumption
from fairtrial.delayed.policies.top_two import top_two
from fairtrial.delayed.problem import Problem
from fairtrial.errors import InvalidArgument

__all__ = ["InformationRacing"]

Floats = NDArray[np.float64]


@documented_by(Race)
class InformationRacing(Race):
    """Race on the exact likelihood of completed, stopped and running pulls; the default.

    A pull with readings counts as an observation of the mean with the noise of an outcome plus that
    of its readings. The error probability is not split between outcomes and readings, and readings
    count at once.

    Parameters
    ----------
    problem : Problem
        The problem, with normal noise or without readings.
    test : {"pairwise", "box"}
        Whether to compare pairs of arms, or an interval of each arm.
    sampling : {"lucb", "uniform", "top_two"}
        Pull the two arms that are least certain at the border (``"lucb"``), all survivors equally,
        or an arm on which two draws from the normal posteriors disagree (top-two Thompson
        sampling).
    use_partial : bool
        Whether readings count; without them, any sub-Gaussian noise is covered.
    prior : float
        Number of outcomes that the mixture's prior is worth, more than 0.
    truncate : int or "auto", optional
        Number of readings after which a pull is cancelled; by default pulls run to completion.
        ``"auto"`` learns it from at least ten complete pulls: the age with the best precision per
        time, among the ages at which readings were as good as stated.
    setup_time : float
        Time to start a pull, for ``truncate="auto"``, in the units of `elapsed`.
    seed : None, int or numpy.random.Generator
        Source of randomness for ``sampling="top_two"``; the others are deterministic.

    Raises
    ------
    InvalidArgument
        If an argument is not acceptable, or readings should count although noise is not normal.

    Notes
    -----
    For a pull's weight w and value x, ``exp(s sum w (x - mu) - s^2 sum w / 2)`` is the likelihood
    ratio of the observations. So it is a martingale, however pulls are started or stopped based on
    them. Mixing s over N(0, sigma^2 / prior) gives the test (Robbins 1970; Howard, Ramdas,
    McAuliffe, Sekhon 2021). Two arms are distinguished at level delta / (k (n - k)). Top-two
    Thompson sampling: Russo (2020), "Simple Bayesian algorithms for best-arm identification"; for k
    arms, two draws disagree if they have different arms among the best k.

    Examples
    --------
    >>> problem = Problem(["a", "b"], noise_std=1.0, feedback="unbiased", reading_std=0.5)
    >>> policy = InformationRacing(problem, delta=0.05)
    >>> while not policy.stopped:
    ...     pull = policy.ask()
    ...     for stage in range(3):
    ...         policy.report(pull, 2.0 if pull.arm == "b" else 0.0, stage=stage)
    ...     if not policy.stopped:
    ...         policy.tell(pull, 2.0 if pull.arm == "b" else 0.0)
    >>> policy.recommend().arm, policy.told
    (('b',), 14)
    """

    def __init__(
        self,
        problem: Problem,
        delta: float = 0.05,
        parallel: int | None = None,
        per_arm: int | None = None,
        test: str = "pairwise",
        sampling: str = "lucb",
        use_partial: bool = True,
        prior: float = 0.1,
        truncate: int | str | None = None,
        max_pulls: int | None = None,
        max_readings: int | None = None,
        max_time: float | None = None,
        setup_time: float = 0.0,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(
            problem, delta, parallel, per_arm, truncate, max_pulls, max_readings, max_time, seed
        )
        self.setup_time = check_number("setup_time", setup_time, low=0.0)
        self.test = check_choice("test", test, ["pairwise", "box"])
        self.sampling = check_choice("sampling", sampling, ["lucb", "uniform", "top_two"])
        self.use_partial = check_flag("use_partial", use_partial)
        self.prior = check_number("prior", prior, low=0.0, open_low=True)
        if self._uses_readings and not problem.gaussian:
            other = "" if problem.feedback == "refining" else ", or Racing(variant='proven')"
            raise InvalidArgument(
                "problem",
                "must have normal noise for InformationRacing to use readings; take "
                f"use_partial=False{other}",
                problem,
            )
        if self.truncate is not None and not self._uses_readings:
            raise InvalidArgument("truncate", "needs readings that count", truncate)
        constants: dict[str, float] = {
            "rule": PAIRWISE if self.test == "pairwise" else INFORMATION_BOX,
            "level": self._level(),
            "prior": self.prior,
            "sampling": LUCB if self.sampling == "lucb" else UNIFORM,
            "estimates_noise": self._estimates_noise,
        }
        self._race = self._open(constants)

    def _can_run(self, environment: TimedEnvironment, horizon: int | None, parallel: int) -> bool:
        return self.sampling != "top_two" and super()._can_run(environment, horizon, parallel)

    def _next_arm(self) -> int:
        least = super()._next_arm()
        if self.sampling != "top_two" or least < 0:
            return least
        race = self._race
        arms = np.flatnonzero(race.arms.status == SURVIVES)
        variances = race.arms.variance[arms]
        if not np.isfinite(variances).all():
            unknown = arms[np.isinf(variances)]
            arm = int(unknown[race.arms.started[unknown].argmin()])
            return arm if self._has_place(arm) else least
        means, generator = race.arms.estimate[arms], self.generator()
        sides = top_two(means, variances, int(race.control.places[0]), generator)
        arm = int(arms[generator.choice(sides[generator.integers(2)])])
        return arm if self._has_place(arm) else least

    def _has_place(self, arm: int) -> bool:
        """Return whether an arm can have one more pull in flight."""
        return self.per_arm is None or bool(self._race.arms.in_flight[arm] < self.per_arm)

    def _level(self) -> float:
        """Return log(tests / delta), plus the price of prefixes if it applies."""
        arms, top = len(self.problem.arms), self.problem.top
        if self.test == "box":
            return math.log(arms / self.delta)
        level = math.log(max(1, top * (arms - top)) / self.delta)
        return price_of_prefixes(level) if self.problem.delay_depends_on_outcome else level

    @property
    def _estimates_noise(self) -> bool:
        return self.problem.estimates_noise

    @property
    def _uses_readings(self) -> bool:
        return self.use_partial and self.problem.readings_used

    @property
    def _learns_bias_late(self) -> bool:
        return self._uses_readings and self.problem.feedback == "biased"

    @property
    def _setup_time(self) -> float:
        return self.setup_time

    def _interval_ends(self) -> tuple[Floats, Floats]:
        arms, level = self._race.arms, math.log(len(self.problem.arms) / self.delta)
        if self._estimates_noise:
            rows = zip(arms.variance.tolist(), arms.penalty.tolist(), strict=True)
            radius = np.array([student_radius(*row, level, self.prior) for row in rows])
        else:
            variance = np.where(np.isfinite(arms.variance), arms.variance, math.inf)
            radius = np.sqrt(2.0 * variance * (level + arms.penalty))
        return arms.estimate - radius, arms.estimate + radius

    def _evidence(self) -> tuple[float | None, float | None]:
        """Return the evidence of the weakest pair at the border, in nats, and its threshold."""
        race, arms = self._race, self._race.arms
        threshold = float(race.rules.level[0])
        if self.test != "pairwise" or len(self.problem.arms) == self.problem.top:
            return None, None
        best = [self.problem.arms.index(arm) for arm in self._answer]
        leads = np.isin(np.arange(len(self.problem.arms)), best)
        # After the decision, compare the answer with the other arms; a pair that was distinguished
        # stays so, whatever came later.
        counts = self._finished | (arms.status == SURVIVES)
        inside, outside = np.flatnonzero(leads & counts), np.flatnonzero(~leads & counts)
        if not inside.size or not outside.size:
            return None, threshold
        least = threshold if self._finished else 0.0
        gap = arms.estimate[inside, None] - arms.estimate[outside] + race.rules.tolerance[0]
        gap = np.maximum(gap, 0.0)
        if self._estimates_noise:
            return max(least, self._student_evidence(inside, outside, gap)), threshold
        spread = 2.0 * (arms.variance[inside, None] + arms.variance[outside])
        evidence = gap * gap / spread - arms.penalty[inside, None] - arms.penalty[outside]
        return max(least, float(evidence.min())), threshold

    def _student_evidence(
        self, inside: NDArray[np.int64], outside: NDArray[np.int64], gap: Floats
    ) -> float:
        """Return the smallest evidence of a pair, 0 if some pair has none."""
        arms = self._race.arms
        rows = list(zip(arms.variance.tolist(), arms.penalty.tolist(), strict=True))
        found: list[float] = [
            student_evidence(float(gap[i, j]), *rows[one], *rows[other], self.prior)
            for i, one in enumerate(inside)
            for j, other in enumerate(outside)
        ]
        return max(0.0, min(found))

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee and its basis; proven if the proof covers all data that count."""
        problem = self.problem
        assumptions = [noise_assumption(self._race)]
        proven = not self._estimates_noise
        if self._uses_readings:
            assumptions.append(self._errors_assumption())
            proven = not (problem.feedback == "refining" and problem.errors == "unknown")
        if self.sampling != "top_two":
            assumptions.append(PREDICTABLE)
        name = "information race, " + ("by pairs" if self.test == "pairwise" else "by boxes")
        return self._promise(name, proven, assumptions, calibrated=self._estimates_noise)

    def _errors_assumption(self) -> str:
        problem = self.problem
        if problem.feedback == "incremental":
            return "the pieces of a pull are independent, with equal shares of mean and variance"
        if problem.feedback == "unbiased":
            return "errors of readings are independent of the outcome and each other, with mean 0"
        if problem.feedback == "biased":
            return "errors of readings are independent, with one constant mean for every arm"
        if problem.errors == "nested":
            return "the error of an earlier reading is that of a later one and independent noise"
        if problem.errors == "first":
            return (
                "the error of a reading is independent of the outcome, its deviation known before"
            )
        return "nothing but the newest reading is informative about its outcome (not proven)"


def price_of_prefixes(level: float) -> float:
    """Return x with ``x - ln(1 + x) = level``.

    The length of an arm's complete prefix is not a stopping time. So each of the two e-values of a
    pair has to be bounded by its supremum: P(product >= e^x) <= (1 + x) e^-x.

    Examples
    --------
    >>> round(price_of_prefixes(4.0), 2)
    5.94
    """
    # Newton's method from the right of the root, where the function is convex and increasing.
    x = level + math.log1p(level) + math.sqrt(2.0 * level)
    for _ in range(20):
        x -= (x - math.log1p(x) - level) * (1.0 + x) / x
    return x
