"""Compare the certified T* of every environment with the reference."""

from __future__ import annotations

from fairtrial.subpopulations.planning import Complexity
from papers.baics import instances as environments
from papers.baics.instances import CLICKS, E1, E2, NONE_FEASIBLE, Instance
from papers.report import AGREES, Row, Section, Table

__all__ = ["complexities"]

_EQUAL = (1 / 3, 1 / 3, 1 / 3)
_PASSIVE = (
    (E1, "like the weights", (0.2, 0.3, 0.5), 506.8175),
    (E1, "equally often", _EQUAL, 305.3836),
    (E2, "equally often", _EQUAL, 1859.0870),
)
"""T* if groups arrive by themselves: instance, description, probabilities, reference."""


def complexities(email: Instance | None) -> Section:
    """Compare the certified T* with the reference."""
    rows = [_complexity_row(instance) for instance in (E1, E2, NONE_FEASIBLE)]
    for instance, how, arrivals, reference in _PASSIVE:
        found = instance.complexity(arrivals)
        rows.append(_certified(f"{instance.name}, groups come {how}", found, reference, 1e-3))
    rows += [_complexity_row(instance) for instance in _bounded(email)]
    return Section(
        "complexity",
        "Complexity",
        "T* is the number of pulls per nat of evidence. Any rule whose error probability is at "
        "most delta needs T* kl(delta, 1 - delta) pulls on average. Both ends are certified. For "
        "rewards in a range, T* is that of normal rewards with the same standard deviations: a "
        "yardstick, not a bound. Its reference is given to about one pull.",
        (Table(tuple(rows), decimals={"T* lower": 6, "T* upper": 6, "bound at .1": 1}),),
    )


def _bounded(email: Instance | None) -> list[Instance]:
    trials = [environments.trial("cd4", 0.0)]
    trials += [environments.trial("event_free", floor) for floor in (0.75, 0.78)]
    emails = [] if email is None else [email]
    return [*trials, CLICKS, *emails, *environments.plain_environments()]


def _complexity_row(instance: Instance) -> Row:
    reference = instance.characteristic_time
    assert reference is not None
    return _certified(instance.name, instance.complexity(), reference, instance.precision)


def _certified(name: str, found: Complexity, reference: float, precision: float) -> Row:
    return {
        "instance": name,
        "T* lower": found.lower,
        "T* upper": found.upper,
        "reference": reference,
        "bound at .1": found.lower_bound(0.1),
        AGREES: abs(found.value - reference) <= precision,
    }
