"""A whole study in one picture."""

from __future__ import annotations

import textwrap

from matplotlib.figure import Figure, SubFigure
from numpy.typing import ArrayLike

from fairtrial.core.keywords import named_arguments
from fairtrial.core.recommendation import Progress
from fairtrial.plots import _style as style
from fairtrial.plots._allocation import allocation
from fairtrial.plots._evidence import evidence
from fairtrial.plots._fonts import legible
from fairtrial.plots._means import draw_means
from fairtrial.plots._shares_against_quotas import shares_against_quotas, shares_height
from fairtrial.presentation.alternatives import candidates_sentence, summary
from fairtrial.presentation.limits import kind_of_intervals
from fairtrial.presentation.panels import shown_panels
from fairtrial.presentation.shares import shares_of
from fairtrial.presentation.sources import StudyLike, check_offers, is_endless, minimizes
from fairtrial.presentation.words import (
    because,
    ended,
    headline,
    results_sentence,
    shorten,
    support,
)

__all__ = ["overview"]

_WIDTH = 10.5
_NAMED_ALTERNATIVES = 6


@legible
@named_arguments
def overview(study: StudyLike, optimal: ArrayLike | None = None) -> Figure:
    """Draw a study in one picture: decision, evidence, means with floors, allocation.

    If the policy guarantees shares, they replace the evidence, because such a policy never stops.
    At most 24 arms and 14 groups are drawn, as in `means`.

    Parameters
    ----------
    study : Study
        The experiment.
    optimal : array_like, optional
        Optimal shares by action, as in `allocation`.

    Raises
    ------
    InvalidArgument
        If `study` has another type, or `optimal` is not a distribution over the actions.

    Examples
    --------
    >>> import os
    >>> import fairtrial as ft
    >>> problem = ft.subpopulations.Problem(["a", "b"], ["x", "y"], reward_range=(0, 1))
    >>> policy = ft.subpopulations.BlockBetting(problem, delta=0.05)
    >>> with ft.Study.create(problem, policy, storage="memory://", name="trial", seed=7) as study:
    ...     told = study.tell(study.ask(), 0.4)
    ...     figure = overview(study)
    >>> figure.savefig(os.devnull, format="png")
    """
    check_offers("study", study, "must be a Study", "name", "progress")
    progress = study.progress()
    shares = shares_of(progress)
    heights = _heights(progress, minimizes(study))
    figure = style.new_figure(_WIDTH, sum(heights))
    parts = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    left, right = parts[0].subfigures(1, 2, width_ratios=(0.42, 0.58))
    _write_decision(left, study, progress)
    if shares:
        shares_against_quotas(progress, ax=right.subplots())
    else:
        evidence(study, ax=right.subplots())
    if progress.actions:
        kind = kind_of_intervals(progress, progress.actions)
        _name(parts[1], f"Means with {kind} intervals" if kind else "Means")
        draw_means(progress, minimizes(study), parts[1])
    if progress.actions and not shares:
        _name(parts[2], "Allocation of pulls")
        allocation(study, optimal, figure=parts[2])
    return figure


def _heights(progress: Progress, minimize: bool) -> list[float]:
    shares = shares_of(progress)
    first = max(2.9, shares_height(len(shares)) + 0.4) if shares else 2.9
    if not progress.actions:
        return [first]
    shown = shown_panels(progress, minimize)
    note = 0.45 if shown.note else 0.0
    parts = (shown.all,) if shares else (shown.all, shown.groups)
    sizes = [style.small_multiples_size(len(panels), len(shown.arms))[1] for panels in parts]
    return [first, *(size + 0.45 + note for size in sizes)]


def _name(part: SubFigure, text: str) -> None:
    part.suptitle(text, x=0.01, ha="left", fontsize=style.LARGE, color=style.INK)


def _write_decision(part: SubFigure, study: StudyLike, progress: Progress) -> None:
    ax = part.subplots()
    ax.set_axis_off()
    place = {"transform": ax.transAxes, "va": "top", "gid": "decision"}
    recommendation = progress.recommendation
    style.write(ax, 0, 0.98, shorten(study.name, 46), **place, color=style.MUTED)
    endless = is_endless(study)
    head = textwrap.fill(shorten(headline(recommendation, endless), 56), 30)
    style.write(ax, 0, 0.88, head, **place, fontsize=15, fontweight="bold")
    # For a decision, `support` states the promise.
    guarantee = recommendation.guarantee if endless else None
    lines = [
        support(progress, endless),
        because(recommendation),
        candidates_sentence(progress),
        f"Guarantee: {ended(guarantee.statement)}" if guarantee else "",
        summary(progress, _NAMED_ALTERNATIVES),
        results_sentence(progress),
    ]
    below = 0.88 - 0.13 * (1 + head.count("\n"))
    body = "\n".join(textwrap.fill(line, 56) for line in lines if line)
    style.write(ax, 0, below, body, **place, fontsize=style.NORMAL, linespacing=1.4)
