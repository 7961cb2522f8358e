"""Telemetry for the operator of the service: metrics for Prometheus, and a log of JSON lines.

Neither contains outcomes, labels, tokens or people's addresses. Clients cannot make up values for
the labels of a metric.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import IO, Any

from fastapi import FastAPI
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairtrial.core.logs import LogEvent
from fairtrial.errors import StudyError

__all__ = ["Telemetry", "configure_logs", "request_id_of"]

_REFUSED = LogEvent("server", "refused", logging.WARNING, ("token", "reason", "request"))
_REQUEST = LogEvent(
    "server", "request", logging.INFO, ("request", "method", "route", "status", "seconds")
)

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_NO_ROUTE = "none"
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_HEADER = b"x-request-id"
_NOTES = "fairtrial.notes"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_STATUSES = ("running", "decided", "undecided")
_REASONS = frozenset({"no token", "unknown token", "scope", "study", "rate", "origin", "host"})
_OTHER = "other"


class Telemetry:
    """Counts what the service does.

    Parameters
    ----------
    studies : callable, optional
        Returns the number of studies by status; called when metrics are requested.
    queue : callable, optional
        Returns the number of queued writes.

    Examples
    --------
    >>> telemetry = Telemetry(studies=lambda: {"running": 2})
    >>> telemetry.committed(operations=17, seconds=0.006)
    >>> b'fairtrial_studies{status="running"} 2.0' in telemetry.metrics()[0]
    True
    """

    def __init__(
        self,
        studies: Callable[[], Mapping[str, int]] | None = None,
        queue: Callable[[], int] | None = None,
    ) -> None:
        registry = self._registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._requests = Counter(
            "fairtrial_requests",
            "Requests that were answered.",
            ("method", "route", "status"),
            registry=registry,
        )
        self._latency = Histogram(
            "fairtrial_request_seconds",
            "Time from a request to the end of its answer.",
            ("method", "route"),
            buckets=_SECONDS,
            registry=registry,
        )
        self._in_flight = Gauge(
            "fairtrial_requests_in_flight", "Requests that are being answered.", registry=registry
        )
        self._commits = Histogram(
            "fairtrial_commit_seconds",
            "Time of a commit, with all writes in it.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._groups = Histogram(
            "fairtrial_commit_operations",
            "Writes that share a commit.",
            buckets=_SIZES,
            registry=registry,
        )
        self._refusals = Counter(
            "fairtrial_refusals",
            "Requests that were refused because of their sender.",
            ("reason",),
            registry=registry,
        )
        self._webhooks = Counter(
            "fairtrial_webhooks",
            "Attempts to deliver a webhook.",
            ("result",),
            registry=registry,
        )
        waiting = Gauge("fairtrial_queue", "Writes that wait for their turn.", registry=registry)
        if queue is not None:
            waiting.set_function(lambda: float(queue()))
        if studies is not None:
            registry.register(_Studies(studies))

    # ------------------------------------------------------------------- what happened

    def committed(self, operations: int, seconds: float) -> None:
        """Count a commit."""
        self._commits.observe(seconds)
        self._groups.observe(operations)

    def refused(self, token: str | None, reason: str, request_id: str | None = None) -> None:
        """Count and log a request that was refused because of its sender.

        Parameters
        ----------
        token : str or None
            The name of the token, if it is known.
        reason : str
            ``"no token"``, ``"unknown token"``, ``"scope"``, ``"study"``, ``"rate"``,
            ``"origin"`` or ``"host"``; any other counts as ``"other"``.
        request_id : str, optional
            The id of the request.
        """
        known = reason if reason in _REASONS else _OTHER
        self._refusals.labels(known).inc()
        about = {"token": token, "reason": known, "request": request_id}
        _REFUSED.log(**_given(about))

    def notified(self, *, delivered: bool) -> None:
        """Count an attempt to deliver a webhook."""
        self._webhooks.labels("delivered" if delivered else "failed").inc()

    def metrics(self) -> tuple[bytes, str]:
        """Return all metrics as text, and its content type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST

    # -------------------------------------------------------------------- applications

    def watch(self, app: FastAPI) -> None:
        """Count and log the requests of an application; call it after adding its middleware.

        Each request gets an id: from its header ``X-Request-ID`` if valid, otherwise a new one.
        The answer and the log contain it, and `request_id_of` returns it.
        """
        app.add_middleware(_Watched, telemetry=self)
        app.user_middleware.append(Middleware(_Routed))

    def begun(self) -> None:
        """Note the arrival of a request."""
        self._in_flight.inc()

    def answered(
        self, method: str, route: str, status: int, seconds: float, request_id: str
    ) -> None:
        """Count and log a request that was answered."""
        self._in_flight.dec()
        known = method if method in _METHODS else _OTHER
        self._requests.labels(known, route, str(status)).inc()
        self._latency.labels(known, route).observe(seconds)
        facts = {
            "request": request_id,
            "method": known,
            "route": route,
            "status": status,
            "seconds": round(seconds, 6),
        }
        _REQUEST.log(**facts)


class _Studies(Collector):
    """The number of studies by status, counted when metrics are requested."""

    def __init__(self, count: Callable[[], Mapping[str, int]]) -> None:
        self._count = count

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Yield the metric."""
        family = GaugeMetricFamily("fairtrial_studies", "Studies.", labels=["status"])
        try:
            counts = self._count()
        except StudyError:
            # The storage cannot be reached; report the other metrics without this one.
            return
        for status in _STATUSES:
            family.add_metric([status], float(counts.get(status, 0)))
        yield family

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return a description of the metric, without counting."""
        return [GaugeMetricFamily("fairtrial_studies", "Studies.", labels=["status"])]


class _Watched:
    """The outermost middleware: measures the time of each request and gives it an id."""

    def __init__(self, app: ASGIApp, telemetry: Telemetry) -> None:
        self._app = app
        self._telemetry = telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        identity = _request_id(scope["headers"])
        notes: dict[str, str] = {"request_id": identity, "route": _NO_ROUTE}
        # Inner middleware may copy the scope, but the copies share this dictionary.
        scope[_NOTES] = notes
        status = 500

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message["headers"], (_HEADER, identity.encode())]
                message = {**message, "headers": headers}
            await send(message)

        began = time.perf_counter()
        self._telemetry.begun()
        try:
            await self._app(scope, receive, sent)
        finally:
            seconds = time.perf_counter() - began
            self._telemetry.answered(scope["method"], notes["route"], status, seconds, identity)


class _Routed:
    """The innermost middleware: records which route handled a request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        finally:
            path = getattr(scope.get("route"), "path", None)
            if path is not None and _NOTES in scope:
                scope[_NOTES]["route"] = path


def _request_id(headers: Iterable[tuple[bytes, bytes]]) -> str:
    given = [value for name, value in headers if name == _HEADER]
    if len(given) == 1 and _REQUEST_ID.fullmatch(given[0]):
        return given[0].decode()
    return secrets.token_hex(8)


def request_id_of(scope: Mapping[str, Any]) -> str | None:
    """Return the id of the request with an ASGI scope; None if it is not watched."""
    notes: Mapping[str, str] = scope.get(_NOTES, {})
    return notes.get("request_id")


# ------------------------------------------------------------------------------- the log


def configure_logs(stream: IO[str] | None = None) -> None:
    """Make the service and its HTTP server log to standard error, one JSON object per line.

    Parameters
    ----------
    stream : file, optional
        Where to write instead of standard error.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Lines())
    for name in ("fairtrial.server", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = []
        logger.propagate = name == "uvicorn.error"
        logger.setLevel(logging.INFO)
    for name in ("fairtrial.server", "uvicorn"):
        logging.getLogger(name).handlers = [handler]
    # The access log would contain every path, and so the names of studies and pulls.
    logging.getLogger("uvicorn.access").disabled = True


class _Lines(logging.Formatter):
    """Formats a record as one line of JSON.

    Of an exception it includes the class and the traceback but not the message, which may quote an
    outcome or a user's input.
    """

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "at": at,
            "level": record.levelname.lower(),
            "event": getattr(record, "event", None) or record.getMessage().partition("\n")[0],
            **getattr(record, "facts", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
            line["trace"] = [
                f"{frame.filename}:{frame.lineno} in {frame.name}"
                for frame in traceback.extract_tb(record.exc_info[2])
            ]
        return json.dumps(line)


def _given(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: fact for name, fact in facts.items() if fact is not None}
