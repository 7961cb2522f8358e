"""Checks, how they end, and how they are carried out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

__all__ = ["Check", "CheckFailed", "CheckSkipped", "Outcome", "Part", "carried_out"]

Part = Literal["installation", "operation"]
"""What a check belongs to: installation qualification (IQ), or operational qualification (OQ)."""

Outcome = Literal["passed", "failed", "skipped"]


class CheckFailed(Exception):
    """What was checked is not as it should be."""


class CheckSkipped(Exception):
    """The check does not apply here, or was not asked for."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check that was carried out.

    Parameters
    ----------
    part : {"installation", "operation"}
        What it belongs to.
    name : str
        What was checked.
    outcome : {"passed", "failed", "skipped"}
        How it ended.
    details : str
        What was found.
    seconds : float
        How long it took.
    """

    part: Part
    name: str
    outcome: Outcome
    details: str
    seconds: float


def carried_out(part: Part, name: str, action: Callable[[], str]) -> Check:
    """Carry out a check, and return how it ended.

    Parameters
    ----------
    part, name : str
        See `Check`.
    action : callable
        Returns what it found, or raises `CheckFailed` or `CheckSkipped`. Every other error is a
        failure too: an altered package may raise anything.
    """
    begun = time.perf_counter()
    outcome: Outcome
    try:
        outcome, details = "passed", action()
    except CheckSkipped as reason:
        outcome, details = "skipped", str(reason)
    except CheckFailed as reason:
        outcome, details = "failed", str(reason)
    except Exception as error:  # noqa: BLE001 - see above
        outcome, details = "failed", f"{type(error).__name__}: {error}"
    return Check(part, name, outcome, details, round(time.perf_counter() - begun, 3))
