"""Adversaries that try to make the worse of two arms win, within the guarantee's assumptions.

``python -m tests.delayed.adversaries 2000`` plays every proven rule 2,000 times against every
adversary that its guarantee covers, and prints how often the worse arm won.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from fairtrial.core import Policy, Pull
from fairtrial.delayed import InformationRacing, Problem, Racing

ARMS = ["bad", "good"]
GAP = 0.02
DELTA = 0.05


@dataclass
class Pending:
    """A pull in flight, with its future outcome and its readings."""

    pull: Pull
    outcome: float
    readings: list[float] = field(default_factory=list)
    pieces: list[float] = field(default_factory=list)

    @property
    def suits(self) -> float:
        """How much the mean reading favours the bad arm."""
        sign = 1.0 if self.pull.arm == "bad" else -1.0
        return sign * float(np.mean(self.readings)) if self.readings else 0.0


@dataclass
class Table:
    """A race controlled by an adversary, who decides when to ask, read and tell."""

    race: Policy
    rng: np.random.Generator
    reading_std: float
    pending: list[Pending] = field(default_factory=list)

    def ask(self) -> Pending:
        """Start a pull."""
        pull = self.race.ask()
        mean = GAP if pull.arm == "good" else 0.0
        pieces = (mean + 2.0 * self.rng.normal(size=4)) / 4.0
        self.pending.append(Pending(pull, float(pieces.sum()), pieces=pieces.tolist()))
        return self.pending[-1]

    def read(self, entry: Pending, times: int = 1) -> None:
        """Report readings of a pull while the race runs."""
        for _ in range(times):
            if self.race.stopped:
                return
            value = entry.outcome + self.reading_std * self.rng.normal()
            if self.race.problem.feedback == "incremental":
                if len(entry.pieces) == 1:
                    return
                value = entry.pieces.pop()
            if self.race.problem.feedback == "biased":
                value += 3.0 if entry.pull.arm == "bad" else -3.0
            entry.readings.append(value)
            self.race.report(entry.pull, value)

    def tell(self, entry: Pending) -> None:
        """Tell an outcome."""
        self.pending.remove(entry)
        if not self.race.stopped:
            self.race.tell(entry.pull, entry.outcome)

    def fail(self, entry: Pending, reason: str) -> None:
        """Stop a pull, or report that it was lost."""
        self.pending.remove(entry)
        if not self.race.stopped:
            self.race.fail(entry.pull, reason)


Adversary = Callable[[Table], None]
"""One move, which is repeated until the race has stopped or its pulls are used up."""


def stops_what_reads_badly(table: Table) -> None:
    """Stop pulls whose reading is bad for the bad arm."""
    entry = table.ask()
    table.read(entry)
    if entry.suits < 0.0:
        table.fail(entry, "user")
    else:
        table.tell(entry)


def holds_back_what_reads_badly(table: Table) -> None:
    """Tell only the best suited of six pulls in flight; the others wait forever."""
    while len(table.pending) < 6 and not table.race.stopped:
        table.read(table.ask())
    if not table.race.stopped:
        table.tell(max(table.pending, key=lambda entry: entry.suits))


def reads_until_it_suits(table: Table) -> None:
    """Continue reading while the readings are bad for the bad arm, up to 40 times."""
    entry = table.ask()
    table.read(entry)
    while entry.suits < 0.0 and len(entry.readings) < 40 and not table.race.stopped:
        table.read(entry)
    table.tell(entry)


def loses_the_good_arm(table: Table) -> None:
    """Lose every pull of the good arm after twenty readings, whatever they say."""
    entry = table.ask()
    table.read(entry, 20)
    if entry.pull.arm == "good":
        table.fail(entry, "lost")
    else:
        table.tell(entry)


def lets_bad_outcomes_of_the_good_arm_in_first(table: Table) -> None:
    """Tell first the outcome that suits best among twenty pulls in flight."""
    while len(table.pending) < 20 and not table.race.stopped:
        table.ask()
    signs = {"bad": 1.0, "good": -1.0}
    table.tell(max(table.pending, key=lambda entry: signs[entry.pull.arm] * entry.outcome))


def comes_back_late(table: Table) -> None:
    """Stop pulls with bad readings, but tell their outcomes later, ten at a time."""
    entry = table.ask()
    table.read(entry)
    if entry.suits < 0.0 and not table.race.stopped:
        table.race.fail(entry.pull, "user")
    elif entry in table.pending:
        table.tell(entry)
    if len(table.pending) == 10:
        for late in sorted(table.pending, key=lambda late: -late.suits):
            table.tell(late)


def reads_on_after_the_outcome(table: Table) -> None:
    """Read finished pulls until their errors suit, and leave every third pull open."""
    entry = table.ask()
    table.read(entry)
    if entry.pull.number % 3 == 0:
        return
    table.tell(entry)
    errors = 0.0
    while errors <= 0.0 and len(entry.readings) < 40 and not table.race.stopped:
        table.read(entry)
        # Make the bad arm's estimated bias too low, and the good arm's too high.
        sign = 1.0 if entry.pull.arm == "bad" else -1.0
        errors -= sign * (entry.readings[-1] - entry.outcome) - 3.0


def stops_others_while_one_is_open(table: Table) -> None:
    """Keep the first pull of each arm open, and stop others with bad readings."""
    entry = table.ask()
    table.read(entry)
    if table.race.stopped or entry.pull.number < len(ARMS):
        return
    if entry.suits < 0.0:
        table.fail(entry, "user")
    else:
        table.tell(entry)


def loses_what_ends_badly_and_goes_on(table: Table) -> None:
    """Time out pulls with outcomes that are bad for the bad arm, and tell the others later."""
    _let_in_what_suits([table.ask() for _ in range(200)], table.race, "timeout")


def selects_once_a_cap_has_ended_it(table: Table) -> None:
    """Wait for a cap; then stop pulls with bad readings, and tell the others."""
    entries = [table.ask() for _ in range(200)]
    for entry in entries:
        table.race.report(entry.pull, entry.outcome)
    table.race.pass_time(2.0)
    _let_in_what_suits(entries, table.race, "user")


def _let_in_what_suits(entries: list[Pending], race: Policy, reason: str) -> None:
    signs = {"bad": 1.0, "good": -1.0}
    suiting = [signs[entry.pull.arm] * entry.outcome > 0.0 for entry in entries]
    for entry, suits in zip(entries, suiting, strict=True):
        if not suits:
            race.fail(entry.pull, reason)
    for entry, suits in zip(entries, suiting, strict=True):
        if suits:
            race.tell(entry.pull, entry.outcome)


def _problem(feedback: str, **more: object) -> Problem:
    reading_std = None if feedback == "full" else 0.3
    return Problem(ARMS, noise_std=1.0, feedback=feedback, reading_std=reading_std, **more)


PAIRS, BOXES = InformationRacing, partial(InformationRacing, test="box")
PROVEN, FULL = Racing, partial(Racing, variant="full")

READ = (
    stops_what_reads_badly,
    holds_back_what_reads_badly,
    reads_until_it_suits,
    loses_the_good_arm,
    comes_back_late,
    stops_others_while_one_is_open,
)
PIECES = (stops_what_reads_badly, holds_back_what_reads_badly, loses_the_good_arm)
# Adversaries that cannot select results by uncounted information cannot hold them back.
WALK = (stops_what_reads_badly, reads_until_it_suits, loses_the_good_arm,
        stops_others_while_one_is_open)  # fmt: skip


def cases() -> Iterator[tuple[str, Callable[[], Policy], Adversary]]:
    """Yield every proven rule with every adversary that its guarantee covers."""
    for feedback, more in (
        ("unbiased", {}),
        ("biased", {}),
        ("refining", {"errors": "nested"}),
    ):
        problem = _problem(feedback, **more)
        rules = {"pairs": (PAIRS, READ), "boxes": (BOXES, READ)}
        if feedback != "refining":
            rules["race"] = (PROVEN, WALK)
        for name, (make, adversaries) in rules.items():
            for adversary in adversaries:
                if feedback == "refining" and adversary in (reads_until_it_suits,
                                                            loses_the_good_arm):  # fmt: skip
                    # Their readings are drawn independently, so errors are not nested.
                    continue
                yield f"{name}, {feedback}", partial(make, problem), adversary
    for name, make in (("pairs", PAIRS), ("boxes", BOXES)):
        yield f"{name}, biased", partial(make, _problem("biased")), reads_on_after_the_outcome
    pieces = Problem(ARMS, noise_std=1.0, feedback="incremental", duration=4.0)
    for name, make in (("pairs", PAIRS), ("race", PROVEN)):
        for adversary in PIECES:
            yield f"{name}, pieces", partial(make, pieces), adversary
    depends = _problem("full", delay_depends_on_outcome=True)
    for name, make in (("pairs", PAIRS), ("boxes", BOXES), ("race, outcomes", FULL)):
        yield f"{name}, full", partial(make, depends), lets_bad_outcomes_of_the_good_arm_in_first
        yield f"{name}, full", partial(make, _problem("full")), loses_what_ends_badly_and_goes_on
    unbiased = _problem("unbiased")
    for name, make in (("outcomes", partial(PAIRS, use_partial=False)), ("race", PROVEN)):
        capped = partial(make, unbiased, max_time=1.0)
        yield f"{name}, capped", capped, selects_once_a_cap_has_ended_it


def bad_arm_wins(
    make: Callable[[], Policy], adversary: Adversary, seed: int, pulls: int = 60
) -> bool:
    """Return whether the bad arm wins a race with a maximum number of pulls."""
    race = make()
    assert race.guarantee.proven
    table = Table(race, np.random.default_rng([seed, 23]), 0.3)
    while not race.stopped and race.asked < pulls:
        adversary(table)
    return race.recommend().arm == ("bad",)


def main(runs: int) -> None:
    """Print how often the bad arm wins."""
    for name, make, adversary in cases():
        wrong = sum(bad_arm_wins(make, adversary, seed) for seed in range(runs))
        said = adversary.__name__.replace("_", " ")
        print(f"{name:22s} {said:45s} {wrong:5d} of {runs} (delta {DELTA:g})", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
