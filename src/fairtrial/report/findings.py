"""What the sections of a report have in common."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from numpy.typing import ArrayLike

from fairtrial.core.recommendation import Estimate, Progress
from fairtrial.presentation.arrivals import Arrivals
from fairtrial.presentation.cuts import Cut, cut_of, cut_of_arms
from fairtrial.presentation.limits import (
    distance_to_limit,
    finite,
    limits_of,
    name_of_limit,
    sure_distance,
)
from fairtrial.presentation.sources import (
    Floats,
    Grid,
    StudyLike,
    VerificationLike,
    answered,
    is_endless,
    minimizes,
    named,
    optimal_shares,
    trace_of,
)
from fairtrial.presentation.words import decimals, shorten
from fairtrial.report.html import LABEL_LENGTH

__all__ = ["Findings", "places_of"]


@dataclass(frozen=True)
class Findings:
    """What the sections have in common, read from the study once."""

    study: StudyLike
    progress: Progress
    trace: list[Progress]
    minimize: bool
    optimal: Floats | None
    verification: VerificationLike
    arrivals: Arrivals

    @classmethod
    def of(
        cls,
        study: StudyLike,
        optimal: ArrayLike | None,
        verification: VerificationLike | None = None,
        arrivals: Arrivals | None = None,
    ) -> Findings:
        """Read a study; audit it, and go through its log, unless that was done before."""
        return cls(
            study,
            study.progress(),
            trace_of(study),
            minimizes(study),
            optimal_shares(optimal, study.problem.n_actions),
            study.verify() if verification is None else verification,
            Arrivals.of(study.events()) if arrivals is None else arrivals,
        )

    @cached_property
    def cut(self) -> Cut:
        """The arms that the page shows."""
        return cut_of(self.progress, self.minimize)

    @cached_property
    def shown(self) -> Progress:
        """The progress with the estimates of those arms only."""
        return self.cut.apply(self.progress)

    @property
    def endless(self) -> bool:
        """Whether the policy never stops by itself."""
        return is_endless(self.study)

    @property
    def best(self) -> frozenset[str]:
        """The arms that are the answer, or lead."""
        return answered(self.progress.recommendation)

    @property
    def named(self) -> frozenset[str]:
        """The arms that a decision has named."""
        return named(self.progress.recommendation)

    @property
    def grid(self) -> Grid:
        """The shown actions by arm and group."""
        return Grid.of([action.labels for action in self.shown.actions])

    @property
    def limit(self) -> str:
        """What a limit is called here."""
        return name_of_limit(self.limited)

    @property
    def limited(self) -> list[Estimate]:
        """The actions that are held against a limit; answers, where those cannot be pulled."""
        progress = self.progress
        own = [action for action in progress.actions if limits_of(action)]
        if own or progress.quantity != "mean":
            return own
        return [arm for arm in progress.arms if limits_of(arm)]

    @property
    def limits_answers(self) -> bool:
        """Whether limits are on answers that cannot be pulled."""
        return bool(self.limited) and not any(map(limits_of, self.progress.actions))

    @cached_property
    def cut_of_limited(self) -> Cut:
        """The arms of which limits are shown."""
        return cut_of_arms(self.progress, self.minimize) if self.limits_answers else self.cut

    def name(self, estimate: Estimate) -> str:
        """Return what an estimate is of, for a sentence."""
        return " / ".join(shorten(value, LABEL_LENGTH) for value in estimate.labels.values())

    def distance_of(self, estimate: Estimate) -> float | None:
        """Return how far the mean is on the right side of its limit."""
        return distance_to_limit(finite(estimate.mean), estimate)

    def sure_distance_of(self, estimate: Estimate) -> float | None:
        """Return how far the whole interval is there."""
        return sure_distance(estimate)


def places_of(estimates: Iterable[Estimate]) -> int:
    """Return the decimals for a table of estimates."""
    return decimals(value for one in estimates for value in (one.mean, one.lower, one.upper))
