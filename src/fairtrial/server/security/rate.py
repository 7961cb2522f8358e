"""Limits of the request rate."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from fairtrial.server.problems import Refusal

__all__ = ["Rate"]

_MOST_KNOWN = 10_000


class Rate:
    """A rate limit for each name: `per_second` in the long run, with bursts of twice as many.

    Parameters
    ----------
    per_second : float
        Largest number of requests per second.
    clock : callable
        Returns seconds; never runs backwards.
    """

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._most = max(2.0 * per_second, 1.0)
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> None:
        """Count one request.

        Raises
        ------
        Refusal
            If there were too many; it says after how many seconds the next one is accepted.
        """
        now = self._clock()
        left, at = self._left.pop(name, (self._most, now))
        left = min(left + (now - at) * self._per_second, self._most)
        if left < 1.0:
            self._left[name] = left, now
            wait = str(max(1, round((1.0 - left) / self._per_second + 0.5)))
            raise Refusal(
                429,
                "service-busy",
                f"more than {self._per_second:g} requests a second",
                headers={"Retry-After": wait},
                reason="rate",
            )
        self._left[name] = left - 1.0, now
        if len(self._left) > _MOST_KNOWN:
            self._left.popitem(last=False)
