"""Sections of a plan for those who judge a protocol: claims, exposure, calendar, usual designs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta

from fairtrial.presentation.words import NOTHING, TITLES_OF_CLAIMS, count, number, percent
from fairtrial.report.html import Markup, bullets, element, label, section, table
from fairtrial.report.statements import notes_table
from fairtrial.simulation import (
    Characteristics,
    Claim,
    Comparator,
    OperatingCharacteristics,
    Proportion,
)
from fairtrial.simulation.claims import runs_with_claim
from fairtrial.simulation.comparators import ASSUMPTIONS

__all__ = [
    "calendar",
    "claims",
    "comparators",
    "estimand",
    "exposure",
    "items",
    "limitations",
    "looks",
]

_ITEMS = (
    ("Objective and estimand, with intercurrent events", "E20; E9(R1); ACE 2b, 6a", "estimand"),
    ("Kind of adaptation, and what it follows from", "E20 types of adaptation; ACE 3b", "design"),
    ("Criteria for decisions, binding or not", "E20; ACE 7b", "decision-rules"),
    ("When looks take place, and futility", "E20 early stopping; ACE 7b", "interim-looks"),
    ("Error probability, by claim and family-wise", "E20 erroneous conclusions", "claims"),
    ("Sample size and operating characteristics", "ACE 7a", "operating-characteristics"),
    ("Why not a simpler design", "E20 trial planning", "the-usual-designs"),
    ("Random allocation, and how it may change", "E20 allocation; ACE 8b", "decision-rules"),
    (
        "Estimates: bias, intervals",
        "E20 reliability of estimation; ACE 12b",
        "operating-characteristics",
    ),
    ("Results after the decision (overrun)", "E20 data monitoring", "calendar"),
    ("Patients on inferior arms", "E20 treatment selection", "exposure"),
    ("Simulations: scenarios, runs, error, code", "E20 simulation studies", "scenarios"),
    ("Limits of these results", "E20; ACE 20", "limitations"),
    ("Who sees interim results", "E20 trial integrity; ACE 11c", None),
    ("Statistical analysis plan, registration", "ACE 23, 24b", None),
)


def estimand(protocol: Mapping[str, str]) -> Markup:
    """Return the section on what is estimated, in the words of the protocol."""
    stated = notes_table("As stated in the protocol", protocol)
    if stated is None:
        said = (
            "The file does not state the estimand. A section [protocol] adds treatment, "
            "population, endpoint, intercurrent events and summary measure (ICH E9(R1))."
        )
        return section("Estimand", element("p", said))
    return section("Estimand", stated)


# ----------------------------------------------------------------------------- claims


def claims(found: OperatingCharacteristics) -> Markup | None:
    """Return the section on the claims against the control; None without a control."""
    rows = [row for row in found if row.claims]
    if not rows:
        return None
    titles = {claim.kind: TITLES_OF_CLAIMS[claim.kind] for claim in rows[0].claims}
    limited = "better within limits" in titles
    if limited:
        titles["better"] += ", limits not considered"
    cells: list[tuple[object, ...]] = []
    for row in rows:
        for arm in dict.fromkeys(claim.arm for claim in row.claims):
            own = [claim for claim in row.claims if claim.arm == arm]
            said = f"{arm}, breaks a limit" if own[0].breaks_limit else arm
            cells.append((*_place(row), label(said), *map(_claim, own)))
    heads = ("Scenario", "Most pulls", "Arm", *titles.values())
    errors = [
        (*_place(row), _share(row.wrong), _share(row.false_claims))
        for row in rows
        if row.false_claims is not None
    ]
    wrong = ("Scenario", "Most pulls", "Wrong answer", "Any false claim (family-wise)")
    title = f"Share of the runs that made each claim, with {percent(found.level)} intervals"
    return section(
        "Claims",
        element("p", _ABOUT_CLAIMS),
        element("p", _ABOUT_LIMITS) if limited else None,
        table(title, heads, cells, words={0, *range(2, len(heads))}),
        table("Type I error, family-wise", wrong, errors, words={0}),
        element("p", _bounds_of_errors(found)),
    )


_ABOUT_LIMITS = (
    "The question has limits, so the claim that an arm can be used is that it is better than the "
    "control and keeps every limit: besides its difference, each of its limits is shown to be "
    "kept, by its interval, by bets on this limit alone, or because the arm is the answer. It is "
    "false if any part is false. A difference or a limit alone is shown falsely with at most the "
    "accepted error probability, whatever the number of limits, and the answer is wrong with at "
    "most the same probability; so the bound for this claim is twice that. That an arm is better, "
    "limits not considered, is only a part of it: for an arm that breaks a limit, this share is no "
    "power, but says how often a harmful arm looks better."
)

_ABOUT_CLAIMS = (
    "A study can claim of an arm that it is better than the control (the interval of "
    "its difference, which holds at all times, excludes zero), and that it is the best of all (it "
    "is named as the answer). If a claim is true, its share is its power; if it is false, its "
    "share is its type I error. Intervals are exact and cover the error of the simulation."
)


def _bounds_of_errors(found: OperatingCharacteristics) -> str:
    delta = found.policy.delta
    if delta is None:
        return "The policy promises no error probability, so these shares are all that is known."
    arms = len({claim.arm for claim in found[0].claims})
    total = min(1.0, delta * (arms + 1))
    limited = any(claim.kind == "better within limits" for claim in found[0].claims)
    twice = f", and {2 * delta:g} for the one with limits" if limited else ""
    return (
        f"What the policy promises, for every single claim: at most {delta:g}"
        f"{twice}. The claim that some "
        "arm other than the control is the best is wrong with a probability of at most "
        f"{delta:g} in total if the control is a best acceptable arm, because it requires that the "
        "control is excluded, which is a right answer then: not for each arm, and not more if all "
        f"arms are equal. The {arms} comparisons with the control are not adjusted for their "
        f"number, so over all claims the bound is {number(total, 3)}, the sum. A protocol that "
        "needs one family-wise level can name the answer as its only confirmatory claim."
    )


def _claim(claim: Claim) -> str:
    if claim.breaks_limit and claim.true:
        return f"no power: {_share(claim.made)}"
    kind = "power" if claim.true else "type I error"
    return f"{kind} {_share(claim.made)}"


# --------------------------------------------------------------------- people and time


def exposure(found: OperatingCharacteristics) -> Markup | None:
    """Return the section on pulls that inferior arms get; None if it is not known."""
    rows = [row for row in _last_rows(found) if row.exposure]
    senses = list(dict.fromkeys(sense for row in rows for sense in row.exposure))
    if not senses:
        return None
    cells = [
        (
            label(row.scenario.name),
            number(row.pulls.mean),
            *(number(row.exposure[each]) if each in row.exposure else NOTHING for each in senses),
        )
        for row in rows
    ]
    heads = ("Scenario", "All", *(f"On arms {sense}" for sense in senses))
    return section("Exposure", table("Mean number of pulls", heads, cells, words={0}))


def calendar(found: OperatingCharacteristics, starts: date | None) -> Markup | None:
    """Return the section on accrual and delay; None unless both are known."""
    rows = [(row, row.calendar) for row in _last_rows(found) if row.calendar is not None]
    if not rows or found.pulls_per_day is None or found.delay_days is None:
        return None
    cells = [
        (
            label(row.scenario.name),
            _day(own.decision.mean, starts),
            _day(own.decision.quantiles[0.95], starts),
            _day(own.last_pull.mean, starts),
            _day(own.last_result.mean, starts),
            number(own.overrun.mean),
        )
        for row, own in rows
    ]
    heads = ("Scenario", "End, mean", "End, 95 %", "Last pull", "Last result", "In flight then")
    said = (
        f"{number(found.pulls_per_day)} pulls a day, and {number(found.delay_days)} days from a "
        f"pull to its result: {count(found.parallel)} pulls are in flight while pulls go on. "
        "Overrun: the results that are still in flight when the study ends are collected and "
        "reported beside the decision, and do not change it."
    )
    title = "When the study ends" + ("" if starts else ", in days after the first pull")
    return section("Calendar", element("p", said), table(title, heads, cells, words={0}))


def looks(found: OperatingCharacteristics, starts: date | None) -> Markup | None:
    """Return the section on interim looks; None if none are planned."""
    rows = [row for row in _last_rows(found) if row.looks]
    if not rows:
        return None
    cells = [
        (
            label(row.scenario.name),
            _day(look.day, starts),
            _share(look.right),
            percent(look.decided.rate),
            _share(look.later),
        )
        for row in rows
        for look in row.looks
    ]
    heads = ("Scenario", "Look", "Right by then", "Decided by then", "Chance to decide by the end")
    said = (
        "The policy may stop after every result, so looks spend no error probability. They show "
        "when futility can be discussed: the last column is the share of the runs still going on "
        "at the look that decided before their end, each continued by simulation. It does not "
        "condition on the results at the look. Stopping for futility is not binding: if it is "
        "ignored, the error probability stays as promised; if it is followed, fewer runs decide, "
        "so errors become rarer, and the power falls by the runs that would have been right "
        "later."
    )
    title = f"What looks find, with {percent(found.level)} intervals"
    return section("Interim looks", element("p", said), table(title, heads, cells, words={0, 1}))


# -------------------------------------------------------------------------- comparison


def comparators(found: OperatingCharacteristics) -> Markup | None:
    """Return the section on the usual designs; None if there are none."""
    rows = [row for row in _last_rows(found) if row.comparators]
    if not rows:
        return None
    claims = list(dict.fromkeys(one.claim for row in rows for one in row.comparators))
    tables = [part for claim in claims for part in _designs_of_claim(rows, claim, found.level)]
    return section(
        "The usual designs",
        element("p", _ABOUT_DESIGNS),
        *tables,
        element("h3", "What these figures assume"),
        element("p", ASSUMPTIONS),
    )


_ABOUT_DESIGNS = (
    "These designs have one fixed size, or five equally spaced looks. Those with looks end at the "
    "first look at which they can make their claim of an arm. Of the arms for which they can, they "
    "name the one with the largest estimated mean. The rows of this policy are from its runs, with "
    "intervals in brackets; without a control its false claims are its wrong answers."
)


def _designs_of_claim(
    rows: Sequence[Characteristics], claim: str, level: float
) -> Iterator[Markup]:
    """Yield what is said of the designs with a claim, and their table."""
    designs = [one for row in rows for one in row.comparators if one.claim == claim]
    cells: list[tuple[object, ...]] = []
    for row in rows:
        cells.append(_cells_of_policy(row, claim, level))
        cells += [_cells_of_design(row, one) for one in row.comparators if one.claim == claim]
    heads = (
        "Scenario",
        "Design",
        "Most",
        "Mean",
        "Right answer named",
        "Some such arm shown",
        "Arm beyond a limit named",
        "Any false claim",
    )
    title = TITLES_OF_CLAIMS[claim]
    yield element("h3", title)
    yield element("p", designs[0].question)
    yield table(f"{title}: numbers of results, and answers", heads, cells, words={0, 1})


def _cells_of_policy(row: Characteristics, claim: str, level: float) -> tuple[object, ...]:
    runs, scenario = row.simulation, row.scenario
    right = runs_with_claim(scenario, runs, claim, true=True)
    shown = None if right is None else Proportion.of(int(right.sum()), right.size, level)
    wrong = row.wrong
    if row.claims:
        false = runs_with_claim(scenario, runs, claim, true=False)
        wrong = Proportion.of(0 if false is None else int(false.sum()), row.wrong.runs, level)
    return (
        label(row.scenario.name),
        "this policy",
        count(row.max_pulls),
        number(row.pulls.mean),
        *map(_short_share, (row.right, shown, row.harmful, wrong)),
    )


def _short_share(found: Proportion | None) -> str:
    if found is None:
        return NOTHING
    low, high = (percent(end).removesuffix(" %") for end in (found.lower, found.upper))
    return f"{percent(found.rate)} ({low} to {high})"


def _cells_of_design(row: Characteristics, design: Comparator) -> tuple[object, ...]:
    return (
        label(row.scenario.name),
        design.name,
        count(design.most),
        number(design.results),
        *(
            NOTHING if one is None else percent(one.rate)
            for one in (design.right, design.shown, design.harmful, design.wrong)
        ),
    )


# ------------------------------------------------------------------------- limitations


def limitations(found: OperatingCharacteristics) -> Markup:
    """Return the section on what these results do not show."""
    points = [
        "The scenarios are assumptions: a truth that is none of them has other characteristics.",
        (
            "A share of no runs is no proof that the probability is zero: see the upper ends of "
            "the intervals."
        ),
        (
            "The true mean of each arm in each group is assumed not to change during the study, "
            "except in scenarios with a drift."
        ),
        "A study that ends undecided promises nothing, and its leader is no answer.",
        "The mean of the named arm is too large on average: see the table of its bias.",
    ]
    if found.delay_days is not None:
        points.append(
            "Accrual is steady and the delay is the same for every pull. Outcomes with several "
            "measures count when the last of them is known."
        )
    if any(not row.scenario.environment.keeps_assumptions for row in found):
        points.append("In scenarios with losses or drift the usual designs are not shown.")
    return section("Limitations", bullets(points))


def items(shown: Sequence[str]) -> Markup:
    """Return the table that says where the items of the guidelines are.

    `shown` has the sections of the page, by the names in their addresses.
    """
    rows = []
    for what, guideline, place in _ITEMS:
        if place is None:
            where: object = "not in this report: state it in the protocol"
        elif place in shown:
            where = element("a", place.replace("-", " ").capitalize(), href=f"#{place}")
        else:
            where = "not in this report: the file does not state what it needs"
        rows.append((what, guideline, where))
    said = (
        "ICH E20 is cited by topic, after its draft of June 2025; ACE is the CONSORT extension "
        "for adaptive designs of 2020, which is for reports of finished trials."
    )
    heads = ("Item", "Guideline", "Section")
    return section("Where to find what", element("p", said), table("Items", heads, rows))


# ------------------------------------------------------------------------------ pieces


def _place(row: Characteristics) -> tuple[Markup, str]:
    return label(row.scenario.name), count(row.max_pulls)


def _share(found: Proportion | None) -> str:
    if found is None:
        return NOTHING
    return f"{percent(found.rate)} ({percent(found.lower)} to {percent(found.upper)})"


def _day(day: float, starts: date | None) -> str:
    return number(day) if starts is None else f"{starts + timedelta(days=round(day))}"


def _last_rows(found: OperatingCharacteristics) -> list[Characteristics]:
    most = max(row.max_pulls for row in found)
    return [row for row in found if row.max_pulls == most]
