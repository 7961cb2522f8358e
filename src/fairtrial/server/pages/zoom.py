"""Zoom: the range of results that charts over time show, given in the address of a page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from fastapi import Request

from fairtrial.presentation.ranges import Range
from fairtrial.presentation.words import clean, count, plural, shorten
from fairtrial.report.findings import Zoom
from fairtrial.report.html import Markup
from fairtrial.server.pages.site import fragment

__all__ = ["Wanted", "wanted"]

_NUMBER = re.compile(r"[0-9]{1,15}|[0-9]{1,3}(,[0-9]{3}){1,4}")
_SHOWN = 40
_STEPS = {
    "in": ("Zoom in", Range.closer),
    "out": ("Zoom out", Range.wider),
    "earlier": ("Earlier", Range.earlier),
    "later": ("Later", Range.later),
    "newest": ("Newest", Range.newest),
    "whole": ("Whole", Range.whole),
}
"""By name: the label of a link, and how it changes the range."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The range of results that a request asks for; empty texts for all results.

    Parameters
    ----------
    begin, end : str
        The ends of the range, as typed.
    """

    begin: str
    end: str

    @property
    def is_whole(self) -> bool:
        """Whether the whole experiment is requested."""
        return not self.begin and not self.end

    def range_of(self, total: int) -> Range | str:
        """Return the range for an experiment with `total` results, or why it is invalid."""
        begin, end = _number(self.begin, 0), _number(self.end, total)
        for name, given, value in (("From", self.begin, begin), ("To", self.end, end)):
            if value is None or value > total:
                return (
                    f"“{name}” must be a whole number from 0 to {count(total)}, the number of "
                    f"results so far, or empty; it is “{shorten(given, _SHOWN)}”."
                )
        assert begin is not None
        assert end is not None
        if begin >= end and not self.is_whole:
            return (
                f"“From” must be smaller than “To”; they are {count(begin)} and {count(end)}, and "
                f"there are {plural(total, 'result')} so far."
            )
        return Range(begin, end, total)


def _number(given: str, otherwise: int) -> int | None:
    if not given:
        return otherwise
    return int(given.replace(",", "")) if _NUMBER.fullmatch(given) else None


def wanted(request: Request) -> Wanted:
    """Return the range that a request asks for."""
    query = request.query_params
    return Wanted(query.get("from", "").strip(), query.get("to", "").strip())


def zoom_of(
    shown: Range, path: str, typed: Wanted, problem: str = "", *, is_reading_more: bool = False
) -> Zoom:
    """Return the zoom of a page: the range, with links and a form to choose another one.

    Parameters
    ----------
    shown : Range
        The range that the charts show.
    path : str
        The page's address.
    typed : Wanted
        What the user typed; shown again if it is invalid.
    problem : str
        What is wrong with it; empty if nothing is.
    is_reading_more : bool
        Whether more detail is still being read.
    """

    def controls(name: str) -> Markup:
        place = f"zoom-{name}"
        links = [
            (key, text, None if (there := step(shown)) == shown else _address(path, there, place))
            for key, (text, step) in _STEPS.items()
        ]
        fields = typed if problem else _as_fields(shown)
        return Markup(
            fragment(
                "zoom.html",
                name=name,
                place=place,
                path=path,
                shown=shown,
                links=links,
                fields=(("from", "From", clean(fields.begin)), ("to", "to", clean(fields.end))),
                problem=problem,
                is_reading_more=is_reading_more,
            )
        )

    return Zoom(shown, controls)


def _as_fields(shown: Range) -> Wanted:
    return Wanted(count(shown.begin), "" if shown.follows else count(shown.end))


def _address(path: str, there: Range, place: str) -> str:
    query: Mapping[str, int] = {} if there.is_whole else _query(there)
    return f"{path}{'?' if query else ''}{urlencode(query)}#{place}"


def _query(there: Range) -> dict[str, int]:
    """Return a range for an address; without an end if it should grow with the study."""
    return {"from": there.begin} | ({} if there.follows else {"to": there.end})
