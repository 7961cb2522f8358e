"""Pages that show the pulls of a study, with the forms for carrying them out."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from fairtrial.core.wording import plural, said_at_ask_of_closed_groups
from fairtrial.errors import UnknownPull
from fairtrial.presentation.words import count, number, outcome_in_words
from fairtrial.server.blinding import Entered, entered, require_own, sees_arms
from fairtrial.server.pages.fields import Fields
from fairtrial.server.pages.forms import (
    ask_fields,
    close_fields,
    forms_of,
    may_unmask,
    reason_field,
    stop_fields,
)
from fairtrial.server.pages.guarded import PageRoute
from fairtrial.server.pages.observers import View
from fairtrial.server.pages.routes import shown, study_page, viewer_of
from fairtrial.server.pages.site import address
from fairtrial.server.pages.tabs import PULLS
from fairtrial.server.pages.words import words_for
from fairtrial.server.routes.common import PullId, StudyName
from fairtrial.server.security.access import Caller
from fairtrial.server.service import Service, TheService
from fairtrial.study import Study
from fairtrial.study.early_values import early_records
from fairtrial.study.log import PullRow, as_time
from fairtrial.study.numbers import numbers_of
from fairtrial.study.writer import participant_key

routes = APIRouter(include_in_schema=False, route_class=PageRoute)

_MOST_SHOWN = 200
_MOST_ENTERED = 100
_STATES = {
    "open": "open: waiting for its result",
    "told": "has a result",
    "expired": "expired: its time is over; a late result is still accepted",
    "cancelled": "cancelled; a late result is still accepted",
    "lost": "given up; a late result is still accepted",
}
NO_CACHE = {"Cache-Control": "no-store"}


@routes.get("/studies/{study}/pulls")
async def show_pulls(
    request: Request,
    service: TheService,
    study: StudyName,
    done: str | None = None,
    participant: str | None = None,
) -> Response:
    """Return the open pulls and the form to ask for more, or the pull of a participant.

    Those who only read the study get the list.
    """
    viewer = await viewer_of(request, service, study)
    viewer.require("read" if viewer.can("read") else "run", study)
    if participant is not None:
        return await _found_pull(request, service, viewer, study, participant.strip())
    return await pulls_page(request, service, viewer, study, said=done)


async def _found_pull(
    request: Request, service: Service, viewer: Caller, study: str, participant: str
) -> Response:
    """Redirect to the pull of a participant, or say that the user has none of that number."""
    viewer.require("run", study)

    def find(opened: Study) -> str | None:
        row = opened.session.pull_with_key(participant_key(participant))
        is_own = row is not None and (viewer.can("read") or row.worker == viewer.actor)
        return row.pull_id if row is not None and is_own else None

    found = await service.readers.run(study, find, viewer.actor)
    if found is None:
        return await pulls_page(request, service, viewer, study, said="not-found")
    return RedirectResponse(address(study, "pulls", found), 303)


@routes.get("/studies/{study}/entered")
async def show_entered(
    request: Request, service: TheService, study: StudyName, after: int = -1
) -> Response:
    """Return all pulls with what was entered; without the scope ``read``, the user's own."""
    viewer = await viewer_of(request, service, study)
    viewer.require("run", study)

    def make(view: View) -> Response:
        opened = view.observer.study
        store, worker = opened.session.store, None if viewer.can("read") else viewer.actor
        begin = max(after, -1)
        rows = store.some_pulls(opened.session.id, None, worker, begin, _MOST_ENTERED + 1)
        page = rows[:_MOST_ENTERED]
        hidden = _Shown(opened, viewer)
        last = f"{address(study, 'entered')}?after={page[-1].number}" if page else ""
        return study_page(
            *(request, viewer, PULLS, view, [], "entered.html"),
            headers=NO_CACHE,
            pulls=[
                _entered_line(row, seen, cells)
                for row, seen, cells in zip(
                    page, entered(opened, viewer, page), hidden.cells(page), strict=True
                )
            ],
            later=last if len(rows) > len(page) else "",
            is_first=begin < 0,
            columns=hidden.columns,
        )

    return await shown(request, service, viewer, study, make, may_be_known=False)


def _entered_line(row: PullRow, seen: Entered, cells: Sequence[str]) -> dict[str, Any]:
    return {
        "id": row.pull_id,
        "number": row.number,
        "cells": cells,
        "state": _STATES.get(row.state, row.state).partition(":")[0].partition(";")[0],
        "entered": "" if seen.values is None else outcome_in_words(seen.values),
        "note": "corrected by somebody else" if seen.is_outdated else "",
    }


async def pulls_page(
    request: Request,
    service: Service,
    viewer: Caller,
    study: str,
    *,
    refused: Mapping[str, Fields] | None = None,
    status: int = 200,
    said: str | None = None,
) -> Response:
    """Return the page of the open pulls, with forms that were refused in place of blank ones."""

    def make(view: View) -> Response:
        opened = view.observer.study
        store, worker = opened.session.store, None if viewer.can("read") else viewer.actor
        rows = store.some_pulls(opened.session.id, "open", worker, -1, _MOST_SHOWN)
        labels = _Shown(opened, viewer, has_blocks=opened.session.has_blocks)
        again = refused or {}
        return study_page(
            *(request, viewer, PULLS, view, [], "pulls.html"),
            status=status,
            headers=NO_CACHE,
            done=_done(opened, viewer, said),
            stopped=opened.stopped,
            closed=_said_of_closed(opened),
            ask=again.get("ask") or ask_fields(opened.checks),
            stop=again.get("stop") or stop_fields(),
            close=again.get("close") or (close_fields(opened) if viewer.can("admin") else None),
            may_run=viewer.can("run"),
            has_participants=opened.checks.conduct.participants is not None,
            may_stop=viewer.can("admin") and not opened.stopped,
            unmask=(again.get("unmask") or Fields([reason_field()]))
            if may_unmask(opened, viewer)
            else None,
            key=secrets.token_hex(16),
            pulls=[
                _pull_line(row, cells, asked.at)
                for row, cells, asked in zip(
                    rows, labels.cells(rows), opened.session.asked_for(rows), strict=True
                )
            ],
            total=store.count_open(opened.session.id, worker),
            columns=labels.columns,
        )

    return await shown(request, service, viewer, study, make, may_be_known=status == 200)


def _said_of_closed(opened: Study) -> str:
    """Return what whoever asks must know if people have closed groups; otherwise nothing."""
    closings = opened.rare_events("close")
    groups = [one.body["group"] for one in closings if one.body.get("group")]
    if not groups:
        return ""
    said = said_at_ask_of_closed_groups(groups)
    return f"{said[0].upper()}{said[1:]}."


class _Shown:
    """What a table says about pulls: participants, labels, kits and blocks, as far as shown.

    Parameters
    ----------
    study, viewer : Study, Caller
        The study, and who looks at it.
    has_blocks : bool
        Whether there is a column for the block.
    """

    def __init__(self, study: Study, viewer: Caller, *, has_blocks: bool = False) -> None:
        self._study = study
        self._conduct = study.checks.conduct
        self._sees_arms = sees_arms(study, viewer)
        self._has_blocks = has_blocks and self._sees_arms

    @property
    def columns(self) -> list[str]:
        """The titles of the columns."""
        return [
            *(["Participant"] if self._conduct.participants else []),
            *(str(name).capitalize() for name in self._labels(0)),
            *(["Kits"] if self._conduct.masked else []),
            *(["Block"] if self._has_blocks else []),
        ]

    def _labels(self, action: int) -> dict[str, Any]:
        return self._conduct.shown_labels(self._study.problem, action, sees_arms=self._sees_arms)

    def cells(self, rows: Sequence[PullRow]) -> list[list[str]]:
        """Return the cells of each pull."""
        session = self._study.session
        numbers = numbers_of(session.store, session.id, self._conduct, rows)
        return [
            [
                *([own.participant or ""] if self._conduct.participants else []),
                *map(str, self._labels(row.action).values()),
                *([", ".join(own.kits)] if self._conduct.masked else []),
                *([str(row.tag)] if self._has_blocks else []),
            ]
            for row, own in zip(rows, numbers, strict=True)
        ]


def _pull_line(row: PullRow, cells: Sequence[str], asked: datetime) -> dict[str, Any]:
    due = "no date" if row.lease_until is None else f"{as_time(row.lease_until):%Y-%m-%d %H:%M} UTC"
    return {
        "id": row.pull_id,
        "number": row.number,
        "cells": cells,
        "asked": f"{asked:%Y-%m-%d}",
        "due": due,
        "worker": row.worker or "",
    }


@routes.get("/studies/{study}/pulls/{pull}")
async def show_pull(
    request: Request,
    service: TheService,
    study: StudyName,
    pull: PullId,
    done: str | None = None,
) -> Response:
    """Return one pull with its forms."""
    viewer = await viewer_of(request, service, study)
    viewer.require("run", study)
    return await pull_page(request, service, viewer, study, pull, said=done)


async def pull_page(
    request: Request,
    service: Service,
    viewer: Caller,
    study: str,
    pull: str,
    *,
    refused: Mapping[str, Fields] | None = None,
    status: int = 200,
    said: str | None = None,
) -> Response:
    """Return the page of one pull, with forms that were refused in place of blank ones."""

    def make(view: View) -> Response:
        opened = view.observer.study
        require_own(opened, viewer, pull)
        row = row_of(opened, pull)
        [seen] = entered(opened, viewer, [row])
        forms = forms_of(row, opened, viewer, seen, refused or {})
        return study_page(
            *(request, viewer, PULLS, view, [], "pull.html"),
            status=status,
            headers=NO_CACHE,
            # Do not reload this page while somebody types; nothing else on it changes.
            state="",
            done=_done(opened, viewer, said),
            number=row.number,
            participant=_participant_of(opened, row),
            pull_id=pull,
            seen=version_of(opened, row),
            facts=_facts(opened, viewer, row, seen),
            forms_shown=forms,
            key=secrets.token_hex(16),
        )

    return await shown(request, service, viewer, study, make, may_be_known=False)


def row_of(study: Study, pull: str) -> PullRow:
    """Return a pull of a study; raise if the study never issued it."""
    row = study.session.store.pull(study.session.id, pull)
    if row is None:
        raise UnknownPull("this study never issued such a pull")
    return row


def version_of(study: Study, row: PullRow) -> str:
    """Return a text that changes whenever what is on record of a pull is corrected, or told."""
    if row.value_seq is not None:
        return str(row.value_seq)
    session = study.session
    early = early_records(session.store, session.id, [row])
    return next((str(one.seq) for one in reversed(early) if one.kind == "amend"), "early")


def _facts(study: Study, viewer: Caller, row: PullRow, seen: Entered) -> list[tuple[str, str]]:
    problem, conduct, unmasked = study.problem, study.checks.conduct, sees_arms(study, viewer)
    labels = conduct.shown_labels(problem, row.action, sees_arms=unmasked)
    facts = [(str(name).capitalize(), str(label)) for name, label in labels.items()]
    facts += [
        (str(name), number(value) if isinstance(value, float) else str(value))
        for name, value in (problem.conditions(row.action) if unmasked else {}).items()
    ]
    if study.session.has_blocks and unmasked:
        facts.append(("Block", str(row.tag)))
    facts.append(("State", _STATES.get(row.state, row.state)))
    if row.worker:
        facts.append((words_for(conduct).asked_by, row.worker))
    if row.state == "open" and row.lease_until is not None:
        facts.append(("Due", f"{as_time(row.lease_until):%Y-%m-%d %H:%M} UTC"))
    session = study.session
    [numbers] = numbers_of(session.store, session.id, conduct, [row])
    if numbers.participant is not None:
        facts.insert(0, ("Number in the log", count(row.number)))
    if numbers.kits:
        facts.append(("Kits", ", ".join(numbers.kits)))
    if seen.values is not None:
        facts.append((_kind_of_values(row, seen), outcome_in_words(seen.values)))
    return facts


def _participant_of(study: Study, row: PullRow) -> str:
    """Return the number of a pull's participant; empty if the study has no such numbers."""
    session = study.session
    [numbers] = numbers_of(session.store, session.id, study.checks.conduct, [row])
    return numbers.participant or ""


def _kind_of_values(row: PullRow, seen: Entered) -> str:
    if seen.is_outcome:
        return "Result"
    if seen.is_outdated:
        return "You entered (somebody has corrected the result since)"
    return "Entered so far" if row.told_seq is None else "You entered"


_DONE = {
    "tell": "The result is recorded",
    "late_tell": "The late result is recorded",
    "report": "What you entered is recorded",
    "kit": "The kit is recorded",
    "fail": "It is recorded that there will be no result",
    "amend": "The correction is recorded",
    "stop": "The study is stopped",
    "close": "Nobody is asked for it any more",
}


def _done(study: Study, viewer: Caller, said: str | None) -> str:
    """Return what was done, read from the log so that a link cannot make the page lie."""
    if said is None:
        return ""
    if said == "not-found":
        whose = "The study has" if viewer.can("read") else "You have"
        return f"{whose} no participant with this number."
    kind, _, rest = said.partition("-")
    if kind == "none":
        return _why_no_pull(study, rest)
    if said == "again":
        return "This participant was assigned before; asking again has changed nothing."
    if kind == "ask" and rest == "1" and study.checks.conduct.participants is not None:
        return "The participant is assigned: see below."
    if kind == "ask" and rest.isascii() and rest.isdigit() and len(rest) < 6:
        # A single pull is shown on its own page.
        where = "" if rest == "1" else ": see the open pulls below"
        return f"{plural(int(rest), 'pull')} asked for{where}."
    if kind == "event" and rest.isascii() and rest.isdigit() and len(rest) < 19:
        event = next(study.events(max(int(rest) - 1, 0)), None)
        if event is None or not (viewer.can("read") or event.actor == viewer.actor):
            return ""
        if event.seq == int(rest) and event.kind in _DONE:
            return f"{_DONE[event.kind]}, as event {count(event.seq)}."
    return ""


def _why_no_pull(study: Study, group: str) -> str:
    is_stated = group in study.checks.problem.stated_shares.get("group", ())
    with study.session.at_head() as (_, policy):
        why = policy.why_no_pull(**({"group": group} if is_stated else {}))
    if study.stopped:
        return words_for(study.checks.conduct).stopped
    if why and study.checks.conduct.participants is not None:
        return f"Nobody can be assigned now: {why}."
    if why:
        return f"There is no pull to give: {why}."
    return "The study has no pull to give before the next result."
