"""Show a study: while it runs, and its answer with the guarantee behind it."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fairtrial.cli.output import say, shown_number
from fairtrial.core import Estimate, Progress, Recommendation
from fairtrial.core.counting import erases
from fairtrial.core.printing import printable
from fairtrial.core.wording import plural
from fairtrial.presentation.alternatives import candidates_sentence, evidence_so_far, summary, tally
from fairtrial.presentation.closed import marked_labels
from fairtrial.presentation.counted import (
    MEAN_OF_ALL,
    gives_mean_of_all,
    name_of_mean,
    some_do_not_count,
)
from fairtrial.presentation.cuts import cut_by
from fairtrial.presentation.limits import Standings
from fairtrial.presentation.sources import arm_of
from fairtrial.presentation.words import (
    TITLES_OF_CLAIMS,
    basis_of,
    chance_in_words,
    decisions_in_words,
    forecast_of,
    lost_in_words,
    never_counted_in_words,
    out_of_sight,
    results_in_words,
)

if TYPE_CHECKING:
    from fairtrial.simulation import Comparator, OperatingCharacteristics, Proportion

__all__ = [
    "Reporter",
    "answer_text",
    "characteristics_tables",
    "comparators_tables",
    "estimates_table",
    "name_of",
    "print_rows",
    "print_table",
    "reporter",
    "shares_table",
    "wrapped",
]

_LIVE_SECONDS = 0.2
_LINE_SECONDS = 5.0
_BAR_WIDTH = 40
_NAMED_ANSWERS = 6
_WIDTH_OF_FILES = 120
_WORDS = ("Scenario", "Right answer")


class Reporter(Protocol):
    """Shows the progress of a study from time to time."""

    def due(self) -> bool:
        """Return whether it is time to show something."""
        ...

    def show(self, progress: Progress) -> None:
        """Show the progress."""
        ...


@contextmanager
def reporter(title: str) -> Iterator[Reporter]:
    """Yield a live display if standard error is a terminal, otherwise occasional lines on it."""
    console = _Console(stderr=True)
    if not erases(console):
        yield _LineReporter(title)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield _LiveReporter(title, live)


class _Console(Console):
    """A console on which text in a cell cannot move the cursor."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)


class _Clock:
    """Tells when something is due again."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = time.monotonic() + seconds

    def due(self) -> bool:
        return time.monotonic() >= self._next

    def restart(self) -> None:
        self._next = time.monotonic() + self._seconds


class _LiveReporter(_Clock):
    def __init__(self, title: str, live: Live) -> None:
        super().__init__(_LIVE_SECONDS)
        self._title = title
        self._live = live

    def show(self, progress: Progress) -> None:
        self._live.update(_panel(self._title, progress), refresh=True)
        self.restart()


class _LineReporter(_Clock):
    def __init__(self, title: str) -> None:
        super().__init__(_LINE_SECONDS)
        self._title = title

    def show(self, progress: Progress) -> None:
        say(f"{self._title}: {_in_a_line(progress)}", err=True)
        self.restart()


def _in_a_line(progress: Progress) -> str:
    known = [results_in_words(progress), f"leader {_leader(progress)}", _so_far(progress)]
    return ", ".join(filter(None, known))


def _so_far(progress: Progress) -> str:
    parts = []
    if found := evidence_so_far(progress):
        parts.append(f"evidence {found}")
    if out := tally(progress):
        parts.append(f"ruled out {out}")
    if left := _left(progress):
        parts.append(left)
    if chance := chance_in_words(progress):
        parts.append(chance)
    return ", ".join(parts)


def _left(progress: Progress) -> str:
    if progress.no_forecast:
        return progress.no_forecast
    if far := out_of_sight(progress):
        return far
    forecast, most = forecast_of(progress), progress.remaining_at_most
    if forecast:
        bound = f", at most {most:,}" if most else ""
        return f"about {plural(_rounded(forecast), 'more result')} needed{bound}"
    return f"at most {plural(most, 'more result')} needed" if most else ""


def _panel(title: str, progress: Progress) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column()
    grid.add_row("leader", Text(printable(_leader(progress)), style="bold"))
    if progress.evidence is not None and progress.threshold is not None:
        grid.add_row("evidence", _bar(progress.evidence, progress.threshold))
        grid.add_row("", f"{evidence_so_far(progress)} that decide")
    if out := tally(progress):
        grid.add_row("ruled out", out)
    grid.add_row("results", ", ".join(filter(None, [results_in_words(progress), _left(progress)])))
    return Group(
        Text(printable(title), style="bold"), grid, Text("Ctrl-C stops safely", style="dim")
    )


def _bar(evidence: float, threshold: float) -> ProgressBar:
    return ProgressBar(total=threshold, completed=max(0.0, evidence), width=_BAR_WIDTH)


def _rounded(number: float) -> float:
    """Return a forecast without meaningless digits."""
    return float(f"{number:.2g}")


def _leader(progress: Progress) -> str:
    leader = progress.recommendation.leader
    if leader is None and progress.evidence is None:
        return "not known yet"
    return name_of(leader)


def name_of(label: object) -> str:
    """Return an answer in words: an arm, several arms, or "no arm"."""
    if isinstance(label, tuple):
        return ", ".join(map(str, label))
    # A label of several lines would look like separate lines of output.
    return "no arm" if label is None else str(label).replace("\n", "\\n")


# ------------------------------------------------------------------------- the answer


def answer_text(progress: Progress, endless: bool = False) -> str:
    """Return the answer, its reason, and the guarantee behind it, as paragraphs.

    A policy that is `endless` never gives an answer; the text then says what it promises.
    """
    recommendation = progress.recommendation
    lines = [_headline(progress, endless)]
    if among := candidates_sentence(progress):
        lines.append(wrapped("Confidence", among))
    if recommendation.reason and (progress.told or recommendation.status != "running"):
        lines.append(wrapped("Why", recommendation.reason))
    if never := never_counted_in_words(progress):
        lines.append(wrapped("Not counted", never))
    if lost := lost_in_words(progress):
        lines.append(wrapped("Lost", lost))
    if when := decisions_in_words(recommendation):
        lines.append(wrapped("When", when))
    if recommendation.decided and (against := summary(progress, _NAMED_ANSWERS)):
        lines.append(wrapped("Evidence", against))
    if recommendation.decided or endless:
        lines.extend(_guarantee(recommendation))
    elif progress.told and progress.evidence is not None and progress.threshold is not None:
        lines.append(wrapped("So far", _so_far(progress)))
    return "\n".join(lines)


def _headline(progress: Progress, endless: bool) -> str:
    recommendation, results = progress.recommendation, results_in_words(progress)
    if recommendation.decided:
        answer = (
            "no arm is acceptable" if recommendation.arm is None else name_of(recommendation.arm)
        )
        return f"Answer: {answer}  ({results})"
    ended = recommendation.status == "undecided"
    if endless and not ended:
        served = f"Serving continues: {results}"
        return f"{served}; the leader is {_leader(progress)}" if progress.told else served
    if not progress.told:
        return f"No answer{'' if ended else ' yet'}: {results}"
    leader = f"the leader is {_leader(progress)}"
    if recommendation.leader is not None or progress.evidence is not None:
        leader += ", without a guarantee"
    if ended:
        return f"No answer: not decided after {results}; {leader}"
    return f"No answer yet: running, {results}; {leader}"


def _guarantee(recommendation: Recommendation) -> list[str]:
    guarantee = recommendation.guarantee
    if guarantee is None:
        return [wrapped("Guarantee", "none is claimed")]
    lines = [wrapped("Guarantee", f"{guarantee.statement} ({basis_of(guarantee)})")]
    if guarantee.assumptions:
        lines.append(wrapped("Provided", "; ".join(guarantee.assumptions)))
    return lines


def wrapped(label: str, text: str) -> str:
    """Return a labelled paragraph.

    Examples
    --------
    >>> print(wrapped("Why", "every other arm is rejected"))
      Why         every other arm is rejected
    """
    return textwrap.fill(
        text, width=96, initial_indent=f"  {label:<12}", subsequent_indent=" " * 14
    )


# --------------------------------------------------------------------------- tables


def estimates_table(title: str, estimates: Sequence[Estimate], progress: Progress) -> Table:
    """Return a table of estimated means with intervals, limits, and status of the limits."""
    standings = Standings.by(progress)
    table = Table(title=title, title_justify="left")
    for name in estimates[0].labels:
        table.add_column(str(name))
    limited = any(_limits(estimate) for estimate in estimates)
    waiting = ["counted"] if some_do_not_count(estimates) else []
    of_all = [MEAN_OF_ALL] if gives_mean_of_all(estimates) else []
    own = ["own mean"] if any(one.own_mean is not None for one in estimates) else []
    mean = name_of_mean(estimates)
    for name in (
        "results",
        *of_all,
        *waiting,
        *own,
        mean,
        "interval",
        *(["limit"] if limited else []),
    ):
        table.add_column(name, justify="right")
    if limited:
        table.add_column("standing")
    for estimate in estimates:
        table.add_row(
            *marked_labels(progress, estimate.labels),
            f"{estimate.pulls:,}",
            *(shown_number(estimate.mean_of_all) for _ in of_all),
            *(f"{_counted(estimate):,}" for _ in waiting),
            *(shown_number(estimate.own_mean) for _ in own),
            shown_number(estimate.mean),
            _interval(estimate),
            *([_limits(estimate) or "-", standings.of(estimate).value] if limited else []),
        )
    return table


def shares_table(title: str, labels: Sequence[Mapping[str, Any]], shares: ArrayLike) -> Table:
    """Return a table of the shares of actions, largest first; of many actions only the largest."""
    rows = list(zip(labels, np.ravel(shares).tolist(), strict=True))
    totals: dict[str, float] = {}
    for row, share in rows:
        totals[arm_of(row)] = totals.get(arm_of(row), 0.0) - share
    cut = cut_by(totals, "those with the largest shares")
    table = Table(
        title=title, title_justify="left", caption=cut.note or None, caption_justify="left"
    )
    for name in labels[0]:
        table.add_column(str(name))
    table.add_column("share", justify="right")
    shown = [(row, share) for row, share in rows if arm_of(row) in cut.arms]
    for row, share in sorted(shown, key=lambda pair: -pair[1]):
        table.add_row(*(str(label) for label in row.values()), f"{100 * share:.1f} %")
    return table


def _counted(estimate: Estimate) -> int:
    return estimate.pulls if estimate.counted is None else estimate.counted


def _interval(estimate: Estimate) -> str:
    if estimate.lower is None and estimate.upper is None:
        return "-"
    return f"{shown_number(estimate.lower)} to {shown_number(estimate.upper)}"


def _limits(estimate: Estimate) -> str:
    ends = [end for end in (estimate.lower_limit, estimate.upper_limit) if end is not None]
    return " to ".join(shown_number(end) for end in ends)


def characteristics_tables(found: OperatingCharacteristics) -> list[Table]:
    """Return tables of the decisions and of the pulls in every scenario."""
    decisions, pulls = Table(title="Decisions"), Table(title="Pulls until the end of a run")
    for table, heads in (
        (decisions, ("Scenario", "Most pulls", "Right answer", "Right", "Wrong", "Undecided")),
        (pulls, ("Scenario", "Most pulls", "Mean", "Median", "5 %", "95 %", "On worse arms")),
    ):
        for head in heads:
            table.add_column(head, justify="left" if head in _WORDS else "right")
    for row in found:
        place = (row.scenario.name, f"{row.max_pulls:,}")
        shares = (_share(one) for one in (row.right, row.wrong, row.undecided))
        decisions.add_row(*place, row.right_answer, *shares)
        spread = (row.pulls.mean, row.pulls.median, *row.pulls.quantiles.values())
        worse = "-" if row.worse_share is None else f"{row.worse_share:.0%}"
        pulls.add_row(*place, *map(shown_number, spread), worse)
    return [decisions, pulls]


def comparators_tables(designs: Sequence[Comparator]) -> Iterator[tuple[Table, str]]:
    """Yield a table of the usual designs for each claim, and which question they answer."""
    for claim in dict.fromkeys(one.claim for one in designs):
        table = Table(title=f"The usual designs: {TITLES_OF_CLAIMS[claim]}")
        table.add_column("Design", no_wrap=True)
        for head in (
            *("Most", "Mean", "Right answer named", "Some arm shown"),
            *("Arm beyond a limit named", "Any false claim"),
        ):
            table.add_column(head, justify="right")
        own = [one for one in designs if one.claim == claim]
        for one in own:
            table.add_row(
                one.name,
                f"{one.most:,}",
                shown_number(one.results),
                *(
                    "-" if share is None else f"{share.rate:.1%}"
                    for share in (one.right, one.shown, one.harmful, one.wrong)
                ),
            )
        yield table, own[0].question


def _share(found: Proportion | None) -> str:
    if found is None:
        return "-"
    return f"{found.rate:.1%} ({100 * found.lower:.1f}-{100 * found.upper:.1f})"


def print_table(table: Table) -> None:
    """Print a table on standard output, with colours only on a terminal that supports them.

    Title and caption are separate lines: inside the table they would be as narrow as the table.
    """
    # Labels are plain text: [brackets] are no markup, and :colons: no emoji.
    console = _Console(markup=False, emoji=False)
    if not console.is_terminal:
        console = _Console(markup=False, emoji=False, width=_WIDTH_OF_FILES)
    title, table.title = table.title, None
    caption, table.caption = table.caption, None
    if title:
        console.print(title, style="table.title")
    console.print(table)
    if caption:
        say(wrapped("Note", str(caption)))


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows of text on standard output."""
    table = Table()
    for name in columns:
        table.add_column(name)
    for row in rows:
        table.add_row(*row)
    print_table(table)
