"""How an experiment stands, as tables: its arms, the evidence against them, its shares."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

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
from fairtrial.presentation.cuts import cut_of, cut_of_arms, shown_alternatives
from fairtrial.presentation.effects import OVERALL, Differences, differences, limited
from fairtrial.presentation.guardrails import EVIDENCE, TITLE, Guardrail, guardrails
from fairtrial.presentation.limits import as_estimate, limits_of, standing
from fairtrial.presentation.missing_values import (
    MISSING,
    MissingValues,
    counting_of_missing,
    missing_values,
    summary_of_missing,
)
from fairtrial.presentation.shares import (
    BEHIND,
    carried_note,
    earlier_note,
    shares_of,
    shown_shares,
)
from fairtrial.presentation.sources import named
from fairtrial.presentation.words import percent

__all__ = ["print_standing"]

_MOST_LIMITS = 40


def print_standing(progress: Progress, minimize: bool) -> None:
    """Print the tables of a progress, of at most that many arms, and what they mean."""
    notes: dict[str, None] = {}
    for table, note in _tables(progress, minimize):
        print_table(table)
        notes |= dict.fromkeys(filter(None, note.split("\n")))
    for note in notes:
        say(wrapped("Note", note))


def _tables(progress: Progress, minimize: bool) -> Iterator[tuple[Table, str]]:
    """Yield every table with its notes, one a line."""
    if shares_of(progress):
        yield _shares(progress)
    if _has_own_estimates(progress):
        cut = cut_of_arms(progress, minimize)
        title = "Arms" if _is_grouped(progress) else "Answers"
        answer = named(progress.recommendation)
        yield estimates_table(title, cut.rank(progress.arms), answer), cut.note
    if progress.actions:
        cut = cut_of(progress, minimize)
        title = f"Arms by {_second_label(progress)}" if _is_grouped(progress) else "Arms"
        note, answer = f"{cut.note}\n{earlier_note(progress)}", named(progress.recommendation)
        yield estimates_table(title, cut.rank(progress.actions), answer), note
    if progress.limited:
        cut = cut_of_arms(progress, minimize)
        shown, answer = cut.rank(progress.limited), named(progress.recommendation)
        yield estimates_table("Limits on other predictions", shown, answer), cut.note
    if (found := differences(progress, minimize)) is not None and found.overall:
        yield _differences(found), found.note
    if held := limited(progress):
        yield _limits_against(held, named(progress.recommendation)), ""
    if rails := guardrails(progress, minimize):
        yield _guardrails(rails), EVIDENCE if any(one.log_wealth for one in rails) else ""
    if lacking := missing_values(progress):
        note = f"{summary_of_missing(progress)}\n{counting_of_missing(progress)}"
        yield _missing(lacking), note
    if bounded := bounded_values(progress, minimize):
        yield _bounds(bounded), explanation_of_bounds(bounded)
    if any(one.rejected or one.log_wealth is not None for one in alternatives(progress)):
        yield _answers(progress, minimize)


def _differences(found: Differences) -> Table:
    table = Table(title=found.title, title_justify="left")
    table.add_column("arm")
    for name in ("difference", "interval"):
        table.add_column(name, justify="right")
    for effect in found.overall:
        ends = f"{shown_number(effect.lower)} to {shown_number(effect.upper)}"
        table.add_row(str(effect.arm), shown_number(effect.difference), ends)
    return table


def _frame(title: str, rows: Sequence[object]) -> Table:
    """Return a table without columns, which says how many of its rows will not be shown."""
    hidden = len(rows) - _MOST_LIMITS
    return Table(
        title=title,
        title_justify="left",
        caption=f"{hidden:,} more are not shown." if hidden > 0 else None,
        caption_justify="left",
    )


def _limits_against(held: Sequence[Effect], answer: Collection[str]) -> Table:
    """Return the limits against the control, and how arms stand to them."""
    table = _frame(f"Limits against {held[0].reference}", held)
    for name in ("arm", "where"):
        table.add_column(name)
    for name in ("difference", "limit"):
        table.add_column(name, justify="right")
    table.add_column("standing")
    for effect in held[:_MOST_LIMITS]:
        estimate = as_estimate(effect)
        limits = " to ".join(map(shown_number, limits_of(estimate)))
        where = OVERALL if effect.group is None else effect.group
        difference = shown_number(effect.difference)
        state = standing(estimate, answer).value
        table.add_row(str(effect.arm), where, difference, limits, state)
    return table


def _guardrails(rails: Sequence[Guardrail]) -> Table:
    """Return the limits of measures, and how arms stand to them."""
    table = _frame(TITLE, rails)
    for name in ("arm", "measure", "where"):
        table.add_column(name)
    for name in ("mean", "limit", "evidence that it is kept"):
        table.add_column(name, justify="right")
    table.add_column("standing")
    for one in rails[:_MOST_LIMITS]:
        side = "at least" if one.kind == "floor" else "at most"
        table.add_row(
            *(one.arm, one.measure, one.where, shown_number(one.estimate)),
            f"{side} {shown_number(one.bound)}",
            "-" if one.log_wealth is None else strength(one.log_wealth),
            one.standing.value,
        )
    return table


def _missing(lacking: Sequence[MissingValues]) -> Table:
    """Return how many values of measures never will be known."""
    table = _frame(MISSING, lacking)
    for name in ("arm", "group", "measure"):
        table.add_column(name)
    for name in ("known", "missing", "share missing"):
        table.add_column(name, justify="right")
    for one in lacking[:_MOST_LIMITS]:
        numbers = f"{one.known:,}", f"{one.missing:,}", percent(one.share, 1)
        table.add_row(one.arm, one.group, one.measure, *numbers)
    return table


def _bounds(values: list[Bounded]) -> Table:
    """Return values that must stay below a bound, and how they stand to it."""
    table = _frame(title_of_bounds(values), values)
    for name in ("arm", "of"):
        table.add_column(name)
    table.add_column(values[0].kind, justify="right")
    has_evidence = bool(explanation_of_bounds(values))
    if has_evidence:
        table.add_column("evidence that it is kept", justify="right")
    table.add_column("standing")
    for one in values[:_MOST_LIMITS]:
        gained = "-" if one.log_wealth is None else strength(one.log_wealth)
        evidence = [gained] if has_evidence else []
        table.add_row(one.arm, one.of, shown_number(one.value), *evidence, one.standing.value)
    return table


def _has_own_estimates(progress: Progress) -> bool:
    """Return whether there is more to say of arms than of the actions: groups, or other arms."""
    if not progress.arms or progress.quantity != "mean":
        return False
    return [dict(arm.labels) for arm in progress.arms] != [
        dict(action.labels) for action in progress.actions
    ]


def _is_grouped(progress: Progress) -> bool:
    return any(len(action.labels) > 1 for action in progress.actions)


def _second_label(progress: Progress) -> str:
    """Return by what the actions of an arm differ."""
    names = list(progress.actions[0].labels)
    return "sensitive attribute" if "sensitive" in names else names[-1]


def _answers(progress: Progress, minimize: bool) -> tuple[Table, str]:
    shown, note = shown_alternatives(progress, minimize)
    level = needed(progress)
    table = Table(title="Evidence against each answer", title_justify="left")
    table.add_column("answer")
    if level is not None:
        most = strength(level)
        table.add_column(f"evidence against it ({most} rules it out)", justify="right")
    table.add_column("standing")
    for one in shown:
        table.add_row(one.answer, *_numbers(one, level), ruling(one))
    return table, f"{note}\n{explanation(progress)}"


def _numbers(one: Alternative, level: float | None) -> tuple[str, ...]:
    return () if level is None else (e_value(one, level),)


def _shares(progress: Progress) -> tuple[Table, str]:
    shares = shares_of(progress)
    shown, note = shown_shares(shares)
    table = Table(title="Shares of the pulls", title_justify="left")
    table.add_column("arm")
    for name in ("pulls", "share", "guaranteed", "owed by now", "pulls behind"):
        table.add_column(name, justify="right")
    for one in shown:
        parts = (percent(part) for part in (one.share, one.quota, one.owed))
        table.add_row(one.arm, f"{one.pulls:,}", *parts, shown_number(one.behind))
    return table, f"{BEHIND}\n{carried_note(shares)}\n{note}"
