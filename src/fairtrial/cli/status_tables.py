"""The state of an experiment as tables: its arms, the evidence against them, its shares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table

from fairtrial.cli.display import estimates_table, print_table, wrapped
from fairtrial.cli.output import say, shown_number
from fairtrial.core import Effect, Progress
from fairtrial.presentation.alternatives import (
    Alternative,
    alternatives,
    e_value,
    explanation,
    needed,
    ruling,
    strength,
)
from fairtrial.presentation.bounds import (
    Bounded,
    bounded_values,
    explanation_of_bounds,
    title_of_bounds,
)
from fairtrial.presentation.closed import marked
from fairtrial.presentation.counted import counted_note, intervals_note
from fairtrial.presentation.cuts import cut_of, cut_of_arms, shown_alternatives
from fairtrial.presentation.effects import OVERALL, Differences, differences, limited
from fairtrial.presentation.guardrails import EVIDENCE, Guardrail, by_reference, guardrails
from fairtrial.presentation.limits import Standings, as_estimate, limits_of
from fairtrial.presentation.measures import said_of_missed_limits
from fairtrial.presentation.missing_values import (
    MISSING,
    MissingValues,
    counting_of_missing,
    missing_values,
    summary_of_missing,
)
from fairtrial.presentation.predictions import (
    PREDICTIONS,
    about_predictions,
    heading_of_groups,
    predictions_by_group,
)
from fairtrial.presentation.shares import (
    BEHIND,
    carried_note,
    earlier_note,
    largest_shortfall,
    shares_of,
    shown_shares,
)
from fairtrial.presentation.words import percent

__all__ = ["print_standing"]

_MOST_LIMITS = 40


def print_standing(progress: Progress, minimize: bool) -> None:
    """Print the tables of a progress, for a limited number of arms, and explain them."""
    notes: dict[str, None] = {}
    for table, note in _tables(progress, minimize):
        print_table(table)
        notes |= dict.fromkeys(filter(None, note.split("\n")))
    for note in notes:
        say(wrapped("Note", note))


def _tables(progress: Progress, minimize: bool) -> Iterator[tuple[Table, str]]:
    """Yield every table with its notes, one per line."""
    standings = Standings.by(progress)
    if shares_of(progress):
        yield _shares(progress)
    if _has_own_estimates(progress):
        cut = cut_of_arms(progress, minimize)
        title = "Arms" if _is_grouped(progress) else "Answers"
        note = f"{cut.note}\n{said_of_missed_limits(progress)}"
        yield estimates_table(title, cut.rank(progress.arms), progress), note
    if progress.overall_measures:
        shown = cut_of_arms(progress, minimize).rank(progress.overall_measures)
        yield estimates_table("Measures of arms over all groups", shown, progress), ""
    if progress.actions:
        cut = cut_of(progress, minimize)
        title = f"Arms by {_second_label(progress)}" if _is_grouped(progress) else "Arms"
        note = "\n".join(
            (cut.note, earlier_note(progress), counted_note(progress), intervals_note(progress))
        )
        yield estimates_table(title, cut.rank(progress.actions), progress), note
    if progress.limited:
        cut = cut_of_arms(progress, minimize)
        shown = cut.rank(progress.limited)
        yield estimates_table("Limits on other predictions", shown, progress), cut.note
    if (found := differences(progress, minimize)) is not None and found.overall:
        yield _differences(found, progress), found.note
    if explained := predictions_by_group(progress):
        yield _predictions(explained, heading_of_groups(progress)), about_predictions(progress)
    if held := limited(progress):
        yield _limits_against(held, standings, progress), ""
    if rails := guardrails(progress, minimize):
        for kind in by_reference(rails):
            yield (
                _guardrails(progress, *kind),
                EVIDENCE if any(one.log_wealth for one in kind[2]) else "",
            )
    if lacking := missing_values(progress):
        note = f"{summary_of_missing(progress)}\n{counting_of_missing(progress)}"
        yield _missing(lacking), note
    if bounded := bounded_values(progress, minimize):
        yield _bounds(bounded), explanation_of_bounds(bounded)
    if any(one.rejected or one.log_wealth is not None for one in alternatives(progress)):
        yield _answers(progress, minimize)


def _differences(found: Differences, progress: Progress) -> Table:
    table = _table(found.title, ["arm"], ["difference", "interval"])
    for effect in found.overall:
        ends = f"{shown_number(effect.lower)} to {shown_number(effect.upper)}"
        table.add_row(marked(progress, effect.arm), shown_number(effect.difference), ends)
    return table


def _predictions(rows: Sequence[tuple[str, str, str]], heading: str) -> Table:
    table = _table(PREDICTIONS, [heading], ["slope", "explained"])
    for row in rows:
        table.add_row(*row)
    return table


def _table(title: str, texts: Sequence[str], numbers: Sequence[str] = ()) -> Table:
    """Return a table without rows: columns of text, then columns of numbers."""
    table = Table(title=title, title_justify="left", caption_justify="left")
    for name in texts:
        table.add_column(name)
    for name in numbers:
        table.add_column(name, justify="right")
    return table


def _frame(
    title: str, rows: Sequence[object], texts: Sequence[str], numbers: Sequence[str]
) -> Table:
    """Return the same with a last column "standing"; its caption tells how many rows are hidden."""
    table = _table(title, texts, numbers)
    table.add_column("standing")
    _say_what_is_hidden(table, rows)
    return table


def _say_what_is_hidden(table: Table, rows: Sequence[object]) -> None:
    hidden = len(rows) - _MOST_LIMITS
    if hidden > 0:
        table.caption = f"{hidden:,} more are not shown."


def _limits_against(held: Sequence[Effect], standings: Standings, progress: Progress) -> Table:
    """Return the limits against the control, and their status for each arm."""
    title = f"Limits against {held[0].reference}"
    table = _frame(title, held, ["arm", "where"], ["difference", "limit"])
    for effect in held[:_MOST_LIMITS]:
        estimate = as_estimate(effect)
        limits = " to ".join(map(shown_number, limits_of(estimate)))
        where = OVERALL if effect.group is None else effect.group
        difference = shown_number(effect.difference)
        state = standings.of_effect(effect).value
        table.add_row(marked(progress, effect.arm), where, difference, limits, state)
    return table


def _guardrails(progress: Progress, title: str, of: str, rails: Sequence[Guardrail]) -> Table:
    """Return limits of measures on what `of` names, and their status for each arm."""
    numbers = [of, "limit", "evidence that it is kept"]
    table = _frame(title, rails, ["arm", "measure", "where"], numbers)
    for one in rails[:_MOST_LIMITS]:
        table.add_row(
            *(marked(progress, one.arm), one.measure, marked(progress, one.where, "group")),
            shown_number(one.estimate),
            one.limit(shown_number),
            "-" if one.log_wealth is None else strength(one.log_wealth),
            one.standing.value,
        )
    return table


def _missing(lacking: Sequence[MissingValues]) -> Table:
    """Return how many values of measures will never be known."""
    names = ["arm", "group", "measure"]
    table = _table(MISSING, names, ["known", "missing", "share missing"])
    _say_what_is_hidden(table, lacking)
    for one in lacking[:_MOST_LIMITS]:
        numbers = f"{one.known:,}", f"{one.missing:,}", percent(one.share, 1)
        table.add_row(one.arm, one.group, one.measure, *numbers)
    return table


def _bounds(values: list[Bounded]) -> Table:
    """Return values that must stay below a bound, and their status."""
    has_evidence = bool(explanation_of_bounds(values))
    numbers = [values[0].kind, *(["evidence that it is kept"] if has_evidence else [])]
    table = _frame(title_of_bounds(values), values, ["arm", "of"], numbers)
    for one in values[:_MOST_LIMITS]:
        gained = "-" if one.log_wealth is None else strength(one.log_wealth)
        evidence = [gained] if has_evidence else []
        table.add_row(one.arm, one.of, shown_number(one.value), *evidence, one.standing.value)
    return table


def _has_own_estimates(progress: Progress) -> bool:
    """Return whether arms have estimates besides the actions': with groups, or other arms."""
    if not progress.arms or progress.quantity != "mean":
        return False
    return [dict(arm.labels) for arm in progress.arms] != [
        dict(action.labels) for action in progress.actions
    ]


def _is_grouped(progress: Progress) -> bool:
    return any(len(action.labels) > 1 for action in progress.actions)


def _second_label(progress: Progress) -> str:
    """Return the label in which the actions of an arm differ."""
    names = list(progress.actions[0].labels)
    return "sensitive attribute" if "sensitive" in names else names[-1]


def _answers(progress: Progress, minimize: bool) -> tuple[Table, str]:
    shown, note = shown_alternatives(progress, minimize)
    level = needed(progress)
    numbers = [] if level is None else [f"evidence against it ({strength(level)} rules it out)"]
    table = _table("Evidence against each answer", ["answer"], numbers)
    table.add_column("standing")
    for one in shown:
        table.add_row(one.answer, *_numbers(one, level), ruling(one))
    return table, f"{note}\n{explanation(progress)}"


def _numbers(one: Alternative, level: float | None) -> tuple[str, ...]:
    return () if level is None else (e_value(one, level),)


def _shares(progress: Progress) -> tuple[Table, str]:
    shares = shares_of(progress)
    shown, note = shown_shares(shares)
    numbers = ["pulls", "share", "guaranteed", "owed by now", "pulls behind"]
    table = _table("Shares of the pulls", ["arm"], numbers)
    for one in shown:
        parts = (percent(part) for part in (one.share, one.quota, one.owed))
        table.add_row(one.arm, f"{one.pulls:,}", *parts, shown_number(one.behind))
    return table, f"{largest_shortfall(progress)}\n{BEHIND}\n{carried_note(shares)}\n{note}"
