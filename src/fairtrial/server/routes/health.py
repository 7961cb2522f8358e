"""Routes for monitoring: whether the service runs, and whether it can do its work."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from fairtrial.errors import StudyError
from fairtrial.server.problems import Refusal
from fairtrial.server.routes.common import STATUSES, document
from fairtrial.server.service import TheService, TheViewer
from fairtrial.study import Store

routes = APIRouter(tags=["health"])

_PATIENCE = 2.0
"""Seconds within which reading from the storage must succeed."""


@routes.get("/health/live", summary="Whether the process is running")
async def live() -> Response:
    """Answer that the process is running."""
    return document({"status": "ok"}, {"Cache-Control": "no-store"})


@routes.get(
    "/health/ready",
    responses={503: STATUSES[503]},
    summary="Whether the service can do its work",
)
async def ready(service: TheService) -> Response:
    """Answer whether the storage can be read and more writes are accepted."""
    try:
        async with asyncio.timeout(_PATIENCE):
            await service.readers.run_on_health(_read_something)
    except (StudyError, TimeoutError):
        raise _not_ready("the storage cannot be used") from None
    if not service.writer.accepts:
        raise _not_ready("no more writes are accepted")
    return document({"status": "ok"}, {"Cache-Control": "no-store"})


@routes.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={status: STATUSES[status] for status in (401, 403, 429)},
    summary="Metrics for Prometheus",
)
async def metrics(service: TheService, viewer: TheViewer) -> Response:
    """Return counts and times as text, to tokens that may read all studies."""
    # Never trust the address: behind a proxy, every request may seem to come from this machine.
    viewer.require("read")
    viewer.require_all()
    content, media_type = await asyncio.to_thread(service.telemetry.metrics)
    return Response(content, headers={"Cache-Control": "no-store", "Content-Type": media_type})


def _read_something(store: Store) -> None:
    # No study has this name, but the database still searches for it.
    store.find_study("")


def _not_ready(reason: str) -> Refusal:
    return Refusal(503, "storage-unreachable", reason, headers={"Retry-After": "5"})
