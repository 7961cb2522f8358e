"""Write what a planned study would do as one page, in the order in which protocols are read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

from fairtrial.core.keywords import named_arguments
from fairtrial.core.recommendation import Progress
from fairtrial.core.validation import check_instance
from fairtrial.presentation.charts import evidence_chart
from fairtrial.presentation.words import (
    count,
    headline,
    label_of,
    number,
    percent,
    plural,
    results_sentence,
    shorten,
)
from fairtrial.report import charts
from fairtrial.report import protocol as parts
from fairtrial.report.characteristics import Curve, characteristics
from fairtrial.report.document import document, write_document
from fairtrial.report.html import (
    Markup,
    bdi,
    bullets,
    element,
    section,
    table,
)
from fairtrial.report.scenarios import scenarios
from fairtrial.report.statements import guarantee_in_words, question
from fairtrial.simulation import ExampleRun, OperatingCharacteristics
from fairtrial.version import __version__

__all__ = ["write_characteristics"]

_MOST_ARMS = 12


@named_arguments
def write_characteristics(
    found: OperatingCharacteristics,
    path: str | Path,
    title: str = "Operating characteristics",
    curve: Curve = (),
    examples: Sequence[ExampleRun] = (),
    configuration: str | None = None,
    command: str | None = None,
    protocol: Mapping[str, str] | None = None,
    starts: date | None = None,
) -> Path:
    """Write operating characteristics as one self-contained HTML file that can be printed.

    The order follows the FDA's guidance on adaptive designs, which lists what to submit: the
    design in words, decision rules, example runs, scenarios and why they were chosen, the number
    of replications and the resulting error, the characteristics, and what is needed to repeat
    them.

    Parameters
    ----------
    found : OperatingCharacteristics
        The result of `fairtrial.simulation.operating_characteristics`.
    path : str or Path
        Where to write; an existing file is replaced.
    title : str
        The page's title.
    curve : sequence of (float, Characteristics)
        Rows for different sizes of an effect, for two figures.
    examples : sequence of ExampleRun
        Single runs to show: see `fairtrial.simulation.example_runs`.
    configuration : str, optional
        The text of the file that describes the study, so that anyone can repeat the simulation.
    command : str, optional
        The command that repeats it.
    protocol : mapping of str to str, optional
        What the study estimates, by topic, in the words of its protocol.
    starts : datetime.date, optional
        The day of the first pull, for dates in place of days.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InvalidArgument
        If `found` is of another type, or the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from fairtrial.simulation import default_scenarios, operating_characteristics
    >>> from fairtrial.subpopulations import BlockBetting, GaussianEnvironment, Problem
    >>> problem = Problem(["old", "new"], 1, floors=None, noise_std=1.0)
    >>> assumed = default_scenarios(GaussianEnvironment(problem, [[0.0], [1.0]]))
    >>> found = operating_characteristics(BlockBetting(problem), assumed, 200, replications=10)
    >>> page = write_characteristics(found, Path(tempfile.mkdtemp()) / "plan.html")
    >>> page.read_text(encoding="utf-8").startswith("<!doctype html>")
    True
    """
    check_instance("found", found, OperatingCharacteristics)
    sections = [
        element("p", element("strong", bdi(found.about))) if found.about else None,
        question(found.policy.problem),
        parts.estimand(protocol or {}),
        _design(found),
        _rules(found),
        parts.looks(found, starts),
        _examples(examples),
        scenarios(found),
        _replications(found, curve),
        parts.claims(found),
        characteristics(found, curve),
        parts.exposure(found),
        parts.calendar(found, starts),
        parts.comparators(found),
        parts.limitations(found),
        _configuration(found, configuration, command),
    ]
    shown = re.findall('<h2 id="([^"]*)"', "".join(filter(None, sections)))
    page = document(title, *sections, parts.items(shown))
    return write_document(path, page)


def _design(found: OperatingCharacteristics) -> Markup:
    budgets = sorted({row.max_pulls for row in found})
    problem = found.policy.problem
    is_planned = found.policy.planned_end
    rows = [
        ("Rule", bdi(type(found.policy).__name__)),
        (
            "Actions",
            f"{plural(problem.n_actions, 'combination')} of arm and group"
            if "group" in problem.labels(0)
            else plural(problem.n_actions, "arm"),
        ),
        ("Planned end" if is_planned else "Most pulls", _end(budgets, is_planned)),
        *_counting_of_losses(found),
        ("In flight", f"{plural(found.parallel, 'pull')} at a time"),
    ]
    if found.pulls_per_day is not None:
        rows.append(("Pulls per day", number(found.pulls_per_day)))
    if found.delay_days is not None:
        rows.append(("Days from a pull to its result", number(found.delay_days)))
    points = [
        "The study is sequential: after every result it can choose what to pull next, and stop.",
        "What is pulled next depends on the results so far.",
        "A study that has not decided after its most pulls ends undecided, and promises nothing.",
    ]
    if is_planned:
        points.append(
            "The end is planned: bets are aimed at it, so the number of pulls until it cannot be "
            "raised while the study runs."
        )
    return section("Design", bullets(points), table("The study", ("What", "Value"), rows))


def _end(budgets: Sequence[int], is_planned: bool) -> str:
    most = " or ".join(map(count, budgets))
    return f"after {most} pulls" if is_planned else most


def _counting_of_losses(found: OperatingCharacteristics) -> list[tuple[str, str]]:
    """Return the row on what lost pulls count as; none if the policy does not say it."""
    losses = found.policy.progress().losses
    if losses is None:
        return []
    most = found.policy.get_params().get("max_replacements")
    known = {
        "the worst value": "counts as the worst value",
        "made again": "is made again",
        "not drawn": "is left out",
    }[losses.counted_as]
    if most is not None:
        known += f"; after {count(most)} such pulls, it counts as the worst value"
    return [("A pull without a result", known)]


def _rules(found: OperatingCharacteristics) -> Markup:
    delta = found.policy.delta
    said = "It stops and names an answer once the evidence against every other answer suffices."
    if delta is not None:
        said += f" The accepted probability of a wrong answer is {delta:g}."
    guarantee = found.policy.recommend().guarantee
    return section("Decision rules", element("p", said), *guarantee_in_words(guarantee))


# --------------------------------------------------------------------------- examples


def _examples(examples: Sequence[ExampleRun]) -> Markup | None:
    if not examples:
        return None
    said = "Single runs in which the means are as assumed, as the study's own page would show them."
    return section("Example runs", element("p", said), *map(_example, examples))


def _example(run: ExampleRun) -> Markup:
    last = run.trace[-1]
    chart = evidence_chart(run.trace)
    decided = last.recommendation.decided
    ending = headline(last.recommendation) if decided else "Cut off, with no decision"
    caption = (
        f"{run.name.capitalize()}: {percent(run.share)} of the runs were as fast or faster "
        f"(run {count(run.replication)}). {ending}. {results_sentence(last)}"
    )
    title = element("h3", f"A {run.name} run: {ending[0].lower()}{ending[1:]}")
    if chart.is_empty:
        return element("div", title, element("p", caption))
    data = _estimates(last)
    return element(
        "div",
        title,
        charts.figure(charts.evidence_chart(chart), charts.evidence_key(chart), caption, data),
    )


def _estimates(last: Progress) -> Markup:
    arms = last.arms[:_MOST_ARMS]
    rows = [
        (label_of(arm.labels.get("arm")), count(arm.pulls), number(arm.mean, 3)) for arm in arms
    ]
    return table("Estimates at its end", ("Arm", "Results", "Mean"), rows, words={0})


# -------------------------------------------------------------------- to run it again


def _replications(found: OperatingCharacteristics, curve: Curve) -> Markup:
    delta = found.policy.delta or 0.05
    rows = [
        ("Runs in each scenario", count(found.replications)),
        ("Standard error of a probability near one half", percent(found.monte_carlo_error(0.5))),
        (
            f"Standard error of a probability near {delta:g}",
            percent(found.monte_carlo_error(delta)),
        ),
    ]
    other = sorted({row.wrong.runs for _, row in curve} - {found.replications})
    if other:
        rows.append(("Runs for other sizes of the effect", " or ".join(map(count, other))))
    said = (
        "Every scenario was simulated with the same code that runs a live study. All intervals "
        "below cover the error that remains with this number of runs."
    )
    return section(
        "Replications", element("p", said), table("Monte Carlo error", ("What", "Value"), rows)
    )


def _configuration(
    found: OperatingCharacteristics, configuration: str | None, command: str | None
) -> Markup:
    policy = found.policy
    arguments = ", ".join(f"{name}={value!r}" for name, value in policy.get_params().items())
    rows = [
        ("fairtrial", __version__),
        ("seed", str(found.seed)),
        ("runs", count(found.replications)),
        ("policy", bdi(shorten(f"{type(policy).__name__}({arguments})", 2000))),
        ("problem, SHA-256", policy.problem.digest),
    ]
    parts = [table("The same numbers follow from these", ("What", "Value"), rows)]
    if command is not None:
        parts += [element("p", "To run it again:"), element("pre", command)]
    if configuration is not None:
        parts += [element("p", "The file:"), element("pre", configuration)]
    return section("Configuration", *parts)
