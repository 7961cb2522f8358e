"""Routes for browsers: login, the list of studies, the tabs of a study, static files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from fairtrial.presentation.ranges import Range
from fairtrial.presentation.sources import StudyLike, said_of_replay
from fairtrial.presentation.words import count, plural
from fairtrial.report.findings import Findings, Zoom
from fairtrial.report.glossary import glossary
from fairtrial.report.html import section
from fairtrial.report.log import event_table, origin
from fairtrial.server.blinding import seal
from fairtrial.server.pages.guarded import PageRoute, login_address
from fairtrial.server.pages.observer import Checks, ObservedStudy
from fairtrial.server.pages.observers import Observers, View
from fairtrial.server.pages.site import (
    THEMES,
    address,
    asset,
    markup,
    page,
)
from fairtrial.server.pages.tabs import Tab, tabs_of
from fairtrial.server.pages.words import words_for
from fairtrial.server.pages.zoom import wanted, zoom_of
from fairtrial.server.problems import Refusal
from fairtrial.server.routes.common import StudyName
from fairtrial.server.security.access import Caller
from fairtrial.server.service import Service, TheService
from fairtrial.study import Store
from fairtrial.study.log import as_time
from fairtrial.study.long_reads import keep_going
from fairtrial.study.specification import family_and_policy
from fairtrial.study.store import StudyRow

routes = APIRouter(include_in_schema=False, route_class=PageRoute)

_STUDIES = 100
_NAMES = 1_000
"""Number of names that are read at a time."""
_EVENTS = 50
_LOOK = 0.15
"""Seconds that a request may spend reading more detail; the rest is read in the background."""
_LONGEST_PART = 60
_YEAR = 365 * 24 * 3600
_KINDS = {
    "subpopulations": "The best arm that fails no group",
    "linear": "The best of options with known features",
    "delayed": "The best arms, with results that come late",
    "causal": "The best intervention that is fair",
    "allocation": "Good service, with a share for every arm",
}
_STATES = {
    "running": "running",
    "decided": "decided",
    "undecided": "stopped without an answer",
}


# ------------------------------------------------------------------------- in and out


@routes.get("/static/{name}")
async def static(name: str) -> Response:
    """Return a static file."""
    found = asset(name)
    if found is None:
        raise Refusal(404, "not-found", "there is no such file")
    return found


@routes.get("/login")
async def show_login(request: Request, service: TheService) -> Response:
    """Return the login form."""
    viewer = await service.access.find(request)
    wanted = _own_path(request.query_params.get("next"))
    if viewer is not None:
        return RedirectResponse(wanted, 303)
    return page(request, "login.html", None, next=wanted, error="")


@routes.post("/login")
async def log_in(request: Request, service: TheService) -> Response:
    """Log a browser in."""
    form = await request.form()
    wanted = _own_path(form.get("next"))
    response = RedirectResponse(wanted, 303)
    viewer = await service.access.log_in(request, response, str(form.get("token", "")))
    if viewer is None:
        said = "This token is unknown or no longer valid."
        return page(request, "login.html", None, 403, next=wanted, error=said)
    return response


@routes.post("/logout")
async def log_out(request: Request, service: TheService) -> Response:
    """Log a browser out."""
    viewer = await service.access.find(request)
    response = RedirectResponse("/login", 303, {"Clear-Site-Data": '"cache"'})
    if viewer is not None:
        viewer.require_csrf(str((await request.form()).get("csrf", "")))
        await service.access.log_out(request, response)
    return response


@routes.post("/colours")
async def choose_colours(request: Request) -> Response:
    """Remember the choice of colours: light, dark, or the device's setting."""
    form = await request.form()
    theme = form.get("theme")
    response = RedirectResponse(_own_path(form.get("back")), 303)
    if theme in THEMES:
        secure = request.url.scheme == "https"
        response.set_cookie("theme", str(theme), _YEAR, secure=secure, samesite="strict")
    return response


def _own_path(wanted: object) -> str:
    """Return a path on this site; replace anything that could lead elsewhere by ``/``."""
    given = wanted if isinstance(wanted, str) else "/"
    is_own = given.startswith("/") and given.isascii() and given.isprintable()
    return given if is_own and not given.startswith("//") and "\\" not in given else "/"


# ----------------------------------------------------------------------------- studies


@routes.get("/")
async def list_studies(request: Request, service: TheService, before: int = 0) -> Response:
    """Return the studies that the user may see, the newest first."""
    viewer = await viewer_of(request, service)

    begin = max(before, 0)

    def read(store: Store) -> tuple[list[StudyRow], int]:
        names, total = _newest(store, viewer, begin + _STUDIES)
        return store.studies_named(names[begin:]), total

    shown, total = await service.readers.run_listing(read, viewer.actor)
    more = f"/?before={begin + _STUDIES}" if total > begin + _STUDIES else None
    rows = [_line(row, viewer) for row in shown]
    return page(request, "studies.html", viewer, rows=rows, total=total, older=more)


def _newest(store: Store, viewer: Caller, most: int) -> tuple[list[str], int]:
    """Return names of the newest studies that the user may see, and how many there are."""
    sees_all = viewer.token.studies is None
    names: list[str] = []
    before: int | None = None
    while not (sees_all and len(names) >= most):
        keep_going()
        found = store.newest_names(2**62 if before is None else before, _NAMES)
        names += (name for _, name in found if viewer.sees(name))
        if len(found) < _NAMES:
            break
        before = found[-1][0]
    return names[:most], sum(store.statuses().values()) if sees_all else len(names)


def _line(row: StudyRow, viewer: Caller) -> dict[str, Any]:
    state = _STATES.get(row.status, row.status)
    if not viewer.can("read") and row.status != "running":
        state = "stopped"
    return {
        "name": row.name,
        "link": address(row.name, tabs_of(viewer)[0].name),
        "state": state,
        "kind": _KINDS.get(family_and_policy(row.spec_json)[0], "A question of its own"),
        "events": row.head_seq,
        "begun": f"{as_time(row.created_at):%Y-%m-%d}",
    }


@routes.get("/studies/{study}")
async def open_study(request: Request, service: TheService, study: StudyName) -> Response:
    """Redirect to the first tab of a study."""
    viewer = await viewer_of(request, service, study)
    return RedirectResponse(address(study, tabs_of(viewer)[0].name), 303)


@routes.get("/studies/{study}/log")
async def show_log(
    request: Request, service: TheService, study: StudyName, after: int | None = None
) -> Response:
    """Return a page of the log's events, the newest first."""
    viewer = await viewer_of(request, service, study)
    tab = _tab(viewer, "log")

    def make(view: View) -> Response:
        head = view.row.head_seq
        begin = max(
            0, min(head if after is None else after, head) - (_EVENTS if after is None else 0)
        )
        found = view.observer.observed()
        events = list(islice(found.events(begin), min(_EVENTS, max(head - begin, 0))))
        last = begin + len(events)
        title = f"Events {count(begin + 1)} to {count(last)} of {count(head)}, the newest first"
        table = event_table(
            found.problem,
            title if events else "No events yet",
            events[::-1],
            of_units=_is_analysis(found),
        )
        parts = [section("Log", table), *origin(found)]
        links = _pages_of_log(study, begin, head)
        return study_page(request, viewer, tab, view, parts, "log.html", pages=links)

    return await shown(request, service, viewer, study, make)


def _pages_of_log(study: str, begin: int, head: int) -> list[tuple[str, str | None]]:
    def link(after: int) -> str:
        return f"{address(study, 'log')}?{urlencode({'after': after})}"

    is_newest, is_oldest = begin + _EVENTS >= head, begin == 0
    return [
        ("Newest", None if is_newest else address(study, "log")),
        ("Newer", None if is_newest else link(min(begin + _EVENTS, max(head - _EVENTS, 0)))),
        ("Older", None if is_oldest else link(max(begin - _EVENTS, 0))),
        ("Oldest", None if is_oldest else link(0)),
    ]


@routes.get("/studies/{study}/{name}")
async def show_tab(request: Request, service: TheService, study: StudyName, name: str) -> Response:
    """Return a tab of a study."""
    viewer = await viewer_of(request, service, study)
    tab = _tab(viewer, name)
    if tab.zooms:
        return await _show_zoomed(request, service, viewer, study, tab)

    def make(view: View) -> Response:
        parts, notes = _parts(tab, view.observer.observed(), view)
        return study_page(request, viewer, tab, view, parts, notes=notes)

    return await shown(request, service, viewer, study, make)


async def _show_zoomed(
    request: Request, service: Service, viewer: Caller, study: str, tab: Tab
) -> Response:
    """Return a tab with charts over time, for the range of results in the address."""
    asked = wanted(request)

    def make(view: View) -> Response:
        found = view.observer.observed()
        total = found.end.told
        chosen = asked.range_of(total)
        problem = chosen if isinstance(chosen, str) else ""
        part = Range(0, total, total) if isinstance(chosen, str) else chosen
        is_reading_more = False
        if not part.is_whole:
            found = found.looked_at(view.observer.read_range(part.begin, part.end, _LOOK))
            is_reading_more = view.observer.is_reading_more
        path = address(study, tab.name)
        zoom = (
            zoom_of(part, path, asked, problem, is_reading_more=is_reading_more)
            if total > 1
            else None
        )
        parts, notes = _parts(tab, found, view, zoom)
        return study_page(
            *(request, viewer, tab, view, parts),
            status=422 if problem else 200,
            notes=notes,
            zoom=zoom,
            problem=problem,
            state=state(view),
        )

    def state(view: View) -> str:
        whole = _state(viewer, view)
        if asked.is_whole:
            return whole
        part = quote(f"{asked.begin}-{asked.end}", safe="")[:_LONGEST_PART]
        return f"{whole}-{part}-{view.observer.looks}"

    return await shown(request, service, viewer, study, make, state=state)


def _parts(
    tab: Tab, found: ObservedStudy, view: View, zoom: Zoom | None = None
) -> tuple[Sequence[Any], list[str]]:
    assert tab.sections is not None
    notes = []
    if tab.follows and view.observer.seq < view.row.head_seq:
        notes.append(
            f"The history is being read: {count(view.observer.seq)} of "
            f"{plural(view.row.head_seq, 'event')} so far. Figures over time end there."
        )
    if tab.name == "health" and found.checks is None:
        notes.append("The whole log is being checked for the first time; this takes a while.")
        return [section("Health")], notes
    if tab.name == "health" and found.checks is not None:
        notes.append(_said_of_checks(found.checks, view.row))
    findings = Findings.of(found, None, arrivals=view.observer.arrivals, zoom=zoom)
    return tab.sections(findings), notes


def _said_of_checks(checks: Checks, row: StudyRow) -> str:
    newest = ", the newest"
    if checks.seq < row.head_seq:
        newest = f" of {count(row.head_seq)}; warnings are those of then, counts those of now"
    return (
        f"The whole log was checked at {_moment(checks.made_at)}, up to event "
        f"{count(checks.seq)}{newest}."
    )


# ----------------------------------------------------------------- what all tabs share


async def viewer_of(request: Request, service: Service, study: str | None = None) -> Caller:
    """Return the user; redirect to the login form if no user is logged in.

    Raises
    ------
    Refusal
        With the status 404 if the user may not see the study, and 303 to redirect.
    """
    viewer = await service.access.find(request)
    if viewer is None:
        raise Refusal(303, "login", "log in first", headers={"Location": login_address(request)})
    if study is not None and not viewer.sees(study):
        raise Refusal(404, "study-not-found", f"there is no study {study!r}")
    return viewer


def _tab(viewer: Caller, name: str) -> Tab:
    found = next((tab for tab in tabs_of(viewer) if tab.name == name), None)
    if found is None:
        raise Refusal(404, "not-found", "There is no such page, or you may not see it.")
    return found


async def shown(
    request: Request,
    service: Service,
    viewer: Caller,
    study: str,
    make: Callable[[View], Response],
    *,
    may_be_known: bool = True,
    state: Callable[[View], str] | None = None,
) -> Response:
    """Return a page about a study; 304 without content if the browser already has it."""

    def tag_of(view: View) -> str:
        return _tag(request, viewer, state(view) if state else _state(viewer, view))

    def answer(view: View) -> Response:
        tag = tag_of(view)
        if may_be_known and tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers={"ETag": tag})
        response = make(view)
        # The tag differs if making the page has read more detail.
        response.headers["ETag"] = tag_of(view)
        return response

    return await _observers(request, service).show(study, answer, viewer.actor)


def _tag(request: Request, viewer: Caller, state: str) -> str:
    scopes = "".join(scope[0] for scope in ("read", "run", "admin") if viewer.can(scope))
    theme = request.cookies.get("theme", "")[:6]
    form = (viewer.csrf_token or "")[:8]
    return f'"{state}-{scopes}-{quote(theme)}-{form}"'


def _state(viewer: Caller, view: View) -> str:
    """Return a text that changes whenever the page would."""
    return view.state if viewer.can("read") else seal(view.state)


def _observers(request: Request, service: Service) -> Observers:
    state = request.app.state
    if not hasattr(state, "observers"):
        state.observers = Observers(service.readers)
    observers: Observers = state.observers
    return observers


def study_page(
    request: Request,
    viewer: Caller,
    tab: Tab,
    view: View,
    parts: Sequence[Any],
    template: str = "study.html",
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    **content: Any,
) -> Response:
    """Return a page about a study.

    Parameters
    ----------
    request, viewer, tab, view
        The request, the user, the tab, and the study.
    parts : sequence of Markup or None
        Sections that the report's functions have written.
    template, status, headers, **content
        As for any page.
    """
    study = view.observer.study
    known = {
        "study": study.name,
        "tab": tab,
        "tabs": tabs_of(viewer),
        "question": study.problem.in_words().get("Question", ""),
        "replayed": said_of_replay(view.observer.first_teller),
        "notes": [],
        "zoom": None,
        "problem": "",
        "sections": [markup(part) for part in parts if part is not None],
        "words": words_for(study.checks.conduct),
        "glossary": markup(glossary(_is_analysis(study))),
        "state": _state(viewer, view),
        "events": view.row.head_seq,
        "moment": _moment(datetime.now(UTC)),
    }
    return page(request, template, viewer, status, headers, **(known | content))


def _is_analysis(study: StudyLike) -> bool:
    """Return whether a study is the analysis of a finished experiment."""
    return getattr(study.policy, "assigned", None) is not None


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
