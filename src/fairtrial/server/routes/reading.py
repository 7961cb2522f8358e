"""Routes that read a study: its answer, its progress, its health and its log."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import Depends, Query, Request, Response
from fastapi.responses import FileResponse, StreamingResponse
from starlette.background import BackgroundTask

from fairtrial.presentation.limits import document_of
from fairtrial.presentation.recruitment import recruitment
from fairtrial.server.documents import event_document, to_text
from fairtrial.server.routes.common import Limit, StudyName, document, router, unchanged
from fairtrial.server.schemas import EventsAnswer
from fairtrial.server.security.access import Caller
from fairtrial.server.service import Service, TheService, TheViewer
from fairtrial.study import Study
from fairtrial.study.export import LogText, export
from fairtrial.study.log import Record
from fairtrial.study.store import StudyRow

routes = router("results")

_NDJSON = "application/x-ndjson"
_FILES: dict[str, dict[str, Any]] = {
    kind: {}
    for kind in (
        "application/jsonl",
        "text/csv",
        "application/vnd.apache.parquet",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    )
}
_PAGE = 1_000
"""Number of events fetched at a time for a stream, to limit the memory used."""
_LONGEST_FILE_NAME = 60
"""Characters; file systems allow 255 bytes."""
_MEDIA_TYPES = {
    "jsonl": "application/jsonl",
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}


@dataclass(frozen=True, slots=True)
class Reader:
    """A request that reads a study, and its caller."""

    request: Request
    service: Service
    viewer: Caller
    study: str

    async def answer(self, find: Callable[[Study], Any], *, takes_long: bool = False) -> Response:
        """Return the result of `find`, or 304 if the caller already has it for this state."""
        headers, known = await unchanged(self.request, self.service, self.viewer, self.study)
        if known is not None:
            return known
        if takes_long:
            found = await self.service.readers.run_long(self.study, find, self.viewer.actor)
        else:
            found = await self.service.readers.run(self.study, find, self.viewer.actor)
        return document(found, headers)


async def _reader(
    request: Request, service: TheService, viewer: TheViewer, study: StudyName
) -> Reader:
    return Reader(request, service, viewer, study)


TheReader = Annotated[Reader, Depends(_reader)]


@routes.get("/v1/studies/{study}/recommendation", summary="The present answer")
async def recommendation(reader: TheReader) -> Response:
    """Return the present answer, or which arm leads, with the guarantee behind it."""
    reader.viewer.require("read", reader.study)
    return await reader.answer(lambda opened: opened.recommend().to_dict())


@routes.get("/v1/studies/{study}/progress", summary="The progress of the study")
async def progress(reader: TheReader) -> Response:
    """Return estimates with intervals, the evidence, and the expected remaining work."""
    reader.viewer.require("read", reader.study)
    return await reader.answer(lambda opened: document_of(opened.progress()))


@routes.get("/v1/studies/{study}/health", summary="Signs of problems")
async def health(
    service: TheService,
    viewer: TheViewer,
    study: StudyName,
    blinded: Annotated[bool, Query(description="Leave out everything that would unblind.")] = False,
) -> Response:
    """Return numbers of lost and late pulls, and warnings about assumptions."""
    viewer.require("run" if blinded and not viewer.can("read") else "read", study)
    found = await service.readers.run_long(
        study, lambda opened: opened.health(blinded=blinded), viewer.actor
    )
    return document(found, {"Cache-Control": "no-store"})


@routes.get("/v1/studies/{study}/recruitment", summary="Numbers of pulls and results")
async def recruited(reader: TheReader) -> Response:
    """Return numbers of pulls and results for people who recruit: nothing by arm."""
    reader.viewer.require("read" if reader.viewer.can("read") else "run", reader.study)
    return await reader.answer(lambda opened: {"recruitment": recruitment(opened.progress())})


@routes.get("/v1/studies/{study}/trace", summary="The progress over time")
async def trace(
    reader: TheReader,
    points: Annotated[
        int, Query(ge=2, le=1_000, description="Most moments before the last.")
    ] = 200,
) -> Response:
    """Return the progress at earlier times, and now."""
    reader.viewer.require("read", reader.study)

    def find(opened: Study) -> dict[str, Any]:
        return {"trace": [document_of(moment) for moment in opened.trace(points)]}

    return await reader.answer(find, takes_long=True)


@routes.get("/v1/studies/{study}/weighted_means", summary="Means weighted by propensity")
async def weighted_means(reader: TheReader) -> Response:
    """Return the mean of every action, with each result weighted by its inverse propensity."""
    reader.viewer.require("read", reader.study)

    def find(opened: Study) -> dict[str, Any]:
        return {"weighted_means": opened.weighted_means()}

    return await reader.answer(find, takes_long=True)


@routes.get(
    "/v1/studies/{study}/verify",
    responses={202: {"description": "The audit of a long log goes on: ask again."}},
    summary="Audit the log",
)
async def verify(
    service: TheService,
    viewer: TheViewer,
    study: StudyName,
    head: Annotated[
        list[Annotated[str, Query(pattern="^[0-9a-f]{64}$")]] | None,
        Query(description="Hashes that were noted elsewhere; the log must contain them."),
    ] = None,
) -> Response:
    """Check the chain of hashes, and derive every decision again.

    If this takes long, the answer comes before the result: `ok` is null, and `events` says how
    many events were checked so far. The audit goes on; the same request later gets its result.
    """
    viewer.require("read", study)
    found, events = await service.audits.result(study, sorted(set(head or ())), viewer.actor)
    answer = document(
        {
            "ok": None if found is None else found.ok,
            "events": events,
            "first_difference": None if found is None else found.first_difference,
            "skipped": 0 if found is None else found.skipped,
        },
        {"Cache-Control": "no-store"},
    )
    if found is None:
        answer.status_code = 202
        answer.headers["Retry-After"] = "1"
    return answer


# --------------------------------------------------------------------------- the log


@routes.get(
    "/v1/studies/{study}/events",
    response_model=EventsAnswer,
    responses={200: {"content": {_NDJSON: {}}}},
    summary="The log",
)
async def events(
    request: Request,
    service: TheService,
    viewer: TheViewer,
    study: StudyName,
    after: Annotated[int, Query(ge=0, lt=2**63, description="Events after this number.")] = 0,
    limit: Limit = 100,
    wait: Annotated[float, Query(ge=0, description="Seconds to wait for new events.")] = 0.0,
) -> Response:
    """Return a page of events; as NDJSON, return a stream of all events."""
    viewer.require("read", study)
    if wait:
        await service.readers.run(study, _head, viewer.actor)
        seconds = min(wait, service.settings.longest_wait)
        await service.heads.wait(study, after, seconds, viewer.actor)
    headers, known = await unchanged(request, service, viewer, study)
    if known is not None:
        return known
    if _NDJSON in request.headers.get("accept", ""):
        head = await service.readers.run(study, _head, viewer.actor)
        return StreamingResponse(
            _lines(service, study, after, head, viewer.actor), headers=headers, media_type=_NDJSON
        )
    found = await service.readers.run(
        study, lambda opened: _records(opened, after, limit), viewer.actor
    )
    content = {
        "events": [event_document(record) for record in found],
        "next": found[-1].seq if len(found) == limit else None,
    }
    return document(content, headers)


def _head(study: Study) -> int:
    return study.n_events


def _records(study: Study, after: int, limit: int) -> list[Record]:
    session = study.session
    return list(session.store.records(session.id, after, after + limit))


async def _lines(
    service: Service, study: str, after: int, head: int, who: str
) -> AsyncIterator[str]:
    """Yield the events up to the head as lines, one page at a time as they are sent."""
    while after < head:
        limit = min(_PAGE, head - after)
        page = await service.readers.run_page(study, _page_of(after, limit), who)
        if not page:
            return
        yield page
        after += limit


def _page_of(after: int, limit: int) -> Callable[[Study], str]:
    def lines(study: Study) -> Iterator[str]:
        return (to_text(event_document(record)) + "\n" for record in _records(study, after, limit))

    return lambda study: "".join(lines(study))


@routes.get(
    "/v1/studies/{study}/export",
    response_class=FileResponse,
    responses={200: {"content": _FILES}},
    summary="The log as a file",
)
async def download(
    service: TheService,
    viewer: TheViewer,
    study: StudyName,
    format: Annotated[  # noqa: A002 - the name in the address
        Literal["jsonl", "csv", "parquet", "xlsx"], Query(description="The format of the file.")
    ] = "jsonl",
    secret: Annotated[
        bool, Query(description="Include the secret of the random order; for admins.")
    ] = False,
) -> Response:
    """Return the log as a file.

    Lines are sent as they are read, however long the log is. A Parquet file is completed before it
    is sent, and abandoned if this exceeds the time limit of an answer.

    Without the secret of a randomised study, a copy can be read but not verified.
    """
    viewer.require("admin" if secret else "read", study)
    headers = {
        "Cache-Control": "no-store",
        "Content-Disposition": _as_attachment(f"{_as_file_name(study)}.{format}"),
    }

    def row_of(opened: Study) -> StudyRow:
        row = opened.session.row()
        return row if secret else row._replace(secret=None)

    if format in ("parquet", "xlsx"):
        return await _whole_file(service, study, viewer.actor, row_of, headers, format)

    def begin(opened: Study) -> LogText:
        return LogText(opened.session.store, row_of(opened), opened.problem, f".{format}")

    text = await service.readers.run_page(study, begin, viewer.actor)
    return StreamingResponse(
        _parts(service, study, text, viewer.actor),
        headers=headers,
        media_type=_MEDIA_TYPES[format],
    )


async def _parts(service: Service, study: str, text: LogText, who: str) -> AsyncIterator[str]:
    """Yield a log's text, one part at a time as it is sent."""
    yield text.head()
    for after in range(0, text.events, _PAGE):
        yield await service.readers.run_page(study, _part_of(text, after), who)


def _part_of(text: LogText, after: int) -> Callable[[Study], str]:
    return lambda _: text.page(after, _PAGE)


async def _whole_file(
    service: Service,
    study: str,
    who: str,
    row_of: Callable[[Study], StudyRow],
    headers: dict[str, str],
    ending: str,
) -> Response:
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="fairtrial-"))
    path = folder / f"log.{ending}"

    def write(opened: Study) -> None:
        export(opened.session.store, row_of(opened), opened.problem, path)

    try:
        await service.readers.run_long(study, write, who)
    except BaseException:
        _remove(folder)
        raise
    return FileResponse(
        path,
        headers=headers,
        media_type=_MEDIA_TYPES[ending],
        background=BackgroundTask(_remove, folder),
    )


def _as_file_name(study: str) -> str:
    """Return a file name that every system accepts, whatever the study is called."""
    name = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in study)
    return name[:_LONGEST_FILE_NAME]


def _as_attachment(name: str) -> str:
    """Return the header that gives an answer a file name (RFC 6266); headers are ASCII."""
    plain = name.encode("ascii", "replace").decode().replace("?", "-")
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


def _remove(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink(missing_ok=True)
    folder.rmdir()
