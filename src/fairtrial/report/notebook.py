"""What a notebook shows of a problem, policy, recommendation, study or simulation."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, singledispatch
from importlib.resources import files
from typing import cast

from fairtrial.core.policy import Policy
from fairtrial.core.problem import Problem
from fairtrial.core.recommendation import Estimate, Progress, Recommendation
from fairtrial.presentation.counted import intervals_note, name_of_mean
from fairtrial.presentation.limits import has_interval
from fairtrial.presentation.predictions import about_predictions
from fairtrial.presentation.sources import StudyLike, is_endless
from fairtrial.presentation.words import because, count, decisions_in_words, number
from fairtrial.report.decision import verdict, verdict_of
from fairtrial.report.html import Markup, bdi, element, folded, table
from fairtrial.report.statements import guarantee_in_words, question_table
from fairtrial.simulation import Simulation
from fairtrial.simulation.summary import Summary
from fairtrial.study.base import BaseStudy

__all__ = ["html_of"]

_MOST_ARMS = 50
"""A notebook shows the estimates of the first arms; `progress` and the report have all."""

_CLASS = "fairtrial-output"

_OWN = """& { margin: 0; padding: .5rem; }
& table { color: inherit; }
"""

_THEMES = f"""body[data-jp-theme-light="true"] .{_CLASS} {{ color-scheme: light; }}
body[data-jp-theme-light="false"] .{_CLASS} {{ color-scheme: dark; }}
"""
"""JupyterLab has a theme of its own, which need not be that of the browser."""


def html_of(shown: object) -> str:
    """Return an object as HTML that a notebook can show: without scripts, in light and dark.

    Examples
    --------
    >>> from fairtrial.subpopulations import Problem
    >>> problem = Problem(["old", "new"], ["all"], reward_range=(0, 1))
    >>> html_of(problem).startswith('<div class="fairtrial-output">')
    True
    """
    style = element("style", Markup(_style()))
    return element("div", style, *_parts_of(shown), class_=_CLASS)


@cache
def _style() -> str:
    """Return the report's style for the output of one cell.

    Without support for nested rules in the browser, the output has no style but all its content.
    """
    style = files("fairtrial.report").joinpath("report.css").read_text(encoding="utf-8")
    # The themes of a page are those of the notebook here.
    rules = [line for line in style.splitlines() if ":root[" not in line]
    nested = "\n".join(rules).replace(":root {", "& {").replace("body {", "& {")
    return f".{_CLASS} {{\n{nested}\n{_OWN}}}\n{_THEMES}"


@singledispatch
def _parts_of(shown: object) -> Iterable[Markup]:
    raise TypeError(f"notebooks have no view of {type(shown).__name__}")


@_parts_of.register
def _(problem: Problem) -> Iterable[Markup]:
    return _headed(problem, question_table(problem))


@_parts_of.register
def _(policy: Policy) -> Iterable[Markup]:
    return [*_headed(policy), *_found(policy.progress(), endless=is_endless(policy))]


@_parts_of.register
def _(shown: BaseStudy) -> Iterable[Markup]:
    # Local studies and those of a service are both like this.
    study = cast("StudyLike", shown)
    return [
        element("p", "Study ", element("strong", bdi(study.name))),
        *_found(study.progress(), endless=is_endless(study)),
        *_folded_question(study.problem),
    ]


@_parts_of.register
def _(recommendation: Recommendation) -> Iterable[Markup]:
    said = [because(recommendation), decisions_in_words(recommendation)]
    return [verdict(recommendation, said), *guarantee_in_words(recommendation.guarantee)]


@_parts_of.register
def _(simulation: Simulation) -> Iterable[Markup]:
    return _parts_of(simulation.summary())


@_parts_of.register
def _(summary: Summary) -> Iterable[Markup]:
    lines = [(name, bdi(text)) for name, text in summary.lines()]
    about = [element("p", summary.about)] if summary.about else []
    return [*about, table(summary.title, ("What", "Value"), lines)]


def _headed(shown: object, *parts: Markup | None) -> list[Markup]:
    name = f"{type(shown).__module__.split('.')[1]}.{type(shown).__name__}"
    return [element("p", element("strong", name)), *(part for part in parts if part is not None)]


def _folded_question(problem: Problem) -> list[Markup]:
    found = question_table(problem)
    return [] if found is None else [element("details", element("summary", "The question"), found)]


def _found(progress: Progress, *, endless: bool) -> list[Markup]:
    """Return the answer, its guarantee, and what is known about the arms."""
    guarantee = guarantee_in_words(progress.recommendation.guarantee)
    estimates = progress.arms or progress.actions
    return [
        verdict_of(progress, endless=endless),
        *([_table_of(progress, estimates)] if estimates else []),
        *([element("p", note)] if (note := intervals_note(progress)) else []),
        *([element("p", said)] if (said := about_predictions(progress)) else []),
        element("details", element("summary", "Guarantee"), *guarantee),
    ]


def _table_of(progress: Progress, estimates: tuple[Estimate, ...]) -> Markup:
    labels = list(estimates[0].labels)
    quantity = name_of_mean(estimates) if progress.quantity == "mean" else progress.quantity
    has_intervals = any(map(has_interval, estimates))
    # Guaranteed shares are shares of the pulls; everything else is estimated from results.
    counted = "pulls" if progress.quantity == "share" else "results"
    heads = [*labels, counted, quantity, *(["from", "to"] if has_intervals else [])]
    shown = estimates[:_MOST_ARMS]
    rows = [
        (
            *(bdi(one.labels[name]) for name in labels),
            count(one.pulls),
            number(one.mean),
            *([number(one.lower), number(one.upper)] if has_intervals else []),
        )
        for one in shown
    ]
    more = len(estimates) - len(shown)
    caption = f"Arms; {more:,} more are not shown" if more else "Arms"
    return folded("Arms", table(caption, heads, rows, words=range(len(labels))), len(rows))
