"""Routes for monitoring: whether the service runs, and whether it can do its work."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from fairtrial.server.problems import Refusal
from fairtrial.server.routes.common import STATUSES, document
from fairtrial.server.service import TheService, TheViewer

routes = APIRouter(tags=["health"])


@routes.head("/health/live", include_in_schema=False)
@routes.get("/health/live", summary="Whether the process is running")
async def live() -> Response:
    """Answer that the process is running."""
    return document({"status": "ok"}, {"Cache-Control": "no-store"})


@routes.head("/health/ready", include_in_schema=False)
@routes.get(
    "/health/ready",
    responses={503: STATUSES[503]},
    summary="Whether the service can do its work",
)
async def ready(service: TheService) -> Response:
    """Answer whether the storage can be read and written, and more writes are accepted."""
    reason = await service.readiness.problem()
    if reason is not None:
        raise Refusal(503, "storage-unreachable", reason, headers={"Retry-After": "5"})
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
