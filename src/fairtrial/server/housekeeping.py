"""What a service forgets: answers that nobody asks for again, and sessions that are over."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from fairtrial.errors import FairtrialError
from fairtrial.server.service import Service
from fairtrial.study import Store

__all__ = ["forget_old"]

_EVERY = 3_600.0
_ANSWERS_KEPT = 7 * 24 * 3_600 * 1_000_000
"""Microseconds: after a week no client tries the same request again."""


async def forget_old(service: Service) -> None:
    """Forget what is old, now and every hour, until cancelled."""
    while True:
        # If the storage is busy or away, another hour will do.
        with suppress(FairtrialError):
            await service.writer.run_on_store(_forget)
        await asyncio.sleep(_EVERY)


def _forget(store: Store) -> None:
    now = store.now()
    store.drop_answers(now - _ANSWERS_KEPT, now)
