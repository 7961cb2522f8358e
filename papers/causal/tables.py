"""Tables that several sections share: errors by budget, and claims about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from papers.causal.cache import PLUG_IN, PLUG_IN_SN, SimulationCache
from papers.causal.instances import Setting
from papers.report import AGREES, Row, Table

__all__ = ["claim_table", "error_table", "quarter_table", "within_a_quarter"]


def error_table(
    cache: SimulationCache, setting: Setting, rules: Sequence[str], title: str
) -> Table:
    """Return the share of wrong answers by rule and number of rows."""
    return Table(tuple(_error_row(cache, setting, rule) for rule in rules), title)


def _error_row(cache: SimulationCache, setting: Setting, rule: str) -> Row:
    budgets = cache.budgets(setting)
    errors = {budget: cache.errors(setting, rule, budget) for budget in budgets}
    return {
        "rule": rule,
        "runs": errors[budgets[0]].runs,
        **{f"T = {budget:,}": found.share for budget, found in errors.items()},
    }


def claim_table(claims: Iterable[tuple[str, str, bool]], title: str = "What is claimed") -> Table:
    """Return claims, our results, and whether they agree."""
    rows: list[Row] = [
        {"the paper says": said, "here": seen, AGREES: holds} for said, seen, holds in claims
    ]
    return Table(tuple(rows), title)


def quarter_table(cache: SimulationCache, settings: Sequence[Setting]) -> Table:
    """Return the errors of the recommended rule next to those of CSR-v2, by budget."""
    rows: list[Row] = []
    for setting in settings:
        for budget in cache.budgets(setting):
            theirs = cache.errors(setting, "CSR-v2", budget)
            ours = cache.errors(setting, PLUG_IN, budget)
            rows.append(
                {
                    "instances": setting.name,
                    "T": budget,
                    "runs": ours.runs,
                    "CSR-v2": theirs.share,
                    PLUG_IN: ours.share,
                    PLUG_IN_SN: cache.errors(setting, PLUG_IN_SN, budget).share,
                    "ratio": f"{ours.rate / theirs.rate:.2f}" if theirs.wrong else "",
                    AGREES: within_a_quarter(ours.rate, theirs.rate),
                }
            )
    return Table(tuple(rows), "The plug-in rule: a quarter of the error of CSR-v2, or less")


def within_a_quarter(ours: float, theirs: float) -> bool:
    """Return whether one error rate is at most a quarter of another.

    Examples
    --------
    >>> within_a_quarter(0.01, 0.05), within_a_quarter(0.02, 0.05), within_a_quarter(0.0, 0.0)
    (True, False, True)
    """
    return ours <= 0.25 * theirs
