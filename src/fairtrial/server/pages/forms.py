"""The forms for carrying out a study by hand, as data: their fields, titles and explanations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairtrial.core import Problem
from fairtrial.server.blinding import Entered, may_correct
from fairtrial.server.pages.fields import (
    Field,
    Fields,
    correction_fields,
    number_typed,
    tell_fields,
    units,
)
from fairtrial.server.pages.words import words_for
from fairtrial.server.security.access import Caller
from fairtrial.study import Study
from fairtrial.study.conduct import Conduct, example
from fairtrial.study.log import PullRow
from fairtrial.study.writes import Checks

__all__ = [
    "Form",
    "ask_fields",
    "close_fields",
    "forms_of",
    "kit_fields",
    "may_unmask",
    "predictions_typed",
    "reading_fields",
    "reason_field",
    "stop_fields",
]

_MOST_OFFERED = 200
"""The largest number of arms, and of groups, that a form offers to close."""

_PREDICTION = "prediction_"
"""The beginning of the names of fields with predictions."""

_REASON = "It is kept in the log and shown to its readers."


@dataclass(frozen=True, slots=True)
class Form:
    """A form about one pull.

    Parameters
    ----------
    name, title, explanation, button : str
        Its name in addresses, its title, what it does, and the label of its button.
    fields : Fields
        The fields of the form.
    danger : bool
        Whether pressing the button by mistake would do harm.
    """

    name: str
    title: str
    explanation: str
    button: str
    fields: Fields
    danger: bool = False


def forms_of(
    row: PullRow, study: Study, viewer: Caller, seen: Entered, refused: Mapping[str, Fields]
) -> list[Form]:
    """Return the forms that a user may submit about a pull, and those that were just refused."""
    problem = study.problem
    known = list(seen.values or ()) if problem.measures else []
    tell = tell_fields(problem, [name for name in problem.outcome_fields if name not in known])
    conduct = study.checks.conduct
    one = words_for(conduct).one
    is_told = row.told_seq is not None
    corrections = [*correction_fields(problem, known, is_told=is_told), reason_field()]
    explanation = (
        "Enter the values that you have, and leave the others blank until you have them: each "
        "counts as soon as all are there, and is never lost."
        if len(problem.measures) > 1
        else "It counts as soon as it is recorded, and is never lost."
    )
    every = {
        "tell": Form(
            "tell",
            "Tell the result",
            explanation,
            "Record the result",
            refused.get("tell") or Fields(tell),
        ),
        "report": Form(
            "report",
            "Report an early reading",
            "A value that is known before the result. It may show that the result is no longer "
            "needed.",
            "Record the reading",
            refused.get("report") or Fields(reading_fields()),
        ),
        "kit": Form(
            "kit",
            "Another kit" if conduct.masked else "Record a kit",
            "If the first one is broken or used up: the study chooses it."
            if conduct.masked
            else f"The number of the kit that was handed out. Each kit belongs to one {one}.",
            "Get another kit" if conduct.masked else "Record the kit",
            refused.get("kit") or kit_fields(conduct),
        ),
        "fail": Form(
            "fail",
            "There will be no result",
            "For example because somebody left, or a sample was lost. If results are missing "
            "because of their values, the answer may be wrong; so say why.",
            "Record that there will be none",
            refused.get("fail") or Fields([reason_field()]),
            danger=True,
        ),
        "amend": Form(
            "amend",
            "Correct what was told" if row.told_seq is None else "Correct the result",
            "A value that is on record was wrong. It stays in the log beside the correction.",
            "Record the correction",
            refused.get("amend") or Fields(corrections),
            danger=True,
        ),
        "unmask": Form(
            "unmask",
            f"Unmask this {one}",
            "In an emergency: see what is behind its code. The log keeps your name and the reason. "
            "You need the unmasking list, a file that is kept apart from this service.",
            "Record the access, and open the list",
            refused.get("unmask") or Fields([reason_field()]),
            danger=True,
        ),
    }
    if row.told_seq is not None:
        names = ["amend"] if may_correct(study, viewer, row, seen) else []
    else:
        names = ["tell"] if tell else []
        if row.state == "open":
            names += [*(["report"] if problem.has_readings else []), "fail"]
        names += ["amend"] if may_correct(study, viewer, row, seen) else []
    names += ["kit"] if conduct.kits is not None else []
    names += ["unmask"] if may_unmask(study, viewer) else []
    # Show the refused form even if the pull has changed meanwhile.
    return [every[name] for name in dict.fromkeys([*refused, *names])]


def may_unmask(study: Study, viewer: Caller) -> bool:
    """Return whether there is an unmasking list that the user may open."""
    return (
        viewer.can("admin")
        and study.checks.conduct.masked
        and study.session.store.first(study.session.id, "mask") is not None
    )


def ask_fields(study: Checks) -> Fields:
    """Return the fields of the form to ask for pulls."""
    required = study.conduct.require_group
    who = "person here" if study.conduct.participants is None else "participant"
    hint, blank = (
        ("Say who is here: this study is always asked for a group.", "Please choose")
        if required
        else (
            "If people come by themselves, say who is here. Otherwise let the study choose.",
            "Let the study choose",
        )
    )
    arrivals = [
        Field(
            f"context_{name}",
            f"{name.capitalize()} of the {who}",
            hint,
            options=[("", blank), *((value, value) for value in shares)],
            required=required,
        )
        for name, shares in study.problem.stated_shares.items()
    ]
    number = Field("n", "How many pulls", "A whole number, at most 1,000.", "1", is_number=True)
    form = study.conduct.participants
    if form is not None:
        hint = f"A number such as {example(form)}: never a name or a date of birth."
        number = Field("participant", "Participant", hint)
    # A lease would lose results of participants that take longer than somebody once typed.
    leases = [] if form is not None else _lease_fields()
    return Fields([number, *arrivals, *_prediction_fields(study.problem), *leases])


def _lease_fields() -> list[Field]:
    """Return the fields for how long a pull may take."""
    return [
        Field(
            "lease",
            "Fail pulls without a result after",
            "Leave it blank to wait for as long as it takes.",
            required=False,
            is_number=True,
        ),
        Field("unit", "Unit of that time", value="days", options=units(), required=False),
    ]


def _prediction_fields(problem: Problem) -> list[Field]:
    """Return the fields for what is known of a unit before its arm, if the problem asks for it."""
    stated = getattr(problem, "predictions", {})
    return [
        Field(
            f"{_PREDICTION}{place}",
            f"Prediction of {name}" if problem.measures else "Prediction",
            "What was known of this unit before: a number.",
            required=own.missing == "refuse",
            is_number=True,
        )
        for place, (name, own) in enumerate(stated.items())
    ]


def predictions_typed(fields: Fields, problem: Problem) -> dict[str, Any]:
    """Return the predictions in the form of a context; empty if there are none."""
    names = list(getattr(problem, "predictions", {}))
    typed = {name: number_typed(fields, f"{_PREDICTION}{at}") for at, name in enumerate(names)}
    known = {name: value for name, value in typed.items() if value is not None}
    if not known:
        return {}
    return {"prediction": known if problem.measures else next(iter(known.values()))}


def reason_field() -> Field:
    """Return the field for a reason."""
    return Field("reason", "Reason", _REASON, lines=2)


def kit_fields(conduct: Conduct) -> Fields:
    """Return the field for the number of a kit; a masked study chooses the kit by itself."""
    if conduct.masked:
        return Fields([])
    return Fields([Field("kit", "Kit", f"A number such as {example(conduct.kits or '')}.")])


def stop_fields() -> Fields:
    """Return the fields of the form to stop the study."""
    return Fields([reason_field()])


def close_fields(study: Study) -> Fields:
    """Return the fields of the form to close an arm or a group."""
    with study.session.replica_at_head() as (_, replica):
        closed = {(one.name, one.label) for one in replica.closings}
    parts = {
        "arm": list(map(str, study.problem.answer_labels)),
        "group": list(study.problem.stated_shares.get("group", ())),
    }
    control = getattr(study.problem, "control", None)
    options = [
        (
            f"{name}-{label}",
            f"{name} {label}{' (the control)' * ((name, label) == ('arm', control))}",
        )
        for name, labels in parts.items()
        for label in labels[:_MOST_OFFERED]
        if (name, label) not in closed
    ]
    return Fields(
        [Field("part", "What to close", options=[("", "Please choose"), *options]), reason_field()]
    )


def reading_fields() -> list[Field]:
    """Return the fields of the form to report a reading."""
    hint = "A whole number from 1; leave it blank for the next one."
    return [
        Field("value", "Reading", "A number, such as 0.5.", is_number=True),
        Field("stage", "Which reading it is", hint, required=False, is_number=True),
    ]
