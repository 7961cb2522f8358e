"""The policy that races on confidence boxes, as published and as proven."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.bounds import Bound, FiniteLIL, NormalMixture
from fairtrial.core.documentation import documented_by
from fairtrial.core.recommendation import PREDICTABLE, Guarantee
from fairtrial.core.validation import check_choice, check_flag
from fairtrial.delayed._kernels.state import RACE_FULL, RACE_PARTIAL, RACE_PROVEN, UNIFORM
from fairtrial.delayed.policies.race import Race
from fairtrial.delayed.policies.race_assumptions import noise_assumption
from fairtrial.delayed.problem import Problem
from fairtrial.errors import InvalidArgument

__all__ = ["Racing"]

Floats = NDArray[np.float64]

_READING_SHARE = 0.1
_RULES = {"full": RACE_FULL, "partial": RACE_PARTIAL, "proven": RACE_PROVEN}
_ONE_PULL = ("unbiased", "biased")


@documented_by(Race)
class Racing(Race):
    """Race on a confidence box for every arm; sub-Gaussian noise is enough.

    All survivors are pulled equally often. An arm is accepted when its box lies above the boxes of
    all but k - 1 other arms, and rejected when k boxes lie above its own.

    Parameters
    ----------
    problem : Problem
        The problem; with ``refining`` readings, only the variant "full" is allowed, which ignores
        readings.
    variant : {"proven", "partial", "full"}
        ``full``: only completed pulls count. ``partial``: the published estimator, which splits
        delta again at every step; it is not proven. ``proven``: a split that is fixed in advance,
        with readings charged pull by pull.
    bound : Bound, optional
        Radius of a mean; by default a normal mixture for ``proven``, otherwise the paper's finite
        law of the iterated logarithm.
    parallel, per_arm : int, optional
        Maximum numbers of pulls in flight, in total and per arm; by default no limits.
    running_intersection : bool
        Whether an arm's box can only shrink.
    seed : None, int or numpy.random.Generator
        Ignored; the policy is deterministic.

    Raises
    ------
    InvalidArgument
        If an argument is not acceptable, or the variant does not cover the problem.

    Notes
    -----
    Source: Grover et al. (2018), Algorithms 1 to 3 and Propositions 1 and 2, with what their
    proofs lack: docs/explanation/delayed.md.

    Examples
    --------
    >>> policy = Racing(Problem(["a", "b", "c"], top=2, noise_std=1.0), variant="full")
    >>> while not policy.stopped:
    ...     pull = policy.ask()
    ...     policy.tell(pull, {"a": 0.0, "b": 5.0, "c": 6.0}[pull.arm])
    >>> policy.recommend().arm
    ('c', 'b')
    """

    def __init__(
        self,
        problem: Problem,
        delta: float = 0.05,
        variant: str = "proven",
        bound: Bound | None = None,
        parallel: int | None = None,
        per_arm: int | None = None,
        running_intersection: bool = False,
        max_pulls: int | None = None,
        max_readings: int | None = None,
        max_time: float | None = None,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(
            problem, delta, parallel, per_arm, None, max_pulls, max_readings, max_time, seed
        )
        self.variant = check_choice("variant", variant, ["proven", "partial", "full"])
        if bound is not None and not isinstance(bound, Bound):
            raise InvalidArgument("bound", "must be a Bound, or None for the default", bound)
        self.bound = bound
        self.running_intersection = check_flag("running_intersection", running_intersection)
        self._refuse_what_is_not_covered()
        self._used_bound: Bound = bound or (NormalMixture() if variant == "proven" else FiniteLIL())
        constants: dict[str, float] = {
            "rule": _RULES[variant],
            "sampling": UNIFORM,
            "intersect": running_intersection,
        }
        self._race = self._open(constants, self._shares(), self._used_bound)

    def _refuse_what_is_not_covered(self) -> None:
        if self.problem.estimates_noise:
            raise InvalidArgument(
                "problem", "must give noise_std or reward_range for Racing", self.problem
            )
        if self.variant == "full":
            return
        if self.problem.feedback == "refining":
            accepted = "must be 'full' for feedback='refining'; or take InformationRacing"
            raise InvalidArgument("variant", accepted, self.variant)
        if self.problem.delay_depends_on_outcome:
            raise InvalidArgument(
                "variant", "must be 'full' when delays may depend on outcomes", self.variant
            )
        if self.problem.feedback == "incremental" and self.problem.duration is None:
            raise InvalidArgument(
                "problem", "must give duration for Racing on incremental readings", self.problem
            )

    def _shares(self) -> tuple[float, float]:
        """Return the shares of delta that go to readings and to their bias."""
        if self.variant == "proven" and self.problem.feedback == "unbiased":
            return _READING_SHARE, 0.0
        if self.variant == "proven" and self.problem.feedback == "biased":
            return _READING_SHARE / 2.0, _READING_SHARE / 2.0
        return 0.0, 0.0

    def _check_duration(self, duration: float | None) -> float | None:
        if duration is not None and self._uses_readings:
            raise InvalidArgument(
                "duration", "must be left out: Racing takes the problem's", duration
            )
        return super()._check_duration(duration)

    def _check_std(self, std: float | None) -> float | None:
        if std is not None and self._uses_readings:
            raise InvalidArgument("std", "must be left out: Racing takes the reading_std", std)
        return super()._check_std(std)

    @property
    def _uses_readings(self) -> bool:
        return self.variant != "full" and self.problem.readings_used

    @property
    def _keeps_stopped(self) -> bool:
        # The proof follows one pull of an arm at a time; stopping would select among the others.
        return super()._keeps_stopped and not (self.variant == "proven" and self._splits)

    def _interval_ends(self) -> tuple[Floats, Floats]:
        return self._race.arms.lower.copy(), self._race.arms.upper.copy()

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee and its basis; the published estimator has no proof."""
        assumptions = [noise_assumption(self._race)]
        proven = self._used_bound.proven and not (self.variant == "partial" and self._splits)
        if self._uses_readings:
            assumptions.append("errors of readings are independent of the outcome and each other")
            if self.problem.feedback == "biased":
                assumptions.append(
                    "which pulls are complete is independent of the errors of their readings"
                )
        assumptions.append(PREDICTABLE)
        name = f"race, {self.variant}, {self._used_bound.name}"
        return self._promise(name, proven, assumptions)

    @property
    def _splits(self) -> bool:
        return self.problem.feedback in _ONE_PULL
