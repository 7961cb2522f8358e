"""The paper's section 5: thirty arms on a chain, under three fairness bounds."""

from __future__ import annotations

from collections.abc import Iterator

from papers.causal.cache import PAPER_RULES, RULES, SimulationCache
from papers.causal.instances import LOOSE, TIGHT, UNCONSTRAINED, Setting
from papers.causal.tables import claim_table, error_table
from papers.report import Section

__all__ = ["chains", "is_lowest"]

_PERFECT = 0.02

_Claims = Iterator[tuple[str, str, bool]]


def chains(cache: SimulationCache) -> Section:
    """Compare the rules of the paper on chains, under its three bounds."""
    return Section(
        "chains",
        "Chains S -> V -> Y (section 5)",
        "30 arms, 20 states, and an outcome of 0 or 1. Only the first arm is free of cost; the "
        "others together can take sqrt(T) of the T rows. The paper shows curves without numbers, "
        "in environments that it does not print, so only its claims can be compared. A rule is "
        "called better than another if its error over all budgets is lower by more than three "
        "standard errors. The plug-in rule and the uniform rule are not the paper's.",
        (
            error_table(cache, UNCONSTRAINED, RULES, "5.1 No constraint: E = 2; share of errors"),
            claim_table(_unconstrained(cache)),
            error_table(cache, LOOSE, RULES, "5.2 Loose: 8 of 30 arms are unfair; share of errors"),
            claim_table(_loose(cache)),
            error_table(
                cache,
                TIGHT,
                RULES,
                "5.3 Tight: E = .03, 9 of 30 arms are fair; four environments, share of errors",
            ),
            claim_table(_tight(cache)),
        ),
    )


def _unconstrained(cache: SimulationCache) -> _Claims:
    most = cache.budgets(UNCONSTRAINED)[-1]
    last = [cache.errors(UNCONSTRAINED, rule, most).rate for rule in ("CSR-v2", "two-stage v2")]
    yield (
        "CSR-v2 and two-stage v2 easily achieve perfect performance",
        f"errors at T = {most:,}: {last[0]:.3f} and {last[1]:.3f}",
        max(last) <= _PERFECT,
    )
    yield _below(
        cache, UNCONSTRAINED, "two-stage v1", "CSR-v1", "two-stage v1 errs less than CSR-v1"
    )


def _loose(cache: SimulationCache) -> _Claims:
    yield _lowest(cache, LOOSE, "CSR-v2", "CSR-v2 has the least error of the four")
    yield _alike(cache, LOOSE, "CSR-v1", "two-stage v1", "CSR-v1 is similar to two-stage v1")


def _tight(cache: SimulationCache) -> _Claims:
    yield _lowest(cache, TIGHT, "CSR-v2", "CSR-v2 is much better than the other three")
    yield _alike(cache, TIGHT, "CSR-v1", "two-stage v2", "two-stage v2 is much like CSR-v1")
    budgets = cache.budgets(TIGHT)
    first, last = (cache.errors(TIGHT, "CSR-v2", budget) for budget in (budgets[0], budgets[-1]))
    yield (
        "CSR-v2's error clearly falls with the budget",
        f"from {first.rate:.3f} to {last.rate:.3f}",
        last.clearly_below(first),
    )


def _below(
    cache: SimulationCache, setting: Setting, lower: str, higher: str, said: str
) -> tuple[str, str, bool]:
    one, other = cache.overall(setting, lower), cache.overall(setting, higher)
    return said, f"{one.rate:.3f} against {other.rate:.3f}", one.clearly_below(other)


def _alike(
    cache: SimulationCache, setting: Setting, rule: str, other: str, said: str
) -> tuple[str, str, bool]:
    one, two = cache.overall(setting, rule), cache.overall(setting, other)
    differ = one.clearly_below(two) or two.clearly_below(one)
    return said, f"{one.rate:.3f} and {two.rate:.3f}", not differ


def _lowest(
    cache: SimulationCache, setting: Setting, rule: str, said: str
) -> tuple[str, str, bool]:
    others = [name for name in PAPER_RULES if name != rule]
    rates = {name: cache.overall(setting, name).rate for name in others}
    best = min(rates, key=lambda name: rates[name])
    seen = f"{cache.overall(setting, rule).rate:.3f}; {best} has {rates[best]:.3f}"
    return said, seen, is_lowest(cache, setting, rule)


def is_lowest(cache: SimulationCache, setting: Setting, rule: str) -> bool:
    """Return whether a rule's error is clearly below that of the paper's other rules."""
    own = cache.overall(setting, rule)
    others = [cache.overall(setting, other) for other in PAPER_RULES if other != rule]
    return all(own.clearly_below(other) for other in others)
