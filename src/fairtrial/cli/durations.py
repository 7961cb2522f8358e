"""Values of options: times as people write them (``30m``, ``12h``, ``2d``), and delta."""

from __future__ import annotations

import re

import click

from fairtrial.core.validation import check_error_probability
from fairtrial.errors import InvalidArgument

__all__ = ["error_probability", "parse_seconds", "seconds"]

_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")


def parse_seconds(given: str) -> float | None:
    """Return a time in seconds; None if the text is not a time.

    Examples
    --------
    >>> parse_seconds("12h"), parse_seconds("1.5m"), parse_seconds("soon")
    (43200.0, 90.0, None)
    """
    match = _DURATION.fullmatch(given)
    return None if match is None else float(match[1]) * _SECONDS[match[2]]


def seconds(_ctx: click.Context, _parameter: click.Parameter, given: str | None) -> float | None:
    """Return the value of an option in seconds; a callback for click."""
    if given is None:
        return None
    found = parse_seconds(given)
    if found is None:
        raise click.BadParameter(
            f"must be a number with s, m, h, d or w, such as 12h or 2d; got {given!r}"
        )
    return found


def error_probability(
    _ctx: click.Context, _parameter: click.Parameter, given: float | None
) -> float | None:
    """Return the value of an option that is an accepted probability of being wrong."""
    try:
        return None if given is None else check_error_probability("delta", given)
    except InvalidArgument as error:
        raise click.BadParameter(f"{error.accepted}; got {given:g}") from None
