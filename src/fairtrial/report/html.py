"""HTML elements as text; everything that is not markup is escaped."""

from __future__ import annotations

import html
from collections.abc import Collection, Iterable, Sequence

from fairtrial.presentation.words import clean, safe, shorten

__all__ = [
    "LABEL_LENGTH",
    "Markup",
    "bdi",
    "bullets",
    "element",
    "folded",
    "label",
    "section",
    "table",
    "text_of",
]

LABEL_LENGTH = 48
"""Longer labels are shortened in the middle, except in the answer itself."""

_ROWS_UNFOLDED = 24
_EMPTY_ELEMENTS = frozenset({"meta", "circle", "line", "rect", "path"})


class Markup(str):
    """Text that is already markup."""

    __slots__ = ()


def element(tag: str, *children: object, **attributes: object) -> Markup:
    """Return an element; attribute names lose a trailing ``_``, and ``_`` inside becomes ``-``.

    Children are escaped unless they are `Markup`; None is left out, as a child or an attribute.

    Examples
    --------
    >>> element("p", "a < b", class_="note")
    '<p class="note">a &lt; b</p>'
    """
    shown = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html.escape(safe(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    if tag in _EMPTY_ELEMENTS:
        return Markup(f"<{tag}{shown}>" if tag == "meta" else f"<{tag}{shown}/>")
    return Markup(f"<{tag}{shown}>{text_of(children)}</{tag}>")


def text_of(children: Iterable[object]) -> Markup:
    """Return the children joined into one text, escaped unless they are markup."""
    return Markup(
        "".join(
            child if isinstance(child, Markup) else html.escape(safe(child))
            for child in children
            if child is not None
        )
    )


def bdi(text: object, full: object = None) -> Markup:
    """Return a text whose direction of writing does not affect its surroundings."""
    return element("bdi", text, title=full)


def label(text: object) -> Markup:
    """Return a label, shortened in the middle if it is long."""
    short = shorten(text, LABEL_LENGTH)
    return bdi(short, None if short == clean(text) else clean(text))


def table(
    caption: str,
    heads: Sequence[object],
    rows: Iterable[Sequence[object]],
    *,
    words: Collection[int] | None = None,
) -> Markup:
    """Return a table in a box that scrolls if the page is too narrow.

    The first cell of each row is its header. The columns in `words` (by default all) contain
    words; the others contain numbers, which are aligned to the right.
    """
    kinds = [
        "words" if words is None or column in words else "number" for column in range(len(heads))
    ]
    head = [
        element("th", cell, scope="col", class_=kind)
        for cell, kind in zip(heads, kinds, strict=True)
    ]
    inner = element(
        "table",
        element("caption", element("span", caption)),
        element("thead", element("tr", *head)),
        element("tbody", *(_table_row(row, kinds) for row in rows)),
    )
    # The tab index lets keyboard users reach the box and scroll it.
    return element("div", inner, class_="scroll", role="region", aria_label=caption, tabindex="0")


def _table_row(row: Sequence[object], kinds: Sequence[str]) -> Markup:
    head = element("th", row[0], scope="row", class_=kinds[0])
    cells = [
        element("td", cell, class_=kind) for cell, kind in zip(row[1:], kinds[1:], strict=True)
    ]
    return element("tr", head, *cells)


def section(name: str, *content: object) -> Markup:
    """Return a section with its title."""
    place = name.lower().replace(" ", "-")
    return element("section", element("h2", name, id=place), *content, aria_labelledby=place)


def bullets(points: Iterable[object]) -> Markup:
    """Return a list of points."""
    return element("ul", *(element("li", point) for point in points))


def folded(summary: str, content: Markup, rows: int) -> Markup:
    """Return content folded under a line that opens it; short content is open at first."""
    is_open = "" if rows <= _ROWS_UNFOLDED else None
    return element("details", element("summary", summary), content, open=is_open)
