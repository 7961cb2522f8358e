"""Delete what a service no longer needs: old answers, and expired sessions."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from fairtrial.errors import FairtrialError
from fairtrial.server.service import Service
from fairtrial.study import Store

__all__ = ["forget_old"]

_EVERY = 3_600.0
_ANSWERS_KEPT = 7 * 24 * 3_600 * 1_000_000
"""Microseconds: a week, after which no client repeats the same request."""


async def forget_old(service: Service) -> None:
    """Delete old answers and sessions, now and every hour, until cancelled."""
    while True:
        # If the storage is busy or unreachable, try again in an hour.
        with suppress(FairtrialError):
            await service.writer.run_on_store(_forget)
        await asyncio.sleep(_EVERY)


def _forget(store: Store) -> None:
    now = store.now()
    store.drop_answers(now - _ANSWERS_KEPT, now)
