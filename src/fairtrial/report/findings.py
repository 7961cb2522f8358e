"""What all sections of a report share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, Self, TypeVar

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
from fairtrial.presentation.ranges import Range
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
from fairtrial.presentation.words import count, decimals, shorten
from fairtrial.report.html import LABEL_LENGTH, Markup

__all__ = ["Findings", "Zoom", "places_of"]


class _OverTime(Protocol):
    def within(self, begin: int, end: int) -> Self: ...


_Chart = TypeVar("_Chart", bound=_OverTime)


@dataclass(frozen=True, slots=True)
class Zoom:
    """The range of results in charts over time, on pages where readers can choose it.

    Parameters
    ----------
    shown : Range
        The range of results.
    controls : callable
        Returns the controls of a chart, given the chart's name.
    """

    shown: Range
    controls: Callable[[str], Markup]


@dataclass(frozen=True)
class Findings:
    """What all sections share, read from the study once."""

    study: StudyLike
    progress: Progress
    trace: list[Progress]
    minimize: bool
    optimal: Floats | None
    verification: VerificationLike
    arrivals: Arrivals
    zoom: Zoom | None = None

    @classmethod
    def of(
        cls,
        study: StudyLike,
        optimal: ArrayLike | None,
        verification: VerificationLike | None = None,
        arrivals: Arrivals | None = None,
        zoom: Zoom | None = None,
    ) -> Findings:
        """Read a study; audit it and go through its log unless the caller has done so."""
        return cls(
            study,
            study.progress(),
            trace_of(study),
            minimizes(study),
            optimal_shares(optimal, study.problem.n_actions),
            study.verify() if verification is None else verification,
            Arrivals.of(study.events()) if arrivals is None else arrivals,
            zoom,
        )

    def zoomed(self, chart: _Chart) -> _Chart:
        """Return the part of a chart over time that is zoomed to."""
        if self.zoom is None or self.zoom.shown.is_whole:
            return chart
        return chart.within(self.zoom.shown.begin, self.zoom.shown.end)

    def of_results(self, caption: str) -> str:
        """Return a caption that says which results are shown, unless all are."""
        if self.zoom is None or self.zoom.shown.is_whole:
            return caption
        shown = self.zoom.shown
        part = f"{count(shown.begin)} to {count(shown.end)} of {count(shown.total)}"
        return f"{caption} Showing results {part}."

    def controls(self, name: str) -> Markup | None:
        """Return the controls with which readers choose the results in a chart."""
        return None if self.zoom is None else self.zoom.controls(name)

    @cached_property
    def cut(self) -> Cut:
        """The arms that the page shows."""
        return cut_of(self.progress, self.minimize)

    @cached_property
    def shown(self) -> Progress:
        """The progress, reduced to the estimates of the shown arms."""
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
        """The name for a limit in this study."""
        return name_of_limit(self.limited)

    @property
    def limited(self) -> list[Estimate]:
        """The estimates that have limits: of actions, or of answers that cannot be pulled."""
        progress = self.progress
        own = [action for action in progress.actions if limits_of(action)]
        if own or progress.quantity != "mean":
            return own
        return [arm for arm in progress.arms if limits_of(arm)]

    @property
    def limits_answers(self) -> bool:
        """Whether the limits apply to answers that cannot be pulled."""
        return bool(self.limited) and not any(map(limits_of, self.progress.actions))

    @cached_property
    def cut_of_limited(self) -> Cut:
        """The arms whose limits are shown."""
        return cut_of_arms(self.progress, self.minimize) if self.limits_answers else self.cut

    def name(self, estimate: Estimate) -> str:
        """Return the name of what is estimated, for a sentence."""
        return " / ".join(shorten(value, LABEL_LENGTH) for value in estimate.labels.values())

    def distance_of(self, estimate: Estimate) -> float | None:
        """Return the distance of the mean from its limit; negative if the limit is missed."""
        return distance_to_limit(finite(estimate.mean), estimate)

    def sure_distance_of(self, estimate: Estimate) -> float | None:
        """Return the distance of the whole interval from the limit."""
        return sure_distance(estimate)


def places_of(estimates: Iterable[Estimate]) -> int:
    """Return the number of decimals for a table of estimates."""
    return decimals(value for one in estimates for value in (one.mean, one.lower, one.upper))
